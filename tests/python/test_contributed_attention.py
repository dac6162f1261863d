"""`com.microsoft.MultiHeadAttention` and `GroupQueryAttention` beside onnxruntime, whose operators they are."""

import itertools
import pathlib
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import refeed
from onnx import TensorProto, helper
from refeed import errors, runtime

TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int32): TensorProto.INT32}


def _model(op_type: str, inputs: list[np.ndarray | None], outputs: int, **attributes: Any) -> onnx.ModelProto:
    names = [f"in{at}" if value is not None else "" for at, value in enumerate(inputs)]
    produced = ["out", "present_key", "present_value"][:outputs]
    node = helper.make_node(op_type, names, produced, domain="com.microsoft", **attributes)
    declared = [
        helper.make_tensor_value_info(name, TYPES[value.dtype], value.shape)
        for name, value in zip(names, inputs, strict=True)
        if value is not None
    ]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in produced]
    graph = helper.make_graph([node], "g", declared, results)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _both(op_type: str, inputs: list[np.ndarray | None], outputs: int, **attributes: Any) -> None:
    """Run one node in both runtimes and compare every output."""
    model = _model(op_type, inputs, outputs, **attributes)
    feeds = {f"in{at}": value for at, value in enumerate(inputs) if value is not None}
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    wanted = theirs.run(None, feeds)
    ours = runtime.RuntimeSession(model).run(feeds)
    for name, want in zip((output.name for output in model.graph.output), wanted, strict=True):
        got = np.asarray(ours[name])
        assert got.shape == want.shape, name
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5, err_msg=name)


def _normal(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


BATCH, HEADS, SIZE, WIDTH = 2, 3, 8, 5


@pytest.mark.parametrize(
    ("past", "new", "causal", "scale"),
    list(itertools.product([0, 4], [1, 3], [0, 1], [None, 0.3])),
)
def test_multi_head_attention_with_a_past(past: int, new: int, causal: int, scale: float | None) -> None:
    inputs: list[np.ndarray | None] = [
        _normal(BATCH, new, HEADS * SIZE, seed=1),
        _normal(BATCH, new, HEADS * SIZE, seed=2),
        _normal(BATCH, new, HEADS * SIZE, seed=3),
        None,
        None,
        None,
        _normal(BATCH, HEADS, past, SIZE, seed=4),
        _normal(BATCH, HEADS, past, SIZE, seed=5),
    ]
    attributes: dict[str, Any] = {"num_heads": HEADS, "unidirectional": causal}
    if scale is not None:
        attributes["scale"] = scale
    _both("MultiHeadAttention", inputs, 3, **attributes)


@pytest.mark.parametrize("mask", ["none", "rows", "whole"])
@pytest.mark.parametrize("bias", [None, (BATCH, HEADS), (1, HEADS), (BATCH, 1), (1, 1)])
def test_multi_head_attention_with_masks_and_biases(mask: str, bias: tuple[int, int] | None) -> None:
    new, total = 3, 7
    rng = np.random.default_rng(9)
    padding = None
    if mask == "rows":
        padding = (rng.random((BATCH, total)) < 0.7).astype(np.int32)
        padding[:, 0] = 1
    elif mask == "whole":
        padding = (rng.random((BATCH, new, total)) < 0.7).astype(np.int32)
        padding[:, :, 0] = 1
    inputs: list[np.ndarray | None] = [
        _normal(BATCH, new, HEADS * SIZE, seed=1),
        _normal(BATCH, total, HEADS * SIZE, seed=2),
        _normal(BATCH, total, HEADS * WIDTH, seed=3),
        _normal(HEADS * (2 * SIZE + WIDTH), seed=6),
        padding,
        None if bias is None else _normal(*bias, new, total, seed=7),
    ]
    _both("MultiHeadAttention", inputs, 1, num_heads=HEADS, mask_filter_value=-9000.0)


def test_multi_head_attention_over_a_given_cache() -> None:
    inputs: list[np.ndarray | None] = [
        _normal(BATCH, 3, HEADS * SIZE, seed=1),
        _normal(BATCH, HEADS, 6, SIZE, seed=2),
        _normal(BATCH, HEADS, 6, SIZE, seed=3),
    ]
    _both("MultiHeadAttention", inputs, 1, num_heads=HEADS)


def test_multi_head_attention_of_packed_heads() -> None:
    """Packed operands are the same numbers in another order; onnxruntime's CPU kernel does not take them."""
    query, key, value = (_normal(BATCH, 4, HEADS, SIZE, seed=seed) for seed in (1, 2, 3))
    fused = [part.reshape(BATCH, 4, HEADS * SIZE) for part in (query, key, value)]

    def run(inputs: list[np.ndarray | None]) -> np.ndarray:
        model = _model("MultiHeadAttention", inputs, 1, num_heads=HEADS)
        feeds = {f"in{at}": part for at, part in enumerate(inputs) if part is not None}
        return np.asarray(runtime.RuntimeSession(model).run(feeds)["out"])

    want = run(list(fused))
    packed = np.ascontiguousarray(np.stack([query, key, value], axis=3))
    np.testing.assert_array_equal(run([packed]), want)
    pair = np.ascontiguousarray(np.stack([key, value], axis=3))
    np.testing.assert_array_equal(run([fused[0], pair]), want)


def test_multi_head_attention_refuses_what_it_does_not_compute() -> None:
    query = _normal(BATCH, 3, HEADS * SIZE, seed=1)
    length = np.array([1], np.int32)
    inputs: list[np.ndarray | None] = [query, query, query, None, None, None, None, None, length]
    with pytest.raises(errors.ModelError, match="past_sequence_length"):
        runtime.RuntimeSession(_model("MultiHeadAttention", inputs, 1, num_heads=HEADS))
    with pytest.raises(errors.ModelError, match="num_heads"):
        runtime.RuntimeSession(_model("MultiHeadAttention", [query, query, query], 1, num_heads=0))
    session = runtime.RuntimeSession(_model("MultiHeadAttention", [query, query, query], 1, num_heads=5))
    with pytest.raises(errors.KernelError, match="do not divide into 5 heads"):
        session.run({f"in{at}": query for at in range(3)})
    wrong = [query, query, query, _normal(7, seed=2)]
    session = runtime.RuntimeSession(_model("MultiHeadAttention", list(wrong), 1, num_heads=HEADS))
    with pytest.raises(errors.KernelError, match=r"bias: expected shape \[72\], got \[7\]"):
        session.run({f"in{at}": part for at, part in enumerate(wrong)})


def test_multi_head_attention_appends_in_place() -> None:
    query = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "new", 24])
    past = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, "past", 8]) for name in ("pk", "pv")]
    present = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, "all", 8]) for name in ("nk", "nv")]
    node = helper.make_node(
        "MultiHeadAttention",
        ["x", "x", "x", "", "", "", "pk", "pv"],
        ["y", "nk", "nv"],
        domain="com.microsoft",
        num_heads=3,
        unidirectional=1,
    )
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "new", 24])
    graph = helper.make_graph([node], "g", [query, *past], [y, *present])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model, _ = refeed.bind(
        helper.make_model(graph, opset_imports=opsets, ir_version=10), pairs=[("pk", "nk"), ("pv", "nv")]
    )
    empty = np.zeros((1, 3, 0, 8), np.float32)
    state = runtime.PersistentValueState(model, {"pk": empty, "pv": empty})
    whole = _normal(1, 6, 24, seed=3)
    parts = [np.asarray(state.run({"x": whole[:, at : at + 1]})["y"]) for at in range(6)]
    assert {binding.outcome for binding in state.explain().bindings} == {"in place"}
    once = runtime.PersistentValueState(model, {"pk": empty, "pv": empty})
    want = np.asarray(once.run({"x": whole})["y"])
    np.testing.assert_allclose(np.concatenate(parts, axis=1), want, rtol=1e-5, atol=1e-6)


def _rotary_tables(positions: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    angles = np.arange(positions)[:, None] / 100.0 ** (np.arange(size // 2)[None, :] / (size // 2))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("rotary", [None, 0, 1])
@pytest.mark.parametrize(("past", "new"), [(0, 1), (0, 5), (6, 1)])
@pytest.mark.parametrize(("window", "softcap"), [(-1, 0.0), (4, 0.0), (-1, 5.0)])
def test_group_query_attention(
    packed: bool, rotary: int | None, past: int, new: int, window: int, softcap: float
) -> None:
    heads, kv_heads, size = 6, 2, 16
    query = _normal(BATCH, new, heads * size, seed=1)
    key = _normal(BATCH, new, kv_heads * size, seed=2)
    value = _normal(BATCH, new, kv_heads * size, seed=3)
    total = past + new
    inputs: list[np.ndarray | None] = [query, key, value]
    if packed:
        inputs = [np.concatenate([query, key, value], axis=2), None, None]
    # With a prompt the second row is padded on the right; afterwards rows are of one length.
    lengths = [total - 1, max(total - 3, 0) if past == 0 else total - 1]
    inputs += [
        _normal(BATCH, kv_heads, past, size, seed=4),
        _normal(BATCH, kv_heads, past, size, seed=5),
        np.array(lengths, np.int32),
        np.array(total, np.int32),
    ]
    attributes: dict[str, Any] = {"num_heads": heads, "kv_num_heads": kv_heads, "local_window_size": window}
    if softcap:
        attributes["softcap"] = softcap
    if rotary is not None:
        inputs += list(_rotary_tables(32, size))
        attributes |= {"do_rotary": 1, "rotary_interleaved": rotary}
    model = _model("GroupQueryAttention", inputs, 3, **attributes)
    feeds = {f"in{at}": part for at, part in enumerate(inputs) if part is not None}
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    wanted = theirs.run(None, feeds)
    ours = runtime.RuntimeSession(model).run(feeds)
    for name, want in zip(("out", "present_key", "present_value"), wanted, strict=True):
        got = np.asarray(ours[name])
        assert got.shape == want.shape, name
        for row in range(BATCH):
            # What lies in padding is each runtime's own business.
            valid = lengths[row] + 1
            axis = 0 if name == "out" else 1
            keep = min(valid, new) if name == "out" else valid
            a, b = (np.take(array[row], range(keep), axis=axis) for array in (got, want))
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5, err_msg=f"{name} row {row}")


@pytest.mark.parametrize("sink", ["smooth", "head", "both", "off"])
@pytest.mark.parametrize(("past", "new"), [(0, 1), (0, 5), (6, 1), (600, 1), (300, 40)])
@pytest.mark.parametrize(("window", "softcap"), [(-1, 0.0), (4, 5.0)])
def test_scores_without_a_value_join_the_softmax(sink: str, past: int, new: int, window: int, softcap: float) -> None:
    heads, kv_heads, size, total = 6, 2, 16, past + new
    # What onnxruntime takes of several new tokens behind a past.
    batch = 1 if past and new > 1 else BATCH
    inputs: list[np.ndarray | None] = [
        _normal(batch, new, heads * size, seed=1),
        _normal(batch, new, kv_heads * size, seed=2),
        _normal(batch, new, kv_heads * size, seed=3),
        _normal(batch, kv_heads, past, size, seed=4),
        _normal(batch, kv_heads, past, size, seed=5),
        np.full(batch, total - 1, np.int32),
        np.array(total, np.int32),
    ]
    if sink in ("head", "both"):
        inputs += [None] * 4 + [np.array([-60.0, -1.0, 0.0, 1.5, 4.0, 60.0], np.float32)]
    smooth = {"smooth": 1, "both": 1, "off": -1, "head": 0}[sink]
    _both(
        "GroupQueryAttention",
        inputs,
        3,
        num_heads=heads,
        kv_num_heads=kv_heads,
        local_window_size=window,
        softcap=softcap,
        smooth_softmax=smooth,
    )


def test_sinks_of_another_number_of_heads_are_refused() -> None:
    x = _normal(1, 1, 8, seed=1)
    lengths: list[np.ndarray | None] = [np.array([0], np.int32), np.array(1, np.int32)]
    inputs = [x, x, x, None, None, *lengths, *[None] * 4, np.zeros(3, np.float32)]
    session = runtime.RuntimeSession(_model("GroupQueryAttention", inputs, 1, num_heads=2, kv_num_heads=2))
    with pytest.raises(errors.KernelError, match=r"head_sink: expected shape \[2\], got \[3\]"):
        session.run({f"in{at}": part for at, part in enumerate(inputs) if part is not None})


def _codes(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Nearest codes, ties to even, saturated."""
    codes: np.ndarray = np.clip(np.rint(x / scale), -128, 127).astype(np.int8)
    return codes


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize(("past", "new"), [(0, 1), (0, 70), (5, 1), (130, 1), (9, 3)])
@pytest.mark.parametrize(("window", "sink"), [(-1, None), (40, None), (40, [-1.5, 0.0, 2.5, 1.0])])
def test_group_query_attention_over_int8_caches(
    by_channel: bool, past: int, new: int, window: int, sink: list[float] | None
) -> None:
    heads, kv_heads, size = 4, 2, 16
    rng = np.random.default_rng(past * 10 + new)
    shape = (1, kv_heads, 1, size) if by_channel else (1,)
    scales = [(0.02 + 0.02 * rng.random(shape)).astype(np.float32) for _ in range(2)]
    old = [rng.integers(-128, 128, (1, kv_heads, past, size), dtype=np.int8) for _ in range(2)]
    query = _normal(1, new, heads * size, seed=1)
    key, value = _normal(1, new, kv_heads * size, seed=2), _normal(1, new, kv_heads * size, seed=3)
    total = past + new
    lengths = [np.array([total - 1], np.int32), np.array([total], np.int32)]
    names = ["query", "key", "value", "past_key", "past_value", "seqlens", "total", *[""] * 4]
    names += ["sink" if sink else "", "k_scale", "v_scale"]
    sinks = [np.array(sink, np.float32)] if sink else []
    node = helper.make_node(
        "GroupQueryAttention",
        names,
        ["out", "present_key", "present_value"],
        domain="com.microsoft",
        num_heads=heads,
        kv_num_heads=kv_heads,
        local_window_size=window,
        k_quant_type="PER_CHANNEL" if by_channel else "PER_TENSOR",
        v_quant_type="PER_CHANNEL" if by_channel else "PER_TENSOR",
        kv_cache_bit_width=8,
    )
    feeds = dict(
        zip([n for n in names if n], [query, key, value, *old, *lengths, *sinks, *scales], strict=True),
    )
    kinds = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in feeds.items()}
    outputs = [("out", TensorProto.FLOAT), ("present_key", TensorProto.INT8), ("present_value", TensorProto.INT8)]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, kinds[name], value.shape) for name, value in feeds.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    got = {name: np.asarray(value) for name, value in runtime.RuntimeSession(model).run(feeds).items()}
    held = []
    for name, before, fresh, scale in zip(["present_key", "present_value"], old, [key, value], scales, strict=True):
        rows = fresh.reshape(1, new, kv_heads, size).transpose(0, 2, 1, 3)
        want = np.concatenate([before, _codes(rows, scale)], axis=2)
        np.testing.assert_array_equal(got[name], want, err_msg=name)
        held.append(np.repeat(want.astype(np.float64) * scale.astype(np.float64), heads // kv_heads, axis=1))
    rows = query.astype(np.float64).reshape(1, new, heads, size).transpose(0, 2, 1, 3)
    scores = rows @ held[0].transpose(0, 1, 3, 2) / np.sqrt(size)
    at, seen = np.arange(past, total)[:, None], np.arange(total)[None, :]
    visible = (seen <= at) & ((window < 0) | (seen > at - window))
    scores = np.where(visible, scores, -np.inf)
    # The sink is one score more, which has no value.
    beside = (
        np.full((*scores.shape[:-1], 1), -np.inf)
        if sink is None
        else np.broadcast_to(np.array(sink)[None, :, None, None], (*scores.shape[:-1], 1))
    )
    scores = np.concatenate([scores, beside], axis=-1)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    want = (weights[..., :-1] @ held[1]).transpose(0, 2, 1, 3).reshape(1, new, -1)
    np.testing.assert_allclose(got["out"], want, rtol=1e-4, atol=1e-4)


def test_caches_of_codes_grow_in_place() -> None:
    folder = pathlib.Path(__file__).resolve().parents[1] / "data" / "models" / "genai_llama_fp32_kvint8"
    model, _ = refeed.bind(folder / "model.onnx", patterns="known", uses="any")
    state = runtime.PersistentValueState(model, runtime.empty_caches(model))
    context = runtime.RuntimeContext(events_enabled=True)
    for length in range(1, 13):
        feeds = {"input_ids": np.array([[length]]), "attention_mask": np.ones((1, length), np.int64)}
        context.clear_events()
        earlier = state.run(context, feeds)["present.1.value"]
        assert earlier.shape == (1, 2, length, 16)
    storage = [event for event in context.events() if event.kind == "storage"]
    # Of each of four caches a row of each head, one byte a number.
    assert sum(event.storage_append_copied_bytes for event in storage) == 4 * 2 * 16
    assert sum(event.storage_prefix_copied_bytes for event in storage) == 0
    assert {report.outcome for report in state.explain().bindings} == {"in place"}
