"""The namespace of the `onnx` package, as far as refeed has it: `refeed.onnx.reference`."""
