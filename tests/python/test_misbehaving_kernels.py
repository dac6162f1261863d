"""Kernels of Python that do what they must not: the call fails, the state is as it was, and the next call is right.

Each runs behind an append of the same step, so that there are rows to give back. ``REFEED_RAISES`` is how often a
kernel raises while memory must stay flat (400; ``make soak`` has 10,000).
"""

from __future__ import annotations

import gc
import os
import pathlib
import resource
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import refeed
from refeed import runtime
from refeed.onnx import parser

RAISES = int(os.environ.get("REFEED_RAISES", "400"))
Kernel = Callable[[Any, Any], Any]

MODEL, _ = refeed.bind(
    parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18, "my.ops" : 1]>'
        "g (float[2, n] new, float[2, p] past) => (float[2, t] present, float[2] y) {"
        " present = Concat <axis = 1> (past, new)"
        " y = my.ops.Sums (new) }"
    ),
    [("past", "present")],
)
NEW = np.arange(6, dtype=np.float32).reshape(2, 3)


class Unprintable(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Falling:
    """An object that fails when it goes."""

    def __del__(self) -> None:
        raise RuntimeError("went with an error")


def sums(_node: Any, call: Any) -> Any:
    """Compute what the node means."""
    return call.inputs[0].numpy().sum(axis=1)


def raising(error: BaseException) -> Kernel:
    def kernel(_node: Any, _call: Any) -> Any:
        raise error

    return kernel


def cyclic(_node: Any, _call: Any) -> Any:
    error = ValueError("cyclic")
    error.__cause__ = KeyError("cause")
    error.__cause__.__context__ = error
    here = [error]
    here.append(here)  # type: ignore[arg-type]
    raise error


def recursing(node: Any, call: Any) -> Any:
    return recursing(node, call)


def writing(_node: Any, call: Any) -> Any:
    call.inputs[0].numpy()[...] = 7
    return np.zeros(2, np.float32)


def using(use: Callable[[Any], Any]) -> Callable[[Any], Kernel]:
    """Make a kernel that uses the state that runs it."""
    return lambda state: lambda _node, _call: use(state)


def returning(value: Any) -> Kernel:
    return lambda _node, _call: value


PLAIN: dict[str, tuple[Kernel, Any]] = {
    "raises ValueError": (raising(ValueError("no")), ValueError),
    "raises KeyError": (raising(KeyError("no")), KeyError),
    "raises KeyboardInterrupt": (raising(KeyboardInterrupt()), KeyboardInterrupt),
    "raises SystemExit": (raising(SystemExit(3)), SystemExit),
    "raises GeneratorExit": (raising(GeneratorExit()), GeneratorExit),
    "raises StopIteration": (raising(StopIteration(1)), StopIteration),
    "raises MemoryError": (raising(MemoryError()), MemoryError),
    "raises what cannot be shown": (raising(Unprintable()), Unprintable),
    "raises a cycle": (cyclic, ValueError),
    "recurses without end": (recursing, RecursionError),
    "writes to its input": (writing, ValueError),
    "returns nothing": (returning(None), refeed.KernelError),
    "returns too much": (lambda node, call: (sums(node, call), sums(node, call)), refeed.Error),
    "returns an empty tuple": (returning(()), refeed.Error),
    "returns a text": (returning("y"), (TypeError, refeed.Error)),
    "returns objects": (returning(np.array([None, None])), (TypeError, refeed.Error)),
    "returns an iterator": (returning(iter([1])), (TypeError, refeed.Error)),
    "returns what falls": (lambda _node, _call: Falling(), (TypeError, refeed.Error)),
    "returns another type": (returning(np.zeros(2, np.float64)), refeed.KernelError),
    "returns another rank": (returning(np.zeros((2, 1), np.float32)), refeed.KernelError),
    "returns another extent": (returning(np.zeros(3, np.float32)), refeed.KernelError),
    "returns strides": (returning(np.zeros((2, 2), np.float32)[:, 0]), (TypeError, ValueError)),
    "returns a list": (returning([np.zeros(2, np.float32)]), refeed.KernelError),
    "puts a foreign name": (lambda _node, call: call.put("z", np.zeros(2, np.float32)), refeed.Error),
    "reads a foreign name": (lambda _node, call: call.get("past"), Exception),
}

OWN: dict[str, Callable[[Any], Any]] = {
    "runs": lambda state: state.run(None, {"new": NEW}),
    "resets": lambda state: state.reset({"past": NEW}),
    "closes": lambda state: state.close(),
    "reads values": lambda state: state.values,
    "forks": lambda state: state.fork(),
    "checkpoints": lambda state: state.checkpoint(),
    "truncates": lambda state: state.truncate(0),
    "selects": lambda state: state.select([0, 1]),
    "saves": lambda state: state.save(pathlib.Path("never")),
    "explains": lambda state: state.explain(),
}


def prepared() -> tuple[runtime.RuntimeContext, runtime.PersistentValueState]:
    """Make a context and a state after one good step."""
    context = runtime.RuntimeContext()
    context.register_custom_kernel("my.ops", "Sums", sums)
    state = runtime.PersistentValueState(MODEL, {"past": np.zeros((2, 0), np.float32)})
    state.run(context, {"new": NEW})
    return context, state


def refuses(
    kernel: Kernel, expected: Any, context: runtime.RuntimeContext, state: runtime.PersistentValueState
) -> None:
    """Run a step with a bad kernel, then with the good one."""
    held = state.values["past"].numpy()
    before, where = held.tobytes(), held.__array_interface__["data"]
    for completion in (None, runtime.TaskCompletion()):
        context.register_custom_kernel("my.ops", "Sums", kernel)
        with pytest.raises(expected):
            state.run(context, {"new": NEW + 1}, completion)
        now = state.values["past"].numpy()
        assert now.tobytes() == before
        assert now.__array_interface__["data"] == where
        assert completion is None or not completion.is_ready(), "a failed call leaves its completion pending"
    context.register_custom_kernel("my.ops", "Sums", sums)
    out = state.run(context, {"new": NEW + 2})
    assert out["y"].numpy().tolist() == [9, 18]
    np.testing.assert_array_equal(out["present"].numpy(), np.concatenate([NEW, NEW + 2], axis=1))
    assert [report.outcome for report in state.explain().bindings] == ["in place"], "failed steps gave their rows back"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", PLAIN)
def test_a_bad_kernel_changes_nothing(name: str) -> None:
    kernel, expected = PLAIN[name]
    refuses(kernel, expected, *prepared())


@pytest.mark.parametrize("name", OWN)
def test_a_kernel_cannot_use_the_state_that_runs_it(name: str) -> None:
    context, state = prepared()
    refuses(using(OWN[name])(state), refeed.StateBusyError, context, state)


def test_a_kernel_may_drop_the_last_reference_to_its_state() -> None:
    context, state = prepared()
    held = [state]
    del state

    def dropping(node: Any, call: Any) -> Any:
        held.clear()
        gc.collect()
        return sums(node, call)

    context.register_custom_kernel("my.ops", "Sums", dropping)
    out = held[0].run(context, {"new": NEW})
    assert not held
    np.testing.assert_array_equal(out["present"].numpy(), np.concatenate([NEW, NEW], axis=1))


def test_an_invocation_that_is_kept_is_of_no_use() -> None:
    context, state = prepared()
    kept: list[Any] = []

    def keeping(node: Any, call: Any) -> Any:
        kept.append(call)
        return sums(node, call)

    context.register_custom_kernel("my.ops", "Sums", keeping)
    state.run(context, {"new": NEW})
    uses: list[Callable[[], Any]] = [lambda: kept[0].get("new"), lambda: kept[0].put("y", NEW[0])]
    for use in uses:
        with pytest.raises(refeed.Error):
            use()


def test_memory_stays_flat_however_often_kernels_raise() -> None:
    context, state = prepared()

    def kernel(_node: Any, call: Any) -> Any:
        raise ValueError(call.inputs[0].shape)

    context.register_custom_kernel("my.ops", "Sums", kernel)
    block = np.zeros((2, 20_000), np.float32)

    def some(count: int) -> None:
        for _ in range(count):
            with pytest.raises(ValueError, match="20000"):
                state.run(context, {"new": block})

    some(RAISES // 4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    some(RAISES)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 5_000, f"{grown} KiB more after {RAISES} raises"


def test_a_kernel_that_runs_its_own_session_without_end_is_stopped_before_the_stack_ends() -> None:
    model = parser.parse_model("""
        <ir_version: 10, opset_import: ["": 18, "my.ops": 1]>
        again (float[n] x) => (float[n] y) { y = my.ops.Again(x) }""")
    context = runtime.RuntimeContext()
    session = runtime.RuntimeSession(model)
    deep = 0

    def again(_node: Any, call: Any) -> Any:
        nonlocal deep
        deep += 1
        return session.run({"x": call.inputs[0]}, context)["y"]

    context.register_custom_kernel("my.ops", "Again", again)
    for _ in range(2):
        deep = 0
        with pytest.raises(RecursionError, match="100 calls are inside each other"):
            session.run({"x": np.ones(1, np.float32)}, context)
        assert deep == 100
