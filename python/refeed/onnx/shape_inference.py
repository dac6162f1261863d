"""Types and shapes of all values of a model, with the names and arguments of `onnx.shape_inference`.

What is found is what the operators say, over nested graphs and model-local functions. Dimensions stay symbolic:
concatenating a cache of `past` rows and `new` ones gives `past + new`, and with `data_prop` shapes computed by `Shape`,
`Gather`, `Concat`, `Reshape` and the like are followed. An extent that only the data decide is named `unk__0`,
`unk__1`, ... so that values of one such extent are recognised.

A declaration and a node that contradict each other are an error in strict mode, which names both; otherwise the
declaration stands.

Differences from `onnx`: values of the extension's structured types keep their declarations; `InferenceError` is a
`ValueError`; the classes that C++ type rules are handed (`GraphInferencer`, `InferenceContext`) do not exist, and the
types of an operator that refeed does not know are unknown; recursive functions raise `InferenceError`.

Examples
--------
>>> from refeed.onnx import parser, shape_inference
>>> model = parser.parse_model('''
... <ir_version: 10, opset_import: ["": 21]>
... decoder (float[batch,4,past,8] cache, float[batch,4,new,8] rows) => (present, y) {
...     present = Concat <axis = 2> (cache, rows)
...     y = Transpose <perm = [0, 2, 1, 3]> (present)
... }''')
>>> inferred = shape_inference.infer_shapes(model)
>>> [dim.dim_param or dim.dim_value for dim in inferred.graph.output[1].type.tensor_type.shape.dim]
['batch', 'past + new', 4, 8]
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from refeed._native import _onnx
from refeed.errors import InferenceError
from refeed.onnx.files import load, save
from refeed.onnx.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    Message,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
)

__all__ = [
    "InferenceError",
    "infer_function_output_types",
    "infer_node_outputs",
    "infer_shapes",
    "infer_shapes_path",
]

_M = TypeVar("_M", bound=Message)

#: The newest format that is written.
_IR_VERSION = 14


def infer_shapes(
    model: ModelProto | bytes,
    check_type: bool = False,
    strict_mode: bool = False,
    data_prop: bool = False,
) -> ModelProto:
    """Infer the types of a model's values.

    Parameters
    ----------
    model : ModelProto or bytes
        Not changed. Its payloads are shared with the result.
    check_type : bool
        Raise where the kind or the element type of an input contradicts the operator.
    strict_mode : bool
        Raise for every contradiction, also between a declaration and what a node gives.
    data_prop : bool
        Follow the values of shape arithmetic from node to node. Constants are known in any case.

    Returns
    -------
    ModelProto
        The model with `value_info` in every graph, nested ones included, and with the types of its outputs.

    Raises
    ------
    InferenceError
        When functions call themselves, a domain is not imported, a default contradicts its input, or a limit is met;
        and as the arguments say.
    TypeError
        When it is no model.
    """
    if isinstance(model, bytes):
        inferred = ModelProto.FromString(model)
    elif isinstance(model, str | os.PathLike):
        raise TypeError(
            "infer_shapes only accepts ModelProto or bytes, for paths use infer_shapes_path; "
            f"incorrect type: {type(model)}"
        )
    else:
        inferred = _copy(ModelProto, model, "infer_shapes only accepts ModelProto or bytes")
    for path, declared in _onnx._infer_declarations(inferred, check_type, strict_mode, data_prop):
        _declare(_graph_at(inferred.graph, path), declared)
    return inferred


def _copy(kind: type[_M], message: Any, refusal: str) -> _M:
    """Copy a message of ours, or one of the `onnx` package."""
    copied = kind()
    if isinstance(message, kind):
        copied.CopyFrom(message)
    elif getattr(getattr(message, "DESCRIPTOR", None), "full_name", None) == f"onnx.{kind.__name__}":
        copied.ParseFromString(message.SerializeToString())
    else:
        raise TypeError(f"{refusal}, incorrect type: {type(message)}")
    return copied


def _graph_at(graph: GraphProto, path: Sequence[tuple[int, int, int | None]]) -> GraphProto:
    for node, attribute, position in path:
        held = graph.node[node].attribute[attribute]
        graph = held.g if position is None else held.graphs[position]
    return graph


def _declare(graph: GraphProto, declared: GraphProto) -> None:
    """Replace what a graph declares, which is all that `declared` holds."""
    for field in ("input", "output", "value_info"):
        graph.ClearField(field)
    graph.MergeFrom(declared)


def infer_shapes_path(
    model_path: str | os.PathLike[str],
    output_path: str | os.PathLike[str] = "",
    check_type: bool = False,
    strict_mode: bool = False,
    data_prop: bool = False,
) -> None:
    """Infer the types of the values of a model in a file, and write it to a file.

    Tensors in other files are not read, and the written model names them as the read one does.

    Parameters
    ----------
    model_path : str or os.PathLike
        The model's file.
    output_path : str or os.PathLike
        Where the result is written; over the model itself by default. The file is written whole or not at all.
    check_type : bool
        See `infer_shapes`.
    strict_mode : bool
        See `infer_shapes`.
    data_prop : bool
        See `infer_shapes`.

    Raises
    ------
    InferenceError
        As `infer_shapes`.
    OSError
        When a file cannot be read or written.
    TypeError
        When a path is none.
    """
    if isinstance(model_path, ModelProto):
        raise TypeError(
            "infer_shapes_path only accepts model Path (String), you can use infer_shapes for the ModelProto."
        )
    source, target = _path(model_path, "model"), _path(output_path, "output")
    model = load(source, load_external_data=False)
    save(infer_shapes(model, check_type, strict_mode, data_prop), target or source)


def _path(path: Any, what: str) -> str:
    try:
        return os.fsdecode(os.fspath(path))
    except TypeError as error:
        raise TypeError(
            f"infer_shapes_path only accepts {what} path as a string or PathLike, "
            f"incorrect {what} path type: {type(path)}"
        ) from error


def infer_node_outputs(
    schema: Any,
    node: NodeProto,
    input_types: Mapping[str, TypeProto],
    input_data: Mapping[str, TensorProto] | None = None,
    input_sparse_data: Mapping[str, SparseTensorProto] | None = None,  # noqa: ARG001 - taken, not read
    opset_imports: Sequence[OperatorSetIdProto] | None = None,
    ir_version: int = _IR_VERSION,  # noqa: ARG001 - taken, not read
) -> dict[str, TypeProto]:
    """Infer the types of one node's outputs.

    Parameters
    ----------
    schema : onnx.defs.OpSchema or alike
        Its `name`, `domain` and `since_version` say which operator in which version the node is.
    node : NodeProto
        The node; what it calls itself does not count.
    input_types : Mapping of str to TypeProto
        Types of its inputs, and of what its nested graphs take from around.
    input_data : Mapping of str to TensorProto, optional
        Values of inputs that are known.
    input_sparse_data : Mapping of str to SparseTensorProto, optional
        Taken for compatibility: no operator's types depend on them.
    opset_imports : Sequence of OperatorSetIdProto, optional
        Versions for the nodes of nested graphs; of its own domain the schema's version by default.
    ir_version : int
        Taken for compatibility.

    Returns
    -------
    dict of str to TypeProto
        Types of the outputs that have a name and of which something is known.

    Raises
    ------
    KeyError
        When the type of an input is missing.
    InferenceError
        When the node contradicts its operator.
    """
    asked = _copy(NodeProto, node, "infer_node_outputs only accepts NodeProto")
    for name in node.input:
        if name:
            input_types[name]
    versions = {schema.domain: schema.since_version}
    if opset_imports is not None:
        versions = {import_.domain: import_.version for import_ in opset_imports} | versions
    asked.op_type, asked.domain, asked.overload = schema.name, schema.domain, ""
    found = _onnx._infer_node_outputs(
        asked, list(versions.items()), list(input_types.items()), list((input_data or {}).items())
    )
    return dict(found)


def infer_function_output_types(
    function: FunctionProto,
    input_types: Sequence[TypeProto],
    attributes: Sequence[AttributeProto],
) -> list[TypeProto]:
    """Infer the types of a function's outputs from those of its inputs.

    Parameters
    ----------
    function : FunctionProto
        The function. Calls of other functions in its body are not followed.
    input_types : Sequence of TypeProto
        Types of the inputs, in their order; missing ones at the end are inputs that are not given.
    attributes : Sequence of AttributeProto
        Attributes of the call.

    Returns
    -------
    list of TypeProto
        One for each output, empty where nothing can be told.

    Raises
    ------
    InferenceError
        When the body contradicts its operators, or the call the function.
    """
    found: list[TypeProto] = _onnx._infer_function_output_types(function, list(input_types), list(attributes))
    return found
