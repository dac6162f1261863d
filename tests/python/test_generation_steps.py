"""What a generation feeds, keeps and leaves alone, step by step, and each way in."""

import json
import pathlib
import subprocess
import sys
import threading
from typing import Any

import generation_models as models
import graphs
import numpy as np
import onnx
import paged_reference as paged
import pytest
import refeed
from generation_models import after_history, ids
from generation_recorder import recorded
from onnx import TensorProto, helper
from refeed import runtime
from refeed.onnx.reference import ReferenceEvaluator

FLOAT, INT64, INT32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32
STORAGE = runtime.RuntimeEventAction.kPersistentStorage


def history_with_more() -> onnx.ModelProto:
    """`of_history`, with positions and another input, which change nothing."""
    proto = models.of_history()
    proto.graph.input.extend([graphs.info("position_ids", INT64, ["batch", "length"]), graphs.info("more", FLOAT, [2])])
    proto.graph.output.extend([graphs.info("places", INT64, ["batch", "length"]), graphs.info("same", FLOAT, [2])])
    proto.graph.node.append(helper.make_node("Neg", ["position_ids"], ["places"]))
    proto.graph.node.append(helper.make_node("Neg", ["more"], ["same"]))
    return proto


def values(steps: list[Any]) -> list[Any]:
    return [fed.value.tolist() for fed in steps]


def test_a_state_is_fed_the_prompt_and_then_one_column() -> None:
    """Rules 4.6.5, 4.6.6, 4.6.10; S040, S042, S047: the mask is whole at every step, positions are the columns'."""
    feeds = {
        "input_ids": ids([9, 4], [4, 2]),
        "attention_mask": ids([0, 1], [1, 1]),
        "past": models.empty(2),
        "more": np.ones(2, np.float32),
    }
    made, steps = recorded(history_with_more(), feeds, (("past", "present"),), max_new_tokens=4)
    assert [row[2:] for row in made] == [after_history([4], 4), after_history([4, 2], 4)]
    new = [[row[at]] for at in range(2, 5) for row in made]
    columns = [new[at : at + 2] for at in range(0, 6, 2)]
    assert values(steps["input_ids"]) == [[[9, 4], [4, 2]], *columns]
    assert values(steps["attention_mask"]) == [[[0, *[1] * n], [1, *[1] * n]] for n in range(1, 5)]
    assert values(steps["position_ids"]) == [[[0, 0], [0, 1]], [[1], [2]], [[2], [3]], [[3], [4]]]


def test_a_session_is_fed_the_whole_prefix_and_keeps_nothing() -> None:
    """Rule 4.6.9; S038, S047: no report of storage says that something was kept."""
    context = runtime.RuntimeContext(events_enabled=True)
    feeds = {"input_ids": ids([4, 2]), "past": models.empty(), "more": np.ones(2, np.float32)}
    made, steps = recorded(history_with_more(), feeds, context=context, max_new_tokens=4)
    (row,) = made
    assert row == [4, 2, *after_history([4, 2], 4)]
    assert values(steps["input_ids"]) == [[row[:length]] for length in range(2, 6)]
    assert values(steps["attention_mask"]) == [[[1] * length] for length in range(2, 6)]
    assert values(steps["position_ids"]) == [[list(range(length))] for length in range(2, 6)]
    assert all(fed.value.shape == (1, 0, 3) for fed in steps["past"])
    assert sum(event.storage_reuse_count for event in context.events() if event.action == STORAGE) == 0


@pytest.mark.parametrize("pairs", [(), (("past", "present"),)])
def test_other_inputs_are_the_same_memory_at_every_step(pairs: tuple[tuple[str, str], ...]) -> None:
    """Rule 4.6.12; S051."""
    more = np.array([1.5, -2], np.float32)
    feeds = {"input_ids": ids([4, 2]), "past": models.empty(), "more": more}
    _, steps = recorded(history_with_more(), feeds, pairs, max_new_tokens=5)
    assert [fed.address for fed in steps["more"]] == [graphs.address(more)] * 5
    assert {fed.value.tobytes() for fed in steps["more"]} == {more.tobytes()}


@pytest.mark.parametrize("name", ["attention_mask", "position_ids"])
def test_neither_mask_nor_positions_of_another_type_are_made_up(name: str) -> None:
    """Rule 4.6.7; S048."""
    proto = models.successor()
    proto.graph.input.append(graphs.info(name, INT32, ["batch", "any"]))
    proto.graph.output.append(graphs.info("read", INT32, ["batch", "any"]))
    proto.graph.node.append(helper.make_node("Neg", [name], ["read"]))
    options = runtime.GenerationOptions(max_new_tokens=3)
    with pytest.raises(refeed.ValueTypeError, match=rf"`{name}` is declared as INT32"):
        runtime.generate(proto, runtime.RuntimeContext(), {"input_ids": ids([3])}, options)
    given = np.array([[7, 8]], np.int32)
    made, steps = recorded(proto, {"input_ids": ids([3]), name: given}, max_new_tokens=3)
    assert made == [[3, 4, 5, 6]]
    assert values(steps[name]) == [[[7, 8]]] * 3


def test_the_call_of_the_description() -> None:
    """Rules 4.6.16, 4.6.20, 4.6.21; S032, S036, S044: temperature, seed and end; model and feeds stay."""
    model = refeed.onnx.ModelProto()
    model.ParseFromString(models.of_history().SerializeToString())
    model.graph.persistent_bindings.add(input_name="past", output_name="present")
    before = model.SerializeToString()
    evaluator = ReferenceEvaluator(model)
    input_ids, initial_empty_caches = ids([4, 3], [1, 7]), {"past": models.empty(2)}
    feeds = {"input_ids": input_ids, **initial_empty_caches}
    held = {name: (value.tobytes(), graphs.address(value)) for name, value in feeds.items()}
    tokens = evaluator.generate(feeds, max_new_tokens=32, temperature=0.7, seed=42, eos_token_id=2)
    assert tokens.dtype == np.int64
    assert tokens.shape[0] == 2
    assert 2 < tokens.shape[1] <= 34
    np.testing.assert_array_equal(tokens[:, :2], input_ids)
    for row in tokens[:, 2:].tolist():
        end = row.index(2) if 2 in row else len(row)
        assert set(row[end:]) <= {2}
    again = evaluator.generate(feeds, max_new_tokens=32, temperature=0.7, seed=42, eos_token_id=2)
    np.testing.assert_array_equal(again, tokens)
    other = evaluator.generate(feeds, max_new_tokens=32, temperature=0.7, seed=43, eos_token_id=2)
    assert other.tolist() != tokens.tolist()
    options = runtime.GenerationOptions(max_new_tokens=32, temperature=0.7, seed=42, eos_token_id=2)
    native = runtime.generate(model, runtime.RuntimeContext(), feeds, options)
    np.testing.assert_array_equal(native.numpy(), tokens)
    assert model.SerializeToString() == before
    assert {name: (value.tobytes(), graphs.address(value)) for name, value in feeds.items()} == held


def test_other_threads_run_while_tokens_are_made() -> None:
    """Rule 4.6.22; S033: with the lock of Python held, this thread would see the call only when all is done."""
    completion = runtime.TaskCompletion()
    feeds = {"input_ids": ids([4, 2]), "past": models.empty()}
    options = runtime.GenerationOptions(max_new_tokens=100_000)
    made: list[Any] = []

    def call() -> None:
        made.append(
            runtime.generate(models.bound_history(), runtime.RuntimeContext(), feeds, options, completion=completion)
        )

    thread = threading.Thread(target=call)
    thread.start()
    while completion.status == runtime.TaskStatus.kPending:
        pass
    assert completion.status == runtime.TaskStatus.kRunning
    counted = 0
    while counted < 1000 and completion.status == runtime.TaskStatus.kRunning:
        counted += 1
    assert counted == 1000
    completion.cancel("seen")
    thread.join()
    (tokens,) = made[0].numpy().tolist()
    assert len(tokens) < 100_002
    assert tokens == [4, 2, *after_history([4, 2], len(tokens) - 2)]


# ---- nothing is bound by its name


def guessable(path: pathlib.Path | None = None) -> onnx.ModelProto:
    """`of_history` with the names of an export, which a scheme of names would bind, but without bindings."""
    proto = models.of_history()
    names = {"past": "past_key_values.0.key", "present": "present.0.key"}
    for value in [*proto.graph.input, *proto.graph.output]:
        value.name = names.get(value.name, value.name)
    for node in proto.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    if path:
        onnx.save(proto, path)
    return proto


@pytest.mark.parametrize("way", ["runtime.generate", "ReferenceEvaluator", "refeed.generate", "Generator"])
def test_no_way_in_binds_by_names(way: str) -> None:
    """Rule 4.6.9; S039: the past is an input like others; fed empty, with the whole prefix, the tokens are right."""
    past: dict[str, Any] = {"past_key_values.0.key": models.empty()}

    def run(feeds: dict[str, Any]) -> list[int]:
        model = guessable()
        if way == "runtime.generate":
            options = runtime.GenerationOptions(max_new_tokens=4)
            whole = {"input_ids": ids([4, 2]), **feeds}
            tokens = runtime.generate(model, runtime.RuntimeContext(), whole, options).numpy()
            return [int(token) for token in tokens[0, 2:]]
        if way == "ReferenceEvaluator":
            tokens = ReferenceEvaluator(model).generate({"input_ids": ids([4, 2]), **feeds}, max_new_tokens=4)
            return [int(token) for token in tokens[0, 2:]]
        if way == "refeed.generate":
            return refeed.generate(model, [4, 2], feeds=feeds, max_new_tokens=4).tokens[0]
        generator = runtime.Generator(model, feeds=feeds)
        generator.append([4, 2])
        return generator.generate(max_new_tokens=4).tokens[0]

    assert run(past) == after_history([4, 2], 4)
    with pytest.raises(refeed.ValueTypeError, match=r"past_key_values\.0\.key"):
        run({})


def test_the_command_binds_nothing_unasked(tmp_path: pathlib.Path) -> None:
    """Rule 4.6.9; S039."""
    path = tmp_path / "model.onnx"
    guessable(path)
    command = [sys.executable, "-m", "refeed", "generate", str(path), "--prompt-ids", "4,2", "--max-new-tokens", "4"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert refused.returncode != 0
    assert "past_key_values.0.key" in refused.stderr
    asked = subprocess.run(  # noqa: S603
        [*command, "--json", "--bind", "past_key_values.0.key=present.0.key"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(asked.stdout)["tokens"] == after_history([4, 2], 4)


# ---- caches of every kind


def paged_decoder(vocabulary: int = 13, width: int = 8) -> tuple[refeed.onnx.ModelProto, Any]:
    """A decoder of one layer over a cache in pages, that only an initializer gives; and its tokens by the formula."""
    rng = np.random.default_rng(5)
    table = rng.normal(size=(vocabulary, width)).astype(np.float32)
    head = rng.normal(size=(width, vocabulary)).astype(np.float32)
    make = refeed.onnx.helper.make_node
    model = refeed.onnx.ModelProto()
    proto = graphs.model(
        [],
        [graphs.info("input_ids", INT64, ["batch", "length"])],
        [graphs.info("logits", FLOAT, ["batch", "length", vocabulary])],
        initializers=[
            onnx.numpy_helper.from_array(table, "table"),
            onnx.numpy_helper.from_array(head, "head"),
            onnx.numpy_helper.from_array(np.array([1], np.int64), "axes"),
        ],
        domains=("ai.rt",),
    )
    model.ParseFromString(proto.SerializeToString())
    for infos, name in ((model.graph.input, "past"), (model.graph.output, "present")):
        infos.add(name=name).type.struct_type.CopyFrom(refeed.onnx.StructTypeProto())
    model.graph.node.extend(
        [
            make("Gather", ["table", "input_ids"], ["rows"], axis=0),
            make("Unsqueeze", ["rows", "axes"], ["x"]),
            make("PagedAttention", ["x", "x", "x", "past"], ["y", "present"], domain="ai.rt", block_size=4),
            make("Squeeze", ["y", "axes"], ["attended"]),
            make("MatMul", ["attended", "head"], ["logits"]),
        ]
    )
    model.graph.persistent_bindings.add(input_name="past", output_name="present")
    model.graph.paged_cache_initializer.add(name="past")

    def following(tokens: list[int], count: int) -> list[int]:
        row = list(tokens)
        for _ in range(count):
            x = table[row][None, None]
            row.append(int((paged.attention(x, x, x)[0, 0, -1] @ head).argmax()))
        return row[len(tokens) :]

    return model, following


def test_a_cache_in_pages_comes_from_its_initializer() -> None:
    """Rule 4.6.10; S041: PagedAttention decodes, no cache is fed; each call begins with the initializer's."""
    model, following = paged_decoder()
    context = runtime.RuntimeContext()
    kernel = runtime.register_paged_attention(context)
    options = runtime.GenerationOptions(max_new_tokens=12)
    for prompt in ([3, 9, 1, 1, 7], [12]):
        made = runtime.generate(model, context, {"input_ids": ids(prompt)}, options).numpy()
        assert made.tolist() == [[*prompt, *following(prompt, 12)]]
        assert kernel.statistics().copied_bytes == 2 * 8 * 4
    # A prefix in the initializer would be one that the prompt does not hold.
    assert len(model.graph.paged_cache_initializer[0].blocks) == 0


def test_attention_appends_in_place_beside_a_sum() -> None:
    """Rule 4.6.23; S043: reports of storage are the attention's alone; the sum is a new buffer each step."""
    proto = graphs.model(
        [
            helper.make_node("Gather", ["table", "input_ids"], ["rows"], axis=0),
            helper.make_node("Unsqueeze", ["rows", "axes"], ["x"]),
            helper.make_node("Attention", ["x", "x", "x", "", "pk", "pv"], ["y", "ok", "ov"], is_causal=1),
            helper.make_node("Squeeze", ["y", "axes"], ["logits"]),
            helper.make_node("Cast", ["input_ids"], ["numbers"], to=FLOAT),
            helper.make_node("ReduceSum", ["numbers", "axes"], ["new"], keepdims=1),
            helper.make_node("Add", ["total", "new"], ["next"]),
        ],
        [
            graphs.info("input_ids", INT64, [1, "length"]),
            graphs.info("pk", FLOAT, [1, 1, "past", 6]),
            graphs.info("pv", FLOAT, [1, 1, "past", 6]),
            graphs.info("total", FLOAT, [1, 1]),
        ],
        [
            graphs.info("logits", FLOAT, [1, "length", 6]),
            graphs.info("ok", FLOAT, [1, 1, "all", 6]),
            graphs.info("ov", FLOAT, [1, 1, "all", 6]),
            graphs.info("next", FLOAT, [1, 1]),
        ],
        initializers=[
            onnx.numpy_helper.from_array(np.random.default_rng(0).normal(size=(6, 6)).astype(np.float32), "table"),
            onnx.numpy_helper.from_array(np.array([1], np.int64), "axes"),
        ],
    )
    model, _ = refeed.bind(proto, pairs=[("pk", "ok"), ("pv", "ov"), ("total", "next")])
    empty = np.zeros((1, 1, 0, 6), np.float32)
    feeds = {"input_ids": ids([2, 5, 1]), "pk": empty, "pv": empty, "total": np.zeros((1, 1), np.float32)}
    context = runtime.RuntimeContext(events_enabled=True)
    made = runtime.generate(model, context, feeds, runtime.GenerationOptions(max_new_tokens=9)).numpy()
    assert made.shape == (1, 12)
    events = context.events()
    storage = [event for event in events if event.action == STORAGE]
    assert {event.op_type for event in storage} == {"Attention"}
    assert sum(event.storage_allocations for event in storage) == 2
    assert sum(event.storage_reuse_count for event in storage) == 2 * 8
    assert sum(event.storage_prefix_copied_bytes for event in storage) == 0
    assert sum(event.storage_append_copied_bytes for event in storage) == 2 * (3 + 8) * 6 * 4
    ran = [event.op_type for event in events if event.action == runtime.RuntimeEventAction.kRunNode]
    assert ran.count("Add") == ran.count("Attention") == 9
