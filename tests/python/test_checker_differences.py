"""Where `refeed.onnx.checker` and the checker of the `onnx` package differ, and why."""

import pathlib
from typing import Any

import onnx
import pytest
from illegal_models import FLOAT, OPSET, Change, branch, branches, called, function, node, open_domain, plain, refuses
from onnx import AttributeProto, TensorProto, helper
from refeed.onnx import checker, verify


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
    model = plain()
    tensor = model.graph.initializer[0]
    tensor.CopyFrom(TensorProto(name="w", data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL))
    tensor.external_data.add(key="location", value="w.bin")
    monkeypatch.chdir(tmp_path)
    assert refuses(onnx.checker.check_model, model) is None, "the package looks in the working folder"
    with pytest.raises(checker.ValidationError, match="no folder"):
        checker.check_model(model)
    verify.verify_model(model)
