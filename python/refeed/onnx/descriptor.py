"""The classes of `DESCRIPTOR`: what a message, a field, a oneof or an enum is."""

from refeed._native import _onnx

__all__ = [name for name in vars(_onnx._descriptor) if not name.startswith("_")]

globals().update({name: getattr(_onnx._descriptor, name) for name in __all__})
