"""What `refeed.onnx.helper` and `refeed.onnx.numpy_helper` are made of, one concept a module."""
