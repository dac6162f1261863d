"""Products with quantized weights: `com.microsoft.MatMulNBits`, and `MatMul` over `DequantizeLinear`."""

import itertools
import pathlib
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
import refeed
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from refeed import errors, runtime

Array = np.ndarray[Any, Any]

OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]


def _packed(codes: Array, bits: int) -> Array:
    """Pack codes `[..., count]` into whole bytes, the first one in the low bits."""
    each = 8 // bits
    count = codes.shape[-1]
    padded = np.zeros((*codes.shape[:-1], -(-count // each) * each), np.uint8)
    padded[..., :count] = codes
    parts = padded.reshape(*codes.shape[:-1], -1, each)
    shifts = np.arange(each, dtype=np.uint8) * bits
    packed: Array = np.bitwise_or.reduce(parts << shifts, axis=-1).astype(np.uint8)
    return packed


def _weights(rng: np.random.Generator, bits: int, k: int, n: int, block: int) -> tuple[Array, Array, Array]:
    """Codes `[n, blocks, block]`, scales and zero points `[n, blocks]`."""
    blocks = -(-k // block)
    codes = rng.integers(0, 1 << bits, (n, blocks, block), dtype=np.uint8)
    scales = (0.01 + rng.random((n, blocks)) * 0.05).astype(np.float32)
    zeros = rng.integers(0, 1 << bits, (n, blocks), dtype=np.uint8)
    return codes, scales, zeros


def _node(x: Array, weights: dict[str, Array], n: int, bits: int, block: int) -> onnx.ModelProto:
    places = ["A", "B", "scales", "zero_points", "g_idx", "bias"]
    names = [name if name == "A" or name in weights else "" for name in places]
    while not names[-1]:
        names.pop()
    node = helper.make_node(
        "MatMulNBits", names, ["Y"], domain="com.microsoft", K=x.shape[-1], N=n, bits=bits, block_size=block
    )
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("A", kind, x.shape)],
        [helper.make_tensor_value_info("Y", kind, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=10)


def _exact(x: Array, codes: Array, scales: Array, zeros: Array | float, bias: Array | None) -> Array:
    """The formula in float64."""
    zeros = np.broadcast_to(np.asarray(zeros, np.float64), scales.shape)
    real = (codes.astype(np.float64) - zeros[..., None]) * scales.astype(np.float64)[..., None]
    matrix = real.reshape(codes.shape[0], -1)[:, : x.shape[-1]]
    out: Array = x.astype(np.float64) @ matrix.T
    return out if bias is None else out + bias.astype(np.float64)


def _theirs(model: onnx.ModelProto, x: Array) -> Array:
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    out: Array = session.run(None, {"A": x})[0]
    return out


@pytest.mark.parametrize(
    ("bits", "block", "zero"), list(itertools.product([2, 4, 8], [16, 32, 128], ["none", "codes", "numbers"]))
)
def test_matmul_nbits_beside_the_formula_and_onnxruntime(bits: int, block: int, zero: str) -> None:
    rng = np.random.default_rng(bits * 1000 + block)
    k, n = 160, 37
    codes, scales, zeros = _weights(rng, bits, k, n, block)
    weights = {"B": _packed(codes, bits), "scales": scales}
    real: Any = float(1 << (bits - 1))
    if zero == "codes":
        weights["zero_points"], real = _packed(zeros, bits), zeros
    elif zero == "numbers":
        real = np.asarray(rng.random(scales.shape) * (1 << bits), np.float32)
        weights["zero_points"] = real
    for shape in [(1, k), (2, 3, k), (21, k), (0, k)]:
        x = rng.standard_normal(shape, dtype=np.float32)
        for bias in [None, rng.standard_normal(n, dtype=np.float32)]:
            more = {} if bias is None else {"bias": bias}
            model = _node(x, weights | more, n, bits, block)
            got = runtime.RuntimeSession(model).run({"A": x})["Y"].numpy()
            want = _exact(x, codes, scales, real, bias)
            assert got.shape == want.shape
            assert got.dtype == np.float32
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-4)
            if bits == 2 or zero == "numbers" or shape[0] == 0:
                continue  # not all of these are computed there
            np.testing.assert_allclose(got, _theirs(model, x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_half_types(kind: Any) -> None:
    rng = np.random.default_rng(7)
    codes, scales, zeros = _weights(rng, 4, 96, 11, 32)
    weights = {"B": _packed(codes, 4), "scales": scales.astype(kind), "zero_points": _packed(zeros, 4)}
    for rows in [1, 12]:
        x = rng.standard_normal((rows, 96)).astype(kind)
        got = runtime.RuntimeSession(_node(x, weights, 11, 4, 32)).run({"A": x})["Y"].numpy()
        assert got.dtype == kind
        want = _exact(x, codes, scales.astype(kind), zeros, None)
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=1e-2, atol=2e-2)


def test_parts_that_do_not_fit_are_told() -> None:
    rng = np.random.default_rng(3)
    codes, scales, _ = _weights(rng, 4, 64, 5, 32)
    weights = {"B": _packed(codes, 4), "scales": scales}
    x = rng.standard_normal((1, 64), dtype=np.float32)
    for name, broken in [("B", weights["B"][:, :1]), ("scales", scales[:4])]:
        session = runtime.RuntimeSession(_node(x, weights | {name: broken}, 5, 4, 32))
        with pytest.raises(errors.Error, match="packed weights" if name == "B" else name):
            session.run({"A": x})
    groups = {"g_idx": np.zeros(64, np.int32)}
    with pytest.raises(errors.Error, match="g_idx"):
        runtime.RuntimeSession(_node(x, weights | groups, 5, 4, 32))
    with pytest.raises(errors.Error, match="block_size"):
        runtime.RuntimeSession(_node(x, weights, 5, 4, 24))


def _dequantized(
    codes: Array, scale: Array, zero: Array | None, extra: list[onnx.NodeProto] | None = None, **attributes: Any
) -> onnx.ModelProto:
    inputs = ["codes", "scale", *([] if zero is None else ["zero"])]
    nodes = [
        helper.make_node("DequantizeLinear", inputs, ["w"], **attributes),
        helper.make_node("MatMul", ["A", "w"], ["Y"]),
        *(extra or []),
    ]
    outputs = ["Y", *(name for node in extra or [] for name in node.output)]
    held = [numpy_helper.from_array(codes, "codes"), numpy_helper.from_array(scale, "scale")]
    if zero is not None:
        held.append(numpy_helper.from_array(zero, "zero"))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("A", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        held,
    )
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=10)


KINDS: dict[str, tuple[Any, int, int]] = {
    "int4": (ml_dtypes.int4, -8, 7),
    "uint4": (ml_dtypes.uint4, 0, 15),
    "int8": (np.int8, -128, 127),
    "uint8": (np.uint8, 0, 255),
}
LAYOUTS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "blocks": ({"axis": 0, "block_size": 32}, (3, 14)),
    "odd blocks": ({"axis": 0, "block_size": 24}, (4, 14)),
    "columns": ({"axis": 1}, (14,)),
    "rows": ({"axis": 0}, (96,)),
    "one": ({}, ()),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("with_zero", [False, True])
def test_a_product_with_dequantized_weights(kind: str, layout: str, with_zero: bool) -> None:
    rng = np.random.default_rng(11)
    dtype, low, high = KINDS[kind]
    attributes, shape = LAYOUTS[layout]
    codes = rng.integers(low, high + 1, (96, 14)).astype(dtype)
    scale = np.asarray(0.01 + rng.random(shape) * 0.05, np.float32)
    zero = np.asarray(rng.integers(low, high + 1, shape)).astype(dtype) if with_zero else None
    model = _dequantized(codes, scale, zero, **attributes)
    session = runtime.RuntimeSession(model)
    for rows in [(1, 96), (13, 96), (2, 3, 96), (96,)]:
        x = rng.standard_normal(rows, dtype=np.float32)
        got = session.run({"A": x})["Y"].numpy()
        wanted: Any = ReferenceEvaluator(model).run(None, {"A": x})
        want = wanted[0]
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=2e-3)


def test_weights_that_others_read_are_still_there() -> None:
    rng = np.random.default_rng(5)
    codes = rng.integers(-8, 8, (64, 6)).astype(ml_dtypes.int4)
    scale = (0.01 + rng.random((2, 6))).astype(np.float32)
    turned = helper.make_node("Transpose", ["w"], ["turned"])
    model = _dequantized(codes, scale, None, [turned], axis=0, block_size=32)
    x = rng.standard_normal((2, 64), dtype=np.float32)
    got = runtime.RuntimeSession(model).run({"A": x})
    wanted: Any = ReferenceEvaluator(model).run(None, {"A": x})
    product, transposed = wanted
    np.testing.assert_allclose(got["Y"].numpy(), product, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(got["turned"].numpy(), transposed)


def test_codes_are_not_dequantized_in_each_call() -> None:
    """The node is gone from the plan, whether its weights were packed or computed once."""
    codes = np.ones((64, 6), ml_dtypes.int4)
    for block, size in [(32, 2), (64, 1)]:
        model = _dequantized(codes, np.ones((size, 6), np.float32), None, axis=0, block_size=block)
        context = runtime.RuntimeContext(events_enabled=True)
        runtime.RuntimeSession(model).run({"A": np.ones((1, 64), np.float32)}, context)
        kinds = {event.op_type for event in context.events()}
        assert "DequantizeLinear" not in kinds
        assert "MatMul" in kinds


def test_onnx_shape_of_a_product() -> None:
    x = np.zeros((2, 64), np.float32)
    codes, scales, _ = _weights(np.random.default_rng(1), 4, 64, 5, 32)
    model = _node(x, {"B": _packed(codes, 4), "scales": scales}, 5, 4, 32)
    model.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    loaded = refeed.load(model.SerializeToString())
    session = runtime.RuntimeSession(loaded)
    assert session.run({"A": x})["Y"].shape == (2, 5)


def test_an_export_with_dequantized_weights_beside_onnxruntime_without_fusions() -> None:
    folder = pathlib.Path(__file__).resolve().parents[1] / "data" / "models" / "genai_qwen3_int4_qdq"
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    theirs = onnxruntime.InferenceSession(folder / "model.onnx", settings, providers=["CPUExecutionProvider"])
    stored = np.load(folder / "ref_b1.npz")
    feeds = {key.removeprefix("init/"): stored[key] for key in stored.files if key.startswith("init/")}
    feeds |= {key.removeprefix("step0/in/"): stored[key] for key in stored.files if key.startswith("step0/in/")}
    got = runtime.RuntimeSession(refeed.load(folder / "model.onnx")).run(feeds)
    for output, want in zip(theirs.get_outputs(), theirs.run(None, feeds), strict=True):
        name = output.name
        np.testing.assert_allclose(got[name].numpy(), want, rtol=1e-3, atol=1e-4, err_msg=name)
