"""`ReferenceEvaluator.generate` and `runtime.generate`: the contract, rule by rule."""

import math
from typing import Any

import generation_models as models
import generation_recorder
import graphs
import numpy as np
import onnx
import pytest
import refeed
from generation_models import ids
from onnx import TensorProto, helper
from refeed import runtime
from refeed.onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]


def generate(model: Any, feeds: dict[str, Any], **options: Any) -> list[list[int]]:
    made = runtime.generate(model, runtime.RuntimeContext(), feeds, runtime.GenerationOptions(**options))
    tokens: list[list[int]] = made.numpy().tolist()
    return tokens


def refused(model: Any, feeds: dict[str, Any], match: str, **options: Any) -> None:
    with pytest.raises(refeed.ValueTypeError, match=match):
        generate(model, feeds, **options)


class TestResult:
    def test_int64_prompt_included(self) -> None:
        """Rules 4.6.14, 4.6.19; S034, S050."""
        prompt = ids([3, 1], [5, 2], [0, 4])
        tokens = ReferenceEvaluator(models.successor()).generate({"input_ids": prompt}, max_new_tokens=3)
        assert tokens.dtype == np.int64
        np.testing.assert_array_equal(tokens, [[3, 1, 2, 3, 4], [5, 2, 3, 4, 5], [0, 4, 5, 6, 7]])

    def test_the_runtime_returns_a_tensor_of_the_inputs_name(self) -> None:
        """Rules 4.6.19, 4.6.21; S053."""
        model = graphs.model(
            [helper.make_node("OneHot", ["words", "depth", "values"], ["scores"])],
            [graphs.info("words", TensorProto.INT64, ["b", "n"])],
            [graphs.info("scores", TensorProto.FLOAT, ["b", "n", 5])],
            initializers=[
                onnx.numpy_helper.from_array(np.array(5, np.int64), "depth"),
                onnx.numpy_helper.from_array(np.array([0, 1], np.float32), "values"),
            ],
        )
        options = runtime.GenerationOptions(max_new_tokens=2, input_ids_name="words", logits_name="scores")
        made = runtime.generate(model, runtime.RuntimeContext(), {"words": ids([1, 3])}, options)
        assert isinstance(made, runtime.Tensor)
        assert (made.name, made.data_type, made.shape) == ("words", TensorProto.INT64, (1, 4))
        assert made.numpy().tolist() == [[1, 3, 3, 3]]

    def test_the_defaults_are_twenty_greedy_tokens(self) -> None:
        """Rules 4.6.15, 4.6.18; S035, S037."""
        tokens = ReferenceEvaluator(models.successor(64)).generate({"input_ids": ids([3])})
        assert tokens.tolist() == [list(range(3, 24))]

    def test_no_new_tokens_is_a_copy_of_the_prompt_without_a_run(self) -> None:
        """Rule 4.6.8."""
        # The session could not even be made: the operator does not exist.
        node = helper.make_node("Unheard", ["input_ids"], ["logits"], domain="nowhere")
        model = graphs.model(
            [node],
            [graphs.info("input_ids", TensorProto.INT64, ["b", "n"])],
            [graphs.info("logits", TensorProto.FLOAT, ["b", "n", 5])],
            domains=("nowhere",),
        )
        prompt = ids([4, 2, 1])
        made = runtime.generate(
            model, runtime.RuntimeContext(), {"input_ids": prompt}, runtime.GenerationOptions(max_new_tokens=0)
        ).numpy()
        assert made.tolist() == [[4, 2, 1]]
        assert not np.shares_memory(made, prompt)


class TestEnds:
    def test_each_row_ends_by_itself_and_is_padded(self) -> None:
        """Rules 4.6.17, 4.6.18; S037."""
        feeds = {"input_ids": ids([3], [5])}
        got = generate(models.successor(), feeds, max_new_tokens=10, eos_token_id=6, pad_token_id=0)
        assert got == [[3, 4, 5, 6], [5, 6, 0, 0]]

    def test_padding_is_the_end_token_by_default(self) -> None:
        """Rule 4.6.17; S037."""
        got = generate(models.successor(), {"input_ids": ids([3], [5])}, max_new_tokens=10, eos_token_id=6)
        assert got == [[3, 4, 5, 6], [5, 6, 6, 6]]

    def test_the_limit_stops(self) -> None:
        """Rule 4.6.18; S037."""
        assert generate(models.successor(), {"input_ids": ids([3])}, max_new_tokens=2, eos_token_id=7) == [[3, 4, 5]]

    def test_an_ended_row_keeps_its_place_in_mask_and_positions(self) -> None:
        """The end token counts in the mask, later padding does not; positions go on.

        Rules 4.6.5, 4.6.6, 4.6.17; S047.
        """
        widths, masks, positions = recorded(models.of_positions(), ids([6], [2]), max_new_tokens=4, eos_token_id=1)
        # Tokens are positions: both rows produce 0, 1 (the end), and go on to the limit only if one does.
        assert widths == [1, 2]
        assert masks[-1] == [[1, 1], [1, 1]]
        assert positions[-1] == [[0, 1], [0, 1]]
        widths, masks, _ = recorded(models.successor_with_mask(), ids([5], [2]), max_new_tokens=5, eos_token_id=6)
        assert masks[-1] == [[1, 1, 0, 0], [1, 1, 1, 1]]

    def test_stop_tokens_sequences_and_lengths(self) -> None:
        model = models.successor(16)
        assert generate(model, {"input_ids": ids([3])}, stop_token_ids=[9, 6]) == [[3, 4, 5, 6]]
        assert generate(model, {"input_ids": ids([3])}, stop_sequences=[[9], [6, 7]]) == [[3, 4, 5, 6, 7]]
        assert generate(model, {"input_ids": ids([3, 4])}, max_length=5) == [[3, 4, 5, 6, 7]]
        assert generate(model, {"input_ids": ids([3])}, eos_token_id=4, min_new_tokens=1, max_new_tokens=2) == [
            [3, 0, 1]
        ]

    def test_a_stop_sequence_does_not_reach_into_the_prompt(self) -> None:
        assert generate(models.successor(16), {"input_ids": ids([3])}, stop_sequences=[[3, 4]], max_new_tokens=3) == [
            [3, 4, 5, 6]
        ]


def recorded(model: onnx.ModelProto, prompt: Array, **options: Any) -> tuple[list[int], list[Any], list[Any]]:
    """Return what each step was fed: the columns, the mask, the positions."""
    _, steps = generation_recorder.recorded(model, {"input_ids": prompt}, **options)
    masks, positions = (
        [fed.value.tolist() for fed in steps.get(name, [])] for name in ("attention_mask", "position_ids")
    )
    return [fed.value.shape[1] for fed in steps["input_ids"]], masks, positions


class TestStateless:
    def test_the_whole_growing_prefix_is_fed(self) -> None:
        """Rule 4.6.9; S038."""
        assert generate(models.of_width(), {"input_ids": ids([9, 9])}, max_new_tokens=4) == [[9, 9, 2, 3, 4, 5]]

    def test_caches_are_not_guessed_from_names(self) -> None:
        """An export with past inputs and no bindings is fed what the caller feeds, at every step. Rule 4.6.9; S039."""
        model = models.of_history()
        with pytest.raises(refeed.ValueTypeError, match="past"):
            generate(model, {"input_ids": ids([1])}, max_new_tokens=1)
        # With the same empty past and the whole prefix each time, it predicts what it should.
        got = generate(model, {"input_ids": ids([4, 2]), "past": models.empty()}, max_new_tokens=5)
        assert got == [[4, 2, *models.after_history([4, 2], 5)]]


class TestBindings:
    def test_the_prompt_is_evaluated_once_then_single_tokens(self) -> None:
        """Rule 4.6.10; S042."""
        proto = models.of_width()
        proto.graph.input.append(graphs.info("past", TensorProto.FLOAT, [2]))
        proto.graph.output.append(graphs.info("present", TensorProto.FLOAT, [2]))
        proto.graph.node.append(helper.make_node("Neg", ["past"], ["present"]))
        model, _ = refeed.bind(proto, pairs=[("past", "present")])
        feeds = {"input_ids": ids([9, 9, 9]), "past": np.ones(2, np.float32)}
        assert generate(model, feeds, max_new_tokens=3) == [[9, 9, 9, 3, 1, 1]]

    @pytest.mark.parametrize("prompt", [[4, 2], [1], [0, 0, 16, 3, 5]])
    def test_the_tokens_are_those_without_bindings(self, prompt: list[int]) -> None:
        """Rule 4.6.10; S040."""
        feeds = {"input_ids": ids(prompt), "past": models.empty()}
        got = generate(models.bound_history(), feeds, max_new_tokens=70)
        assert got == generate(models.of_history(), feeds, max_new_tokens=70)
        assert got == [prompt + models.after_history(prompt, 70)]

    def test_calls_are_fresh_and_feeds_stay_as_they_are(self) -> None:
        """Rules 4.6.10, 4.6.20; S044."""
        evaluator = ReferenceEvaluator(models.bound_history())
        feeds = {"input_ids": ids([4, 2]), "past": models.empty()}
        before = {name: (value, value.tobytes(), graphs.address(value)) for name, value in feeds.items()}
        first = evaluator.generate(feeds, max_new_tokens=9)
        second = evaluator.generate(feeds, max_new_tokens=9)
        np.testing.assert_array_equal(first, second)
        assert list(feeds) == list(before)
        for name, (value, content, address) in before.items():
            assert feeds[name] is value
            assert (value.tobytes(), graphs.address(value)) == (content, address)

    def test_a_left_padded_row_is_the_unpadded_one(self) -> None:
        """Rule 4.6.5; S049."""
        feeds = {
            "input_ids": ids([9, 9, 4], [4, 2, 7]),
            "attention_mask": ids([0, 0, 1], [1, 1, 1]),
            "past": models.empty(2),
        }
        got = generate(models.bound_history(), feeds, max_new_tokens=40)
        assert [row[3:] for row in got] == [models.after_history([4], 40), models.after_history([4, 2, 7], 40)]

    def test_initial_values_are_needed_and_fit(self) -> None:
        """Rule 4.6.10."""
        with pytest.raises(refeed.ValueTypeError, match="missing initial"):
            generate(models.bound_history(), {"input_ids": ids([1])})
        feeds = {"input_ids": ids([1]), "past": np.zeros((1, 0, 3), np.float64)}
        refused(models.bound_history(), feeds, "past")

    def test_a_cache_that_is_not_empty_is_refused(self) -> None:
        """Rule 4.6.11; S052."""
        feeds = {"input_ids": ids([1]), "past": np.zeros((1, 4, 3), np.float32)}
        refused(models.bound_history(), feeds, "`past`: expected an empty prefix, got 4 rows; only a Generator")

    def test_states_of_a_fixed_shape_are_free(self) -> None:
        """A recurrent state has no prefix that could be told: any value is a start. Rule 4.6.11; S052."""
        model, _ = refeed.bind(models.recurrent(), pairs=[("past", "present")])
        feeds = {"input_ids": ids([1]), "past": np.full((1, 1), 5, np.float32)}
        # present = past + token, the next token is present modulo 11.
        assert generate(model, feeds, max_new_tokens=3) == [[1, 6, 1, 2]]

    def test_a_declared_paged_cache_initializer_needs_no_feed(self) -> None:
        cache = models.paged_decoder()
        got = generate(cache, {"input_ids": ids([1, 2])}, max_new_tokens=3)
        assert [row[:2] for row in got] == [[1, 2]]
        assert got == generate(cache, {"input_ids": ids([1, 2])}, max_new_tokens=3)

    @pytest.mark.parametrize("role", ["input_ids", "attention_mask", "position_ids"])
    def test_what_the_loop_feeds_must_not_be_bound(self, role: str) -> None:
        """Rule 4.6.4."""
        proto = models.of_positions()
        proto.graph.output.append(graphs.info("following_ids", TensorProto.INT64, ["batch", None]))
        proto.graph.node.append(helper.make_node("Identity", [role], ["following_ids"]))
        model, _ = refeed.bind(proto, pairs=[(role, "following_ids")], uses="any")
        match = f"{role}_name: graph input `{role}` is bound to output `following_ids`"
        refused(model, {"input_ids": ids([1])}, match)

    def test_buffers_are_used_again(self) -> None:
        """Rule 4.6.23; S043."""
        context = runtime.RuntimeContext(events_enabled=True)
        feeds = {"input_ids": ids([4, 2]), "past": models.empty()}
        runtime.generate(models.bound_history(), context, feeds, runtime.GenerationOptions(max_new_tokens=12))
        events = [event for event in context.events() if event.action == runtime.RuntimeEventAction.kPersistentStorage]
        assert sum(event.storage_allocations for event in events) == 1
        # The prompt makes room; each of the eleven later steps appends in place.
        assert sum(event.storage_reuse_count for event in events) == 11
        assert sum(event.storage_prefix_copied_bytes for event in events) == 0


class TestMaskAndPositions:
    def test_positions_count_unmasked_tokens_row_by_row(self) -> None:
        """Rule 4.6.6; S047."""
        feeds = {"input_ids": ids([0, 0, 7], [7, 7, 7]), "attention_mask": ids([0, 0, 1], [1, 1, 1])}
        got = generate(models.of_positions(), feeds, max_new_tokens=3)
        assert [row[3:] for row in got] == [[0, 1, 2], [2, 3, 4]]

    def test_the_mask_is_made_and_extended(self) -> None:
        """Rule 4.6.5; S047."""
        assert generate(models.of_mask(), {"input_ids": ids([5, 5])}, max_new_tokens=4) == [[5, 5, 2, 3, 4, 5]]
        feeds = {"input_ids": ids([5, 5], [5, 5]), "attention_mask": ids([0, 1], [1, 1])}
        assert [row[2:] for row in generate(models.of_mask(), feeds, max_new_tokens=3)] == [[1, 2, 3], [2, 3, 4]]

    def test_fed_positions_go_on_from_the_last_one(self) -> None:
        """Rule 4.6.6; S047."""
        feeds = {"input_ids": ids([0, 0]), "position_ids": ids([2, 4])}
        assert generate(models.of_positions(), feeds, max_new_tokens=3) == [[0, 0, 4, 5, 6]]

    def test_another_type_is_not_made_up(self) -> None:
        """Rule 4.6.7; S048."""
        model = models.of_mask(elements=TensorProto.INT32)
        refused(model, {"input_ids": ids([5])}, r"`attention_mask` is declared as INT32.*: it is made only as INT64")
        # Fed, it is an ordinary input: the same at every step.
        feeds = {"input_ids": ids([5]), "attention_mask": np.ones((1, 3), np.int32)}
        assert generate(model, feeds, max_new_tokens=2) == [[5, 3, 3]]

    @pytest.mark.parametrize(
        ("mask", "match"),
        [
            (ids([1, 1, 0]), "left-padded"),
            (ids([1, 0, 1]), "left-padded"),
            (ids([0, 0, 0]), "unmasked"),
            (ids([0, 1, 2]), "only 0 and 1, got 2"),
            (ids([1, 1]), "shape"),
            (np.ones((1, 3), np.int32), "INT64"),
            (np.ones((1, 3), np.float32), "INT64"),
        ],
    )
    def test_masks_that_are_none(self, mask: Array, match: str) -> None:
        """Rule 4.6.5; S049."""
        refused(models.of_mask(), {"input_ids": ids([5, 5, 5]), "attention_mask": mask}, match)

    @pytest.mark.parametrize(
        ("positions", "match"),
        [
            (ids([0, -1]), "positions from 0 to"),
            (ids([0, 2**63 - 3]), "positions from 0 to"),
            (ids([0, 1, 2]), "shape"),
            (np.zeros((1, 2), np.int32), "INT64"),
        ],
    )
    def test_positions_that_are_none(self, positions: Array, match: str) -> None:
        """Rule 4.6.6."""
        feeds = {"input_ids": ids([5, 5]), "position_ids": positions}
        refused(models.of_positions(), feeds, match, max_new_tokens=3)

    def test_other_feeds_stay_as_they_are(self) -> None:
        """Rule 4.6.12; S051."""
        proto = models.of_width()
        proto.graph.input.append(graphs.info("shift", TensorProto.INT64, [1]))
        proto.graph.node[2].output[0] = "sum"
        proto.graph.node.insert(3, helper.make_node("Add", ["sum", "shift"], ["following"]))
        feeds = {"input_ids": ids([9]), "shift": np.array([10], np.int64)}
        assert generate(proto, feeds, max_new_tokens=3) == [[9, 11, 12, 13]]


class TestLogits:
    @pytest.mark.parametrize(
        "elements", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16]
    )
    @pytest.mark.parametrize("last_only", [False, True])
    def test_four_types_two_ranks(self, elements: int, last_only: bool) -> None:
        """Rule 4.6.13; S046."""
        model = models.successor(8, elements, last_only)
        assert generate(model, {"input_ids": ids([6, 1], [0, 3])}, max_new_tokens=3) == [
            [6, 1, 2, 3, 4],
            [0, 3, 4, 5, 6],
        ]

    @pytest.mark.parametrize(
        "elements", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16]
    )
    @pytest.mark.parametrize("vocabulary", [1, 3, 8, 9, 255, 256, 257, 1000])
    def test_the_first_maximum_wins(self, elements: int, vocabulary: int) -> None:
        """Rule 4.6.15; S035."""
        generator = np.random.default_rng(vocabulary)
        for _ in range(3):
            row = generator.integers(-4, 5, vocabulary).astype(np.float64)
            row[generator.integers(0, vocabulary)] = -np.inf
            if np.isneginf(row).all():
                row[0] = 0
            got = generate(models.fixed(row, elements), {"input_ids": ids([0])}, max_new_tokens=1)
            assert got == [[0, int(row.argmax())]]

    @pytest.mark.parametrize("temperature", [0.0, 1.0])
    @pytest.mark.parametrize(
        "elements", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16]
    )
    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_rows_that_choose_nothing(self, bad: float, elements: int, temperature: float) -> None:
        """Rule 4.6.15."""
        for at in (0, 4, 10, 299):
            row = np.zeros(300)
            row[at] = bad
            refused(models.fixed(row, elements), {"input_ids": ids([0])}, "row 0: .*NaN", temperature=temperature)
        refused(
            models.fixed(np.full(9, -np.inf), elements), {"input_ids": ids([0])}, "forbidden", temperature=temperature
        )

    @pytest.mark.parametrize(
        ("dims", "elements", "match"),
        [
            (["b", "n", 1, 8], TensorProto.FLOAT, "expected .1, vocabulary."),
            (["b", "n", 8], TensorProto.INT64, "FLOAT, DOUBLE, FLOAT16 or BFLOAT16"),
        ],
    )
    def test_logits_that_are_none(self, dims: graphs.Shape, elements: int, match: str) -> None:
        """Rule 4.6.13."""
        nodes = [
            helper.make_node("OneHot", ["input_ids", "depth", "values"], ["hot"]),
            helper.make_node("Cast", ["hot"], ["cast"], to=elements),
            helper.make_node("Unsqueeze", ["cast", "axes"], ["logits"])
            if len(dims) == 4
            else helper.make_node("Identity", ["cast"], ["logits"]),
        ]
        model = graphs.model(
            nodes,
            [graphs.info("input_ids", TensorProto.INT64, ["b", "n"])],
            [graphs.info("logits", elements, dims)],
            initializers=[
                onnx.numpy_helper.from_array(np.array(8, np.int64), "depth"),
                onnx.numpy_helper.from_array(np.array([0, 1], np.float32), "values"),
                onnx.numpy_helper.from_array(np.array([2], np.int64), "axes"),
            ],
        )
        refused(model, {"input_ids": ids([1, 2])}, match)

    def test_another_batch_is_refused(self) -> None:
        """Rule 4.6.13."""
        nodes = [
            helper.make_node("Concat", ["input_ids", "input_ids"], ["twice"], axis=0),
            helper.make_node("OneHot", ["twice", "depth", "values"], ["logits"]),
        ]
        model = graphs.model(
            nodes,
            [graphs.info("input_ids", TensorProto.INT64, ["b", "n"])],
            [graphs.info("logits", TensorProto.FLOAT, ["c", "n", 8])],
            initializers=[
                onnx.numpy_helper.from_array(np.array(8, np.int64), "depth"),
                onnx.numpy_helper.from_array(np.array([0, 1], np.float32), "values"),
            ],
        )
        refused(model, {"input_ids": ids([1, 2])}, r"logits `logits`: expected \[1, vocabulary\]")


class TestArguments:
    """Each misuse alone, and the order of the checks."""

    FEEDS = {"input_ids": ids([1])}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("max_new_tokens", -1),
            ("temperature", -0.5),
            ("temperature", math.nan),
            ("temperature", math.inf),
            ("eos_token_id", -1),
            ("pad_token_id", -2),
            ("top_k", 0),
            ("top_k", -1),
            ("top_p", 0.0),
            ("top_p", 1.5),
            ("top_p", math.nan),
            ("min_p", -0.1),
            ("repetition_penalty", 0.0),
            ("presence_penalty", math.inf),
            ("logit_bias", {-1: 0.0}),
            ("logit_bias", {1: math.inf}),
            ("bad_words", [[]]),
            ("bad_words", [[-1]]),
            ("stop_token_ids", [-1]),
            ("stop_sequences", [[]]),
            ("max_length", 0),
            ("prefill_chunk", 0),
            ("num_beams", 0),
            ("num_return_sequences", 0),
            ("num_return_sequences", 2),
            ("min_new_tokens", -1),
        ],
    )
    def test_values_that_mean_nothing(self, name: str, value: Any) -> None:
        """Rule 4.6.1."""
        refused(models.successor(), self.FEEDS, f"^{name}: expected", **{name: value})

    @pytest.mark.parametrize(
        ("name", "value"),
        [("max_new_tokens", 1.5), ("temperature", "hot"), ("top_k", "3"), ("invented", 1), ("bad_words", [1])],
    )
    def test_values_of_another_type(self, name: str, value: Any) -> None:
        with pytest.raises(TypeError, match=name):
            runtime.GenerationOptions(**{name: value})

    def test_tokens_beyond_the_vocabulary(self) -> None:
        """Rule 4.6.14."""
        for name in ("eos_token_id", "pad_token_id"):
            refused(models.successor(), self.FEEDS, f"{name}: expected a token of the vocabulary, below 8", **{name: 8})

    @pytest.mark.parametrize(
        ("feeds", "match"),
        [
            ({}, "missing tensor input `input_ids`"),
            ({"input_ids": [np.zeros(1, np.int64)]}, "missing tensor input `input_ids`: .* a sequence"),
            ({"input_ids": np.ones((1, 2), np.int32)}, "INT64 elements, got INT32"),
            ({"input_ids": np.ones(3, np.int64)}, "two axes"),
            ({"input_ids": np.ones((0, 2), np.int64)}, "at least one row and one token"),
            ({"input_ids": np.ones((2, 0), np.int64)}, "at least one row and one token"),
            ({"input_ids": ids([1, -4])}, "nonnegative token ids, got -4"),
            ({"input_ids": ids([1]), "other": ids([1])}, "unknown feed `other`"),
        ],
    )
    def test_feeds_that_are_none(self, feeds: dict[str, Any], match: str) -> None:
        """Rules 4.6.1, 4.6.2; S045."""
        refused(models.successor(), feeds, match)

    def test_more_tokens_than_any_memory_holds(self) -> None:
        """Rule 4.6.3."""
        for count in (2**62, 2**63 - 1):
            refused(models.successor(), self.FEEDS, "no memory holds", max_new_tokens=count)

    def test_names_that_are_not_there(self) -> None:
        """Rule 4.6.1."""
        refused(models.successor(), self.FEEDS, "no graph input `words`; it has `input_ids`", input_ids_name="words")
        refused(models.successor(), self.FEEDS, "no graph output `scores`; it has `logits`", logits_name="scores")

    def test_one_input_has_one_role(self) -> None:
        """Rule 4.6.4."""
        feeds = {"input_ids": ids([1])}
        match = "input_ids_name and attention_mask_name both name graph input `input_ids`"
        refused(models.of_positions(), feeds, match, attention_mask_name="input_ids")
        match = "attention_mask_name and position_ids_name both"
        refused(models.of_positions(), feeds, match, position_ids_name="attention_mask")

    def test_the_order_of_the_checks(self) -> None:
        """Rule 4.6.1."""
        faults: list[tuple[str, Any, str]] = [
            ("max_new_tokens", -1, "max_new_tokens"),
            ("temperature", -1.0, "temperature"),
            ("eos_token_id", -1, "eos_token_id"),
            ("pad_token_id", -1, "pad_token_id"),
            ("input_ids_name", "words", "words"),
            ("logits_name", "scores", "scores"),
        ]
        feeds = {"other": ids([1])}
        for index, (_, _, match) in enumerate(faults):
            options = {name: value for name, value, _ in faults[index:]}
            refused(models.successor(), feeds, match, **options)
        refused(models.successor(), feeds, "unknown feed `other`")

    def test_evaluators_take_mappings(self) -> None:
        with pytest.raises(TypeError, match="feeds"):
            ReferenceEvaluator(models.successor()).generate([ids([1])])  # type: ignore[arg-type]


class TestOptions:
    def test_fields_are_read_and_written(self) -> None:
        options = runtime.GenerationOptions(max_new_tokens=3, logit_bias={2: 1.5}, bad_words=[[1, 2]])
        options.temperature = 0.5
        assert (options.max_new_tokens, options.temperature, options.seed) == (3, 0.5, None)
        assert (options.logit_bias, options.bad_words) == ({2: 1.5}, [[1, 2]])
        other = options.replace(seed=4)
        assert (other.seed, options.seed) == (4, None)
        assert other != options
        assert other.replace(seed=None) == options
        assert repr(other) == (
            "GenerationOptions(max_new_tokens=3, temperature=0.5, seed=4, logit_bias={2: 1.5}, bad_words=[[1, 2]])"
        )

    def test_defaults(self) -> None:
        options = runtime.GenerationOptions()
        assert (options.max_new_tokens, options.temperature, options.seed) == (20, 0.0, None)
        assert (options.eos_token_id, options.pad_token_id) == (None, None)
        names = (options.input_ids_name, options.logits_name, options.attention_mask_name, options.position_ids_name)
        assert names == ("input_ids", "logits", "attention_mask", "position_ids")
        assert repr(options) == "GenerationOptions()"

    def test_other_names_run(self) -> None:
        """Rule 4.6.21; S054."""
        proto = models.of_positions()
        for value in proto.graph.input:
            value.name = f"my_{value.name}"
        for node in proto.graph.node:
            node.input[:] = [f"my_{name}" if name.endswith("_ids") else name for name in node.input]
        names = {f"{role}_name": f"my_{role}" for role in ("input_ids", "attention_mask", "position_ids")}
        assert generate(proto, {"my_input_ids": ids([7, 7])}, max_new_tokens=2, **names) == [[7, 7, 1, 2]]
