"""Attributes of nodes: making them from Python values, and reading them."""

from typing import TYPE_CHECKING, Any

from refeed._native import _onnx
from refeed.onnx.messages import AttributeProto, NodeProto

#: The fields that hold the value of each type: one value, or a list.
_SINGLE = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "tp",
}
_REPEATED = {
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSORS: "tensors",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.SPARSE_TENSORS: "sparse_tensors",
    AttributeProto.TYPE_PROTOS: "type_protos",
}


if TYPE_CHECKING:

    def make_attribute(
        key: str,
        value: Any,
        doc_string: str | None = None,
        attr_type: int | None = None,
    ) -> AttributeProto: ...

else:
    make_attribute = _onnx.make_attribute


def make_attribute_ref(
    name: str,
    attr_type: int,
    doc_string: str | None = None,
    *,
    ref_attr_name: str | None = None,
) -> AttributeProto:
    """Make an attribute inside a function whose value is an attribute of the function's call.

    Parameters
    ----------
    name : str
        The attribute's name at the node in the function.
    attr_type : int
        Its `AttributeProto.AttributeType`.
    doc_string : str, optional
        The attribute's documentation.
    ref_attr_name : str, optional
        The name of the function's attribute, `name` when not given.

    Raises
    ------
    ValueError
        The name that is referred to is empty, or `attr_type` is no attribute type.
    """
    attribute = AttributeProto()
    referred = name if ref_attr_name is None else ref_attr_name
    if not referred:
        raise ValueError(f"attribute {name!r}: ref_attr_name is empty; name the function's attribute")
    attribute.name = name
    attribute.type = attr_type
    if doc_string:
        attribute.doc_string = doc_string
    attribute.ref_attr_name = referred
    return attribute


def get_attribute_value(attr: AttributeProto) -> Any:
    """Return an attribute's value: a number, bytes, a message (live), a list of them; None when it has no type.

    Raises
    ------
    ValueError
        The attribute refers to one of a function and has no value of its own.

    Examples
    --------
    >>> get_attribute_value(make_attribute("mode", "linear"))
    b'linear'
    """
    if attr.ref_attr_name:
        raise ValueError(
            f"attribute {attr.name!r} has no value: it refers to the attribute {attr.ref_attr_name!r} of its function"
        )
    if attr.type in _SINGLE:
        return getattr(attr, _SINGLE[attr.type])
    return list(getattr(attr, _REPEATED[attr.type])) if attr.type in _REPEATED else None


def get_node_attr_value(node: NodeProto, attr_name: str) -> Any:
    """Return the value of a node's attribute.

    Raises
    ------
    ValueError
        The node has no attribute of that name, or more than one.
    """
    found = [attribute for attribute in node.attribute if attribute.name == attr_name]
    if len(found) != 1:
        had = ", ".join(repr(attribute.name) for attribute in node.attribute) or "none"
        raise ValueError(f"node {node.name!r} has {len(found)} attributes named {attr_name!r}; it has {had}")
    return get_attribute_value(found[0])
