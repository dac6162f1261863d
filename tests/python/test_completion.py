"""`TaskCompletion`: one winner between publication and cancellation, and what each of them leaves behind."""

import os
import signal
import threading
import time

import graphs
import numpy as np
import pytest
import refeed
from onnx import TensorProto, helper
from refeed import runtime
from refeed.onnx import parser

STATUS = runtime.TaskStatus
ONES = np.ones(2, np.float32)


def accumulate() -> runtime.PersistentValueState:
    model, _ = refeed.bind(graphs.accumulate(), [("past", "present")])
    return runtime.PersistentValueState(model, {"past": np.zeros(2, np.float32)})


def past(state: runtime.PersistentValueState) -> list[float]:
    return list(np.asarray(state.values["past"]))


def long_attention() -> tuple[runtime.PersistentValueState, dict[str, np.ndarray]]:
    """A step that is mostly one node: 10^12 scores, a quarter of an hour at the least."""
    length = 1 << 20
    info = helper.make_tensor_value_info
    shape = [1, 1, length, 4]
    model = graphs.model(
        [
            helper.make_node("Add", ["past", "one"], ["present"]),
            helper.make_node("Attention", ["q", "k", "v"], ["y"]),
            helper.make_node("Neg", ["y"], ["z"]),
        ],
        [info(name, TensorProto.FLOAT, shape) for name in ("q", "k", "v")]
        + [info(name, TensorProto.FLOAT, [2]) for name in ("past", "one")],
        [info("present", TensorProto.FLOAT, [2]), info("z", TensorProto.FLOAT, shape)],
        opset=24,
    )
    bound, _ = refeed.bind(model, [("past", "present")])
    feeds = {name: np.zeros(shape, np.float32) for name in ("q", "k", "v")}
    return runtime.PersistentValueState(bound, {"past": np.zeros(2, np.float32)}), {**feeds, "one": ONES}


def test_a_cancellation_is_heard_within_a_node() -> None:
    """Without it the test runs out of time."""
    state, feeds = long_attention()
    completion = runtime.TaskCompletion()
    timer = threading.Timer(0.2, completion.cancel, ("no longer needed",))
    timer.start()
    with pytest.raises(refeed.CancelledError, match="no longer needed"):
        state.run(feeds, completion=completion)
    timer.join()
    assert past(state) == [0, 0]


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_is_heard_within_a_node() -> None:
    """Without it the test runs out of time."""
    state, feeds = long_attention()
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        state.run(feeds)
    timer.join()
    assert past(state) == [0, 0]


def test_a_publication_succeeds_it() -> None:
    """Rule 4.3.3; S103, S106."""
    state, completion = accumulate(), runtime.TaskCompletion(7)
    assert (completion.task_id, completion.status, completion.is_ready()) == (7, STATUS.kPending, False)
    state.run(None, {"delta": ONES}, completion)
    assert (completion.status, completion.is_ready(), completion.message) == (STATUS.kSucceeded, True, "")
    with pytest.raises(refeed.CompletionError, match="task 7 is already succeeded"):
        completion.cancel("too late")
    assert completion.message == ""
    with pytest.raises(refeed.CompletionError, match="task 7 is succeeded: expected a pending completion"):
        state.run(None, {"delta": ONES}, completion)
    assert past(state) == [1, 1]


def test_a_run_is_rejected_that_was_cancelled_before() -> None:
    """Rule 4.3.1; S102."""
    state, completion = accumulate(), runtime.TaskCompletion()
    completion.cancel("request no longer needed")
    assert (completion.status, completion.message) == (STATUS.kCancelled, "request no longer needed")
    with pytest.raises(refeed.CancelledError, match="run cancelled: request no longer needed"):
        state.run({"delta": ONES}, completion=completion)
    with pytest.raises(refeed.CompletionError, match="already cancelled"):
        completion.cancel("again")
    assert completion.message == "request no longer needed"
    assert past(state) == [0, 0]
    state.run({"delta": ONES})
    assert past(state) == [1, 1]


def test_a_run_that_fails_leaves_it_pending() -> None:
    """Rule 4.3.4; S106."""
    state, completion = accumulate(), runtime.TaskCompletion()
    for feeds in ({}, {"delta": np.ones(3, np.float32)}):
        with pytest.raises(refeed.ValueTypeError):
            state.run(None, feeds, completion)
        assert completion.status == STATUS.kPending
    state.run(None, {"delta": ONES}, completion)
    assert completion.status == STATUS.kSucceeded


def test_a_busy_or_closed_state_is_told_first() -> None:
    """Rule 4.2.1."""
    state, completion = accumulate(), runtime.TaskCompletion()
    completion.cancel()
    state.close()
    with pytest.raises(refeed.StateClosedError):
        state.run(None, {"delta": ONES}, completion)


def test_wrong_types_are_refused() -> None:
    state = accumulate()
    with pytest.raises(TypeError):
        state.run(None, {"delta": ONES}, "completion")  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        runtime.TaskCompletion("a")  # type: ignore[arg-type]


def chain(layers: int) -> refeed.Model:
    return refeed.bind(graphs.chain(layers, 192), [("past", "present")])[0]


def test_cancelling_from_another_thread_stops_between_nodes() -> None:
    """The cancelled call runs only a part of its nodes: its events end early, and the state stays as it was.

    Rule 4.3.2; S104.
    """
    block = np.ones((192, 192), np.float32)
    state = runtime.PersistentValueState(chain(4000), {"past": np.zeros_like(block)})
    context = runtime.RuntimeContext(events_enabled=True)
    completion = runtime.TaskCompletion()
    canceller = threading.Timer(0.02, completion.cancel, ["the client is gone"])
    canceller.start()
    with pytest.raises(refeed.CancelledError, match="the client is gone"):
        state.run(context, {"x": block}, completion)
    canceller.join()
    ran = sum(event.action == runtime.RuntimeEventAction.kRunNode for event in context.events())
    assert ran < 4001
    assert not np.asarray(state.values["past"]).any()
    after = runtime.PersistentValueState(chain(3), {"past": np.zeros_like(block)}).run({"x": block})
    assert np.array_equal(np.asarray(after["present"]), block)


LOOP = """present = Loop(three, go, past) <body = b (int64 i, bool on, float[2] x) => (bool still, float[2] y) {
    still = Identity(on) w = my.Cancel(a) y = Add(x, w) }>"""
SCAN = """present, rows = Scan<num_scan_inputs = 1, body = b (float[2] s, float x) => (float[2] t, float y) {
    w = my.Cancel(s) t = Neg(w) y = Neg(x) }>(past, a)"""
IF = """present = If(go) <then_branch = t () => (float[2] y) { w = my.Cancel(past) y = Neg(w) },
    else_branch = e () => (float[2] z) { z = Neg(a) }>"""
FUNCTION = "present = my.F(past, a)"


@pytest.mark.parametrize("body", [LOOP, SCAN, IF, FUNCTION], ids=["Loop", "Scan", "If", "function"])
def test_cancelling_inside_a_nested_graph_is_a_cancellation(body: str) -> None:
    """Rule 4.3.2; S104."""
    proto = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 23, "my": 1]>\n'
        "g (float[2] a, float[2] past) => (float[2] present) <int64 three = {3}, bool go = {1}> {" + body + "}\n"
        '<domain: "my", opset_import: ["": 23, "my": 1]> F (p, q) => (y) { w = my.Cancel(p) v = Neg(w) y = Add(v, q) }'
    )
    model, _ = refeed.bind(refeed.load(proto), [("past", "present")], uses="any")
    completion = runtime.TaskCompletion()

    def cancel(_node: object, call: runtime.KernelInvocation) -> object:
        completion.cancel("enough of it")
        return call.inputs[0]

    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Cancel", cancel)
    past = np.array([1, 2], np.float32)
    state = runtime.PersistentValueState(model, {"past": past}, context=context)
    with pytest.raises(refeed.CancelledError, match="run cancelled: enough of it"):
        state.run(context, {"a": past}, completion)
    assert completion.status == runtime.TaskStatus.kCancelled
    assert np.array_equal(np.asarray(state.values["past"]), past)


def two_caches() -> refeed.Model:
    """K and V, each with a row of its own behind it."""
    nodes = [helper.make_node("Concat", [f"p{x}", x], [f"o{x}"], axis=1) for x in "kv"]
    proto = graphs.model(
        nodes,
        [graphs.info(name, graphs.FLOAT, [2, name, 3]) for name in ("k", "v", "pk", "pv")],
        [graphs.info(name, graphs.FLOAT, [2, name, 3]) for name in ("ok", "ov")],
    )
    return refeed.bind(proto, [("pk", "ok"), ("pv", "ov")])[0]


def test_of_a_race_exactly_one_wins_and_nothing_is_mixed() -> None:
    """REFEED_RACES races of a run with a canceller (10**6 by `make races`). Rule 4.3.2; S104, S105."""
    races = int(os.environ.get("REFEED_RACES", "3000"))
    empty = np.zeros((2, 0, 3), np.float32)
    state = runtime.PersistentValueState(two_caches(), {"pk": empty, "pv": empty})
    context = runtime.RuntimeContext()
    row = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    draw = np.random.default_rng(1)
    current: list[runtime.TaskCompletion] = []
    results: list[bool] = []
    begin, end = threading.Barrier(2), threading.Barrier(2)

    def cancel() -> None:
        for _ in range(races):
            begin.wait()
            # A sleeper lets the run start; a canceller that does not sleep keeps the interpreter and comes first.
            if delays[0]:
                time.sleep(delays[0] * 1e-9)
            try:
                current[0].cancel()
                results[0] = True
            except refeed.CompletionError:
                results[0] = False
            end.wait()

    delays = [0]
    results.append(False)
    current.append(runtime.TaskCompletion())
    thread = threading.Thread(target=cancel)
    thread.start()
    published = cancelled = length = 0
    for race in range(races):
        current[0] = completion = runtime.TaskCompletion(race)
        delays[0] = int(draw.integers(120_000)) if race % 4 else 0
        begin.wait()
        try:
            state.run(context, {"k": row + race, "v": row - race}, completion)
            won = True
        except refeed.CancelledError:
            won = False
        end.wait()
        assert won != results[0], race
        published += won
        cancelled += results[0]
        length += won
        values = state.values
        k, v = np.asarray(values["pk"]), np.asarray(values["pv"])
        assert k.shape == v.shape == (2, length, 3)
        if won:
            assert np.array_equal(k[:, -1:], row + race)
            assert np.array_equal(v[:, -1:], row - race)
            # Whoever lost gave its rows back: they are there for the next one.
            assert all("taken" not in report.outcome for report in state.explain().bindings), race
        if length == 64:
            state.reset({"pk": empty, "pv": empty})
            length = 0
    thread.join()
    assert published + cancelled == races
    assert min(published, cancelled) > 0, (published, cancelled)
