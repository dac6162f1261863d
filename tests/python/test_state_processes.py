"""States across processes and for a long time."""

import os
import pathlib
import threading
import time
import traceback
from collections.abc import Callable

import graphs
import numpy as np
import refeed
from onnx import helper
from refeed import runtime

B, H, D = 1, 2, 8
SIZE = 128


def concat_state() -> runtime.PersistentValueState:
    model, _ = refeed.bind(graphs.concat(B, H, D), [("past", "present")])
    return runtime.PersistentValueState(model, {"past": np.zeros((B, H, 0, D), np.float32)})


def product_state() -> runtime.PersistentValueState:
    """Products large enough for several threads: the pool of the parent has its threads."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Add", ["past", "h"], ["present"]),
    ]
    weight = helper.make_tensor("w", graphs.FLOAT, [SIZE, SIZE], np.eye(SIZE, dtype=np.float32).ravel())
    shape: graphs.Shape = [SIZE, SIZE]
    infos = [graphs.info(name, graphs.FLOAT, shape) for name in ("x", "past")]
    proto = graphs.model(nodes, infos, [graphs.info("present", graphs.FLOAT, shape)], initializers=[weight])
    model, _ = refeed.bind(proto, [("past", "present")])
    return runtime.PersistentValueState(model, {"past": np.zeros((SIZE, SIZE), np.float32)})


BLOCK = np.ones((SIZE, SIZE), np.float32)


def in_child(work: Callable[[], None]) -> int:
    """The exit code of a forked process that does `work`."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -9


def test_a_forked_process_goes_on_with_the_state() -> None:
    state = product_state()
    state.run({"x": BLOCK})

    def work() -> None:
        for step in range(10):
            out = state.run({"x": BLOCK})
            assert float(np.asarray(out["present"])[0, 0]) == step + 2

    for _ in range(5):
        assert in_child(work) == 0
    assert float(np.asarray(state.run({"x": BLOCK})["present"])[0, 0]) == 2


def test_a_process_forked_while_a_call_runs_has_a_busy_state_or_a_whole_one() -> None:
    state = product_state()
    free = product_state()
    stop = threading.Event()

    def runner() -> None:
        while not stop.is_set():
            state.run({"x": BLOCK})

    thread = threading.Thread(target=runner)
    thread.start()

    def work() -> None:
        free.run({"x": BLOCK})
        try:
            value = np.asarray(state.run({"x": BLOCK})["present"])
            assert (value == value[0, 0]).all()
        except refeed.StateBusyError:
            pass

    try:
        codes = [in_child(work) for _ in range(10)]
    finally:
        stop.set()
        thread.join()
    assert codes == [0] * 10


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_memory_is_flat_over_many_steps() -> None:
    """REFEED_SOAK steps (100,000 by `make soak`) of runs, forks, truncations, selections and checkpoints."""
    steps = int(os.environ.get("REFEED_SOAK", "5000"))
    state, context = concat_state(), runtime.RuntimeContext()
    row = np.ones((B, H, 1, D), np.float32)
    live, memory = [], []
    for step in range(steps):
        state.run(context, {"new": row})
        length = step % 64 + 1
        if length == 16:
            state.select([0])
        if length == 32:
            fork = state.fork()
            fork.run(context, {"new": row})
            fork.close()
        if length == 48:
            checkpoint = state.checkpoint()
            state.run(context, {"new": row})
            state.restore(checkpoint)
        if length == 64:
            del checkpoint
            state.truncate(0)
            live.append(state.live_bytes)
            memory.append(resident())
    assert len(set(live[3:])) <= 2, live[:20]
    warm = len(memory) // 4
    assert max(memory[warm:]) - min(memory[warm:]) < 5_000_000
