"""Draws, restrictions and penalties, against NumPy and the exact distributions."""

import functools
import itertools
import math
import operator
from typing import Any

import generation_models as models
import numpy as np
import pytest
import refeed
from generation_models import ids
from refeed import runtime

Array = np.ndarray[Any, Any]
DRAWS = 100_000


def draws(logits: Any, count: int = DRAWS, rows: int = 1000, **options: Any) -> Array:
    """Draw `count` tokens, in rows; the logits are the same at every step."""
    settings = runtime.GenerationOptions(**{"temperature": 1.0, "seed": 7, **options, "max_new_tokens": count // rows})
    feeds = {"input_ids": np.zeros((rows, 1), np.int64)}
    made = runtime.generate(models.fixed(logits), runtime.RuntimeContext(), feeds, settings)
    return made.numpy()[:, 1:].ravel()


def critical(freedom: int) -> float:
    """Return the value that chi-square exceeds once in a million (Wilson and Hilferty)."""
    z = 4.753
    return freedom * (1 - 2 / (9 * freedom) + z * math.sqrt(2 / (9 * freedom))) ** 3


def hold_to(tokens: Array, probabilities: Array) -> None:
    """Hold frequencies to a distribution; what has no probability never comes."""
    counts = np.bincount(tokens, minlength=probabilities.size).astype(np.float64)
    possible = probabilities > 0
    assert counts[~possible].sum() == 0
    if possible.sum() == 1:
        return
    expected = probabilities[possible] * counts.sum()
    assert expected.min() > 5
    chi = float((((counts[possible] - expected) ** 2) / expected).sum())
    assert chi < critical(int(possible.sum()) - 1)


def softmax(logits: Array, temperature: float = 1.0) -> Array:
    scaled = np.asarray(logits, np.float64) / temperature
    weights = np.exp(scaled - scaled.max())
    made: Array = weights / weights.sum()
    return made


def restricted(logits: Array, temperature: float, top_k: int | None, top_p: float | None, min_p: float | None) -> Array:
    """Restrict a distribution: formulas of the documentation, in their order."""
    probabilities = softmax(logits, temperature)
    ranked = np.lexsort((np.arange(probabilities.size), -probabilities))
    if top_k is not None:
        ranked = ranked[:top_k]
    if top_p is not None:
        held = probabilities[ranked] / probabilities[ranked].sum()
        ranked = ranked[: int(np.searchsorted(np.cumsum(held), top_p - 1e-12)) + 1]
    if min_p is not None:
        ranked = ranked[probabilities[ranked] >= min_p * probabilities.max()]
    kept = np.zeros_like(probabilities)
    kept[ranked] = probabilities[ranked]
    made: Array = kept / kept.sum()
    return made


LOGITS = np.log(np.array([1.0, 2.0, 3.0, 4.0, 0.5, 0.5, 2.0, 7.0]))


class TestFrequencies:
    @pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
    def test_softmax_of_logits_over_temperature(self, temperature: float) -> None:
        """Rule 4.6.16; S036."""
        hold_to(draws(LOGITS, temperature=temperature), softmax(LOGITS, temperature))

    def test_weights_one_to_four(self) -> None:
        hold_to(draws(np.log([1.0, 2.0, 3.0, 4.0]), 20_000), np.array([0.1, 0.2, 0.3, 0.4]))

    def test_rows_and_steps_are_independent(self) -> None:
        """Pairs of neighbours, along rows and along steps, have the product of the probabilities."""
        tokens = draws(LOGITS).reshape(1000, 100)
        both = np.outer(softmax(LOGITS), softmax(LOGITS)).ravel()
        hold_to((tokens[:, :-1:2] * 8 + tokens[:, 1::2]).ravel(), both)
        hold_to((tokens[:-1:2] * 8 + tokens[1::2]).ravel(), both)

    @pytest.mark.parametrize(
        ("top_k", "top_p", "min_p"),
        [
            (3, None, None),
            (1, None, None),
            (100, None, None),
            (None, 0.6, None),
            (None, 1e-9, None),
            (None, 1.0, None),
            (None, None, 0.3),
            (None, None, 1.0),
            (5, 0.8, None),
            (5, 0.9, 0.4),
            (None, 0.95, 0.25),
        ],
    )
    def test_restrictions(self, top_k: int | None, top_p: float | None, min_p: float | None) -> None:
        tokens = draws(LOGITS, temperature=1.5, top_k=top_k, top_p=top_p, min_p=min_p)
        hold_to(tokens, restricted(LOGITS, 1.5, top_k, top_p, min_p))

    def test_a_wide_vocabulary(self) -> None:
        """More tokens than are ranked at first."""
        logits = np.random.default_rng(3).normal(0, 1, 3000)
        for top_k, top_p in ((None, 0.3), (700, 0.9), (None, 0.05)):
            want = restricted(logits, 1.0, top_k, top_p, None)
            counts = np.bincount(draws(logits, 6000, 100, top_k=top_k, top_p=top_p), minlength=3000)
            assert counts[want == 0].sum() == 0
            # Groups of tokens, so that each is expected often.
            groups = np.arange(3000) % 20
            hold_to(np.repeat(groups, counts), np.bincount(groups, weights=want))

    def test_forbidden_tokens_never_come(self) -> None:
        logits = np.array([0.0, -np.inf, 1.0, -np.inf])
        hold_to(draws(logits), np.where(np.isneginf(logits), 0, softmax(np.maximum(logits, -800))))
        assert set(draws([-np.inf, 3.0, -np.inf], 1000, 10)) == {1}
        assert set(draws([0.0, 800.0, 0.0], 1000, 10)) == {1}
        assert set(draws([1e30, -1e30, 3.0], 1000, 10, temperature=1e-5)) == {0}


class TestSeeds:
    def test_equal_seeds_equal_tokens(self) -> None:
        """Rule 4.6.16; S036."""
        flat = np.zeros(50)
        first, again, other = (draws(flat, 120, 4, seed=seed).reshape(4, 30) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first, again)
        assert (first != other).any()
        assert len({tuple(row) for row in first}) == 4
        assert (draws(flat, 120, 4, seed=None) != draws(flat, 120, 4, seed=None)).any()
        assert (draws(flat, 120, 4, seed=2**64 - 1) != first.ravel()).any()

    def test_parts_of_a_batch_draw_what_they_draw_in_the_whole(self) -> None:
        flat = np.zeros(50)
        whole = draws(flat, 120, 4).reshape(4, 30)
        for row in range(4):
            np.testing.assert_array_equal(draws(flat, 30, 1, first_row=row), whole[row])

    def test_rows_draw_the_same_whichever_have_ended(self) -> None:
        """Rule 4.6.16."""
        model = models.fixed(np.zeros(20))
        options = runtime.GenerationOptions(temperature=1.0, seed=3, max_new_tokens=40)
        free = refeed.generate(model, [[1], [2], [3]], options)
        ended = refeed.generate(model, [[1], [2], [3]], options.replace(eos_token_id=5))
        kept = refeed.generate(model, [[1], [2], [3]], options.replace(eos_token_id=5, drop_finished=False))
        assert ended.tokens == kept.tokens
        for row, tokens in enumerate(ended.tokens):
            assert free.tokens[row][: len(tokens)] == tokens
        assert len({len(tokens) for tokens in ended.tokens}) > 1

    def test_padding_draws_what_no_padding_draws(self) -> None:
        model = models.bound_history()
        options = runtime.GenerationOptions(temperature=5.0, seed=9, max_new_tokens=12)
        both = refeed.generate(model, [[4], [4, 2, 7]], options)
        assert both.tokens[0] == refeed.generate(model, [4], options).tokens[0]
        assert both.tokens[1] == refeed.generate(model, [4, 2, 7], options.replace(first_row=1)).tokens[0]

    def test_an_interrupted_draw_goes_on_as_if_nothing_was(self) -> None:
        options = runtime.GenerationOptions(temperature=5.0, seed=9)
        whole = refeed.generate(models.bound_history(), [4], options, max_new_tokens=12).tokens[0]
        generator = runtime.Generator(models.bound_history(), options)
        generator.append([4])
        parts = [generator.generate(max_new_tokens=count).tokens[0] for count in (5, 1, 6)]
        assert functools.reduce(operator.iadd, parts, []) == whole


def penalised(
    logits: Array,
    prompt: list[int],
    made: list[int],
    repetition: float = 1.0,
    presence: float = 0.0,
    frequency: float = 0.0,
    bias: dict[int, float] | None = None,
    bad_words: list[list[int]] | None = None,
) -> Array:
    """Change logits: formulas of the documentation, in their order."""
    changed = np.array(logits, np.float64)
    for token, by in (bias or {}).items():
        changed[token] += by
    for token in {*prompt, *made} if repetition != 1.0 else set(made):
        changed[token] = changed[token] / repetition if changed[token] > 0 else changed[token] * repetition
        count = made.count(token)
        changed[token] -= presence * (count > 0) + frequency * count
    row = prompt + made
    for word in bad_words or []:
        before = word[:-1]
        if not before or row[-len(before) :] == before:
            changed[word[-1]] = -np.inf
    return changed


class TestPenalties:
    @pytest.mark.parametrize(
        "fields",
        [
            {"repetition": 1.7},
            {"repetition": 0.5},
            {"presence": 0.8},
            {"frequency": 0.3},
            {"frequency": -0.2},
            {"repetition": 1.3, "presence": 0.4, "frequency": 0.25},
            {"bias": {2: 4.0, 5: -math.inf, 3: -1.5}},
            {"bad_words": [[2], [3, 4], [0, 1, 0]]},
            {"repetition": 1.2, "presence": 0.1, "bias": {1: 2.5}, "bad_words": [[1, 1], [6]]},
        ],
    )
    def test_greedy_tokens_are_numpys(self, fields: dict[str, Any]) -> None:
        names = {"bias": "logit_bias", "bad_words": "bad_words"}
        options = {names.get(name, f"{name}_penalty"): value for name, value in fields.items()}
        for seed in range(5):
            table = np.random.default_rng(seed).normal(0, 1.5, (8, 8)).astype(np.float32)
            prompt = [int(seed), 3, 3]
            made: list[int] = []
            for _ in range(25):
                changed = penalised(table[(prompt + made)[-1]], prompt, made, **fields)
                made.append(int(changed.argmax()))
            got = refeed.generate(models.bigram(table), prompt, max_new_tokens=25, **options)
            assert got.tokens == [made]

    def test_the_repetition_penalty_alone_counts_the_prompt(self) -> None:
        logits = np.array([2.0, 1.9, 1.8])
        got = refeed.generate(models.fixed(logits), [0], max_new_tokens=1, repetition_penalty=1.2)
        assert got.tokens == [[1]]
        got = refeed.generate(models.fixed(logits), [0], max_new_tokens=1, presence_penalty=1.0)
        assert got.tokens == [[0]]

    def test_draws_are_penalised_too(self) -> None:
        bias = {1: -math.inf, 3: 1.0}
        changed = penalised(LOGITS, [], [], bias=bias)
        hold_to(draws(LOGITS, logit_bias=bias), softmax(np.where(np.isneginf(changed), -800, changed)))

    def test_when_nothing_is_left(self) -> None:
        with pytest.raises(refeed.ValueTypeError, match="row 0: every token is forbidden"):
            refeed.generate(models.fixed([1.0, 2.0]), [0], bad_words=[[0], [1]])

    def test_log_probabilities_are_the_models_own(self) -> None:
        table = np.random.default_rng(1).normal(0, 2, (6, 6)).astype(np.float32)
        logs = table.astype(np.float64) - np.log(np.exp(table.astype(np.float64)).sum(1, keepdims=True))
        for options in (
            {},
            {"temperature": 0.6, "seed": 2},
            {"temperature": 1.6, "seed": 2, "top_k": 3, "repetition_penalty": 1.4, "logit_bias": {2: 3.0}},
        ):
            made = refeed.generate(models.bigram(table), [4], max_new_tokens=15, log_probabilities=True, **options)
            row = [4, *made.tokens[0]]
            want = [logs[a, b] for a, b in itertools.pairwise(row)]
            assert made.log_probabilities is not None
            np.testing.assert_allclose(made.log_probabilities[0], want, rtol=1e-9)
        assert refeed.generate(models.bigram(table), [4]).log_probabilities is None


def test_pieces_of_a_prompt_change_nothing() -> None:
    for chunk in (1, 2, 5, 1000):
        made = refeed.generate(models.bound_history(), [4, 2, 7, 1, 1, 9], prefill_chunk=chunk, max_new_tokens=9)
        assert made.tokens == [models.after_history([4, 2, 7, 1, 1, 9], 9)]
    # A model without bindings sees the whole prefix whatever is asked for.
    assert refeed.generate(models.of_width(), [1, 1, 1], prefill_chunk=1, max_new_tokens=2).tokens == [[3, 4]]
    assert refeed.generate(models.fixed([0.0, 1.0]), ids([1]), max_new_tokens=1).tokens == [[1]]
