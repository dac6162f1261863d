"""`query_precision` of `ai.rt::PagedAttention`: how exactly codes of pages are multiplied.

All of it holds on every processor: where queries are not rounded, both words give the same.
"""

from typing import Any

import numpy as np
import pytest
from paged_reference import CODES, Array, attention, empty, model, random, reconstructed, step
from refeed import errors, runtime
from refeed.onnx import TensorProto

FULL, SIZE, TOKENS = 1e-5, 64, 150
#: The numbers that weights of 16 bits leave out, and those that their sum does, of the largest value: 64 of 2^-17 each.
WEIGHTS = 2 * 64 * 2.0**-17


def format_of(storage: int, zero: int | None = None) -> runtime.PageFormat:
    _, low, high = CODES[storage]
    return runtime.PageFormat(storage, 2 / (high - low), (low + high + 1) // 2 if zero is None else zero)


def filled(form: runtime.PageFormat, block_size: int) -> tuple[np.random.Generator, Any]:
    """Return a cache of pages; both precisions store the same."""
    caches = []
    for precision in ("full", "int8"):
        rng = np.random.default_rng(30)
        kernel = runtime.PagedAttention(format_selector=lambda *_: form, query_precision=precision)
        qkv = (random(rng, 1, 4, TOKENS, SIZE), random(rng, 1, 2, TOKENS, SIZE), random(rng, 1, 2, TOKENS, SIZE))
        _, cache, _ = step(kernel, qkv, empty(), block_size=block_size)
        caches.append(cache)
    assert caches[0].SerializeToString() == caches[1].SerializeToString()
    return rng, caches[0]


def of_each(qkv: tuple[Array, Array, Array], cache: Any) -> tuple[Array, Array]:
    full, rounded = (
        step(runtime.PagedAttention(query_precision=precision), qkv, cache, block_size=64)[0]
        for precision in ("full", "int8")
    )
    return full, rounded


def bound(q: Array, k: Array, v: Array) -> float:
    """Return how much results may differ: a weight and the sum of weights change by a factor of exp(score) at most."""
    score = np.abs(q).max() / 254 * np.abs(k).sum(axis=3).max() / np.sqrt(q.shape[3])
    return float((np.expm1(2 * score) + WEIGHTS) * np.abs(v).max()) + FULL


@pytest.mark.parametrize("block_size", [16, 64])
@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize(
    ("storage", "zero"),
    [
        (TensorProto.INT8, None),
        (TensorProto.INT8, 40),
        (TensorProto.UINT8, None),
        (TensorProto.UINT8, 100),
        (TensorProto.INT4, None),
        (TensorProto.UINT4, 9),
        (TensorProto.INT2, None),
        (TensorProto.UINT2, 1),
    ],
)
def test_results_differ_from_the_formula_by_no_more_than_is_said(
    storage: int, zero: int | None, length: int, block_size: int
) -> None:
    rng, cache = filled(format_of(storage, zero), block_size)
    q, k, v = random(rng, 1, 4, length, SIZE), random(rng, 1, 2, length, SIZE), random(rng, 1, 2, length, SIZE)
    keys, values = (np.concatenate([old, new], axis=2) for old, new in zip(reconstructed(cache), (k, v), strict=True))
    want = attention(q, keys, values)
    full, rounded = of_each((q, k, v), cache)
    np.testing.assert_allclose(full, want, rtol=0, atol=FULL)
    np.testing.assert_allclose(rounded, want, rtol=0, atol=bound(q, keys, values))


@pytest.mark.parametrize("storage", [TensorProto.INT8, TensorProto.UINT4])
def test_queries_with_one_large_number_are_not_rounded(storage: int) -> None:
    rng, cache = filled(format_of(storage), 16)
    q, k, v = random(rng, 1, 4, 1, SIZE), random(rng, 1, 2, 1, SIZE), random(rng, 1, 2, 1, SIZE)
    q[..., 5] = 40
    keys, values = (np.concatenate([old, new], axis=2) for old, new in zip(reconstructed(cache), (k, v), strict=True))
    want = attention(q, keys, values)
    for got in of_each((q, k, v), cache):
        np.testing.assert_allclose(got, want, rtol=0, atol=WEIGHTS * np.abs(values).max() + FULL)


@pytest.mark.parametrize("storage", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_pages_of_numbers_have_the_same_bits_with_either(storage: int) -> None:
    rng, cache = filled(runtime.PageFormat(storage), 16)
    for length in (1, 3):
        q, k, v = random(rng, 1, 4, length, SIZE), random(rng, 1, 2, length, SIZE), random(rng, 1, 2, length, SIZE)
        full, rounded = of_each((q, k, v), cache)
        assert full.tobytes() == rounded.tobytes()


def test_a_registered_kernel_differs_by_no_more_than_is_said() -> None:
    form = format_of(TensorProto.INT8)
    states = []
    for precision in ("int8", "full"):
        context = runtime.RuntimeContext()
        runtime.register_paged_attention(context, format_selector=lambda *_: form, query_precision=precision)
        states.append((runtime.PersistentValueState(model(), {"past": empty()}), context))
    rng = np.random.default_rng(31)
    for length in (90, 1, 1, 5, 1):
        feeds = {name: random(rng, 1, heads, length, SIZE) for name, heads in (("Q", 4), ("K", 2), ("V", 2))}
        rounded, full = (state.run(context, feeds)["Y"].numpy() for state, context in states)
        cache, other = (state.values["past"] for state, _ in states)
        assert cache.SerializeToString() == other.SerializeToString()
        # New rows are not rounded to codes before the next step.
        keys, values = (
            np.concatenate([old, new], axis=2)
            for old, new in zip(reconstructed(cache), (feeds["K"], feeds["V"]), strict=True)
        )
        np.testing.assert_allclose(rounded, full, rtol=0, atol=bound(feeds["Q"], keys, values) + FULL)


@pytest.mark.parametrize("make", [runtime.PagedAttention, runtime.register_paged_attention])
def test_it_is_one_of_two_words(make: Any) -> None:
    with pytest.raises(errors.ValueTypeError, match="query_precision: expected 'full' or 'int8', got \"int4\""):
        make(query_precision="int4")
    with pytest.raises(TypeError, match="query_precision: expected 'full' or 'int8', got int"):
        make(query_precision=8)
