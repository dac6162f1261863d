"""Events: what a call records, what it records about values, and the two ways to look at a whole log."""

import json
import pathlib
from collections import Counter

import graphs
import numpy as np
import pytest
import refeed
from onnx import TensorProto, helper
from refeed import runtime

ACTION = runtime.RuntimeEventAction
ONES = np.ones(2, np.float32)


def run_accumulate(*, events_enabled: bool = True, runs: int = 1) -> runtime.RuntimeContext:
    model, _ = refeed.bind(graphs.accumulate(), [("past", "present")])
    state = runtime.PersistentValueState(model, {"past": np.zeros(2, np.float32)})
    context = runtime.RuntimeContext(events_enabled=events_enabled)
    for _ in range(runs):
        state.run(context, {"delta": ONES})
    return context


def test_off_means_nothing() -> None:
    context = run_accumulate(events_enabled=False)
    assert context.events() == []
    assert context.node_table() == []


def test_a_call_records_inputs_nodes_and_results() -> None:
    events = run_accumulate(runs=2).events()
    kinds = [(event.action.name, event.kind, event.name, event.node_index) for event in events]
    once = [
        ("kAdd", "input", "delta", -1),
        ("kAdd", "input", "past", -1),
        ("kRunNode", "node", "sum", 0),
        ("kAdd", "result", "present", 0),
        ("kRemove", "result", "delta", 0),
        ("kRemove", "result", "past", 0),
    ]
    assert sorted(kinds) == sorted(2 * once)
    assert [event.timestamp_ns for event in events] == sorted(event.timestamp_ns for event in events)
    second = events[len(once) :]
    past = next(event for event in second if event.name == "past" and event.action == ACTION.kAdd)
    assert (past.data_type, past.shape, past.value_count, past.values) == (TensorProto.FLOAT, [2], 2, [1.0, 1.0])
    present = next(event for event in second if event.name == "present")
    assert present.values == [2.0, 2.0]
    node = next(event for event in second if event.action == ACTION.kRunNode)
    assert (node.op_type, node.op_domain, node.inputs) == ("Add", "", ["delta", "past"])
    assert node.duration_ns <= node.timestamp_ns
    assert (node.device, node.cpu_executor_instance_id, node.string_values) == (-1, 0, [])
    assert node.cpu_effective_threads >= 1


@pytest.mark.parametrize(
    ("elements", "values"),
    [
        (TensorProto.FLOAT, [0.5, -2.0]),
        (TensorProto.DOUBLE, [0.5, -2.0]),
        (TensorProto.FLOAT16, [0.5, -2.0]),
        (TensorProto.INT64, [2**62, -3]),
        (TensorProto.INT32, [7, -3]),
        (TensorProto.UINT8, [7, 255]),
        (TensorProto.BOOL, [1, 0]),
    ],
)
def test_small_values_are_kept(elements: int, values: list[float]) -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    proto = graphs.model([node], [graphs.info("x", elements, [2])], [graphs.info("y", elements, [2])])
    context = runtime.RuntimeContext(events_enabled=True)
    array = np.array(values).astype(helper.tensor_dtype_to_np_dtype(elements))
    runtime.RuntimeSession(proto).run({"x": array}, context)
    seen = [event for event in context.events() if event.action == ACTION.kAdd]
    assert [event.kind for event in seen] == ["input", "result"]
    assert all((event.data_type, event.shape, event.values) == (elements, [2], values) for event in seen)


def test_at_most_eight_values_are_kept() -> None:
    node = helper.make_node("Neg", ["x"], ["y"])
    proto = graphs.model([node], [graphs.info("x", graphs.FLOAT, ["n"])], [graphs.info("y", graphs.FLOAT, ["n"])])
    session = runtime.RuntimeSession(proto)
    for count, kept in ((0, True), (8, True), (9, False)):
        context = runtime.RuntimeContext(events_enabled=True)
        session.run({"x": np.arange(count, dtype=np.float32)}, context)
        event = next(event for event in context.events() if event.name == "y" and event.action == ACTION.kAdd)
        assert event.value_count == count
        assert event.data_type == (graphs.FLOAT if kept else -1)
        assert event.shape == ([count] if kept else [])
        assert event.values == ([-float(v) for v in range(count)] if kept else [])


def test_an_initializer_of_an_input_has_its_own_index() -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"])
    weight = helper.make_tensor("w", graphs.FLOAT, [2], [1, 2])
    infos = [graphs.info(name, graphs.FLOAT, [2]) for name in "xw"]
    proto = graphs.model([node], infos, [graphs.info("y", graphs.FLOAT, [2])], initializers=[weight])
    session = runtime.RuntimeSession(proto)
    for feeds, expected in (({"x": ONES}, ("initializer", -2)), ({"x": ONES, "w": ONES}, ("input", -1))):
        context = runtime.RuntimeContext(events_enabled=True)
        session.run(feeds, context)
        event = next(event for event in context.events() if event.name == "w" and event.action == ACTION.kAdd)
        assert (event.kind, event.node_index) == expected


def storage_context() -> runtime.RuntimeContext:
    model, _ = refeed.bind(graphs.concat(1, 2, 3), [("past", "present")])
    state = runtime.PersistentValueState(model, {"past": np.zeros((1, 2, 0, 3), np.float32)})
    context = runtime.RuntimeContext(events_enabled=True)
    state.run(context, {"new": np.ones((1, 2, 1, 3), np.float32)})
    return context


def test_dictionaries_and_summaries() -> None:
    events = storage_context().events()
    names = {"add", "remove", "run_node", "persistent_storage"}
    assert {event.as_dict()["action"] for event in events} == names
    for event in events:
        fields = event.as_dict()
        storage = {key for key in fields if key.startswith("storage_")}
        is_storage = event.action == ACTION.kPersistentStorage
        assert len(storage) == (5 if is_storage else 0)
        for key, value in fields.items():
            assert key == "action" or getattr(event, key) == value, key
        assert event.summary() in repr(event)
        assert ("storage_bytes=" in event.summary()) == is_storage
        with pytest.raises(AttributeError):
            event.storage_allocations = 1  # type: ignore[misc]
    allocated = next(event for event in events if event.storage_allocations)
    assert f"storage_bytes={allocated.storage_allocated_bytes}" in allocated.summary()
    assert allocated.storage_allocated_bytes == 32 * 2 * 3 * 4


def test_the_nodes_of_a_branch_say_where_they_are() -> None:
    """Rule 4.5.3; S175."""
    branch = [
        helper.make_graph(
            [helper.make_node(op, ["x"], ["y_" + op])], op, [], [graphs.info("y_" + op, graphs.FLOAT, [2])]
        )
        for op in ("Neg", "Abs")
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1])
    infos = [graphs.info("c", TensorProto.BOOL, []), graphs.info("x", graphs.FLOAT, [2])]
    proto = graphs.model(
        [helper.make_node("Identity", ["x"], ["unused"]), node], infos, [graphs.info("y", graphs.FLOAT, [2])]
    )
    context = runtime.RuntimeContext(events_enabled=True)
    runtime.RuntimeSession(proto).run({"c": np.array(False), "x": ONES}, context)
    ran = {event.op_type: event for event in context.events() if event.action == ACTION.kRunNode}
    assert (ran["Abs"].subgraph_node_index, ran["Abs"].subgraph_attr_name) == (1, "else_branch")
    assert (ran["If"].subgraph_node_index, ran["If"].subgraph_attr_name) == (-1, "")
    assert "Neg" not in ran
    assert ran["If"].duration_ns >= ran["Abs"].duration_ns


def test_the_table_sums_the_log() -> None:
    context = run_accumulate(runs=5)
    table = context.node_table()
    events = [event for event in context.events() if event.action == ACTION.kRunNode]
    assert [(row["name"], row["op_type"], row["calls"], row["node_index"]) for row in table] == [("sum", "Add", 5, 0)]
    assert table[0]["total_ns"] == sum(event.duration_ns for event in events)
    assert table[0]["min_ns"] == min(event.duration_ns for event in events)
    assert table[0]["max_ns"] == max(event.duration_ns for event in events)
    context.clear_events()
    assert context.node_table() == []
    assert context.events() == []


def test_a_trace_has_every_event(tmp_path: pathlib.Path) -> None:
    context = storage_context()
    path = tmp_path / "trace.json"
    context.export_trace(path)
    trace = json.loads(path.read_text())
    events = context.events()
    entries = trace["traceEvents"]
    assert Counter(entry["ph"] for entry in entries) == {
        "X": sum(event.action == ACTION.kRunNode for event in events),
        "i": sum(event.action != ACTION.kRunNode for event in events),
    }
    for entry, event in zip(entries, events, strict=True):
        assert entry["args"]["name"] == event.name
        begin = event.timestamp_ns - event.duration_ns
        assert entry["ts"] == pytest.approx(begin / 1000, abs=1e-3)
        if event.action == ACTION.kRunNode:
            assert (entry["name"], entry["dur"]) == (event.op_type, pytest.approx(event.duration_ns / 1000, abs=1e-3))
    with pytest.raises(FileNotFoundError):
        context.export_trace(tmp_path / "none" / "trace.json")


def test_names_that_json_must_escape(tmp_path: pathlib.Path) -> None:
    name = 'a "b"\\ \n\u00e9\U0001f600'
    node = helper.make_node("Neg", ["x"], ["y"], name=name)
    proto = graphs.model([node], [graphs.info("x", graphs.FLOAT, [2])], [graphs.info("y", graphs.FLOAT, [2])])
    context = runtime.RuntimeContext(events_enabled=True)
    runtime.RuntimeSession(proto).run({"x": ONES}, context)
    context.export_trace(tmp_path / "trace.json")
    entries = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert name in [entry["args"]["name"] for entry in entries]


def test_an_empty_log_is_a_trace(tmp_path: pathlib.Path) -> None:
    runtime.RuntimeContext().export_trace(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"] == []


def test_events_of_a_failed_call_stay() -> None:
    """Rule 4.2.7; S176."""
    nodes = [
        helper.make_node("Neg", ["x"], ["h"], name="first"),
        helper.make_node("Reshape", ["h", "s"], ["y"], name="second"),
    ]
    infos = [graphs.info("x", graphs.FLOAT, [2]), graphs.info("s", TensorProto.INT64, [1])]
    proto = graphs.model(nodes, infos, [graphs.info("y", graphs.FLOAT, ["n"])])
    context = runtime.RuntimeContext(events_enabled=True)
    with pytest.raises(refeed.KernelError):
        runtime.RuntimeSession(proto).run({"x": ONES, "s": np.array([7])}, context)
    assert [event.name for event in context.events() if event.action == ACTION.kRunNode] == ["first"]


def test_nodes_that_append_nothing_report_no_storage() -> None:
    """Rule 5.5.4; S174."""
    events = run_accumulate(runs=3).events()
    assert not [event for event in events if event.action == ACTION.kPersistentStorage]
    assert not [event for event in events if event.storage_allocations or event.storage_allocated_bytes]


def test_events_change_nothing_else() -> None:
    """Rule 5.5.5; S171."""
    bits, outcomes = [], []
    for enabled in (False, True):
        model, _ = refeed.bind(graphs.attention(2, 2, 3, 2), [("pk", "ok"), ("pv", "ov")])
        empty = np.zeros((2, 2, 0, 3), np.float32)
        state = runtime.PersistentValueState(model, {"pk": empty, "pv": empty}, persistent_tensor_initial_capacity=2)
        context = runtime.RuntimeContext(events_enabled=enabled)
        draw = np.random.default_rng(5)
        run, places = [], []
        for _ in range(5):
            shapes = {"q": (2, 4, 1, 3), "k": (2, 2, 1, 3), "v": (2, 2, 1, 3)}
            out = state.run(context, {name: draw.standard_normal(shape, np.float32) for name, shape in shapes.items()})
            run.append([out[name].numpy().tobytes() for name in ("y", "ok", "ov")])
            places.append([report.outcome for report in state.explain().bindings])
        bits.append(run)
        outcomes.append(places)
    assert bits[0] == bits[1]
    assert outcomes[0] == outcomes[1]


def test_a_log_is_cleared_by_hand_only() -> None:
    """Rule 5.5.6; S180."""
    model, _ = refeed.bind(graphs.accumulate(), [("past", "present")])
    context = runtime.RuntimeContext(events_enabled=True)
    lengths = []
    for _ in range(2):
        state = runtime.PersistentValueState(model, {"past": np.zeros(2, np.float32)})
        for _ in range(2):
            state.run(context, {"delta": ONES})
            lengths.append(len(context.events()))
        state.reset({"past": ONES})
        state.close()
        assert len(context.events()) == lengths[-1]
    assert lengths == [lengths[0] * times for times in (1, 2, 3, 4)]
    other = runtime.RuntimeContext(events_enabled=True)
    context.clear_events()
    assert context.events() == other.events() == []


def test_values_of_every_kind_go_after_their_last_use() -> None:
    """Rule 4.4.8."""
    nodes = [
        helper.make_node("Neg", ["x"], ["h"]),
        helper.make_node("SequenceConstruct", ["h", "x"], ["list"]),
        helper.make_node("SequenceLength", ["list"], ["n"]),
        helper.make_node("Identity", ["n"], ["y"]),
    ]
    proto = graphs.model(nodes, [graphs.info("x", graphs.FLOAT, [2])], [graphs.info("y", TensorProto.INT64, [])])
    context = runtime.RuntimeContext(events_enabled=True)
    out = runtime.RuntimeSession(proto).run({"x": ONES}, context)["y"]
    assert int(out.numpy()) == 2
    gone = {event.name: event.op_type for event in context.events() if event.action == ACTION.kRemove}
    assert (gone["h"], gone["list"]) == ("SequenceConstruct", "SequenceLength")
    assert "y" not in gone
