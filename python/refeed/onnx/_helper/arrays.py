"""Arrays of tensors and the reverse."""

import math
from typing import Any

import numpy as np

from refeed._native import _onnx
from refeed.onnx._helper.dtypes import DType, element_type, np_dtype_to_tensor_dtype, tensor_dtype_to_np_dtype
from refeed.onnx._helper.external import read_external_data, uses_external_data
from refeed.onnx._helper.packing import Array, Bytes, unpack
from refeed.onnx._helper.tensors import bytes_of_codes
from refeed.onnx.messages import TensorProto


def to_array(tensor: TensorProto, base_dir: str = "", *, copy: bool | None = None) -> Array:
    """Return a tensor's elements as an array.

    Parameters
    ----------
    tensor : TensorProto
        The tensor; it is not changed.
    base_dir : str, default ""
        The folder of the model, where external data is looked for.
    copy : bool, optional
        True gives an array of its own, which can be written to. False gives a read-only array at the address of the
        tensor's `raw_data`, or an error where that cannot be. When not given, the elements are copied only where they
        must be, and the array is read-only where they are not.

    Returns
    -------
    numpy.ndarray
        Of the tensor's shape. Elements narrower than a byte have a byte each; strings are `str` objects.

    Raises
    ------
    TypeError
        The tensor has no element type.
    KeyError
        Its element type is unknown.
    ValueError
        It has more or fewer elements than its shape, a negative size, or is a segment of another; or `copy` is False
        and its elements are not raw, narrower than a byte, or external.
    UnicodeDecodeError
        A string is not UTF-8.
    ImportError
        The array needs a type of `ml_dtypes`, which is not installed: `pip install refeed[ml]`.

    Examples
    --------
    >>> to_array(TensorProto(data_type=TensorProto.INT8, dims=[2], int32_data=[1, -1]))
    array([ 1, -1], dtype=int8)
    """
    if not isinstance(tensor, TensorProto) and hasattr(tensor, "data_type"):
        # A tensor of the official package.
        tensor = TensorProto.FromString(tensor.SerializeToString())
    if tensor.HasField("segment"):
        raise ValueError(f"tensor {tensor.name!r} is a segment of another, which is not supported")
    if tensor.data_type == TensorProto.UNDEFINED:
        raise TypeError(f"tensor {tensor.name!r} has no element type: its data_type is UNDEFINED")
    element = element_type(tensor.data_type)
    shape = list(tensor.dims)
    if any(size < 0 for size in shape):
        raise ValueError(f"tensor {tensor.name!r}: sizes are at least 0, got {shape}")

    dtype = tensor_dtype_to_np_dtype(tensor.data_type)
    count = math.prod(shape)
    external = uses_external_data(tensor)
    if copy is False:
        _check_viewable(tensor, element.bits, external)
    raw: memoryview | bytes | None = None
    if external:
        raw = read_external_data(tensor, base_dir)
    elif tensor.HasField("raw_data"):
        raw = tensor.raw_data_view()
    if raw is None or not element.bits:
        values = _typed(tensor, element.field, element.bits, count, dtype)
    else:
        values = _raw(tensor, np.frombuffer(raw, np.uint8), element.bits, count, dtype)
    array = values.reshape(shape)
    return array.copy() if copy and not array.flags.writeable else array


def _check_viewable(tensor: TensorProto, bits: int, external: bool) -> None:
    """Refuse what `copy=False` cannot give."""
    if external:
        why = "its elements are in a file; load them first, with external_data_helper.load_external_data_for_tensor"
    elif not tensor.HasField("raw_data"):
        why = "its elements are not in raw_data"
    elif bits in (2, 4, 6):
        why = f"its elements take {bits} bits, and a byte each in an array"
    else:
        return
    raise ValueError(f"tensor {tensor.name!r} has no array without a copy: {why}")


def _raw(tensor: TensorProto, data: Bytes, bits: int, count: int, dtype: DType) -> Array:
    try:
        if bits in (2, 4, 6):
            return unpack(data, count, bits).view(dtype)
    except ValueError as error:
        raise ValueError(f"tensor {tensor.name!r} of shape {list(tensor.dims)}: {error}") from None
    if data.size != count * dtype.itemsize:
        raise ValueError(
            f"tensor {tensor.name!r} of shape {list(tensor.dims)}: {count} elements of {dtype.name} take "
            f"{count * dtype.itemsize} bytes, got {data.size}"
        )
    return data.view(dtype)


def _typed(tensor: TensorProto, field: str, bits: int, count: int, dtype: DType) -> Array:
    """Return the elements of the field that holds them when they are not raw."""
    stored = getattr(tensor, field)
    values: Array
    if tensor.data_type == TensorProto.STRING:
        values = np.empty(len(stored), object)
        values[:] = [text.decode("utf-8") for text in stored]
    elif dtype.kind == "c":
        parts = np.array(stored, dtype.char.lower())
        if parts.size % 2:
            raise ValueError(f"tensor {tensor.name!r}: complex numbers are pairs, got {parts.size} values in {field}")
        values = parts.view(dtype)
    elif bits in (2, 4):
        return _raw(tensor, np.array(stored, np.int32).astype(np.uint8), bits, count, dtype)
    elif dtype.type.__module__ == "ml_dtypes" or dtype == np.float16:
        codes = np.array(stored, np.int32).astype(f"u{dtype.itemsize}")
        values = (codes & ((1 << bits) - 1)).view(dtype) if bits == 6 else codes.view(dtype)
    elif dtype.kind == "b":
        # The low byte decides, as it does for an integer type of one byte.
        values = np.array(stored, np.int32).astype(np.uint8) != 0
    else:
        wide = tensor_dtype_to_np_dtype(element_type(tensor.data_type).stored_as)
        values = np.array(stored, wide).astype(dtype)
    if values.size != count:
        raise ValueError(
            f"tensor {tensor.name!r} of shape {list(tensor.dims)} takes {count} elements, got {values.size} in {field}"
        )
    return values


def from_array(array: Array, /, name: str | None = None, *, copy: bool = True) -> TensorProto:
    """Make a tensor of an array's elements.

    Parameters
    ----------
    array : numpy.ndarray
        Of a type that tensors have, in this machine's byte order; `object` and string arrays make strings.
    name : str, optional
        The tensor's name.
    copy : bool, default True
        False adopts the array: the tensor's `raw_data` is its memory, at the same address. The array must be
        read-only, C-contiguous and of whole bytes an element, so that nobody can change the tensor behind its back.

    Returns
    -------
    TensorProto
        With `raw_data`, or `string_data` for strings.

    Raises
    ------
    ValueError
        No tensor holds elements of this type; or `copy` is False and the array cannot be adopted.
    NotImplementedError
        An element of an `object` array is neither str nor bytes.

    Examples
    --------
    >>> from_array(np.array([[True, False]])).dims
    [1, 2]
    """
    tensor = TensorProto()
    tensor.dims.extend(array.shape)
    if name:
        tensor.name = name
    tensor.data_type = np_dtype_to_tensor_dtype(array.dtype)
    bits = element_type(tensor.data_type).bits
    if not copy:
        _check_adoptable(array, bits)
        _onnx._adopt(tensor, array)
        return tensor
    if tensor.data_type == TensorProto.STRING:
        tensor.string_data.extend(utf8(text) for text in np.asarray(array, object).reshape(-1).tolist())
    else:
        tensor.raw_data = bytes_of_codes(np.asarray(array), bits)
    return tensor


def _check_adoptable(array: Array, bits: int) -> None:
    """Refuse an array whose memory cannot be that of a tensor, or that somebody could still write to."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"only an array can be adopted with copy=False, got {type(array).__name__}")
    if bits in (0, 2, 4, 6):
        what = f"elements of {bits} bits, which are packed in tensors" if bits else "strings"
        raise ValueError(f"an array cannot be adopted with copy=False: it has {what}")
    held: Any = array
    while isinstance(held, np.ndarray):
        if held.flags.writeable:
            where = "" if held is array else " through the array that it is a view of"
            raise ValueError(
                f"an array cannot be adopted with copy=False: its memory can be written to{where}; set "
                "flags.writeable = False there first, or leave copy out"
            )
        held = held.base
    if isinstance(held, (bytearray, memoryview)) and not memoryview(held).readonly:
        owner = type(memoryview(held).obj).__name__
        raise ValueError(f"an array cannot be adopted with copy=False: its memory can be written to through a {owner}")
    if not array.flags.c_contiguous:
        raise ValueError(
            f"an array cannot be adopted with copy=False: it is not C-contiguous, with strides {array.strides} (in "
            f"bytes) for shape {array.shape}; numpy.ascontiguousarray makes one that is"
        )


def utf8(text: Any) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8")
    if isinstance(text, bytes):
        return text
    # The class that onnx raises here.
    raise NotImplementedError(f"an array of objects holds str or bytes, got {text!r} of type {type(text).__name__}")
