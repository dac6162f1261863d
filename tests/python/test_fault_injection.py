"""A failure at any point of a call leaves the state as it was, and the retry gives what an undisturbed run gives.

Needs the native module built with the feature `testing`, as the test build is; the released one does not have it.
"""

import json
import pathlib
from collections.abc import Callable
from typing import Any

import graphs
import numpy as np
import pytest
import refeed
from graphs import Array
from onnx import TensorProto, helper
from refeed import _native, runtime

MODELS = pathlib.Path(__file__).resolve().parents[1] / "data" / "models"
CASES: list[dict[str, Any]] = json.loads((MODELS / "manifest.json").read_text())["cases"]
BY_NAME = {case["name"]: case for case in CASES}

testing: Any = _native._testing  # type: ignore[attr-defined]


def _start(name: str) -> tuple[refeed.Model, dict[str, Array], list[dict[str, Array]]]:
    """The bound model, its initial values, and the feeds of its first steps."""
    case = BY_NAME[name]
    stored = np.load(MODELS / name / case["refs"][0]["file"])
    publish = {past: "always" if ".decoder." in past else "once" for past, _ in case["pairs"]}
    keywords: dict[str, Any] = {"publish": publish} if case.get("publish") else {}
    pairs = [(past, present) for past, present in case["pairs"]]
    model, _ = refeed.bind(MODELS / name / case["model"], pairs, uses="any", **keywords)
    initial = {key.removeprefix("init/"): stored[key] for key in stored.files if key.startswith("init/")}
    steps: list[dict[str, Array]] = []
    feeds: dict[str, Array] = {}
    for step in range(3):
        head = f"step{step}/in/"
        feeds = feeds | {key.removeprefix(head): stored[key] for key in stored.files if key.startswith(head)}
        steps.append(feeds)
    return model, initial, steps


def _leaves(value: Any) -> list[Array]:
    if isinstance(value, runtime.Tensor):
        return [value.numpy()]
    return [leaf for element in value for leaf in _leaves(element)]


def _bits(values: dict[str, Any]) -> dict[str, list[tuple[tuple[int, ...], bytes]]]:
    return {name: [(leaf.shape, leaf.tobytes()) for leaf in _leaves(value)] for name, value in values.items()}


def _pointers(state: runtime.PersistentValueState) -> dict[str, list[int]]:
    return {name: [graphs.address(leaf) for leaf in _leaves(value)] for name, value in state.values.items()}


# What a step through Python passes, and with what it fails there.
ERRORS: dict[str, tuple[type[Exception], ...]] = {
    "allocation": (MemoryError,),
    "kernel": (refeed.KernelError,),
    "validation": (refeed.ValueTypeError,),
    "event": (MemoryError,),
    "from_python": (MemoryError,),
    "to_python": (MemoryError,),
    "publication": (refeed.KernelError,),
}


def _loop() -> tuple[refeed.Model, dict[str, Any], list[dict[str, Any]]]:
    """Make a model of which each step puts x * 2, x * 4, ... behind the sequence `past`, one each iteration."""
    record = helper.make_tensor_sequence_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["d"]),
            helper.make_node("Add", ["s", "s"], ["t"]),
            helper.make_node("SequenceInsert", ["log", "t"], ["longer"]),
        ],
        "body",
        [
            graphs.info("i", TensorProto.INT64, []),
            graphs.info("c", TensorProto.BOOL, []),
            graphs.info("s", graphs.FLOAT, [2]),
            record("log", graphs.FLOAT, None),
        ],
        [
            graphs.info("d", TensorProto.BOOL, []),
            graphs.info("t", graphs.FLOAT, [2]),
            record("longer", graphs.FLOAT, None),
        ],
    )
    proto = graphs.model(
        [helper.make_node("Loop", ["m", "", "x", "past"], ["y", "present"], body=body)],
        [
            graphs.info("m", TensorProto.INT64, []),
            graphs.info("x", graphs.FLOAT, [2]),
            record("past", graphs.FLOAT, None),
        ],
        [graphs.info("y", graphs.FLOAT, [2]), record("present", graphs.FLOAT, None)],
    )
    model, _ = refeed.bind(proto, [("past", "present")])
    steps = [{"m": np.array(count), "x": np.array([count, -count], np.float32)} for count in (2, 3, 1)]
    return model, {"past": []}, steps


def _sequence() -> tuple[refeed.Model, dict[str, Any], list[dict[str, Any]]]:
    """A list of arrays that each step makes longer."""
    node = helper.make_node("SequenceInsert", ["past", "new"], ["present"])
    held = [helper.make_tensor_sequence_value_info(name, graphs.FLOAT, [2, 3]) for name in ("past", "present")]
    proto = graphs.model([node], [held[0], graphs.info("new", graphs.FLOAT, [2, 3])], [held[1]])
    model, _ = refeed.bind(proto, [("past", "present")])
    block = np.arange(6, dtype=np.float32).reshape(2, 3)
    return model, {"past": [block, block + 1]}, [{"new": block * step} for step in (2, 3, 4)]


def _plant(
    fresh: Callable[[], runtime.PersistentValueState],
    context: runtime.RuntimeContext,
    steps: tuple[dict[str, Any], dict[str, Any]],
    site: str,
    from_then_on: bool,
) -> tuple[int, int]:
    """Let passage after passage of a step fail; how many did, and how many of them the step got over."""
    second, third = steps
    undisturbed = fresh()
    want = [_bits(undisturbed.run(context, second)), _bits(undisturbed.run(context, third))]
    state = fresh()
    before, pointers = _bits(state.values), _pointers(state)
    number = survived = 0
    while True:
        testing.arm(site, number, from_then_on)
        failed: Exception | None = None
        out: dict[str, Any] = {}
        try:
            out = state.run(context, second)
        except Exception as error:
            failed = error
        fired = testing.disarm()
        if failed is not None:
            assert fired, f"failed without a planted failure: {failed!r}"
            assert isinstance(failed, ERRORS[site]), repr(failed)
            assert _bits(state.values) == before, (site, number)
            assert _pointers(state) == pointers, (site, number)
            number += 1
            continue
        assert _bits(out) == want[0], (site, number)
        if not fired:
            break
        # The arena may free what lies unused and ask once more; nothing else may go on after a failure.
        assert (site, from_then_on) == ("allocation", False)
        survived += 1
        number += 1
        state = fresh()
        before, pointers = _bits(state.values), _pointers(state)
    assert _bits(state.run(context, third)) == want[1]
    return number, survived


@pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")
@pytest.mark.parametrize(
    "name", ["sequence", "loop", "dynamo18_llama", "optimum_gpt2", "optimum_t5_merged", "mobius_llama", "ts17_lstmlm"]
)
def test_a_failure_anywhere_in_a_step(name: str) -> None:
    """Rules 4.2.6, 5.5.8; S094, S178."""
    assert sorted(ERRORS) == sorted(testing.sites())
    made = {"sequence": _sequence, "loop": _loop}.get(name)
    model, initial, (first, second, third) = made() if made else _start(name)
    context = runtime.RuntimeContext(events_enabled=True)

    def fresh() -> runtime.PersistentValueState:
        state = runtime.PersistentValueState(model, initial)
        state.run(context, first)
        context.clear_events()
        return state

    total = 0
    for site in ERRORS:
        for from_then_on in (False, True):
            planted, survived = _plant(fresh, context, (second, third), site, from_then_on)
            print(f"{name}: {site}, {'from then on' if from_then_on else 'once'}: {planted}, {survived} survived")
            assert planted > 0 or site == "allocation", site
            total += planted
    print(f"{name}: {total} in all")
    assert total > 20


@pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")
@pytest.mark.parametrize("name", [name for name, case in BY_NAME.items() if case.get("refs")])
def test_no_result_depends_on_what_memory_held_before(name: str) -> None:
    model, initial, steps = _start(name)
    seen = []
    for byte in (None, 0xA5, 0xFF):
        testing.fill(byte)
        state = runtime.PersistentValueState(model, initial)
        seen.append([_bits(state.run(feeds)) for feeds in steps])
        testing.fill(None)
    assert seen[0] == seen[1] == seen[2]


def test_a_reset_whose_values_cannot_be_read_changes_nothing() -> None:
    model, initial, (first, *_) = _sequence()
    state = runtime.PersistentValueState(model, initial)
    state.run(first)
    before, pointers = _bits(state.values), _pointers(state)
    for site in ("from_python", "validation"):
        number = 0
        while True:
            testing.arm(site, number, True)
            try:
                state.reset({"past": [np.zeros((2, 3), np.float32)] * 3})
            except ERRORS[site]:
                assert testing.disarm()
                assert (_bits(state.values), _pointers(state)) == (before, pointers)
                number += 1
                continue
            assert not testing.disarm()
            break
        assert number >= 1, site
        state = runtime.PersistentValueState(model, initial)
        state.run(first)
        pointers = _pointers(state)
    assert len(state.values["past"]) == 3


def test_a_panic_is_an_internal_error() -> None:
    with pytest.raises(refeed.InternalError, match="planted text") as caught:
        testing.panic("planted text")
    assert isinstance(caught.value, Exception)
    assert not isinstance(caught.value, (ValueError, RuntimeError))


def test_the_module_under_test_has_planted_failures() -> None:
    # What `test_public_api` looks for in the ordinary module is here, so that it can find it.
    assert b"injected failure" in pathlib.Path(_native.__file__).read_bytes()
