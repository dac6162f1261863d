"""`TensorScatter` whose result comes back: two buffers by turns, beside a model that always copies."""

from __future__ import annotations

import random
from typing import Any

import graphs
import numpy as np
import onnx
import pytest
import refeed
from graphs import FLOAT, Array, info
from onnx import TensorProto, helper
from refeed import runtime

BATCH, HEADS, LENGTH, WIDTH = 2, 3, 7, 5
ROW = BATCH * HEADS * WIDTH * 4
WHOLE = LENGTH * ROW
SHAPE = (BATCH, HEADS, LENGTH, WIDTH)


def scatter(mode: str) -> onnx.ModelProto:
    """Make a cache that is written over, and a node behind it that fails on a wrong `pick`."""
    nodes = [
        helper.make_node("TensorScatter", ["cache", "rows", "starts"], ["next"], axis=2, mode=mode),
        helper.make_node("Gather", ["next", "pick"], ["picked"], axis=2),
    ]
    inputs = [
        info("rows", FLOAT, [BATCH, HEADS, "n", WIDTH]),
        info("starts", TensorProto.INT64, [BATCH]),
        info("pick", TensorProto.INT64, []),
        info("cache", FLOAT, list(SHAPE)),
    ]
    outputs = [info("next", FLOAT, list(SHAPE)), info("picked", FLOAT, [BATCH, HEADS, WIDTH])]
    return graphs.model(nodes, inputs, outputs, opset=24)


MODELS = {mode: refeed.bind(scatter(mode), [("cache", "next")])[0] for mode in ("linear", "circular")}


def scattered(cache: Array, rows: Array, starts: Array, mode: str) -> Array:
    """Return a copy of the cache with the rows written over."""
    out = cache.copy()
    for entry, start in enumerate(starts):
        for n in range(rows.shape[2]):
            at = int(start) + n
            if mode == "linear" and not 0 <= at < LENGTH:
                raise IndexError(at)
            out[entry, :, at % LENGTH] = rows[entry, :, n]
    return out


def feeds(source: np.random.Generator, count: int, starts: list[int], pick: int = 0) -> dict[str, Array]:
    rows = source.standard_normal((BATCH, HEADS, count, WIDTH), np.float32)
    return {"rows": rows, "starts": np.array(starts, np.int64), "pick": np.array(pick, np.int64)}


def storage(context: runtime.RuntimeContext) -> tuple[int, int, int, int]:
    """Return allocations, reuses, and bytes of old and of new rows that were copied since the last look."""
    events = context.events()
    context.clear_events()
    return (
        sum(event.storage_allocations for event in events),
        sum(event.storage_reuse_count for event in events),
        sum(event.storage_prefix_copied_bytes for event in events),
        sum(event.storage_append_copied_bytes for event in events),
    )


def test_a_step_costs_its_rows_while_one_older_output_is_alive() -> None:
    """The rows of the last step and the new ones are copied, nothing else, and nothing is allocated."""
    source = np.random.default_rng(1)
    state = runtime.PersistentValueState(MODELS["linear"], {"cache": np.zeros(SHAPE, np.float32)})
    context = runtime.RuntimeContext(events_enabled=True)
    want = np.zeros(SHAPE, np.float32)
    last = 0
    out = None
    for step, count in enumerate([2, 1, 3, 1, 0, 1, 2]):
        fed = feeds(source, count, [step % 4, (step + 2) % 4])
        out = state.run(context, fed)
        want = scattered(want, fed["rows"], fed["starts"], "linear")
        np.testing.assert_array_equal(out["next"].numpy(), want)
        # The initial value is the caller's, and the first result has no older buffer yet.
        expected = (1, 0, WHOLE, count * ROW) if step < 2 else (0, 1, last * ROW, count * ROW)
        assert storage(context) == expected, step
        outcome = "in place" if step >= 2 else "copied because "
        assert state.explain().bindings[0].outcome.startswith(outcome)
        last = count
    del out


def test_two_older_outputs_alive_cost_a_copy_that_says_why() -> None:
    source = np.random.default_rng(2)
    state = runtime.PersistentValueState(MODELS["circular"], {"cache": np.zeros(SHAPE, np.float32)})
    context = runtime.RuntimeContext(events_enabled=True)
    want = np.zeros(SHAPE, np.float32)
    held = []
    for step in range(8):
        fed = feeds(source, 1, [step, 3 * step])
        held.append((state.run(context, fed)["next"], want := scattered(want, fed["rows"], fed["starts"], "circular")))
        assert storage(context) == (1, 0, WHOLE, ROW)
        if step >= 2:
            assert "the buffer before it is still in use" in state.explain().bindings[0].outcome
    for got, wanted in held:
        np.testing.assert_array_equal(got.numpy(), wanted)
    del held[:-1], got
    for _ in range(2):
        fed = feeds(source, 1, [1, 2])
        held = [(state.run(context, fed)["next"], want := scattered(want, fed["rows"], fed["starts"], "circular"))]
        assert storage(context)[:2] == (0, 1)
        np.testing.assert_array_equal(held[0][0].numpy(), want)


def test_exclusive_reuse_writes_the_whole_cache_each_step() -> None:
    source = np.random.default_rng(3)
    state = runtime.PersistentValueState(
        MODELS["linear"], {"cache": np.zeros(SHAPE, np.float32)}, append_reuse="exclusive"
    )
    context = runtime.RuntimeContext(events_enabled=True)
    want = np.zeros(SHAPE, np.float32)
    for step in range(4):
        fed = feeds(source, 1, [step, step + 1])
        want = scattered(want, fed["rows"], fed["starts"], "linear")
        np.testing.assert_array_equal(state.run(context, fed)["next"].numpy(), want)
        assert state.explain().bindings[0].outcome == "computed by TensorScatter"


class Naive:
    """One state, the value that it must have, and what was handed out."""

    def __init__(self, state: runtime.PersistentValueState, value: Array) -> None:
        self.state, self.value = state, value


def array(held: Any) -> Array:
    """Return a held output, or a view of one, as an array."""
    return held if isinstance(held, np.ndarray) else held.numpy()


def history(seed: int) -> None:
    """Run one random history; every output that was ever handed out keeps its bytes."""
    choose, source = random.Random(seed), np.random.default_rng(seed)  # noqa: S311 - no secrets
    mode = choose.choice(["linear", "circular"])
    initial = source.standard_normal(SHAPE, np.float32)
    context = runtime.RuntimeContext()
    lives = [Naive(runtime.PersistentValueState(MODELS[mode], {"cache": initial}), initial)]
    held: list[tuple[Any, Array]] = []
    points: list[tuple[Any, Array]] = []
    for _ in range(60):
        live = choose.choice(lives)
        kind = choose.choices(
            ["run", "late", "early", "drop", "view", "fork", "point", "back", "reset", "own"],
            [30, 5, 5, 12, 4, 3, 3, 3, 2, 2],
        )[0]
        if kind in ("run", "late", "early"):
            count = choose.randint(0, LENGTH)
            starts = [choose.randint(0, LENGTH - count) for _ in range(BATCH)]
            if mode == "circular":
                starts = [choose.randint(-20, 20) for _ in range(BATCH)]
            if kind == "early":
                count, starts = 2, [0, LENGTH - 1]
            fed = feeds(source, count, starts, LENGTH if kind == "late" else 0)
            if kind == "late" or (kind == "early" and mode == "linear"):
                with pytest.raises(refeed.KernelError):
                    live.state.run(context, fed)
            else:
                out = live.state.run(context, fed)["next"]
                live.value = scattered(live.value, fed["rows"], fed["starts"], mode)
                held.append((out, live.value))
        elif kind == "drop":
            choose.shuffle(held)
            del held[choose.randint(0, 1) :]
        elif kind == "view" and held:
            tensor, value = choose.choice(held)
            held.append((array(tensor)[:, 1:], value[:, 1:]))
        elif kind == "fork" and len(lives) < 3:
            lives.append(Naive(live.state.fork(), live.value))
        elif kind == "point":
            points.append((live.state.checkpoint(), live.value))
        elif kind == "back" and points:
            point, live.value = choose.choice(points)
            live.state.restore(point)
        elif kind == "reset":
            live.value = source.standard_normal(SHAPE, np.float32)
            live.state.reset({"cache": live.value.copy()})
        elif kind == "own" and held:
            tensor, value = choose.choice(held)
            if value.shape == SHAPE:
                live.value = value
                live.state.reset({"cache": tensor})
        for other in lives:
            np.testing.assert_array_equal(other.state.values["cache"].numpy(), other.value, err_msg=f"seed {seed}")
        for tensor, value in held:
            np.testing.assert_array_equal(array(tensor), value, err_msg=f"seed {seed}")


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_histories_equal_a_model_that_copies(first: int) -> None:
    for seed in range(first, first + 50):
        history(seed)
