"""Going back to fewer rows, beside NumPy slices."""

import graphs
import numpy as np
import pytest
import refeed
from onnx import TensorProto, helper
from refeed import runtime

B, H, D = 2, 3, 5
Array = graphs.Array


def rows(count: int, first: int = 0) -> Array:
    return np.arange(first, first + B * H * count * D, dtype=np.float32).reshape(B, H, count, D)


def past(state: runtime.PersistentValueState, name: str = "past") -> Array:
    return np.asarray(state.values[name])


def grown(length: int) -> runtime.PersistentValueState:
    model, _ = refeed.bind(graphs.concat(B, H, D), [("past", "present")])
    state = runtime.PersistentValueState(model, {"past": rows(0)})
    state.run({"new": rows(length)})
    return state


@pytest.mark.parametrize("length", [0, 1, 6, 7])
def test_rows_are_cut_without_a_copy(length: int) -> None:
    state = grown(7)
    address = graphs.address(past(state))
    state.truncate(length)
    assert np.array_equal(past(state), rows(7)[:, :, :length])
    if length:
        assert graphs.address(past(state)) == address
    state.run({"new": rows(2, 900)})
    assert np.array_equal(past(state), np.concatenate([rows(7)[:, :, :length], rows(2, 900)], axis=2))


def test_who_holds_the_old_rows_keeps_them() -> None:
    state = grown(7)
    held = state.values["past"]
    state.truncate(3)
    state.run({"new": rows(2, 900)})
    assert "copied" in state.explain().bindings[0].outcome
    state.run({"new": rows(1, 800)})
    assert state.explain().bindings[0].outcome == "in place"
    assert np.array_equal(np.asarray(held), rows(7))


def test_alone_the_next_append_is_in_place() -> None:
    state = grown(7)
    state.truncate(3)
    state.run({"new": rows(2, 900)})
    assert state.explain().bindings[0].outcome == "in place"
    assert np.array_equal(past(state), np.concatenate([rows(7)[:, :, :3], rows(2, 900)], axis=2))


def test_a_value_that_came_from_outside_is_cut_too() -> None:
    model, _ = refeed.bind(graphs.concat(B, H, D), [("past", "present")])
    first = rows(6)
    state = runtime.PersistentValueState(model, {"past": first})
    state.truncate(2)
    assert np.array_equal(past(state), first[:, :, :2])
    state.run({"new": rows(1, 70)})
    assert np.array_equal(past(state), np.concatenate([first[:, :, :2], rows(1, 70)], axis=2))
    assert np.array_equal(first, rows(6))


def test_a_length_beyond_the_rows_changes_nothing() -> None:
    state = grown(4)
    with pytest.raises(refeed.ValueTypeError, match="`past` cannot be truncated: expected at most its 4 rows, got 5"):
        state.truncate(5)
    for wrong in (-1, 2**70):
        with pytest.raises(OverflowError):
            state.truncate(wrong)
    with pytest.raises(TypeError):
        state.truncate(1.5)  # type: ignore[arg-type]
    assert np.array_equal(past(state), rows(4))


def test_values_that_do_not_grow_are_named() -> None:
    nodes = [
        helper.make_node("Concat", ["past", "new"], ["present"], axis=1),
        helper.make_node("Add", ["h", "delta"], ["h_out"]),
        helper.make_node("Mul", ["c", "delta"], ["c_out"]),
    ]
    names: dict[str, graphs.Shape] = {"new": [2, "n"], "past": [2, "p"], "delta": [3], "h": [3], "c": [3]}
    out: dict[str, graphs.Shape] = {"present": [2, "t"], "h_out": [3], "c_out": [3]}
    proto = graphs.model(
        nodes,
        [graphs.info(name, graphs.FLOAT, shape) for name, shape in names.items()],
        [graphs.info(name, graphs.FLOAT, shape) for name, shape in out.items()],
    )
    bound, _ = refeed.bind(proto, [("past", "present"), ("h", "h_out"), ("c", "c_out")])
    zero = np.zeros(3, np.float32)
    first = np.ones((2, 4), np.float32)
    state = runtime.PersistentValueState(bound, {"past": first, "h": zero, "c": zero})
    with pytest.raises(refeed.ValueTypeError, match="`h`, `c`"):
        state.truncate(1)
    assert np.array_equal(past(state), first)
    recurrent, _ = refeed.bind(graphs.accumulate(), [("past", "present")])
    state = runtime.PersistentValueState(recurrent, {"past": np.zeros(2, np.float32)})
    with pytest.raises(refeed.ValueTypeError, match="no value of this state grows"):
        state.truncate(0)


def test_without_an_append_node_the_declarations_tell_the_axis() -> None:
    """`Pad` makes the value longer along axis 0; `Concat` behind a `Transpose` appends to another value."""
    node = helper.make_node("Concat", ["flipped", "new"], ["longer"], axis=0)
    nodes = [
        helper.make_node("Identity", ["past"], ["flipped"]),
        node,
        helper.make_node("Neg", ["longer"], ["present"]),
    ]
    proto = graphs.model(
        nodes,
        [graphs.info("new", graphs.FLOAT, ["n", 3]), graphs.info("past", graphs.FLOAT, ["p", 3])],
        [graphs.info("present", graphs.FLOAT, ["p + n", 3])],
    )
    bound, _ = refeed.bind(proto, [("past", "present")])
    first = np.arange(12, dtype=np.float32).reshape(4, 3)
    state = runtime.PersistentValueState(bound, {"past": first})
    state.truncate(3)
    assert np.array_equal(past(state), first[:3])
    state.run({"new": np.ones((1, 3), np.float32)})
    assert np.array_equal(past(state), -np.concatenate([first[:3], np.ones((1, 3), np.float32)]))


def test_caches_of_attention_are_cut_together() -> None:
    model, _ = refeed.bind(graphs.attention(B, H, D), [("pk", "ok"), ("pv", "ov")])
    empty = rows(0)
    state = runtime.PersistentValueState(model, {"pk": empty, "pv": empty})
    query = np.ones((B, 2 * H, 6, D), np.float32)
    state.run({"q": query, "k": rows(6), "v": rows(6, 5000)})
    state.truncate(4)
    assert np.array_equal(past(state, "pk"), rows(6)[:, :, :4])
    assert np.array_equal(past(state, "pv"), rows(6, 5000)[:, :, :4])
    fresh = runtime.PersistentValueState(model, {"pk": rows(6)[:, :, :4].copy(), "pv": rows(6, 5000)[:, :, :4].copy()})
    feeds = {"q": query[:, :, :1].copy(), "k": rows(1, 3), "v": rows(1, 8)}
    assert np.array_equal(np.asarray(state.run(feeds)["y"]), np.asarray(fresh.run(feeds)["y"]))


def test_half_types_are_cut() -> None:
    model, _ = refeed.bind(graphs.concat(B, H, D, TensorProto.FLOAT16), [("past", "present")])
    half = rows(5).astype(np.float16)
    state = runtime.PersistentValueState(model, {"past": half[:, :, :0].copy()})
    state.run({"new": half})
    state.truncate(2)
    assert np.array_equal(past(state), half[:, :, :2])
