"""Messages as text, in the ONNX text form.

What `to_text` writes, `refeed.onnx.parser` reads back as the same message, or `to_text` says which fields would not
come back. `onnx.printer` leaves these out silently: documentation and metadata of graphs, nodes, values and tensors,
sparse tensors, quantization annotations, device configurations, training, defaults of a function's attributes, its
declared values and documentation; and it writes `...` for elements that it does not know.

The extension fields of refeed have no text form, so models with persistent bindings, struct types, encoded or paged
initializers are refused.
"""

from typing import Literal

from refeed._native import _onnx
from refeed.errors import PrintError
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

__all__ = ["PrintError", "to_text"]


def to_text(
    proto: ModelProto
    | GraphProto
    | FunctionProto
    | NodeProto
    | AttributeProto
    | TensorProto
    | ValueInfoProto
    | TypeProto,
    *,
    fidelity: Literal["exact", "equivalent", "lossy"] = "equivalent",
) -> str:
    r"""Write a message as text.

    Parameters
    ----------
    proto : message
        A model, graph, function or node; also an attribute, tensor, value info or type.
    fidelity : {"equivalent", "exact", "lossy"}
        What must come back when the text is parsed. "exact": the same bytes on the wire. "equivalent": the same
        message, but a field that holds its default may come back absent or the reverse (a node without a domain gets an
        empty one), and `raw_data` comes back as typed elements with the same bits. "lossy": what there is a place for;
        the rest is left out, and words that cannot be written are spelled with `_`.

    Returns
    -------
    str
        In the layout of `onnx.printer`.

    Raises
    ------
    PrintError
        When something would not come back; its `lost` names every such field. Where `fidelity="lossy"` would print the
        rest, the message says so.
    TypeError
        When `proto` is no message with a text form.

    Examples
    --------
    >>> from refeed.onnx import parser, printer
    >>> node = parser.parse_node("y=Clip<a=[1,2]>(x)")
    >>> printer.to_text(node)
    'y = Clip <a: ints = [1, 2]> (x)\n'
    >>> node.doc_string = "cuts"
    >>> printer.to_text(node)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    refeed.errors.PrintError: the text form cannot carry 1 field: doc_string: has no syntax; ...
    """
    text: str = _onnx._print_text(proto, fidelity)
    return text
