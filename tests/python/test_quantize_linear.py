"""`QuantizeLinear` and `DequantizeLinear` within a graph beside the official evaluator, for every type of codes."""

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from refeed import errors, runtime

Array = np.ndarray[Any, Any]
CODES: dict[int, Any] = {
    TensorProto.INT8: np.int8,
    TensorProto.UINT8: np.uint8,
    TensorProto.INT16: np.int16,
    TensorProto.UINT16: np.uint16,
    TensorProto.INT4: ml_dtypes.int4,
    TensorProto.UINT4: ml_dtypes.uint4,
    TensorProto.INT2: ml_dtypes.int2,
    TensorProto.UINT2: ml_dtypes.uint2,
}
BITS = {2: ("INT2", "UINT2"), 4: ("INT4", "UINT4"), 8: ("INT8", "UINT8"), 16: ("INT16", "UINT16")}
SHAPE = (3, 10, 5)
LAYOUTS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "one": ({}, ()),
    "axis": ({"axis": -2}, (10,)),
    "last axis": ({"axis": 2}, (5,)),
    "blocks": ({"axis": 1, "block_size": 4}, (3, 3, 5)),
    "blocks of the last axis": ({"axis": -1, "block_size": 2}, (3, 10, 3)),
}


def _there_and_back(
    codes: int, scale: Array, zero: Array | None, opset: int = 25, **attributes: Any
) -> onnx.ModelProto:
    held = [numpy_helper.from_array(scale, "scale")]
    more = ["scale"]
    if zero is not None:
        held.append(numpy_helper.from_array(zero, "zero"))
        more.append("zero")
    there: dict[str, Any] = {"output_dtype": codes} if opset >= 21 else {}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *more], ["codes"], **there, **attributes),
        helper.make_node("DequantizeLinear", ["codes", *more], ["y"], **attributes),
    ]
    kind = helper.np_dtype_to_tensor_dtype(scale.dtype)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, SHAPE)],
        [helper.make_tensor_value_info("y", kind, SHAPE)],
        held,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=13)


@pytest.mark.parametrize("codes", CODES, ids=lambda number: TensorProto.DataType.Name(number))
@pytest.mark.parametrize(("layout", "with_zero"), list(itertools.product(LAYOUTS, [False, True])))
def test_there_and_back(codes: int, layout: str, with_zero: bool) -> None:
    rng = np.random.default_rng(codes)
    attributes, shape = LAYOUTS[layout]
    name = str(TensorProto.DataType.Name(codes))
    bits = next(bits for bits, names in BITS.items() if name in names)
    # Some numbers saturate, some lie halfway between two codes.
    scale = (rng.integers(1, 4, shape) * 2.0 ** (3 - bits)).astype(np.float32)
    x = (rng.integers(-40, 41, SHAPE) / 4).astype(np.float32)
    low = 0 if name.startswith("U") else -(1 << (bits - 1))
    zero = np.asarray(rng.integers(low, low + (1 << bits), shape)).astype(CODES[codes]) if with_zero else None
    model = _there_and_back(codes, scale, zero, **attributes)
    got = runtime.RuntimeSession(model).run({"x": x})["y"].numpy()
    wanted: Any = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_array_equal(got, wanted[0])


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_scales_of_half_types(kind: Any) -> None:
    rng = np.random.default_rng(4)
    scale = (0.1 + rng.random(10)).astype(kind)
    x = (rng.standard_normal(SHAPE) * 20).astype(kind)
    model = _there_and_back(TensorProto.INT8, scale, None, axis=1)
    got = runtime.RuntimeSession(model).run({"x": x})["y"].numpy()
    assert got.dtype == kind
    wide = scale.astype(np.float64)[:, None]
    steps = np.rint((x.astype(np.float32) / scale.astype(np.float32)[:, None]).astype(kind).astype(np.float64))
    want = (np.clip(steps, -128, 127) * wide).astype(kind)
    np.testing.assert_array_equal(got, want)


def test_scales_that_do_not_fit_are_told() -> None:
    scale = np.ones((3, 2, 5), np.float32)
    with pytest.raises(errors.Error, match="scale"):
        runtime.RuntimeSession(_there_and_back(TensorProto.INT8, scale, None, axis=1, block_size=4))
    several = np.ones(10, np.float32)
    session = runtime.RuntimeSession(_there_and_back(TensorProto.UINT8, several, None, opset=10))
    with pytest.raises(errors.Error, match="opset 13"):
        session.run({"x": np.ones(SHAPE, np.float32)})
    model = _there_and_back(TensorProto.FLOAT8E4M3FN, np.ones((), np.float32), None)
    with pytest.raises(errors.Error, match="FLOAT8E4M3FN"):
        runtime.RuntimeSession(model)
