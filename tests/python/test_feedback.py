"""The feedback loop: what a user sees of it."""

import inspect
import pathlib
from collections.abc import Callable
from typing import Any

import graphs
import ml_dtypes
import numpy as np
import onnx
import pytest
import refeed
from onnx import TensorProto, helper
from refeed import runtime

ONES = np.ones(2, np.float32)
ZEROS = np.zeros(2, np.float32)
MakeState = Callable[..., runtime.PersistentValueState]


def test_the_accumulate_loop(make_state: MakeState) -> None:
    state = make_state()
    context = runtime.RuntimeContext(runtime.KernelContext(runtime.default_opset(18)))
    kept = [state.run(context, {"delta": ONES * 3})["present"] for _ in range(5)]
    for step, tensor in enumerate(kept):
        np.testing.assert_array_equal(np.from_dlpack(tensor), np.full(2, 3 * (step + 1), np.float32))
    state.reset({"past": ZEROS})
    assert state.run(context, {"delta": ONES})["present"].numpy().tolist() == [1, 1]
    state.close()


def test_outputs_come_in_the_graphs_order_with_their_names() -> None:
    model = graphs.model(
        [helper.make_node("Identity", ["a"], ["z"]), helper.make_node("Neg", ["a"], ["b"])],
        [graphs.info("a", graphs.FLOAT, [3])],
        [graphs.info("z", graphs.FLOAT, [3]), graphs.info("b", graphs.FLOAT, [3])],
    )
    out = refeed.load(model).run({"a": np.arange(3, dtype=np.float32)})
    assert list(out) == ["z", "b"]
    assert [tensor.name for tensor in out.values()] == ["z", "b"]
    assert out["b"].numpy().tolist() == [0, -1, -2]


def test_run_accepts_a_context_or_none(make_state: MakeState) -> None:
    state = make_state()
    context = runtime.RuntimeContext()
    feeds = {"delta": ONES}
    results = [
        state.run(context, feeds),
        state.run(feeds),
        state.run(None, feeds),
        state.run(feeds=feeds),
        state.run(context=context, feeds=feeds),
    ]
    assert [float(out["present"].numpy()[0]) for out in results] == [1, 2, 3, 4, 5]


def test_values_are_the_published_outputs(make_state: MakeState) -> None:
    """Rule 4.4.1; S015."""
    state = make_state()
    out = state.run({"delta": ONES})["present"]
    value = state.values["past"]
    assert value.name == "past"
    assert graphs.address(value.numpy()) == graphs.address(out.numpy())


def test_metadata_of_a_returned_tensor_is_its_own(make_state: MakeState) -> None:
    """Rule 4.4.7; S028."""
    state = make_state()
    out = state.run({"delta": ONES})["present"]
    out.name = "other"
    out.shape = (1, 2)
    out.data_type = TensorProto.INT32
    assert (out.name, out.shape, out.data_type) == ("other", (1, 2), TensorProto.INT32)
    assert state.values["past"].shape == (2,)
    assert state.values["past"].data_type == TensorProto.FLOAT
    assert state.run({"delta": ONES})["present"].numpy().tolist() == [2, 2]
    with pytest.raises(refeed.ValueTypeError, match="cannot become"):
        out.shape = (3,)
    with pytest.raises(refeed.ValueTypeError, match="same width"):
        out.data_type = TensorProto.INT64


@pytest.mark.parametrize("how", ["path", "pathlike", "bytes", "bytearray", "memoryview", "proto", "model"])
def test_a_model_is_accepted_in_every_form(how: str, tmp_path: pathlib.Path) -> None:
    proto = graphs.accumulate()
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    wire = proto.SerializeToString()
    forms: dict[str, Any] = {
        "path": str(path),
        "pathlike": path,
        "bytes": wire,
        "bytearray": bytearray(wire),
        "memoryview": memoryview(wire),
        "proto": proto,
        "model": refeed.load(proto),
    }
    source = forms[how]
    bound, _ = refeed.bind(source, {"past": "present"})
    state = runtime.PersistentValueState(bound, {"past": ZEROS})
    assert state.run({"delta": ONES})["present"].numpy().tolist() == [1, 1]
    session = runtime.RuntimeSession(source)
    assert session.run({"delta": ONES, "past": ONES})["present"].numpy().tolist() == [2, 2]


def test_a_saved_model_keeps_its_bindings(accumulate: refeed.Model, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "bound.onnx"
    accumulate.save(path)
    for again in (refeed.load(path), refeed.load(path, mmap=False), refeed.load(accumulate.to_bytes())):
        assert [(b.input, b.output, b.publish) for b in again.bindings] == [("past", "present", "always")]
    onnx.checker.check_model(str(path))


def test_bind_reports_what_it_did() -> None:
    _, report = refeed.bind(graphs.concat(), patterns="past -> present")
    assert [(pair.input, pair.output, pair.publish, pair.uses) for pair in report.pairs] == [
        ("past", "present", "always", 1)
    ]
    assert "template" in report.pairs[0].matched_by
    assert "past" in str(report)
    assert report.uses == "one"
    _, report = refeed.bind(graphs.concat(), [("past", "present")], uses="any", publish={"past": "if_present"})
    assert (report.uses, report.pairs[0].publish) == ("any", "if_present")


def test_nothing_is_bound_by_name_unasked() -> None:
    """Rule 3.1.9."""
    model = refeed.load(graphs.concat())
    assert model.bindings == []
    with pytest.raises(refeed.ModelError, match="nothing to bind"):
        refeed.bind(model)
    with pytest.raises(refeed.ModelError, match="missing graph persistence declarations"):
        runtime.PersistentValueState(model, {})


def test_publication_once_keeps_the_first_value() -> None:
    bound, _ = refeed.bind(graphs.accumulate(), [("past", "present")], publish="once")
    state = runtime.PersistentValueState(bound, {"past": ZEROS})
    values = [float(state.run({"delta": ONES})["present"].numpy()[0]) for _ in range(3)]
    assert values == [1, 2, 2]
    assert state.explain().bindings[0].outcome == "kept"
    state.reset({"past": ZEROS})
    assert float(state.run({"delta": ONES})["present"].numpy()[0]) == 1


def test_an_initializer_is_a_default_that_a_feed_overrides() -> None:
    default = onnx.numpy_helper.from_array(np.full(2, 5, np.float32), "delta")
    proto = graphs.accumulate()
    proto.graph.initializer.append(default)
    bound, _ = refeed.bind(proto, [("past", "present")])
    state = runtime.PersistentValueState(bound, {"past": ZEROS})
    assert state.run({})["present"].numpy().tolist() == [5, 5]
    assert state.run({"delta": ONES})["present"].numpy().tolist() == [6, 6]
    assert state.run({})["present"].numpy().tolist() == [11, 11]


def test_options_are_copied(accumulate: refeed.Model) -> None:
    """Rule 5.2.10; S155."""
    options = runtime.RuntimeSessionOptions(persistent_tensor_initial_capacity=4)
    bound, _ = refeed.bind(graphs.concat(1, 1, 3), [("past", "present")])
    empty = np.zeros((1, 1, 0, 3), np.float32)
    first = runtime.PersistentValueState(bound, {"past": empty}, options)
    options.persistent_tensor_initial_capacity = 9
    second = runtime.PersistentValueState(bound, {"past": empty}, options=options)
    row = np.ones((1, 1, 1, 3), np.float32)
    for state in (first, second):
        state.run({"new": row})
    assert first.explain().bindings[0].capacity == 4
    assert second.explain().bindings[0].capacity == 9
    assert runtime.PersistentValueState(accumulate, {"past": ZEROS}, options) is not None


def test_symbols_that_disagree_warn_once_and_only_where_any_use_is_allowed() -> None:
    add = helper.make_node("Identity", ["past"], ["present"])
    other = helper.make_node("Identity", ["x"], ["y"])
    proto = graphs.model(
        [add, other],
        [graphs.info("x", graphs.FLOAT, ["n"]), graphs.info("past", graphs.FLOAT, ["n"])],
        [graphs.info("present", graphs.FLOAT, ["n"]), graphs.info("y", graphs.FLOAT, ["n"])],
    )
    feeds = {"x": np.ones(3, np.float32)}
    strict, _ = refeed.bind(proto, [("past", "present")])
    with pytest.raises(refeed.ValueTypeError, match="symbolic shape mismatch"):
        runtime.PersistentValueState(strict, {"past": ZEROS}).run(feeds)
    loose, _ = refeed.bind(proto, [("past", "present")], uses="any")
    state = runtime.PersistentValueState(loose, {"past": ZEROS})
    state.run(feeds)
    assert "symbolic shape mismatch" in state.explain().warnings[0]
    with pytest.warns(refeed.SymbolWarning, match="symbolic shape mismatch"):
        state.run(feeds)
    # The suite makes warnings errors: a second one would raise.
    state.run(feeds)
    # A filter that makes the warning an error stops the call before it changes anything.
    state = runtime.PersistentValueState(loose, {"past": ZEROS})
    out = state.run(feeds)["present"]
    with pytest.raises(refeed.SymbolWarning):
        state.run(feeds)
    assert graphs.address(state.values["past"].numpy()) == graphs.address(out.numpy())


def test_events_are_off_unless_asked_for() -> None:
    """Rules 5.5.5, 5.5.6; S169, S170, S172, S177."""
    bound, _ = refeed.bind(graphs.concat(2, 3, 5), [("past", "present")])
    state = runtime.PersistentValueState(bound, {"past": np.zeros((2, 3, 0, 5), np.float32)})
    silent = runtime.RuntimeContext()
    loud = runtime.RuntimeContext(events_enabled=True)
    row = np.ones((2, 3, 1, 5), np.float32)
    state.run(silent, {"new": row})
    state.run(loud, {"new": row})
    assert silent.events() == []
    events = [event for event in loud.events() if event.action == runtime.RuntimeEventAction.kPersistentStorage]
    assert all(isinstance(event.action, runtime.RuntimeEventAction) for event in events)
    assert int(events[0].action) == 4
    assert sum(event.storage_reuse_count for event in events) == 1
    (event,) = (event for event in events if event.storage_append_copied_bytes)
    assert (event.op_type, event.op_domain, event.node_index, event.subgraph_node_index) == ("Concat", "", 0, -1)
    counters = (event.storage_allocations, event.storage_prefix_copied_bytes, event.storage_append_copied_bytes)
    assert counters == (0, 0, 2 * 3 * 5 * 4)
    assert event.as_dict()["action"] == "persistent_storage"
    assert event.as_dict()["storage_append_copied_bytes"] == event.storage_append_copied_bytes
    assert "storage_bytes=0" in event.summary()
    with pytest.raises(AttributeError):
        event.storage_allocations = 3  # type: ignore[misc]
    loud.clear_events()
    assert loud.events() == []


def test_explain_says_how_each_binding_went() -> None:
    bound, _ = refeed.bind(graphs.concat(2, 3, 5), [("past", "present")])
    state = runtime.PersistentValueState(
        bound, {"past": np.zeros((2, 3, 0, 5), np.float32)}, persistent_tensor_initial_capacity=2
    )
    assert state.explain().bindings[0].outcome == "not run yet"
    outcomes = []
    for _ in range(3):
        state.run({"new": np.ones((2, 3, 1, 5), np.float32)})
        outcomes.append(state.explain().bindings[0].outcome.split(":")[0])
    assert outcomes == ["grown", "in place", "grown"]
    (report,) = state.explain().bindings
    assert (report.input, report.output, report.shape) == ("past", "present", (2, 3, 3, 5))
    assert report.bytes == 2 * 3 * 3 * 5 * 4
    assert report.capacity >= 3
    assert str(report) in str(state.explain())


def test_bfloat16_goes_through_ml_dtypes() -> None:
    bound, _ = refeed.bind(graphs.concat(1, 2, 3, TensorProto.BFLOAT16), [("past", "present")])
    state = runtime.PersistentValueState(bound, {"past": np.zeros((1, 2, 0, 3), ml_dtypes.bfloat16)})
    row = np.arange(6).reshape(1, 2, 1, 3).astype(ml_dtypes.bfloat16)
    out = [state.run({"new": row})["present"] for _ in range(2)][-1].numpy()
    assert out.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(out.astype(np.float32), np.concatenate([row, row], axis=2).astype(np.float32))


def test_no_call_takes_a_mapping_of_outputs_to_inputs() -> None:
    """Rule 3.1.9; S003."""
    signature = inspect.signature(runtime.PersistentValueState)
    assert list(signature.parameters)[:3] == ["model", "initial", "options"]
    assert list(inspect.signature(runtime.PersistentValueState.reset).parameters) == ["self", "initial"]
    assert not {"bindings", "pairs", "mapping"} & set(signature.parameters)


def test_edits_of_a_message_reach_new_states_only() -> None:
    """Rule 4.4.5; S029, S031."""
    proto = refeed.onnx.ModelProto()
    proto.ParseFromString(graphs.accumulate().SerializeToString())
    proto.graph.persistent_bindings.add(input_name="past", output_name="present")
    old = runtime.PersistentValueState(proto, {"past": ZEROS})
    proto.graph.node[0].op_type = "Sub"
    new = runtime.PersistentValueState(proto, {"past": ZEROS})
    for step in (1, 2):
        assert old.run({"delta": ONES})["present"].numpy().tolist() == [step, step]
    assert new.run({"delta": ONES})["present"].numpy().tolist() == [1, 1]
    assert new.run({"delta": ONES})["present"].numpy().tolist() == [0, 0]
    del proto.graph.node[:]
    assert old.run({"delta": ONES})["present"].numpy().tolist() == [3, 3]


def test_states_hold_no_copy_of_the_weights() -> None:
    """Rule 4.2.9; S030: neither making nor running a state takes memory that grows with the model's payloads."""
    live = []
    for size in (16, 1 << 20):
        weight = helper.make_tensor("w", TensorProto.FLOAT, [size], np.ones(size, np.float32).tobytes(), raw=True)
        nodes = [
            helper.make_node("Gather", ["w", "i"], ["s"]),
            helper.make_node("Add", ["past", "s"], ["present"]),
        ]
        proto = graphs.model(
            nodes,
            [graphs.info("past", graphs.FLOAT, []), graphs.info("i", TensorProto.INT64, [])],
            [graphs.info("present", graphs.FLOAT, [])],
            initializers=[weight],
        )
        model, _ = refeed.bind(proto, [("past", "present")])
        states = [runtime.PersistentValueState(model, {"past": np.zeros((), np.float32)}) for _ in range(3)]
        for state in states:
            assert float(state.run({"i": np.array(size - 1)})["present"].numpy()) == 1
        live.append([state.live_bytes for state in states])
    assert live[0] == live[1]


def test_a_model_is_the_same_file_after_its_runs(accumulate: refeed.Model) -> None:
    """Rule 4.4.1; S133: what a request keeps is no part of the model."""
    before = accumulate.to_bytes()
    state = runtime.PersistentValueState(accumulate, {"past": np.full(2, 7, np.float32)})
    for _ in range(3):
        state.run({"delta": ONES})
    assert accumulate.to_bytes() == before


def test_the_page_says_what_is_not_rolled_back(root: pathlib.Path) -> None:
    """S100."""
    page = (root / "docs" / "feedback.md").read_text(encoding="utf-8")
    assert "writes from outside into shared memory are not rolled back" in page
