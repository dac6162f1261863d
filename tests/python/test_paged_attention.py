"""`ai.rt::PagedAttention`: the rules of the contract, against the formula in float64 on what pages stand for."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from refeed import errors, onnx, runtime
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


# ---- the operator (6.1)


@pytest.mark.parametrize(
    "attributes",
    [
        {"block_size": 0},
        {"block_size": -1},
        {"max_tokens": 0},
        {"is_causal": 2},
        {"is_causal": -1},
        {"left_window_size": -2},
        {"scale": 0.5},
        {"softcap": 1.0},
        {"right_window_size": 1},
        {"key_scale": 0.5},
        {"block_size": 16.0},
    ],
)
def test_other_attributes_and_values_are_refused(attributes: dict[str, Any]) -> None:
    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context)

    def run() -> None:
        state = runtime.PersistentValueState(model(**attributes), {"past": empty()})
        state.run(context, {name: np.ones((1, 1, 1, 4), np.float32) for name in "QKV"})

    with pytest.raises(ValueError, match=next(iter(attributes))):
        run()


def test_the_kernel_is_opt_in() -> None:
    code = (
        "import numpy as np\n"
        "from refeed import runtime\n"
        "import test_paged_attention as t\n"
        "feeds = {name: np.ones((1, 1, 1, 4), np.float32) for name in 'QKV'}\n"
        "try:\n"
        "    runtime.PersistentValueState(t.model(), {'past': t.empty()}).run(feeds)\n"
        "except ValueError as error:\n"
        "    assert 'PagedAttention' in str(error), error\n"
        "else:\n"
        "    raise AssertionError('there is a kernel')\n"
        "runtime.register_paged_attention()\n"
        "state = runtime.PersistentValueState(t.model(), {'past': t.empty()})\n"
        "state.run(feeds)\n"
        "assert len(state.values['past'].blocks) == 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=__file__.rpartition("/")[0])  # noqa: S603


def test_a_kernel_of_a_context_stays_there() -> None:
    own, other = runtime.RuntimeContext(), runtime.RuntimeContext()
    runtime.register_paged_attention(own)
    state = runtime.PersistentValueState(model(), {"past": empty()})
    feeds = {name: np.ones((1, 1, 1, 4), np.float32) for name in "QKV"}
    state.run(own, feeds)
    with pytest.raises(ValueError, match="PagedAttention"):
        state.run(other, feeds)
    assert len(state.values["past"].blocks) == 1


def test_standard_attention_is_unchanged_beside_it() -> None:
    rng = np.random.default_rng(2)
    made = model()
    made.graph.node.append(helper.make_node("Attention", ["Q", "K", "V"], ["dense"], is_causal=1))
    made.graph.output.append(helper.make_tensor_value_info("dense", 1, None))
    made.opset_import[0].version = 23
    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context)
    state = runtime.PersistentValueState(made, {"past": empty()})
    q, k, v = (random(rng, 1, 2, 3, 4) for _ in range(3))
    out = state.run(context, {"Q": q, "K": k, "V": v})
    np.testing.assert_allclose(array(out["Y"]), array(out["dense"]), atol=2e-6)


# ---- inputs (6.3)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(1, 2, 3, 4), (1, 2, 2, 4), (1, 2, 3, 4)], "K: expected shape"),
        ([(1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 3, 4)], "K: expected shape"),
        ([(1, 2, 3, 4), (1, 1, 3, 4), (1, 2, 3, 4)], "V: expected shape"),
        ([(2, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)], "K: expected shape"),
        ([(1, 3, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)], "query heads"),
        ([(1, 2, 3, 0), (1, 2, 3, 0), (1, 2, 3, 4)], "axis 3 of Q"),
        ([(0, 2, 3, 4), (0, 2, 3, 4), (0, 2, 3, 4)], "axis 0 of Q"),
        ([(1, 2, 12), (1, 2, 12), (1, 2, 12)], "4 dimensions"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes: list[tuple[int, ...]], message: str) -> None:
    q, k, v = (np.ones(shape, np.float32) for shape in shapes)
    with pytest.raises(ValueError, match=message):
        step(runtime.PagedAttention(), (q, k, v), empty())


def test_one_type_for_all_three() -> None:
    one = np.ones((1, 1, 1, 4), np.float32)
    with pytest.raises(ValueError, match="FLOAT16"):
        step(runtime.PagedAttention(), (one, one.astype(np.float16), one), empty())
    with pytest.raises(ValueError, match="DOUBLE"):
        step(runtime.PagedAttention(), (one.astype(np.float64),) * 3, empty())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("dtype", [1, 10, 16])
def test_inputs_must_be_finite(bad: float, which: int, dtype: int) -> None:
    qkv = [np.ones((1, 1, 2, 4), TYPES[dtype]) for _ in range(3)]
    qkv[which][0, 0, 1, 2] = bad
    kernel = runtime.PagedAttention()
    with pytest.raises(ValueError, match=f"{'QKV'[which]}: expected finite numbers"):
        step(kernel, (qkv[0], qkv[1], qkv[2]), empty())
    assert kernel.total_statistics().copied_bytes == 0


def test_more_tokens_than_max_tokens_are_refused_and_the_state_stays() -> None:
    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context)
    state = runtime.PersistentValueState(model(max_tokens=5), {"past": empty()})
    rng = np.random.default_rng(0)

    def feeds(length: int) -> dict[str, Array]:
        return {name: random(rng, 1, 1, length, 4) for name in "QKV"}

    state.run(context, feeds(3))
    before = state.values["past"].SerializeToString()
    with pytest.raises(errors.KernelError, match="at most 5"):
        state.run(context, feeds(3))
    with pytest.raises(errors.KernelError, match="new tokens: expected at most 5"):
        state.run(context, feeds(6))
    assert state.values["past"].SerializeToString() == before
    state.run(context, feeds(2))


def test_no_new_tokens_keep_the_cache_and_count_nothing() -> None:
    rng = np.random.default_rng(1)
    calls = []
    kernel = runtime.PagedAttention(format_selector=lambda *told: calls.append(told))
    _, cache, _ = step(kernel, tuple(random(rng, 1, 1, 3, 4) for _ in range(3)), empty())
    assert len(calls) == 1
    none = np.ones((1, 1, 0, 4), np.float32)
    y, present, statistics = step(kernel, (none, none, none), cache)
    assert y.shape == (1, 1, 0, 4)
    assert present == cache
    assert len(calls) == 1
    assert set(statistics.as_dict().values()) == {0}


# ---- pages


def test_blocks_are_cut_and_sealed() -> None:
    """F5: appends of 3, 4, 5 tokens with block_size 4; S252: 35 tokens are 16, 16, 3."""
    rng = np.random.default_rng(3)
    kernel, cache = runtime.PagedAttention(), empty()
    seen: list[Any] = []
    for length in (3, 4, 5):
        qkv = tuple(random(rng, 1, 1, length, 4) for _ in range(3))
        _, cache, _ = step(kernel, qkv, cache, block_size=4)
        for block, earlier in zip(cache.blocks, seen, strict=False):
            assert block.key.raw_data == earlier.key.raw_data
        seen = list(cache.blocks)
    assert [(b.start, b.length) for b in cache.blocks] == [(0, 3), (3, 4), (7, 4), (11, 1)]
    assert [list(b.key.dims) for b in cache.blocks] == [[1, 1, n, 4] for n in (3, 4, 4, 1)]
    qkv = tuple(random(rng, 1, 1, 35, 4) for _ in range(3))
    _, cache, _ = step(kernel, qkv, empty())
    assert [b.length for b in cache.blocks] == [16, 16, 3]


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


def one_token(width: int = 2) -> tuple[Array, Array, Array]:
    return tuple(np.zeros((1, 1, 1, width), np.float32) for _ in range(3))  # type: ignore[return-value]


def test_int4_per_axis_page_with_a_typed_zero_point() -> None:
    """6.4: scales [.25, .5], zero point 0x2f (codes -1, 2), bytes 21 43; a zero query gives [1.5 / 3, 1 / 3]."""
    zero = onnx.TensorProto(data_type=TensorProto.INT4, dims=[2])
    zero.int32_data.append(0x2F)
    payload = encoded(TensorProto.INT4, b"\x21\x43", [1, 1, 2, 2], np.array([0.25, 0.5]), zero, axis=-1)
    cache = onnx.PagedCacheProto(blocks=[page(payload, payload, 2)])
    y, _, statistics = step(runtime.PagedAttention(), one_token(), cache)
    np.testing.assert_allclose(y.reshape(-1), [1.5 / 3, 1 / 3], atol=1e-6)
    assert statistics.dequantized_bytes == 8 * 4


@pytest.mark.parametrize(("axis", "block"), [(2, None), (-1, None), (2, 1), (3, 1), (-1, 1)])
def test_per_axis_and_blocked_scales_match_dense_attention(axis: int, block: int | None) -> None:
    """6.4: on [1, 1, 2, 2]; 8 elements of 4 bytes are decoded."""
    codes = np.array([[[[3, -2], [1, 4]]]], np.int8)
    scale = np.array([[[[0.25, 0.5], [0.75, 0.125]]]]) if block else np.array([0.25, 0.5])
    shape = [1, 1, 1, 2] if axis in (-1, 3) else [1, 1, 2, 1]
    real = codes * (scale if block else scale.reshape(shape))
    layout = {"axis": axis, "block_size": 1} if block else {"axis": axis}
    payload = encoded(TensorProto.INT8, codes.tobytes(), [1, 1, 2, 2], scale, **layout)
    cache = onnx.PagedCacheProto(blocks=[page(payload, payload, 2)])
    rng = np.random.default_rng(4)
    q, k, v = (random(rng, 1, 1, 1, 2) for _ in range(3))
    y, _, statistics = step(runtime.PagedAttention(), (q, k, v), cache)
    whole = [np.concatenate([real, new], axis=2) for new in (k, v)]
    np.testing.assert_allclose(y, attention(q, *whole), atol=1e-5)
    assert statistics.dequantized_bytes == 8 * 4


def test_rows_of_codes_may_begin_within_a_byte() -> None:
    """F8: UINT4, capacity 3, width 3, codes 1..9; a window that sees only token 1 of it gives [4, 5, 6]."""
    payload = encoded(TensorProto.UINT4, b"\x21\x43\x65\x87\x09", [1, 1, 3, 3], np.array(1.0))
    dense = np.zeros((1, 1, 3, 3), np.float32)
    cache = onnx.PagedCacheProto(blocks=[page(dense, payload, 2)])
    q, k, v = one_token(3)
    y, _, _ = step(runtime.PagedAttention(), (q, k, v), cache, left_window_size=1)
    np.testing.assert_allclose(y.reshape(-1), np.array([4, 5, 6]) / 2)


def test_unused_rows_are_never_read() -> None:
    rng = np.random.default_rng(5)
    key, value = random(rng, 2, 1, 4, 6), random(rng, 2, 1, 4, 8)
    key[:, :, 2:], value[:, :, 2:] = np.nan, np.inf
    cache = onnx.PagedCacheProto(blocks=[page(key, value, 2)])
    q, k, v = random(rng, 2, 2, 3, 6), random(rng, 2, 1, 3, 6), random(rng, 2, 1, 3, 8)
    y, _, _ = step(runtime.PagedAttention(), (q, k, v), cache)
    whole = [np.concatenate([old[:, :, :2], new], axis=2) for old, new in ((key, k), (value, v))]
    np.testing.assert_allclose(y, attention(q, *whole), atol=1e-5)


@pytest.mark.parametrize("side", ["key", "value"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_visible_rows_must_be_finite(side: str, bad: float) -> None:
    rows = {"key": np.ones((1, 1, 4, 4), np.float32), "value": np.ones((1, 1, 4, 4), np.float32)}
    first = page(rows["key"].copy(), rows["value"].copy(), 4)
    rows[side][0, 0, 1, 2] = bad
    cache = onnx.PagedCacheProto(blocks=[first, page(rows["key"], rows["value"], 4, start=4)])
    one = tuple(np.ones((1, 1, 1, 4), np.float32) for _ in range(3))
    with pytest.raises(ValueError, match=rf"blocks\[1\]\.{side}"):
        step(runtime.PagedAttention(), one, cache)
    step(runtime.PagedAttention(), one, cache, left_window_size=2)


def test_decoded_numbers_beyond_float_are_refused() -> None:
    payload = encoded(TensorProto.INT8, bytes([100, 0, 1, 1]), [1, 1, 2, 2], np.array(3e38))
    cache = onnx.PagedCacheProto(blocks=[page(payload, payload, 2)])
    with pytest.raises(ValueError, match=r"blocks\[0\]"):
        step(runtime.PagedAttention(), one_token(), cache)
    step(runtime.PagedAttention(), one_token(), cache, left_window_size=0)


def faults() -> dict[str, tuple[Any, str]]:
    def row(*shape: int) -> Array:
        return np.ones(shape, np.float32)

    def cache(*blocks: Any) -> Any:
        return onnx.PagedCacheProto(blocks=list(blocks))

    good = page(row(1, 1, 2, 4), row(1, 1, 2, 4), 2)
    half_scales = encoded(TensorProto.INT8, bytes(8), [1, 1, 2, 4], np.array(1.0))
    half_scales.affine.scale.CopyFrom(numpy_helper.from_array(np.array(1.0, np.float16)))
    wide = page(row(1, 1, 20, 4), row(1, 1, 20, 4), 2)
    return {
        "start": (cache(page(row(1, 1, 2, 4), row(1, 1, 2, 4), 2, start=1)), r"blocks\[0\].start"),
        "gap": (cache(good, page(row(1, 1, 2, 4), row(1, 1, 2, 4), 2, start=3)), r"blocks\[1\].start"),
        "overlap": (cache(good, page(row(1, 1, 2, 4), row(1, 1, 2, 4), 2, start=1)), r"blocks\[1\].start"),
        "empty page": (cache(page(row(1, 1, 2, 4), row(1, 1, 2, 4), 0)), r"blocks\[0\].length"),
        "too long": (cache(page(row(1, 1, 2, 4), row(1, 1, 2, 4), 3)), r"blocks\[0\].length"),
        "capacities": (cache(page(row(1, 1, 2, 4), row(1, 1, 3, 4), 2)), r"blocks\[0\].value"),
        "widths": (cache(good, page(row(1, 1, 2, 3), row(1, 1, 2, 4), 2, start=2)), r"blocks\[1\].key"),
        "heads": (cache(page(row(1, 2, 2, 4), row(1, 2, 2, 4), 2)), "heads of the pages"),
        "batch": (cache(page(row(2, 1, 2, 4), row(2, 1, 2, 4), 2)), "batch of the pages"),
        "key width": (cache(page(row(1, 1, 2, 5), row(1, 1, 2, 4), 2)), "key width of the pages"),
        "value width": (cache(page(row(1, 1, 2, 4), row(1, 1, 2, 5), 2)), "value width of the pages"),
        "capacity": (cache(wide), "at most 16, the block_size"),
        "type": (cache(page(row(1, 1, 2, 4).astype(np.float64), row(1, 1, 2, 4), 2)), "FLOAT"),
        "scales": (cache(page(half_scales, row(1, 1, 2, 4), 2)), r"FLOAT"),
        "scale": (
            cache(page(encoded(3, bytes(8), [1, 1, 2, 4], np.array(0.0)), row(1, 1, 2, 4), 2)),
            r"blocks\[0\].*scale",
        ),
    }


@pytest.mark.parametrize("fault", faults())
def test_a_cache_that_breaks_a_rule_is_refused_with_its_page_and_field(fault: str) -> None:
    cache, message = faults()[fault]
    one = tuple(np.ones((1, 1, 1, 4), np.float32) for _ in range(3))
    kernel = runtime.PagedAttention()
    with pytest.raises(ValueError, match=message):
        step(kernel, one, cache)
    assert kernel.total_statistics().copied_bytes == 0


# ---- formats of new pages


def selected(*formats: Any) -> runtime.PagedAttention:
    pair = formats if len(formats) == 2 else formats * 2
    return runtime.PagedAttention(format_selector=lambda _k, _v, _n: pair)


def storage_types(block: Any) -> tuple[int, int]:
    found = []
    for side in ("key", "value"):
        if getattr(block, f"has_{side}")():
            found.append(int(getattr(block, side).data_type))
        else:
            value = getattr(block, f"encoded_{side}")
            count = int(np.prod([dim.dim_value for dim in value.logical_type.tensor_type.shape.dim]))
            found.append(storage_of(value.affine, count, bytes(value.raw_data)))
    return found[0], found[1]


def test_the_selector_is_told_keys_values_and_tokens_and_its_formats_hold_for_that_execution() -> None:
    rng = np.random.default_rng(6)
    told: list[tuple[Array, Array, int]] = []

    def select(k: runtime.Tensor, v: runtime.Tensor, retained: int) -> Any:
        told.append((array(k), array(v), retained))
        if retained < 3:
            return None
        return runtime.PageFormat(TensorProto.INT8, 0.01), runtime.PageFormat(TensorProto.BFLOAT16)

    kernel, cache = runtime.PagedAttention(format_selector=select), empty()
    for length in (3, 2):
        q, k, v = (random(rng, 1, 1, length, 4) for _ in range(3))
        _, cache, _ = step(kernel, (q, k, v), cache)
        np.testing.assert_array_equal(told[-1][0], k)
        np.testing.assert_array_equal(told[-1][1], v)
    assert [retained for _, _, retained in told] == [0, 3]
    assert [storage_types(block) for block in cache.blocks] == [(1, 1), (TensorProto.INT8, TensorProto.BFLOAT16)]


def test_what_a_selector_raises_comes_out_and_nothing_is_published() -> None:
    context = runtime.RuntimeContext()

    def select(_k: runtime.Tensor, _v: runtime.Tensor, retained: int) -> Any:
        if retained:
            raise KeyError("no format")
        return None

    runtime.register_paged_attention(context, format_selector=select)
    state = runtime.PersistentValueState(model(), {"past": empty()})
    feeds = {name: np.ones((1, 1, 1, 4), np.float32) for name in "QKV"}
    state.run(context, feeds)
    before = state.values["past"].SerializeToString()
    with pytest.raises(KeyError, match="no format"):
        state.run(context, feeds)
    assert state.values["past"].SerializeToString() == before


@pytest.mark.parametrize("returned", [7, "INT8", (1, 2), (runtime.PageFormat(),), [runtime.PageFormat()] * 2])
def test_a_selector_returns_formats(returned: Any) -> None:
    kernel = runtime.PagedAttention(format_selector=lambda *_: returned)
    with pytest.raises(TypeError, match="format_selector"):
        step(kernel, one_token(), empty())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TensorProto.INT16, 1.0, 0), "storage_type"),
        ((99, 1.0, 0), "storage_type"),
        ((TensorProto.INT8, 0.0, 0), "scale"),
        ((TensorProto.INT8, -1.0, 0), "scale"),
        ((TensorProto.INT8, float("inf"), 0), "scale"),
        ((TensorProto.INT8, float("nan"), 0), "scale"),
        ((TensorProto.INT8, 1.0, 128), "zero_point"),
        ((TensorProto.UINT4, 1.0, -1), "zero_point"),
        ((TensorProto.UINT2, 1.0, 4), "zero_point"),
        ((TensorProto.FLOAT, 0.5, 0), "scale"),
        ((TensorProto.FLOAT16, 1.0, 1), "zero_point"),
    ],
)
def test_formats_are_checked(arguments: tuple[int, float, int], message: str) -> None:
    with pytest.raises(errors.ValueTypeError, match=message):
        runtime.PageFormat(*arguments)


@pytest.mark.parametrize("storage", CODES)
def test_quantisation_rounds_ties_to_even_and_saturates(storage: int) -> None:
    """6.4 and S266: .5, 1.5, 2.5, 3.5, 1e30 at scale 1 give 0, 2, 2, 4 and the largest code, as far as codes go."""
    _, low, high = CODES[storage]
    row = np.array([0.5, 1.5, 2.5, 3.5, 1e30, -0.5, -1.5, -1e30], np.float32).reshape(1, 1, 1, 8)
    q = np.zeros_like(row)
    _, cache, _ = step(selected(runtime.PageFormat(storage)), (q, row, row), empty())
    codes = unpack(bytes(cache.blocks[0].encoded_key.raw_data), storage, 8)
    wanted = np.clip(np.array([0, 2, 2, 4, 1e30, 0, -2, -1e30]), low, high).astype(np.int64)
    np.testing.assert_array_equal(codes, wanted)
    if storage in (TensorProto.INT4, TensorProto.UINT4):
        assert bytes(cache.blocks[0].encoded_key.raw_data)[:2] == b"\x20\x42"


@pytest.mark.parametrize("storage", CODES)
def test_quantisation_error_is_at_most_half_a_scale(storage: int) -> None:
    """S267."""
    rng = np.random.default_rng(storage)
    _, low, high = CODES[storage]
    scale = 2.0 / (high - low)
    k = random(rng, 2, 3, 20, 5)
    zero = (low + high + 1) // 2
    q = np.zeros((2, 3, 20, 5), np.float32)
    _, cache, _ = step(selected(runtime.PageFormat(storage, scale, zero)), (q, k, k), empty())
    keys, values = reconstructed(cache)
    inside = (k <= (high - zero) * scale) & (k >= (low - zero) * scale)
    for side in (keys, values):
        assert np.abs(side - k)[inside].max() <= scale / 2 + 1e-6


@pytest.mark.parametrize("storage", [1, 10, 16, *CODES])
@pytest.mark.parametrize("dtype", [1, 10, 16])
def test_paged_is_dense_attention_on_reconstructed_values(storage: int, dtype: int) -> None:
    """S268, for all formats and input types: batches, grouped heads, several appends."""
    rng = np.random.default_rng(storage)
    _, low, high = CODES.get(storage, (0, 0, 0))
    one = (
        runtime.PageFormat(storage)
        if storage not in CODES
        else runtime.PageFormat(storage, 2.0 / (high - low), (low + high + 1) // 2)
    )
    kernel, cache = selected(one), empty()
    for length in (5, 1, 18, 3):
        q, k, v = (random(rng, 2, h, length, d, dtype=dtype) for h, d in ((6, 12), (2, 12), (2, 20)))
        earlier: Sequence[Any] = reconstructed(cache) if cache.blocks else ([], [])
        whole = [
            np.concatenate([old, new.astype(np.float64)], axis=2) if len(old) else new.astype(np.float64)
            for old, new in zip(earlier, (k, v), strict=True)
        ]
        y, cache, _ = step(kernel, (q, k, v), cache, block_size=8)
        assert y.dtype == TYPES[dtype]
        tolerance = {1: 1e-5, 10: 1e-3, 16: 8e-3}[dtype]
        np.testing.assert_allclose(y.astype(np.float64), attention(q, *whole), atol=tolerance)


def test_current_tokens_are_used_unquantised() -> None:
    """S260: with INT2 pages of scale 100 the first result is exact."""
    rng = np.random.default_rng(8)
    q, k, v = (random(rng, 1, 1, 4, 8) for _ in range(3))
    y, cache, _ = step(selected(runtime.PageFormat(TensorProto.INT2, 100.0)), (q, k, v), empty())
    np.testing.assert_allclose(y, attention(q, k, v), atol=1e-5)
    assert not np.any(reconstructed(cache)[0])


@pytest.mark.parametrize(
    ("storage", "scale", "zero", "tolerance"),
    [
        (TensorProto.INT8, 0.01, 0, 0.01),
        (TensorProto.UINT8, 0.01, 128, 0.01),
        (TensorProto.INT4, 0.25, 0, 0.15),
        (TensorProto.UINT4, 0.25, 8, 0.15),
    ],
)
def test_four_steps_of_a_state_stay_near_unquantised_attention(
    storage: int, scale: float, zero: int, tolerance: float
) -> None:
    """S269: Q, K, V are +/- 0.173 * step."""
    context = runtime.RuntimeContext()
    form = runtime.PageFormat(storage, scale, zero)
    runtime.register_paged_attention(context, format_selector=lambda *_: form)
    state = runtime.PersistentValueState(model(), {"past": empty()})
    keys: list[Array] = []
    for number in range(1, 5):
        row = np.array([0.173, -0.173], np.float32) * number
        x = row.reshape(1, 1, 1, 2)
        keys.append(x)
        out = state.run(context, {"Q": x, "K": x, "V": x})
        whole = np.concatenate(keys, axis=2)
        np.testing.assert_allclose(array(out["Y"]), attention(x, whole, whole), atol=tolerance)
    assert [storage_types(block) for block in state.values["past"].blocks] == [(storage, storage)] * 4


# ---- windows and statistics


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [-1, 0, 2])
def test_the_dense_fixture(causal: bool, window: int) -> None:
    """6.4 and S265: block_size 2, three appends of 3 tokens, widths 3 and 2: 60 bytes each, 0 dequantised, 16 of
    workspace, equal to dense attention within 2e-6.
    """
    rng = np.random.default_rng(9)
    kernel, cache = runtime.PagedAttention(), empty()
    keys, values = [], []
    for number in range(3):
        q, k, v = random(rng, 1, 1, 3, 3), random(rng, 1, 1, 3, 3), random(rng, 1, 1, 3, 2)
        keys.append(k)
        values.append(v)
        y, cache, statistics = step(kernel, (q, k, v), cache, block_size=2, is_causal=causal, left_window_size=window)
        whole = [np.concatenate(rows, axis=2) for rows in (keys, values)]
        np.testing.assert_allclose(y, attention(q, *whole, causal=causal, window=window), atol=2e-6)
        assert statistics.copied_bytes == 60
        assert statistics.dequantized_bytes == 0
        assert statistics.decoded_bytes == 0
        assert statistics.peak_workspace_bytes == 16
        assert len(cache.blocks) == 2 * (number + 1)


@pytest.mark.parametrize("heads", [1, 4])
def test_the_windowed_fixture(heads: int) -> None:
    """6.4 and S264: INT8 keys of width 2, UINT4 values of width 3, 6 tokens, then 2 with a window of 1."""
    rng = np.random.default_rng(10)
    kernel = selected(runtime.PageFormat(TensorProto.INT8, 0.25), runtime.PageFormat(TensorProto.UINT4, 0.25, 4))
    _, cache, _ = step(kernel, (random(rng, 1, heads, 6, 2), random(rng, 1, 1, 6, 2), random(rng, 1, 1, 6, 3)), empty())
    old = reconstructed(cache)
    q, k, v = random(rng, 1, heads, 2, 2), random(rng, 1, 1, 2, 2), random(rng, 1, 1, 2, 3)
    y, _, statistics = step(kernel, (q, k, v), cache, left_window_size=1)
    assert statistics.dequantized_bytes == 20 * heads
    assert statistics.copied_bytes == 4 + 3
    assert statistics.peak_workspace_bytes == 24
    assert 0 < statistics.decoded_bytes <= 20 * heads
    whole = [np.concatenate([rows, new], axis=2) for rows, new in zip(old, (k, v), strict=True)]
    np.testing.assert_allclose(y, attention(q, *whole, window=1), atol=1e-5)


def test_formats_may_differ_between_pages() -> None:
    """6.4: an INT4 key page, then dense keys and UINT8 values: 12 + 2 bytes are copied, (3 + 2) * 4 are dequantised."""
    rng = np.random.default_rng(11)
    formats = [
        (runtime.PageFormat(TensorProto.INT4, 0.25), runtime.PageFormat(TensorProto.UINT8, 0.01, 128)),
        (runtime.PageFormat(), runtime.PageFormat(TensorProto.UINT8, 0.01, 128)),
    ]
    kernel = runtime.PagedAttention(format_selector=lambda _k, _v, retained: formats[min(retained, 1)])

    def one() -> tuple[Array, Array, Array]:
        return random(rng, 1, 1, 1, 3), random(rng, 1, 1, 1, 3), random(rng, 1, 1, 1, 2)

    _, first, _ = step(kernel, one(), empty())
    _, second, statistics = step(kernel, one(), first)
    assert statistics.copied_bytes == 12 + 2
    assert statistics.dequantized_bytes == (3 + 2) * 4
    assert second.blocks[0] == first.blocks[0]


def test_dequantised_bytes_follow_their_definition() -> None:
    rng = np.random.default_rng(12)
    kernel = selected(runtime.PageFormat(TensorProto.INT8, 0.01), runtime.PageFormat())
    _, cache, _ = step(kernel, tuple(random(rng, 2, 2, 13, 4) for _ in range(3)), empty(), block_size=5)
    for window in (-1, 0, 3, 7, 50):
        qkv = (random(rng, 2, 6, 4, 4), random(rng, 2, 2, 4, 4), random(rng, 2, 2, 4, 4))
        _, _, statistics = step(kernel, qkv, cache, left_window_size=window)
        lows = [0 if window < 0 else max(0, 13 + row - window) for row in range(4)]
        assert statistics.dequantized_bytes == sum(4 * 4 * max(0, 13 - low) for low in lows) * 2 * 6


def test_a_page_is_checked_once() -> None:
    """S240."""
    context = runtime.RuntimeContext()
    kernel = runtime.register_paged_attention(context)
    state = runtime.PersistentValueState(model(), {"past": empty()})
    rng = np.random.default_rng(13)
    for _ in range(4):
        state.run(context, {name: random(rng, 1, 1, 1, 4) for name in "QKV"})
        assert kernel.statistics().validated_pages == 1
    total = kernel.total_statistics()
    assert total.validated_pages == 4
    assert total.copied_bytes == 4 * 2 * 4 * 4


def test_a_cache_that_was_serialised_goes_on_with_the_same_bits() -> None:
    rng = np.random.default_rng(14)
    formats = [runtime.PageFormat(storage, 0.01) for storage in CODES] + [runtime.PageFormat(t) for t in (1, 10, 16)]

    def select(_k: Any, _v: Any, retained: int) -> Any:
        return formats[retained % 9], formats[retained // 2 % 9]

    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context, format_selector=select)
    state = runtime.PersistentValueState(model(block_size=2), {"past": empty()})
    feeds = [
        {"Q": random(rng, 1, 4, n, 8), "K": random(rng, 1, 2, n, 8), "V": random(rng, 1, 2, n, 8)}
        for n in (1, 2, 3, 1, 1, 5, 1, 2)
    ]
    for feed in feeds[:5]:
        state.run(context, feed)
    parsed = onnx.PagedCacheProto()
    parsed.ParseFromString(state.values["past"].SerializeToString())
    restored = runtime.PersistentValueState(model(block_size=2), {"past": parsed})
    for feed in feeds[5:]:
        ours, theirs = state.run(context, feed), restored.run(context, feed)
        np.testing.assert_array_equal(array(ours["Y"]), array(theirs["Y"]))
    assert state.values["past"].SerializeToString() == restored.values["past"].SerializeToString()


def test_earlier_caches_stay_as_they_were() -> None:
    """S256: every snapshot is held while the state goes on."""
    rng = np.random.default_rng(15)
    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context)
    state = runtime.PersistentValueState(model(), {"past": empty()})
    held = []
    for _ in range(5):
        state.run(context, {name: random(rng, 1, 2, 3, 4) for name in "QKV"})
        cache = state.values["past"]
        held.append((cache, cache.SerializeToString()))
    for cache, before in held:
        assert cache.SerializeToString() == before


# ---- the last page


def filling(form: Any = None) -> runtime.PagedAttention:
    return runtime.PagedAttention(format_selector=lambda *_: form, partial_blocks="fill")


@pytest.mark.parametrize("storage", [1, 10, 16, *CODES])
@pytest.mark.parametrize("heads", [1, 2])
def test_fill_puts_new_tokens_behind_the_last_ones(storage: int, heads: int) -> None:
    rng = np.random.default_rng(storage)
    _, low, high = CODES.get(storage, (0, 0, 0))
    form = runtime.PageFormat(storage, 2 / (high - low)) if storage in CODES else runtime.PageFormat(storage)
    sealed, filled = selected(form), filling(form)
    caches = [empty(), empty()]
    for length in (1, 1, 1, 5, 1, 2, 7, 1):
        qkv = (random(rng, 1, 4, length, 8), random(rng, 1, heads, length, 8), random(rng, 1, heads, length, 8))
        first, caches[0], _ = step(sealed, qkv, caches[0], block_size=8)
        second, caches[1], _ = step(filled, qkv, caches[1], block_size=8)
        np.testing.assert_allclose(first, second, atol=1e-5)
    assert [(b.start, b.length) for b in caches[1].blocks] == [(0, 8), (8, 8), (16, 3)]
    for one, other in zip(*(reconstructed(cache) for cache in caches), strict=True):
        np.testing.assert_array_equal(one, other)


def test_fill_appends_dense_rows_in_place_and_earlier_caches_stay() -> None:
    rng = np.random.default_rng(20)
    context = runtime.RuntimeContext()
    kernel = runtime.register_paged_attention(context, partial_blocks="fill")
    state = runtime.PersistentValueState(model(), {"past": empty()})
    held = []
    for number in range(40):
        state.run(context, {name: random(rng, 1, 2, 1, 4) for name in "QKV"})
        copied = kernel.statistics().copied_bytes
        # The second token of a page moves the first one to a block with room; then rows are written behind the others.
        assert copied == (2 if number % 16 == 1 else 1) * 2 * 2 * 4 * 4
        cache = state.values["past"]
        held.append((cache, cache.SerializeToString()))
    for number, (cache, before) in enumerate(held, 1):
        assert cache.SerializeToString() == before
        assert sum(b.length for b in cache.blocks) == number
    assert [b.length for b in state.values["past"].blocks] == [16, 16, 8]


def test_forks_of_a_filled_page_go_apart() -> None:
    rng = np.random.default_rng(21)
    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context, partial_blocks="fill")
    state = runtime.PersistentValueState(model(), {"past": empty()})

    def feeds() -> dict[str, Array]:
        return {name: random(rng, 1, 1, 1, 4) for name in "QKV"}

    for _ in range(3):
        state.run(context, feeds())
    fork = state.fork()
    rows: dict[int, list[Array]] = {0: [], 1: []}
    for _ in range(3):
        for number, one in enumerate((state, fork)):
            feed = feeds()
            rows[number].append(feed["K"])
            one.run(context, feed)
    for number, one in enumerate((state, fork)):
        keys, _ = reconstructed(one.values["past"])
        np.testing.assert_array_equal(keys[:, :, 3:], np.concatenate(rows[number], axis=2))


def test_fill_seals_a_page_of_another_format_or_with_room_of_its_own() -> None:
    rng = np.random.default_rng(22)
    forms = iter([None, runtime.PageFormat(TensorProto.INT8, 0.01), runtime.PageFormat(TensorProto.INT8, 0.02), None])
    kernel = runtime.PagedAttention(format_selector=lambda *_: next(forms), partial_blocks="fill")
    cache = empty()
    for _ in range(3):
        _, cache, _ = step(kernel, tuple(random(rng, 1, 1, 1, 4) for _ in range(3)), cache)
    assert [b.length for b in cache.blocks] == [1, 1, 1]
    roomy = onnx.PagedCacheProto(blocks=[page(random(rng, 1, 1, 4, 4), random(rng, 1, 1, 4, 4), 2)])
    _, after, _ = step(kernel, tuple(random(rng, 1, 1, 1, 4) for _ in range(3)), roomy)
    assert [b.length for b in after.blocks] == [2, 1]
    assert after.blocks[0] == roomy.blocks[0]


def test_fill_seals_a_page_whose_scale_runs_along_tokens_or_whose_rows_end_within_a_byte() -> None:
    form = runtime.PageFormat(TensorProto.INT8, 0.25)
    along = encoded(TensorProto.INT8, bytes(4), [1, 1, 2, 2], np.array([0.25, 0.25]), axis=2)
    cache = onnx.PagedCacheProto(blocks=[page(along, along, 2)])
    _, after, _ = step(filling(form), one_token(), cache)
    assert [b.length for b in after.blocks] == [2, 1]
    odd = filling(runtime.PageFormat(TensorProto.INT4, 0.25))
    cache = empty()
    for _ in range(2):
        _, cache, _ = step(odd, one_token(3), cache)
    assert [b.length for b in cache.blocks] == [1, 1]


def test_a_failed_step_leaves_a_filled_page_as_it_was() -> None:
    rng = np.random.default_rng(23)
    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context, partial_blocks="fill")
    made = model()
    made.graph.node.append(helper.make_node("Fails", ["Y"], ["z"], domain="my.ops"))
    made.graph.output.append(helper.make_tensor_value_info("z", 1, None))
    made.opset_import.append(helper.make_opsetid("my.ops", 1))
    fail = False

    def fails(node: Any, invocation: Any) -> Any:
        if fail:
            raise RuntimeError("planned")
        return invocation.get(node.input[0])

    context.register_custom_kernel("my.ops", "Fails", fails)
    state = runtime.PersistentValueState(made, {"past": empty()})
    rows = []
    for number in range(12):
        fail = number % 3 == 2
        feed = {name: random(rng, 1, 1, 1, 4) for name in "QKV"}
        before = state.values["past"].SerializeToString()
        if fail:
            with pytest.raises(RuntimeError, match="planned"):
                state.run(context, feed)
            assert state.values["past"].SerializeToString() == before
        else:
            state.run(context, feed)
            rows.append(feed["K"])
    keys, _ = reconstructed(state.values["past"])
    np.testing.assert_array_equal(keys, np.concatenate(rows, axis=2))


def test_partial_blocks_is_one_of_two_words() -> None:
    with pytest.raises(errors.ValueTypeError, match="partial_blocks"):
        runtime.PagedAttention(partial_blocks="open")
    with pytest.raises(TypeError, match="format_selector"):
        runtime.PagedAttention(format_selector=3)  # type: ignore[arg-type]
