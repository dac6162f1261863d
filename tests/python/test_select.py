"""Choosing rows of the batch, beside NumPy's `take`."""

import graphs
import numpy as np
import pytest
import refeed
from onnx import TensorProto, helper
from refeed import runtime

B, H, D = 4, 3, 5
Array = graphs.Array


def rows(count: int, first: int = 0, batch: int = B) -> Array:
    return np.arange(first, first + batch * H * count * D, dtype=np.float32).reshape(batch, H, count, D)


def past(state: runtime.PersistentValueState, name: str = "past") -> Array:
    return np.asarray(state.values[name])


def concat(elements: int = graphs.FLOAT) -> refeed.Model:
    """Any batch."""
    node = helper.make_node("Concat", ["past", "new"], ["present"], axis=2)
    shapes: list[graphs.Shape] = [["b", H, "n", D], ["b", H, "p", D], ["b", H, "t", D]]
    new, old, out = (graphs.info(name, elements, s) for name, s in zip(["new", "past", "present"], shapes, strict=True))
    return refeed.bind(graphs.model([node], [new, old], [out]), [("past", "present")])[0]


def grown(length: int = 3) -> runtime.PersistentValueState:
    state = runtime.PersistentValueState(concat(), {"past": rows(0)})
    state.run({"new": rows(length)})
    return state


@pytest.mark.parametrize("chosen", [[2, 0, 0], [3], [3, 2, 1, 0], [0, 1, 2, 3, 3, 3], [], [1, 1, 1, 1]])
def test_rows_are_those_that_numpy_takes(chosen: list[int]) -> None:
    state = grown()
    held = state.values["past"]
    state.select(chosen)
    expected = rows(3)[chosen] if chosen else rows(3)[:0]
    assert np.array_equal(past(state), expected)
    new = rows(2, 700, batch=len(chosen))
    state.run({"new": new})
    assert np.array_equal(past(state), np.concatenate([expected, new], axis=2))
    if chosen:
        assert state.explain().bindings[0].outcome == "in place"
    assert np.array_equal(np.asarray(held), rows(3))


def test_the_same_rows_share_the_memory_and_the_room() -> None:
    state = grown()
    address = graphs.address(past(state))
    state.select(range(B))
    assert graphs.address(past(state)) == address
    state.run({"new": rows(1, 9)})
    assert state.explain().bindings[0].outcome == "in place"


def test_rows_of_a_value_from_outside_and_of_a_truncated_one() -> None:
    state = runtime.PersistentValueState(concat(), {"past": rows(3)})
    state.select(np.array([1, 3]))
    assert np.array_equal(past(state), rows(3)[[1, 3]])
    state = grown(5)
    state.truncate(2)
    state.select([2, 2])
    assert np.array_equal(past(state), rows(5)[[2, 2], :, :2])


@pytest.mark.parametrize(
    ("chosen", "error", "text"),
    [
        ([4], refeed.ValueTypeError, "expected rows below 4, its extent along axis 0, got 4"),
        ([0, 2**40], refeed.ValueTypeError, "expected rows below 4"),
        ([-1], OverflowError, "row"),
        ([0.5], TypeError, "row"),
        (3, TypeError, "iterable"),
    ],
)
def test_wrong_rows_change_nothing(chosen: list[int], error: type[Exception], text: str) -> None:
    state = grown()
    with pytest.raises(error, match=text):
        state.select(chosen)
    assert np.array_equal(past(state), rows(3))


def mixed() -> refeed.Model:
    """Batch axis 0 in `past`, 1 in `h`, none in `steps`."""
    nodes = [
        helper.make_node("Concat", ["past", "new"], ["present"], axis=2),
        helper.make_node("Neg", ["h"], ["h_out"]),
        helper.make_node("Add", ["steps", "one"], ["steps_out"]),
    ]
    types = [graphs.FLOAT, graphs.FLOAT, graphs.FLOAT, TensorProto.INT64, TensorProto.INT64]
    names = ["new", "past", "h", "steps", "one"]
    shapes: list[graphs.Shape] = [["b", H, "n", D], ["b", H, "p", D], [2, "b", 7], [1], [1]]
    present: graphs.Shape = ["b", H, "t", D]
    outs = [graphs.info("present", graphs.FLOAT, present), graphs.info("h_out", graphs.FLOAT, [2, "b", 7])]
    proto = graphs.model(
        nodes,
        [graphs.info(*each) for each in zip(names, types, shapes, strict=True)],
        [*outs, graphs.info("steps_out", TensorProto.INT64, [1])],
    )
    pairs = [("past", "present"), ("h", "h_out"), ("steps", "steps_out")]
    return refeed.bind(proto, pairs)[0]


def test_each_value_has_its_own_batch_axis() -> None:
    h = np.arange(2 * B * 7, dtype=np.float32).reshape(2, B, 7)
    steps = np.array([3], np.int64)
    state = runtime.PersistentValueState(mixed(), {"past": rows(2), "h": h, "steps": steps})
    axes = {"h": 1, "steps": None}
    state.select([3, 1, 1], axes)
    assert np.array_equal(past(state), rows(2)[[3, 1, 1]])
    assert np.array_equal(past(state, "h"), h[:, [3, 1, 1]])
    assert np.array_equal(past(state, "steps"), steps)
    before = {name: np.asarray(value) for name, value in state.values.items()}
    for rows_, axes_, text in (
        ([2], {"h": 1}, "`steps` cannot be selected: expected rows below 1, its extent along axis 0, got 2"),
        ([2], {"h": 0, "steps": None}, "expected rows below 2"),
        ([0], {"h": 3, "steps": None}, "expected an axis 3"),
        ([0], {"other": 0}, "axes: `other` is no retained input"),
    ):
        with pytest.raises(refeed.ValueTypeError, match=text):
            state.select(rows_, axes_)
    for wrong in ({"h": -1}, {"h": 2**70}):
        with pytest.raises(OverflowError):
            state.select([0], wrong)
    with pytest.raises(TypeError):
        state.select([0], {1: 0})  # type: ignore[dict-item]
    assert all(np.array_equal(np.asarray(state.values[name]), value) for name, value in before.items())


@pytest.mark.parametrize("elements", [TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.INT8, TensorProto.INT64])
def test_every_width_of_elements(elements: int) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(elements)
    new = (rows(3) % 100).astype(dtype)
    state = runtime.PersistentValueState(concat(elements), {"past": new[:, :, :0].copy()})
    state.run({"new": new})
    state.select([3, 0])
    assert np.array_equal(past(state), new[[3, 0]])


def test_beams_follow_a_model_that_copies() -> None:
    """A random walk of select, run, truncate and fork beside concatenation and take."""
    draw = np.random.default_rng(3)
    state, model = grown(2), rows(2)
    for step in range(120):
        action = draw.integers(4)
        if action == 0 and model.shape[2] > 1:
            length = int(draw.integers(model.shape[2]))
            state.truncate(length)
            model = model[:, :, :length]
        elif action == 1:
            chosen = draw.integers(model.shape[0], size=int(draw.integers(1, 5)))
            state.select(chosen)
            model = model[chosen]
        elif action == 2:
            state = state.fork()
        else:
            new = rows(int(draw.integers(3)), 10 * step, batch=model.shape[0])
            state.run({"new": new})
            model = np.concatenate([model, new], axis=2)
        assert np.array_equal(past(state), model), step


def test_rows_that_contradict_the_declarations_are_refused() -> None:
    node = helper.make_node("Concat", ["past", "new"], ["present"], axis=2)
    shapes: list[graphs.Shape] = [[B, H, "n", D], [B, H, "p", D], [B, H, "t", D]]
    new, old, out = (
        graphs.info(name, graphs.FLOAT, s) for name, s in zip(["new", "past", "present"], shapes, strict=True)
    )
    model = refeed.bind(graphs.model([node], [new, old], [out]), [("past", "present")])[0]
    state = runtime.PersistentValueState(model, {"past": rows(3)})
    with pytest.raises(refeed.ValueTypeError, match=r"`past`: shape mismatch, expected .*4.*, got \[3, 3, 3, 5\]"):
        state.select([0, 1, 1])
    state.select([3, 1, 0, 2])
    assert np.array_equal(past(state), rows(3)[[3, 1, 0, 2]])
    state.run({"new": rows(1)})


def two_caches() -> runtime.PersistentValueState:
    nodes = [helper.make_node("Concat", [f"past_{k}", "new"], [f"present_{k}"], axis=2) for k in "kv"]
    shape: graphs.Shape = ["b", H, "p", D]
    inputs = [graphs.info("new", graphs.FLOAT, ["b", H, "n", D])]
    inputs += [graphs.info(f"past_{k}", graphs.FLOAT, shape) for k in "kv"]
    outputs = [graphs.info(f"present_{k}", graphs.FLOAT, ["b", H, "t", D]) for k in "kv"]
    model, _ = refeed.bind(graphs.model(nodes, inputs, outputs), [(f"past_{k}", f"present_{k}") for k in "kv"])
    return runtime.PersistentValueState(model, {"past_k": rows(2), "past_v": rows(2, 50)})


def test_values_that_share_a_symbol_are_selected_together() -> None:
    state = two_caches()
    with pytest.raises(refeed.ValueTypeError, match="symbolic shape mismatch, `b` is 4 elsewhere"):
        state.select([0, 1], axes={"past_k": None})
    assert past(state, "past_k").shape == past(state, "past_v").shape == (B, H, 2, D)
    state.select([0, 1])
    state.run({"new": rows(1, batch=2)})


def test_the_copy_is_told_and_is_made_by_the_allocators_of_the_context() -> None:
    arena = runtime.IOArena(8)
    context = runtime.RuntimeContext(io_allocator=arena)
    state = runtime.PersistentValueState(concat(), {"past": rows(0)}, context=context)
    out = state.run({"new": rows(3)})
    del out
    state.select([2, 0, 0])
    assert state.explain().bindings[0].outcome == "copied because 3 of its 4 rows were selected"
    assert arena.leased_count == 1
    state.run({"new": rows(1, batch=3)})
    assert state.explain().bindings[0].outcome == "in place"


def test_a_copy_beyond_the_budget_is_a_memory_error() -> None:
    state = runtime.PersistentValueState(concat(), {"past": rows(30)}, memory_limit=4000)
    with pytest.raises(MemoryError, match=r"`past`: .*budget"):
        state.select([0, 1, 2, 3, 0, 1, 2, 3])
    assert np.array_equal(past(state), rows(30))


def test_an_axis_of_what_is_not_bound_is_refused_by_name() -> None:
    with pytest.raises(refeed.ValueTypeError, match="axes: `pst` is no retained input"):
        grown().select([0], axes={"pst": 0})
