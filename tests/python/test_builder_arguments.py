"""What `refeed.onnx.builder.GraphBuilder` says of wrong arguments."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from refeed.onnx.builder import GraphBuilder


def test_wrong_arguments_are_named_with_what_was_expected_and_got() -> None:
    builder = GraphBuilder("g")
    builder.make_input("past", 1, ["n"])
    before = builder.build_graph()
    wrong: Any = None
    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: builder.merge(wrong), "other: expected GraphBuilder, got NoneType"),
        (lambda: builder.merge(GraphBuilder("g"), wrong), "io_map: expected an iterable, got NoneType"),
        (lambda: builder.merge(GraphBuilder("g"), ["ab", wrong]), "io_map[0]: expected tuple or list, got str"),  # type: ignore[list-item]
        (lambda: builder.merge(GraphBuilder("g"), [("a",)]), "io_map[0]: expected a pair of names, got 1 items"),  # type: ignore[list-item]
        (lambda: builder.merge(GraphBuilder("g"), [("a", wrong)]), "io_map[0][1]: expected str, got NoneType"),
        (lambda: builder.merge(GraphBuilder("g"), prefix=wrong), "prefix: expected str, got NoneType"),
        (lambda: GraphBuilder.load(wrong), "self: expected GraphBuilder, got NoneType"),
        (lambda: builder.rename_values(wrong), "names: expected Mapping, got NoneType"),
        (lambda: builder.rename_values({"past": wrong}), "names['past']: expected str, got NoneType"),
        (lambda: builder.rename_value("past", wrong), "new: expected str, got NoneType"),
        (lambda: builder.make_input(wrong), "name: expected ValueInfoProto, got NoneType"),
        (lambda: builder.make_input("x", object()), "elem_type: expected TypeProto or int, got object"),  # type: ignore[arg-type]
        (lambda: builder.make_input("x", 1, [3.5]), "shape[0]: expected int or str or None, got float"),  # type: ignore[list-item]
        (lambda: builder.make_output(wrong), "name: expected ValueInfoProto, got NoneType"),
        (lambda: builder.make_node("Add", wrong), "inputs: expected an iterable, got NoneType"),
        (lambda: builder.make_node("Add", [], [3]), "outputs[0]: expected str or None, got int"),  # type: ignore[list-item]
        (
            lambda: builder.make_node("Add", [], attributes=[wrong]),
            "attributes[0]: expected AttributeProto, got NoneType",
        ),
        (lambda: builder.make_initializer(wrong), "value: expected TensorProto, got NoneType"),
        (lambda: builder.make_function(wrong), "function: expected FunctionProto, got NoneType"),
        (lambda: builder.extract(wrong, []), "inputs: expected an iterable, got NoneType"),
        (lambda: builder.extract([], [3]), "outputs[0]: expected str, got int"),  # type: ignore[list-item]
        (lambda: builder.replace_nodes([], [wrong]), "added[0]: expected NodeProto, got NoneType"),
        (lambda: builder.replace_nodes(["0"], []), "removed[0]: expected int, got str"),  # type: ignore[list-item]
        (lambda: builder.set_opset_version("", "17"), "version: expected int, got str"),  # type: ignore[arg-type]
        (lambda: builder.has_value(wrong), "name: expected str, got NoneType"),
    ]
    for call, text in refused:
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == text
    assert builder.build_graph() == before


def test_official_messages_and_numpy_integers_are_arguments() -> None:
    builder = GraphBuilder("g")
    builder.set_opset_version("", np.int64(17))  # type: ignore[arg-type]
    official: Any = onnx.helper.make_tensor_value_info("x", 1, ["n"])
    assert builder.make_input(official) == "x"
    node: Any = onnx.helper.make_node("Relu", ["x"], ["y"])
    builder.replace_nodes([], [node])
    assert builder.make_output("y") == "y"
    assert builder.to_onnx().graph.node[0].op_type == "Relu"
