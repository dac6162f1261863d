"""Graphs as text for people. `refeed.onnx.printer` prints text that can be read back."""

import warnings
from typing import Any, Literal, overload

from refeed.onnx._helper.dtypes import tensor_dtype_to_field
from refeed.onnx.messages import (
    AttributeProto,
    GraphProto,
    NodeProto,
    TensorProto,
    TensorShapeProto,
    TypeProto,
    ValueInfoProto,
)

#: Strings are cut after so many characters.
_SHOWN = 64


def printable_dim(dim: TensorShapeProto.Dimension) -> str:
    """Show one dimension: its size, its name, or `?`."""
    which = dim.WhichOneof("value")
    return "?" if which is None else str(getattr(dim, which))


def printable_type(t: TypeProto) -> str:
    """Show a type. Of those that are not tensors only the kind is shown."""
    kind = t.WhichOneof("value")
    if kind is None:
        return ""
    if kind != "tensor_type":
        return f"Unknown type {kind}"
    text = _data_type(t.tensor_type.elem_type)
    if t.tensor_type.HasField("shape"):
        text += f", {_shape([printable_dim(dim) for dim in t.tensor_type.shape.dim])}"
    return text


def printable_value_info(v: ValueInfoProto) -> str:
    """Show a declared value: its name and type."""
    return f"%{v.name}[{printable_type(v.type)}]"


def printable_tensor_proto(t: TensorProto) -> str:
    """Show a tensor: its name, element type and shape."""
    return f"%{t.name}[{_data_type(t.data_type)}, {_shape([str(size) for size in t.dims])}]"


def _data_type(number: int) -> str:
    return str(TensorProto.DataType.Name(number))


def _shape(sizes: list[str]) -> str:
    return "x".join(sizes) if sizes else "scalar"


def _float(value: float) -> str:
    return f"{value:.15g}"


def _text(value: bytes) -> str:
    text = value.decode("utf-8", errors="ignore")
    if len(text) >= _SHOWN:
        text = f"{text[:_SHOWN]}...<+len={len(text) - _SHOWN}>"
    return repr(text)


def _tensor(value: TensorProto) -> str:
    if value.dims:
        return "<Tensor>"
    return f"<Scalar Tensor {list(getattr(value, tensor_dtype_to_field(value.data_type)))}>"


def _graph(value: GraphProto) -> str:
    return f"<graph {value.name}>"


def _type(value: TypeProto) -> str:
    return f"<Type Proto {value}>"


#: How a field of one value is shown, in the order in which they are looked for.
_SINGLE: dict[str, Any] = {
    "f": _float,
    "i": str,
    "s": _text,
    "t": _tensor,
    "g": _graph,
    "tp": _type,
    "sparse_tensor": lambda _: "<Sparse Tensor>",
}

#: The same for lists. Of tensors only the kind is shown.
_REPEATED: dict[str, Any] = {
    "floats": lambda values: f"[{', '.join(map(_float, values))}]",
    "ints": lambda values: f"[{', '.join(map(str, values))}]",
    "strings": lambda values: f"[{', '.join(map(_text, values))}]",
    "tensors": lambda _: "[<Tensor>, ...]",
    "sparse_tensors": lambda _: "[<Sparse Tensor>, ...]",
    "type_protos": lambda values: f"[ {', '.join(map(_type, values))} ]",
    "graphs": lambda values: f"[ {', '.join(map(_graph, values))} ]",
}


@overload
def printable_attribute(attr: AttributeProto, subgraphs: Literal[False] = False) -> str: ...
@overload
def printable_attribute(attr: AttributeProto, subgraphs: Literal[True]) -> tuple[str, list[GraphProto]]: ...
@overload
def printable_attribute(attr: AttributeProto, subgraphs: bool) -> str | tuple[str, list[GraphProto]]: ...
def printable_attribute(attr: AttributeProto, subgraphs: bool = False) -> str | tuple[str, list[GraphProto]]:
    """Show an attribute.

    Parameters
    ----------
    attr : AttributeProto
        The first of its fields that holds something is shown, whatever its type says.
    subgraphs : bool, default False
        Whether the graphs that it holds, of which only the names are shown, are returned too.
    """
    shown, graphs = "<Unknown>", []
    for field, show in _SINGLE.items():
        if attr.HasField(field):
            shown = show(getattr(attr, field))
            if field == "g":
                graphs.append(attr.g)
            break
    else:
        for field, show in _REPEATED.items():
            values = getattr(attr, field)
            if values:
                shown = show(values)
                if field == "graphs":
                    graphs.extend(values)
                break
    text = f"{attr.name} = {shown}"
    return (text, graphs) if subgraphs else text


@overload
def printable_node(node: NodeProto, prefix: str = "", subgraphs: Literal[False] = False) -> str: ...
@overload
def printable_node(node: NodeProto, prefix: str, subgraphs: Literal[True]) -> tuple[str, list[GraphProto]]: ...
@overload
def printable_node(node: NodeProto, prefix: str = "", *, subgraphs: Literal[True]) -> tuple[str, list[GraphProto]]: ...
def printable_node(node: NodeProto, prefix: str = "", subgraphs: bool = False) -> str | tuple[str, list[GraphProto]]:
    """Show a node on a line.

    Parameters
    ----------
    node : NodeProto
        The node.
    prefix : str, default ""
        What the line starts with.
    subgraphs : bool, default False
        Whether the graphs in its attributes are returned too.
    """
    outputs = ", ".join(f"%{name}" for name in node.output)
    graphs: list[GraphProto] = []
    attributes = []
    for attribute in node.attribute:
        text, inner = printable_attribute(attribute, subgraphs=True)
        attributes.append(text)
        graphs.extend(inner)
    shown = f"[{', '.join(attributes)}]" if attributes else ""
    inputs = ", ".join(f"%{name}" for name in node.input)
    text = f"{prefix}{f'{outputs} = ' if outputs else ''}{node.op_type}{shown}({inputs})"
    return (text, graphs) if subgraphs else text


def printable_graph(graph: GraphProto, prefix: str = "") -> str:
    """Show a graph, and after it every graph inside it.

    Deprecated, as it is in onnx: `refeed.onnx.printer.to_text` prints what can be read back.

    Parameters
    ----------
    graph : GraphProto
        The graph.
    prefix : str, default ""
        What each line of the outermost graph starts with.
    """
    message = "printable_graph is deprecated, as it is in onnx: use refeed.onnx.printer.to_text"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    texts = []
    pending = [(graph, prefix)]
    while pending:
        text, inner = _one_graph(*pending.pop())
        texts.append(text)
        pending.extend((graph, "") for graph in reversed(inner))
    return "\n\n".join(texts)


def _one_graph(graph: GraphProto, prefix: str) -> tuple[str, list[GraphProto]]:
    """Return the text of one graph, and the graphs that its nodes hold."""
    indent = f"{prefix}  "
    initialized = {tensor.name for tensor in graph.initializer}
    required = [value for value in graph.input if value.name not in initialized]
    optional = [value for value in graph.input if value.name in initialized]
    declared = {value.name for value in graph.input}
    constants = [tensor for tensor in graph.initializer if tensor.name not in declared]

    header = f"{prefix}graph {graph.name} "
    lines: list[str] = []
    # Constants of a graph without inputs are not shown.
    if graph.input:
        header += "("
        if required:
            lines += [header, *(indent + printable_value_info(value) for value in required)]
            header = prefix
        else:
            header += " "
        header += ") "
        if optional:
            lines.append(header + "optional inputs with matching initializers (")
            lines += [indent + printable_value_info(value) for value in optional]
            header = f"{prefix}) "
        if constants:
            lines.append(header + "initializers (")
            lines += [indent + printable_tensor_proto(tensor) for tensor in constants]
            header = f"{prefix}) "
    lines.append(header + "{")

    inner: list[GraphProto] = []
    for node in graph.node:
        text, graphs = printable_node(node, indent, subgraphs=True)
        lines.append(text)
        inner.extend(graphs)
    returned = ", ".join(f"%{value.name}" for value in graph.output)
    lines.append(f"{indent}return {returned}" if graph.output else f"{indent}return")
    lines.append(f"{prefix}}}")
    return "\n".join(lines), inner
