"""`Loop`, `Scan` and `If`: against other runtimes on random nested graphs, and against plain Python at the edges."""

import os
import signal
import threading
import warnings
from typing import Any

import graphs
import nested_graphs
import numpy as np
import onnx
import onnxruntime as ort
import pytest
import refeed
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from refeed import runtime
from refeed.onnx import FunctionProto, StructTypeProto, TypeProto
from refeed.onnx import helper as own

# Values of every kind go in and out, which types would have to tell apart at each use.
load: Any = refeed.load
State: Any = runtime.PersistentValueState
Session: Any = runtime.RuntimeSession

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
info, node = helper.make_tensor_value_info, helper.make_node


def _tensor(name: str, value: Any, dtype: Any = np.int64) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value, dtype), name)


def _rows(values: Any) -> Any:
    return np.array(values, np.float32)


# --------------------------------------------------------------------------------------- random nested graphs


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(nested_graphs.models(), st.lists(st.integers(0, 96), min_size=3, max_size=3))
def test_nested_graphs_compute_what_other_runtimes_compute(model: onnx.ModelProto, x: list[int]) -> None:
    """Rule 4.5.2; S129."""
    feeds = {"x": np.array(x, np.int64)}
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    (want,) = ort.InferenceSession(model.SerializeToString(), options).run(None, feeds)
    ours = load(model)
    np.testing.assert_array_equal(ours.run(feeds)["y"].numpy(), want)
    # Frames are used again.
    np.testing.assert_array_equal(ours.run(feeds)["y"].numpy(), want)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(nested_graphs.models(), st.lists(st.integers(0, 96), min_size=3, max_size=3))
def test_nested_graphs_compute_what_the_package_computes(model: onnx.ModelProto, x: list[int]) -> None:
    feeds, reason = {"x": np.array(x, np.int64)}, ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            (want,) = ReferenceEvaluator(model).run(None, feeds)
        except ValueError as refused:
            reason = str(refused)
    # The package stacks nothing when a loop has no iterations.
    assume("need at least one array" not in reason)
    assert not reason
    np.testing.assert_array_equal(load(model).run(feeds)["y"].numpy(), want)


# ------------------------------------------------------------------------------------------------------ Loop


def _body(nodes: list[onnx.NodeProto], outputs: list[onnx.ValueInfoProto], *states: onnx.ValueInfoProto) -> Any:
    inputs = [info("i", INT64, []), info("c", BOOL, []), *states]
    return helper.make_graph(nodes, "body", inputs, outputs)


def _counting(until: int | None) -> Any:
    """A body that adds 1 to its state and gives each, and ends with iteration `until`."""
    nodes = [
        node("Constant", [], ["one"], value=_tensor("", [1.0], np.float32)),
        node("Add", ["s", "one"], ["t"]),
        node("Identity", ["t"], ["part"]),
        node("Constant", [], ["limit"], value=_tensor("", until if until is not None else 0)),
        node("Less", ["i", "limit"], ["d"]) if until is not None else node("Identity", ["c"], ["d"]),
    ]
    outputs = [info("d", BOOL, []), info("t", FLOAT, [1]), info("part", FLOAT, [1])]
    return _body(nodes, outputs, info("s", FLOAT, [1]))


def _loop(body: Any, trips: Any, condition: Any, opset: int = 18) -> onnx.ModelProto:
    held = [_tensor("x", [0.0], np.float32)]
    if trips is not None:
        held.append(_tensor("m", trips))
    if condition is not None:
        held.append(_tensor("k", condition, np.bool_))
    inputs = ["" if trips is None else "m", "" if condition is None else "k", "x"]
    return graphs.model(
        [node("Loop", inputs, ["y", "ys"], body=body, name="again")],
        [],
        [info("y", FLOAT, [1]), info("ys", FLOAT, ["n", 1])],
        opset=opset,
        initializers=held,
    )


@pytest.mark.parametrize("opset", [9, 13, 25])
@pytest.mark.parametrize("trips", [None, 0, -3, 1, 5, [17], 4000, 2**62])
@pytest.mark.parametrize("condition", [None, True, False, [True]])
@pytest.mark.parametrize("until", [None, 0, 3, 2500])
def test_trip_count_and_condition(opset: int, trips: Any, condition: Any, until: int | None) -> None:
    if condition is False:
        count = 0
    elif until is None:
        if trips in (None, 2**62):
            pytest.skip("has no end")
        count = max(0, np.ravel(trips)[0])
    else:
        # The condition is looked at after the iteration that computes it.
        count = until + 1 if trips is None else max(0, min(int(np.ravel(trips)[0]), until + 1))
    got = load(_loop(_counting(until), trips, condition, opset)).run({})
    assert got["y"].numpy().tolist() == [count]
    np.testing.assert_array_equal(got["ys"].numpy(), np.arange(1, count + 1, dtype=np.float32).reshape(-1, 1))


def test_parts_of_one_shape_only() -> None:
    nodes = [node("Concat", ["s", "s"], ["t"], axis=0), node("Identity", ["t"], ["part"])]
    outputs = [info("c", BOOL, []), info("t", FLOAT, None), info("part", FLOAT, None)]
    model = _loop(_body(nodes, outputs, info("s", FLOAT, None)), 3, None)
    with pytest.raises(
        refeed.KernelError, match=r"again.*part of a stacked output: expected FLOAT\[2\].*got FLOAT\[4\]"
    ):
        load(model).run({})


def test_states_may_change_their_shape() -> None:
    nodes = [node("Concat", ["s", "s"], ["t"], axis=0), node("Shape", ["t"], ["part"])]
    outputs = [info("c", BOOL, []), info("t", FLOAT, ["n"]), info("part", INT64, [1])]
    body = _body(nodes, outputs, info("s", FLOAT, ["n"]))
    model = _loop(body, 6, None)
    model.graph.output[0].CopyFrom(info("y", FLOAT, ["k"]))
    model.graph.output[1].CopyFrom(info("ys", INT64, ["n", 1]))
    got = load(model).run({})
    assert got["y"].shape == (64,)
    assert got["ys"].numpy().ravel().tolist() == [2, 4, 8, 16, 32, 64]


def test_states_that_swap_places() -> None:
    nodes = [node("Identity", ["c"], ["d"])]
    outputs = [info("d", BOOL, []), info("b", FLOAT, [1]), info("a", FLOAT, [2])]
    body = _body(nodes, outputs, info("a", FLOAT, None), info("b", FLOAT, None))
    model = graphs.model(
        [node("Loop", ["m", "", "x", "z"], ["p", "q"], body=body)],
        [info("m", INT64, [])],
        [info("p", FLOAT, None), info("q", FLOAT, None)],
        initializers=[_tensor("x", [1, 2], np.float32), _tensor("z", [3], np.float32)],
    )
    session = load(model)
    for trips in range(4):
        got = session.run({"m": np.array(trips)})
        values = [got["p"].numpy().tolist(), got["q"].numpy().tolist()]
        assert values == ([[1, 2], [3]] if trips % 2 == 0 else [[3], [1, 2]])


def test_a_loop_without_iterations_gives_parts_of_the_declared_type() -> None:
    nodes = [node("Identity", ["c"], ["d"]), node("Cast", ["s"], ["part"], to=TensorProto.INT32)]
    outputs = [info("d", BOOL, []), info("s", FLOAT, [1]), info("part", TensorProto.INT32, ["a", 5, "b"])]
    model = _loop(_body(nodes, outputs, info("s", FLOAT, None)), 0, None)
    model.graph.output[1].CopyFrom(info("ys", TensorProto.INT32, None))
    got = load(model).run({})["ys"].numpy()
    # The element type and rank of what is cast are known: FLOAT[1].
    assert (got.dtype, got.shape) == (np.int32, (0, 1))


def test_large_parts_are_stacked_once_and_budgets_hold() -> None:
    nodes = [node("Identity", ["c"], ["d"]), node("Expand", ["s", "wide"], ["part"])]
    outputs = [info("d", BOOL, []), info("s", FLOAT, [1]), info("part", FLOAT, [1000])]
    body = _body(nodes, outputs, info("s", FLOAT, [1]))
    body.initializer.append(_tensor("wide", [1000]))
    for trips, condition in ((2**62, None), (2**40, True)):
        model = load(_loop(body, trips, condition))
        with pytest.raises((refeed.KernelError, MemoryError), match="again"):
            Session(model, memory_limit=1 << 20).run({})
    # 40 parts of 4000 bytes, in memory that is taken once.
    session = Session(load(_loop(body, 40, None)), memory_limit=400_000)
    assert session.run({})["ys"].shape == (40, 1000)


def test_a_huge_trip_count_is_no_promise() -> None:
    got = Session(load(_loop(_counting(2), 2**62, True)), memory_limit=1 << 20).run({})
    assert got["ys"].shape == (3, 1)


@pytest.mark.parametrize("trips", [None, 2**62])
def test_ctrl_c_ends_an_endless_loop(trips: Any) -> None:
    body = _body(
        [node("Identity", ["c"], ["d"]), node("Add", ["s", "s"], ["t"])],
        [info("d", BOOL, []), info("t", FLOAT, [1])],
        info("s", FLOAT, [1]),
    )
    model = _loop(body, trips, None)
    del model.graph.output[1]
    model.graph.node[0].output.pop()
    session = load(model)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        session.run({})
    timer.join()


def test_an_error_says_iteration_and_node_and_leaves_the_state() -> None:
    """The state counts; the body fails in the iteration that the feed names."""
    nodes = [
        node("Identity", ["c"], ["d"]),
        node("Gather", ["table", "i"], ["row"], axis=0, name="look"),
        node("Add", ["s", "row"], ["t"]),
    ]
    body = _body(nodes, [info("d", BOOL, []), info("t", FLOAT, [1])], info("s", FLOAT, [1]))
    model = graphs.model(
        [node("Loop", ["m", "", "past"], ["present"], body=body, name="sum")],
        [info("m", INT64, []), info("table", FLOAT, ["n", 1]), info("past", FLOAT, [1])],
        [info("present", FLOAT, [1])],
    )
    bound, _ = refeed.bind(model, [("past", "present")])
    state = State(bound, {"past": _rows([100])})
    table = _rows([[1], [2], [4]])
    for step in range(1, 4):
        feeds = {"m": np.array(3), "table": table}
        assert state.run(feeds)["present"].numpy().tolist() == [100 + 7 * step]
        with pytest.raises(refeed.KernelError, match=r"`sum` \(Loop\): iteration 3: node 1 of `body` of node 0 `look`"):
            state.run({"m": np.array(4), "table": table})
        assert state.values["past"].numpy().tolist() == [100 + 7 * step]


def test_states_of_a_bound_loop_are_kept_apart_from_feeds() -> None:
    """No iterations hand the fed value through: what is kept must not be the caller's buffer."""
    body = _body([node("Identity", ["c"], ["d"])], [info("d", BOOL, []), info("s", FLOAT, [2])], info("s", FLOAT, [2]))
    model = graphs.model(
        [node("Loop", ["m", "", "x"], ["present"], body=body), node("Add", ["past", "x"], ["y"])],
        [info("m", INT64, []), info("x", FLOAT, [2]), info("past", FLOAT, [2])],
        [info("present", FLOAT, [2]), info("y", FLOAT, [2])],
    )
    bound, _ = refeed.bind(model, [("past", "present")])
    state = State(bound, {"past": _rows([0, 0])})
    for trips in (0, 2):
        buffer = _rows([1, 2])
        out = state.run({"m": np.array(trips), "x": buffer})
        buffer[:] = 9
        assert state.values["past"].numpy().tolist() == [1, 2]
        assert out["present"].numpy().tolist() == [1, 2]


def test_iterations_use_the_same_memory_again() -> None:
    """300 states of 100,000 bytes, in the memory of a few."""
    body = _body(
        [node("Identity", ["c"], ["d"]), node("Neg", ["s"], ["r"]), node("Sub", ["k", "r"], ["t"])],
        [info("d", BOOL, []), info("t", FLOAT, [25_000])],
        info("s", FLOAT, [25_000]),
    )
    body.initializer.append(_tensor("k", 1, np.float32))
    model = graphs.model(
        [node("Loop", ["m", "", "x"], ["y"], body=body)],
        [info("m", INT64, []), info("x", FLOAT, [25_000])],
        [info("y", FLOAT, [25_000])],
    )
    session = Session(load(model), memory_limit=700_000)
    got = session.run({"m": np.array(300), "x": np.zeros(25_000, np.float32)})["y"]
    assert set(got.numpy().tolist()) == {300.0}


def test_loops_in_loops_of_unknown_types_are_compiled_in_time() -> None:
    """Each level asks for its body again until its types settle: without a bound that is 4 to the 20th."""
    inner: list[onnx.NodeProto] = [node("Concat", ["s0", "s0"], ["t0"], axis=0)]
    depth = 20
    for level in range(depth):
        body = helper.make_graph(
            [*inner, node("Identity", [f"c{level}"], [f"d{level}"])],
            "body",
            [info(f"i{level}", INT64, []), info(f"c{level}", BOOL, []), info(f"s{level}", FLOAT, None)],
            [info(f"d{level}", BOOL, []), info(f"t{level}", FLOAT, None)],
        )
        inner = [node("Loop", ["m", "", f"s{level + 1}"], [f"t{level + 1}"], body=body)]
    model = graphs.model(
        [*inner],
        [info("m", INT64, []), info(f"s{depth}", FLOAT, ["n"])],
        [info(f"t{depth}", FLOAT, None)],
    )
    got = load(model).run({"m": np.array(1), f"s{depth}": _rows([1, 2, 3])})
    assert got[f"t{depth}"].numpy().tolist() == [1, 2, 3, 1, 2, 3]


# ------------------------------------------------------------------------------------------------------ Scan


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("out_axis", [0, 1, 2, -1, -2])
@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("out_direction", [0, 1])
def test_scan_axes_and_directions(axis: int, out_axis: int, direction: int, out_direction: int) -> None:
    x = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
    count = x.shape[axis]
    body = helper.make_graph(
        [node("Add", ["s", "one"], ["t"]), node("Mul", ["row", "t"], ["part"]), node("Identity", ["row"], ["same"])],
        "body",
        [info("s", FLOAT, []), info("row", FLOAT, ["a", "b"])],
        [info("t", FLOAT, []), info("part", FLOAT, ["a", "b"]), info("same", FLOAT, ["a", "b"])],
    )
    body.initializer.append(_tensor("one", 1, np.float32))
    model = graphs.model(
        [
            node(
                "Scan",
                ["s0", "x"],
                ["s1", "y", "z"],
                body=body,
                num_scan_inputs=1,
                scan_input_axes=[axis],
                scan_input_directions=[direction],
                scan_output_axes=[out_axis, axis],
                scan_output_directions=[out_direction, direction],
            )
        ],
        [info("s0", FLOAT, []), info("x", FLOAT, [2, 3, 4])],
        [info("s1", FLOAT, []), info("y", FLOAT, None), info("z", FLOAT, [2, 3, 4])],
    )
    rows = np.moveaxis(x, axis, 0)[:: -1 if direction else 1]
    parts = [row * (step + 11) for step, row in enumerate(rows)]
    want = np.stack(parts[:: -1 if out_direction else 1], axis=out_axis)
    got = load(model).run({"s0": np.array(10, np.float32), "x": x})
    assert float(got["s1"].numpy()) == 10 + count
    np.testing.assert_array_equal(got["y"].numpy(), want)
    np.testing.assert_array_equal(got["z"].numpy(), x)


def test_scan_of_no_positions_and_of_different_lengths() -> None:
    body = helper.make_graph(
        [node("Add", ["a", "b"], ["part"])],
        "body",
        [info("a", FLOAT, [2]), info("b", FLOAT, [2])],
        [info("part", FLOAT, [2])],
    )
    model = graphs.model(
        [node("Scan", ["x", "z"], ["y"], body=body, num_scan_inputs=2, scan_output_axes=[1])],
        [info("x", FLOAT, ["n", 2]), info("z", FLOAT, ["k", 2])],
        [info("y", FLOAT, [2, "n"])],
    )
    session = load(model)
    assert session.run({"x": np.zeros((0, 2), np.float32), "z": np.zeros((0, 2), np.float32)})["y"].shape == (2, 0)
    with pytest.raises(refeed.KernelError, match=r"scanned input 1 .* has 3 positions along axis 0, others have 2"):
        session.run({"x": np.zeros((2, 2), np.float32), "z": np.zeros((3, 2), np.float32)})


@pytest.mark.parametrize("lengths", [None, [3, 1], [0, 2], [0, 0]])
def test_scan_of_opset_8_has_batches_of_different_lengths(lengths: list[int] | None) -> None:
    body = helper.make_graph(
        [node("Add", ["s", "row"], ["t"]), node("Identity", ["t"], ["part"])],
        "body",
        [info("s", FLOAT, [2]), info("row", FLOAT, [2])],
        [info("t", FLOAT, [2]), info("part", FLOAT, [2])],
    )
    given = ["lens"] if lengths is not None else []
    model = graphs.model(
        [node("Scan", [*(given or [""]), "s0", "x"], ["s1", "y"], body=body, num_scan_inputs=1, directions=[1])],
        [*(info(name, INT64, [2]) for name in given), info("s0", FLOAT, [2, 2]), info("x", FLOAT, [2, 3, 2])],
        [info("s1", FLOAT, [2, 2]), info("y", FLOAT, [2, 3, 2])],
        opset=8,
    )
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2) + 1
    start = _rows([[10, 20], [30, 40]])
    states, parts = start.copy(), np.zeros((2, 3, 2), np.float32)
    for entry, length in enumerate(lengths or [3, 3]):
        for step, row in enumerate(x[entry, :length][::-1]):
            states[entry] += row
            parts[entry, step] = states[entry]
    feeds = {"s0": start, "x": x} | ({"lens": np.array(lengths)} if lengths is not None else {})
    got = load(model).run(feeds)
    np.testing.assert_array_equal(got["s1"].numpy(), states)
    np.testing.assert_array_equal(got["y"].numpy(), parts)
    if lengths is not None:
        for wrong in ([4, 1], [-1, 1]):
            with pytest.raises(refeed.KernelError, match="sequence_lens: expected 2 numbers from 0 to 3"):
                load(model).run(feeds | {"lens": np.array(wrong)})


# -------------------------------------------------------------------------------------------- whole values


def _whole_model() -> Any:
    """A function around an `If` that chooses one of two structures, then a `Loop` whose two states swap places."""
    structure = StructTypeProto.Structure
    fields = [
        structure.Field(name="gain", type=own.make_tensor_type_proto(FLOAT, None)),
        structure.Field(name="log", type=own.make_sequence_type_proto(own.make_tensor_type_proto(FLOAT, None))),
    ]
    kind = TypeProto(struct_type=StructTypeProto(structure=structure(field=fields)))

    def value(name: str) -> Any:
        return own.make_value_info(name, kind)

    branches: dict[str, Any] = {
        name: own.make_graph([own.make_node("Identity", [held], ["r"])], name, [], [value("r")])
        for name, held in (("then_branch", "f"), ("else_branch", "g"))
    }
    function = FunctionProto(
        domain="local",
        name="Choose",
        input=["q", "f", "g"],
        output=["h"],
        node=[own.make_node("If", ["q"], ["h"], **branches)],
        opset_import=[own.make_opsetid("", 21)],
    )
    flags = [own.make_tensor_value_info("i", INT64, []), own.make_tensor_value_info("c", BOOL, [])]
    body = own.make_graph(
        [own.make_node("Identity", ["c"], ["d"])],
        "body",
        [*flags, value("u"), value("v")],
        [own.make_tensor_value_info("d", BOOL, []), value("v"), value("u")],
    )
    graph = own.make_graph(
        [
            own.make_node("Choose", ["k", "a", "b"], ["e"], domain="local"),
            own.make_node("Loop", ["m", "", "e", "b"], ["x", "y"], body=body),
        ],
        "whole",
        [
            own.make_tensor_value_info("k", BOOL, []),
            own.make_tensor_value_info("m", INT64, []),
            value("a"),
            value("b"),
        ],
        [value("x"), value("y")],
    )
    imports = [own.make_opsetid("", 21), own.make_opsetid("local", 1)]
    return own.make_model(graph, opset_imports=imports, functions=[function], ir_version=10)


def test_structures_move_through_branches_loops_and_functions() -> None:
    """Rules 4.5.1, 4.5.2; S129."""
    session = load(_whole_model())

    def numbers(value: Any) -> Any:
        return [value["gain"].numpy().tolist(), [element.numpy().tolist() for element in value["log"]]]

    a = {"gain": _rows([1, 2]), "log": [_rows([3])]}
    b = {"gain": _rows([4]), "log": [_rows([5, 6]), _rows([])]}
    for choice, trips in ((True, 0), (True, 3), (False, 1), (False, 4)):
        got = session.run({"k": np.array(choice), "m": np.array(trips), "a": a, "b": b})
        chosen, other = [[1, 2], [[3]]], [[4], [[5, 6], []]]
        chosen = chosen if choice else other
        want = [chosen, other] if trips % 2 == 0 else [other, chosen]
        assert [numbers(got["x"]), numbers(got["y"])] == want
    # What the runtime owns goes through without a copy.
    again = session.run({"k": np.array(True), "m": np.array(1), "a": got["x"], "b": got["y"]})
    for ours, fed in ((again["x"], got["y"]), (again["y"], got["x"])):
        assert graphs.address(ours["gain"].numpy()) == graphs.address(fed["gain"].numpy())
        assert graphs.address(ours["log"][0].numpy()) == graphs.address(fed["log"][0].numpy())


# ------------------------------------------------------------------------------------------------- refusals


def test_nodes_that_do_not_fit_their_bodies_are_refused() -> None:
    body = _counting(None)
    del body.output[2]
    with pytest.raises(refeed.ModelError, match="again"):
        load(_loop(body, 1, None))
    body = _body(
        [node("Identity", ["c"], ["d"]), node("Cast", ["s"], ["t"], to=INT64), node("Identity", ["t"], ["part"])],
        [info("d", BOOL, []), info("t", INT64, [1]), info("part", INT64, [1])],
        info("s", FLOAT, [1]),
    )
    with pytest.raises(refeed.ModelError, match=r"state 0 of the loop is FLOAT.* before an iteration and INT64"):
        Session(load(_loop(body, 1, None)))


def test_a_condition_has_one_element() -> None:
    body = _body(
        [
            node("Concat", ["k2", "k2"], ["d"], axis=0),
            node("Identity", ["s"], ["t"]),
            node("Identity", ["s"], ["part"]),
        ],
        [info("d", BOOL, None), info("t", FLOAT, [1]), info("part", FLOAT, [1])],
        info("s", FLOAT, [1]),
    )
    body.initializer.append(_tensor("k2", [True], np.bool_))
    with pytest.raises(refeed.KernelError, match=r"condition must have one element, got shape \[2\]"):
        load(_loop(body, 2, None)).run({})
