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


NESTED = """
<ir_version: 10, opset_import: ["" : 24]>
g (bool go, bool on, float[1,2,S,4] q, float[1,2,S,4] new, float[1,2,P,4] past_k, float[1,2,P,4] past_v)
  => (float[1,2,S,4] y, float[1,2,T,4] present_k, float[1,2,T,4] present_v)
{
  y, present_k, present_v = If (go) <
    then_branch = one () => (float[1,2,S,4] a, float[1,2,T,4] ka, float[1,2,T,4] va)
      { a, ka, va = If (on) <
          then_branch = three () => (float[1,2,S,4] c, float[1,2,T,4] kc, float[1,2,T,4] vc)
            { c, kc, vc = If (go) <
                then_branch = five () => (float[1,2,S,4] e, float[1,2,T,4] ke, float[1,2,T,4] ve)
                  { e, ke, ve = Attention <is_causal = 1> (q, new, new, , past_k, past_v) },
                else_branch = six () => (float[1,2,S,4] f, float[1,2,T,4] kf, float[1,2,T,4] vf)
                  { f, kf, vf = Attention (q, new, new, , past_k, past_v) }
              > },
          else_branch = four () => (float[1,2,S,4] d, float[1,2,T,4] kd, float[1,2,T,4] vd)
            { d = Neg (q) kd = Concat <axis = 2> (past_k, new) vd = Concat <axis = 2> (past_v, new) }
        > },
    else_branch = two () => (float[1,2,S,4] b, float[1,2,T,4] kb, float[1,2,T,4] vb)
      { b, kb, vb = Attention <is_causal = 1> (q, new, new, , past_k, past_v) }
  >
}
"""


@pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")
def test_branches_of_branches_append_in_place() -> None:
    pairs = [("past_k", "present_k"), ("past_v", "present_v")]
    model, _ = refeed.bind(onnx.parser.parse_model(NESTED), pairs=pairs, uses="any")
    assert runtime.RuntimeSession(model).forecast() == ["in place"] * 2
    empty = np.zeros((1, 2, 0, 4), np.float32)
    state = runtime.PersistentValueState(model, {"past_k": empty, "past_v": empty})
    whole = empty
    kept: list[tuple[Any, np.ndarray]] = []
    for step in range(12):
        feeds = _feeds(step, step % 3 != 0) | {"on": np.array(step % 2 == 0)}
        out = state.run(feeds)
        whole = np.concatenate([whole, feeds["new"]], axis=2)
        kept.append((out["present_k"], whole))
        if step:
            assert _outcomes(state) == ["in place"] * 2, step
    for present, want in kept:
        np.testing.assert_array_equal(np.asarray(present), want)


WRITTEN = """
<ir_version: 10, opset_import: ["" : 24]>
g (bool go, bool on, float[1,2,1,4] new, int64[1] at, float[1,2,8,4] past) => (float[1,2,8,4] present)
{
  present = If (go) <
    then_branch = one () => (float[1,2,8,4] a)
      { a = If (on) <
          then_branch = three () => (float[1,2,8,4] c) { c = TensorScatter <mode = "circular"> (past, new, at) },
          else_branch = four () => (float[1,2,8,4] d) { less = Neg (new) d = TensorScatter (past, less, at) }
        > },
    else_branch = two () => (float[1,2,8,4] b) { b = Neg (past) }
  >
}
"""


def test_branches_write_over_by_turns() -> None:
    model, _ = refeed.bind(onnx.parser.parse_model(WRITTEN), pairs=[("past", "present")], uses="any")
    assert runtime.RuntimeSession(model).forecast() == ["in place"]
    whole = np.zeros((1, 2, 8, 4), np.float32)
    state = runtime.PersistentValueState(model, {"past": whole})
    outcomes, older = [], []
    # Two steps of warming up; then a branch that computes the value anew, and two steps until there is a second buffer.
    writes = [True, True, True, True, False, True, True, True]
    for step, go in enumerate(writes):
        rng = np.random.default_rng(step)
        feeds = {"go": np.array(go), "on": np.array(step % 2 == 0), "at": np.array([step])}
        feeds["new"] = rng.standard_normal((1, 2, 1, 4), dtype=np.float32)
        out = state.run(feeds)
        if go:
            whole = whole.copy()
            whole[:, :, step] = (feeds["new"] if step % 2 == 0 else -feeds["new"])[:, :, 0]
        else:
            whole = -whole
        np.testing.assert_array_equal(np.asarray(out["present"]), whole)
        older.append((out["present"], whole))
        older = older[-1:]
        outcomes += _outcomes(state)
    assert outcomes[3] == "in place"
    assert outcomes[4] == "computed by a branch of `If` that does not append to it"
    assert outcomes[5].startswith("copied because there is no second buffer")
    assert outcomes[7] == "in place"


SWAPPED = """
<ir_version: 10, opset_import: ["" : 24]>
g (float[1,2,S,4] q, float[1,2,S,4] new, float[1,2,P,4] past_k, float[1,2,P,4] past_v)
  => (float[1,2,S,4] y, float[1,2,T,4] present_k, float[1,2,T,4] present_v)
{ y, present_k, present_v = Attention <is_causal = 1> (q, new, new, , past_v, past_k) }
"""


@pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")
def test_an_operand_that_another_output_grows_from_is_told_before_and_after() -> None:
    pairs = [("past_k", "present_k"), ("past_v", "present_v")]
    model, _ = refeed.bind(onnx.parser.parse_model(SWAPPED), pairs=pairs)
    said = [
        f"copied because `past_{kind}` is not the operand of which Attention makes `present_{kind}`" for kind in "kv"
    ]
    assert runtime.RuntimeSession(model).forecast() == said
    empty = np.zeros((1, 2, 0, 4), np.float32)
    state = runtime.PersistentValueState(model, {"past_k": empty, "past_v": empty})
    for step in range(3):
        feeds = _feeds(step, True)
        del feeds["go"]
        state.run(feeds)
        assert _outcomes(state) == said
