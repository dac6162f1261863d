"""Random histories of states beside a model that always copies: outcomes, error classes and every held view are equal.

One history is one seed. 1,000 of them, always the same ones, or as many as ``REFEED_HISTORIES`` says, after those
(``make histories`` runs 100,000).
"""

from __future__ import annotations

import os
import pathlib
import random
from typing import Any

import naive_state
import numpy as np
import pytest
import refeed
from graphs import Array
from naive_state import HEADS, KEY, VALUE, NaiveState
from refeed import runtime
from refeed.runtime import PersistentValueState as State

HISTORIES = int(os.environ.get("REFEED_HISTORIES", "1000"))
FIRST = 0 if "REFEED_HISTORIES" not in os.environ else 1000
CHUNK = 50


def bound(form: str) -> refeed.Model:
    model, _ = refeed.bind(naive_state.model(form), naive_state.BINDINGS[: naive_state.FORMS[form]])
    return model


SESSIONS = {
    (form, reuse, capacity): runtime.RuntimeSession(
        bound(form), append_reuse=reuse, persistent_tensor_initial_capacity=capacity
    )
    for form in naive_state.FORMS
    for reuse in ("always", "exclusive")
    for capacity in (0, 1, 3, 32)
}


# How often each thing happens, against the others.
WEIGHTS = {
    "run": 30,
    "fail": 10,
    "cancel": 4,
    "complete": 4,
    "hold": 5,
    "drop": 6,
    "reset": 3,
    "reset_to_own": 2,
    "fork": 5,
    "truncate": 5,
    "select": 4,
    "checkpoint": 4,
    "restore": 4,
    "save": 2,
    "load": 2,
    "close": 1,
}


class History:
    """One random history."""

    def __init__(self, seed: int, folder: pathlib.Path) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.numbers = np.random.default_rng(seed)
        self.form = self.random.choice(["caches", "caches", "sum", "frames"])
        reuse, capacity = self.random.choice(["always", "always", "exclusive"]), self.random.choice([0, 1, 3, 32])
        self.session = SESSIONS[self.form, reuse, capacity]
        self.context = runtime.RuntimeContext(events_enabled=self.random.random() < 0.2)
        self.folder = folder
        self.told: list[str] = []
        self.views: list[tuple[Any, Any]] = []
        self.points: list[tuple[Any, dict[str, Any]]] = []
        self.files: list[tuple[pathlib.Path, dict[str, Any]]] = []
        values = self.start(self.random.choice([1, 2, 4]))
        self.states: list[tuple[State, NaiveState]] = [(self.session.new_state(values), NaiveState(values))]

    def array(self, *shape: int) -> Array:
        return self.numbers.standard_normal(shape).astype(np.float32)

    def start(self, batch: int) -> dict[str, Any]:
        length = self.random.choice([0, 0, 1, 3])
        values: dict[str, Any] = {
            "past_key": self.array(batch, HEADS, length, KEY),
            "past_value": self.array(batch, HEADS, length, VALUE),
        }
        if self.form != "caches":
            values["sum"] = self.array(batch, 4)
        if self.form == "frames":
            values["frames"] = [self.array(batch, 4) for _ in range(self.random.choice([0, 2]))]
        return values

    def feeds(self, naive: NaiveState) -> dict[str, Array]:
        """Make feeds that fit what the state holds."""
        held = naive.held()
        batch, _, length, _ = held["past_key"].shape
        rows = self.random.choice([1, 1, 1, 2, 5] if length == 0 else [0, 1, 1, 1, 2, 5])
        feeds = {
            "new_key": self.array(batch, HEADS, rows, KEY),
            "new_value": self.array(batch, HEADS, rows, VALUE),
            "pick": np.array(self.random.randrange(-(length + rows), length + rows)),
        }
        if "sum" in held:
            feeds["frame"] = self.array(batch, 4)
        return feeds

    # ------------------------------------------------------------------------------------------------ what can happen

    def run(self, state: State, naive: NaiveState) -> None:
        feeds = self.feeds(naive)
        keep = {name: array.copy() for name, array in feeds.items()}
        outputs, expected = state.run(self.context, feeds), naive.step(keep)
        assert naive_state.equal(outputs, expected)
        for array in feeds.values():
            # Whoever feeds the next frame from the same buffer must not reach anything kept.
            array[...] = 0
        assert naive_state.equal(outputs, expected)
        if self.random.random() < 0.4:
            self.views.append((outputs, expected))

    def fail(self, state: State, naive: NaiveState) -> None:
        feeds = self.feeds(naive)
        how = self.random.choice(["late", "symbol", "dtype", "missing", "unknown", "override"])
        expected: type[Exception] = refeed.ValueTypeError
        if how == "late":
            feeds["pick"] = np.array(10**6)
            expected = refeed.KernelError
        elif how == "symbol":
            feeds["new_value"] = np.concatenate([feeds["new_value"], feeds["new_value"][:, :, :1]], axis=2)
            if feeds["new_value"].shape[2] == feeds["new_key"].shape[2]:
                return
        elif how == "dtype":
            feeds["new_key"] = feeds["new_key"].astype(np.float64)
        elif how == "missing":
            del feeds[self.random.choice(list(feeds))]
        elif how == "unknown":
            feeds["nothing"] = feeds["pick"]
        else:
            feeds["past_key"] = feeds["new_key"]
        with pytest.raises(expected):
            state.run(self.context, feeds)

    def cancel(self, state: State, naive: NaiveState) -> None:
        completion = runtime.TaskCompletion()
        completion.cancel("not needed")
        with pytest.raises(refeed.CancelledError, match="not needed"):
            state.run(self.context, self.feeds(naive), completion)

    def complete(self, state: State, naive: NaiveState) -> None:
        feeds, completion = self.feeds(naive), runtime.TaskCompletion()
        outputs = state.run(self.context, feeds, completion)
        assert naive_state.equal(outputs, naive.step(feeds))
        with pytest.raises(refeed.Error):
            completion.cancel()

    def hold(self, state: State, naive: NaiveState) -> None:
        self.views.append((state.values, naive_state.copied(naive.held())))

    def drop(self, _state: State, _naive: NaiveState) -> None:
        if self.views:
            del self.views[self.random.randrange(len(self.views))]

    def reset(self, state: State, naive: NaiveState) -> None:
        values = self.start(self.random.choice([1, 2, 4]))
        if self.random.random() < 0.3:
            bad = {name: value for name, value in values.items() if name != "past_value"}
            with pytest.raises(refeed.ValueTypeError):
                state.reset(bad)
            return
        state.reset(values)
        naive.values = naive_state.copied(values)

    def reset_to_own(self, state: State, _naive: NaiveState) -> None:
        state.reset(state.values)

    def fork(self, state: State, naive: NaiveState) -> None:
        if len(self.states) < 4:
            self.states.append((state.fork(), naive.fork()))

    def truncate(self, state: State, naive: NaiveState) -> None:
        length = naive.held()["past_key"].shape[2]
        asked = self.random.randrange(length + 2)
        # What does not grow cannot go back, so nothing does.
        if asked > length or self.form != "caches":
            with pytest.raises(refeed.Error):
                state.truncate(asked)
            return
        state.truncate(asked)
        naive.truncate(asked)

    def select(self, state: State, naive: NaiveState) -> None:
        if self.form == "frames":
            with pytest.raises(refeed.Error):
                state.select([0])
            return
        batch = naive.held()["past_key"].shape[0]
        rows = [self.random.randrange(batch) for _ in range(self.random.choice([1, 2, 4]))]
        if self.random.random() < 0.2:
            with pytest.raises(refeed.Error):
                state.select([*rows, batch])
            return
        state.select(rows)
        naive.select(rows)

    def checkpoint(self, state: State, naive: NaiveState) -> None:
        self.points.append((state.checkpoint(), naive_state.copied(naive.held())))

    def restore(self, state: State, naive: NaiveState) -> None:
        if self.points:
            point, values = self.random.choice(self.points)
            state.restore(point)
            naive.values = naive_state.copied(values)

    def save(self, state: State, naive: NaiveState) -> None:
        path = self.folder / f"{len(self.files) % 3}.state"
        self.files = [held for held in self.files if held[0] != path]
        state.save(path)
        self.files.append((path, naive_state.copied(naive.held())))

    def load(self, state: State, naive: NaiveState) -> None:
        if self.files:
            path, values = self.random.choice(self.files)
            state.load(path)
            naive.values = naive_state.copied(values)

    def close(self, state: State, naive: NaiveState) -> None:
        state.close()
        state.close()
        for use in (
            lambda: state.run(self.context, {}),
            lambda: state.values,
            lambda: state.reset({}),
            state.fork,
            state.checkpoint,
            lambda: state.truncate(0),
        ):
            with pytest.raises(refeed.Error, match="closed"):
                use()
        naive.close()
        self.states = [pair for pair in self.states if pair[0] is not state]

    # ------------------------------------------------------------------------------------------------ the history

    def go(self) -> None:
        actions, weights = list(WEIGHTS), list(WEIGHTS.values())
        for name in self.random.choices(actions, weights, k=self.random.randrange(4, 25)):
            if not self.states:
                return
            at = self.random.randrange(len(self.states))
            self.told.append(f"{name}({at})")
            getattr(self, name)(*self.states[at])
            for number, (state, naive) in enumerate(self.states):
                assert naive_state.equal(state.values, naive.held()), f"state {number}"
            for number, (view, expected) in enumerate(self.views):
                assert naive_state.equal(view, expected), f"view {number}"


@pytest.mark.parametrize("chunk", range(FIRST // CHUNK, (FIRST + HISTORIES) // CHUNK))
def test_any_history_gives_what_copying_gives(chunk: int, tmp_path: pathlib.Path) -> None:
    """Rules 4.2.6, 4.4.1; S108, S111."""
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        history = History(seed, tmp_path)
        try:
            history.go()
        except BaseException as error:
            error.add_note(f"history {seed}: {', '.join(history.told)}")
            raise
