"""Attention that exporters write out in single nodes, through the attention kernel and node by node.

The Rust tests of the recogniser have the graphs that must not be recognised; here are whole exports, judged by the same
graph without recognition, by the official reference implementation, and by what the caches cost.
"""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx.reference
import pytest
import refeed
from refeed import runtime
from refeed.__main__ import main

MODELS = pathlib.Path(__file__).resolve().parents[1] / "data" / "models"
CASES: dict[str, dict[str, Any]] = {
    case["name"]: case for case in json.loads((MODELS / "manifest.json").read_text())["cases"]
}

#: Attentions that each case writes out, and how many of them the kernel computes.
EXPECTED = {
    "dynamo18_llama": (2, 2),
    "dynamo20_phi3": (2, 2),
    "dynamo23_llama": (0, 0),
    "mobius_llama": (0, 0),
    "optimum_gpt2": (2, 2),
    "optimum_llama": (2, 2),
    "optimum_t5_merged": (8, 8),
    "optimum_t5_withpast": (4, 4),
    "ts13_streamenc": (2, 2),
}
REFERENCES = [(name, reference) for name in EXPECTED for reference in CASES[name]["refs"]]


def _steps(name: str, reference: dict[str, Any], recognize: bool) -> Iterator[tuple[Any, dict[str, np.ndarray]]]:
    """Yield the state and its outputs for the stored feeds of each step."""
    case = CASES[name]
    folder = MODELS / case["dir"]
    stored = np.load(folder / reference["file"])
    publish: dict[str, Any] = {}
    if case.get("publish"):
        rules = {past: "always" if ".decoder." in past else "once" for past, _ in case["pairs"]}
        publish = {"publish": rules}
    pairs = [(past, present) for past, present in case["pairs"]]
    model, _ = refeed.bind(folder / case["model"], pairs=pairs, uses="any", **publish)
    initial = {key.removeprefix("init/"): stored[key] for key in stored.files if key.startswith("init/")}
    options = runtime.RuntimeSessionOptions(recognize_attention=recognize)
    state = runtime.PersistentValueState(model, initial, options)
    context = runtime.RuntimeContext(events_enabled=True)
    feeds: dict[str, Any] = {}
    for step in range(reference["steps"]):
        head = f"step{step}/in/"
        feeds |= {key.removeprefix(head): stored[key] for key in stored.files if key.startswith(head)}
        outputs = state.run(context, feeds)
        yield state, {key: np.asarray(value) for key, value in outputs.items()}


@pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")
@pytest.mark.parametrize(("name", "reference"), REFERENCES, ids=[f"{n}-{r['file']}" for n, r in REFERENCES])
def test_exports_agree_with_themselves_node_by_node(name: str, reference: dict[str, Any]) -> None:
    written, recognized = EXPECTED[name]
    both = zip(_steps(name, reference, True), _steps(name, reference, False), strict=True)
    for step, ((state, ours), (plain, theirs)) in enumerate(both):
        assert plain.explain().attention == []
        forms = state.explain().attention
        assert len(forms) == written, [str(form) for form in forms]
        assert sum(form.obstacle is None for form in forms) == recognized, [str(form) for form in forms]
        assert all(form.declined is None for form in forms), [str(form) for form in forms]
        assert ours.keys() == theirs.keys()
        for key, want in theirs.items():
            np.testing.assert_allclose(ours[key], want, rtol=2e-4, atol=2e-5, err_msg=f"step {step} {key}")


@pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")
@pytest.mark.parametrize("name", ["dynamo18_llama", "dynamo20_phi3", "optimum_llama"])
def test_no_node_writes_the_cache_again(name: str) -> None:
    reference = CASES[name]["refs"][0]
    *_, (state, _) = _steps(name, reference, True)
    explained = state.explain()
    assert explained.rewritten == {}
    assert {binding.outcome for binding in explained.bindings} == {"in place"}
    *_, (plain, _) = _steps(name, reference, False)
    assert plain.explain().rewritten != {}


def _grouped() -> onnx.ModelProto:
    text = """
    <ir_version: 10, opset_import: ["" : 18]>
    g (float[B,6,S,8] q, float[B,2,T,8] k, float[B,2,T,5] v, bool[S,T] keep, float[B,1,1,T] bias)
      => (float[B,6,S,5] y)
    <int64[1] two = {2}, int64[5] wide = {1, 1, 3, 1, 1}, int64[4] k_all = {0, 6, -1, 8},
     int64[4] v_all = {0, 6, -1, 5}, float scale = {0.25}, float low = {-3.4028235e38}>
    {
      k5 = Unsqueeze (k, two)
      k_copies = Expand (k5, wide)
      k_all_heads = Reshape (k_copies, k_all)
      k_t = Transpose <perm = [0, 1, 3, 2]> (k_all_heads)
      v5 = Unsqueeze (v, two)
      v_copies = Expand (v5, wide)
      v_all_heads = Reshape (v_copies, v_all)
      product = MatMul (q, k_t)
      scores = Mul (product, scale)
      put = Where (keep, scores, low)
      masked = Add (put, bias)
      weights = Softmax <axis = -1> (masked)
      y = MatMul (weights, v_all_heads)
    }
    """
    return onnx.parser.parse_model(text)


@pytest.mark.parametrize(("batch", "new", "total"), [(1, 1, 1), (2, 3, 7), (3, 1, 65), (1, 70, 129)])
def test_against_the_reference_implementation(batch: int, new: int, total: int) -> None:
    model = _grouped()
    session = runtime.RuntimeSession(model)
    (form,) = session.attention
    assert form.obstacle is None
    rng = np.random.default_rng(batch * 1000 + total)
    # A row that sees nothing weighs all keys alike in both forms, because the mask is the lowest number.
    keep = rng.random((new, total)) < 0.6
    feeds = {
        "q": rng.standard_normal((batch, 6, new, 8), dtype=np.float32),
        "k": rng.standard_normal((batch, 2, total, 8), dtype=np.float32),
        "v": rng.standard_normal((batch, 2, total, 5), dtype=np.float32),
        "keep": keep,
        "bias": rng.standard_normal((batch, 1, 1, total), dtype=np.float32),
    }
    expected: Any = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    got = np.asarray(session.run(feeds)["y"])
    np.testing.assert_allclose(got, expected[0], rtol=1e-4, atol=1e-5)
    assert session.attention[0].declined is None


def test_what_a_call_declines_is_counted_and_said() -> None:
    model = _grouped()
    session = runtime.RuntimeSession(model)
    feeds = {
        "q": np.ones((1, 6, 1, 8), np.float32),
        "k": np.full((1, 2, 3, 8), np.nan, np.float32),
        "v": np.ones((1, 2, 3, 5), np.float32),
        "keep": np.ones((1, 3), bool),
        "bias": np.zeros((1, 1, 1, 3), np.float32),
    }
    for calls in (1, 2):
        assert np.isnan(np.asarray(session.run(feeds)["y"])).all()
        (form,) = session.attention
        assert form.declined == (calls, "the result is not finite everywhere")
    assert "as written in 2 calls, in the last because the result is not finite" in str(form)
    assert repr(form) == f"<AttentionForm {form}>"
    assert form.node == "node 12 (MatMul)"
    assert form.nodes == 13


def test_the_option_turns_it_off_and_is_a_bool() -> None:
    model = _grouped()
    assert runtime.RuntimeSession(model, recognize_attention=False).attention == []
    options = runtime.RuntimeSessionOptions()
    assert options.recognize_attention is True
    options.recognize_attention = False
    assert options != runtime.RuntimeSessionOptions()
    assert "recognize_attention=False" in repr(options)
    assert runtime.RuntimeSession(model, options).attention == []
    with pytest.raises(TypeError, match="recognize_attention"):
        runtime.RuntimeSessionOptions(recognize_attention=1)  # type: ignore[arg-type]


def test_inspect_says_what_was_recognized(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(MODELS / CASES["optimum_llama"]["dir"] / "model.onnx")]) == 0
    out = capsys.readouterr().out
    assert out.count("one kernel for") == 2
    model = _grouped()
    (low,) = (tensor for tensor in model.graph.initializer if tensor.name == "low")
    low.CopyFrom(onnx.numpy_helper.from_array(np.array(-5.0, np.float32), "low"))
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    assert main(["inspect", str(path)]) == 0
    assert "as written: what stands in for masked scores is not low enough" in capsys.readouterr().out


def _bmm() -> onnx.ModelProto:
    """A decoder step with products of three axes, as TorchScript exports bmm, and a low number in masked places."""
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float16[B,3,S,8] q, float16[B,3,P,8] past_k, float16[B,3,P,5] past_v, float16[B,3,S,8] k, float16[B,3,S,5] v,
       bool[B,1,S,T] keep)
      => (float16[N,S,5] y, float16[B,3,T,8] present_k, float16[B,3,T,5] present_v)
    <int64[1] at0 = {0}, int64 zeroth = {0}, int64 second = {2}, int64[1] minus = {-1}, int64[1] three = {3},
     int64[1] eight = {8}, int64[1] five = {5}, float16 scale = {13722}, float low = {-10000.0}>
    {
      present_k = Concat <axis = 2> (past_k, k)
      present_v = Concat <axis = 2> (past_v, v)
      q_shape = Shape (q)
      batch = Gather <axis = 0> (q_shape, zeroth)
      batch1 = Unsqueeze (batch, at0)
      both1 = Mul (batch1, three)
      length = Gather <axis = 0> (q_shape, second)
      length1 = Unsqueeze (length, at0)
      q_at = Concat <axis = 0> (both1, length1, eight)
      q3 = Reshape (q, q_at)
      k_at = Concat <axis = 0> (both1, minus, eight)
      k3 = Reshape (present_k, k_at)
      v_at = Concat <axis = 0> (both1, minus, five)
      v3 = Reshape (present_v, v_at)
      k_t = Transpose <perm = [0, 2, 1]> (k3)
      scaled = Mul (q3, scale)
      product = MatMul (scaled, k_t)
      wide = Cast <to = 1> (product)
      four = Concat <axis = 0> (batch1, three, length1, minus)
      scores = Reshape (wide, four)
      masked = Where (keep, scores, low)
      soft = Softmax <axis = -1> (masked)
      merged = Concat <axis = 0> (both1, length1, minus)
      weights3 = Reshape (soft, merged)
      weights = Cast <to = 10> (weights3)
      y = MatMul (weights, v3)
    }
    """
    return onnx.parser.parse_model(text)


def test_sixteen_bits_in_three_axes_on_a_cache_with_room() -> None:
    """Float64 sums over what a state has retained; the cache has room behind each head, so it is no dense tensor."""
    model, _ = refeed.bind(_bmm(), pairs=[("past_k", "present_k"), ("past_v", "present_v")], uses="any")
    batch = 2
    initial = {"past_k": np.zeros((batch, 3, 0, 8), np.float16), "past_v": np.zeros((batch, 3, 0, 5), np.float16)}
    state = runtime.PersistentValueState(model, initial)
    rng = np.random.default_rng(7)
    total = 0
    for new in (7, 1, 1, 4, 1):
        total += new
        feeds = {
            "q": rng.standard_normal((batch, 3, new, 8)).astype(np.float16),
            "k": rng.standard_normal((batch, 3, new, 8)).astype(np.float16),
            "v": rng.standard_normal((batch, 3, new, 5)).astype(np.float16),
            "keep": rng.random((batch, 1, new, total)) < 0.7,
        }
        feeds["keep"][..., -1] = True
        outputs = state.run(feeds)
        keys = np.asarray(outputs["present_k"]).astype(np.float64)
        values = np.asarray(outputs["present_v"]).astype(np.float64)
        assert keys.shape == (batch, 3, total, 8)
        scale = float(np.array(13722, np.uint16).view(np.float16))
        scores = scale * feeds["q"].astype(np.float64) @ keys.swapaxes(2, 3)
        scores = np.where(feeds["keep"], scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        expected = weights / weights.sum(-1, keepdims=True) @ values
        got = np.asarray(outputs["y"]).reshape(expected.shape)
        np.testing.assert_allclose(got, expected, rtol=2**-10, atol=2**-11)
    (form,) = state.explain().attention
    assert (form.obstacle, form.declined) == (None, None)
    assert {binding.outcome for binding in state.explain().bindings} == {"in place"}
    # A query that sees nothing weighs all keys alike, as the nodes have it.
    feeds["keep"] = np.zeros((batch, 1, 1, total + 1), bool)
    got = np.asarray(state.run(feeds)["y"]).reshape(batch, 3, 1, 5).astype(np.float64)
    mean = np.concatenate([values, feeds["v"]], 2).mean(2, keepdims=True)
    np.testing.assert_allclose(got, mean, rtol=2**-8, atol=2**-9)
    assert state.explain().attention[0].declined == (1, "a query sees no key")
