"""Values that a context keeps by name (rules 2.2), and sessions that run on them."""

from typing import Any

import numpy as np
import pytest
import refeed
from refeed import runtime
from refeed.onnx import helper, parser

ONE = np.array([1.0, 2.0], np.float32)
TWO = np.array([3.0, 5.0], np.float32)


def test_a_name_has_one_value_of_whatever_kind() -> None:
    context = runtime.RuntimeContext()
    context.set("x", ONE)
    assert (context.has("x"), context.kind("x")) == (True, "input")
    with pytest.raises(refeed.DuplicateValueError, match="value `x` is there already") as caught:
        context.set("x", TWO)
    assert isinstance(caught.value, RuntimeError)
    context.put("x", TWO)
    np.testing.assert_array_equal(context.get("x").numpy(), TWO)
    assert (context.get("x").name, context.kind("x")) == ("x", "intermediate")
    with pytest.raises(refeed.DuplicateValueError):
        context.set("x", ONE)
    context.put_sequence("x", [ONE, TWO])
    assert not context.has("x")
    assert context.has_sequence("x")
    with pytest.raises(refeed.ValueTypeError, match="expected a tensor, got a sequence"):
        context.get("x")


def test_names_are_told_by_kind() -> None:
    context = runtime.RuntimeContext()
    context.put("b", ONE)
    context.put("a", runtime.Tensor(TWO))
    context.put_value("cache", {"keys": ONE, "steps": [TWO, ONE]})
    context.put_value("list", [ONE])
    assert context.names() == ["a", "b"]
    assert context.sequence_names() == ["list"]
    np.testing.assert_array_equal(context.get_sequence("list")[0].numpy(), ONE)
    read = context.get_value("cache")
    np.testing.assert_array_equal(read["steps"][0].numpy(), TWO)
    with pytest.raises(refeed.ValueTypeError, match="expected a sequence, got a structured value"):
        context.get_sequence("cache")
    assert context.remove("cache")
    assert not context.remove("cache")
    context.clear()
    assert context.names() == context.sequence_names() == []


def test_values_are_shared_not_copied() -> None:
    context = runtime.RuntimeContext()
    context.put_value("x", ONE)
    assert context.get_value("x").numpy().ctypes.data == ONE.ctypes.data


@pytest.mark.parametrize("read", ["get", "get_value", "get_sequence", "kind"])
def test_absent_names_are_index_errors(read: str) -> None:
    with pytest.raises(IndexError, match="no value `nothing`") as caught:
        getattr(runtime.RuntimeContext(), read)("nothing")
    assert isinstance(caught.value, refeed.MissingValueError)


def test_kinds_are_checked() -> None:
    context = runtime.RuntimeContext()
    for kind in ("unknown", "initializer", "input", "intermediate", "output"):
        context.put("x", ONE, kind)
        assert context.kind("x") == kind
    with pytest.raises(refeed.ValueTypeError, match="expected unknown, initializer"):
        context.put("x", ONE, "inputs")
    with pytest.raises(refeed.ValueTypeError):
        context.set("y", ONE, kind="")
    assert context.names() == ["x"]


@pytest.mark.parametrize(
    "values",
    [
        {1: 2, -(2**63): 2**63 - 1},
        {"cat": 0.25, "dog": 0.75, "": -0.0},
        {3: "three", 1: "one"},
        {"a": "b"},
        {"a": 1},
        {1: 0.5},
        {},
    ],
)
def test_maps_come_back_in_their_order(values: dict[Any, Any]) -> None:
    context = runtime.RuntimeContext()
    context.put("m", ONE)
    context.put_map("m", values)
    assert list(context.get_map("m").items()) == list(values.items())
    assert [type(value) for value in context.get_map("m").values()] == [type(value) for value in values.values()]
    assert (context.has_map("m"), context.has("m"), context.map_names(), context.names()) == (True, False, ["m"], [])
    for read in (context.get, context.get_value, context.get_sequence):
        with pytest.raises(refeed.ValueTypeError, match="got a map"):
            read("m")
    with pytest.raises(refeed.DuplicateValueError):
        context.set("m", ONE)
    context.put_map("n", {})
    assert context.remove("m")
    assert context.map_names() == ["n"]
    context.put("n", ONE)
    assert not context.has_map("n")
    with pytest.raises(refeed.ValueTypeError, match="expected a map, got a tensor"):
        context.get_map("n")
    with pytest.raises(IndexError):
        context.get_map("m")


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({True: 1}, "keys of map `m`: expected int or str"),
        ({1: True}, "values of map `m`: expected int or float or str"),
        ({1: 1, "a": 1}, "keys of map `m`: expected int, as the first says, got .*str"),
        ({1: 1.5, 2: 1}, "values of map `m`: expected float, as the first says, got .*int"),
        ({1.5: 1}, "keys of map"),
        ({1: None}, "values of map"),
        ({1: [1]}, "values of map"),
        ({2**63: 1}, "keys of map `m`: expected an int of 64 bits"),
        ({1: -(2**64)}, "values of map `m`: expected an int of 64 bits"),
    ],
)
def test_what_is_no_map_is_refused(values: Any, match: str) -> None:
    context = runtime.RuntimeContext()
    context.put("m", ONE)
    with pytest.raises(refeed.ValueTypeError, match=match):
        context.put_map("m", values)
    assert context.has("m")
    with pytest.raises(TypeError):
        context.put_map("m", [(1, 2)])  # type: ignore[arg-type]


def test_what_is_no_value_is_refused() -> None:
    context = runtime.RuntimeContext()
    for value in (object(), "text", [1.0, 2.0], ONE[::-1]):
        with pytest.raises(TypeError):
            context.put_value("x", value)  # type: ignore[arg-type]
    assert context.names() == []


MODEL = (
    '<ir_version: 10, opset_import: ["" : 18]> g (float[2] a, float[2] b) => (float[2] s)'
    "<float[2] b = {10, 20}, float[2] k = {1, 1}> { t = Add(a, b) s = Add(t, k) }"
)


def test_a_session_runs_on_a_context() -> None:
    session = runtime.RuntimeSession(parser.parse_model(MODEL))
    context = runtime.RuntimeContext()
    with pytest.raises(refeed.ValueTypeError, match="missing current input `a`"):
        session.run(context)
    context.set("a", ONE)
    assert session.run(context) is None
    np.testing.assert_array_equal(context.get("s").numpy(), ONE + [10, 20] + 1)
    assert context.kind("s") == "output"
    context.put("b", TWO)
    session.run(context)
    np.testing.assert_array_equal(context.get_value("s").numpy(), ONE + TWO + 1)
    np.testing.assert_array_equal(context.get("t").numpy(), ONE + TWO)
    assert context.kind("t") == "intermediate"
    context.put("k", ONE)
    with pytest.raises(refeed.ValueTypeError, match="`k`, which the model defines as a constant"):
        session.run(context)
    with pytest.raises(TypeError, match="a second RuntimeContext"):
        session.run(context, context)  # type: ignore[call-overload]


def test_a_failed_run_changes_nothing() -> None:
    session = runtime.RuntimeSession(parser.parse_model(MODEL))
    context = runtime.RuntimeContext()
    context.put("a", np.zeros(3, np.float32))
    context.put("s", ONE)
    with pytest.raises(refeed.ValueTypeError, match="shape mismatch"):
        session.run(context)
    np.testing.assert_array_equal(context.get("s").numpy(), ONE)


def test_events_may_be_recorded_by_hand() -> None:
    action = runtime.RuntimeEventAction
    context = runtime.RuntimeContext(events_enabled=True)
    context.record_event(action.kPersistentStorage, name="mine", storage_allocations=2, storage_allocated_bytes=64)
    context.record_event(action.kRunNode, name="other")
    storage, node = context.events()
    assert (storage.action, storage.name, storage.node_index) == (action.kPersistentStorage, "mine", -1)
    assert (storage.storage_allocations, storage.storage_allocated_bytes, storage.storage_reuse_count) == (2, 64, 0)
    assert "storage_allocations" in storage.as_dict()
    assert (node.action, "storage_allocations" in node.as_dict()) == (action.kRunNode, False)
    with pytest.raises(refeed.ValueTypeError, match="only events of kPersistentStorage"):
        context.record_event(action.kAdd, storage_allocations=1)
    with pytest.raises(refeed.ValueTypeError, match="got 17"):
        context.record_event(17)
    with pytest.raises(TypeError, match="unexpected field `bytes`"):
        context.record_event(action.kPersistentStorage, bytes=1)
    with pytest.raises(OverflowError):
        context.record_event(action.kPersistentStorage, storage_allocations=-1)
    assert len(context.events()) == 2
    context.clear()
    assert context.events() == []
    silent = runtime.RuntimeContext()
    silent.record_event(action.kPersistentStorage, storage_allocations=1)
    assert silent.events() == []


def test_a_value_may_be_fed_again() -> None:
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["x2"])],
        "g",
        [helper.make_tensor_value_info("x", 1, [2])],
        [helper.make_tensor_value_info("x2", 1, [2])],
    )
    session = runtime.RuntimeSession(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    context = runtime.RuntimeContext()
    context.put("x", ONE)
    for _ in range(3):
        session.run(context)
        context.put("x", context.get("x2"), "input")
    np.testing.assert_array_equal(context.get("x").numpy(), ONE * 8)


def test_a_call_of_a_state_leaves_the_values_of_its_context_alone() -> None:
    """Rule 4.2.2; S074, S081."""
    text = (
        '<ir_version: 10, opset_import: ["" : 18]> g (float[2] x, float[2] past) => (float[2] next, float[2] y)'
        "{ y = Neg(x) t = Add(y, past) next = Abs(t) }"
    )
    model = parser.parse_model(text)
    model.graph.persistent_bindings.add(input_name="past", output_name="next")
    state = runtime.PersistentValueState(model, {"past": ONE})
    context = runtime.RuntimeContext()
    context.put("x", TWO)
    context.put_value("t", {"mine": ONE})
    outputs = state.run(context, {"x": ONE})
    assert sorted(outputs) == ["next", "y"]
    assert (context.names(), sorted(context.get_value("t"))) == (["x"], ["mine"])
    assert context.get("x").numpy().ctypes.data == TWO.ctypes.data
    assert sorted(state.values) == ["past"]


def test_a_context_releases_values_on_the_way_of_every_kind() -> None:
    """Rule 4.4.8."""
    text = (
        '<ir_version: 10, opset_import: ["" : 18]> g (float[2] a) => (float[2] s)'
        "{ t = Neg(a) l = SequenceConstruct(t, a) n = SequenceLength(l) f = Cast<to = 1>(n) s = Add(t, f) }"
    )
    session = runtime.RuntimeSession(parser.parse_model(text))
    for release in (False, True):
        execution = runtime.ExecutionArena(64)
        io = runtime.IOArena(64)
        options = runtime.RuntimeContextOptions(allocator=execution, io_allocator=io, release_intermediates=release)
        context = runtime.RuntimeContext(None, options)
        assert context.release_intermediates == options.release_intermediates == release
        context.put("a", ONE)
        session.run(context)
        np.testing.assert_array_equal(context.get("s").numpy(), 2 - ONE)
        assert context.names() == (["a", "s"] if release else ["a", "f", "n", "s", "t"])
        assert context.sequence_names() == ([] if release else ["l"])
        assert (execution.allocated_count == 0) == release
        context.release_intermediates = True
        context.clear()
        assert execution.allocated_count == 0
    # What is fed and given back leaves nothing in the context.
    context = runtime.RuntimeContext()
    session.run({"a": ONE}, context)
    assert context.names() == []


def test_edits_are_recorded() -> None:
    """Additions, replacements, and removals of tensors, with what small ones held."""
    action = runtime.RuntimeEventAction
    options = runtime.RuntimeContextOptions()
    options.events_enabled = True
    context = runtime.RuntimeContext(options=options)
    context.set("x", ONE)
    context.put("x", TWO, "initializer")
    context.put_sequence("l", [ONE])
    context.put_map("m", {1: 2})
    for name in ("l", "m", "x"):
        assert context.remove(name)
    told = [(event.action, event.name, event.kind, event.node_index, event.values) for event in context.events()]
    assert told == [
        (action.kAdd, "x", "input", -1, [1.0, 2.0]),
        (action.kReplace, "x", "initializer", -2, [3.0, 5.0]),
        (action.kAdd, "l", "result", -1, []),
        (action.kAdd, "m", "result", -1, []),
        (action.kRemove, "x", "initializer", -2, [3.0, 5.0]),
    ]
    # A run records its results once.
    context.clear()
    session = runtime.RuntimeSession(parser.parse_model(MODEL))
    context.put("a", ONE)
    context.clear_events()
    session.run(context)
    added = [event.name for event in context.events() if event.action in (action.kAdd, action.kReplace)]
    assert sorted(added) == ["a", "b", "s", "t"]


def test_options_of_a_context_are_copied() -> None:
    options = runtime.RuntimeContextOptions(events_enabled=True, device="cpu", verbose=0)
    io = runtime.IOArena(4)
    options.io_allocator = io
    context = runtime.RuntimeContext(options=options)
    options.events_enabled = False
    options.io_allocator = None
    assert (context.events_enabled, context.io_allocator) == (True, io)
    assert (options.allocator, options.io_allocator, options.device, options.verbose) == (None, None, "cpu", 0)
    assert "events_enabled=False" in repr(options)
    assert not runtime.RuntimeContext(options=options).events_enabled
