"""Values that a context keeps by name (rules 2.2), and sessions that run on them."""

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


def test_maps_are_refused() -> None:
    context = runtime.RuntimeContext()
    with pytest.raises(refeed.ValueTypeError, match="maps are not supported"):
        context.put_map("m", {"a": 1})
    assert not context.has_map("m")
    assert context.map_names() == []


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
    assert not context.has("t")
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
