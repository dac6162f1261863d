"""Paged caches of every format, built page by page, and what they decode to by the definition, in float64."""

import math
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from refeed import onnx
from refeed.onnx import helper, numpy_helper

FLOAT, FLOAT16, BFLOAT16 = 1, 10, 16
CODES = {"INT8": 3, "UINT8": 2, "INT4": 22, "UINT4": 21, "INT2": 26, "UINT2": 25}
DENSE = {"FLOAT": FLOAT, "FLOAT16": FLOAT16, "BFLOAT16": BFLOAT16}
NUMPY: dict[str, Any] = {"FLOAT": np.float32, "FLOAT16": np.float16, "BFLOAT16": ml_dtypes.bfloat16}
NAMES = {number: name for name, number in {**CODES, **DENSE}.items()}
FORMATS = [*DENSE, *CODES]


def bits(storage: str) -> int:
    return int(storage.lstrip("UINT"))


def code_range(storage: str) -> tuple[int, int]:
    width = bits(storage)
    return (0, 2**width - 1) if storage.startswith("U") else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)


def pack(codes: Any, storage: str) -> bytes:
    """Codes in row-major order, the first in the low bits of byte 0."""
    width = bits(storage)
    whole = 0
    for index, code in enumerate(np.asarray(codes).ravel().tolist()):
        whole |= (int(code) & (2**width - 1)) << (index * width)
    return whole.to_bytes(-(-np.size(codes) * width // 8), "little")


def unpack(data: bytes, storage: str, shape: tuple[int, ...]) -> Any:
    """The codes in packed bytes."""
    width = bits(storage)
    per_byte = 8 // width
    raw = np.frombuffer(data, np.uint8)
    fields = np.stack([(raw >> (width * at)) & (2**width - 1) for at in range(per_byte)], axis=-1).ravel()
    fields = fields[: math.prod(shape)].astype(np.int64)
    if not storage.startswith("U"):
        fields = np.where(fields >= 2 ** (width - 1), fields - 2**width, fields)
    return fields.reshape(shape)


class Layout(NamedTuple):
    """Where the scales of a payload lie."""

    axis: int | None = None
    block_size: int | None = None

    def shape(self, dims: tuple[int, ...]) -> tuple[int, ...]:
        if self.axis is None:
            return ()
        if self.block_size is None:
            return (dims[self.axis],)
        shape = list(dims)
        shape[self.axis] = -(-shape[self.axis] // self.block_size)
        return tuple(shape)

    def spread(self, parameters: Any, dims: tuple[int, ...]) -> Any:
        """Parameters, one an element of the payload."""
        parameters = np.asarray(parameters)
        if self.axis is None:
            return np.broadcast_to(parameters, dims)
        axis = self.axis % len(dims)
        if self.block_size is None:
            return np.broadcast_to(parameters.reshape([-1 if at == axis else 1 for at in range(len(dims))]), dims)
        return np.repeat(parameters, self.block_size, axis=axis)[tuple(slice(0, dim) for dim in dims)]


LAYOUTS = [
    Layout(),
    *(Layout(axis) for axis in (0, 1, 2, 3, -1, -2)),
    *(Layout(axis, size) for axis, size in ((0, 1), (1, 2), (2, 3), (3, 2), (-1, 5))),
]


def set_dense(block: Any, part: str, array: Any, name: str = "FLOAT", typed: bool = False) -> None:
    """Keys or values as numbers, raw or in typed fields."""
    payload = getattr(block, part)
    array = np.asarray(array).astype(NUMPY[name])
    if not typed:
        payload.CopyFrom(numpy_helper.from_array(array))
        return
    payload.Clear()
    payload.data_type = DENSE[name]
    payload.dims.extend(array.shape)
    if name == "FLOAT":
        payload.float_data.extend(array.ravel().tolist())
    else:
        payload.int32_data.extend(array.view(np.uint16).ravel().tolist())


def set_codes(
    block: Any,
    part: str,
    codes: Any,
    storage: str,
    scale: Any,
    zero: Any = None,
    layout: Layout = LAYOUTS[0],
    inferred: bool = False,
) -> None:
    """Keys or values as codes."""
    payload = getattr(block, f"encoded_{part}")
    payload.logical_type.CopyFrom(helper.make_tensor_type_proto(FLOAT, list(np.shape(codes))))
    affine = payload.affine
    if inferred:
        affine.signed_storage = not storage.startswith("U")
    else:
        affine.storage_type = CODES[storage]
    scale = np.asarray(scale, np.float32)
    affine.scale.CopyFrom(helper.make_tensor("", FLOAT, scale.shape, scale.ravel().tolist()))
    if zero is not None:
        affine.zero_point.data_type = CODES[storage]
        affine.zero_point.dims.extend(np.shape(zero))
        affine.zero_point.raw_data = pack(zero, storage)
    if layout.axis is not None:
        affine.axis = layout.axis
    if layout.block_size is not None:
        affine.block_size = layout.block_size
    payload.raw_data = pack(codes, storage)


def add_page(cache: Any, length: int) -> Any:
    """The next page, without payloads."""
    start = cache.blocks[-1].start + cache.blocks[-1].length if len(cache.blocks) else 0
    block = cache.blocks.add()
    block.start, block.length = start, length
    return block


def fill(rng: Any, block: Any, part: str, dims: tuple[int, ...], name: str, **how: Any) -> None:
    """Random keys or values of a format; rows without a token hold what must not be read."""
    if name in DENSE:
        array = rng.normal(size=dims).astype(NUMPY[name])
        array[:, :, block.length :] = np.nan
        set_dense(block, part, array, name, how.get("typed", False))
        return
    layout = how.get("layout", Layout())
    low, high = code_range(name)
    shape = layout.shape(dims)
    set_codes(
        block,
        part,
        rng.integers(low, high + 1, size=dims),
        name,
        rng.uniform(0.02, 0.5, size=shape),
        rng.integers(low, high + 1, size=shape) if how.get("zero", True) else None,
        layout,
        how.get("inferred", False),
    )


def random_cache(
    rng: Any, pages: int | None = None, formats: list[str] | None = None, typed: float = 0.3, **extents: int
) -> Any:
    """A cache that keeps every rule: all formats, layouts, capacities; `typed` is the share of typed fields."""
    cache = onnx.PagedCacheProto()
    batch, heads = extents.get("batch", int(rng.integers(1, 4))), extents.get("heads", int(rng.integers(1, 4)))
    widths = {
        "key": extents.get("key_width", int(rng.integers(1, 7))),
        "value": extents.get("value_width", int(rng.integers(1, 7))),
    }
    for _ in range(int(rng.integers(1, 5)) if pages is None else pages):
        capacity = extents.get("capacity", int(rng.integers(1, 6)))
        block = add_page(cache, int(rng.integers(1, capacity + 1)))
        for part, width in widths.items():
            name = str(rng.choice(formats or FORMATS))
            dims = (batch, heads, capacity, width)
            layout = LAYOUTS[int(rng.integers(len(LAYOUTS)))]
            fill(rng, block, part, dims, name, typed=rng.random() < typed, layout=layout, zero=rng.random() < 0.7)
    return cache


def payload(block: Any, part: str) -> Any:
    """The message that holds keys or values."""
    return getattr(block, str(block.WhichOneof(f"{part}_payload")))


def dims_of(block: Any, part: str) -> tuple[int, ...]:
    held = payload(block, part)
    if block.WhichOneof(f"{part}_payload") == part:
        return tuple(held.dims)
    return tuple(dim.dim_value for dim in held.logical_type.tensor_type.shape.dim)


def format_of(block: Any, part: str) -> str:
    """The format, told or following from the sign and the size."""
    held = payload(block, part)
    if block.WhichOneof(f"{part}_payload") == part:
        return NAMES[held.data_type]
    if held.affine.HasField("storage_type"):
        return NAMES[held.affine.storage_type]
    width = len(held.raw_data) * 8 // math.prod(dims_of(block, part))
    return f"{'' if held.affine.signed_storage else 'U'}INT{1 << (width.bit_length() - 1)}"


def decoded(block: Any, part: str) -> Any:
    """The valid rows, in float64."""
    held = payload(block, part)
    dims = dims_of(block, part)
    if block.WhichOneof(f"{part}_payload") == part:
        return numpy_helper.to_array(held).astype(np.float64)[:, :, : block.length]
    affine = held.affine
    storage = format_of(block, part)
    layout = Layout(
        affine.axis if affine.HasField("axis") else None, affine.block_size if affine.HasField("block_size") else None
    )
    scale = numpy_helper.to_array(affine.scale).astype(np.float64)
    steps = unpack(held.raw_data, storage, dims)
    if affine.HasField("zero_point"):
        zero = unpack(affine.zero_point.raw_data, storage, tuple(affine.zero_point.dims))
        steps = steps - layout.spread(zero, dims)
    return (steps * layout.spread(scale, dims))[:, :, : block.length]
