"""DLPack capsules made to do harm: each is refused with a typed error or imported right, and deleted exactly once."""

import gc
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

import graphs
import numpy as np
import pytest
from handmade import Handmade
from refeed import runtime
from refeed.runtime import Tensor

ROUNDS = int(os.environ.get("REFEED_CAPSULES", "2000"))

# Wrong in the header; each as a capsule of before version 1 and as one of version 1.
HEADERS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "two lanes": ({"lanes": 2}, ValueError, "one lane, got 2"),
    "no lanes": ({"lanes": 0}, ValueError, "one lane, got 0"),
    "65535 lanes": ({"lanes": 65535}, ValueError, "one lane, got 65535"),
    "memory of a GPU": ({"device": 2}, TypeError, "CPU"),
    "device 0": ({"device": 0}, TypeError, "CPU"),
    "negative device": ({"device": -1}, TypeError, "CPU"),
    "strided": ({"strides": [8, 1]}, TypeError, "C-contiguous"),
    "negative strides": ({"strides": [-4, 1]}, TypeError, "C-contiguous"),
    "overlapping": ({"strides": [0, 0]}, TypeError, "C-contiguous"),
    "rows that overlap": ({"strides": [3, 1]}, TypeError, "C-contiguous"),
    "huge strides": ({"strides": [2**62, 2**62]}, TypeError, "C-contiguous"),
    "least strides": ({"strides": [-(2**63), -(2**63)]}, TypeError, "C-contiguous"),
    "no memory": ({"null": True}, ValueError, "without memory"),
    "misaligned": ({"offset": 2}, ValueError, "aligned"),
    "offset beyond memory": ({"offset": 2**64 - 1}, OverflowError, "18446744073709551615"),
    "offset that wraps": ({"offset": 2**64 - 64}, OverflowError, "byte offset"),
    "no shape": ({"no_shape": True}, ValueError, "without a shape"),
    "negative rank": ({"ndim": -1}, ValueError, "axes, got -1"),
    "least rank": ({"ndim": -(2**31)}, ValueError, "axes, got -2147483648"),
    "huge rank": ({"ndim": 2**31 - 1}, ValueError, "axes, got 2147483647"),
    "one axis too many": ({"shape": [1] * 65}, ValueError, "axes, got 65"),
    "negative extent": ({"shape": [-1, 2]}, ValueError, "-1"),
    "negative extent beside none": ({"shape": [0, -1]}, ValueError, "-1"),
    "too many elements": ({"shape": [2**62, 2**62]}, OverflowError, "does not fit in memory"),
    "too many bytes": ({"shape": [2**62]}, OverflowError, "does not fit in memory"),
    "product that wraps to 4": (
        {"shape": [4194305, 4194305, 211106198978564]},
        OverflowError,
        "does not fit in memory",
    ),
    "unknown code": ({"code": 99}, ValueError, "not supported"),
    "opaque elements": ({"code": 3, "bits": 64}, ValueError, "not supported"),
    "odd width": ({"bits": 24}, ValueError, "not supported"),
    "no width": ({"bits": 0}, ValueError, "not supported"),
}
# Wrong in what only version 1 has.
VERSIONS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "version 2": ({"version": (2, 0)}, ValueError, "version 1"),
    "version 0": ({"version": (0, 9)}, ValueError, "version 1"),
    "last version": ({"version": (2**32 - 1, 2**32 - 1)}, ValueError, "version 1"),
    "float4 in whole bytes": ({"code": 17, "bits": 4, "flags": 4}, ValueError, "packed"),
}
REFUSED = {
    **{f"legacy: {name}": ({"version": None, **case[0]}, *case[1:]) for name, case in HEADERS.items()},
    **HEADERS,
    **VERSIONS,
}


def _refused(producer: Any, kind: type[Exception], text: str) -> None:
    """The import is refused by every door, with the name of the value."""
    with pytest.raises(kind, match=text) as caught:
        Tensor(producer, name="hostile")
    assert "hostile" in str(caught.value)


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_headers_are_refused_and_deleted_once(name: str) -> None:
    keywords, kind, text = REFUSED[name]
    keywords = {"shape": [3, 4], **keywords}
    producer = Handmade(**keywords)
    _refused(producer, kind, text)
    gc.collect()
    assert (producer.deleted, producer.abandoned) == (1, 0), "whoever takes a capsule calls the deleter, once"


def test_a_step_that_is_fed_one_leaves_the_state(make_state: Callable[..., runtime.PersistentValueState]) -> None:
    state = make_state()
    state.run({"delta": np.ones(2, np.float32)})
    for keywords, kind, _ in REFUSED.values():
        for attempt in (lambda given: state.run({"delta": given}), lambda given: state.reset({"past": given})):
            producer = Handmade(**{"shape": [2], **keywords})
            if "strides" in keywords:
                producer = Handmade([2], strides=[2], version=keywords.get("version", (1, 0)))
            with pytest.raises(kind):
                attempt(producer)
            gc.collect()
            assert producer.deleted == 1
    assert state.values["past"].numpy().tolist() == [1, 1]


# Unusual, but right.
ACCEPTED: dict[str, dict[str, Any]] = {
    "no strides": {},
    "dense strides": {"strides": [4, 1]},
    "an axis of one with any stride": {"shape": [1, 7], "strides": [2**62, 1]},
    "an offset": {"offset": 16},
    "page-locked memory": {"device": 3},
    "page-locked memory of ROCm": {"device": 11},
    "64 axes": {"shape": [1] * 64},
    "no axes": {"shape": []},
    "no axes and no shape": {"shape": [], "no_shape": True},
    "no elements and no memory": {"shape": [0, 3], "null": True},
    "no elements, strides that mean nothing": {"shape": [3, 0], "strides": [-5, 2**62]},
    "no elements among huge extents": {"shape": [2**40, 0]},
}
MARKS: dict[str, dict[str, Any]] = {
    "a later minor version": {"version": (1, 2**32 - 1)},
    "read only": {"flags": 1},
    "copied": {"flags": 2},
    "flags of the future": {"flags": 2**64 - 8},
}
RIGHT = {**{f"legacy: {name}": {"version": None, **case} for name, case in ACCEPTED.items()}, **ACCEPTED, **MARKS}


@pytest.mark.parametrize("deleter", [True, False], ids=["", "no deleter"])
@pytest.mark.parametrize("name", RIGHT)
def test_unusual_headers_that_are_right(name: str, deleter: bool) -> None:
    keywords = {"shape": [3, 4], **RIGHT[name]}
    producer = Handmade(**keywords, no_deleter=not deleter)
    tensor = Tensor(producer)
    shape = tuple(keywords["shape"])
    assert tensor.shape == shape
    first = keywords.get("offset", 0) // 4
    want = np.arange(first, first + int(np.prod(shape, dtype=int)), dtype=np.float32).reshape(shape)
    out = tensor.numpy()
    np.testing.assert_array_equal(out, want)
    assert not out.flags.writeable
    if out.size:
        assert graphs.address(out) == graphs.address(producer.memory) + 4 * first
        assert producer.deleted == 0
        del tensor
        gc.collect()
        assert producer.deleted == 0, "a view is still alive"
    del out
    tensor = Tensor(np.zeros(1, np.float32))
    gc.collect()
    assert (producer.deleted, producer.abandoned) == (int(deleter), 0)


def test_a_capsule_that_was_used_is_refused_and_not_deleted_again() -> None:
    producer = Handmade([2])
    capsule = producer.capsule()

    class Again:
        held = capsule

        def __dlpack__(self, **_keywords: Any) -> Any:
            return self.held

    del capsule
    again: Any = Again()  # without `__dlpack_device__`, as old producers are
    tensor = Tensor(again)
    for _ in range(3):
        _refused(again, ValueError, "used")
    assert producer.deleted == 0
    del tensor
    Again.held = None
    gc.collect()
    assert (producer.deleted, producer.abandoned) == (1, 0)


@pytest.mark.parametrize("name", [b"used_dltensor", b"used_dltensor_versioned", b"dltensor_", b"DLTENSOR", b""])
def test_capsules_of_other_names_stay_their_owners(name: bytes) -> None:
    producer = Handmade([2], name=name)
    _refused(producer, ValueError, "capsule")
    gc.collect()
    assert (producer.deleted, producer.abandoned) == (1, 1), "only the capsule's own destructor may delete"


def _raising(error: BaseException) -> Callable[..., Any]:
    def method(*_positions: Any, **_keywords: Any) -> Any:
        raise error

    return method


METHODS: dict[str, tuple[dict[str, Any], type[BaseException]]] = {
    "no capsule": ({"__dlpack__": lambda _self, **_k: 7}, TypeError),
    "None": ({"__dlpack__": lambda _self, **_k: None}, TypeError),
    "itself": ({"__dlpack__": lambda self, **_k: self}, TypeError),
    "an attribute": ({"__dlpack__": 5}, TypeError),
    "raises": ({"__dlpack__": _raising(ZeroDivisionError("planted"))}, ZeroDivisionError),
    "raises TypeError": ({"__dlpack__": _raising(TypeError("planted"))}, TypeError),
    "interrupted": ({"__dlpack__": _raising(KeyboardInterrupt())}, KeyboardInterrupt),
    "exits": ({"__dlpack__": _raising(SystemExit(3))}, SystemExit),
    "device raises": ({"__dlpack_device__": _raising(ZeroDivisionError("planted"))}, ZeroDivisionError),
    "device of one number": ({"__dlpack_device__": lambda _self: 1}, TypeError),
    "device of text": ({"__dlpack_device__": lambda _self: ("cpu", 0)}, TypeError),
    "device of three": ({"__dlpack_device__": lambda _self: (1, 0, 0)}, ValueError),
    "device beyond 32 bits": ({"__dlpack_device__": lambda _self: (2**40, 0)}, OverflowError),
}


@pytest.mark.parametrize("name", METHODS)
def test_producers_whose_methods_are_wrong(name: str) -> None:
    methods, kind = METHODS[name]
    made: list[Handmade] = []

    class Wrong(Handmade):
        def capsule(self) -> Any:
            made.append(self)
            return super().capsule()

    for method, replacement in methods.items():
        setattr(Wrong, method, replacement)
    with pytest.raises(kind):
        Tensor(Wrong([2]))
    gc.collect()
    assert all(producer.deleted == 1 for producer in made)


def test_a_deleter_that_raises_is_reported_and_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: reported.append(str(told.exc_value)))

    def fail() -> None:
        raise ZeroDivisionError("planted")

    imported = Handmade([2], on_delete=fail)
    Tensor(imported)
    refused = Handmade([2], on_delete=fail, lanes=2)
    _refused(refused, ValueError, "lane")  # the error of the import, not the deleter's
    gc.collect()
    assert (imported.deleted, refused.deleted) == (1, 1)
    assert reported == ["planted", "planted"]


def test_a_deleter_may_come_back() -> None:
    seen: list[Any] = []

    def come_back() -> None:
        assert sys.exc_info() == (None, None, None)
        seen.append(Tensor(Handmade([3])).numpy().tolist())

    Tensor(Handmade([2], on_delete=come_back))
    _refused(Handmade([2], on_delete=come_back, lanes=2), ValueError, "lane")
    gc.collect()
    assert seen == [[0, 1, 2]] * 2


def test_the_last_view_may_go_on_a_thread_that_python_has_not_made(accumulate: Any) -> None:
    # A step on another thread lets go of the retained value while it does not hold the interpreter.
    producer = Handmade([2])
    state = runtime.PersistentValueState(accumulate, {"past": producer})
    assert producer.deleted == 0
    thread = threading.Thread(target=lambda: state.run({"delta": np.ones(2, np.float32)}))
    thread.start()
    thread.join()
    gc.collect()
    assert producer.deleted == 1
    assert state.values["past"].numpy().tolist() == [1, 2]


def test_exports_and_imports_balance_on_four_threads() -> None:
    deleted = [0] * 4
    threads = 4
    made = [0] * threads
    faults: list[str] = []
    # What one thread imports, the next one drops.
    lines: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in range(threads)]

    def work(number: int) -> None:
        def count() -> None:
            deleted[number] += 1

        own = Tensor(np.arange(6, dtype=np.float32))
        for turn in range(ROUNDS // threads):
            producer = Handmade([5, 7], version=None if turn % 2 else (1, 0), on_delete=count)
            made[number] += 1
            tensor = Tensor(producer)
            # A list lets go from its end, so the producer, whose header the others read, goes last.
            views: list[Any] = [producer, tensor, np.from_dlpack(tensor), tensor.numpy(), np.from_dlpack(own)]
            del producer
            if float(views[2][4, 6]) != 34 or float(views[4][5]) != 5:
                faults.append(f"{number}, {turn}")
            tensor.__dlpack__(max_version=(1, 0))
            del tensor
            lines[(number + 1) % threads].put(views)
            del views
            while not lines[number].empty():
                lines[number].get()

    before = threading.active_count()
    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for line in lines:
        while not line.empty():
            line.get()
    gc.collect()
    assert faults == []
    assert made == [ROUNDS // threads] * threads
    # The counters are bumped by whoever drops; under the global lock nothing is lost.
    assert deleted == made
    assert threading.active_count() == before


def test_enough_capsules_are_hostile() -> None:
    assert len(REFUSED) + len(METHODS) >= 60
