"""Choosing scales for the keys and values of a cache, and what attention loses by them.

A dense cache of real tokens is quantised in Python, in float64, with the scales that are found; the result can be run.
Scales for a whole tensor serve every page, so they are also what `ai.rt::QuantizePagedCache` and a selector of formats
take.
"""

import dataclasses
import math
import operator
from typing import Any, Literal

import numpy as np

from refeed.cache_pages import PARTS, CachePart, cache_parts, refuse_faults
from refeed.onnx import EncodedValueProto, PagedCacheProto, TensorProto, helper, numpy_helper

__all__ = ["AttentionError", "CacheCalibration", "PartCalibration", "calibrate_cache"]

_Array = np.ndarray[Any, np.dtype[Any]]
_BITS = {"INT8": 8, "UINT8": 8, "INT4": 4, "UINT4": 4, "INT2": 2, "UINT2": 2}
#: Fractions of the largest number that a scale may stand for, when scales are searched.
_FRACTIONS = np.linspace(1.0, 0.3, 36)


@dataclasses.dataclass(frozen=True)
class AttentionError:
    """What attention gives on quantised keys and values, beside what it gives on the given ones, in float64.

    Attributes
    ----------
    largest, mean_square : float
        Largest distance of an element of the result, and the root of the mean square of all distances.
    relative : float
        The root of the mean square, over that of the result itself.
    """

    largest: float
    mean_square: float
    relative: float


@dataclasses.dataclass(frozen=True)
class PartCalibration:
    """How keys or values are quantised.

    Attributes
    ----------
    format : str
        Type of the codes.
    axis, block_size : int or None
        Where scales vary; both None for one scale.
    scales, zero_points : list of numpy.ndarray
        One array a page, float32 and int64. With one scale a tensor, all pages have the same.
    largest_error, mean_square_error : float
        Of the decoded numbers.
    saturated : float
        Share of the numbers beyond the codes.
    """

    format: str
    axis: int | None
    block_size: int | None
    scales: list[_Array]
    zero_points: list[_Array]
    largest_error: float
    mean_square_error: float
    saturated: float

    @property
    def scale(self) -> float:
        """The scale of all pages.

        Raises
        ------
        ValueError
            When scales vary along an axis.
        """
        if self.axis is not None:
            raise ValueError(f"scale: expected one a tensor, got scales along axis {self.axis}: see `scales`")
        return float(self.scales[0])

    @property
    def zero_point(self) -> int:
        """The zero point of all pages.

        Raises
        ------
        ValueError
            When zero points vary along an axis.
        """
        if self.axis is not None:
            raise ValueError(f"zero_point: expected one a tensor, got some along axis {self.axis}: see `zero_points`")
        return int(self.zero_points[0])


@dataclasses.dataclass(frozen=True)
class CacheCalibration:
    """What `calibrate_cache` found.

    Attributes
    ----------
    key, value : PartCalibration
        Parameters and errors of keys and of values.
    attention : AttentionError
        With both quantised.
    cache : PagedCacheProto
        The cache in the new formats; rows without a token hold zeros.
    """

    key: PartCalibration
    value: PartCalibration
    attention: AttentionError
    cache: PagedCacheProto


def calibrate_cache(
    cache: PagedCacheProto,
    key: str = "INT8",
    value: str = "INT8",
    *,
    axis: int | None = None,
    block_size: int | None = None,
    method: Literal["range", "search"] = "range",
    queries: Any = None,
    model: Any = None,
) -> CacheCalibration:
    """Choose scales for a cache, and say what they cost.

    Parameters
    ----------
    cache : PagedCacheProto
        Of at least one page, of any formats; what it decodes to is what is quantised.
    key, value : str
        `"INT8"`, `"UINT8"`, `"INT4"`, `"UINT4"`, `"INT2"` or `"UINT2"`. Signed codes have zero point 0, so 0 is exact;
        unsigned ones have a zero point that fits the range of the numbers.
    axis : int, optional
        The axis of `[batch, heads, capacity, width]` that scales vary along, in each page. One scale for all when not
        given.
    block_size : int, optional
        Elements along the axis that share a scale, which then varies along all other axes as well.
    method : {"range", "search"}
        Scales that reach the largest number, or those, among smaller ones as well, whose mean square error is least.
    queries : array, optional
        `[batch, query heads, rows, width]`, before attention scales them. When not given, the keys of the last token
        are the queries, as they lie in the space that queries live in.
    model : model-like, optional
        Where shared quantisation parameters are looked up.

    Returns
    -------
    CacheCalibration

    Raises
    ------
    TypeError
        For an axis or block size that is no integer, queries that are no numbers.
    ValueError
        For a page that breaks a rule, with its number and the field, an unknown format, an axis or block size that
        there is not, an empty cache, numbers that are not finite in the cache or the queries, queries of another shape.

    Examples
    --------
    >>> import numpy as np
    >>> from refeed.onnx import PagedCacheProto, numpy_helper
    >>> from refeed.runtime import calibrate_cache
    >>> cache = PagedCacheProto()
    >>> block = cache.blocks.add(start=0, length=4)
    >>> numbers = np.linspace(-1, 1, 32, dtype=np.float32).reshape(1, 1, 4, 8)
    >>> block.key.CopyFrom(numpy_helper.from_array(numbers))
    >>> block.value.CopyFrom(numpy_helper.from_array(-numbers))
    >>> found = calibrate_cache(cache, "INT8", "UINT4")
    >>> found.key.scale == np.float32(1 / 127), found.value.zero_point
    (True, 8)
    >>> found.key.largest_error <= found.key.scale / 2
    True
    """
    refuse_faults("cache", cache, model)
    if method not in ("range", "search"):
        raise ValueError(f"method: expected 'range' or 'search', got {method!r}")
    if not cache.blocks:
        raise ValueError("cache: expected one page or more, got none")
    axis, block_size = _axis(axis, block_size)
    formats = {part: _storage(part, name) for part, name in zip(PARTS, (key, value), strict=True)}
    held = list(cache_parts(cache))
    quantised = PagedCacheProto()
    for block in cache.blocks:
        quantised.blocks.add(start=block.start, length=block.length)
    found, before, after = {}, {}, {}
    for part, storage in formats.items():
        pages = [page for page in held if page.part == part]
        rows = [page.rows(model) for page in pages]
        for index, page in enumerate(rows):
            if not np.isfinite(page).all():
                place = tuple(int(at) for at in np.argwhere(~np.isfinite(page))[0])
                field = f"paged_cache.blocks[{index}].{part}"
                raise ValueError(f"cache: {field}: expected finite numbers, got {page[place]} at {list(place)}")
        found[part], encoded, decoded = _calibrate(pages, rows, storage, axis, block_size, method)
        for block, message in zip(quantised.blocks, encoded, strict=True):
            getattr(block, f"encoded_{part}").CopyFrom(message)
        before[part], after[part] = np.concatenate(rows, axis=2), np.concatenate(decoded, axis=2)
    asked = before["key"][:, :, -1:] if queries is None else _queries(queries, before["key"])
    attention = _attention_error(asked, before, after)
    return CacheCalibration(found["key"], found["value"], attention, quantised)


def _storage(argument: str, name: str) -> str:
    if not isinstance(name, str) or name not in _BITS:
        raise ValueError(f"{argument}: expected one of {', '.join(_BITS)}, got {name!r}")
    return name


def _integer(argument: str, number: Any) -> int | None:
    if number is None:
        return None
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{argument}: expected an integer, got {type(number).__name__}")
    return operator.index(number)


def _axis(axis: int | None, block_size: int | None) -> tuple[int | None, int | None]:
    axis, block_size = _integer("axis", axis), _integer("block_size", block_size)
    if block_size is not None and (axis is None or block_size < 1):
        raise ValueError(f"block_size: expected 1 or more beside an axis, got {block_size} beside {axis}")
    if axis is None:
        return None, None
    if not -4 <= axis < 4:
        raise ValueError(f"axis: expected -4 to 3, got {axis}")
    return axis % 4, block_size


def _calibrate(
    pages: list[CachePart], rows: list[_Array], storage: str, axis: int | None, block_size: int | None, method: str
) -> tuple[PartCalibration, list[EncodedValueProto], list[_Array]]:
    """Find parameters for keys or values, and encode with them."""
    sample = np.concatenate([page.ravel() for page in rows]).reshape(1, -1)
    common = _parameters(sample, storage, method)
    scales, zeros, messages, decoded = [], [], [], []
    beyond = 0
    low, high = _code_range(storage)
    for page, numbers in zip(pages, rows, strict=True):
        # Rows without a token count as zeros: they are what is encoded for them.
        whole = np.zeros(page.shape)
        whole[:, :, : page.length] = numbers
        if axis is None:
            scale, zero = (parameter[0] for parameter in common)
        else:
            groups, shape = _groups(whole, axis, block_size)
            scale, zero = (parameter.reshape(shape) for parameter in _parameters(groups, storage, method))
        wide = [_spread(parameter, page.shape, axis, block_size) for parameter in (scale, zero)]
        steps = np.rint(whole / wide[0]) + wide[1]
        beyond += int(((steps < low) | (steps > high))[:, :, : page.length].sum())
        codes = np.clip(steps, low, high).astype(np.int64)
        messages.append(_message(codes, storage, scale, zero, axis, block_size))
        decoded.append(((codes - wide[1]) * wide[0])[:, :, : page.length])
        scales.append(np.asarray(scale, np.float32))
        zeros.append(np.asarray(zero, np.int64))
    distances = np.concatenate([(a - b).ravel() for a, b in zip(decoded, rows, strict=True)])
    found = PartCalibration(
        storage,
        axis,
        block_size,
        scales,
        zeros,
        float(np.abs(distances).max()),
        float(np.sqrt(np.mean(distances**2))),
        beyond / distances.size,
    )
    return found, messages, decoded


def _code_range(storage: str) -> tuple[int, int]:
    bits = _BITS[storage]
    return (0, 2**bits - 1) if storage.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _parameters(groups: _Array, storage: str, method: str) -> tuple[_Array, _Array]:
    """Return a scale and a zero point for each row of numbers."""
    low, high = _code_range(storage)
    fractions = _FRACTIONS if method == "search" else _FRACTIONS[:1]
    best: tuple[_Array, ...] = (np.full(len(groups), np.inf), np.ones(len(groups)), np.zeros(len(groups)))
    for fraction in fractions:
        if storage.startswith("U"):
            # The range takes 0 in, so that 0 is a code.
            least, most = (np.minimum(groups.min(axis=1), 0), np.maximum(groups.max(axis=1), 0))
            scale = fraction * (most - least) / (high - low)
        else:
            # The negative end reaches one step further; the positive one decides.
            least = np.zeros(len(groups))
            scale = fraction * np.abs(groups).max(axis=1) / high
        # Scales are kept as float32; a group of zeros has any.
        scale = np.where(scale > 0, scale, 1.0).astype(np.float32).astype(np.float64)
        scale = np.maximum(scale, np.finfo(np.float32).tiny)
        zero = np.clip(np.rint(low - fraction * least / scale), low, high) if storage.startswith("U") else least
        codes = np.clip(np.rint(groups / scale[:, None]) + zero[:, None], low, high)
        error = (((codes - zero[:, None]) * scale[:, None] - groups) ** 2).sum(axis=1)
        better = error < best[0]
        best = tuple(np.where(better, new, old) for new, old in zip((error, scale, zero), best, strict=True))
    return best[1], best[2]


def _groups(whole: _Array, axis: int, block_size: int | None) -> tuple[_Array, tuple[int, ...]]:
    """Return the numbers that share parameters, one group a row, and the shape of the parameters."""
    if block_size is None:
        return np.moveaxis(whole, axis, 0).reshape(whole.shape[axis], -1), (whole.shape[axis],)
    count = -(-whole.shape[axis] // block_size)
    block = min(block_size, whole.shape[axis])
    padding = [(0, count * block - extent if at == axis else 0) for at, extent in enumerate(whole.shape)]
    # What is padded repeats the last number, so that no range changes.
    padded = np.pad(whole, padding, mode="edge")
    shape = tuple(count if at == axis else extent for at, extent in enumerate(whole.shape))
    parts = padded.reshape(*whole.shape[:axis], count, block, *whole.shape[axis + 1 :])
    return np.moveaxis(parts, axis + 1, -1).reshape(-1, block), shape


def _spread(parameters: _Array, shape: tuple[int, ...], axis: int | None, block_size: int | None) -> _Array:
    """Return parameters, one an element."""
    if axis is None:
        return np.broadcast_to(parameters, shape)
    if block_size is None:
        return np.broadcast_to(parameters.reshape([-1 if at == axis else 1 for at in range(4)]), shape)
    repeated = np.repeat(parameters, min(block_size, shape[axis]), axis=axis)
    return np.take(repeated, np.arange(shape[axis]), axis=axis)


def _message(
    codes: _Array, storage: str, scale: _Array, zero: _Array, axis: int | None, block_size: int | None
) -> EncodedValueProto:
    """Return codes and their parameters as a message."""
    number = TensorProto.DataType.Value(storage)
    message = EncodedValueProto(logical_type=helper.make_tensor_type_proto(TensorProto.FLOAT, list(codes.shape)))
    message.affine.storage_type = number
    message.affine.scale.CopyFrom(numpy_helper.from_array(np.asarray(scale, np.float32)))
    zeros = np.asarray(zero, np.int64)
    message.affine.zero_point.data_type = number
    message.affine.zero_point.dims.extend(zeros.shape)
    message.affine.zero_point.raw_data = _packed(zeros, _BITS[storage])
    if axis is not None:
        message.affine.axis = axis
    if block_size is not None:
        message.affine.block_size = block_size
    message.raw_data = _packed(codes, _BITS[storage])
    return message


def _packed(codes: _Array, bits: int) -> bytes:
    """Return codes in bytes, the first in the low bits."""
    each = 8 // bits
    fields = (codes.ravel() & (2**bits - 1)).astype(np.uint8)
    fields = np.concatenate([fields, np.zeros(-len(fields) % each, np.uint8)]).reshape(-1, each)
    shifted = fields << (bits * np.arange(each, dtype=np.uint8))
    return bytes(np.bitwise_or.reduce(shifted, axis=1).astype(np.uint8).tobytes())


def _queries(queries: Any, keys: _Array) -> _Array:
    try:
        asked = np.asarray(queries, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"queries: expected an array of numbers, got {type(queries).__name__}") from None
    batch, heads, _, width = keys.shape
    if (
        asked.ndim != 4
        or (asked.shape[0], asked.shape[3]) != (batch, width)
        or asked.shape[1] % heads
        or not asked.size
    ):
        raise ValueError(f"queries: expected [{batch}, a multiple of {heads}, rows, {width}], got {list(asked.shape)}")
    if not np.isfinite(asked).all():
        first = asked[~np.isfinite(asked)][0]
        raise ValueError(f"queries: expected finite numbers, got {first}")
    return asked


def _attention(queries: _Array, keys: _Array, values: _Array) -> _Array:
    """Return attention of each query to all tokens, with scale `1 / sqrt(width)`."""
    groups = queries.shape[1] // keys.shape[1]
    keys, values = np.repeat(keys, groups, axis=1), np.repeat(values, groups, axis=1)
    scores = queries @ np.swapaxes(keys, -1, -2) / math.sqrt(keys.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights @ values / weights.sum(axis=-1, keepdims=True))


def _attention_error(queries: _Array, before: dict[str, _Array], after: dict[str, _Array]) -> AttentionError:
    expected = _attention(queries, before["key"], before["value"])
    distance = _attention(queries, after["key"], after["value"]) - expected
    root = float(np.sqrt(np.mean(distance**2)))
    size = float(np.sqrt(np.mean(expected**2)))
    return AttentionError(float(np.abs(distance).max()), root, root / size if size else root)
