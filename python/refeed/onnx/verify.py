"""Whether messages keep to the format, extension messages included.

The rules are about structure: names and their scopes, order of nodes, types of declarations, attributes and tensors,
functions, persistent bindings and the use of bound inputs, struct types, encoded values, paged caches. Whether an
imported operator set has an operator is a question for `refeed.onnx.checker`. What a model must be for `refeed.load`,
it must be here, and tensors of the root graph's inputs and outputs state a shape.

Tensors in other files are compared with the files where the model is given as a path; otherwise they are held to what
they say of themselves. Every function takes messages of `refeed.onnx` and of the `onnx` package, and raises
`refeed.ModelError`, which is a `ValueError`, with the path of the field, what is expected and what is there.

Examples
--------
>>> from refeed.onnx import parser, verify
>>> text = '<ir_version: 10, opset_import: ["": 21]> g (float[N] x) => (float[N] y) { y = Neg (x) }'
>>> model = parser.parse_model(text)
>>> verify.verify_model(model)
>>> model.graph.node[0].input[0] = "z"
>>> try:
...     verify.verify_model(model)
... except ValueError as error:
...     print(error)
graph.node[0] (Neg).input[0]: input `z` is defined nowhere
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from refeed._native import Model, _onnx

__all__ = [
    "verify_attribute",
    "verify_encoded_value",
    "verify_function",
    "verify_graph",
    "verify_model",
    "verify_node",
    "verify_paged_cache",
    "verify_sparse_tensor",
    "verify_struct_type",
    "verify_tensor",
    "verify_value_info",
]


def _verify(
    what: str,
    message: Any,
    *,
    ir_version: int | None = None,
    opset_imports: Mapping[str, int] | None = None,
    is_main_graph: bool = True,
    outer_names: Iterable[str] = (),
) -> None:
    imports = None if opset_imports is None else dict(opset_imports)
    _onnx._check_part(what, message, False, ir_version, imports, is_main_graph, list(outer_names))


def verify_model(model: "Model | bytes | str | os.PathLike[str] | Any") -> None:
    """Verify a model.

    Parameters
    ----------
    model : ModelProto, Model, bytes, str or os.PathLike
        The model, or the path of its file.

    Raises
    ------
    refeed.ModelError
        For the first rule that the model breaks. Bindings come first, then the rest.
    OSError
        When the file, or a file with tensors, cannot be read.
    TypeError
        When `model` is no model.
    """
    _onnx._check_model(model, False, False, False, False)


def verify_graph(
    graph: Any,
    is_main_graph: bool = True,
    *,
    ir_version: int | None = None,
    opset_imports: Mapping[str, int] | None = None,
    outer_names: Iterable[str] = (),
) -> None:
    """Verify a graph with everything nested in it.

    Parameters
    ----------
    graph : GraphProto
        The graph.
    is_main_graph : bool
        Whether it is the root graph of a model. Other graphs have no bindings, and may leave types out.
    ir_version : int, optional
        IR version of the model; the newest when it is left out.
    opset_imports : mapping of str to int, optional
        Versions of the imported operator sets by domain; any set when it is left out.
    outer_names : iterable of str
        Values of the graphs around a graph that is not the root.

    Raises
    ------
    refeed.ModelError
        For the first rule that the graph breaks.
    TypeError
        When it is another message.
    """
    _verify(
        "GraphProto",
        graph,
        ir_version=ir_version,
        opset_imports=opset_imports,
        is_main_graph=is_main_graph,
        outer_names=outer_names,
    )


def verify_function(function: Any, *, ir_version: int | None = None) -> None:
    """Verify a function with everything nested in it.

    Parameters
    ----------
    function : FunctionProto
        The function.
    ir_version : int, optional
        IR version of the model; the newest when it is left out.

    Raises
    ------
    refeed.ModelError
        For the first rule that the function breaks.
    TypeError
        When it is another message.
    """
    _verify("FunctionProto", function, ir_version=ir_version)


def verify_node(
    node: Any,
    *,
    ir_version: int | None = None,
    opset_imports: Mapping[str, int] | None = None,
    outer_names: Iterable[str] = (),
) -> None:
    """Verify a node with everything nested in it. Its own inputs may come from anywhere.

    Parameters
    ----------
    node : NodeProto
        The node.
    ir_version : int, optional
        IR version of the model; the newest when it is left out.
    opset_imports : mapping of str to int, optional
        Versions of the imported operator sets by domain; any set when it is left out.
    outer_names : iterable of str
        Values that graphs nested in the node may read.

    Raises
    ------
    refeed.ModelError
        For the first rule that the node breaks.
    TypeError
        When it is another message.
    """
    _verify("NodeProto", node, ir_version=ir_version, opset_imports=opset_imports, outer_names=outer_names)


def verify_attribute(
    attribute: Any,
    *,
    ir_version: int | None = None,
    opset_imports: Mapping[str, int] | None = None,
    outer_names: Iterable[str] = (),
) -> None:
    """Verify an attribute with everything nested in it.

    Parameters
    ----------
    attribute : AttributeProto
        The attribute.
    ir_version : int, optional
        IR version of the model; the newest when it is left out.
    opset_imports : mapping of str to int, optional
        Versions of the imported operator sets by domain; any set when it is left out.
    outer_names : iterable of str
        Values that graphs nested in the attribute may read.

    Raises
    ------
    refeed.ModelError
        For the first rule that the attribute breaks.
    TypeError
        When it is another message.
    """
    _verify("AttributeProto", attribute, ir_version=ir_version, opset_imports=opset_imports, outer_names=outer_names)


def verify_tensor(tensor: Any) -> None:
    """Verify a tensor: a type, dimensions with a size, and exactly the elements that they ask for.

    Parameters
    ----------
    tensor : TensorProto
        The tensor.

    Raises
    ------
    refeed.ModelError
        For the first rule that the tensor breaks.
    TypeError
        When it is another message.
    """
    _verify("TensorProto", tensor)


def verify_sparse_tensor(sparse_tensor: Any) -> None:
    """Verify a sparse tensor: values in one row, each at a position inside the dimensions, in ascending order.

    Parameters
    ----------
    sparse_tensor : SparseTensorProto
        The tensor.

    Raises
    ------
    refeed.ModelError
        For the first rule that the tensor breaks.
    TypeError
        When it is another message.
    """
    _verify("SparseTensorProto", sparse_tensor)


def verify_value_info(value_info: Any, is_main_graph: bool = True) -> None:
    """Verify an input or an output of a graph.

    Parameters
    ----------
    value_info : ValueInfoProto
        The declaration.
    is_main_graph : bool
        Whether the graph is the root of a model. In other graphs only a name is asked for.

    Raises
    ------
    refeed.ModelError
        For the first rule that the declaration breaks.
    TypeError
        When it is another message.
    """
    _verify("ValueInfoProto", value_info, is_main_graph=is_main_graph)


def verify_encoded_value(encoded_value: Any) -> None:
    """Verify an encoded value: a layout, a payload in one place, and exactly the bytes that the layout asks for.

    Parameters
    ----------
    encoded_value : EncodedValueProto
        The value. References to struct types and to shared parameters of a model are taken on trust.

    Raises
    ------
    refeed.ModelError
        For the first rule that the value breaks.
    TypeError
        When it is another message.
    """
    _verify("EncodedValueProto", encoded_value)


def verify_paged_cache(paged_cache: Any) -> None:
    """Verify a paged cache: consecutive pages of one batch, as many heads, and widths that stay.

    Parameters
    ----------
    paged_cache : PagedCacheProto
        The cache.

    Raises
    ------
    refeed.ModelError
        For the first rule that the cache breaks.
    TypeError
        When it is another message.
    """
    _verify("PagedCacheProto", paged_cache)


def verify_struct_type(struct_type: Any) -> None:
    """Verify a struct type that is declared outside the catalogue of a model.

    Parameters
    ----------
    struct_type : StructTypeProto
        The type. References to entries of the catalogue are taken on trust.

    Raises
    ------
    refeed.ModelError
        For the first rule that the type breaks.
    TypeError
        When it is another message.
    """
    _verify("StructTypeProto", struct_type)
