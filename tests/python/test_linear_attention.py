"""`LinearAttention`, its gates and `CausalConvWithState` beside float64 formulas and onnxruntime."""

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from refeed import errors, runtime

Array = np.ndarray[Any, Any]
MICROSOFT = "com.microsoft"


def _model(
    op_type: str, inputs: dict[str, Array | None], outputs: list[str], domain: str = MICROSOFT, **attributes: Any
) -> onnx.ModelProto:
    names = [name if value is not None else "" for name, value in inputs.items()]
    while not names[-1]:
        names.pop()
    node = helper.make_node(op_type, names, outputs, domain=domain, **attributes)
    given = {name: value for name, value in inputs.items() if value is not None}
    kinds = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in given.items()}
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, kinds[name], value.shape) for name, value in given.items()],
        [helper.make_tensor_value_info(name, next(iter(kinds.values())), None) for name in outputs],
    )
    opsets = [helper.make_opsetid("", 27 if domain == "" else 22), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10 if domain else 14)


def _ours(model: onnx.ModelProto, inputs: dict[str, Array | None]) -> dict[str, Array]:
    feeds = {name: value for name, value in inputs.items() if value is not None}
    return {name: value.numpy() for name, value in runtime.RuntimeSession(model).run(feeds).items()}


def _theirs(model: onnx.ModelProto, inputs: dict[str, Array | None]) -> dict[str, Array]:
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    feeds = {name: value for name, value in inputs.items() if value is not None}
    return dict(zip(names, session.run(None, feeds), strict=True))


def _normal(*shape: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def _recurrence(
    rule: str, heads: tuple[int, int], scale: float, inputs: dict[str, Array | None]
) -> tuple[Array, Array]:
    """The rule, token by token, in float64."""
    q_heads, heads_of_state = heads
    wide = {name: None if x is None else x.astype(np.float64) for name, x in inputs.items()}
    query, key, value = wide["query"], wide["key"], wide["value"]
    assert query is not None
    assert key is not None
    assert value is not None
    batch, length, columns = query.shape
    width = columns // q_heads
    q = query.reshape(batch, length, q_heads, width)
    k = key.reshape(batch, length, -1, width)
    v = value.reshape(batch, length, heads_of_state, -1)
    k = np.repeat(k, heads_of_state // k.shape[2], axis=2)
    outs = max(q_heads, heads_of_state)
    q = np.repeat(q, outs // q_heads, axis=2)
    past = wide["past_state"]
    state = np.zeros((batch, heads_of_state, width, v.shape[3])) if past is None else past.copy()
    out = np.zeros((batch, length, outs, v.shape[3]))
    for t in range(length):
        if "gated" in rule:
            decay = wide["decay"]
            assert decay is not None
            state *= np.exp(decay[:, t].reshape(batch, heads_of_state, -1))[..., None]
        added = v[:, t]
        if "delta" in rule:
            beta = wide["beta"]
            assert beta is not None
            held = np.einsum("bhk,bhkv->bhv", k[:, t], state)
            added = beta[:, t][..., None] * (added - held)
        state = state + k[:, t][..., None] * added[:, :, None, :]
        seen = np.repeat(state, outs // heads_of_state, axis=1)
        out[:, t] = scale * np.einsum("bhk,bhkv->bhv", q[:, t], seen)
    return out.reshape(batch, length, -1), state


def _operands(rule: str, heads: tuple[int, int], key_heads: int, length: int, past: bool) -> dict[str, Array | None]:
    batch, width, size = 2, 8, 12
    q_heads, state_heads = heads
    key = _normal(batch, length, key_heads, width, seed=2)
    key /= np.linalg.norm(key, axis=-1, keepdims=True)
    return {
        "query": _normal(batch, length, q_heads * width, seed=1),
        "key": key.reshape(batch, length, -1),
        "value": _normal(batch, length, state_heads * size, seed=3),
        "past_state": _normal(batch, state_heads, width, size, seed=4) if past else None,
        "decay": -np.abs(_normal(batch, length, state_heads, seed=5)) if "gated" in rule else None,
        "beta": 1 / (1 + np.exp(-_normal(batch, length, state_heads, seed=6))) if "delta" in rule else None,
    }


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize(("heads", "key_heads"), [((2, 2), 2), ((4, 2), 2), ((2, 4), 2), ((3, 3), 3)])
@pytest.mark.parametrize(("length", "past"), [(1, True), (7, False), (70, True)])
def test_linear_attention(rule: str, heads: tuple[int, int], key_heads: int, length: int, past: bool) -> None:
    inputs = _operands(rule, heads, key_heads, length, past)
    attributes: dict[str, Any] = {"q_num_heads": heads[0], "kv_num_heads": heads[1], "update_rule": rule, "scale": 0.5}
    model = _model("LinearAttention", inputs, ["output", "present_state"], **attributes)
    got = _ours(model, inputs)
    want, state = _recurrence(rule, heads, 0.5, inputs)
    np.testing.assert_allclose(got["output"], want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(got["present_state"], state, rtol=1e-4, atol=1e-4)
    theirs = _theirs(model, inputs)
    for name, value in theirs.items():
        assert got[name].shape == value.shape
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-3, err_msg=name)


def test_token_by_token_is_all_at_once() -> None:
    inputs = _operands("gated_delta", (2, 4), 2, 19, True)
    attributes: dict[str, Any] = {"q_num_heads": 2, "kv_num_heads": 4}
    outputs = ["output", "present_state"]
    whole = _ours(_model("LinearAttention", inputs, outputs, **attributes), inputs)
    state, parts = inputs["past_state"], []
    for t in range(19):
        step: dict[str, Array | None] = {
            name: np.ascontiguousarray(value[:, t : t + 1]) if value is not None and name != "past_state" else state
            for name, value in inputs.items()
        }
        one = _ours(_model("LinearAttention", step, outputs, **attributes), step)
        state = one["present_state"]
        parts.append(one["output"])
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole["output"])
    np.testing.assert_array_equal(state, whole["present_state"])


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_gates(kind: Any) -> None:
    inputs: dict[str, Array | None] = {
        "a": (_normal(2, 5, 3, seed=1) * 20).astype(kind),
        "dt_bias": _normal(3, seed=2),
        "decay_scale": -np.abs(_normal(3, seed=3)),
        "b": (_normal(2, 5, 3, seed=4) * 4).astype(kind),
    }
    got = _ours(_model("LinearAttentionGate", inputs, ["decay", "beta"]), inputs)
    a, bias, factor, b = (np.asarray(value).astype(np.float64) for value in inputs.values())
    limit = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}[np.dtype(kind).name]
    np.testing.assert_allclose(
        got["decay"].astype(np.float64), factor * np.logaddexp(0, a + bias), rtol=limit, atol=limit
    )
    np.testing.assert_allclose(got["beta"].astype(np.float64), 1 / (1 + np.exp(-b)), rtol=limit, atol=limit)
    assert got["decay"].dtype == kind


@pytest.mark.parametrize("activation", ["silu", "swish", "sigmoid", None])
def test_gated_rms_norm(activation: str | None) -> None:
    inputs: dict[str, Array | None] = {
        "X": _normal(2, 3, 20, seed=1),
        "scale": _normal(5, seed=2),
        "gate": _normal(2, 3, 20, seed=3) * 5,
    }
    attributes = {} if activation is None else {"activation": activation}
    model = _model("GatedRMSNorm", inputs, ["Y"], epsilon=1e-3, **attributes)
    x, scale, gate = (np.asarray(value).astype(np.float64) for value in inputs.values())
    runs = x.reshape(2, 3, 4, 5)
    normal = runs / np.sqrt((runs**2).mean(axis=-1, keepdims=True) + 1e-3) * scale
    factor = 1 / (1 + np.exp(-gate)) * (1 if activation == "sigmoid" else gate)
    np.testing.assert_allclose(_ours(model, inputs)["Y"], normal.reshape(x.shape) * factor, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("domain", "activation", "dilation"),
    [*itertools.product(["", MICROSOFT], ["none", "silu"], [1]), (MICROSOFT, "swish", 3)],
)
@pytest.mark.parametrize(("length", "full"), [(1, True), (2, True), (9, False), (9, True)])
def test_causal_convolution(domain: str, activation: str, dilation: int, length: int, full: bool) -> None:
    batch, channels, kernel = 2, 5, 4
    carry = (kernel - 1) * dilation
    inputs: dict[str, Array | None] = {
        "input": _normal(batch, channels, length, seed=1),
        "weight": _normal(channels, 1, kernel, seed=2),
        "bias": _normal(channels, seed=3) if full else None,
        "past_state": _normal(batch, channels, carry, seed=4) if full else None,
    }
    attributes: dict[str, Any] = {"activation": activation}
    if dilation != 1:
        attributes["dilation"] = dilation
    model = _model("CausalConvWithState", inputs, ["output", "present_state"], domain, **attributes)
    got = _ours(model, inputs)
    x, weight = np.asarray(inputs["input"]).astype(np.float64), np.asarray(inputs["weight"]).astype(np.float64)
    past = np.zeros((batch, channels, carry)) if not full else np.asarray(inputs["past_state"]).astype(np.float64)
    line = np.concatenate([past, x], axis=2)
    want = np.zeros(x.shape)
    for tap in range(kernel):
        want += weight[:, :, tap] * line[:, :, tap * dilation : tap * dilation + length]
    if full:
        want += np.asarray(inputs["bias"]).astype(np.float64)[:, None]
    if activation != "none":
        want *= 1 / (1 + np.exp(-want))
    np.testing.assert_allclose(got["output"], want, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(got["present_state"], line[:, :, length:].astype(np.float32))


def test_what_is_not_computed_is_refused_by_name() -> None:
    inputs = _operands("gated_delta", (2, 2), 2, 3, True)
    for attribute, value in [("state_window", 2), ("update_rule", "other")]:
        attributes: dict[str, Any] = {"q_num_heads": 2, "kv_num_heads": 2, attribute: value}
        model = _model("LinearAttention", inputs, ["output", "present_state"], **attributes)
        with pytest.raises(errors.Error, match=attribute):
            runtime.RuntimeSession(model)
    conv: dict[str, Array | None] = {"input": _normal(1, 3, 2, seed=1), "weight": _normal(3, 1, 2, seed=2)}
    for attribute, value in [("channels_last", 1), ("ndim", 2), ("state_length", 5), ("dilation", 0)]:
        given: dict[str, Any] = {attribute: value}
        model = _model("CausalConvWithState", conv, ["output", "present_state"], **given)
        with pytest.raises(errors.Error, match=attribute):
            runtime.RuntimeSession(model)
