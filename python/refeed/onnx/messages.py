"""The classes of the ONNX messages and of refeed's extension messages."""

from types import BuiltinFunctionType

from refeed._native import _onnx

__all__ = [
    name
    for name, value in vars(_onnx).items()
    if not name.startswith("_") and not isinstance(value, BuiltinFunctionType)
]

globals().update({name: getattr(_onnx, name) for name in __all__})
