"""A failure at any point of a call leaves the state as it was, and the retry gives what an undisturbed run gives.

Needs the native module built with the feature `testing`, as the test build is; the released one does not have it.
"""

import json
import pathlib
from typing import Any

import graphs
import numpy as np
import pytest
import refeed
from graphs import Array
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


def _bits(values: dict[str, runtime.Tensor]) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in values.items()}


def _pointers(state: runtime.PersistentValueState) -> dict[str, int]:
    return {name: graphs.address(tensor.numpy()) for name, tensor in state.values.items()}


@pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")
@pytest.mark.parametrize(
    "name", ["dynamo18_llama", "optimum_gpt2", "optimum_t5_merged", "genai_llama_fp32", "mobius_llama", "ts17_lstmlm"]
)
def test_a_failure_anywhere_in_a_step(name: str) -> None:
    model, initial, (first, second, third) = _start(name)

    def fresh() -> runtime.PersistentValueState:
        state = runtime.PersistentValueState(model, initial)
        state.run(first)
        return state

    undisturbed = fresh()
    want = [_bits(undisturbed.run(second)), _bits(undisturbed.run(third))]
    state = fresh()
    number = 0
    while True:
        before = _bits(state.values)
        pointers = _pointers(state)
        testing.arm(number)
        failed = ""
        try:
            out = state.run(second)
        except refeed.KernelError as error:
            failed = str(error)
        assert testing.disarm() == bool(failed), "a call fails exactly when its planted failure happened"
        if not failed:
            break
        assert "injected failure" in failed
        assert _bits(state.values) == before
        assert _pointers(state) == pointers
        number += 1
    assert number > 30
    assert number % 2 == 1, "one check before and one after each node, and one before the publication"
    assert _bits(out) == want[0]
    assert _bits(state.run(third)) == want[1]


def test_a_panic_is_an_internal_error() -> None:
    with pytest.raises(refeed.InternalError, match="planted text") as caught:
        testing.panic("planted text")
    assert isinstance(caught.value, Exception)
    assert not isinstance(caught.value, (ValueError, RuntimeError))


def test_the_module_under_test_has_planted_failures() -> None:
    # What `test_public_api` looks for in the ordinary module is here, so that it can find it.
    assert b"injected failure" in pathlib.Path(_native.__file__).read_bytes()
