"""Messages from the ONNX text form.

The grammar is that of `onnx.parser` (https://onnx.ai/onnx/repo-docs/Syntax.html), and the messages are the same. What
`onnx.parser` takes and drops or alters is refused or kept: text after the end of a node, a graph or a function; lists
of tensors, graphs and types, which it forgets; faults in the defaults of a function's attributes; negative elements of
`uint32` and `uint64`; zero bytes. Quoted names of graphs and tensors inside attributes, which its printer writes, and
numbers such as `.5` are taken. Messages nest at most 100 deep, as on the wire.

Every function takes `str`, or `bytes`, whose strings of attributes and tensors may then be no text. It raises
`ParseError` with line and column, and `TypeError` for anything else.

Examples
--------
>>> from refeed.onnx import parser
>>> node = parser.parse_node("[sum] y = Add (a, b)")
>>> node.name, node.op_type, list(node.input)
('sum', 'Add', ['a', 'b'])
>>> try:
...     parser.parse_node("y = Add (a b)")
... except parser.ParseError as error:
...     print(error)
line 1, column 12: expected `,` or `)`, got `b`
    y = Add (a b)
               ^
"""

from refeed._native import _onnx
from refeed.errors import ParseError
from refeed.onnx.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)

__all__ = [
    "ParseError",
    "parse_attribute",
    "parse_function",
    "parse_graph",
    "parse_model",
    "parse_node",
    "parse_tensor",
    "parse_type",
    "parse_value_info",
]


def parse_model(model_text: str | bytes) -> ModelProto:
    """Read a model: a header or none, the graph, functions.

    Parameters
    ----------
    model_text : str or bytes
        Such as `<ir_version: 10, opset_import: ["": 21]> g (float[N] x) => (float[N] y) { y = Neg (x) }`.

    Returns
    -------
    ModelProto
        Without the checks of `refeed.onnx.checker`.

    Raises
    ------
    ParseError
        With the place where the text goes wrong.
    """
    parsed: ModelProto = _onnx._parse_text("ModelProto", model_text)
    return parsed


def parse_graph(graph_text: str | bytes) -> GraphProto:
    """Read a graph.

    Parameters
    ----------
    graph_text : str or bytes
        Such as `g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }`.

    Returns
    -------
    GraphProto
    """
    parsed: GraphProto = _onnx._parse_text("GraphProto", graph_text)
    return parsed


def parse_function(function_text: str | bytes) -> FunctionProto:
    """Read a function.

    Parameters
    ----------
    function_text : str or bytes
        Such as `<domain: "d", opset_import: ["": 21]> f <alpha: float = 1.0> (x) => (y) { y = Neg (x) }`.

    Returns
    -------
    FunctionProto
    """
    parsed: FunctionProto = _onnx._parse_text("FunctionProto", function_text)
    return parsed


def parse_node(node_text: str | bytes) -> NodeProto:
    """Read a node.

    Parameters
    ----------
    node_text : str or bytes
        Such as `[name] y = domain.Op:overload <axis: int = 1> (x)`.

    Returns
    -------
    NodeProto
    """
    parsed: NodeProto = _onnx._parse_text("NodeProto", node_text)
    return parsed


def parse_attribute(attribute_text: str | bytes) -> AttributeProto:
    """Read an attribute, which `onnx.parser` does not.

    Parameters
    ----------
    attribute_text : str or bytes
        Such as `axes: ints = [0, -1]`.

    Returns
    -------
    AttributeProto
    """
    parsed: AttributeProto = _onnx._parse_text("AttributeProto", attribute_text)
    return parsed


def parse_tensor(tensor_text: str | bytes) -> TensorProto:
    """Read a tensor, which `onnx.parser` does not.

    Parameters
    ----------
    tensor_text : str or bytes
        Such as `int64[2] t = {1, 2}`.

    Returns
    -------
    TensorProto
        With typed elements, or with `external_data`.
    """
    parsed: TensorProto = _onnx._parse_text("TensorProto", tensor_text)
    return parsed


def parse_value_info(value_info_text: str | bytes) -> ValueInfoProto:
    """Read a declared value, which `onnx.parser` does not.

    Parameters
    ----------
    value_info_text : str or bytes
        Such as `float[N, 3] x`.

    Returns
    -------
    ValueInfoProto
    """
    parsed: ValueInfoProto = _onnx._parse_text("ValueInfoProto", value_info_text)
    return parsed


def parse_type(type_text: str | bytes) -> TypeProto:
    """Read a type, which `onnx.parser` does not.

    Parameters
    ----------
    type_text : str or bytes
        Such as `seq(map(int64, float[N, 3]))`.

    Returns
    -------
    TypeProto
    """
    parsed: TypeProto = _onnx._parse_text("TypeProto", type_text)
    return parsed
