"""Sequences and optional values in graphs: against Python's lists, element types, what callers lend, refusals."""

from typing import Any

import graphs
import ml_dtypes
import numpy as np
import onnx
import pytest
import refeed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from refeed import runtime

# Values of every kind go in and out, which types would have to tell apart at each use.
load: Any = refeed.load
State: Any = runtime.PersistentValueState
Session: Any = runtime.RuntimeSession

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
info, node = helper.make_tensor_value_info, helper.make_node
sequence = helper.make_tensor_sequence_value_info


def _tensor(name: str, value: Any, dtype: Any = np.int64) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value, dtype), name)


def _lists(value: Any) -> Any:
    return [element.numpy().tolist() for element in value]


# ------------------------------------------------------------------------------------------ against lists

_CHANGES = st.tuples(st.sampled_from(["insert", "append", "erase", "pop"]), st.integers(-8, 8), st.integers(0, 99))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(0, 99), max_size=3), st.lists(_CHANGES, max_size=12), st.integers(-6, 6), st.booleans())
def test_changes_do_what_lists_do(start: list[int], changes: list[Any], place: int, constant: bool) -> None:
    """As constants they are computed while a session is built, as feeds in each run."""
    held = list(start)
    nodes, feeds, error = [], {}, False

    def value(name: str, number: int) -> str:
        feeds[name] = np.array([number], np.int64)
        return name

    if start:
        nodes.append(node("SequenceConstruct", [value(f"x{i}", n) for i, n in enumerate(start)], ["s0"]))
    else:
        nodes.append(node("SequenceEmpty", [], ["s0"], dtype=INT64))
    for step, (change, at, number) in enumerate(changes):
        before, after, name = f"s{step}", f"s{step + 1}", f"n{step}"
        if change in ("insert", "append"):
            inputs = [before, value(name, number)] + ([value(f"p{step}", at)] if change == "insert" else [])
            nodes.append(node("SequenceInsert", inputs, [after]))
            if change == "append":
                held.append(number)
            elif -len(held) <= at <= len(held):
                held.insert(at, number)
            else:
                error = True
        else:
            inputs = [before] + ([value(f"p{step}", at)] if change == "erase" else [])
            nodes.append(node("SequenceErase", inputs, [after]))
            at = at if change == "erase" else -1
            if -len(held) <= at < len(held):
                del held[at]
            else:
                error = True
        if error:
            break
    last = nodes[-1].output[0]
    nodes.append(node("SequenceLength", [last], ["count"]))
    outputs = [info("count", INT64, []), sequence(last, INT64, None)]
    if not error and -len(held) <= place < len(held):
        nodes.append(node("SequenceAt", [last, value("place", place)], ["one"]))
        nodes.append(node("ConcatFromSequence", [last], ["flat"], axis=0))
        nodes.append(node("ConcatFromSequence", [last], ["rows"], axis=-1, new_axis=1))
        outputs += [info("one", INT64, [1]), info("flat", INT64, ["n"]), info("rows", INT64, [1, "n"])]
    scalars = {name for name in feeds if name.startswith("p")}
    fed = {name: array.reshape([]) if name in scalars else array for name, array in feeds.items()}
    model = graphs.model(
        nodes,
        [] if constant else [info(name, INT64, list(array.shape)) for name, array in fed.items()],
        outputs,
        initializers=[numpy_helper.from_array(array, name) for name, array in fed.items()] if constant else [],
    )
    session = load(model)
    if error:
        with pytest.raises(refeed.KernelError, match=r"position: expected (one of|a number from)"):
            session.run({} if constant else fed)
        return
    for _ in range(2):
        got = session.run({} if constant else fed)
        assert int(got["count"].numpy()) == len(held)
        assert _lists(got[last]) == [[number] for number in held]
        if "one" in got:
            assert got["one"].numpy().tolist() == [held[place]]
            assert got["flat"].numpy().tolist() == held
            assert got["rows"].numpy().tolist() == [held]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("split", [None, 2, 3, [3], [1, 0, 2], [2, 2, 1]])
@pytest.mark.parametrize("shape", [(3, 3), (5, 5), (0, 3)])
def test_split_as_numpy_splits(axis: int, keep: int, split: Any, shape: tuple[int, int]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    extent = shape[axis]
    held = [] if split is None else [_tensor("split", split)]
    model = graphs.model(
        [node("SplitToSequence", ["x"] + ["split"] * (split is not None), ["s"], axis=axis, keepdims=keep)],
        [info("x", FLOAT, ["a", "b"])],
        [sequence("s", FLOAT, None)],
        initializers=held,
    )
    if isinstance(split, list) and sum(split) != extent:
        with pytest.raises(refeed.KernelError, match=rf"split: expected sizes that add up to {extent}"):
            load(model).run({"x": x})
        return
    sizes = split if isinstance(split, list) else None
    step = split if isinstance(split, int) else 1
    cuts = np.cumsum(sizes)[:-1] if sizes is not None else np.arange(step, extent, step)
    want = np.split(x, cuts, axis=axis) if extent or sizes else []
    if split is None and not keep:
        want = [part.squeeze(axis) for part in want]
    got = load(model).run({"x": x})["s"]
    assert len(got) == len(want)
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs, strict=True)


DTYPES = [
    *(np.dtype(name) for name in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")),
    *(np.dtype(kind) for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_element_type(dtype: Any) -> None:
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    x = np.array([[0, 1], [1, 0], [1, 1]], dtype)
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"]), node("SequenceInsert", ["s", "x"], ["t"]), node("Identity", ["x"], ["part"])],
        "body",
        [info("i", INT64, []), info("c", BOOL, []), sequence("s", kind, None)],
        [info("d", BOOL, []), sequence("t", kind, None), info("part", kind, [3, 2])],
    )
    model = graphs.model(
        [
            node("SplitToSequence", ["x"], ["rows"], keepdims=0),
            node("Loop", ["m", "", "rows"], ["longer", "parts"], body=body),
            node("SequenceErase", ["longer", "first"], ["s"]),
            node("ConcatFromSequence", ["rows"], ["again"], axis=0, new_axis=1),
        ],
        [info("x", kind, [3, 2]), info("m", INT64, [])],
        [sequence("s", kind, None), info("again", kind, [3, 2]), info("parts", kind, ["m", 3, 2])],
        initializers=[_tensor("first", 0)],
    )
    got = load(model).run({"x": x, "m": np.array(2)})
    want = [x[1], x[2], x, x]
    assert [element.dtype for element in got["s"]] == [got["again"].dtype] * 4
    for ours, theirs in zip([*got["s"], got["again"], got["parts"]], [*want, x, np.stack([x, x])], strict=True):
        assert ours.numpy().dtype == dtype
        assert ours.numpy().tobytes() == theirs.tobytes()


# ------------------------------------------------------------------------------------------ states and feeds


def _history() -> refeed.Model:
    """present = past with x behind it."""
    model = graphs.model(
        [node("SequenceInsert", ["past", "x"], ["present"]), node("SequenceLength", ["present"], ["count"])],
        [sequence("past", FLOAT, None), info("x", FLOAT, ["n"])],
        [sequence("present", FLOAT, None), info("count", INT64, [])],
    )
    return refeed.bind(model, [("past", "present")])[0]


def test_a_caller_refills_its_buffer() -> None:
    state = State(_history(), {"past": []})
    buffer = np.zeros(2, np.float32)
    for step in range(5):
        buffer[:] = step
        out = state.run({"x": buffer})
        assert int(out["count"].numpy()) == step + 1
    buffer[:] = -1
    assert _lists(state.values["past"]) == [[step, step] for step in range(5)]


def test_elements_share_memory_from_step_to_step() -> None:
    state = State(_history(), {"past": []})
    first = state.run({"x": np.ones(3, np.float32)})["present"][0]
    for step in range(3):
        latest = state.run({"x": np.full(step, 7, np.float32)})["present"]
        assert graphs.address(latest[0].numpy()) == graphs.address(first.numpy())


def test_a_failed_step_leaves_the_sequence() -> None:
    model = graphs.model(
        [
            node("SequenceInsert", ["past", "x"], ["longer"]),
            node("SequenceErase", ["longer", "at"], ["present"]),
        ],
        [sequence("past", FLOAT, None), info("x", FLOAT, ["n"]), info("at", INT64, [])],
        [sequence("present", FLOAT, None)],
    )
    bound, _ = refeed.bind(model, [("past", "present")])
    state = State(bound, {"past": [np.ones(1, np.float32)]})
    with pytest.raises(refeed.KernelError, match=r"position: expected one of 2 elements, .*, got 2"):
        state.run({"x": np.zeros(1, np.float32), "at": np.array(2)})
    assert _lists(state.values["past"]) == [[1]]
    state.run({"x": np.zeros(2, np.float32), "at": np.array(0)})
    assert _lists(state.values["past"]) == [[0, 0]]


def test_a_loop_moves_a_sequence_it_does_not_copy() -> None:
    """A long loop that inserts in front would take hours if a sequence were copied each time."""
    body = helper.make_graph(
        [
            node("Identity", ["c"], ["d"]),
            node("SequenceInsert", ["s", "i", "front"], ["t"]),
            node("SequenceLength", ["t"], ["part"]),
        ],
        "body",
        [info("i", INT64, []), info("c", BOOL, []), sequence("s", INT64, None)],
        [info("d", BOOL, []), sequence("t", INT64, None), info("part", INT64, [])],
    )
    body.initializer.append(_tensor("front", 0))
    model = graphs.model(
        [
            node("SequenceEmpty", [], ["none"], dtype=INT64),
            node("Loop", ["m", "", "none"], ["s", "counts"], body=body),
            node("ConcatFromSequence", ["s"], ["flat"], axis=0, new_axis=1),
        ],
        [info("m", INT64, [])],
        [info("flat", INT64, ["n"]), info("counts", INT64, ["n"])],
    )
    got = load(model).run({"m": np.array(20_000)})
    np.testing.assert_array_equal(got["flat"].numpy(), np.arange(20_000)[::-1])
    np.testing.assert_array_equal(got["counts"].numpy(), np.arange(20_000) + 1)


@pytest.mark.parametrize("front", [True, False])
def test_branches_give_sequences(front: bool) -> None:
    branches: dict[str, Any] = {
        "then_branch": [node("SequenceConstruct", ["x", "y"], ["r"])],
        "else_branch": [node("SequenceConstruct", ["y"], ["q"]), node("Identity", ["q"], ["r"])],
    }
    graph = {name: helper.make_graph(nodes, name, [], [sequence("r", FLOAT, None)]) for name, nodes in branches.items()}
    model = graphs.model(
        [node("If", ["k"], ["s"], **graph), node("SequenceAt", ["s", "last"], ["z"])],
        [info("k", BOOL, []), info("x", FLOAT, [2]), info("y", FLOAT, [3])],
        [sequence("s", FLOAT, None), info("z", FLOAT, None)],
        initializers=[_tensor("last", -1)],
    )
    x, y = np.ones(2, np.float32), np.zeros(3, np.float32)
    got = load(model).run({"k": np.array(front), "x": x, "y": y})
    assert _lists(got["s"]) == ([[1, 1], [0, 0, 0]] if front else [[0, 0, 0]])
    assert got["z"].numpy().tolist() == [0, 0, 0]


def test_map_of_sequences_and_a_tensor() -> None:
    body = helper.make_graph(
        [node("Mul", ["a", "b"], ["ab"]), node("Add", ["ab", "k"], ["sum"]), node("Shape", ["sum"], ["shape"])],
        "body",
        [info("a", FLOAT, None), info("b", FLOAT, None), info("k", FLOAT, None)],
        [info("sum", FLOAT, None), info("shape", INT64, None)],
    )
    model = graphs.model(
        [node("SequenceMap", ["s", "t", "k"], ["u", "v"], body=body, name="each")],
        [sequence("s", FLOAT, None), sequence("t", FLOAT, None), info("k", FLOAT, [1])],
        [sequence("u", FLOAT, None), sequence("v", INT64, None)],
    )
    session = load(model)
    s = [np.arange(n, dtype=np.float32) for n in (3, 0, 2)]
    k = np.array([5], np.float32)
    got = session.run({"s": s, "t": [element + 1 for element in s], "k": k})
    assert _lists(got["u"]) == [(element * (element + 1) + 5).tolist() for element in s]
    assert _lists(got["v"]) == [[3], [0], [2]]
    assert _lists(session.run({"s": [], "t": [], "k": k})["u"]) == []
    with pytest.raises(refeed.KernelError, match="length of a sequence: expected 3 as input 0 has, got 2 of input 1"):
        session.run({"s": s, "t": s[:2], "k": k})
    with pytest.raises(refeed.KernelError, match=r"`each` \(SequenceMap\): iteration 1: node 0 of `body`"):
        session.run({"s": s, "t": [s[0], np.zeros(7, np.float32)[:4], s[2]], "k": k})


# ------------------------------------------------------------------------------------------------- optional


@pytest.mark.parametrize("opset", [18, 24])
@pytest.mark.parametrize("held", [True, False])
def test_optional_values_inside_a_graph(opset: int, held: bool) -> None:
    """A branch gives a value or none; what follows asks first."""
    kind = helper.make_tensor_type_proto(FLOAT, [2])
    optional = helper.make_value_info("o", helper.make_optional_type_proto(kind))
    branches: dict[str, Any] = {
        "then_branch": helper.make_graph([node("Optional", ["x"], ["o"])], "then", [], [optional]),
        "else_branch": helper.make_graph([node("Optional", [], ["o"], type=kind)], "else", [], [optional]),
    }
    after: dict[str, Any] = {
        "then_branch": helper.make_graph(
            [node("OptionalGetElement", ["p"], ["g"])], "then", [], [info("g", FLOAT, [2])]
        ),
        "else_branch": helper.make_graph([node("Neg", ["x"], ["g"])], "else", [], [info("g", FLOAT, [2])]),
    }
    model = graphs.model(
        [
            node("If", ["k"], ["o1"], **branches),
            node("Identity", ["o1"], ["p"]),
            node("OptionalHasElement", ["p"], ["has"]),
            node("If", ["has"], ["y"], **after),
        ],
        [info("k", BOOL, []), info("x", FLOAT, [2])],
        [info("has", BOOL, []), info("y", FLOAT, [2])],
        opset=opset,
    )
    got = load(model).run({"k": np.array(held), "x": np.array([1, 2], np.float32)})
    assert bool(got["has"].numpy()) == held
    assert got["y"].numpy().tolist() == ([1, 2] if held else [-1, -2])


def _optional_model(sequences: bool) -> onnx.ModelProto:
    """Whether the input is there, and the input, which is an optional value."""
    kind = helper.make_tensor_type_proto(FLOAT, [2])
    kind = helper.make_optional_type_proto(helper.make_sequence_type_proto(kind) if sequences else kind)
    return graphs.model(
        [node("OptionalHasElement", ["o"], ["has"]), node("Identity", ["o"], ["p"])],
        [helper.make_value_info("o", kind)],
        [info("has", BOOL, []), helper.make_value_info("p", kind)],
    )


@pytest.mark.parametrize("sequences", [False, True])
def test_optional_inputs_may_be_left_out(sequences: bool) -> None:
    """Rule 3.8.1."""
    model = _optional_model(sequences)
    x = np.array([1, 2], np.float32)
    session = load(model)
    for _ in range(2):
        got = session.run({"o": [x] if sequences else x})
        assert bool(got["has"].numpy())
        assert _lists(got["p"] if sequences else [got["p"]]) == [[1, 2]]
        with pytest.raises(refeed.Error, match="graph output `p` is an empty optional value"):
            session.run({})
    with pytest.raises(refeed.Error, match=r"rank mismatch|expected a sequence"):
        session.run({"o": np.array([[1, 2]], np.float32)})
    del model.graph.output[1], model.graph.node[1]
    assert not load(model).run({})["has"].numpy()


def test_the_value_of_an_empty_optional_is_refused() -> None:
    kind = helper.make_tensor_type_proto(FLOAT, [2])
    model = graphs.model(
        [node("Optional", [], ["o"], type=kind), node("OptionalGetElement", ["o"], ["y"])],
        [],
        [info("y", FLOAT, [2])],
    )
    with pytest.raises(refeed.KernelError, match="optional value: expected a value, got an empty one"):
        load(model).run({})


# ------------------------------------------------------------------------------------------------- refusals


def test_sequences_hold_values_of_one_type() -> None:
    model = graphs.model(
        [node("SequenceInsert", ["s", "x"], ["t"])],
        [sequence("s", FLOAT, None), info("x", INT64, None)],
        [sequence("t", FLOAT, None)],
    )
    with pytest.raises(refeed.ModelError, match="an element like the others of the sequence"):
        Session(load(model))
    model = graphs.model(
        [node("SequenceEmpty", [], ["s"]), node("ConcatFromSequence", ["s"], ["y"], axis=0)],
        [],
        [info("y", FLOAT, None)],
    )
    with pytest.raises(refeed.KernelError, match="an empty sequence has nothing to join"):
        load(model).run({})


def test_elements_that_do_not_join_are_refused() -> None:
    model = graphs.model(
        [node("ConcatFromSequence", ["s"], ["y"], axis=0)], [sequence("s", FLOAT, None)], [info("y", FLOAT, None)]
    )
    parts = [np.zeros((2, 3), np.float32), np.zeros((1, 3), np.float32), np.zeros((1, 4), np.float32)]
    session = load(model)
    assert session.run({"s": parts[:2]})["y"].shape == (3, 3)
    with pytest.raises(refeed.KernelError, match=r"element 2 of shape \[1, 4\] does not join \[2, 3\] along axis 0"):
        session.run({"s": parts})


def test_tensors_are_not_taken_for_sequences() -> None:
    for op, inputs in (("SequenceAt", ["x", "p"]), ("SequenceLength", ["x"]), ("SequenceErase", ["x"])):
        model = graphs.model(
            [node(op, inputs, ["y"])], [info("x", FLOAT, [2]), info("p", INT64, [])], [info("y", FLOAT, None)]
        )
        with pytest.raises(refeed.ModelError, match="expected a sequence, got FLOAT"):
            Session(load(model))


def test_a_tensor_without_elements_is_not_cut_into_endless_parts() -> None:
    model = graphs.model(
        [node("ConstantOfShape", ["shape"], ["x"]), node("SplitToSequence", ["x"], ["s"])],
        [info("shape", INT64, [2])],
        [sequence("s", FLOAT, None)],
    )
    with pytest.raises(refeed.KernelError, match="parts of a tensor: expected at most"):
        load(model).run({"shape": np.array([2**40, 0])})
