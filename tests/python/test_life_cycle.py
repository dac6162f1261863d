"""Threads, overlapping operations, closing, Ctrl-C."""

import gc
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import graphs
import numpy as np
import pytest
import refeed
from refeed import runtime

ONES = np.ones(2, np.float32)
MakeState = Callable[..., runtime.PersistentValueState]


SIZE = 256
BLOCK = np.ones((SIZE, SIZE), np.float32)


@pytest.fixture(scope="module")
def slow_model() -> refeed.Model:
    """A model of which one call takes at least half a second."""
    layers = 200
    while True:
        model, _ = refeed.bind(graphs.chain(layers, SIZE), [("past", "present")])
        state = runtime.PersistentValueState(model, {"past": BLOCK})
        start = time.perf_counter()
        state.run({"x": BLOCK})
        taken = time.perf_counter() - start
        if taken > 0.5:
            return model
        layers = int(layers * min(8.0, 0.7 / taken)) + 1


def test_overlapping_operations_fail_at_once(slow_model: refeed.Model, tmp_path: pathlib.Path) -> None:
    """Rule 4.1.1; S097."""
    state = runtime.PersistentValueState(slow_model, {"past": BLOCK})
    checkpoint = state.checkpoint()
    file = tmp_path / "a.state"
    state.save(file)
    done: list[Any] = []
    begun = threading.Event()

    def work() -> None:
        begun.set()
        done.append(state.run({"x": BLOCK}))

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    time.sleep(0.05)
    attempts: list[Callable[[], Any]] = [
        lambda: state.run({"x": BLOCK}),
        lambda: state.reset({"past": BLOCK}),
        lambda: state.close(),
        lambda: state.values,
        lambda: state.explain(),
        lambda: state.fork(),
        lambda: state.checkpoint(),
        lambda: state.restore(checkpoint),
        lambda: state.truncate(0),
        lambda: state.select([0]),
        lambda: state.save(file),
        lambda: state.load(file),
    ]
    start = time.perf_counter()
    for attempt in attempts:
        assert not done, "the other call ended too early for this test"
        with pytest.raises(refeed.StateBusyError, match="busy") as caught:
            attempt()
        assert isinstance(caught.value, (ValueError, RuntimeError))
    assert time.perf_counter() - start < 0.3, "a busy state must not make anybody wait"
    thread.join()
    assert float(done[0]["present"].numpy()[0, 0]) == 2
    assert float(state.run({"x": BLOCK})["present"].numpy()[0, 0]) == 3


def test_python_runs_while_native_code_does(slow_model: refeed.Model) -> None:
    """Rule 4.2.8; S107."""
    state = runtime.PersistentValueState(slow_model, {"past": BLOCK})
    thread = threading.Thread(target=lambda: state.run({"x": BLOCK}))
    thread.start()
    ticks = 0
    while thread.is_alive():
        ticks += 1
        time.sleep(0.001)
    thread.join()
    assert ticks > 20


def test_threads_may_share_a_session() -> None:
    session = runtime.RuntimeSession(graphs.accumulate())
    faults: list[str] = []

    def work(value: int) -> None:
        delta = np.full(2, value, np.float32)
        for _ in range(200):
            got = session.run({"delta": delta, "past": ONES})["present"].numpy()
            if got.tolist() != [value + 1, value + 1]:
                faults.append(f"{value}: {got}")

    threads = [threading.Thread(target=work, args=(value,)) for value in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_states_of_one_model_do_not_meet(accumulate: refeed.Model) -> None:
    """Rules 4.2.8, 4.4.4; S014, S098."""
    initial = np.zeros(2, np.float32)
    states = [runtime.PersistentValueState(accumulate, {"past": initial}) for _ in range(3)]
    for count, state in enumerate(states, 1):
        for _ in range(count):
            state.run({"delta": ONES})
    assert [float(state.values["past"].numpy()[0]) for state in states] == [1, 2, 3]
    assert initial.tolist() == [0, 0]


def test_closed_states_refuse_everything_but_closing(make_state: MakeState) -> None:
    """Rules 4.1.2, 4.4.2; S069, S096."""
    state = make_state()
    out = state.run({"delta": ONES})["present"]
    view, value = np.from_dlpack(out), state.values["past"].numpy()
    state.close()
    state.close()
    attempts: list[Callable[[], Any]] = [
        lambda: state.run({"delta": ONES}),
        lambda: state.reset({"past": ONES}),
        lambda: state.values,
        lambda: state.explain(),
    ]
    for attempt in attempts:
        with pytest.raises(refeed.StateClosedError, match="closed") as caught:
            attempt()
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, RuntimeError)
    del out
    gc.collect()
    assert view.tolist() == value.tolist() == [1, 1]


def test_a_state_is_a_context_manager(make_state: MakeState) -> None:
    with make_state() as state:
        state.run({"delta": ONES})
    with pytest.raises(refeed.StateClosedError):
        state.run({"delta": ONES})


class Alarm(Exception):
    """Raised by a signal handler."""


def test_signals_stop_a_call_and_leave_the_state(slow_model: refeed.Model) -> None:
    state = runtime.PersistentValueState(slow_model, {"past": BLOCK})

    def handler(_number: int, _frame: Any) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        start = time.perf_counter()
        with pytest.raises(Alarm):
            state.run({"x": BLOCK})
        taken = time.perf_counter() - start
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert taken < 0.4
    assert float(state.values["past"].numpy()[0, 0]) == 1
    assert float(state.run({"x": BLOCK})["present"].numpy()[0, 0]) == 2


def test_ctrl_c_comes_out_as_itself(slow_model: refeed.Model) -> None:
    state = runtime.PersistentValueState(slow_model, {"past": BLOCK})
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        state.run({"x": BLOCK})
    timer.join()
    assert float(state.values["past"].numpy()[0, 0]) == 1


def test_handlers_that_return_do_not_stop_a_call(slow_model: refeed.Model) -> None:
    state = runtime.PersistentValueState(slow_model, {"past": BLOCK})
    seen: list[float] = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(time.perf_counter()))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        state.run({"x": BLOCK})
        ended = time.perf_counter()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(seen) == 1
    assert seen[0] < ended - 0.1, "the handler must run while the call does"


LATE_EXIT = """
import sys; sys.path.insert(0, {path!r})
import threading, time
import numpy as np, refeed, graphs
from refeed import runtime
bound, _ = refeed.bind(graphs.accumulate(), [("past", "present")])
state = runtime.PersistentValueState(bound, {{"past": np.zeros(2, np.float32)}})
view = np.from_dlpack(state.run({{"delta": np.ones(2, np.float32)}})["present"])
def work():
    while True:
        state.run({{"delta": np.ones(2, np.float32)}})
threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
print("done")
"""


def test_the_interpreter_may_end_while_a_thread_runs() -> None:
    code = LATE_EXIT.format(path=str(pathlib.Path(__file__).parent))
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    assert (ended.returncode, ended.stdout.strip()) == (0, "done"), ended.stderr


def test_repeated_runs_keep_no_memory(make_state: MakeState) -> None:
    state = make_state()
    context = runtime.RuntimeContext()
    references = sys.getrefcount(context)
    for _ in range(100):
        state.run(context, {"delta": ONES})
    live = state.live_bytes
    for _ in range(1000):
        state.run(context, {"delta": ONES})
    assert state.live_bytes == live
    assert sys.getrefcount(context) == references
