"""Rows of a `Generator` over calls: ended ones, forks, padding; and what a call refuses before it begins."""

import itertools
import pathlib
import signal
from typing import Any

import generation_models as models
import numpy as np
import pytest
import refeed
from generation_models import after_history
from refeed import runtime

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "models"
PROMPTS = [[4], [4, 2, 7], [0, 16], [3, 3, 3, 3]]
pytestmark = pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")


def history(prompts: Any = None) -> runtime.Generator:
    generator = runtime.Generator(models.bound_history())
    if prompts is not None:
        generator.append(prompts)
    return generator


def positions() -> refeed.Model:
    """P2 with a cache that counts columns: the token is its own position."""
    proto, cached = models.of_positions(32), models.of_history()
    taken = {"past", "as_float", "column", "new", "present"}
    proto.graph.node.extend(node for node in cached.graph.node if set(node.output) <= taken)
    proto.graph.initializer.extend(tensor for tensor in cached.graph.initializer if tensor.name in ("last", "wide"))
    proto.graph.input.append(cached.graph.input[2])
    proto.graph.output.append(cached.graph.output[1])
    model, _ = refeed.bind(proto, pairs=[("past", "present")])
    return model


def genai() -> refeed.Model:
    model, _ = refeed.bind(DATA / "genai_llama_fp32" / "model.onnx", patterns="known", uses="any")
    return model


class TestRowsThatHaveEnded:
    def test_positions_do_not_count_fillers(self) -> None:
        # Each token is the position before it: rows of 2 and 5 tokens say 1, 2, 3 .. and 4, 5, 6 ..
        generator = runtime.Generator(positions())
        generator.append([[9, 9], [9, 9, 9, 9, 9]])
        first = generator.generate(max_new_tokens=6, eos_token_id=3, drop_finished=False)
        assert first.tokens == [[1, 2, 3], [4, 5, 6, 7, 8, 9]]
        second = generator.generate(max_new_tokens=3, drop_finished=False)
        assert second.tokens == [[4, 5, 6], [10, 11, 12]]

    def test_kept_rows_go_on_as_if_alone(self) -> None:
        generator = history(PROMPTS)
        generator.generate(max_new_tokens=40, eos_token_id=5, drop_finished=False)
        before = [list(row) for row in generator.tokens]
        assert len({len(row) - len(prompt) for row, prompt in zip(before, PROMPTS, strict=True)}) > 1
        made = generator.generate(max_new_tokens=6, drop_finished=False)
        assert made.tokens == [after_history(row, 6) for row in before]
        assert made.rows == [0, 1, 2, 3]

    def test_penalties_look_over_fillers(self) -> None:
        generator = history(PROMPTS)
        generator.generate(max_new_tokens=40, eos_token_id=5, drop_finished=False)
        alone = [generator.fork(row) for row in range(4)]
        options: dict[str, Any] = {"max_new_tokens": 5, "repetition_penalty": 1e6, "bad_words": [[5, 11]]}
        made = generator.generate(drop_finished=False, **options)
        assert made.tokens == [fork.generate(**options).tokens[0] for fork in alone]

    def test_rows_go_for_good_whenever_the_others_end(self) -> None:
        # Row 0 ends after `ends[0]` tokens; the calls differ in whether row 1 ends before, at the same step, or not.
        text = [after_history(prompt, 12) for prompt in PROMPTS[:2]]
        end = text[0][3]
        for prompts in ([PROMPTS[0], PROMPTS[0]], [PROMPTS[0], PROMPTS[1]]):
            generator = history(prompts)
            generator.generate(max_new_tokens=text[0].index(end) + 1, eos_token_id=end)
            if prompts[0] == prompts[1] or end in text[1][: text[0].index(end) + 1]:
                with pytest.raises(refeed.ValueTypeError, match="every row has ended"):
                    generator.generate(max_new_tokens=2)
            else:
                made = generator.generate(max_new_tokens=2)
                assert made.rows == [1]
                assert made.tokens == [after_history(generator.tokens[1][:-2], 2)]
            fork = generator.fork(0)
            want = after_history(fork.tokens[0], 3)
            assert fork.generate(max_new_tokens=3).tokens == [want]

    def test_a_single_row_goes_on(self) -> None:
        generator = history([4])
        end = after_history([4], 3)[-1]
        generator.generate(max_new_tokens=40, eos_token_id=end)
        said = generator.tokens[0]
        assert generator.generate(max_new_tokens=2).tokens == [after_history(said, 2)]


class TestForks:
    def test_rows_are_counted_anew(self) -> None:
        fork = history(PROMPTS).fork(2)
        assert fork.fork(0).tokens == [[0, 16]]
        made = fork.generate(max_new_tokens=3)
        assert (made.rows, made.tokens) == ([0], [after_history([0, 16], 3)])
        assert [token.sequence for token in fork.stream(max_new_tokens=2)] == [0, 0]
        with pytest.raises(refeed.ValueTypeError, match="expected one of 1 rows, got 2"):
            fork.fork(2)

    def test_draws_are_those_of_the_row(self) -> None:
        options: dict[str, Any] = {"max_new_tokens": 8, "temperature": 9.0, "seed": 5}
        generator = history(PROMPTS)
        fork = generator.fork(2)
        assert fork.generate(**options).tokens[0] == generator.generate(**options).tokens[2]

    def test_turns_of_one_row_stay(self) -> None:
        generator = history([4, 2])
        generator.append([3])
        fork = generator.fork(0)
        assert fork.turns == generator.turns == [0, 2]
        fork.rewind(1)
        assert fork.tokens == [[4, 2]]


class TestNodesThatCountTheMask:
    def test_equal_prompts_run_and_padding_is_refused(self) -> None:
        model = genai()
        assert len(refeed.generate(model, [[5, 6, 7], [8, 9, 10]], max_new_tokens=2)) == 2
        with pytest.raises(refeed.ValueTypeError, match=r"GroupQueryAttention.*prompts of equal length"):
            refeed.generate(model, [[5, 6, 7], [8, 9]])
        feeds = {"input_ids": np.array([[1, 5], [2, 6]]), **runtime.empty_caches(model, 2)}
        feeds["attention_mask"] = np.array([[1, 1], [0, 1]])
        with pytest.raises(refeed.ValueTypeError, match="GroupQueryAttention"):
            runtime.generate(model, runtime.RuntimeContext(), feeds)

    def test_fillers_are_padding_too(self) -> None:
        model = genai()
        prompts = [[5, 6, 7], [8, 9, 10]]
        alone = [refeed.generate(model, prompt, max_new_tokens=8).tokens[0] for prompt in prompts]
        end = next(token for token in alone[0] if token not in alone[1])
        generator = runtime.Generator(model)
        generator.append(prompts)
        made = generator.generate(max_new_tokens=8, eos_token_id=end, drop_finished=False)
        assert made.tokens == [alone[0][: alone[0].index(end) + 1], alone[1]]
        if len(made.tokens[0]) < 8:
            with pytest.raises(refeed.ValueTypeError, match="GroupQueryAttention"):
                generator.generate(max_new_tokens=1, drop_finished=False)
        fork = generator.fork(0)
        left = len(alone[0]) - len(made.tokens[0])
        assert fork.generate(max_new_tokens=left).tokens[0] == alone[0][len(made.tokens[0]) :]


class TestRefusals:
    @pytest.mark.parametrize("count", [10**9, 2**62, 2**63 - 1])
    def test_counts_that_no_memory_holds(self, count: int) -> None:
        for options in ({"num_return_sequences": count, "temperature": 1.0}, {"num_beams": count}):
            with pytest.raises(refeed.ValueTypeError, match=r"^num_\w+: expected at most 65536"):
                refeed.generate(models.bound_history(), [1], **options)
        with pytest.raises(refeed.ValueTypeError, match="for all 2 prompts together, got 40000"):
            refeed.generate(models.bound_history(), [[1], [2]], num_beams=40000)

    def test_rows_without_end(self) -> None:
        state = refeed.PersistentValueState(models.bound_history(), {"past": models.empty()})
        with pytest.raises(refeed.ValueTypeError, match="rows: expected at most 1048576"):
            state.select(itertools.repeat(0))

    @pytest.mark.parametrize(
        ("options", "match"),
        [
            ({"logit_bias": {17: 1.0}}, "logit_bias: expected a token of the vocabulary, below 17, got 17"),
            ({"bad_words": [[1, 18]]}, "bad_words: .* got 18"),
            ({"stop_token_ids": [17]}, "stop_token_ids: .* got 17"),
            ({"stop_sequences": [[17]]}, "stop_sequences: .* got 17"),
            ({"min_new_tokens": 21}, "min_new_tokens: expected at most max_new_tokens, got 21"),
            ({"logits_name": "other"}, "logits_name: expected logits, which the generator was made with, got other"),
            ({"input_ids_name": "other"}, "input_ids_name: expected input_ids"),
            ({"batch_axes": {"past": 1}}, "batch_axes: expected"),
        ],
    )
    def test_options_that_mean_nothing_here(self, options: dict[str, Any], match: str) -> None:
        generator = history([4, 2])
        with pytest.raises(refeed.ValueTypeError, match=match):
            generator.generate(**options)
        assert generator.generate(max_new_tokens=2).tokens == [after_history([4, 2], 2)]

    def test_axes_of_inputs_that_are_not_bound(self) -> None:
        with pytest.raises(refeed.ValueTypeError, match="batch_axes: expected names of bound inputs, got nope"):
            refeed.generate(models.bound_history(), [1], batch_axes={"nope": 0})

    def test_values_and_places_are_told(self) -> None:
        with pytest.raises(refeed.ValueTypeError, match="got 9223372036854775808 at row 1, place 2"):
            history([[1], [2, 3, 2**63]])
        with pytest.raises(TypeError, match=r"got 1\.5 at place 1"):
            history([1, 1.5])
        wrong: Any = 5
        with pytest.raises(TypeError, match=r"completion: expected .*TaskCompletion.*, got <class 'int'>"):
            history([4]).generate(completion=wrong)
        with pytest.raises(TypeError, match=r"context: expected .*RuntimeContext.*, got <class 'int'>"):
            refeed.generate(models.bound_history(), [4], context=wrong)
        with pytest.raises(OverflowError, match="seed: expected an integer from 0 to 18446744073709551615, got -1"):
            runtime.GenerationOptions(seed=-1)
        with pytest.raises(OverflowError, match="stop_token_ids: expected integers from"):
            runtime.GenerationOptions(stop_token_ids=[2**63])

    def test_refused_calls_leave_a_stream_alone(self) -> None:
        generator = history([4, 2])
        stream = generator.stream(max_new_tokens=4)
        got = [next(stream).token]
        wrong: Any = 5
        with pytest.raises(TypeError, match="callback: expected a callable, got <class 'int'>"):
            generator.generate(callback=wrong)
        with pytest.raises(refeed.ValueTypeError, match="truncate"):
            generator.truncate(99)
        with pytest.raises(refeed.ValueTypeError, match="expected one of 1 rows"):
            generator.fork(9)
        with pytest.raises(IndexError):
            generator.rewind(7)
        got += [token.token for token in stream]
        assert got == after_history([4, 2], 4)


class TestStopping:
    @pytest.mark.parametrize("falsy", [False, np.bool_(False), 0])
    def test_falsy_answers_stop(self, falsy: Any) -> None:
        made = history([4, 2]).generate(max_new_tokens=9, callback=lambda _token: falsy)
        assert (made.tokens, made.finish_reasons) == ([after_history([4, 2], 1)], ["stop"])

    @pytest.mark.parametrize("call", ["generate", "prefill", "stream"])
    def test_interrupts_between_pieces_of_a_prompt(self, call: str) -> None:
        length = 200_000
        generator = runtime.Generator(models.bound_history(), runtime.GenerationOptions(prefill_chunk=1))
        generator.append([1] * length)
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            if call == "generate":
                made = generator.generate()
                assert (made.tokens, made.finish_reasons) == ([[]], ["interrupted"])
            else:
                run: Any = generator.prefill if call == "prefill" else lambda: next(iter(generator.stream()))
                with pytest.raises(KeyboardInterrupt):
                    run()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert generator.values["past"].shape[1] < length
        generator.truncate(3)
        assert generator.generate(max_new_tokens=2).tokens == [after_history([1, 1, 1], 2)]
