"""`ai.rt::PagedAttention`: the operator, its inputs and pages, against the formula in float64."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from paged_reference import (
    TYPES,
    Array,
    array,
    attention,
    empty,
    encoded,
    model,
    one_token,
    page,
    random,
    step,
)
from refeed import errors, onnx, runtime
from refeed.onnx import TensorProto, helper, numpy_helper

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
    """Rules 6.1.2, 6.1.3; S194, S195, S196, S204."""
    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context)

    def run() -> None:
        state = runtime.PersistentValueState(model(**attributes), {"past": empty()})
        state.run(context, {name: np.ones((1, 1, 1, 4), np.float32) for name in "QKV"})

    with pytest.raises(ValueError, match=next(iter(attributes))):
        run()


def test_the_kernel_is_opt_in() -> None:
    """Rule 6.1.7; S196, S198."""
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
    """Rule 6.1.7; S198, S200."""
    own, other = runtime.RuntimeContext(), runtime.RuntimeContext()
    runtime.register_paged_attention(own)
    state = runtime.PersistentValueState(model(), {"past": empty()})
    feeds = {name: np.ones((1, 1, 1, 4), np.float32) for name in "QKV"}
    state.run(own, feeds)
    with pytest.raises(ValueError, match="PagedAttention"):
        state.run(other, feeds)
    assert len(state.values["past"].blocks) == 1


def test_standard_attention_is_unchanged_beside_it() -> None:
    """Rule 6.1.7; S198."""
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
    """Rule 6.3.1; S192, S203."""
    q, k, v = (np.ones(shape, np.float32) for shape in shapes)
    with pytest.raises(ValueError, match=message):
        step(runtime.PagedAttention(), (q, k, v), empty())


def test_one_type_for_all_three() -> None:
    """Rule 6.3.1; S191."""
    one = np.ones((1, 1, 1, 4), np.float32)
    with pytest.raises(ValueError, match="FLOAT16"):
        step(runtime.PagedAttention(), (one, one.astype(np.float16), one), empty())
    with pytest.raises(ValueError, match="DOUBLE"):
        step(runtime.PagedAttention(), (one.astype(np.float64),) * 3, empty())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("dtype", [1, 10, 16])
def test_inputs_must_be_finite(bad: float, which: int, dtype: int) -> None:
    """Rule 6.3.1; S202."""
    qkv = [np.ones((1, 1, 2, 4), TYPES[dtype]) for _ in range(3)]
    qkv[which][0, 0, 1, 2] = bad
    kernel = runtime.PagedAttention()
    with pytest.raises(ValueError, match=f"{'QKV'[which]}: expected finite numbers, got .* at element "):
        step(kernel, (qkv[0], qkv[1], qkv[2]), empty())
    assert kernel.total_statistics().copied_bytes == 0


def test_more_tokens_than_max_tokens_are_refused_and_the_state_stays() -> None:
    """Rule 6.3.2; S252, S271."""
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
    """Rule 6.3.4."""
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
    """F5: appends of 3, 4, 5 tokens with block_size 4; S252: 35 tokens are 16, 16, 3. Rule 6.3.8; S243, S252, S256."""
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


def test_int4_per_axis_page_with_a_typed_zero_point() -> None:
    """6.4: scales [.25, .5], zero point 0x2f (codes -1, 2), bytes 21 43; a zero query gives [1.5 / 3, 1 / 3].

    Rule 6.4.5.
    """
    zero = onnx.TensorProto(data_type=TensorProto.INT4, dims=[2])
    zero.int32_data.append(0x2F)
    payload = encoded(TensorProto.INT4, b"\x21\x43", [1, 1, 2, 2], np.array([0.25, 0.5]), zero, axis=-1)
    cache = onnx.PagedCacheProto(blocks=[page(payload, payload, 2)])
    y, _, statistics = step(runtime.PagedAttention(), one_token(), cache)
    np.testing.assert_allclose(y.reshape(-1), [1.5 / 3, 1 / 3], atol=1e-6)
    assert statistics.dequantized_bytes == 8 * 4


@pytest.mark.parametrize(("axis", "block"), [(2, None), (-1, None), (2, 1), (3, 1), (-1, 1)])
def test_per_axis_and_blocked_scales_match_dense_attention(axis: int, block: int | None) -> None:
    """6.4: on [1, 1, 2, 2]; 8 elements of 4 bytes are decoded. Rules 6.3.13, 6.4.6; S255."""
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
    """F8: UINT4, capacity 3, width 3, codes 1..9; a window that sees only token 1 of it gives [4, 5, 6]. Rule 6.3.5."""
    payload = encoded(TensorProto.UINT4, b"\x21\x43\x65\x87\x09", [1, 1, 3, 3], np.array(1.0))
    dense = np.zeros((1, 1, 3, 3), np.float32)
    cache = onnx.PagedCacheProto(blocks=[page(dense, payload, 2)])
    q, k, v = one_token(3)
    y, _, _ = step(runtime.PagedAttention(), (q, k, v), cache, left_window_size=1)
    np.testing.assert_allclose(y.reshape(-1), np.array([4, 5, 6]) / 2)


def test_unused_rows_are_never_read() -> None:
    """Rule 6.3.6; S258."""
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
    """Rule 6.3.6; S258."""
    rows = {"key": np.ones((1, 1, 4, 4), np.float32), "value": np.ones((1, 1, 4, 4), np.float32)}
    first = page(rows["key"].copy(), rows["value"].copy(), 4)
    rows[side][0, 0, 1, 2] = bad
    cache = onnx.PagedCacheProto(blocks=[first, page(rows["key"], rows["value"], 4, start=4)])
    one = tuple(np.ones((1, 1, 1, 4), np.float32) for _ in range(3))
    with pytest.raises(ValueError, match=rf"blocks\[1\]\.{side}"):
        step(runtime.PagedAttention(), one, cache)
    step(runtime.PagedAttention(), one, cache, left_window_size=2)


def test_decoded_numbers_beyond_float_are_refused() -> None:
    """Rule 6.3.6."""
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
        "capacity": (cache(wide), r"blocks\[0\].capacity: expected at most 16, the block_size"),
        "type": (cache(page(row(1, 1, 2, 4).astype(np.float64), row(1, 1, 2, 4), 2)), "FLOAT"),
        "scales": (cache(page(half_scales, row(1, 1, 2, 4), 2)), r"FLOAT"),
        "scale": (
            cache(page(encoded(3, bytes(8), [1, 1, 2, 4], np.array(0.0)), row(1, 1, 2, 4), 2)),
            r"blocks\[0\].*scale",
        ),
    }


@pytest.mark.parametrize("fault", faults())
def test_a_cache_that_breaks_a_rule_is_refused_with_its_page_and_field(fault: str) -> None:
    """Rules 6.2.9, 6.3.2, 6.3.13; S255, S271."""
    cache, message = faults()[fault]
    one = tuple(np.ones((1, 1, 1, 4), np.float32) for _ in range(3))
    kernel = runtime.PagedAttention()
    with pytest.raises(ValueError, match=message):
        step(kernel, one, cache)
    assert kernel.total_statistics().copied_bytes == 0
