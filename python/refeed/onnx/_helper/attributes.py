"""Attributes of nodes: making them from Python values, and reading them."""

import numbers
from collections.abc import Callable, Iterable
from typing import Any

from refeed.onnx.messages import AttributeProto, GraphProto, NodeProto, SparseTensorProto, TensorProto, TypeProto


def _to_bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8") if isinstance(value, str) else value


def _every(kinds: type | tuple[type, ...]) -> Callable[[list[Any]], bool]:
    return lambda values: all(isinstance(value, kinds) for value in values)


#: Which values a field of one value takes, how the value is written, and the type that it makes. The first row that
#: takes a value decides: `bool` and the integers of NumPy are `Integral`, and every `Integral` is also `Real`.
_SINGLE: list[tuple[type | tuple[type, ...], str, Callable[[Any], Any] | None, int]] = [
    (numbers.Integral, "i", int, AttributeProto.INT),
    (numbers.Real, "f", float, AttributeProto.FLOAT),
    ((str, bytes), "s", _to_bytes, AttributeProto.STRING),
    (TensorProto, "t", None, AttributeProto.TENSOR),
    (SparseTensorProto, "sparse_tensor", None, AttributeProto.SPARSE_TENSOR),
    (GraphProto, "g", None, AttributeProto.GRAPH),
    (TypeProto, "tp", None, AttributeProto.TYPE_PROTO),
]

#: The same for lists.
_REPEATED: list[tuple[Callable[[list[Any]], bool], str, int]] = [
    (_every(numbers.Integral), "ints", AttributeProto.INTS),
    (_every(numbers.Real), "floats", AttributeProto.FLOATS),
    (_every((str, bytes)), "strings", AttributeProto.STRINGS),
    (_every(TensorProto), "tensors", AttributeProto.TENSORS),
    (_every(SparseTensorProto), "sparse_tensors", AttributeProto.SPARSE_TENSORS),
    (_every(GraphProto), "graphs", AttributeProto.GRAPHS),
    (_every(TypeProto), "type_protos", AttributeProto.TYPE_PROTOS),
]

_FIELDS = {number: field for _, field, _, number in _SINGLE} | {number: field for _, field, number in _REPEATED}


def attr_type_to_str(attr_type: int) -> str:
    """Return the name of an attribute type, `UNDEFINED` for a number that is none."""
    if attr_type in AttributeProto.AttributeType.values():
        return str(AttributeProto.AttributeType.Name(attr_type))
    return "UNDEFINED"


def make_attribute(
    key: str,
    value: Any,
    doc_string: str | None = None,
    attr_type: int | None = None,
) -> AttributeProto:
    """Make an attribute; the Python value says of which type.

    Parameters
    ----------
    key : str
        The attribute's name.
    value : object
        A number, str, bytes, TensorProto, SparseTensorProto, GraphProto or TypeProto, or an iterable of values of one
        such kind. Integers, bools among them, make `INT`, other real numbers `FLOAT`; a list of both makes `FLOATS`.
    doc_string : str, optional
        The attribute's documentation.
    attr_type : int, optional
        The `AttributeProto.AttributeType` that the value must make. An empty iterable needs it.

    Returns
    -------
    AttributeProto

    Raises
    ------
    TypeError
        The value is no attribute's, or makes another type than `attr_type`.
    ValueError
        An iterable is empty or of mixed kinds, and no `attr_type` is given.
    AssertionError
        The value is an iterable, and `attr_type` is not a type of lists.

    Examples
    --------
    >>> make_attribute("axes", [0, 2]).ints
    [0, 2]
    """
    attribute = AttributeProto()
    attribute.name = key
    if doc_string:
        attribute.doc_string = doc_string
    row = next((row for row in _SINGLE if isinstance(value, row[0])), None)
    if row is not None:
        _, field, convert, made = row
        if convert is None:
            getattr(attribute, field).CopyFrom(value)
        else:
            setattr(attribute, field, convert(value))
    elif isinstance(value, Iterable):
        made = _fill_repeated(attribute, key, list(value), attr_type)
    else:
        raise TypeError(
            f"attribute {key!r}: {value!r} of type {type(value).__name__} is no attribute's value; expected a "
            "number, str, bytes, TensorProto, SparseTensorProto, GraphProto, TypeProto, or a list of one of them"
        )
    if attr_type is not None and attr_type != made:
        raise TypeError(
            f"attribute {key!r}: the value makes type {attr_type_to_str(made)} ({made}), but attr_type is "
            f"{attr_type_to_str(attr_type)} ({attr_type})"
        )
    attribute.type = made
    return attribute


def _fill_repeated(attribute: AttributeProto, key: str, values: list[Any], attr_type: int | None) -> int:
    """Write a list, and return the type that it makes."""
    if attr_type is not None:
        field = next((field for _, field, made in _REPEATED if made == attr_type), None)
        if field is None:
            # The class that onnx raises here.
            raise AssertionError(
                f"attribute {key!r}: the value is a list, but attr_type is {attr_type_to_str(attr_type)} ({attr_type})"
            )
        made = int(attr_type)
    elif not values:
        raise ValueError(f"attribute {key!r}: an empty list does not say its type; give attr_type")
    else:
        row = next((row for row in _REPEATED if row[0](values)), None)
        if row is None:
            kinds = sorted({type(value).__name__ for value in values})
            raise ValueError(
                f"attribute {key!r}: no attribute holds a list of {', '.join(kinds)}; expected all numbers, all str "
                "or bytes, or messages of one class"
            )
        _, field, made = row
    if made == AttributeProto.STRINGS:
        values = [_to_bytes(value) for value in values]
    getattr(attribute, field).extend(values)
    return made


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
    field = _FIELDS.get(attr.type)
    if field is None:
        return None
    value = getattr(attr, field)
    return list(value) if attr.type in _LISTS else value


_LISTS = {made for _, _, made in _REPEATED}


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
