"""`refeed.onnx.checker` beside the checker of the `onnx` package."""

import os
import pathlib
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import operator_signatures
import pytest
import refeed
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from refeed import onnx as ours
from refeed.onnx import checker, verify

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnx.backend.test.loader import load_model_tests

    NODE_TESTS: list[Any] = load_model_tests(kind="node")

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
OPSET = 21


def refuses(check: Callable[..., None], *args: Any, **keywords: Any) -> str | None:
    """The message of a refusal, or None."""
    try:
        check(*args, **keywords)
    except Exception as error:  # the package raises several classes, some of protobuf
        return f"{type(error).__name__}: {error}"
    return None


# -------------------------------------------------------------------------------------- what the package accepts


def test_every_node_test_that_the_package_accepts_is_accepted() -> None:
    # Of onnx 1.23; all of them are legal.
    assert len(NODE_TESTS) == 1884
    for case in NODE_TESTS:
        wire = case.model.SerializeToString()
        assert refuses(onnx.checker.check_model, wire) is None
        assert refuses(checker.check_model, wire) is None, case.name
        assert refuses(verify.verify_model, wire) is None, case.name


def test_every_model_of_the_package_and_of_ours_that_the_package_accepts_is_accepted(root: pathlib.Path) -> None:
    packaged = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data"
    paths = [*packaged.rglob("*.onnx"), *(root / "tests" / "data").rglob("*.onnx")]
    assert len(paths) > 150
    both = 0
    for path in paths:
        theirs, found = refuses(onnx.checker.check_model, path), refuses(checker.check_model, path)
        assert (theirs is None) == (found is None), (path, theirs, found)
        assert refuses(verify.verify_model, path) is None
        both += theirs is None
    assert both >= len(paths) - 1


def test_full_check_refuses_types_that_contradict_each_other() -> None:
    model = plain()
    checker.check_model(model, full_check=True)
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 5
    checker.check_model(model)
    assert refuses(onnx.checker.check_model, model, full_check=True) is not None
    with pytest.raises(checker.ValidationError):
        checker.check_model(model, full_check=True)


# --------------------------------------------------------------------------------------- what the package refuses


def plain() -> Any:
    """`Neg` of a tensor [2, 3], beside an initializer `w`."""
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"], name="negate")],
        "tested",
        [helper.make_tensor_value_info("x", FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", FLOAT, [2, 3])],
        [helper.make_tensor("w", FLOAT, [2], [0.5, 1.5])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


Change = Callable[[Any], object]
CASES: dict[str, tuple[str, Change]] = {}


def case(part: str) -> Callable[[Change], Change]:
    """Add a change of the plain model after which both refuse it, ours with this text."""

    def add(change: Change) -> Change:
        CASES[change.__name__] = (part, change)
        return change

    return add


def node(model: Any, op_type: str, inputs: list[str], outputs: list[str], **keywords: Any) -> None:
    """Replace the one node."""
    del model.graph.node[:]
    model.graph.node.append(helper.make_node(op_type, inputs, outputs, **keywords))


# ---- models


@case("ir_version: expected 1 to 14, got 0")
def no_ir_version(model: Any) -> None:
    model.ClearField("ir_version")


@case("ir_version: expected 1 to 14, got 15")
def a_newer_ir_version(model: Any) -> None:
    model.ir_version = 15


@case("metadata_props[1]: key `a` is defined more than once")
def a_metadata_key_twice(model: Any) -> None:
    for value in ("1", "2"):
        model.metadata_props.add(key="a", value=value)


@case("opset_import: expected at least one")
def no_operator_set(model: Any) -> None:
    del model.opset_import[:]


@case("opset_import: expected none before IR version 3")
def operator_sets_before_they_were(model: Any) -> None:
    model.ir_version = 2


@case("opset_import[0]: opset version of domain `ai.onnx`")
def an_impossible_operator_set(model: Any) -> None:
    model.opset_import[0].version = 2**31


@case("graph")
def no_graph(model: Any) -> None:
    model.ClearField("graph")


# ---- graphs


@case("graph: expected a name for the graph")
def a_graph_without_a_name(model: Any) -> None:
    model.graph.name = ""


@case("graph.input[1]: graph input `x` is defined more than once")
def an_input_twice(model: Any) -> None:
    model.graph.input.append(model.graph.input[0])


@case("graph.initializer[0]: expected a name for an initializer")
def an_initializer_without_a_name(model: Any) -> None:
    model.graph.initializer[0].name = ""


@case("graph.initializer[1]: initializer `w` is defined more than once")
def an_initializer_twice(model: Any) -> None:
    model.graph.initializer.append(model.graph.initializer[0])


@case('graph.initializer[0] "w": expected the name of a graph input')
def an_initializer_that_was_no_input(model: Any) -> None:
    model.ir_version = 3


@case("graph.node[0] \"negate\" (Neg).input[0]: input `z` is defined nowhere")
def an_unknown_input(model: Any) -> None:
    model.graph.node[0].input[0] = "z"


@case("is used before graph.node[1]")
def nodes_out_of_order(model: Any) -> None:
    model.graph.node[0].input[0] = "t"
    model.graph.node.append(helper.make_node("Abs", ["x"], ["t"]))


@case("graph.node[1] (Abs).output[0]: value `y` is defined more than once")
def an_output_twice(model: Any) -> None:
    model.graph.node.append(helper.make_node("Abs", ["x"], ["y"]))


@case("value `x` is defined more than once, before by an input")
def an_output_over_an_input(model: Any) -> None:
    model.graph.node.append(helper.make_node("Abs", ["y"], ["x"]))


@case("value `w` is defined more than once")
def an_output_over_an_initializer(model: Any) -> None:
    model.graph.node.append(helper.make_node("Abs", ["y"], ["w"]))


@case('graph.output[1] "q": output `q` is defined nowhere')
def an_unknown_graph_output(model: Any) -> None:
    model.graph.output.append(helper.make_tensor_value_info("q", FLOAT, [2]))


# ---- declarations


@case("graph.input[0]: expected a name")
def an_input_without_a_name(model: Any) -> None:
    model.graph.input[0].name = ""


@case("graph.output[1]: expected a name")
def an_output_without_a_name(model: Any) -> None:
    model.graph.output.append(helper.make_tensor_value_info("", FLOAT, [2]))


@case('graph.input[0] "x".type: expected a type, got none')
def an_input_without_a_type(model: Any) -> None:
    model.graph.input[0].ClearField("type")


@case('graph.input[0] "x".type: expected a type, got none')
def an_input_with_an_empty_type(model: Any) -> None:
    model.graph.input[0].type.ClearField("tensor_type")


@case('graph.input[0] "x".type.tensor_type.elem_type: expected an element type')
def a_tensor_without_an_element_type(model: Any) -> None:
    model.graph.input[0].type.tensor_type.ClearField("elem_type")


@case('graph.input[0] "x".type.tensor_type.shape: expected a shape, got none')
def a_tensor_without_a_shape(model: Any) -> None:
    model.graph.input[0].type.tensor_type.ClearField("shape")


@case('graph.input[1] "z".type.sequence_type.elem_type: expected a type')
def a_sequence_without_an_element_type(model: Any) -> None:
    model.graph.input.add(name="z").type.sequence_type.SetInParent()


@case('graph.input[1] "z".type.optional_type.elem_type: expected a type')
def an_optional_without_an_element_type(model: Any) -> None:
    model.graph.input.add(name="z").type.optional_type.SetInParent()


@case("map_type.key_type: expected map keys of an integer type or STRING")
def a_map_without_a_key_type(model: Any) -> None:
    value = model.graph.input.add(name="z").type.map_type
    value.value_type.tensor_type.elem_type = FLOAT


@case("map_type.value_type: expected a type")
def a_map_without_a_value_type(model: Any) -> None:
    model.graph.input.add(name="z").type.map_type.key_type = INT64


@case("opaque_type.name: expected a name")
def an_opaque_type_without_a_name(model: Any) -> None:
    model.graph.input.add(name="z").type.opaque_type.SetInParent()


@case("sparse_tensor_type.elem_type: expected an element type")
def a_sparse_type_without_an_element_type(model: Any) -> None:
    model.graph.input.add(name="z").type.sparse_tensor_type.shape.SetInParent()


@case("sparse_tensor_type.shape: expected a shape")
def a_sparse_type_without_a_shape(model: Any) -> None:
    model.graph.input.add(name="z").type.sparse_tensor_type.elem_type = FLOAT


# ---- nodes


@case("expected a name for the operator")
def a_node_without_an_operator(model: Any) -> None:
    model.graph.node[0].op_type = ""


@case("graph.node[1] (Abs): expected an input or an output, got neither")
def a_node_that_is_not_connected(model: Any) -> None:
    model.graph.node.append(helper.make_node("Abs", [], []))


@case("domain `other` is not imported; imported: ai.onnx")
def a_domain_that_is_not_imported(model: Any) -> None:
    model.graph.node[0].domain = "other"


@case("attribute `to` is defined more than once")
def an_attribute_twice(model: Any) -> None:
    node(model, "Cast", ["x"], ["y"], to=FLOAT)
    model.graph.node[0].attribute.append(model.graph.node[0].attribute[0])


@case("op_type: expected an operator of ai.onnx of version 21, got `Negative`")
def an_unknown_operator(model: Any) -> None:
    model.graph.node[0].op_type = "Negative"


@case("op_type: expected an operator of ai.onnx of version 16, got `LayerNormalization`")
def an_operator_of_a_newer_set(model: Any) -> None:
    model.opset_import[0].version = 16
    node(model, "LayerNormalization", ["x", "w"], ["y"])


@case("op_type: expected an operator that is not deprecated, got ai.onnx::Upsample of version 21, deprecated since 10")
def a_deprecated_operator(model: Any) -> None:
    node(model, "Upsample", ["x", "w"], ["y"])


@case("op_type: expected an operator of ai.onnx.ml of version 3")
def an_unknown_operator_of_machine_learning(model: Any) -> None:
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    node(model, "Neg", ["x"], ["y"], domain="ai.onnx.ml")


@case("op_type: expected an operator of ai.onnx.preview.training of version 1")
def an_unknown_operator_of_training(model: Any) -> None:
    model.opset_import.append(helper.make_opsetid("ai.onnx.preview.training", 1))
    node(model, "Neg", ["x"], ["y"], domain="ai.onnx.preview.training")


@case("(Add): expected 2 inputs, got 1")
def too_few_inputs(model: Any) -> None:
    node(model, "Add", ["x"], ["y"])


@case("(Neg): expected 1 inputs, got 2")
def too_many_inputs(model: Any) -> None:
    model.graph.node[0].input.append("x")


@case("(Neg): expected 1 outputs, got 0")
def too_few_outputs(model: Any) -> None:
    model.graph.node.append(helper.make_node("Neg", ["x"], []))


@case("(Neg): expected 1 outputs, got 2")
def too_many_outputs(model: Any) -> None:
    model.graph.node[0].output.append("z")


@case("(Add).input[0]: expected a name, got an empty one")
def a_required_input_left_out(model: Any) -> None:
    node(model, "Add", ["", "x"], ["y"])


@case("(Neg).output[0]: expected a name, got an empty one")
def a_required_output_left_out(model: Any) -> None:
    model.graph.node.append(helper.make_node("Neg", ["x"], [""]))


@case('attribute["alpha"]: expected no attribute, as ai.onnx::Neg of version 21 has none, got `alpha`')
def an_unknown_attribute(model: Any) -> None:
    node(model, "Neg", ["x"], ["y"], alpha=1)


@case('attribute["axes"]: expected no attribute, as ai.onnx::Squeeze of version 21 has none, got `axes`')
def an_attribute_of_an_older_version(model: Any) -> None:
    node(model, "Squeeze", ["x"], ["y"], axes=[0])


@case('attribute["axis"].type: expected INT, got FLOAT')
def an_attribute_of_another_type(model: Any) -> None:
    node(model, "Softmax", ["x"], ["y"], axis=1.5)


@case('attribute["to"]: expected INT, which ai.onnx::Cast of version 21 asks for, got none')
def a_required_attribute_left_out(model: Any) -> None:
    node(model, "Cast", ["x"], ["y"])


@case('attribute["value"]: expected TENSOR, got no value')
def a_tensor_attribute_without_a_tensor(model: Any) -> None:
    node(model, "Constant", [], ["y"])
    model.graph.node[0].attribute.add(name="value", type=AttributeProto.TENSOR)


@case("(GroupNormalization): expected 3 inputs, got 4")
def as_many_inputs_as_no_version_has(model: Any) -> None:
    node(model, "GroupNormalization", ["x", "w", "w", "w"], ["y"], num_groups=1)


# ---- attributes


@case("expected a name for attribute")
def an_attribute_without_a_name(model: Any) -> None:
    model.graph.node[0].attribute.add(type=AttributeProto.INT, i=1)


@case('attribute["axis"].type: expected a type, got none')
def an_attribute_without_a_type(model: Any) -> None:
    node(model, "Softmax", ["x"], ["y"])
    model.graph.node[0].attribute.add(name="axis", i=1)


@case('attribute["axis"]: expected one value of type INT, got FLOAT')
def an_attribute_with_another_value(model: Any) -> None:
    node(model, "Softmax", ["x"], ["y"])
    model.graph.node[0].attribute.add(name="axis", type=AttributeProto.INT, f=1)


@case('attribute["axis"]: expected one value of type INT, got INT and INTS')
def an_attribute_with_two_values(model: Any) -> None:
    node(model, "Softmax", ["x"], ["y"])
    model.graph.node[0].attribute.add(name="axis", type=AttributeProto.INT, i=1, ints=[1])


def open_domain(model: Any) -> Any:
    """Replace the node by one of a domain that nobody knows; its attributes are checked all the same."""
    model.opset_import.append(helper.make_opsetid("mine", 1))
    node(model, "Op", ["x"], ["y"], domain="mine")
    return model.graph.node[0].attribute


def short_tensor() -> Any:
    tensor = helper.make_tensor("t", FLOAT, [2], [0.5, 1.5])
    del tensor.float_data[1:]
    return tensor


@case('attribute["a"].t: unnamed tensor: expected 4 bytes in raw_data, got 2')
def a_broken_tensor_in_an_attribute(model: Any) -> None:
    attribute = open_domain(model).add(name="a", type=AttributeProto.TENSOR)
    attribute.t.CopyFrom(TensorProto(data_type=FLOAT, raw_data=b"ab"))


@case('attribute["a"].tensors[1]: tensor `t`')
def a_broken_tensor_in_a_list(model: Any) -> None:
    whole = helper.make_tensor("t", FLOAT, [1], [0.5])
    open_domain(model).add(name="a", type=AttributeProto.TENSORS, tensors=[whole, short_tensor()])


@case('attribute["a"].sparse_tensor.values: expected a tensor, got none')
def a_broken_sparse_tensor_in_an_attribute(model: Any) -> None:
    open_domain(model).add(name="a", type=AttributeProto.SPARSE_TENSOR).sparse_tensor.dims.append(2)


@case('attribute["a"].sparse_tensors[0].values: expected a tensor, got none')
def a_broken_sparse_tensor_in_a_list(model: Any) -> None:
    open_domain(model).add(name="a", type=AttributeProto.SPARSE_TENSORS).sparse_tensors.add(dims=[2])


def branch(inputs: list[str], output: str, name: str = "branch") -> Any:
    nodes = [helper.make_node("Neg", inputs, [output])]
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(output, FLOAT, None)])


@case('attribute["a"].g.node[0] (Neg).input[0]: input `q` is defined nowhere')
def a_broken_graph_in_an_attribute(model: Any) -> None:
    open_domain(model).add(name="a", type=AttributeProto.GRAPH).g.CopyFrom(branch(["q"], "u"))


@case('attribute["a"].graphs[1].node[0] (Neg).input[0]: input `q` is defined nowhere')
def a_broken_graph_in_a_list(model: Any) -> None:
    graphs = [branch(["x"], "u"), branch(["q"], "v")]
    open_domain(model).add(name="a", type=AttributeProto.GRAPHS, graphs=graphs)


# ---- nested graphs


def branches(model: Any, then_branch: Any) -> None:
    model.graph.input.append(helper.make_tensor_value_info("cond", TensorProto.BOOL, []))
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("Abs", ["x"], ["t"]))
    model.graph.node.append(
        helper.make_node("If", ["cond"], ["y"], then_branch=then_branch, else_branch=branch(["x"], "v"))
    )


@case('attribute["then_branch"].g.node[0] (Neg).output[0]: value `t` is defined more than once, before by graph.node[0]')
def a_nested_node_over_an_outer_value(model: Any) -> None:
    branches(model, branch(["x"], "t"))


@case('attribute["then_branch"].g.output[0] "t": output `t` is defined nowhere')
def a_nested_graph_that_gives_an_outer_value(model: Any) -> None:
    graph = branch(["x"], "u")
    graph.output[0].name = "t"
    branches(model, graph)


@case('attribute["then_branch"].g: expected a name for the graph')
def a_nested_graph_without_a_name(model: Any) -> None:
    branches(model, branch(["x"], "u", name=""))


@case("`u` is defined nowhere")
def a_value_of_a_nested_graph_outside_of_it(model: Any) -> None:
    branches(model, branch(["x"], "u"))
    model.graph.output.append(helper.make_tensor_value_info("u", FLOAT, [2]))


@case("expected a name")
def a_nested_input_without_a_name(model: Any) -> None:
    graph = branch(["x"], "u")
    graph.input.add()
    branches(model, graph)


# ---- tensors


def initializer(**keywords: Any) -> Change:
    def change(model: Any) -> None:
        model.graph.initializer[0].CopyFrom(TensorProto(name="w", **keywords))

    return change


TENSORS: dict[str, tuple[str, dict[str, Any]]] = {
    "a_tensor_without_a_type": ("data type 0", {"dims": [1], "float_data": [0.5]}),
    "a_tensor_of_type_undefined": ("data type 0", {"data_type": 0, "dims": [1], "float_data": [0.5]}),
    "a_tensor_of_an_unknown_type": ("data type 77", {"data_type": 77, "dims": [1], "int32_data": [1]}),
    "elements_in_two_fields": (
        "got both raw_data and float_data",
        {"data_type": FLOAT, "dims": [1], "float_data": [0.5], "raw_data": b"abcd"},
    ),
    "no_elements": ("expected 1 entries in float_data, got 0", {"data_type": FLOAT, "dims": [1]}),
    "elements_of_an_empty_tensor": (
        "expected 0 entries in float_data, got 1",
        {"data_type": FLOAT, "dims": [0], "float_data": [0.5]},
    ),
    "a_negative_dimension": ("is negative", {"data_type": FLOAT, "dims": [-1], "float_data": [0.5]}),
    "dimensions_beyond_all_numbers": (
        "does not fit in memory",
        {"data_type": FLOAT, "dims": [2**40, 2**40], "float_data": [0.5]},
    ),
    "texts_as_raw_bytes": (
        "expected STRING elements in string_data or raw_data, got raw_data",
        {"data_type": TensorProto.STRING, "dims": [1], "raw_data": b"a"},
    ),
    "too_few_raw_bytes": ("expected 8 bytes in raw_data, got 7", {"data_type": FLOAT, "dims": [2], "raw_data": b"a" * 7}),
    "too_few_raw_4_bit_elements": (
        "expected 2 bytes in raw_data, got 1",
        {"data_type": TensorProto.INT4, "dims": [3], "raw_data": b"a"},
    ),
    "too_few_raw_2_bit_elements": (
        "expected 2 bytes in raw_data, got 1",
        {"data_type": TensorProto.UINT2, "dims": [5], "raw_data": b"a"},
    ),
    "too_few_raw_6_bit_elements": (
        "expected 3 bytes in raw_data, got 2",
        {"data_type": TensorProto.FLOAT6E2M3, "dims": [3], "raw_data": b"aa"},
    ),
    "bits_past_the_last_6_bit_element": (
        "expected 0 in the bits past the last element",
        {"data_type": TensorProto.FLOAT6E3M2, "dims": [3], "raw_data": b"aa\xff"},
    ),
    "a_wide_6_bit_element": (
        "int32_data[1]: 64 does not fit",
        {"data_type": TensorProto.FLOAT6E2M3, "dims": [2], "int32_data": [63, 64]},
    ),
    "elements_in_another_field": (
        "expected FLOAT elements in float_data or raw_data, got int64_data",
        {"data_type": FLOAT, "dims": [1], "int64_data": [1]},
    ),
    "too_few_floats": ("in float_data, got 1", {"data_type": FLOAT, "dims": [2], "float_data": [0.5]}),
    "too_few_complex_parts": (
        "expected 4 entries in float_data, got 3",
        {"data_type": TensorProto.COMPLEX64, "dims": [2], "float_data": [1, 2, 3]},
    ),
    "too_few_doubles": ("in double_data, got 1", {"data_type": TensorProto.DOUBLE, "dims": [2], "double_data": [1]}),
    "too_few_small_integers": ("in int32_data, got 1", {"data_type": TensorProto.INT8, "dims": [2], "int32_data": [1]}),
    "too_few_4_bit_entries": (
        "in int32_data, got 1",
        {"data_type": TensorProto.UINT4, "dims": [9], "int32_data": [1]},
    ),
    "too_few_2_bit_entries": (
        "in int32_data, got 1",
        {"data_type": TensorProto.INT2, "dims": [17], "int32_data": [1]},
    ),
    "too_few_integers": ("in int64_data, got 1", {"data_type": INT64, "dims": [2], "int64_data": [1]}),
    "too_few_unsigned_integers": (
        "in uint64_data, got 1",
        {"data_type": TensorProto.UINT32, "dims": [2], "uint64_data": [1]},
    ),
    "too_few_texts": (
        "in string_data, got 1",
        {"data_type": TensorProto.STRING, "dims": [2], "string_data": [b"a"]},
    ),
}
for _name, (_part, _keywords) in TENSORS.items():
    CASES[_name] = (_part, initializer(**_keywords))


# ---- sparse tensors


def sparse(values: Any, indices: Any, dims: list[int]) -> Any:
    found = onnx.SparseTensorProto(dims=dims)
    if values is not None:
        found.values.CopyFrom(values)
    if indices is not None:
        found.indices.CopyFrom(indices)
    return found


def floats(*dims: int) -> Any:
    return numpy_helper.from_array(np.ones(dims, np.float32), "s")


def positions(*numbers: Any) -> Any:
    return numpy_helper.from_array(np.array(numbers, np.int64), "i")


SPARSE: dict[str, tuple[str, Any]] = {
    "no_values": ("expected a name for an initializer", sparse(None, positions(0), [4])),
    "values_of_two_axes": ("values.dims: expected one axis", sparse(floats(1, 2), positions(0, 1), [4])),
    "no_dimensions": ("dims: expected at least one axis", sparse(floats(1), positions(0), [])),
    "an_empty_dimension": ("dims[1]: expected 1 or more, got 0", sparse(floats(1), positions(0), [4, 0])),
    "no_positions": ("indices: expected the positions of 2 values", sparse(floats(2), None, [4])),
    "positions_of_another_type": (
        "indices.data_type: expected INT64, got INT32",
        sparse(floats(1), numpy_helper.from_array(np.array([0], np.int32)), [4]),
    ),
    "positions_of_three_axes": ("indices.dims: expected [1] or [1, 1]", sparse(floats(1), positions([[0]]), [4])),
    "fewer_positions": ("indices.dims: expected [2] or [2, 1]", sparse(floats(2), positions(0), [4])),
    "a_position_outside": ("indices.position[1]: expected 0 to 3, got 4", sparse(floats(2), positions(0, 4), [4])),
    "a_negative_position": ("indices.position[0]: expected 0 to 3, got -1", sparse(floats(2), positions(-1, 2), [4])),
    "positions_out_of_order": ("indices.position[1]: expected more than 3", sparse(floats(2), positions(3, 1), [4])),
    "a_position_twice": ("indices.position[1]: expected more than 3", sparse(floats(2), positions(3, 3), [4])),
    "fewer_pairs": ("indices.dims: expected [2] or [2, 2]", sparse(floats(2), positions([0, 1]), [4, 5])),
    "triples_for_two_axes": ("indices.dims: expected [1] or [1, 2]", sparse(floats(1), positions([0, 1, 2]), [4, 5])),
    "a_pair_outside": (
        "indices.position[0].axis[1]: expected 0 to 4, got 5",
        sparse(floats(1), positions([0, 5]), [4, 5]),
    ),
    "pairs_out_of_order": (
        "indices.position[1]: expected a position after [1, 2], got [1, 1]",
        sparse(floats(2), positions([1, 2], [1, 1]), [4, 5]),
    ),
}
for _name, (_part, _sparse) in SPARSE.items():
    CASES[f"sparse_{_name}"] = (_part, lambda model, held=_sparse: model.graph.sparse_initializer.append(held))


@case("graph.sparse_initializer[0]: initializer `w` is defined more than once")
def a_sparse_initializer_with_the_name_of_another(model: Any) -> None:
    values = floats(1)
    values.name = "w"
    model.graph.sparse_initializer.append(sparse(values, positions(0), [4]))


# ---- functions


def function(nodes: list[Any] | None = None, **keywords: Any) -> Any:
    made: dict[str, Any] = {
        "domain": "mine",
        "fname": "f",
        "inputs": ["a"],
        "outputs": ["b"],
        "nodes": nodes if nodes is not None else [helper.make_node("Neg", ["a"], ["b"])],
        "opset_imports": [helper.make_opsetid("", OPSET), helper.make_opsetid("mine", 1)],
    }
    made.update(keywords)
    return helper.make_function(**made)


def called(model: Any, *functions: Any) -> None:
    model.opset_import.append(helper.make_opsetid("mine", 1))
    model.functions.extend(functions)
    node(model, "f", ["x"], ["y"], domain="mine")


@case("expected a name for the function")
def a_function_without_a_name(model: Any) -> None:
    called(model, function(fname=""))


@case("domain: expected a domain, got none")
def a_function_without_a_domain(model: Any) -> None:
    held = function()
    held.ClearField("domain")
    called(model, held)


@case('functions["mine::f"].input[1]: input `a` is defined more than once')
def a_function_with_an_input_twice(model: Any) -> None:
    called(model, function(inputs=["a", "a"]))


@case('functions["mine::f"].output[1]: output `b` is defined more than once')
def a_function_with_an_output_twice(model: Any) -> None:
    called(model, function(outputs=["b", "b"]))


@case('functions["mine::f"]: attribute `k` is defined more than once')
def a_function_with_an_attribute_twice(model: Any) -> None:
    called(model, function(attributes=["k", "k"]))


@case('functions["mine::f"].node[0] (Neg).input[0]: input `c` is used before')
def a_function_with_nodes_out_of_order(model: Any) -> None:
    called(model, function([helper.make_node("Neg", ["c"], ["b"]), helper.make_node("Abs", ["a"], ["c"])]))


@case('functions["mine::f"].node[1] (Abs).output[0]: value `b` is defined more than once')
def a_function_with_a_value_twice(model: Any) -> None:
    called(model, function([helper.make_node("Neg", ["a"], ["b"]), helper.make_node("Abs", ["a"], ["b"])]))


@case("domain `ai.onnx` is not imported")
def a_function_without_the_set_of_its_nodes(model: Any) -> None:
    called(model, function(opset_imports=[helper.make_opsetid("mine", 1)]))


@case('functions["mine::f"].opset_import[0]: opset version')
def a_function_with_an_impossible_set(model: Any) -> None:
    called(model, function(opset_imports=[helper.make_opsetid("", 2**31)]))


@case('functions["mine::f"].node[0] (Softmax): expected version 13')
def a_function_with_an_operator_of_another_version(model: Any) -> None:
    nodes = [helper.make_node("Softmax", ["a"], ["b"])]
    called(model, function(nodes, opset_imports=[helper.make_opsetid("", 12)]))


@case("function `mine::f` is defined more than once")
def a_function_twice(model: Any) -> None:
    called(model, function(), function())


@case("function `mine::f` calls itself: mine::f -> mine::f")
def a_function_that_calls_itself(model: Any) -> None:
    called(model, function([helper.make_node("f", ["a"], ["b"], domain="mine")]))


@case("calls itself")
def functions_that_call_each_other_from_nested_graphs(model: Any) -> None:
    inner = branch(["a"], "u")
    inner.node[0].op_type, inner.node[0].domain = "g", "mine"
    nodes = [helper.make_node("If", ["a"], ["b"], then_branch=inner, else_branch=branch(["a"], "v"))]
    called(model, function(nodes), function([helper.make_node("f", ["a"], ["b"], domain="mine")], fname="g"))


@case("depth of function calls: expected at most 100")
def a_long_chain_of_functions(model: Any) -> None:
    names = ["f", *(f"f{index}" for index in range(1, 120))]
    nodes = [[helper.make_node(name, ["a"], ["b"], domain="mine")] for name in names[1:]]
    chain = [function(held, fname=name) for name, held in zip(names, nodes, strict=False)]
    called(model, *chain, function(fname=names[-1]))


@case("functions: expected at most 10000, got 10001")
def very_many_functions(model: Any) -> None:
    held = function()
    for index in range(10_001):
        held.name = f"f{index}"
        model.functions.append(held)


@pytest.mark.parametrize("name", CASES)
def test_what_the_package_refuses_is_refused(name: str) -> None:
    part, change = CASES[name]
    model = plain()
    assert refuses(onnx.checker.check_model, model) is None
    assert refuses(checker.check_model, model) is None
    change(model)
    wire = model.SerializeToString()
    assert refuses(onnx.checker.check_model, wire) is not None, "the package accepts this"
    for given in (model, wire):
        with pytest.raises(checker.ValidationError) as caught:
            checker.check_model(given)
        assert part in str(caught.value)
    message = ours.ModelProto()
    message.ParseFromString(wire)
    with pytest.raises(checker.ValidationError, match="."):
        checker.check_model(message)


def test_there_is_a_case_for_every_rule() -> None:
    assert len(CASES) >= 110


# ----------------------------------------------------------------------------------- tensors in other files


def external(folder: pathlib.Path, location: str, **more: str) -> pathlib.Path:
    model = plain()
    tensor = model.graph.initializer[0]
    tensor.CopyFrom(TensorProto(name="w", data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL))
    entries = {"location": location, **more} if location else more
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_tensors_in_other_files_are_looked_for_beside_the_model(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").write_bytes(bytes(8))
    (tmp_path / "outside.bin").write_bytes(bytes(8))
    for check in (onnx.checker.check_model, checker.check_model, verify.verify_model):
        assert refuses(check, external(folder, "w.bin")) is None
        assert refuses(check, str(external(folder, "w.bin", offset="0", length="8"))) is None
    (folder / "link.bin").symlink_to(tmp_path / "outside.bin")
    os.link(tmp_path / "outside.bin", folder / "hard.bin")
    (folder / "inner").mkdir()
    for location, part in [
        ("", "names no file"),
        ("missing.bin", "No such file"),
        ("../outside.bin", "`..` part"),
        (str(tmp_path / "outside.bin"), "is absolute"),
        ("link.bin", "symbolic link"),
        ("hard.bin", "hard link"),
        ("inner", "regular file"),
    ]:
        path = external(folder, location)
        assert refuses(onnx.checker.check_model, path) is not None, location
        with pytest.raises(checker.ValidationError) as caught:
            checker.check_model(path)
        assert 'graph.initializer[0] "w"' in str(caught.value)
        assert part in str(caught.value)
    both = onnx.load(external(folder, "w.bin"), load_external_data=False)
    both.graph.initializer[0].raw_data = bytes(8)
    (folder / "both.onnx").write_bytes(both.SerializeToString())
    assert refuses(onnx.checker.check_model, folder / "both.onnx") is not None
    with pytest.raises(checker.ValidationError, match="got both external data and raw_data"):
        checker.check_model(folder / "both.onnx")


def test_a_model_file_that_cannot_be_read_is_no_fault_of_the_model(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError):
        checker.check_model(tmp_path / "nothing.onnx")
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(checker.ValidationError, match="not an ONNX model"):
        checker.check_model(tmp_path / "text.onnx")


# ---------------------------------------------------------------------------------------------- differences

Difference = tuple[str, Callable[[], Any], dict[str, Any]]


def changed(change: Change) -> Any:
    model = plain()
    change(model)
    return model


def _longer(model: Any) -> None:
    model.graph.initializer[0].float_data.append(2.5)


def _output_twice(model: Any) -> None:
    model.graph.output.append(model.graph.output[0])


def _reference(model: Any) -> None:
    open_domain(model).add(name="a", type=AttributeProto.INT, ref_attr_name="k")


def _no_graph(model: Any) -> None:
    open_domain(model).add(name="a", type=AttributeProto.GRAPH)


def _undefined(model: Any) -> None:
    model.graph.input[0].type.tensor_type.elem_type = 0


def _negative(model: Any) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -2


def _set_twice(model: Any) -> None:
    model.opset_import.append(helper.make_opsetid("ai.onnx", OPSET))


def _no_function_output(model: Any) -> None:
    called(model, function(outputs=["b", "c"]))


def _undeclared(model: Any) -> None:
    held = function()
    held.node[0].attribute.add(name="a", type=AttributeProto.INT, ref_attr_name="k")
    held.node[0].domain = "mine"
    called(model, held)


def _old_function(model: Any) -> None:
    model.ir_version = 7
    called(model, function([helper.make_node("Neg", ["q"], ["b"])]))


def _nested_default(model: Any) -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Neg", ["s"], ["e"])],
        "body",
        [helper.make_value_info(name, onnx.TypeProto()) for name in ("i", "c", "s")],
        [helper.make_value_info(name, onnx.TypeProto()) for name in ("d", "e")],
        [helper.make_tensor("s", FLOAT, [1], [0.5])],
    )
    node(model, "Loop", ["", "", "x"], ["y"], body=body)


def _branch_inputs(model: Any) -> None:
    graph = branch(["x"], "u")
    graph.input.append(helper.make_tensor_value_info("s", FLOAT, [1]))
    branches(model, graph)


def _empty_sequence(model: Any) -> None:
    model.graph.input.add(name="z").type.sequence_type.elem_type.SetInParent()


# What we refuse though the package accepts it, and why.
STRICTER: dict[str, tuple[str, Change]] = {
    "a tensor has exactly its elements: more of them are as likely a fault as fewer": ("got 3", _longer),
    "bindings and results are by name, so a name is one output's": ("defined more than once", _output_twice),
    "a reference outside of functions refers to nothing": ("only nodes of function bodies", _reference),
    "a graph attribute without a graph cannot be run": ("got no value", _no_graph),
    "a declared element type is one": ("expected an element type, got 0", _undefined),
    "no tensor has a negative dimension": ("expected a size of 0 or more, got -2", _negative),
    "one operator set is one version, and ai.onnx is the empty domain": ("more than once", _set_twice),
    "a function gives all its outputs": ("output `c` is defined nowhere", _no_function_output),
    "a function refers to its own attributes": ("which the function does not declare", _undeclared),
    "functions are held to their rules in every IR version": ("input `q` is defined nowhere", _old_function),
    "a nested graph is always given its inputs, so none has a default": ("defined more than once", _nested_default),
    "the branches of an If take nothing": ("expected 0 inputs, got 1", _branch_inputs),
    "a sequence is of something": ("expected a type, got none", _empty_sequence),
}


@pytest.mark.parametrize("why", STRICTER)
def test_where_we_refuse_what_the_package_accepts(why: str) -> None:
    part, change = STRICTER[why]
    model = changed(change)
    assert refuses(onnx.checker.check_model, model) is None
    with pytest.raises(checker.ValidationError) as caught:
        checker.check_model(model)
    assert part in str(caught.value)


def _named_default_domain(model: Any) -> None:
    model.graph.node[0].domain = "ai.onnx"


def _function_of_the_default_domain(model: Any) -> None:
    held = function(domain="", fname="Mine", opset_imports=[helper.make_opsetid("", OPSET)])
    model.functions.append(held)
    node(model, "Mine", ["x"], ["y"])


def _known_call(model: Any) -> None:
    called(model, function())


def _known_foreign(model: Any) -> None:
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    node(model, "FastGelu", ["x"], ["y"], domain="com.microsoft")


# What we accept though the package refuses it, and why.
LAXER: dict[str, tuple[Change, dict[str, Any]]] = {
    "ai.onnx is a name of the empty domain": (_named_default_domain, {}),
    "a function of the model is an operator, in any domain": (_function_of_the_default_domain, {}),
    "a function of the model is known, so it needs no schema": (_known_call, {"check_custom_domain": True}),
}


@pytest.mark.parametrize("why", LAXER)
def test_where_we_accept_what_the_package_refuses(why: str) -> None:
    change, keywords = LAXER[why]
    model = changed(change)
    assert refuses(onnx.checker.check_model, model, **keywords) is not None
    checker.check_model(model, **keywords)


def test_a_message_has_no_folder_for_tensors_in_other_files(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8))
    model = onnx.load(external(tmp_path, "w.bin"), load_external_data=False)
    monkeypatch.chdir(tmp_path)
    assert refuses(onnx.checker.check_model, model) is None, "the package looks in the working folder"
    with pytest.raises(checker.ValidationError, match="no folder"):
        checker.check_model(model)
    verify.verify_model(model)


# -------------------------------------------------------------------------------------------------- options


def test_operators_of_other_domains_are_unknown_only_when_asked() -> None:
    model = plain()
    open_domain(model)
    checker.check_model(model)
    assert refuses(onnx.checker.check_model, model, check_custom_domain=True) is not None
    with pytest.raises(checker.ValidationError, match="an operator of mine of version 1, got `Op`"):
        checker.check_model(model, check_custom_domain=True)


def test_functions_may_import_other_versions_when_asked() -> None:
    model = plain()
    a_function_with_an_operator_of_another_version(model)
    for module in (onnx.checker, checker):
        assert refuses(module.check_model, model) is not None
        module.check_model(model, skip_opset_compatibility_check=True)


def test_models_come_in_every_form(tmp_path: pathlib.Path) -> None:
    model = plain()
    wire = model.SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(wire)
    message = ours.ModelProto.FromString(wire)
    for given in (model, wire, path, str(path), message, refeed.load(wire)):
        checker.check_model(given)
    for wrong in (None, 3, model.graph, [wire]):
        with pytest.raises(TypeError):
            checker.check_model(wrong)


# ---------------------------------------------------------------------------------------------------- parts


def test_parts_are_checked_as_in_the_package() -> None:
    model = plain()
    graph = model.graph
    attribute = helper.make_attribute("axis", 1)
    whole: list[tuple[str, Any]] = [
        ("check_graph", graph),
        ("check_node", graph.node[0]),
        ("check_attribute", attribute),
        ("check_tensor", graph.initializer[0]),
        ("check_value_info", graph.input[0]),
        ("check_sparse_tensor", sparse(floats(2), positions(0, 3), [4])),
        ("check_function", function()),
    ]
    broken: list[tuple[str, Any]] = [
        ("check_graph", helper.make_graph([helper.make_node("Neg", ["q"], ["y"])], "g", [], [])),
        ("check_node", helper.make_node("Negative", ["x"], ["y"])),
        ("check_node", helper.make_node("Neg", ["x"], ["y"], domain="mine")),
        ("check_attribute", AttributeProto(name="axis", i=1)),
        ("check_tensor", short_tensor()),
        ("check_value_info", onnx.ValueInfoProto(name="x")),
        ("check_sparse_tensor", sparse(floats(2), positions(3, 0), [4])),
        ("check_function", function([helper.make_node("Neg", ["q"], ["b"])])),
    ]
    for name, part in whole:
        for module in (onnx.checker, checker):
            assert refuses(getattr(module, name), part) is None, name
        with pytest.raises(TypeError):
            getattr(checker, name)(model)
    for name, part in broken:
        assert refuses(getattr(onnx.checker, name), part) is not None, name
        with pytest.raises(checker.ValidationError):
            getattr(checker, name)(part)


def test_contexts_say_what_the_model_is() -> None:
    for module in (onnx.checker, checker):
        assert module.DEFAULT_CONTEXT.ir_version == onnx.IR_VERSION
        assert module.DEFAULT_CONTEXT.opset_imports == {"": onnx.defs.onnx_opset_version()}
        assert module.MAXIMUM_PROTOBUF == 2**31 - 1
        context = module.C.CheckerContext()
        assert (context.ir_version, context.opset_imports) == (-1, {})
        held = helper.make_node("Squeeze", ["x"], ["y"], axes=[0])
        assert refuses(module.check_node, held) is not None
        context.ir_version, context.opset_imports = 8, {"": 11}
        module.check_node(held, context)
        context.opset_imports = {"": 13}
        assert refuses(module.check_node, held, context) is not None
        # Before IR version 2 attributes had no type.
        context.ir_version = 1
        untyped = AttributeProto(name="axis", i=1)
        module.check_attribute(untyped, context, module.C.LexicalScopeContext())
        assert refuses(module.check_attribute, untyped) is not None
    whole = helper.make_node("If", ["c"], ["y"], then_branch=branch(["x"], "u"), else_branch=branch(["x"], "v"))
    assert refuses(onnx.checker.check_node, whole) is not None
    with pytest.raises(checker.ValidationError, match="`x` is defined nowhere"):
        checker.check_node(whole)
    scope = checker.LexicalScopeContext()
    scope.add("x")
    checker.check_node(whole, checker.DEFAULT_CONTEXT, scope)


def test_the_interface_is_the_packages() -> None:
    assert set(onnx.checker.__all__) <= set(checker.__all__)
    assert issubclass(checker.ValidationError, refeed.Error)
    assert issubclass(checker.ValidationError, ValueError)
    assert checker.C.ValidationError is checker.ValidationError is refeed.ValidationError


def test_the_table_of_operators_is_that_of_the_package() -> None:
    assert operator_signatures.TABLE.read_text() == operator_signatures.official()


def test_bytes_beyond_the_limit_of_protobuf_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "MAXIMUM_PROTOBUF", 10)
    with pytest.raises(ValueError, match="expected at most 10 bytes, got "):
        checker.check_model(plain().SerializeToString())


# -------------------------------------------------------------------------------------------------- hostile


def test_deep_and_long_messages_are_refused_or_read_in_linear_time() -> None:
    code = """
import time
from refeed.onnx import ModelProto, checker
from refeed.onnx import helper
deep = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [], [])
for _ in range(20):
    deep = helper.make_graph([helper.make_node("Op", ["x"], ["y"], domain="mine", body=deep)], "g", [], [])
inputs = [helper.make_tensor_value_info("x", 1, [2])]
def model(nodes):
    graph = helper.make_graph(nodes, "g", inputs, [])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)
checker.check_model(model([helper.make_node("Op", ["x"], ["z"], domain="mine", body=deep)])) if False else None
long = [helper.make_node("Neg", [f"t{i}" if i else "x"], [f"t{i + 1}"]) for i in range(100_000)]
wire = model(long).SerializeToString()
start = time.perf_counter()
checker.check_model(wire)
assert time.perf_counter() - start < 10
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)  # noqa: S603
