"""Kernels written in Python: rules 2.2, 2.10, 5.2 and 5.3."""

# Kernels take what they are given, used or not.
# ruff: noqa: ARG001, ARG002, ARG005

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import refeed
from refeed import onnx, runtime
from refeed.onnx import helper, parser
from refeed.onnx.reference import ReferenceEvaluator

ONE = np.array([1.0, 2.0], np.float32)
HEAD = '<ir_version: 10, opset_import: ["" : 18, "my" : 1]> '
PLUS = HEAD + "g (float[2] x) => (float[2] y) { y = my.Plus <by = 3> (x) }"
BRANCH = HEAD + (
    "g (float[2] x) => (float[2] y) <bool c = {1}> { y = If (c) <then_branch = t () => (float[2] a) { a = my.Plus(x) },"
    " else_branch = e () => (float[2] b) { b = Identity(x) }> }"
)
STATE = HEAD + "g (float[2] x, float[2] past) => (float[2] y) { y = my.Plus(past, x) }"


@pytest.fixture(autouse=True)
def nothing_registered() -> Iterator[None]:
    yield
    runtime.clear_custom_kernels()


def session(text: str) -> runtime.RuntimeSession:
    return runtime.RuntimeSession(parser.parse_model(text))


def bound(text: str, initial: np.ndarray, *, source: str = "y", **options: Any) -> runtime.PersistentValueState:
    model = parser.parse_model(text)
    binding = model.graph.persistent_bindings.add()
    binding.input_name, binding.output_name = "past", source
    return runtime.PersistentValueState(model, {"past": initial}, **options)


def adds(by: float) -> Callable[[onnx.NodeProto, runtime.KernelInvocation], Any]:
    return lambda node, context: context.get("x").numpy() + np.float32(by)


def run(session: runtime.RuntimeSession, context: runtime.RuntimeContext | None = None) -> np.ndarray:
    return np.asarray(session.run({"x": ONE}, context)["y"].numpy())


def test_a_kernel_gets_its_node_and_puts_by_name() -> None:
    seen: list[Any] = []

    def plus(node: onnx.NodeProto, context: runtime.KernelInvocation) -> None:
        seen.append((node.op_type, node.domain, list(node.input), helper.get_attribute_value(node.attribute[0])))
        seen.append((context.input_names, context.output_names, context.has("x"), context.has("y")))
        context.put("y", context.get(node.input[0]).numpy() + np.float32(helper.get_attribute_value(node.attribute[0])))
        seen.append(context.has("y"))

    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Plus", plus)
    np.testing.assert_array_equal(run(session(PLUS), context), ONE + 3)
    assert seen == [("Plus", "my", ["x"], 3), (["x"], ["y"], True, False), True]


def test_the_everyday_form_returns_its_outputs() -> None:
    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Split", lambda node, call: (call.inputs[0].numpy()[:1], np.float32(4)))
    text = HEAD + "g (float[2] x) => (float[1] y, float z) { y, z = my.Split(x) }"
    outputs = session(text).run({"x": ONE}, context)
    np.testing.assert_array_equal(outputs["y"].numpy(), ONE[:1])
    np.testing.assert_array_equal(outputs["z"].numpy(), np.float32(4))


def test_absent_inputs_and_outputs_keep_their_places() -> None:
    seen: list[Any] = []

    def optional(node: onnx.NodeProto, call: runtime.KernelInvocation) -> Any:
        seen.append((call.input_names, call.output_names, [value is None for value in call.inputs]))
        return (None, call.get("x").numpy() * 2)

    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Optional", optional)
    node = helper.make_node("Optional", ["", "x"], ["", "y"], domain="my")
    value = [helper.make_tensor_value_info(name, 1, [2]) for name in ("x", "y")]
    graph = helper.make_graph([node], "g", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("my", 1)])
    np.testing.assert_array_equal(run(runtime.RuntimeSession(model), context), ONE * 2)
    assert seen == [(["", "x"], ["", "y"], [True, False])]


def test_a_context_comes_before_the_process_which_comes_before_refeeds_own() -> None:
    """Rule 4.2.4; S073, S087."""
    runtime.register_custom_kernel("my", "Plus", adds(10))
    own, bare = runtime.RuntimeContext(), runtime.RuntimeContext()
    own.register_custom_kernel("my", "Plus", adds(100))
    plus = session(PLUS)
    np.testing.assert_array_equal(run(plus, own), ONE + 100)
    np.testing.assert_array_equal(run(plus, bare), ONE + 10)
    assert own.unregister_custom_kernel("my", "Plus")
    assert not own.unregister_custom_kernel("my", "Plus")
    np.testing.assert_array_equal(run(plus, own), ONE + 10)
    negative = session(HEAD + "g (float[2] x) => (float[2] y) { y = Neg(x) }")
    own.register_custom_kernel("ai.onnx", "Neg", adds(5))
    np.testing.assert_array_equal(run(negative, own), ONE + 5)
    own.clear_custom_kernels()
    np.testing.assert_array_equal(run(negative, own), -ONE)
    assert runtime.unregister_custom_kernel("my", "Plus")
    assert not runtime.unregister_custom_kernel("my", "Plus")
    # A session that has it keeps it; one that is made now lacks it.
    np.testing.assert_array_equal(run(plus, bare), ONE + 10)
    with pytest.raises(refeed.ModelError, match="no kernel is registered"):
        run(session(PLUS), bare)


def test_a_missing_kernel_is_told_before_anything_is_computed() -> None:
    calls: list[str] = []

    def plus(node: onnx.NodeProto, call: runtime.KernelInvocation) -> Any:
        calls.append("plus")
        return call.get("x")

    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Plus", plus)
    text = HEAD + "g (float[2] x) => (float[2] y) { s = my.Plus(x) y = my.Lacking(s) }"
    with pytest.raises(refeed.ModelError, match=r"node 1 \(my:Lacking\): no kernel is registered.*register one"):
        run(session(text), context)
    assert calls == []
    with pytest.raises(refeed.ModelError, match="refeed has no kernel"):
        session(HEAD + "g (float[2] x) => (float[2] y) { y = Sideways(x) }")


def test_a_context_at_construction_is_the_one_of_calls_that_name_none() -> None:
    context = runtime.RuntimeContext()
    context.register_custom_kernel("", "Sideways", adds(1))
    model = parser.parse_model(HEAD + "g (float[2] x) => (float[2] y) { y = Sideways(x) }")
    np.testing.assert_array_equal(run(runtime.RuntimeSession(model, context=context)), ONE + 1)
    other = parser.parse_model(STATE)
    binding = other.graph.persistent_bindings.add()
    binding.input_name, binding.output_name = "past", "y"
    context.register_custom_kernel("my", "Plus", lambda node, call: call.get("past").numpy() + call.get("x").numpy())
    state = runtime.PersistentValueState(other, {"past": np.zeros(2, np.float32)}, context=context)
    state.run({"x": ONE})
    np.testing.assert_array_equal(state.run({"x": ONE})["y"].numpy(), ONE * 2)


@pytest.mark.parametrize("name", ["If", "Loop", "Scan", "SequenceMap"])
def test_control_flow_cannot_be_overridden(name: str) -> None:
    with pytest.raises(refeed.ValueTypeError, match="control flow"):
        runtime.RuntimeContext().register_custom_kernel("", name, adds(0))


def test_what_is_no_kernel_is_refused() -> None:
    context = runtime.RuntimeContext()
    with pytest.raises(TypeError, match="expected a function"):
        context.register_custom_kernel("my", "Plus", 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        runtime.register_custom_kernel("my", "Plus", None)  # type: ignore[arg-type]
    with pytest.raises(refeed.ValueTypeError, match="name of an operator"):
        context.register_custom_kernel("my", "", adds(0))


class Unlike(Exception):
    """An exception of the caller's own."""


@pytest.mark.parametrize("raised", [Unlike("why"), RuntimeError("why"), KeyboardInterrupt("why")])
@pytest.mark.parametrize("text", [PLUS, BRANCH], ids=["root", "branch"])
def test_exceptions_come_out_as_themselves(raised: BaseException, text: str) -> None:
    def fails(node: onnx.NodeProto, call: runtime.KernelInvocation) -> None:
        raise raised

    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Plus", fails)
    with pytest.raises(type(raised)) as caught:
        run(session(text), context)
    assert caught.value is raised
    (note,) = caught.value.__notes__
    assert "raised by the kernel of node 0" in note
    assert "my:Plus" in note
    del raised.__notes__


@pytest.mark.parametrize(
    ("result", "error", "text"),
    [
        (lambda call: None, refeed.KernelError, "output 0: expected a value, got none"),
        (lambda call: (ONE, ONE), refeed.ValueTypeError, "1 outputs returned 2 values"),
        (lambda call: (), refeed.ValueTypeError, "1 outputs returned 0 values"),
        (lambda call: ONE.astype(np.int64), refeed.KernelError, r"expected FLOAT\[2\], got INT64\[2\]"),
        (lambda call: np.zeros((2, 1), np.float32), refeed.KernelError, r"expected FLOAT\[2\]"),
        (lambda call: [ONE], refeed.KernelError, "got a sequence"),
        (lambda call: "text", TypeError, "output `y`"),
        (lambda call: ONE[::-1], TypeError, "C-contiguous"),
        (lambda call: call.put("z", ONE), refeed.ValueTypeError, "the node has no output `z`"),
        (lambda call: call.put("x", ONE), refeed.ValueTypeError, "the node has no output `x`"),
        (lambda call: call.put("", ONE), refeed.ValueTypeError, "the node has no output ``"),
        (lambda call: call.put("y", ONE, "outputs"), refeed.ValueTypeError, "expected unknown, initializer"),
        (lambda call: call.get("past"), refeed.MissingValueError, "the node has no input `past`"),
        (lambda call: call.get_value("y"), refeed.MissingValueError, "the node has no input `y`"),
    ],
)
def test_what_a_kernel_does_wrong_is_told(result: Callable[[Any], Any], error: type[Exception], text: str) -> None:
    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Plus", lambda node, call: result(call))
    with pytest.raises(error, match=text):
        run(session(PLUS), context)
    context.register_custom_kernel("my", "Plus", adds(1))
    np.testing.assert_array_equal(run(session(PLUS), context), ONE + 1)


def test_a_failed_kernel_leaves_the_state_as_it_was() -> None:
    fail = [False]

    def plus(node: onnx.NodeProto, call: runtime.KernelInvocation) -> Any:
        if fail[0]:
            raise Unlike
        return call.get("past").numpy() + call.get("x").numpy()

    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Plus", plus)
    state = bound(STATE, np.zeros(2, np.float32))
    state.run(context, {"x": ONE})
    fail[0] = True
    with pytest.raises(Unlike):
        state.run(context, {"x": ONE})
    np.testing.assert_array_equal(state.values["past"].numpy(), ONE)
    fail[0] = False
    np.testing.assert_array_equal(state.run(context, {"x": ONE})["y"].numpy(), ONE * 2)


def test_the_state_that_runs_a_kernel_is_busy_to_it_and_others_are_not() -> None:
    """Rule 4.1.1; S097."""
    refused: list[bool] = []
    other = bound(HEAD + "g (float[2] x, float[2] past) => (float[2] y) { y = Add(past, x) }", ONE)

    def plus(node: onnx.NodeProto, call: runtime.KernelInvocation) -> Any:
        attempts: list[Callable[[], Any]] = [
            lambda: state.run(context, {"x": ONE}),
            lambda: state.reset({"past": ONE}),
            state.close,
            lambda: state.values,
            state.explain,
        ]
        for attempt in attempts:
            try:
                attempt()
            except refeed.StateBusyError:
                refused.append(True)
        return other.run(context, {"x": call.get("x")})["y"]

    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Plus", plus)
    state = bound(STATE, np.zeros(2, np.float32))
    np.testing.assert_array_equal(state.run(context, {"x": ONE})["y"].numpy(), ONE * 2)
    assert refused == [True] * 5
    np.testing.assert_array_equal(state.run(context, {"x": ONE})["y"].numpy(), ONE * 3)


def test_kernels_pass_structures_to_each_other() -> None:
    """Rule 7.4.3; S112, S113."""
    context = runtime.RuntimeContext()

    def pack(node: onnx.NodeProto, call: runtime.KernelInvocation) -> None:
        call.put_value("s", {"inside": [call.get("x"), ONE], "count": np.int64(2)})

    def unpack(node: onnx.NodeProto, call: runtime.KernelInvocation) -> Any:
        value = call.get_value("s")
        assert int(value["count"].numpy()) == len(value["inside"]) == 2
        with pytest.raises(refeed.ValueTypeError, match="expected a tensor, got a structured value"):
            call.get("s")
        return value["inside"][0]

    context.register_custom_kernel("my", "Pack", pack)
    context.register_custom_kernel("my", "Unpack", unpack)
    text = HEAD + "g (float[2] x) => (float[2] y) { s = my.Pack(x) y = my.Unpack(s) }"
    np.testing.assert_array_equal(run(session(text), context), ONE)


def test_a_struct_is_fed_back_beside_tokens() -> None:
    """Rules 3.7.6, 7.4.3; S108, S109, S110: one binding keeps every field, and the type does not say so."""
    text = HEAD + "g (float[2] tokens) => (float[2] scores) { scores = Neg(tokens) }"
    model = parser.parse_model(text)
    del model.graph.node[:]
    cache = onnx.TypeProto()
    for name, dims in (("sum", [2]), ("count", [])):
        field = cache.struct_type.structure.field.add(name=name)
        field.type.CopyFrom(helper.make_tensor_type_proto(1, dims))
    model.graph.input.append(helper.make_value_info("cache", cache))
    model.graph.output.append(helper.make_value_info("next_cache", cache))
    model.graph.node.append(helper.make_node("Step", ["cache", "tokens"], ["scores", "next_cache"], domain="my"))
    plain = model.graph.input[1].SerializeToString()
    model.graph.persistent_bindings.add(input_name="cache", output_name="next_cache")
    assert model.graph.input[1].SerializeToString() == plain

    def step(node: onnx.NodeProto, call: runtime.KernelInvocation) -> None:
        held, tokens = call.get_value("cache"), call.get("tokens").numpy()
        total, count = held["sum"].numpy() + tokens, held["count"].numpy() + np.float32(1)
        call.put("scores", total / count)
        call.put_value("next_cache", {"sum": total, "count": count})

    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Step", step)
    initial = {"sum": np.zeros(2, np.float32), "count": np.array(0, np.float32)}
    state = runtime.PersistentValueState(model, {"cache": initial})
    rows = np.array([[1, 4], [3, 0], [8, 2]], np.float32)
    by_hand: Any = initial
    session = runtime.RuntimeSession(model)
    for number, row in enumerate(rows, 1):
        out: Any = state.run(context, {"tokens": row})
        np.testing.assert_array_equal(out["scores"].numpy(), rows[:number].sum(axis=0) / number)
        # As when the caller hands the output back itself.
        other: Any = session.run({"tokens": row, "cache": by_hand}, context)
        by_hand = other["next_cache"]
        for name in ("sum", "count"):
            assert by_hand[name].numpy().tobytes() == out["next_cache"][name].numpy().tobytes()
    with pytest.raises(refeed.ValueTypeError, match="missing field `count`"):
        state.reset({"cache": {"sum": initial["sum"]}})


def test_an_invocation_is_of_no_use_after_its_call() -> None:
    kept: list[runtime.KernelInvocation] = []

    def keeps(node: onnx.NodeProto, call: runtime.KernelInvocation) -> Any:
        kept.append(call)
        return call.get("x")

    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Plus", keeps)
    run(session(PLUS), context)
    call = kept[0]
    for attempt in (lambda: call.get("x"), lambda: call.put("y", ONE), lambda: call.inputs, lambda: call.has("x")):
        with pytest.raises(refeed.ValueTypeError, match="call of this kernel is over"):
            attempt()


def test_threads_run_kernels_of_one_session() -> None:
    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Plus", adds(7))
    shared = session(PLUS)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                np.testing.assert_array_equal(run(shared, context), ONE + 7)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_kernel_goes_with_its_context_and_sessions() -> None:
    class Kernel:
        def __call__(self, node: onnx.NodeProto, call: runtime.KernelInvocation) -> Any:
            return call.get("x")

    kernel = Kernel()
    gone = weakref.ref(kernel)
    context, held = runtime.RuntimeContext(), session(PLUS)
    context.register_custom_kernel("my", "Plus", kernel)
    run(held, context)
    del kernel, context
    assert gone() is not None
    del held
    gc.collect()
    assert gone() is None


APPEND = HEAD + "g (float[n, 2, 3] past, float[k, 2, 3] rows) => (float[m, 2, 3] next) { next = my.Append(past, rows) }"
HEADS = HEAD + "g (float[2, n, 3] past, float[2, k, 3] rows) => (float[2, m, 3] next) { next = my.Append(past, rows) }"


def rows(shape: tuple[int, ...], start: int = 0) -> np.ndarray:
    return np.arange(start, start + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def appending(axis: int, log: list[Any]) -> Callable[[onnx.NodeProto, runtime.KernelInvocation], None]:
    def append(node: onnx.NodeProto, call: runtime.KernelInvocation) -> None:
        past, new = call.get("past"), call.get("rows").numpy()
        shape = list(past.shape)
        shape[axis] += new.shape[axis]
        # A wrong pair declines and costs nothing.
        log.append(call.reserve_persistent_append(past, shape, axis, 1, 0))
        log.append(call.reserve_persistent_append("rows", shape, axis, 0, 0))
        log.append(call.reserve_persistent_append(call.get("rows"), shape, axis, 0, 0))
        reservation = call.reserve_persistent_append(past, shape, axis, 0, 0)
        if reservation is None:
            call.put("next", np.concatenate([past.numpy(), new], axis))
            return
        with pytest.raises(refeed.ValueTypeError, match="already been consumed"):
            call.reserve_persistent_append("past", shape, axis, 0, 0)
        array = reservation.numpy()
        assert array.shape == reservation.shape == new.shape
        assert not array.any()
        assert memoryview(array).nbytes == reservation.nbytes == new.nbytes  # type: ignore[arg-type]
        array[...] = new
        del array
        whole = call.commit_persistent_append(0, reservation, new.nbytes)
        assert whole.shape == tuple(shape)
        call.record_event(runtime.RuntimeEventAction.kPersistentStorage, storage_append_copied_bytes=new.nbytes)

    return append


@pytest.mark.parametrize(("text", "axis"), [(APPEND, 0), (HEADS, 1)])
def test_rows_are_written_where_they_stay(text: str, axis: int) -> None:
    """Rules 5.1.3, 5.2.4, 5.3.1, 5.5.9; S139, S140, S143, S173."""
    log: list[Any] = []
    context = runtime.RuntimeContext(events_enabled=True)
    context.register_custom_kernel("my", "Append", appending(axis, log))
    shape = [2, 2, 3]
    shape[axis] = 0
    state = bound(text, np.zeros(shape, np.float32), source="next", persistent_tensor_initial_capacity=4)
    expected = np.zeros(shape, np.float32)
    shape[axis] = 1
    addresses, held = [], []
    for step in range(5):
        new = rows(tuple(shape), 10 * step)
        expected = np.concatenate([expected, new], axis)
        outputs = state.run(context, {"rows": new})
        held.append((outputs["next"].numpy(), expected))
        addresses.append(held[-1][0].ctypes.data)
    for array, wanted in held:
        np.testing.assert_array_equal(array, wanted)
    assert len(set(addresses[:4])) == 1
    assert addresses[4] != addresses[3]
    assert log == [None] * 15
    events = [event for event in context.events() if event.action == runtime.RuntimeEventAction.kPersistentStorage]
    assert {(event.op_domain, event.op_type, event.node_index) for event in events} == {("my", "Append", 0)}
    assert sum(event.storage_allocations for event in events) == 2
    assert sum(event.storage_reuse_count for event in events) == 3
    assert sum(event.storage_append_copied_bytes for event in events) == 5 * 24
    assert sum(event.storage_prefix_copied_bytes for event in events) == 4 * 24


def test_capacity_0_declines() -> None:
    """Rule 5.2.2; S151."""
    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Append", appending(0, []))
    state = bound(APPEND, rows((1, 2, 3)), source="next", persistent_tensor_initial_capacity=0)
    outputs = state.run(context, {"rows": rows((2, 2, 3), 6)})
    np.testing.assert_array_equal(outputs["next"].numpy(), rows((3, 2, 3)))


def test_an_array_of_the_rows_must_be_gone_before_the_commit() -> None:
    """Rule 5.2.7; S144."""
    leaked: list[np.ndarray] = []
    seen: list[str] = []

    def append(node: onnx.NodeProto, call: runtime.KernelInvocation) -> Any:
        past, new = call.get("past"), call.get("rows").numpy()
        shape = [past.shape[0] + new.shape[0], 2, 3]
        reservation = call.reserve_persistent_append("past", shape, 0, 0, 0)
        assert reservation is not None
        seen.append(reservation.outcome)
        array = reservation.numpy()
        array[...] = new
        if len(seen) == 2:
            leaked.append(array[:, :1])
        del array
        if leaked and len(seen) == 2:
            with pytest.raises(BufferError, match="arrays of the reserved rows are alive"):
                call.commit_persistent_append(0, reservation, new.nbytes)
            with pytest.raises(refeed.ValueTypeError, match="committed or given back"):
                reservation.numpy()
            return np.concatenate([past.numpy(), new])
        return call.commit_persistent_append(0, reservation, new.nbytes)

    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Append", append)
    state = bound(APPEND, np.zeros((0, 2, 3), np.float32), source="next", persistent_tensor_initial_capacity=8)
    first = state.run(context, {"rows": rows((1, 2, 3))})["next"].numpy()
    second = state.run(context, {"rows": rows((1, 2, 3), 6)})["next"].numpy()
    np.testing.assert_array_equal(second, rows((2, 2, 3)))
    # Whoever still writes through the array writes to nobody's rows.
    leaked[0][...] = -1
    np.testing.assert_array_equal(first, rows((1, 2, 3)))
    np.testing.assert_array_equal(second, rows((2, 2, 3)))
    leaked.clear()
    third = state.run(context, {"rows": rows((1, 2, 3), 12)})["next"].numpy()
    np.testing.assert_array_equal(third, rows((3, 2, 3)))


@pytest.mark.parametrize("how", ["drop", "release", "raise"])
def test_rows_that_are_not_committed_are_given_back(how: str) -> None:
    """Rule 5.2.8; S145, S167."""
    outcomes: list[str] = []
    kept: list[runtime.AppendReservation] = []

    def append(node: onnx.NodeProto, call: runtime.KernelInvocation) -> Any:
        past, new = call.get("past"), call.get("rows").numpy()
        shape = [past.shape[0] + new.shape[0], 2, 3]
        reservation = call.reserve_persistent_append("past", shape, 0, 0, 0)
        assert reservation is not None
        outcomes.append(reservation.outcome)
        if len(outcomes) == 2:
            reservation.numpy()[...] = 99
            if how == "release":
                reservation.release()
                kept.append(reservation)
            if how == "raise":
                kept.append(reservation)
            raise Unlike
        reservation.numpy()[...] = new
        return call.commit_persistent_append(0, reservation, new.nbytes)

    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Append", append)
    state = bound(APPEND, np.zeros((0, 2, 3), np.float32), source="next", persistent_tensor_initial_capacity=8)
    state.run(context, {"rows": rows((1, 2, 3))})
    with pytest.raises(Unlike):
        state.run(context, {"rows": rows((1, 2, 3))})
    outputs = state.run(context, {"rows": rows((2, 2, 3), 6)})
    np.testing.assert_array_equal(outputs["next"].numpy(), rows((3, 2, 3)))
    assert outcomes[1:] == ["in place", "in place"]
    for reservation in kept:
        with pytest.raises(refeed.ValueTypeError, match="given back"):
            reservation.numpy()


@pytest.mark.parametrize(
    ("attempt", "error", "text"),
    [
        (lambda call, r: call.commit_persistent_append(0, r, 4), refeed.ValueTypeError, "expected 24, got 4"),
        (lambda call, r: call.commit_persistent_append(1, r, 24), refeed.ValueTypeError, "for output 0, got output 1"),
        (lambda call, r: call.commit_persistent_append(0, None, 24), TypeError, "reservation"),
        (lambda call, r: call.reserve_persistent_append(3, [2, 2, 3], 0, 0, 0), TypeError, "past: expected"),
    ],
)
def test_commits_are_checked(attempt: Callable[[Any, Any], Any], error: type[Exception], text: str) -> None:
    """Rules 5.2.7, 5.3.4; S145."""

    def append(node: onnx.NodeProto, call: runtime.KernelInvocation) -> Any:
        reservation = call.reserve_persistent_append("past", [2, 2, 3], 0, 0, 0)
        return attempt(call, reservation)

    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Append", append)
    state = bound(APPEND, rows((1, 2, 3)), source="next")
    with pytest.raises(error, match=text):
        state.run(context, {"rows": rows((1, 2, 3))})
    np.testing.assert_array_equal(state.values["past"].numpy(), rows((1, 2, 3)))


def test_text_is_no_value_to_be_retained() -> None:
    """Rule 3.8.5; S079."""
    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Append", lambda node, call: np.array([["text"]]))
    state = bound(APPEND, rows((1, 2, 3)), source="next")
    with pytest.raises(refeed.KernelError, match=r"expected FLOAT\[m, 2, 3\], got STRING\[1, 1\]"):
        state.run(context, {"rows": rows((1, 2, 3))})
    np.testing.assert_array_equal(state.values["past"].numpy(), rows((1, 2, 3)))


def test_room_goes_with_the_append_itself_not_with_a_copy_of_it() -> None:
    """Rule 5.1.4; S161."""
    copies = [False, True, False, False]

    def append(node: onnx.NodeProto, call: runtime.KernelInvocation) -> None:
        past, new = call.get("past"), call.get("rows").numpy()
        shape = [past.shape[0] + new.shape[0], 2, 3]
        reservation = call.reserve_persistent_append("past", shape, 0, 0, 0)
        assert reservation is not None
        reservation.numpy()[...] = new
        whole = call.commit_persistent_append(0, reservation, new.nbytes)
        if copies.pop(0):
            call.put("next", whole.numpy().copy())

    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Append", append)
    state = bound(APPEND, np.zeros((0, 2, 3), np.float32), source="next", persistent_tensor_initial_capacity=8)
    seen = []
    for step in range(4):
        outputs = state.run(context, {"rows": rows((1, 2, 3), 6 * step)})
        np.testing.assert_array_equal(outputs["next"].numpy(), rows((step + 1, 2, 3)))
        seen.append(state.explain().bindings[0].capacity)
    assert seen == [8, 0, 8, 8]


@pytest.mark.parametrize(("shape", "axis"), [([2, 2, 4], 0), ([0, 2, 3], 0), ([2, 2, 3], 3), ([2, 2], 0)])
def test_shapes_must_extend_the_past(shape: list[int], axis: int) -> None:
    context = runtime.RuntimeContext()
    context.register_custom_kernel(
        "my", "Append", lambda node, call: call.reserve_persistent_append("past", shape, axis, 0, 0)
    )
    state = bound(APPEND, rows((1, 2, 3)), source="next")
    with pytest.raises(refeed.ValueTypeError, match="append"):
        state.run(context, {"rows": rows((1, 2, 3))})


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "g (float[n, 2, 3] past, float[k, 2, 3] rows) => (float[m, 2, 3] next)"
        "<bool c = {1}> { next = If (c) <then_branch = t () => (float[a, 2, 3] u) { u = my.Append(past, rows) },"
        " else_branch = e () => (float[b, 2, 3] v) { v = Identity(rows) }> }",
        HEAD + "g (float[n, 2, 3] past, float[k, 2, 3] rows) => (float[m, 2, 3] next) { next = my.Outer(past, rows) }"
        '<domain: "my", opset_import: ["" : 18, "my" : 1]> Outer (past, rows) => (u) { u = my.Append(past, rows) }',
    ],
)
def test_children_decline(text: str) -> None:
    """Rule 5.3.2; S138."""
    reserved: list[Any] = []

    def append(node: onnx.NodeProto, call: runtime.KernelInvocation) -> Any:
        past, new = (value.numpy() for value in call.inputs)
        shape = [past.shape[0] + new.shape[0], 2, 3]
        reserved.append(call.reserve_persistent_append(node.input[0], shape, 0, 0, 0))
        return np.concatenate([past, new])

    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Append", append)
    state = bound(text, rows((1, 2, 3)), source="next")
    outputs = state.run(context, {"rows": rows((1, 2, 3), 6)})
    np.testing.assert_array_equal(outputs["next"].numpy(), rows((2, 2, 3)))
    assert reserved == [None]


def test_the_evaluator_takes_functions_of_arrays() -> None:
    text = HEAD + "g (float[2] x, float[2] w) => (float[2] y, float[2] z) { y, z = my.Both(x, w) }"
    evaluator = ReferenceEvaluator(parser.parse_model(text))
    feeds = {"x": ONE, "w": ONE * 3}
    with pytest.raises(refeed.ModelError, match="no kernel is registered"):
        evaluator.run(None, feeds)
    evaluator.register_custom_kernel("my", "Both", lambda node, x, w: [x + w, (x * w)[::-1]])
    total, product = evaluator.run(None, feeds)
    np.testing.assert_array_equal(total, ONE * 4)
    np.testing.assert_array_equal(product, (ONE * ONE * 3)[::-1])
    assert evaluator.unregister_custom_kernel("my", "Both")
    ReferenceEvaluator.register_custom_kernel_global("my", "Both", lambda node, x, w: (x, w))
    (again,) = ReferenceEvaluator(parser.parse_model(text)).run(["z"], feeds)
    np.testing.assert_array_equal(again, ONE * 3)
    assert ReferenceEvaluator.unregister_custom_kernel_global("my", "Both")
    with pytest.raises(TypeError, match="expected a function"):
        evaluator.register_custom_kernel("my", "Both", 1)  # type: ignore[arg-type]
    evaluator.register_custom_kernel("my", "Both", lambda node, x, w: x)
    with pytest.raises(refeed.ValueTypeError, match="2 outputs returned 1 values"):
        evaluator.run(None, feeds)
    assert evaluator.events() == []
