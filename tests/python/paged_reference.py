"""What tests of `ai.rt::PagedAttention` share: the formula in float64 on what pages stand for, steps."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from refeed import onnx, runtime
from refeed.onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
TYPES = {1: np.float32, 10: np.float16, 16: ml_dtypes.bfloat16}
#: bits, smallest code, largest code
CODES = {
    TensorProto.INT8: (8, -128, 127),
    TensorProto.UINT8: (8, 0, 255),
    TensorProto.INT4: (4, -8, 7),
    TensorProto.UINT4: (4, 0, 15),
    TensorProto.INT2: (2, -2, 1),
    TensorProto.UINT2: (2, 0, 3),
}


def unpack(raw: bytes, storage: int, count: int) -> Array:
    """Codes from their bytes, as ONNX packs them."""
    bits, low, _ = CODES[storage]
    data = np.frombuffer(raw, np.uint8).astype(np.int64)
    parts = [(data >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    codes = np.stack(parts, axis=-1).reshape(-1)[:count]
    return np.where(codes >= (1 << (bits - 1)), codes - (1 << bits), codes) if low < 0 else codes


def storage_of(layout: Any, count: int, raw: bytes) -> int:
    if layout.has_storage_type():
        return int(layout.storage_type)
    width = {len(raw): bits for bits in (8, 4, 2) if len(raw) == (count * bits + 7) // 8}[len(raw)]
    signed = {8: TensorProto.INT8, 4: TensorProto.INT4, 2: TensorProto.INT2}
    unsigned = {8: TensorProto.UINT8, 4: TensorProto.UINT4, 2: TensorProto.UINT2}
    return (signed if layout.signed_storage else unsigned)[width]


def scalar_code(tensor: Any, storage: int) -> int:
    return int(unpack(bytes(tensor.raw_data), storage, 1)[0])


def decoded(block: Any, side: str) -> Array:
    """The valid rows of a page with scalar parameters, in float64."""
    length = int(block.length)
    if getattr(block, f"has_{side}")():
        array = numpy_helper.to_array(getattr(block, side)).astype(np.float64)
        return array[:, :, :length]
    encoded = getattr(block, f"encoded_{side}")
    layout = encoded.affine
    dims = [dim.dim_value for dim in encoded.logical_type.tensor_type.shape.dim]
    raw = bytes(encoded.raw_data)
    count = int(np.prod(dims))
    storage = storage_of(layout, count, raw)
    codes = unpack(raw, storage, count).reshape(dims)
    scale = numpy_helper.to_array(layout.scale).astype(np.float64)
    zero = scalar_code(layout.zero_point, storage) if layout.has_zero_point() else 0
    return ((codes - zero) * scale)[:, :, :length]


def reconstructed(cache: Any) -> tuple[Array, Array]:
    keys, values = ([decoded(block, side) for block in cache.blocks] for side in ("key", "value"))
    return np.concatenate(keys, axis=2), np.concatenate(values, axis=2)


def attention(q: Array, k: Array, v: Array, *, causal: bool = True, window: int = -1) -> Array:
    """The formula."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ np.swapaxes(k, 2, 3) / np.sqrt(q.shape[3])
    new, total = scores.shape[2:]
    position = np.arange(total - new, total)[:, None]
    token = np.arange(total)[None, :]
    seen = np.ones((new, total), bool)
    if causal:
        seen &= token <= position
    if window >= 0:
        seen &= token >= position - window
    scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    attended: Array = (weights / weights.sum(axis=-1, keepdims=True)) @ v
    return attended


def random(rng: np.random.Generator, *shape: int, dtype: int = 1) -> Array:
    return rng.uniform(-1, 1, shape).astype(TYPES[dtype])


def array(tensor: runtime.Tensor) -> Array:
    return numpy_helper.to_array(runtime.tensor_to_proto(tensor))


def step(
    kernel: runtime.PagedAttention, qkv: Sequence[Array], past: Any, **options: Any
) -> tuple[Array, Any, runtime.PagedStatistics]:
    q, k, v = (runtime.tensor_from_proto(numpy_helper.from_array(x)) for x in qkv)
    y, present, statistics = kernel(q, k, v, past, **options)
    return array(y), present, statistics


def model(dtype: int = 1, **attributes: Any) -> Any:
    """Y, present = PagedAttention(Q, K, V, past), bound."""
    cache = onnx.TypeProto(struct_type=onnx.StructTypeProto())
    names = ["Q", "K", "V", "Y"]
    tensors = {name: helper.make_tensor_value_info(name, dtype, ["b", f"h{name}", "l", f"d{name}"]) for name in names}
    past, present = (helper.make_value_info(name, cache) for name in ("past", "present"))
    node = helper.make_node("PagedAttention", ["Q", "K", "V", "past"], ["Y", "present"], domain="ai.rt", **attributes)
    graph = helper.make_graph([node], "g", [tensors["Q"], tensors["K"], tensors["V"], past], [tensors["Y"], present])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.rt", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    made.graph.persistent_bindings.add(input_name="past", output_name="present")
    return made


def empty() -> Any:
    return onnx.PagedCacheProto()


def one_token(width: int = 2) -> tuple[Array, Array, Array]:
    return tuple(np.zeros((1, 1, 1, width), np.float32) for _ in range(3))  # type: ignore[return-value]


def page(key: Any, value: Any, length: int, start: int = 0) -> Any:
    block = onnx.PagedCacheBlockProto(start=start, length=length)
    for side, payload in (("key", key), ("value", value)):
        if isinstance(payload, onnx.EncodedValueProto):
            getattr(block, f"encoded_{side}").CopyFrom(payload)
        else:
            getattr(block, side).CopyFrom(numpy_helper.from_array(payload))
    return block


def encoded(storage: int, codes: bytes, dims: list[int], scale: Array, zero: Any = None, **layout: Any) -> Any:
    value = onnx.EncodedValueProto()
    value.affine.storage_type = storage
    value.affine.scale.CopyFrom(numpy_helper.from_array(np.asarray(scale, np.float32)))
    if zero is not None:
        value.affine.zero_point.CopyFrom(zero)
    for name, setting in layout.items():
        setattr(value.affine, name, setting)
    value.logical_type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, dims))
    value.raw_data = codes
    return value
