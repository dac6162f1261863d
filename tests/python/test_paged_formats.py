"""`ai.rt::PagedAttention`: formats of new pages, windows, statistics and the last page."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from paged_reference import (
    CODES,
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
    reconstructed,
    step,
    storage_of,
    unpack,
)
from refeed import errors, onnx, runtime
from refeed.onnx import TensorProto, helper

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
    """Rule 6.3.3; S201, S243."""
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
    """Rules 6.3.3, 6.3.15; S272."""
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


#: As callers without a type checker see them.
page_format: Any = runtime.PageFormat
paged_attention: Any = runtime.PagedAttention
register: Any = runtime.register_paged_attention

WRONG: list[tuple[Any, type[Exception], str]] = [
    (lambda: page_format("INT8"), TypeError, "storage_type: expected the number of an element type, got str"),
    (lambda: page_format(2**40), ValueError, "storage_type: expected the number of an element type, got 1099"),
    (lambda: page_format(3, "1"), TypeError, "scale: expected a number, got str"),
    (lambda: page_format(3, 1e-46), ValueError, "scale: expected a positive .* within FLOAT, got 1e-46"),
    (lambda: page_format(3, 1e39), ValueError, r"scale: expected a positive .* within FLOAT, got 1e\+39"),
    (lambda: page_format(3, -0.5), ValueError, "scale: expected a positive finite number, got -0.5"),
    (lambda: page_format(3, 1, 1.5), TypeError, "zero_point: expected an integer, got float"),
    (lambda: page_format(3, 1, 2**70), ValueError, "zero_point: expected a code of INT8, got 1180"),
    (
        lambda: paged_attention(partial_blocks=1),
        TypeError,
        "partial_blocks: expected 'sealed' or 'fill', got int",
    ),
    (
        lambda: register(query_precision=8),
        TypeError,
        "query_precision: expected 'full' or 'int8', got int",
    ),
    (lambda: paged_attention().register(3), TypeError, "context: expected a RuntimeContext, got int"),
    (lambda: register(3), TypeError, "context: expected a RuntimeContext, got int"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_arguments_of_other_types_are_refused_by_name(case: int) -> None:
    call, kind, expected = WRONG[case]
    with pytest.raises(kind, match=expected):
        call()


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ((runtime.PageFormat(), None), "format_selector: expected a PageFormat for values, got NoneType"),
        ((3, runtime.PageFormat()), "format_selector: expected a PageFormat for keys, got int"),
        ((runtime.PageFormat(),) * 3, "expected None, a PageFormat or a tuple of two, got a tuple of 3"),
    ],
)
def test_what_a_selector_returned_is_told(returned: Any, expected: str) -> None:
    kernel = runtime.PagedAttention(format_selector=lambda *_: returned)
    with pytest.raises(TypeError, match=expected):
        step(kernel, one_token(), empty())


@pytest.mark.parametrize("side", ["K", "V"])
def test_numbers_beyond_a_dense_format_say_whose_they_are(side: str) -> None:
    q, k, v = (row.copy() for row in one_token())
    (k if side == "K" else v)[0, 0, 0, 1] = 70000
    with pytest.raises(ValueError, match=rf"{side}: expected a number within FLOAT16 at \[0, 0, 0, 1\], got 70000"):
        step(selected(runtime.PageFormat(TensorProto.FLOAT16)), (q, k, v), empty())


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
    """Rule 6.3.3."""
    with pytest.raises(errors.ValueTypeError, match=message):
        runtime.PageFormat(*arguments)


@pytest.mark.parametrize("storage", CODES)
def test_quantisation_rounds_ties_to_even_and_saturates(storage: int) -> None:
    """6.4 and S266: .5, 1.5, 2.5, 3.5, 1e30 at scale 1 give 0, 2, 2, 4 and the largest code, as far as codes go.

    Rules 6.3.10, 6.4.4.
    """
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
    """Rule 6.3.10; S267."""
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
    """S268, for all formats and input types: batches, grouped heads, several appends. Rule 6.3.5; S191, S203, S253."""
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
    """S260: with INT2 pages of scale 100 the first result is exact. Rule 6.3.7."""
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
    """S269: Q, K, V are +/- 0.173 * step. Rule 6.4.7."""
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

    Rule 6.4.1; S195, S257, S261, S263.
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
    """6.4 and S264: INT8 keys of width 2, UINT4 values of width 3, 6 tokens, then 2 with a window of 1.

    Rule 6.4.2; S261, S262, S263.
    """
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
    """6.4: an INT4 key page, then dense keys and UINT8 values: 12 + 2 bytes are copied, (3 + 2) * 4 are dequantised.

    Rule 6.4.3; S253.
    """
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
    """Rule 6.3.14; S262."""
    rng = np.random.default_rng(12)
    kernel = selected(runtime.PageFormat(TensorProto.INT8, 0.01), runtime.PageFormat())
    _, cache, _ = step(kernel, tuple(random(rng, 2, 2, 13, 4) for _ in range(3)), empty(), block_size=5)
    for window in (-1, 0, 3, 7, 50):
        qkv = (random(rng, 2, 6, 4, 4), random(rng, 2, 2, 4, 4), random(rng, 2, 2, 4, 4))
        _, _, statistics = step(kernel, qkv, cache, left_window_size=window)
        lows = [0 if window < 0 else max(0, 13 + row - window) for row in range(4)]
        assert statistics.dequantized_bytes == sum(4 * 4 * max(0, 13 - low) for low in lows) * 2 * 6


def test_a_page_is_checked_once() -> None:
    """Rule 6.3.11; S240."""
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
    """Rule 6.2.10; S228."""
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
    """S256: every snapshot is held while the state goes on. Rule 6.3.8."""
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


@pytest.mark.parametrize(("block_size", "most", "rows"), [(2**40, 50, 50), (2**62, 7, 7), (8, 50, 8), (50, 8, 8)])
def test_fill_reserves_rows_for_the_tokens_that_may_come(block_size: int, most: int, rows: int) -> None:
    rng = np.random.default_rng(24)
    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context, partial_blocks="fill")
    state = runtime.PersistentValueState(model(block_size=block_size, max_tokens=most), {"past": empty()})
    for _ in range(rows):
        state.run(context, {name: random(rng, 1, 2, 1, 4) for name in "QKV"})
        cache = state.values["past"]
        assert len(cache.blocks) == 1
        del cache
        # Keys and values of two heads of four numbers; beside them scalars and what a step works in.
        assert state.live_bytes < 2 * 2 * 4 * 4 * rows + 2048


def outcomes(form: Any, partial_blocks: str, lengths: Sequence[int]) -> list[str]:
    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context, format_selector=lambda *_: form, partial_blocks=partial_blocks)
    state = runtime.PersistentValueState(model(block_size=4), {"past": empty()})
    rng, told = np.random.default_rng(25), []
    for number, length in enumerate(lengths):
        state.run(context, {name: random(rng, 1, 2, length, 4) for name in "QKV"})
        (report,) = state.explain().bindings
        assert report.shape == ((1, 2, sum(lengths[: number + 1]), 4) if any(lengths[: number + 1]) else ())
        told.append(report.outcome)
    return told


def test_explain_says_what_became_of_the_pages() -> None:
    sealed = ["appended no page", "appended a page", "appended a page", "appended 3 pages"]
    assert outcomes(None, "sealed", (0, 1, 1, 9)) == sealed
    moved, more = "copied the last page with new rows", "copied the last page with new rows, appended 2 pages"
    assert outcomes(None, "fill", (1, 1, 1, 1, 1)) == [
        "appended a page",
        moved,
        "in place",
        "in place",
        "appended a page",
    ]
    assert outcomes(None, "fill", (1, 1, 7)) == ["appended a page", moved, "in place, appended 2 pages"]
    codes = runtime.PageFormat(TensorProto.INT4, 0.25)
    assert outcomes(codes, "fill", (1, 1, 2, 5)) == ["appended a page", moved, moved, "appended 2 pages"]
    assert outcomes(codes, "fill", (2, 9)) == ["appended a page", more]


def test_forecasts_of_pages_and_caches_that_come_from_elsewhere() -> None:
    runtime.register_paged_attention(context := runtime.RuntimeContext())
    state = runtime.PersistentValueState(model(), {"past": empty()}, context=context)
    assert state.explain().bindings[0].outcome == "not run yet"
    assert [told.split(": ")[-1] for told in map(str, runtime.RuntimeSession(model(), context=context).forecast())] == [
        "appends pages"
    ]


@pytest.mark.parametrize(
    ("batch", "heads", "width", "storage", "said"),
    [
        (2, 1, 2, TensorProto.INT4, True),
        (2, 2, 1, TensorProto.UINT4, True),
        (3, 1, 4, TensorProto.UINT2, False),
        (2, 1, 4, TensorProto.INT4, False),
        (4, 2, 4, TensorProto.INT8, False),
    ],
)
def test_rows_of_small_pages_of_codes_say_their_width(
    batch: int, heads: int, width: int, storage: int, said: bool
) -> None:
    """Fewer rows may take as many bytes in another format: then the type of the codes is written."""
    context = runtime.RuntimeContext()
    form = runtime.PageFormat(storage, 0.25)
    runtime.register_paged_attention(context, format_selector=lambda *_: form)
    state = runtime.PersistentValueState(model(), {"past": empty()}, context=context)
    rng = np.random.default_rng(26)
    state.run(context, {name: random(rng, batch, heads, 1, width) for name in "QKV"})
    before = reconstructed(state.values["past"])
    for rows in ([0], [batch - 1, 0]):
        chosen = state.fork()
        chosen.select(rows)
        cache = chosen.values["past"]
        for one, other in zip(reconstructed(cache), before, strict=True):
            np.testing.assert_array_equal(one, other[rows])
        if rows == [0]:
            assert cache.blocks[0].encoded_key.affine.HasField("storage_type") is said
        chosen.run(context, {name: random(rng, len(rows), heads, 1, width) for name in "QKV"})


def test_a_failed_step_leaves_a_filled_page_as_it_was() -> None:
    """Rule 6.3.15; S272."""
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
