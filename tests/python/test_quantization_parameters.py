"""Shared quantisation parameters and encoded values, against float64 NumPy."""

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import refeed
from refeed import onnx, runtime
from refeed.onnx import helper, numpy_helper

FLOAT, INT8, UINT4, INT4, INT2 = 1, 3, 21, 22, 26
HALF = np.array([0.5])
PREFIX = "onnx_light.quantization.parameters:"


def empty_model() -> Any:
    x = helper.make_tensor_value_info("x", FLOAT, [1])
    y = helper.make_tensor_value_info("y", FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def with_set(
    data_type: int = INT4, shape: tuple[int, ...] = (4,), block: int = 4, elem: int = FLOAT, **roles: Any
) -> tuple[Any, Any]:
    model = empty_model()
    count = int(np.prod(shape))
    storage = runtime.make_affine_quantization_type(
        data_type,
        count,
        block,
        permutation="permutation" in roles,
        matrix_size=roles["forward"].shape[0] if "forward" in roles else 0,
        outliers=len(roles.get("outliers", ())),
    )
    logical = helper.make_tensor_type_proto(elem, list(shape))
    compact = runtime.add_quantization_parameters(model, "set", storage, logical, **roles)
    return model, compact


def affine(data_type: int, codes: bytes, dims: list[int], scale: Any, **more: Any) -> Any:
    value = onnx.EncodedValueProto()
    value.affine.storage_type = data_type
    value.affine.scale.CopyFrom(numpy_helper.from_array(np.asarray(scale)))
    for name, given in more.items():
        if name == "zero_point":
            value.affine.zero_point.CopyFrom(given)
        else:
            setattr(value.affine, name, given)
    value.logical_type.CopyFrom(helper.make_tensor_type_proto(FLOAT, dims))
    value.raw_data = bytes(codes)
    return value


def test_the_initializers_and_the_annotation_have_their_names() -> None:
    """Rule 7.5.1."""
    model, compact = with_set(scales=np.array([0.5]), zero_points=np.array([0.0]))
    names = [tensor.name for tensor in model.graph.initializer]
    roles = ["storage_type", "logical_type", "scales", "zero_points"]
    assert names == [f"{PREFIX}set/{role}" for role in roles]
    (annotation,) = model.graph.quantization_annotation
    assert annotation.tensor_name == f"{PREFIX}set"
    assert [entry.key for entry in annotation.quant_parameter_tensor_names] == roles
    assert runtime.make_shared_quantization_type(model, "set") == compact
    assert runtime.make_shared_quantization_type(refeed.load(model), "set") == compact


def test_four_int4_codes_take_three_bytes() -> None:
    """Rule 7.5.4; S247."""
    model, compact = with_set(scales=np.array([0.25]))
    shared = runtime.quantize_tensor_shared(np.array([-0.3, 0.4, 5.0, -9.0], np.float32), model, "set")
    assert shared.raw_data == b"\x00\x2f\x87"
    assert shared.parameter_ref == "set"
    assert shared.encoded.parameter_ref == "set"
    assert shared.encoded.struct_type == compact
    assert "set" in repr(shared)
    decoded = runtime.dequantize_tensor(shared)
    np.testing.assert_array_equal(decoded.numpy(), np.array([-0.25, 0.5, 1.75, -2.0], np.float32))


@pytest.mark.parametrize("elem", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(("data_type", "low", "high"), [(INT8, -128, 127), (UINT4, 0, 15), (INT2, -2, 1)])
def test_every_part_of_the_profile_agrees_with_numpy(elem: Any, data_type: int, low: int, high: int) -> None:
    rng = np.random.default_rng(7)
    shape, block = (3, 4), 5
    values = rng.normal(size=shape).astype(elem)
    scales = np.array([0.05, 0.1, 0.2])
    zeros = np.array([0.0, 1.0, 0.0])
    offsets = np.array([0.0, -0.25, 0.5])
    order = rng.permutation(12)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    outliers = np.array([11, 2])
    model, _ = with_set(
        data_type,
        shape,
        block,
        helper.np_dtype_to_tensor_dtype(np.dtype(elem)),
        scales=scales,
        zero_points=zeros,
        offsets=offsets,
        permutation=order,
        forward=turn,
        inverse=turn.T.copy(),
        outliers=outliers,
    )
    flat = values.astype(np.float64).ravel()
    moved = (flat[order].reshape(-1, 3) @ turn.T).ravel()
    which = np.arange(12) // block
    codes = np.clip(np.rint((moved - offsets[which]) / scales[which]) + zeros[which], low, high)
    moved = (codes - zeros[which]) * scales[which] + offsets[which]
    moved = (moved.reshape(-1, 3) @ turn).ravel()
    expected = np.empty(12)
    expected[order] = moved
    expected[outliers] = flat[outliers]

    shared = runtime.quantize_tensor_shared(values, model, "set")
    whole = runtime.materialize_quantized_value(shared)
    assert isinstance(whole, onnx.EncodedValueProto)
    assert not whole.HasField("parameter_ref")
    message = onnx.EncodedValueProto()
    message.ParseFromString(shared.encoded.SerializeToString())
    for got in (
        runtime.dequantize_tensor(shared),
        runtime.dequantize_tensor(whole),
        runtime.dequantize_tensor(message, model),
        runtime.dequantize_tensor(message, refeed.load(model)),
    ):
        assert got.numpy().dtype == elem
        assert got.shape == shape
        tolerance = {np.float64: 1e-12, np.float32: 1e-6, np.float16: 1e-3}[elem]
        np.testing.assert_allclose(got.numpy().ravel(), expected, rtol=tolerance, atol=tolerance)


def test_a_message_needs_the_model_that_it_refers_to() -> None:
    """Rule 7.5.5."""
    model, _ = with_set(scales=np.array([0.25]))
    message = runtime.quantize_tensor_shared(np.zeros(4, np.float32), model, "set").encoded
    calls: list[Callable[..., Any]] = [runtime.dequantize_tensor, runtime.materialize_quantized_value]
    for call in calls:
        with pytest.raises(ValueError, match=r"parameter_ref.*got `set`"):
            call(message)
        with pytest.raises(ValueError, match="parameter_ref"):
            call(message, empty_model())
        with pytest.raises(TypeError, match="EncodedValueProto"):
            call(np.zeros(3))


def test_values_keep_their_parameters_when_the_model_is_gone() -> None:
    """Rule 7.5.6; S247."""
    model, _ = with_set(scales=np.array([0.25]))
    shared = runtime.quantize_tensor_shared(np.array([1, 2, 0, -1], np.float32) / 4, model, "set")
    model.graph.initializer[2].CopyFrom(numpy_helper.from_array(np.array([9.0]), "other"))
    del model
    np.testing.assert_array_equal(runtime.dequantize_tensor(shared).numpy(), [0.25, 0.5, 0, -0.25])


def test_what_cannot_be_added_leaves_the_model_as_it_was() -> None:
    """Rule 7.5.3."""
    model, _ = with_set(scales=np.array([0.25]))
    before = model.SerializeToString()
    storage = runtime.make_affine_quantization_type(INT4, 4, 4)
    logical = helper.make_tensor_type_proto(FLOAT, [4])

    def add(name: Any = "new", storage: Any = storage, logical: Any = logical, scales: Any = HALF, **more: Any) -> Any:
        return runtime.add_quantization_parameters(model, name, storage, logical, scales=scales, **more)

    taken = numpy_helper.from_array(np.zeros(1), f"{PREFIX}taken/scales")
    model.graph.initializer.append(taken)
    refused: dict[str, Callable[[], Any]] = {
        "empty": lambda: add(name=""),
        "expected a str": lambda: add(name=3),
        "set/storage_type|second time": lambda: add(name="set"),
        "taken/scales": lambda: add(name="taken"),
        "got None": lambda: add(scales=None),
        "scales: expected 1 numbers": lambda: add(scales=np.zeros(2)),
        "positive finite": lambda: add(scales=np.array([0.0])),
        "zero_points": lambda: add(zero_points=np.zeros(3)),
        "INT64": lambda: add(permutation=np.zeros(4)),
        "4 elements, as the storage type has": lambda: add(logical=helper.make_tensor_type_proto(FLOAT, [5])),
        "expected a number": lambda: add(logical=helper.make_tensor_type_proto(FLOAT, ["n"])),
        "codebooks": lambda: add(codebooks=np.zeros(1)),
        "an array, a structure or a bit packing": lambda: add(storage=onnx.StructTypeProto()),
    }
    for match, call in refused.items():
        with pytest.raises(ValueError, match=match):
            call()
    model.graph.initializer.pop()
    assert model.SerializeToString() == before
    with pytest.raises(ValueError, match="got `none`"):
        runtime.quantize_tensor_shared(np.zeros(4, np.float32), model, "none")
    for tensor in (np.zeros(5, np.float32), np.zeros(4), np.array([0, np.nan, 0, 0], np.float32)):
        with pytest.raises(ValueError, match="tensor: expected"):
            runtime.quantize_tensor_shared(tensor, model, "set")
    with pytest.raises(ValueError, match="codes"):
        runtime.make_affine_quantization_type(FLOAT, 4)
    with pytest.raises(ValueError, match="none that tensors have"):
        runtime.make_affine_quantization_type(99, 4)


def test_a_tensor_message_is_quantised_as_its_array() -> None:
    model, _ = with_set(scales=numpy_helper.from_array(np.array([0.25])))
    array = np.array([0.5, -0.5, 1, 0], np.float32)
    by_array = runtime.quantize_tensor_shared(array, model, "set")
    by_message = runtime.quantize_tensor_shared(numpy_helper.from_array(array), model, "set")
    by_tensor = runtime.quantize_tensor_shared(runtime.Tensor(array), model, "set")
    assert by_array.raw_data == by_message.raw_data == by_tensor.raw_data


@pytest.mark.parametrize("scale_type", [np.float16, np.float32, np.float64])
def test_affine_layouts_decode_as_float64_numpy_does(scale_type: Any) -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(-128, 128, (2, 3, 5)).astype(np.int8)
    for axis, block, shape in [(None, None, ()), (1, None, (3,)), (-1, 2, (2, 3, 3)), (0, 1, (2, 3, 5))]:
        scale = rng.uniform(0.01, 1, shape).astype(scale_type)
        zero = rng.integers(-128, 128, shape).astype(np.int8)
        more = {} if axis is None else {"axis": axis}
        if block is not None:
            more["block_size"] = block
        value = affine(
            INT8,
            codes.tobytes(),
            [2, 3, 5],
            scale,
            zero_point=numpy_helper.from_array(np.asarray(zero)),
            **more,
        )

        def spread(parameter: Any, axis: int | None = axis, block: int | None = block) -> Any:
            if axis is None:
                return parameter
            if block is None:
                return parameter.reshape([-1 if at == axis else 1 for at in range(3)])
            return np.repeat(parameter, block, axis=axis).take(range(codes.shape[axis]), axis=axis)

        wide = codes.astype(np.float64) - spread(zero).astype(np.float64)
        expected = (wide * spread(scale).astype(np.float64)).astype(np.float32)
        got = runtime.dequantize_tensor(value)
        np.testing.assert_array_equal(got.numpy(), expected)
    assert runtime.materialize_quantized_value(value) == value


def test_a_structured_encoding_of_another_kind_is_refused_with_a_reason() -> None:
    """Rule 7.5.9."""
    value = onnx.EncodedValueProto()
    value.struct_type.array.dimension = 3
    value.struct_type.array.element_type.CopyFrom(helper.make_tensor_type_proto(2, [1]))
    value.raw_data = b"abc"
    with pytest.raises(ValueError, match="cannot be decoded"):
        runtime.dequantize_tensor(value)
    value.logical_type.CopyFrom(helper.make_tensor_type_proto(FLOAT, [3]))
    with pytest.raises(ValueError, match="a storage type without a name cannot be decoded"):
        runtime.dequantize_tensor(value)


def retaining(nested: bool = False) -> Any:
    """A model that keeps a FLOAT[4], inside a struct when `nested`, with the set `set`."""
    kept = helper.make_tensor_type_proto(FLOAT, [4])
    if nested:
        inner = kept
        kept = onnx.TypeProto()
        kept.struct_type.structure.field.add(name="part").type.CopyFrom(inner)
    x = helper.make_tensor_value_info("x", FLOAT, [1])
    y = helper.make_tensor_value_info("y", FLOAT, [1])
    graph = helper.make_graph(
        [helper.make_node("Identity", ["past"], ["present"]), helper.make_node("Neg", ["x"], ["y"])],
        "g",
        [helper.make_value_info("past", kept), x],
        [helper.make_value_info("present", kept), y],
    )
    graph.persistent_bindings.add(input_name="past", output_name="present")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    storage = runtime.make_affine_quantization_type(INT4, 4)
    logical = helper.make_tensor_type_proto(FLOAT, [4])
    runtime.add_quantization_parameters(model, "set", storage, logical, scales=np.array([0.25]))
    return model


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("as_message", [False, True])
def test_states_look_references_up_in_their_model_and_values_outlive_it(nested: bool, as_message: bool) -> None:
    """Rules 7.5.5, 7.5.6; S246, S247, S249, S250."""
    model = retaining(nested)
    shared = runtime.quantize_tensor_shared(np.array([1, 2, 0, -1], np.float32) / 4, model, "set")
    value: Any = shared.encoded if as_message else shared
    x = {"x": np.zeros(1, np.float32)}
    initial: dict[str, Any] = {"past": {"part": value} if nested else value}
    state = refeed.PersistentValueState(model, initial)
    del model, value, initial
    out: Any = state.run(x)["present"]
    held: Any = state.values["past"]
    state.reset({"past": out})
    again: Any = state.run(x)["present"]
    state.close()
    del state
    for whole in (out, held, again):
        got: Any = whole["part"] if nested else whole
        assert isinstance(got, runtime.SharedQuantizedValue)
        assert got.parameter_ref == "set"
        assert got.raw_data == shared.raw_data
        np.testing.assert_array_equal(runtime.dequantize_tensor(got).numpy(), [0.25, 0.5, 0, -0.25])


@pytest.mark.parametrize("nested", [False, True])
def test_a_state_refuses_references_that_its_model_does_not_have(nested: bool) -> None:
    """Rule 7.5.5; S249."""
    model = retaining(nested)
    message = runtime.quantize_tensor_shared(np.zeros(4, np.float32), model, "set").encoded
    message.parameter_ref = "sett"
    wrap: Callable[[Any], Any] = (lambda value: {"part": value}) if nested else (lambda value: value)
    place = "past.part" if nested else "past"
    with pytest.raises(ValueError, match=f"`{place}`.*parameter_ref.*got `sett`"):
        refeed.PersistentValueState(model, {"past": wrap(message)})
    good = runtime.quantize_tensor_shared(np.zeros(4, np.float32), model, "set")
    state = refeed.PersistentValueState(model, {"past": wrap(good)})
    with pytest.raises(ValueError, match="parameter_ref"):
        state.reset({"past": wrap(message)})
    kept: Any = state.values["past"]
    assert (kept["part"] if nested else kept).raw_data == good.raw_data


@pytest.mark.parametrize("nested", [False, True])
def test_parameters_of_another_model_are_refused_and_equal_ones_taken(nested: bool, tmp_path: pathlib.Path) -> None:
    """Rules 7.5.5, 7.5.6; S246: a name means what the state's model means by it, before and after a file."""
    model, other = retaining(nested), retaining(nested)
    wrap: Callable[[Any], Any] = (lambda value: {"part": value}) if nested else (lambda value: value)
    numbers = np.array([2, -1, 1, 0], np.float32) / 4
    equal = runtime.quantize_tensor_shared(numbers, other, "set")
    state = refeed.PersistentValueState(model, {"past": wrap(equal)})
    state.save(tmp_path / "equal.state")
    state.load(tmp_path / "equal.state")
    kept: Any = state.values["past"]
    kept = kept["part"] if nested else kept
    np.testing.assert_array_equal(runtime.dequantize_tensor(kept).numpy(), numbers)
    foreign = retaining(nested)
    scales = next(i for i in foreign.graph.initializer if i.name.endswith("/scales"))
    scales.raw_data = np.array([2.0]).tobytes()
    value = runtime.quantize_tensor_shared(numbers * 8, foreign, "set")
    with pytest.raises(refeed.ValueTypeError, match=r"`past.*parameter_ref.*this model calls `set`"):
        state.reset({"past": wrap(value)})
    with pytest.raises(refeed.ValueTypeError, match="parameter_ref"):
        refeed.PersistentValueState(model, {"past": wrap(value)})


def test_a_value_of_another_shape_does_not_fit_the_declaration() -> None:
    model = retaining()
    storage = runtime.make_affine_quantization_type(INT4, 5)
    logical = helper.make_tensor_type_proto(FLOAT, [5])
    runtime.add_quantization_parameters(model, "five", storage, logical, scales=np.array([0.25]))
    five: Any = runtime.quantize_tensor_shared(np.zeros(5, np.float32), model, "five")
    with pytest.raises(ValueError, match="shape mismatch"):
        refeed.PersistentValueState(model, {"past": five})
