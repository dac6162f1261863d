"""`ReferenceEvaluator`: the interface of the `onnx` package, and that package's node tests."""

import pathlib
import warnings
from typing import Any

import graphs
import ml_dtypes
import numpy as np
import onnx
import pytest
import refeed
from onnx import TensorProto, helper, numpy_helper
from refeed.onnx.reference import ReferenceEvaluator

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnx.backend.test.loader import load_model_tests

    NODE_TESTS: list[Any] = load_model_tests(kind="node")


def test_run_as_in_the_onnx_package(tmp_path: pathlib.Path) -> None:
    proto = graphs.accumulate()
    proto.graph.output.append(graphs.info("delta", graphs.FLOAT, [2]))
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    feeds = {"delta": np.ones(2, np.float32), "past": np.full(2, 2, np.float32)}
    want = onnx.reference.ReferenceEvaluator(proto).run(None, feeds)
    for source in (proto, proto.SerializeToString(), path, str(path), refeed.load(proto)):
        evaluator = ReferenceEvaluator(source)
        assert evaluator.input_names == ["delta", "past"]
        assert evaluator.output_names == ["present", "delta"]
        got = evaluator.run(None, feeds)
        assert isinstance(got, list)
        for ours, theirs in zip(got, want, strict=True):
            assert isinstance(ours, np.ndarray)
            np.testing.assert_array_equal(ours, theirs)
    assert [array.tolist() for array in evaluator.run(["delta"], feeds)] == [[1, 1]]
    assert evaluator.run([], feeds) == []
    with pytest.raises(refeed.ValueTypeError, match="unknown graph output `x`: expected one of present, delta"):
        evaluator.run(["x"], feeds)


def test_arrays_of_any_layout_are_taken() -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    info = [graphs.info(name, graphs.FLOAT, ["a", "b"]) for name in ("x", "y")]
    evaluator = ReferenceEvaluator(graphs.model([node], info[:1], info[1:]))
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    misaligned = np.zeros(4 * 6 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(4, 6)
    misaligned[...] = base
    for view in (base, base.T, base[::2, ::-1], np.asfortranarray(base), base.astype(">f4"), misaligned):
        np.testing.assert_array_equal(evaluator.run(None, {"x": view})[0], view)
    scalar = ReferenceEvaluator(
        graphs.model([node], [graphs.info("x", graphs.FLOAT, [])], [graphs.info("y", graphs.FLOAT, [])])
    )
    assert scalar.run(None, {"x": np.float32(3)})[0] == 3
    with pytest.raises(TypeError):
        scalar.run(None, {"x": [3.0]})


def test_bfloat16_comes_as_ml_dtypes() -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"])
    info = [graphs.info(name, TensorProto.BFLOAT16, [3]) for name in ("x", "y")]
    (out,) = ReferenceEvaluator(graphs.model([node], info[:1], info[1:])).run(
        None, {"x": np.array([1, 2, 3], ml_dtypes.bfloat16)}
    )
    assert out.dtype == ml_dtypes.bfloat16
    assert out.astype(np.float32).tolist() == [2, 4, 6]


# ---------------------------------------------------------------------------------- the package's node tests

CORE = {
    TensorProto.FLOAT,
    TensorProto.UINT8,
    TensorProto.INT8,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.BOOL,
    TensorProto.FLOAT16,
    TensorProto.DOUBLE,
    TensorProto.BFLOAT16,
}

# Operators whose every node test over the element types above must pass.
OPERATORS = {
    "Add", "And", "Attention", "Cast", "Concat", "ConstantOfShape", "Conv", "Cos", "Div", "Equal", "Erf", "Expand",
    "Flatten", "GRU", "Gather", "GatherND", "Gemm", "Greater", "GreaterOrEqual", "IsNaN", "LSTM", "LayerNormalization",
    "Less", "LessOrEqual", "MatMul", "Max", "Min", "Mul", "Neg", "Not", "Or", "Pad", "Pow", "RMSNormalization", "Range",
    "Reciprocal", "ReduceMean", "ReduceSum", "Relu", "Reshape", "RotaryEmbedding", "ScatterND", "Shape", "Sigmoid",
    "Sin", "Slice", "Softmax", "Softplus", "Split", "Sqrt", "Squeeze", "Sub", "Tanh", "Transpose", "Trilu", "Unsqueeze",
    "Where",
}  # fmt: skip


def _core(case: Any) -> bool:
    values = (*case.model.graph.input, *case.model.graph.output)
    return all(v.type.HasField("tensor_type") and v.type.tensor_type.elem_type in CORE for v in values)


CASES = [case for case in NODE_TESTS if {node.op_type for node in case.model.graph.node} <= OPERATORS and _core(case)]


def test_no_operator_is_without_a_test() -> None:
    tested = {node.op_type for case in CASES for node in case.model.graph.node}
    assert tested == OPERATORS
    # Of onnx 1.23; a test that is lost by a change of the filter shows here.
    assert len(CASES) == 486


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_node(case: Any) -> None:
    evaluator = ReferenceEvaluator(case.model)
    names = [value.name for value in case.model.graph.input]
    assert case.data_sets
    for inputs, outputs in case.data_sets:
        feeds = {name: _array(value) for name, value in zip(names, inputs, strict=False) if value is not None}
        got = evaluator.run(None, feeds)
        assert len(got) == len(outputs)
        for ours, value in zip(got, outputs, strict=True):
            want = _array(value)
            assert (ours.shape, ours.dtype) == (want.shape, want.dtype)
            if want.dtype.kind == "f" or want.dtype == ml_dtypes.bfloat16:
                # The package rounds every intermediate of a bfloat16 operator; we round the result: one bit apart.
                rtol = 2.0**-6 if want.dtype == ml_dtypes.bfloat16 else case.rtol
                np.testing.assert_allclose(
                    ours.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=max(case.atol, 1e-7)
                )
            else:
                np.testing.assert_array_equal(ours, want)
