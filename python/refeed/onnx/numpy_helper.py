"""Messages from NumPy arrays and the reverse: the names and arguments of `onnx.numpy_helper`.

Examples
--------
>>> import numpy as np
>>> from refeed.onnx import numpy_helper
>>> tensor = numpy_helper.from_array(np.array([1, 2], np.float32), "bias")
>>> numpy_helper.to_array(tensor)
array([1., 2.], dtype=float32)
"""

import numpy as np

from refeed.onnx._helper.arrays import from_array, to_array
from refeed.onnx._helper.dtypes import DType
from refeed.onnx._helper.packing import Array, saturate_cast, to_float8e8m0
from refeed.onnx._helper.tensors import tobytes_little_endian
from refeed.onnx._helper.values import from_dict, from_list, from_optional, to_dict, to_list, to_optional

__all__ = [
    "create_random_int",
    "from_array",
    "from_dict",
    "from_list",
    "from_optional",
    "saturate_cast",
    "to_array",
    "to_dict",
    "to_float8e8m0",
    "to_list",
    "to_optional",
    "tobytes_little_endian",
]

_RANDOM_INTEGERS = {np.dtype(f"{sign}{bits}") for sign in ("int", "uint") for bits in (8, 16, 32, 64)}


def create_random_int(input_shape: int | tuple[int, ...], dtype: DType | type, seed: int = 1) -> Array:
    """Make an array of random integers, the same ones each time.

    Parameters
    ----------
    input_shape : tuple of int
        The shape.
    dtype : numpy.dtype
        An integer type. Of a wide one only the range of int32 is used.
    seed : int, default 1
        What the numbers follow from.

    Raises
    ------
    TypeError
        `dtype` is no integer type of NumPy.
    """
    if isinstance(dtype, str) or np.dtype(dtype) not in _RANDOM_INTEGERS:
        raise TypeError(f"dtype is an integer type of NumPy, got {dtype!r}")
    limits, common = np.iinfo(dtype), np.iinfo(np.int32)
    low, high = max(limits.min, common.min), min(limits.max, common.max)
    # The generator whose numbers are the same in every version of NumPy; a state of its own leaves the global one be.
    random = np.random.RandomState(seed)
    return random.randint(low, high, size=input_shape).astype(dtype)
