"""Elements narrower than a byte, and casts to the narrow types."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from refeed.onnx._helper.dtypes import ml_dtypes

Bytes: TypeAlias = npt.NDArray[np.uint8]
Array: TypeAlias = npt.NDArray[Any]

#: How many elements make a group of whole bytes, and how many bytes that is.
_GROUPS = {2: (4, 1), 4: (2, 1), 6: (4, 3)}


def packed_bytes(elements: int, bits: int) -> int:
    """Return how many bytes `elements` elements of `bits` bits take."""
    return (elements * bits + 7) // 8


def pack(codes: Bytes, bits: int) -> Bytes:
    """Pack the low `bits` bits of each code, the first code in the lowest bits.

    Parameters
    ----------
    codes : numpy.ndarray of uint8
        One element a byte, rank 1; the bits above `bits` do not matter.
    bits : int
        2, 4 or 6.

    Returns
    -------
    numpy.ndarray of uint8
        As many bytes as the elements need; unused bits of the last one are 0.
    """
    count, width = _GROUPS[bits]
    groups = -(-codes.size // count)
    padded = np.zeros((groups, count), np.uint8)
    padded.reshape(-1)[: codes.size] = codes & ((1 << bits) - 1)
    words = np.zeros(groups, "<u4")
    for position in range(count):
        words |= padded[:, position].astype("<u4") << (bits * position)
    return words.view(np.uint8).reshape(groups, 4)[:, :width].reshape(-1)[: packed_bytes(codes.size, bits)]


def unpack(data: Bytes, elements: int, bits: int) -> Bytes:
    """Undo `pack`: one element a byte, the bits above `bits` are 0.

    Parameters
    ----------
    data : numpy.ndarray of uint8
        Rank 1. Bytes beyond those that `elements` elements need are not looked at.

    Raises
    ------
    ValueError
        `data` is too short for `elements` elements.
    """
    needed = packed_bytes(elements, bits)
    if data.size < needed:
        raise ValueError(f"{elements} elements of {bits} bits take {needed} bytes, got {data.size}")
    count, width = _GROUPS[bits]
    groups = -(-elements // count)
    padded = np.zeros((groups, 4), np.uint8)
    whole = needed // width
    padded[:whole, :width] = data[: whole * width].reshape(whole, width)
    padded[whole:, : needed - whole * width] = data[whole * width : needed]
    words = padded.view("<u4").reshape(-1)
    codes = np.empty((groups, count), np.uint8)
    for position in range(count):
        codes[:, position] = (words >> (bits * position)) & ((1 << bits) - 1)
    return codes.reshape(-1)[:elements]


def saturate_cast(x: npt.ArrayLike, dtype: npt.DTypeLike) -> Array:
    """Cast numbers to another type; what is out of its range becomes its nearest end.

    Parameters
    ----------
    x : array_like
        Numbers. For an integer type they are rounded first, ties to even.
    dtype : numpy.dtype
        An integer or floating type, of NumPy or of `ml_dtypes`.

    Returns
    -------
    numpy.ndarray
        Of the same shape. NaN stays NaN where the type has one. Infinities become the largest finite numbers.

    Raises
    ------
    ValueError
        `dtype` is neither an integer nor a floating type.
    """
    target = np.dtype(dtype)
    values: Any = np.asarray(x)
    limits: Any
    if target.name in ("int2", "uint2", "int4", "uint4"):
        limits = ml_dtypes(f"arrays of {target.name}").iinfo(target)
    elif target.kind in "iu":
        limits = np.iinfo(target)
    elif target.type.__module__ == "ml_dtypes":
        limits = ml_dtypes(f"arrays of {target.name}").finfo(target)
    else:
        limits = np.finfo(target)
    if isinstance(limits.min, int):
        values = np.round(values)
        low, high = int(limits.min), int(limits.max)
    else:
        low, high = limits.min, limits.max
    cast: Array = np.clip(values, low, high).astype(target)
    return cast


#: Of a float32: how far the exponent is from the right, the first bit below it, and the bits below that one.
_EXPONENT, _GUARD, _STICKY = 23, 1 << 22, (1 << 22) - 1


def to_float8e8m0(x: npt.ArrayLike, saturate: bool = True, round_mode: str = "up") -> Array:
    """Convert numbers to `float8_e8m0fnu`, the powers of two that scale MX blocks.

    Parameters
    ----------
    x : array_like
        Numbers; they pass through float32. Signs are dropped.
    saturate : bool, default True
        Whether a number that rounds beyond the largest power of two becomes it, or NaN.
    round_mode : {"up", "nearest", "down"}
        How numbers between two powers of two are rounded; "nearest" takes ties up. Zero becomes the smallest power.

    Returns
    -------
    numpy.ndarray
        Of the same shape. NaN and infinities become NaN.

    Raises
    ------
    ValueError
        Another `round_mode`.
    ImportError
        `ml_dtypes` is not installed.
    """
    dtype = np.dtype(ml_dtypes("arrays of FLOAT8E8M0").float8_e8m0fnu)
    bits = np.asarray(x).astype(np.float32).view(np.uint32)
    exponent = (bits >> _EXPONENT) & 0xFF
    guard = (bits & _GUARD) != 0
    sticky = (bits & _STICKY) != 0
    if round_mode == "up":
        raised = guard | sticky
    elif round_mode == "nearest":
        # The tie of the lowest exponent is its own value, 2**-127, which float32 writes as a subnormal number.
        raised = guard & (sticky | (exponent > 0))
    elif round_mode == "down":
        raised = np.zeros_like(guard)
    else:
        raise ValueError(f"unsupported round_mode {round_mode!r}: expected 'up', 'nearest' or 'down'")
    finite = exponent != 0xFF
    beyond = finite & raised & (exponent == 0xFE)
    rounded = exponent + (raised & finite)
    if saturate:
        rounded = np.where(beyond, np.uint32(0xFE), rounded)
    made: Array = rounded.astype(np.uint8).view(dtype)
    return made
