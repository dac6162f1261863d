"""The messages under the name of the `onnx` package's module."""

from refeed.onnx.messages import *  # noqa: F403
from refeed.onnx.messages import __all__ as __all__
