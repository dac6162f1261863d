"""The namespace of the `onnx` package: messages with protobuf's interface, and what works on them."""

from refeed.onnx.messages import *  # noqa: F403
