"""Processes that fork or end in the middle of things: `python process_life.py NAME` plays one of them.

Each must end with status 0 after it has printed "done".
"""

import atexit
import concurrent.futures
import contextlib
import ctypes
import gc
import multiprocessing
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import graphs
import numpy as np
import refeed
from handmade import Handmade
from refeed import runtime

SCRIPTS: dict[str, Callable[[], None]] = {}
ONES = np.ones(2, np.float32)
SIZE = 192
BLOCK = np.ones((SIZE, SIZE), np.float32)
#: What a script leaves for the interpreter to take down.
LEFT: list[Any] = []

Script = Callable[[], None]


def script(play: Script) -> Script:
    SCRIPTS[play.__name__] = play
    return play


def small() -> runtime.PersistentValueState:
    model, _ = refeed.bind(graphs.accumulate(), [("past", "present")])
    return runtime.PersistentValueState(model, {"past": np.zeros(2, np.float32)})


def cache() -> runtime.PersistentValueState:
    model, _ = refeed.bind(graphs.concat(1, 2, 3), [("past", "present")])
    return runtime.PersistentValueState(model, {"past": np.zeros((1, 2, 0, 3), np.float32)})


def slow(layers: int = 150) -> runtime.PersistentValueState:
    """A state whose step is long, and done by the threads of the pool."""
    model, _ = refeed.bind(graphs.chain(layers, SIZE), [("past", "present")])
    return runtime.PersistentValueState(model, {"past": BLOCK})


def steps(state: runtime.PersistentValueState, count: int = 10) -> Any:
    """Run a small state on and return what it has counted."""
    for _ in range(count):
        state.run({"delta": ONES})
    return state.values["past"].numpy().tolist()


def row(state: runtime.PersistentValueState, value: int) -> Any:
    return state.run({"new": np.full((1, 2, 1, 3), value, np.float32)})["present"].numpy()


def running(state: runtime.PersistentValueState, *, daemon: bool = True) -> threading.Thread:
    """Start a thread that runs steps of a slow state for ever, and wait until it is inside one."""

    def work() -> None:
        while not LEFT or LEFT[0] is not state:
            state.run({"x": BLOCK})

    thread = threading.Thread(target=work, daemon=daemon)
    thread.start()
    while True:
        try:
            state.explain()
        except refeed.StateBusyError:
            return thread
        time.sleep(0.001)


def child(play: Script) -> int:
    """Fork; the child plays and leaves at once. Returns the child's number."""
    number = os.fork()
    if number:
        return number
    status = 1
    try:
        play()
        status = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def join(*numbers: int) -> None:
    for number in numbers:
        _, status = os.waitpid(number, 0)
        assert status == 0, f"child ended with {status}"


# ------------------------------------------------------------------------------------------------------- forks


@script
def fork_of_an_idle_state() -> None:
    state = small()
    assert steps(state, 3) == [3, 3]

    def play() -> None:
        assert steps(state) == [13, 13]

    join(child(play), child(play))
    assert steps(state) == [13, 13]


@script
def fork_of_a_running_state() -> None:
    state = slow()
    running(state)

    def play() -> None:
        # The thread that has the state is not here, so it is busy for ever; the model is as good as new.
        for attempt in (lambda: state.run({"x": BLOCK}), lambda: state.values, state.close):
            try:
                attempt()
            except refeed.StateBusyError:
                continue
            # The parent may have forked between two steps.
            return
        other = runtime.PersistentValueState(state.model, {"past": BLOCK})
        assert float(other.run({"x": BLOCK})["present"].numpy()[0, 0]) == 2
        assert steps(small()) == [10, 10]

    join(*[child(play) for _ in range(4)])


@script
def fork_while_others_run() -> None:
    busy = [running(slow(40)) for _ in range(3)]
    state = small()

    def play() -> None:
        assert steps(state) == [10, 10]
        assert float(slow(20).run({"x": BLOCK})["present"].numpy()[0, 0]) == 2

    join(*[child(play) for _ in range(5)])
    assert all(thread.is_alive() for thread in busy)


@script
def fork_after_the_pool_has_worked() -> None:
    state = slow(30)
    state.run({"x": BLOCK})

    def play() -> None:
        assert float(state.run({"x": BLOCK})["present"].numpy()[3, 4]) == 3

    join(child(play))
    assert float(state.run({"x": BLOCK})["present"].numpy()[3, 4]) == 3


@script
def fork_of_a_fork() -> None:
    state = small()

    def play() -> None:
        steps(state, 1)

        def again() -> None:
            assert steps(state) == [11, 11]

        join(child(again))
        assert steps(state) == [11, 11]

    join(child(play))
    assert steps(state) == [10, 10]


@script
def fork_and_close() -> None:
    state = small()

    def play() -> None:
        state.reset({"past": ONES})
        state.close()

    join(child(play))
    assert steps(state) == [10, 10]


@script
def fork_with_live_views() -> None:
    state = cache()
    view = row(state, 1)
    shared = np.from_dlpack(state.values["past"])

    def play() -> None:
        grown = row(state, 2)
        assert grown[0, 1, :, 2].tolist() == [1, 2]
        assert view[0, 1, :, 2].tolist() == shared[0, 1, :, 2].tolist() == [1]

    join(child(play))
    assert row(state, 3)[0, 1, :, 2].tolist() == [1, 3]
    assert view[0, 1, :, 2].tolist() == [1]


def _pooled(number: int) -> Any:
    return steps(LEFT[0], number)


@script
def fork_by_a_process_pool() -> None:
    LEFT.append(small())
    with multiprocessing.get_context("fork").Pool(2) as pool:
        counted = pool.map(_pooled, [4] * 6, chunksize=3)
    # Each worker goes on with the state that it inherited.
    assert all(counts[0] % 4 == 0 for counts in counted)
    assert steps(LEFT[0], 1) == [1, 1]


@script
def child_that_ends_as_python_does() -> None:
    state = small()
    number = os.fork()
    if number == 0:
        LEFT.extend((state, np.from_dlpack(state.run({"delta": ONES})["present"])))
        sys.exit(0)
    join(number)


# ------------------------------------------------------------------------------------------------------- exits


@script
def exit_with_a_daemon_in_a_step() -> None:
    running(slow())


@script
def exit_with_a_daemon_between_steps() -> None:
    state = small()
    threading.Thread(target=lambda: steps(state, 10**9), daemon=True).start()
    time.sleep(0.05)


@script
def exit_with_daemons_on_one_state() -> None:
    state = small()

    def work() -> None:
        while True:
            with contextlib.suppress(refeed.StateBusyError):
                state.run({"delta": ONES})

    for _ in range(4):
        threading.Thread(target=work, daemon=True).start()
    time.sleep(0.05)


@script
def exit_that_waits_for_a_thread() -> None:
    state = slow(60)
    running(state, daemon=False)
    LEFT.append(state)


@script
def exit_from_a_thread() -> None:
    state = small()

    def work() -> None:
        steps(state)
        sys.exit(5)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@script
def exit_at_once_during_a_step() -> None:
    running(slow())
    print("done", flush=True)
    os._exit(0)


@script
def exit_with_views_in_globals() -> None:
    state = cache()
    LEFT.append(row(state, 1))
    LEFT.append(np.from_dlpack(state.values["past"]))
    LEFT.append(state.values)
    LEFT.append(state)
    LEFT.append(LEFT)


@script
def exit_with_an_unused_capsule() -> None:
    tensor = runtime.Tensor(np.ones(3, np.float32))
    LEFT.append(tensor.__dlpack__(max_version=(1, 0)))


@script
def exit_with_foreign_memory() -> None:
    model, _ = refeed.bind(graphs.accumulate(), [("past", "present")])
    producers = [Handmade([2]), Handmade([2])]
    # Their headers and deleters stay where they are to the very end of the process.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(producers))
    LEFT.append(runtime.PersistentValueState(model, {"past": producers[0]}))
    LEFT.append(runtime.Tensor(producers[1]))


@script
def exit_handlers_that_run_steps() -> None:
    state = small()
    atexit.register(lambda: LEFT.append(steps(state)))
    atexit.register(state.run, {"delta": ONES})


@script
def exit_handler_that_closes_under_a_step() -> None:
    state = slow()
    running(state)

    def close() -> None:
        with contextlib.suppress(refeed.StateBusyError):
            state.close()

    atexit.register(close)


@script
def exit_with_finalizers() -> None:
    class Holder:
        def __init__(self) -> None:
            self.state = small()

        def __del__(self) -> None:
            self.state.run({"delta": ONES})
            self.state.close()

    holder = Holder()
    LEFT.append(holder)
    weakref.finalize(holder, steps, small())
    holder.__dict__["self"] = holder


@script
def exit_with_a_cycle() -> None:
    state = small()
    cycle: list[Any] = [state, state.values, np.from_dlpack(state.run({"delta": ONES})["present"])]
    cycle.append(cycle)
    gc.freeze()


@script
def exit_with_an_executor() -> None:
    state = slow(40)
    executor = concurrent.futures.ThreadPoolExecutor(2)
    executor.submit(state.run, {"x": BLOCK})
    executor.submit(lambda: steps(small()))


@script
def exit_with_events() -> None:
    context = runtime.RuntimeContext(events_enabled=True)
    state = cache()
    state.run(context, {"new": np.ones((1, 2, 1, 3), np.float32)})
    LEFT.extend((context, context.events, state))


if __name__ == "__main__":
    SCRIPTS[sys.argv[1]]()
    print("done", flush=True)
