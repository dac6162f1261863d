"""Appends inside the branches of an `If` whose output is the bound output."""

from typing import Any

import numpy as np
import onnx.parser
import pytest
import refeed
from refeed import runtime

GRAPH = """
<ir_version: 10, opset_import: ["" : 24]>
g (bool go, float[1,2,S,4] q, float[1,2,S,4] new, float[1,2,P,4] past_k, float[1,2,P,4] past_v)
  => (float[1,2,S,4] y, float[1,2,T,4] present_k, float[1,2,T,4] present_v)
{
  y, present_k, present_v = If (go) <
    then_branch = one () => (float[1,2,S,4] a, float[1,2,T,4] ka, float[1,2,T,4] va)
      { a, ka, va = Attention <is_causal = 1> (q, new, new, , past_k, past_v) },
    else_branch = two () => (float[1,2,S,4] b, float[1,2,T,4] kb, float[1,2,T,4] vb)
      { b = Neg (q) kb = Concat <axis = 2> (past_k, new) vb = Concat <axis = 2> (new, past_v) }
  >
}
"""


def _state(**options: Any) -> runtime.PersistentValueState:
    pairs = [("past_k", "present_k"), ("past_v", "present_v")]
    model, _ = refeed.bind(onnx.parser.parse_model(GRAPH), pairs=pairs, uses="any")
    empty = np.zeros((1, 2, 0, 4), np.float32)
    return runtime.PersistentValueState(model, {"past_k": empty, "past_v": empty}, **options)


def _feeds(step: int, go: bool, rows: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(step)
    query, new = rng.standard_normal((2, 1, 2, rows, 4), dtype=np.float32)
    return {"go": np.array(go), "q": query, "new": new}


def _outcomes(state: runtime.PersistentValueState) -> list[str]:
    return [binding.outcome for binding in state.explain().bindings]


@pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")
def test_a_branch_appends_in_place_and_older_outputs_stay() -> None:
    state = _state()
    keys = values = np.zeros((1, 2, 0, 4), np.float32)
    kept: list[tuple[Any, Any, np.ndarray, np.ndarray]] = []
    for step, go in enumerate([True, True, False, True, True, False, False]):
        feeds = _feeds(step, go)
        out = state.run(feeds)
        keys = np.concatenate([keys, feeds["new"]], axis=2)
        values = np.concatenate([values, feeds["new"]] if go else [feeds["new"], values], axis=2)
        kept.append((out["present_k"], out["present_v"], keys, values))
        key, value = _outcomes(state)
        if step > 0:
            assert key == "in place", step
        if not go:
            assert value == "copied because Concat does not put the retained value first"
        elif step == 1:
            assert value == "in place"
    for present_k, present_v, want_k, want_v in kept:
        np.testing.assert_array_equal(np.asarray(present_k), want_k)
        np.testing.assert_array_equal(np.asarray(present_v), want_v)


@pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")
def test_a_failed_branch_leaves_the_state_as_it_was() -> None:
    state = _state()
    state.run(_feeds(0, True, rows=3))
    before = {name: np.array(value) for name, value in state.values.items()}
    wrong = _feeds(1, True)
    wrong["q"] = wrong["q"][:, :1].repeat(3, axis=1)
    with pytest.raises(refeed.Error):
        state.run(wrong)
    after = state.values
    for name, value in before.items():
        np.testing.assert_array_equal(np.asarray(after[name]), value)
    state.run(_feeds(2, False))
    assert _outcomes(state)[0] == "in place"


@pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")
def test_exclusive_reuse_knows_no_append_inside_of_a_branch() -> None:
    state = _state(append_reuse="exclusive")
    for step in range(3):
        state.run(_feeds(step, True))
        assert _outcomes(state) == ["computed by a branch of `If`"] * 2
