"""The namespace of the `onnx` package: messages with protobuf's interface, and what works on them."""

from refeed.onnx.messages import *  # noqa: F403  # isort: skip

from refeed.onnx import external_data_helper, helper, numpy_helper  # noqa: F401
