"""Forks and checkpoints: every holder sees what a NumPy model that copies sees, and shares what it can."""

import threading
import time

import graphs
import numpy as np
import pytest
import refeed
from onnx import helper
from refeed import runtime

B, H, D = 2, 3, 5
Array = graphs.Array


def model() -> refeed.Model:
    return refeed.bind(graphs.concat(B, H, D), [("past", "present")])[0]


def rows(count: int, first: int) -> Array:
    return np.arange(first, first + B * H * count * D, dtype=np.float32).reshape(B, H, count, D)


def past(state: runtime.PersistentValueState) -> Array:
    return np.asarray(state.values["past"])


def outcome(state: runtime.PersistentValueState) -> str:
    return state.explain().bindings[0].outcome


def grown(length: int = 4) -> tuple[runtime.PersistentValueState, Array]:
    state = runtime.PersistentValueState(model(), {"past": rows(0, 0)})
    state.run({"new": rows(length, 100)})
    return state, rows(length, 100)


def test_a_fork_has_the_values_and_shares_their_memory() -> None:
    state, expected = grown()
    fork = state.fork()
    assert fork.model is not None
    assert np.array_equal(past(fork), expected)
    assert graphs.address(past(fork)) == graphs.address(past(state))
    assert outcome(fork) == "not run yet"


def test_forks_race_for_the_tail_once() -> None:
    """The first to append is in place, the other copies once, then both are in place. Rule 4.4.10."""
    state, expected = grown()
    fork, third = state.fork(), state.fork()
    seen = {}
    for step in range(3):
        for name, holder in (("fork", fork), ("state", state), ("third", third)):
            holder.run({"new": rows(1, 1000 * step + len(name))})
            seen[name, step] = outcome(holder)
    assert seen["fork", 0] == "in place"
    assert "taken" in seen["state", 0]
    assert "taken" in seen["third", 0]
    assert all(seen[name, step] == "in place" for name in ("fork", "state", "third") for step in (1, 2))
    for name, holder in (("fork", fork), ("state", state), ("third", third)):
        tail = [rows(1, 1000 * step + len(name)) for step in range(3)]
        assert np.array_equal(past(holder), np.concatenate([expected, *tail], axis=2))


def test_a_fork_of_an_imported_value_and_of_a_fork() -> None:
    first = rows(2, 7)
    state = runtime.PersistentValueState(model(), {"past": first})
    fork = state.fork()
    deep = fork.fork()
    assert graphs.address(past(deep)) == first.__array_interface__["data"][0]
    for index, holder in enumerate((state, fork, deep)):
        holder.run({"new": rows(1, 50 * index)})
    for index, holder in enumerate((state, fork, deep)):
        assert np.array_equal(past(holder), np.concatenate([first, rows(1, 50 * index)], axis=2))


def test_a_fork_outlives_what_it_came_from() -> None:
    state, expected = grown()
    fork = state.fork()
    state.close()
    del state
    fork.run({"new": rows(2, 3)})
    assert np.array_equal(past(fork), np.concatenate([expected, rows(2, 3)], axis=2))


def test_a_failed_call_of_a_fork_touches_nobody() -> None:
    state, expected = grown()
    fork = state.fork()
    with pytest.raises(refeed.ValueTypeError):
        fork.run({"new": np.zeros((B, H + 1, 1, D), np.float32)})
    assert np.array_equal(past(fork), expected)
    state.run({"new": rows(1, 9)})
    assert outcome(state) == "in place"


def test_forks_on_threads_see_their_own_values() -> None:
    state, expected = grown()
    forks = [state.fork() for _ in range(4)]
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(50):
                forks[number].run({"new": rows(1, 1000 * number + step)})
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for number, fork in enumerate(forks):
        tail = [rows(1, 1000 * number + step) for step in range(50)]
        assert np.array_equal(past(fork), np.concatenate([expected, *tail], axis=2))


def test_a_checkpoint_is_gone_back_to_any_number_of_times() -> None:
    state, expected = grown()
    checkpoint = state.checkpoint()
    held = checkpoint.values["past"]
    for start in (11, 22):
        state.run({"new": rows(3, start)})
        assert np.array_equal(past(state), np.concatenate([expected, rows(3, start)], axis=2))
        state.restore(checkpoint)
        assert np.array_equal(past(state), expected)
        assert graphs.address(past(state)) == graphs.address(np.asarray(held))
        assert outcome(state) == "not run yet"
    state.run({"new": rows(1, 5)})
    assert "taken" in outcome(state)
    assert np.array_equal(np.asarray(held), expected)


def test_a_checkpoint_serves_every_state_of_its_model_and_no_other() -> None:
    shared = model()
    one = runtime.PersistentValueState(shared, {"past": rows(3, 0)})
    two = runtime.RuntimeSession(shared).new_state({"past": rows(1, 0)})
    two.restore(one.checkpoint())
    assert np.array_equal(past(two), rows(3, 0))
    other, expected = grown()
    with pytest.raises(refeed.ValueTypeError, match="another model"):
        other.restore(one.checkpoint())
    assert np.array_equal(past(other), expected)
    with pytest.raises(TypeError):
        other.restore({"past": rows(1, 0)})  # type: ignore[arg-type]


def test_a_checkpoint_outlives_its_state() -> None:
    state, expected = grown()
    checkpoint = state.checkpoint()
    fork = state.fork()
    state.close()
    fork.restore(checkpoint)
    assert np.array_equal(past(fork), expected)
    assert "1 binding" in repr(checkpoint)


def publish_once() -> refeed.Model:
    """`fixed` is published by the first call only; `count` by every one."""
    nodes = [
        helper.make_node("Add", ["fixed", "delta"], ["fixed_out"]),
        helper.make_node("Add", ["count", "delta"], ["count_out"]),
    ]
    vector: graphs.Shape = [2]
    proto = graphs.model(
        nodes,
        [graphs.info(name, graphs.FLOAT, vector) for name in ("delta", "fixed", "count")],
        [graphs.info(name, graphs.FLOAT, vector) for name in ("fixed_out", "count_out")],
    )
    pairs = [("fixed", "fixed_out"), ("count", "count_out")]
    return refeed.bind(proto, pairs, publish={"fixed": "once", "count": "always"})[0]


def test_forks_and_checkpoints_know_what_was_published() -> None:
    zero, one = np.zeros(2, np.float32), np.ones(2, np.float32)
    state = runtime.PersistentValueState(publish_once(), {"fixed": zero, "count": zero})
    before = state.checkpoint()
    state.run({"delta": one})
    fork = state.fork()
    fork.run({"delta": one})
    values = fork.values
    assert [float(np.asarray(values[name])[0]) for name in ("fixed", "count")] == [1, 2]
    state.restore(before)
    state.run({"delta": one * 5})
    assert float(np.asarray(state.values["fixed"])[0]) == 5


def test_closed_states_refuse_everything() -> None:
    state, _ = grown()
    checkpoint = state.checkpoint()
    state.close()
    for attempt in (
        state.fork,
        state.checkpoint,
        lambda: state.restore(checkpoint),
        lambda: state.truncate(1),
        lambda: state.select([0]),
    ):
        with pytest.raises(refeed.StateClosedError):
            attempt()


def test_a_session_makes_states_that_share_its_plan() -> None:
    """S004."""
    session = runtime.RuntimeSession(model())
    one = session.new_state({"past": rows(0, 0)})
    two = session.new_state({"past": rows(1, 4)})
    one.run({"new": rows(2, 1)})
    assert np.array_equal(past(one), rows(2, 1))
    assert np.array_equal(past(two), rows(1, 4))
    for initial, text in (
        ({}, "missing initial"),
        ({"past": rows(1, 0), "other": rows(1, 0)}, "exactly the retained"),
        ({"past": np.zeros((B, H, 1), np.float32)}, "rank mismatch"),
    ):
        with pytest.raises(refeed.ValueTypeError, match=text):
            session.new_state(initial)
    with pytest.raises(refeed.ModelError, match="binds no input"):
        runtime.RuntimeSession(graphs.concat(B, H, D)).new_state({})


def test_the_cost_of_a_second_state_does_not_grow_with_its_values() -> None:
    """No bound on time: a state of a thousand rows and one of a hundred thousand take about as long to fork."""
    taken = []
    for length in (1_000, 100_000):
        state, _ = grown(length)
        state.fork()
        start = time.perf_counter()
        forks = [state.fork() for _ in range(200)]
        taken.append(time.perf_counter() - start)
        assert all(graphs.address(past(fork)) == graphs.address(past(state)) for fork in forks[:3])
    assert taken[1] < 20 * taken[0]
