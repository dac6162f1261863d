"""Tensors from Python values."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from refeed.onnx._helper.dtypes import element_type, tensor_dtype_to_np_dtype
from refeed.onnx._helper.packing import Array, Bytes, pack, packed_bytes, saturate_cast, to_float8e8m0
from refeed.onnx.messages import SparseTensorProto, TensorProto

_SATURATED = {
    TensorProto.FLOAT8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ,
    TensorProto.FLOAT8E5M2,
    TensorProto.FLOAT8E5M2FNUZ,
}


def tobytes_little_endian(array: Array) -> bytes:
    """Return the elements of an array in row-major order, the low byte of each first.

    Parameters
    ----------
    array : numpy.ndarray
        Of any layout and byte order.
    """
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and np.little_endian is False):
        array = array.astype(array.dtype.newbyteorder("<"))
    return array.tobytes()


def bytes_of_codes(array: Array, bits: int) -> bytes:
    """Return the bytes of `raw_data` for an array whose elements take `bits` bits.

    Elements narrower than a byte have a byte each in the array, and are packed.

    Raises
    ------
    ValueError
        Elements to be packed take more than a byte each.
    """
    if bits not in (2, 4, 6):
        return tobytes_little_endian(array)
    if array.dtype.itemsize != 1:
        raise ValueError(f"elements of {bits} bits are packed from arrays of 1 byte an element, got {array.dtype}")
    return pack(_codes(array), bits).tobytes()


def _codes(array: Array) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def make_tensor(
    name: str,
    data_type: int,
    dims: Sequence[int],
    vals: npt.ArrayLike | bytes,
    raw: bool = False,
) -> TensorProto:
    """Make a tensor.

    Parameters
    ----------
    name : str
        The tensor's name.
    data_type : int
        A value of `TensorProto.DataType`.
    dims : sequence of int
        The shape.
    vals : array_like or bytes
        As many elements as the shape has, in row-major order, at any nesting. They are cast to the element type;
        float8 types saturate. When `raw`, the bytes of `raw_data`, or an array whose bytes they are; an array has a
        byte for each element that is narrower than one.
    raw : bool, default False
        Whether `vals` goes to `raw_data`. Otherwise it goes to the field that `tensor_dtype_to_field` names.

    Returns
    -------
    TensorProto

    Raises
    ------
    KeyError
        `data_type` is no element type.
    ValueError
        A size is negative, the number of elements or bytes is not the shape's, or an element cannot be cast.
    TypeError
        A value has a wrong type, or strings are to be raw.
    OverflowError
        An integer is out of the element type's range.
    ImportError
        Values are to be cast to a type of `ml_dtypes`, which is not installed.

    Examples
    --------
    >>> make_tensor("scale", TensorProto.FLOAT, [2], [1, 0.5]).float_data
    [1.0, 0.5]
    """
    tensor = TensorProto()
    tensor.data_type = data_type
    tensor.name = name
    tensor.dims.extend(dims)
    element = element_type(data_type)
    sizes = list(tensor.dims)
    if any(size < 0 for size in sizes):
        raise ValueError(f"tensor {name!r}: sizes are at least 0, got {sizes}")
    count = math.prod(sizes)
    if raw:
        tensor.raw_data = _raw(name, element.bits, vals, count)
        return tensor

    values = _objects(vals) if data_type == TensorProto.STRING else _cast(data_type, vals)
    if len(values) != count:
        raise ValueError(f"tensor {name!r}: the shape {sizes} takes {count} elements, got {len(values)}")
    stored = _strings(values) if isinstance(values, list) else _stored(values, element.bits)
    getattr(tensor, element.field).extend(stored)
    return tensor


def _raw(name: str, bits: int, vals: Any, count: int) -> bytes:
    if bits == 0:
        raise TypeError(f"tensor {name!r}: strings are not raw; leave raw out")
    if isinstance(vals, np.ndarray):
        data = bytes_of_codes(vals, bits)
    elif isinstance(vals, bytes):
        data = vals
    else:
        raise TypeError(f"tensor {name!r}: raw values are bytes or a NumPy array, got {type(vals).__name__}")
    expected = packed_bytes(count, bits)
    if len(data) != expected:
        raise ValueError(f"tensor {name!r}: {count} elements of {bits} bits take {expected} bytes, got {len(data)}")
    return data


def _cast(data_type: int, vals: npt.ArrayLike) -> Array:
    """Return the elements as an array of rank 1 of the element type."""
    dtype = tensor_dtype_to_np_dtype(data_type)
    if data_type in _SATURATED:
        return saturate_cast(np.asarray(vals), dtype).reshape(-1)
    if data_type == TensorProto.FLOAT8E8M0:
        return to_float8e8m0(vals).reshape(-1)
    return np.asarray(vals, dtype=dtype).reshape(-1)


def _stored(values: Array, bits: int) -> list[Any]:
    """Return what the typed field holds: numbers as they are, pairs of a complex one, codes of what NumPy lacks."""
    if values.dtype.kind == "c":
        values = values.view(values.real.dtype)
    elif bits in (2, 4):
        values = pack(_codes(values), bits)
    elif values.dtype.kind == "b" or values.dtype == np.float16 or values.dtype.type.__module__ == "ml_dtypes":
        values = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
    stored: list[Any] = values.tolist()
    return stored


def _objects(vals: Any) -> list[Any]:
    """Return values in row-major order as they are.

    An array of NumPy's fixed-width strings would drop the zero bytes at their ends.
    """
    found: list[Any] = np.array(vals, dtype=object).reshape(-1).tolist()
    for value in found:
        if isinstance(value, (list, tuple)):
            raise ValueError(f"rows of values differ in length, at {value!r}")
    return found


def _strings(values: list[Any]) -> list[bytes]:
    for value in values:
        if not isinstance(value, (str, bytes)):
            raise TypeError(f"strings are str or bytes, got {value!r} of type {type(value).__name__}")
    return [value.encode("utf-8") if isinstance(value, str) else value for value in values]


def make_sparse_tensor(values: TensorProto, indices: TensorProto, dims: Sequence[int]) -> SparseTensorProto:
    """Make a sparse tensor.

    Parameters
    ----------
    values : TensorProto
        The elements that are not zero, rank 1.
    indices : TensorProto
        Where they are: INT64, one flat index for each (rank 1), or one index for each dimension (rank 2).
    dims : sequence of int
        The shape.
    """
    made = SparseTensorProto()
    made.values.CopyFrom(values)
    made.indices.CopyFrom(indices)
    made.dims.extend(dims)
    return made
