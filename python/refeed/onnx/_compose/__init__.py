"""The parts of `refeed.onnx.compose`, one concern a module."""
