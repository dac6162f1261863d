"""Rows of a `Generator` over calls: ended ones, forks, padding; and what a call refuses before it begins."""

import itertools
import pathlib
import signal
from typing import Any

import generation_models as models
import graphs
import numpy as np
import pytest
import refeed
from generation_models import after_history
from onnx import helper
from refeed import runtime

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "models"
PROMPTS = [[4], [4, 2, 7], [0, 16], [3, 3, 3, 3]]
pytestmark = pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")


def history(prompts: Any = None) -> runtime.Generator:
    generator = runtime.Generator(models.bound_history())
    if prompts is not None:
        generator.append(prompts)
    return generator


def genai() -> refeed.Model:
    model, _ = refeed.bind(DATA / "genai_llama_fp32" / "model.onnx", patterns="known", uses="any")
    return model


class TestRowsThatHaveEnded:
    def test_positions_do_not_count_fillers(self) -> None:
        # Each token is the position before it: rows of 2 and 5 tokens say 1, 2, 3 .. and 4, 5, 6 ..
        generator = runtime.Generator(models.bound_positions())
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


class TestPieces:
    """A prompt goes in by pieces, whoever says how large."""

    def test_by_default(self) -> None:
        """The token is the number of columns of the last run."""
        proto = models.of_width(2000)
        proto.graph.input.append(graphs.info("past", models.FLOAT, [2]))
        proto.graph.output.append(graphs.info("present", models.FLOAT, [2]))
        proto.graph.node.append(helper.make_node("Neg", ["past"], ["present"]))
        model, _ = refeed.bind(proto, pairs=[("past", "present")])
        prompt = [1] * 1100
        for chunk, want in ((None, 1100 - 2 * 512), (1500, 1100), (1000, 100)):
            made = refeed.generate(model, prompt, max_new_tokens=2, prefill_chunk=chunk)
            assert made.tokens == [[want, 1]]
        # The native call evaluates it at once.
        feeds = {"input_ids": np.array([prompt]), "past": np.zeros(2, np.float32)}
        options = runtime.GenerationOptions(max_new_tokens=1)
        assert runtime.generate(model, runtime.RuntimeContext(), feeds, options).numpy()[0, -1] == 1100

    def test_as_many_as_the_model_takes(self) -> None:
        proto = models.of_history()
        proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1
        model, _ = refeed.bind(proto, pairs=[("past", "present")])
        made = refeed.generate(model, [[4, 2, 9], [3, 3]], max_new_tokens=5)
        assert made.tokens == [after_history([4, 2, 9], 5), after_history([3, 3], 5)]


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


class TestRowsOneByOne:
    """Where a model would take padding for tokens, each row has a state of its own."""

    PROMPTS = [[4], [4, 2, 7], [9, 10]]  # noqa: RUF012

    def test_models_without_a_mask(self) -> None:
        made = refeed.generate(models.successor(64), self.PROMPTS, max_new_tokens=3)
        assert made.tokens == [[5, 6, 7], [8, 9, 10], [11, 12, 13]]

    def test_masks_that_no_node_reads(self) -> None:
        """The sum of all tokens, whatever the mask says: a graph whose attention has lost it."""
        proto = models.of_history()
        kept = [node for node in proto.graph.node if not {"mask", "mask_column", "seen"}.intersection(node.output)]
        (total,) = (node for node in kept if node.op_type == "ReduceSum")
        total.input[0] = "present"
        del proto.graph.node[:]
        proto.graph.node.extend(kept)
        model, _ = refeed.bind(proto, pairs=[("past", "present")])
        made = refeed.generate(model, PROMPTS, max_new_tokens=5, pad_token_id=7)
        assert made.tokens == [after_history(prompt, 5) for prompt in PROMPTS]

    def test_recurrent_models(self) -> None:
        model, _ = refeed.bind(models.recurrent(), pairs=[("past", "present")])
        generator = runtime.Generator(model)
        generator.append(self.PROMPTS)
        first = generator.generate(max_new_tokens=4)
        assert first.tokens == [models.after_recurrent(row, 4) for row in self.PROMPTS]
        # Nothing is evaluated again, and every row goes on.
        second = generator.generate(max_new_tokens=2)
        said = [row + more for row, more in zip(self.PROMPTS, first.tokens, strict=True)]
        assert second.tokens == [models.after_recurrent(row, 2) for row in said]
        fork = generator.fork(1)
        fork.append([5])
        assert fork.generate(max_new_tokens=2).tokens[0] == models.after_recurrent([*generator.tokens[1], 5], 2)

    def test_models_that_are_declared_for_one_row(self) -> None:
        proto = models.of_history()
        for value in (*proto.graph.input, *proto.graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = 1
        model, _ = refeed.bind(proto, pairs=[("past", "present")])
        for prompts in (self.PROMPTS, [[4, 2], [1, 3]]):
            made = refeed.generate(model, prompts, max_new_tokens=5)
            assert made.tokens == [after_history(row, 5) for row in prompts]
        made = refeed.generate(model, self.PROMPTS, max_new_tokens=5, initial={"past": np.zeros((1, 0, 3), np.float32)})
        assert made.tokens == [after_history(row, 5) for row in self.PROMPTS]

    def test_feeds_with_a_batch_axis_are_parted(self) -> None:
        proto = models.successor(64)
        proto.graph.input.append(graphs.info("shift", models.INT64, ["batch", 1]))
        proto.graph.node[1].op_type = "Add"
        proto.graph.node[1].input.append("shift")
        shift = np.array([[0], [10], [20]])
        made = refeed.generate(proto, self.PROMPTS, max_new_tokens=1, feeds={"shift": shift})
        assert made.tokens == [[5], [18], [31]]
        with pytest.raises(refeed.ValueTypeError, match=r"one by one needs rows .* which part of an input"):
            refeed.generate(proto, self.PROMPTS, feeds={"shift": shift[:2]})

    def test_ends_forks_sequences_and_beams(self) -> None:
        model = genai()
        alone = [refeed.generate(model, row, max_new_tokens=8).tokens[0] for row in self.PROMPTS]
        end = next(token for token in alone[0] if token not in alone[1])
        cut = [row[: row.index(end) + 1] if end in row else row for row in alone]
        generator = runtime.Generator(model)
        generator.append(self.PROMPTS)
        assert generator.generate(max_new_tokens=8, eos_token_id=end).tokens == cut
        fork = generator.fork(0)
        left = 8 - len(cut[0])
        assert fork.generate(max_new_tokens=left).tokens[0] == alone[0][len(cut[0]) :]
        options: dict[str, Any] = {"num_return_sequences": 2, "max_new_tokens": 4}
        for how in ({"temperature": 0.8, "seed": 3}, {"num_beams": 3}):
            generator = runtime.Generator(model)
            generator.append(self.PROMPTS)
            made = generator.generate(**options, **how)
            assert made.rows == [0, 0, 1, 1, 2, 2]
            for row, prompt in enumerate(self.PROMPTS):
                one = refeed.generate(model, prompt, **options, **how, first_row=2 * row)
                assert made.tokens[2 * row : 2 * row + 2] == one.tokens
            # The first of each goes on; nothing of the prompts is evaluated again.
            want = [refeed.generate(model, row, max_new_tokens=2).tokens[0] for row in generator.tokens]
            assert generator.generate(max_new_tokens=2).tokens == want

    def test_sequences_of_unequal_length_go_on(self) -> None:
        """Several sequences of a batch end at different places; the first of each row goes on from there."""
        generator = history(PROMPTS)
        made = generator.generate(max_new_tokens=30, eos_token_id=5, num_return_sequences=2, temperature=3.0, seed=8)
        assert len({len(tokens) for tokens in made.tokens[::2]}) > 1
        said = generator.tokens
        assert said == [prompt + tokens for prompt, tokens in zip(PROMPTS, made.tokens[::2], strict=True)]
        assert generator.generate(max_new_tokens=3).tokens == [after_history(row, 3) for row in said]

    def test_given_prefixes_are_parted(self) -> None:
        """Initial values that hold both rows, of a model that keeps a value of a fixed shape."""
        model, _ = refeed.bind(models.recurrent(), pairs=[("past", "present")])
        made = refeed.generate(
            model, [[1], [2, 3]], max_new_tokens=2, initial={"past": np.array([[4], [5]], np.float32)}
        )
        assert made.tokens == [models.after_recurrent([4, 1], 2), models.after_recurrent([5, 2, 3], 2)]

    def test_waiting_rows_are_filled_where_rows_cannot_be_chosen(self) -> None:
        proto = models.of_history()
        proto.graph.input.append(graphs.info("extra", models.FLOAT, ["batch", 1]))
        proto.graph.output.append(graphs.info("more", models.FLOAT, ["batch", 1]))
        proto.graph.node.append(helper.make_node("Neg", ["extra"], ["more"]))
        model, _ = refeed.bind(proto, pairs=[("past", "present")])
        generator = runtime.Generator(model, feeds={"extra": np.zeros((4, 1), np.float32)})
        generator.append(PROMPTS)
        generator.generate(max_new_tokens=40, eos_token_id=5)
        said = generator.tokens
        assert len({len(row) - len(prompt) for row, prompt in zip(said, PROMPTS, strict=True)}) > 1
        assert generator.generate(max_new_tokens=3).tokens == [after_history(row, 3) for row in said]


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
        with pytest.raises(TypeError, match=r"completion: expected .*TaskCompletion.*, got int"):
            history([4]).generate(completion=wrong)
        with pytest.raises(TypeError, match=r"context: expected .*RuntimeContext.*, got int"):
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
        with pytest.raises(TypeError, match="callback: expected a callable, got int"):
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
