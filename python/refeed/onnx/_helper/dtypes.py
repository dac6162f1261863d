"""Element types of tensors: their names, widths, NumPy types, and the field that holds values that are not raw."""

import importlib
import sys
from collections.abc import KeysView
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from refeed.onnx.messages import TensorProto

DType: TypeAlias = np.dtype[Any]


class ElementType(NamedTuple):
    """What one value of `TensorProto.DataType` means."""

    name: str
    #: The NumPy type; one of `ml_dtypes` when `extension` is set.
    numpy: str
    bits: int
    #: The field of `TensorProto` that holds values when `raw_data` does not, and that field's own element type.
    field: str
    stored_as: int
    extension: bool = False


_FLOAT, _INT32, _INT64, _STRING, _DOUBLE, _UINT64 = 1, 6, 7, 8, 11, 13

ELEMENT_TYPES = {
    1: ElementType("FLOAT", "float32", 32, "float_data", _FLOAT),
    2: ElementType("UINT8", "uint8", 8, "int32_data", _INT32),
    3: ElementType("INT8", "int8", 8, "int32_data", _INT32),
    4: ElementType("UINT16", "uint16", 16, "int32_data", _INT32),
    5: ElementType("INT16", "int16", 16, "int32_data", _INT32),
    6: ElementType("INT32", "int32", 32, "int32_data", _INT32),
    7: ElementType("INT64", "int64", 64, "int64_data", _INT64),
    # Strings have no width and are never raw.
    8: ElementType("STRING", "object", 0, "string_data", _STRING),
    9: ElementType("BOOL", "bool", 8, "int32_data", _INT32),
    10: ElementType("FLOAT16", "float16", 16, "int32_data", _INT32),
    11: ElementType("DOUBLE", "float64", 64, "double_data", _DOUBLE),
    12: ElementType("UINT32", "uint32", 32, "uint64_data", _UINT64),
    13: ElementType("UINT64", "uint64", 64, "uint64_data", _UINT64),
    # Complex numbers are pairs, real part first.
    14: ElementType("COMPLEX64", "complex64", 64, "float_data", _FLOAT),
    15: ElementType("COMPLEX128", "complex128", 128, "double_data", _DOUBLE),
    16: ElementType("BFLOAT16", "bfloat16", 16, "int32_data", _INT32, extension=True),
    17: ElementType("FLOAT8E4M3FN", "float8_e4m3fn", 8, "int32_data", _INT32, extension=True),
    18: ElementType("FLOAT8E4M3FNUZ", "float8_e4m3fnuz", 8, "int32_data", _INT32, extension=True),
    19: ElementType("FLOAT8E5M2", "float8_e5m2", 8, "int32_data", _INT32, extension=True),
    20: ElementType("FLOAT8E5M2FNUZ", "float8_e5m2fnuz", 8, "int32_data", _INT32, extension=True),
    21: ElementType("UINT4", "uint4", 4, "int32_data", _INT32, extension=True),
    22: ElementType("INT4", "int4", 4, "int32_data", _INT32, extension=True),
    23: ElementType("FLOAT4E2M1", "float4_e2m1fn", 4, "int32_data", _INT32, extension=True),
    24: ElementType("FLOAT8E8M0", "float8_e8m0fnu", 8, "int32_data", _INT32, extension=True),
    25: ElementType("UINT2", "uint2", 2, "int32_data", _INT32, extension=True),
    26: ElementType("INT2", "int2", 2, "int32_data", _INT32, extension=True),
    27: ElementType("FLOAT6E2M3", "float6_e2m3fn", 6, "int32_data", _INT32, extension=True),
    28: ElementType("FLOAT6E3M2", "float6_e3m2fn", 6, "int32_data", _INT32, extension=True),
}


def element_type(tensor_dtype: int) -> ElementType:
    """Look up an element type.

    Raises
    ------
    KeyError
        It is not one that tensors can have; `UNDEFINED` is none either.
    """
    try:
        return ELEMENT_TYPES[tensor_dtype]
    except KeyError:
        raise KeyError(f"unknown element type {tensor_dtype!r}: expected a value of TensorProto.DataType") from None


def ml_dtypes(wanted: str) -> Any:
    """Import `ml_dtypes`, which has the types that NumPy lacks.

    Raises
    ------
    ImportError
        It is not installed; `wanted` says what for.
    """
    try:
        return importlib.import_module("ml_dtypes")
    except ImportError as error:
        message = f"{wanted} need the package ml_dtypes: pip install refeed[ml]"
        raise ImportError(message, name="ml_dtypes") from error


def _extension(element: ElementType) -> DType:
    module = ml_dtypes(f"arrays of {element.name}")
    try:
        found: DType = np.dtype(getattr(module, element.numpy))
    except AttributeError as error:
        message = f"ml_dtypes {module.__version__} has no {element.numpy}: pip install --upgrade refeed[ml]"
        raise ImportError(message, name="ml_dtypes") from error
    return found


def tensor_dtype_to_np_dtype(tensor_dtype: int) -> DType:
    """Return the NumPy type of an element type.

    Parameters
    ----------
    tensor_dtype : int
        A value of `TensorProto.DataType`.

    Returns
    -------
    numpy.dtype
        A native type, one of `ml_dtypes` for what NumPy lacks, `object` for strings.

    Raises
    ------
    KeyError
        Not an element type.
    ImportError
        The type is one of `ml_dtypes`, which is not installed: `pip install refeed[ml]`.

    Examples
    --------
    >>> tensor_dtype_to_np_dtype(TensorProto.FLOAT)
    dtype('float32')
    """
    element = element_type(tensor_dtype)
    return _extension(element) if element.extension else np.dtype(element.numpy)


def tensor_dtype_to_storage_tensor_dtype(tensor_dtype: int) -> int:
    """Return the element type of the field that holds values of `tensor_dtype` when they are not raw.

    >>> tensor_dtype_to_storage_tensor_dtype(TensorProto.BOOL) == TensorProto.INT32
    True
    """
    return element_type(tensor_dtype).stored_as


def tensor_dtype_to_string(tensor_dtype: int) -> str:
    """Return the name of an element type.

    >>> tensor_dtype_to_string(TensorProto.FLOAT)
    'TensorProto.FLOAT'
    """
    return f"TensorProto.{element_type(tensor_dtype).name}"


def tensor_dtype_to_field(tensor_dtype: int) -> str:
    """Return the name of the field of `TensorProto` that holds values of `tensor_dtype` when they are not raw.

    >>> tensor_dtype_to_field(TensorProto.BFLOAT16)
    'int32_data'
    """
    return element_type(tensor_dtype).field


_NATIVE = {np.dtype(element.numpy): number for number, element in ELEMENT_TYPES.items() if not element.extension}
_EXTENSIONS = {element.numpy: number for number, element in ELEMENT_TYPES.items() if element.extension}


def np_dtype_to_tensor_dtype(np_dtype: DType) -> int:
    """Return the element type of tensors that hold a NumPy type.

    Parameters
    ----------
    np_dtype : numpy.dtype
        A native type in this machine's byte order, a type of `ml_dtypes`, `object` or a string type.

    Returns
    -------
    int
        A value of `TensorProto.DataType`.

    Raises
    ------
    ValueError
        No element type holds it.
    """
    if isinstance(np_dtype, np.dtype):
        number = _NATIVE.get(np_dtype)
        if number is None and "ml_dtypes" in sys.modules and np_dtype.type.__module__ == "ml_dtypes":
            number = _EXTENSIONS.get(np_dtype.name)
        if number is not None:
            return number
    if np.issubdtype(np_dtype, np.str_):
        return TensorProto.STRING
    hint = ""
    if isinstance(np_dtype, np.dtype) and not np_dtype.isnative:
        hint = f"; convert it to this machine's byte order, {np_dtype.newbyteorder('=')!r}, first"
    raise ValueError(f"no tensor holds elements of type {np_dtype!r}{hint}")


def get_all_tensor_dtypes() -> KeysView[int]:
    """Return every element type that a tensor can have."""
    return ELEMENT_TYPES.keys()
