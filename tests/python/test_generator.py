"""`Generator` and `refeed.generate`: turns, going back, forks, batches, streams, several sequences, beams."""

import itertools
import signal
import threading
import time
from typing import Any

import generation_models as models
import graphs
import numpy as np
import pytest
import refeed
from generation_models import after_history, after_recurrent, ids
from onnx import helper
from refeed import runtime

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")


def history() -> runtime.Generator:
    return runtime.Generator(models.bound_history())


def recurrent() -> runtime.Generator:
    model, _ = refeed.bind(models.recurrent(), pairs=[("past", "present")])
    return runtime.Generator(model)


class TestTurns:
    def test_tokens_are_evaluated_once(self) -> None:
        generator = history()
        generator.append([4, 2])
        first = generator.generate(max_new_tokens=3)
        assert first.tokens == [after_history([4, 2], 3)]
        generator.append([7, 7])
        so_far = [4, 2, *first.tokens[0], 7, 7]
        second = generator.generate(max_new_tokens=4)
        assert second.tokens == [after_history(so_far, 4)]
        assert generator.tokens == [so_far + second.tokens[0]]
        assert (generator.length, generator.turns) == (11, [0, 5])
        # The last token is evaluated by the next call.
        assert generator.values["past"].shape == (1, 10, 3)

    @pytest.mark.parametrize("make", [history, recurrent])
    def test_rewind_and_another_answer(self, make: Any) -> None:
        after = after_history if make is history else after_recurrent
        generator = make()
        said: list[int] = []
        for turn in ([3, 1], [5], [6, 6, 2]):
            generator.append(turn)
            said += turn
            said += generator.generate(max_new_tokens=4).tokens[0]
        assert generator.turns == [0, 6, 11]
        for number, before in ((2, 11), (1, 6)):
            generator.rewind(number)
            assert generator.tokens == [said[:before]]
            generator.append([8, 9])
            want = after([*said[:before], 8, 9], 5)
            assert generator.generate(max_new_tokens=5).tokens == [want]
            generator.rewind(-1)
        assert generator.turns == [0]
        generator.rewind(0)
        assert (generator.tokens, generator.turns, generator.length) == ([], [], 0)
        generator.append([3, 1])
        assert generator.generate(max_new_tokens=2).tokens == [after([3, 1], 2)]

    def test_rewinding_after_a_prefill(self) -> None:
        for make, after in ((history, after_history), (recurrent, after_recurrent)):
            generator = make()
            generator.append([3, 1])
            generator.prefill()
            generator.append([4])
            generator.generate(max_new_tokens=3)
            generator.rewind(1)
            assert generator.generate(max_new_tokens=3).tokens == [after([3, 1], 3)]

    @pytest.mark.parametrize("make", [history, recurrent])
    @pytest.mark.parametrize("length", [1, 2, 5, 8, 9])
    def test_truncate_anywhere(self, make: Any, length: int) -> None:
        after = after_history if make is history else after_recurrent
        generator = make()
        generator.append([3, 1])
        generator.generate(max_new_tokens=3)
        generator.append([5])
        generator.generate(max_new_tokens=3)
        before = generator.tokens[0]
        generator.truncate(length)
        assert generator.tokens == [before[:length]]
        assert generator.generate(max_new_tokens=6).tokens == [after(before[:length], 6)]

    @pytest.mark.parametrize("make", [history, recurrent])
    def test_forks_go_their_own_ways(self, make: Any) -> None:
        after = after_history if make is history else after_recurrent
        generator = make()
        generator.append([3, 1])
        generator.generate(max_new_tokens=3)
        said = generator.tokens[0]
        forks = [generator.fork() for _ in range(3)]
        for number, fork in enumerate([generator, *forks]):
            fork.append([number])
            assert fork.generate(max_new_tokens=5).tokens == [after([*said, number], 5)]
        forks[0].rewind(1)
        assert forks[0].tokens == [said]

    def test_a_prefix_is_continued(self) -> None:
        first = history()
        first.append([4, 2, 9])
        first.prefill()
        rest = runtime.Generator(models.bound_history(), initial={"past": np.array(first.values["past"])})
        rest.append([5])
        assert rest.generate(max_new_tokens=6).tokens == [after_history([4, 2, 9, 5], 6)]
        assert rest.tokens[0][:1] == [5]
        rest.truncate(1)
        assert rest.generate(max_new_tokens=6).tokens == [after_history([4, 2, 9, 5], 6)]
        positions = runtime.Generator(models.bound_positions(), initial={"past": np.zeros((1, 4, 3), np.float32)})
        positions.append([0, 0])
        assert positions.generate(max_new_tokens=2).tokens == [[5, 6]]

    def test_without_bindings_it_works_the_same(self) -> None:
        generator = runtime.Generator(models.successor(64))
        generator.append([3])
        assert generator.generate(max_new_tokens=3).tokens == [[4, 5, 6]]
        generator.append([20])
        assert generator.generate(max_new_tokens=2).tokens == [[21, 22]]
        generator.rewind(1)
        assert generator.generate(max_new_tokens=2).tokens == [[7, 8]]

    def test_misuse(self) -> None:
        generator = history()
        for call in (generator.generate, generator.stream, generator.prefill):
            with pytest.raises(refeed.ValueTypeError, match="append some first"):
                call()
        wrong: Any
        for wrong in ([], [[]], [-1], [[1], [-2]]):
            with pytest.raises(refeed.ValueTypeError):
                generator.append(wrong)
        for wrong in ("text", 3, [1.5], None):
            with pytest.raises(TypeError, match="tokens: expected token ids"):
                generator.append(wrong)
        generator.append([1])
        with pytest.raises(refeed.ValueTypeError, match="expected one row on a generator of one row"):
            generator.append([[1], [2]])
        for turn in (1, -2):
            with pytest.raises(IndexError, match="expected one of 1 turns"):
                generator.rewind(turn)
        with pytest.raises(refeed.ValueTypeError, match="at most the 1 tokens"):
            generator.truncate(2)
        with pytest.raises(TypeError, match="unknown option `temprature`"):
            generator.generate(temprature=1.0)
        with pytest.raises(refeed.ValueTypeError, match="made by the generator itself"):
            runtime.Generator(models.bound_history(), feeds={"attention_mask": ids([1])})


class TestBatches:
    PROMPTS = [[4], [4, 2, 7], [0, 16], [3, 3, 3, 3]]  # noqa: RUF012

    def test_prompts_of_unequal_length(self) -> None:
        made = refeed.generate(models.bound_history(), self.PROMPTS, max_new_tokens=20)
        assert made.tokens == [after_history(prompt, 20) for prompt in self.PROMPTS]
        assert (made.rows, len(made)) == ([0, 1, 2, 3], 4)

    @pytest.mark.parametrize("drops", [True, False])
    def test_rows_that_have_ended_are_let_go(self, drops: bool) -> None:
        want = []
        for prompt in self.PROMPTS:
            row = after_history(prompt, 40)
            want.append(row[: row.index(5) + 1] if 5 in row else row)
        assert len({len(row) for row in want}) > 1
        generator = history()
        generator.append(self.PROMPTS)
        made = generator.generate(max_new_tokens=40, eos_token_id=5, drop_finished=drops)
        assert made.tokens == want
        assert made.finish_reasons == ["eos" if row[-1] == 5 else "length" for row in want]
        assert generator.tokens == [prompt + row for prompt, row in zip(self.PROMPTS, want, strict=True)]
        live = sum(len(row) == max(map(len, want)) for row in want)
        # Those that have ended are gone, or wait apart.
        assert generator.values["past"].shape[0] == live

    def test_one_row_goes_on_alone(self) -> None:
        generator = history()
        generator.append(self.PROMPTS)
        generator.generate(max_new_tokens=40, eos_token_id=5)
        for row, tokens in enumerate(generator.tokens):
            alone = generator.fork(row)
            assert alone.tokens == [tokens]
            alone.append([1])
            assert alone.generate(max_new_tokens=3).tokens == [after_history([*tokens, 1], 3)]
        with pytest.raises(refeed.ValueTypeError, match="expected one of 4 rows, got 4"):
            generator.fork(4)

    def test_an_input_with_a_batch_axis_keeps_all_rows(self) -> None:
        proto = models.of_history()
        proto.graph.input.append(graphs.info("extra", models.FLOAT, ["batch", 1]))
        proto.graph.output.append(graphs.info("more", models.FLOAT, ["batch", 1]))
        proto.graph.node.append(helper.make_node("Neg", ["extra"], ["more"]))
        model, _ = refeed.bind(proto, pairs=[("past", "present")])
        generator = runtime.Generator(model, feeds={"extra": np.zeros((2, 1), np.float32)})
        generator.append([[4], [4, 2, 7]])
        made = generator.generate(max_new_tokens=30, eos_token_id=5)
        assert made.tokens[0] == after_history([4], 30)[: len(made.tokens[0])]
        assert generator.values["past"].shape[0] == 2
        with pytest.raises(refeed.ValueTypeError, match=r"num_beams needs rows .* batch axis"):
            generator.fork().generate(num_beams=2)

    def test_later_feeds(self) -> None:
        """A switch that is off at the first step only."""
        proto = models.of_width(64)
        proto.graph.input.append(graphs.info("shift", models.INT64, [1]))
        proto.graph.node[2].output[0] = "sum"
        proto.graph.node.insert(3, helper.make_node("Add", ["sum", "shift"], ["following"]))
        proto.graph.input.append(graphs.info("past", models.FLOAT, [2]))
        proto.graph.output.append(graphs.info("present", models.FLOAT, [2]))
        proto.graph.node.append(helper.make_node("Neg", ["past"], ["present"]))
        model, _ = refeed.bind(proto, pairs=[("past", "present")])
        first, later = np.array([10], np.int64), np.array([40], np.int64)
        made = refeed.generate(model, [9, 9], max_new_tokens=3, feeds={"shift": first}, later_feeds={"shift": later})
        assert made.tokens == [[12, 41, 41]]


class TestStreams:
    def test_tokens_come_one_by_one(self) -> None:
        generator = history()
        generator.append([4, 2])
        got = []
        for token in generator.stream(max_new_tokens=4, log_probabilities=True):
            got.append(token.token)
            assert generator.tokens == [[4, 2, *got]]
            assert token.log_probability is not None
            assert (token.sequence, token.finish_reason) == (0, "length" if len(got) == 4 else None)
        assert got == after_history([4, 2], 4)

    def test_a_stream_may_be_left(self) -> None:
        generator = history()
        generator.append([4, 2])
        stream = generator.stream(max_new_tokens=100)
        got = [next(stream).token for _ in range(5)]
        generator.append([1])
        assert list(stream) == []
        assert generator.tokens == [[4, 2, *got, 1]]
        stream = generator.stream(max_new_tokens=100)
        got = [4, 2, *got, 1, next(stream).token]
        stream.close()
        stream.close()
        assert list(stream) == []
        assert generator.generate(max_new_tokens=3).tokens == [after_history(got, 3)]

    def test_rows_of_a_batch_take_turns(self) -> None:
        generator = history()
        generator.append([[4], [4, 2, 7]])
        tokens = [(token.sequence, token.token) for token in generator.stream(max_new_tokens=3)]
        want = zip(after_history([4], 3), after_history([4, 2, 7], 3), strict=True)
        assert tokens == [(row, token) for pair in want for row, token in enumerate(pair)]

    def test_callbacks_see_tokens_and_stop(self) -> None:
        generator = history()
        generator.append([4, 2])
        seen: list[int] = []

        def callback(token: runtime.GeneratedToken) -> bool | None:
            seen.append(token.token)
            return False if len(seen) == 3 else None

        made = generator.generate(max_new_tokens=50, callback=callback)
        assert made.tokens == [seen] == [after_history([4, 2], 3)]
        assert made.finish_reasons == ["stop"]

        def fails(token: runtime.GeneratedToken) -> None:
            raise LookupError(token.token)

        with pytest.raises(LookupError):
            generator.generate(max_new_tokens=5, callback=fails)
        assert len(generator.tokens[0]) == 6
        assert generator.generate(max_new_tokens=2).tokens == [after_history(generator.tokens[0][:6], 2)]

    def test_calls_must_not_overlap(self) -> None:
        generator = history()
        generator.append([4, 2])

        def callback(token: runtime.GeneratedToken) -> None:
            del token
            with pytest.raises(refeed.StateBusyError):
                generator.append([1])
            raise StopAsyncIteration

        with pytest.raises(StopAsyncIteration):
            generator.generate(callback=callback)


class TestSequences:
    def test_several_from_one_prompt(self) -> None:
        model = models.bound_history()
        options = runtime.GenerationOptions(temperature=8.0, seed=5, num_return_sequences=3, max_new_tokens=6)
        generator = runtime.Generator(model, options)
        generator.append([[4], [4, 2, 7]])
        made = generator.generate()
        assert made.rows == [0, 0, 0, 1, 1, 1]
        assert len({tuple(tokens) for tokens in made.tokens}) == 6
        # They are what single calls draw from the same streams.
        for number, tokens in enumerate(made.tokens):
            prompt = [[4], [4, 2, 7]][number // 3]
            alone = refeed.generate(model, prompt, temperature=8.0, seed=5, max_new_tokens=6, first_row=number)
            assert alone.tokens == [tokens]
        # The first of each prompt goes on.
        assert generator.tokens == [[4, *made.tokens[0]], [4, 2, 7, *made.tokens[3]]]
        with pytest.raises(refeed.ValueTypeError, match="the sequences would be equal"):
            generator.generate(temperature=0.0)

    def test_the_native_call_returns_them_as_rows(self) -> None:
        feeds = {"input_ids": ids([4, 2]), "past": models.empty()}
        options = runtime.GenerationOptions(temperature=8.0, seed=5, num_return_sequences=3, max_new_tokens=6)
        made = runtime.generate(models.bound_history(), runtime.RuntimeContext(), feeds, options).numpy()
        assert made.shape == (3, 8)
        assert made.tolist() == [
            [4, 2, *tokens] for tokens in refeed.generate(models.bound_history(), [4, 2], options).tokens
        ]


def best_sequences(
    table: Array, first: int, length: int, end: int | None, power: float
) -> list[tuple[float, list[int]]]:
    """Return every sequence of at most `length` tokens, best first: log-probability over length to a power."""
    logs = table - np.log(np.exp(table).sum(1, keepdims=True))
    found = []
    for count in range(1, length + 1):
        for tokens in itertools.product(range(len(table)), repeat=count):
            ends = tokens[-1] == end
            if end in tokens[:-1] or (count < length and not ends):
                continue
            total = sum(logs[a, b] for a, b in zip((first, *tokens), tokens, strict=False))
            found.append((total / count**power, list(tokens)))
    return sorted(found, key=lambda pair: -pair[0])


class TestBeams:
    @pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
    @pytest.mark.parametrize("end", [None, 2])
    def test_wide_beams_find_the_best_of_all(self, end: int | None, power: float) -> None:
        for seed in range(4):
            table = np.random.default_rng(seed).normal(0, 2, (4, 4)).astype(np.float32)
            want = best_sequences(table.astype(np.float64), 1, 3, end, power)
            made = refeed.generate(
                models.bigram(table), [1], max_new_tokens=3, num_beams=64, num_return_sequences=3,
                eos_token_id=end, length_penalty=power, log_probabilities=True,
            )  # fmt: skip
            scores, probabilities = made.scores, made.log_probabilities
            assert scores is not None
            assert probabilities is not None
            assert made.tokens == [tokens for _, tokens in want[:3]]
            np.testing.assert_allclose(scores, [score for score, _ in want[:3]], rtol=1e-6)
            for tokens, logs, score in zip(made.tokens, probabilities, scores, strict=True):
                assert sum(logs) / len(tokens) ** power == pytest.approx(score, rel=1e-12)

    def test_beams_choose_rows_of_the_state(self) -> None:
        """The cache follows the beams: with it the search finds what it finds without."""
        model = models.bound_history()
        made = refeed.generate(model, [[4], [4, 2, 7]], max_new_tokens=6, num_beams=3, num_return_sequences=2)
        for row, prompt in enumerate(([4], [4, 2, 7])):
            # The best beam of a peaked distribution is the greedy sequence.
            assert made.tokens[2 * row] == after_history(prompt, 6)

    @pytest.mark.parametrize("options", [{"num_beams": 3}, {"temperature": 6.0, "seed": 4}])
    def test_forks_stand_in_where_rows_cannot_be_chosen(self, options: dict[str, Any]) -> None:
        """A model that is declared for one row: each sequence is a fork."""
        proto = models.of_history()
        for value in (*proto.graph.input, *proto.graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = 1
        alone, _ = refeed.bind(proto, pairs=[("past", "present")])
        settings = {"num_return_sequences": 3, "max_new_tokens": 7, "eos_token_id": 5, **options}
        want = refeed.generate(models.bound_history(), [4, 2, 7], **settings)
        made = refeed.generate(alone, [4, 2, 7], **settings)
        assert (made.tokens, made.finish_reasons) == (want.tokens, want.finish_reasons)
        feeds = {"input_ids": ids([4, 2]), "past": models.empty()}
        native = runtime.GenerationOptions(**settings)
        one, other = (
            runtime.generate(model, runtime.RuntimeContext(), feeds, native).numpy()
            for model in (alone, models.bound_history())
        )
        np.testing.assert_array_equal(one, other)

    @pytest.mark.parametrize("options", [{"num_beams": 3}, {"temperature": 1.0, "seed": 4}])
    def test_forks_share_pages(self, options: dict[str, Any]) -> None:
        settings = {"num_return_sequences": 3, "max_new_tokens": 5, **options}
        made = refeed.generate(models.paged_decoder(), [1, 2], **settings)
        assert made.tokens == refeed.generate(models.successor(), [1, 2], **settings).tokens

    def test_a_generator_goes_on_with_the_best(self) -> None:
        generator = history()
        generator.append([4, 2])
        made = generator.generate(num_beams=4, max_new_tokens=5)
        assert generator.tokens == [[4, 2, *made.tokens[0]]]
        generator.append([1])
        want = after_history([4, 2, *made.tokens[0], 1], 3)
        assert generator.generate(max_new_tokens=3).tokens == [want]

    def test_the_native_call(self) -> None:
        feeds = {"input_ids": ids([9, 4], [4, 2]), "attention_mask": ids([0, 1], [1, 1]), "past": models.empty(2)}
        options = runtime.GenerationOptions(num_beams=3, num_return_sequences=2, max_new_tokens=4)
        made = runtime.generate(models.bound_history(), runtime.RuntimeContext(), feeds, options).numpy()
        assert made.shape == (4, 6)
        assert made[0].tolist() == [9, 4, *after_history([4], 4)]
        assert made[2].tolist() == [4, 2, *after_history([4, 2], 4)]

    def test_misuse(self) -> None:
        model = models.bound_history()
        with pytest.raises(refeed.ValueTypeError, match="beams are searched, not drawn"):
            refeed.generate(model, [1], num_beams=2, temperature=1.0)
        with pytest.raises(refeed.ValueTypeError, match="at most num_beams"):
            refeed.generate(model, [1], num_beams=2, num_return_sequences=3)
        generator = history()
        generator.append([1])
        with pytest.raises(refeed.ValueTypeError, match="no stream"):
            generator.stream(num_beams=2)


class TestStopping:
    def test_a_cancelled_call_returns_what_there_is(self) -> None:
        """Rule 4.6.22; S033."""
        for call in ("generator", "native"):
            completion = runtime.TaskCompletion()
            timer = threading.Timer(0.05, completion.cancel)
            timer.start()
            begun = time.monotonic()
            if call == "generator":
                generator = history()
                generator.append([4, 2])
                made = generator.generate(max_new_tokens=10**9, completion=completion)
                assert made.finish_reasons == ["cancelled"]
                got = made.tokens[0]
                assert generator.tokens == [[4, 2, *got]]
                assert generator.generate(max_new_tokens=3).tokens == [after_history([4, 2, *got], 3)]
            else:
                feeds = {"input_ids": ids([4, 2]), "past": models.empty()}
                options = runtime.GenerationOptions(max_new_tokens=10**9)
                context = runtime.RuntimeContext()
                tokens = runtime.generate(models.bound_history(), context, feeds, options, completion=completion)
                got = tokens.numpy()[0, 2:].tolist()
            assert time.monotonic() - begun < 20
            timer.join()
            assert got == after_history([4, 2], len(got))
            assert completion.status == runtime.TaskStatus.kCancelled

    def test_completions_are_for_one_call(self) -> None:
        completion = runtime.TaskCompletion()
        generator = history()
        generator.append([4, 2])
        generator.generate(max_new_tokens=2, completion=completion)
        assert completion.status == runtime.TaskStatus.kSucceeded
        with pytest.raises(refeed.CompletionError):
            generator.generate(max_new_tokens=2, completion=completion)
        cancelled = runtime.TaskCompletion()
        cancelled.cancel("no")
        # As a moment later: what there is by then, which is nothing.
        for options in (None, refeed.GenerationOptions(num_beams=2), refeed.GenerationOptions(num_return_sequences=1)):
            made = generator.generate(options, completion=cancelled)
            assert (made.tokens, made.finish_reasons) == ([[]], ["cancelled"])
        feeds = {"input_ids": ids([4, 2]), "past": models.empty()}
        with pytest.raises(refeed.CancelledError):
            runtime.generate(models.bound_history(), runtime.RuntimeContext(), feeds, completion=cancelled)
        assert len(generator.tokens[0]) == 4

    def test_other_exceptions_of_handlers_pass(self) -> None:
        def handler(number: int, frame: Any) -> None:
            del number, frame
            raise TimeoutError("too long")

        generator = history()
        generator.append([4, 2])
        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(TimeoutError, match="too long"):
                generator.generate(max_new_tokens=10**9)
        finally:
            signal.signal(signal.SIGALRM, before)
        said = generator.tokens[0]
        assert said == [4, 2, *after_history([4, 2], len(said) - 2)]
        assert generator.generate(max_new_tokens=3).tokens == [after_history(said, 3)]
