"""Sequences, maps and optional values as messages."""

from collections.abc import Iterable
from typing import Any

from refeed.onnx.messages import MapProto, OptionalProto, SequenceProto, TensorProto

#: The fields of `SequenceProto` and `OptionalProto` for each kind of value; the two enums have the same numbers.
VALUE_FIELDS = {
    SequenceProto.TENSOR: ("tensor_values", "tensor_value"),
    SequenceProto.SPARSE_TENSOR: ("sparse_tensor_values", "sparse_tensor_value"),
    SequenceProto.SEQUENCE: ("sequence_values", "sequence_value"),
    SequenceProto.MAP: ("map_values", "map_value"),
    SequenceProto.OPTIONAL: ("optional_values", "optional_value"),
}

_INTEGER_KEYS = {
    TensorProto.INT8,
    TensorProto.INT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.UINT16,
    TensorProto.UINT32,
    TensorProto.UINT64,
}


def make_sequence(name: str, elem_type: int, values: Iterable[Any]) -> SequenceProto:
    """Make a sequence.

    Parameters
    ----------
    name : str
        The sequence's name.
    elem_type : int
        A value of `SequenceProto.DataType`; with `UNDEFINED`, `values` are not looked at.
    values : iterable of message
        Messages of the class that `elem_type` says.

    Raises
    ------
    TypeError
        `elem_type` is no such value, or a message has another class.
    """
    made = SequenceProto()
    made.name = name
    made.elem_type = elem_type
    if elem_type != SequenceProto.UNDEFINED:
        getattr(made, _field(elem_type, 0, "sequence")).extend(values)
    return made


def make_optional(name: str, elem_type: int, value: Any) -> OptionalProto:
    """Make an optional value.

    Parameters
    ----------
    name : str
        The value's name.
    elem_type : int
        A value of `OptionalProto.DataType`; `UNDEFINED` when there is no value.
    value : message or None
        A message of the class that `elem_type` says.

    Raises
    ------
    TypeError
        `elem_type` is no such value, or `value` has another class.
    AssertionError
        There is no value, but `elem_type` says of what kind it is.
    """
    made = OptionalProto()
    made.name = name
    made.elem_type = elem_type
    if elem_type != OptionalProto.UNDEFINED:
        field = _field(elem_type, 1, "optional")
        if value is None:
            # The class that onnx raises here.
            raise AssertionError(f"optional {name!r} has no value; its elem_type is UNDEFINED then, got {elem_type}")
        getattr(made, field).CopyFrom(value)
    return made


def _field(elem_type: int, which: int, kind: str) -> str:
    if elem_type not in VALUE_FIELDS:
        raise TypeError(
            f"{kind}s hold no elements of type {elem_type}: expected a value of {kind.capitalize()}Proto.DataType"
        )
    return VALUE_FIELDS[elem_type][which]


def make_map(name: str, key_type: int, keys: Iterable[Any], values: SequenceProto) -> MapProto:
    """Make a map.

    Parameters
    ----------
    name : str
        The map's name.
    key_type : int
        `TensorProto.STRING` or an integer type. With any other, `keys` are not looked at.
    keys : iterable of int or bytes
        The keys.
    values : SequenceProto
        As many values, in the order of the keys.

    Raises
    ------
    TypeError
        A key has another type than `key_type` says.
    ValueError
        A key is beyond the range of INT64, the type in which integer keys are stored.
    """
    made = MapProto()
    made.name = name
    made.key_type = key_type
    if key_type == TensorProto.STRING:
        made.string_keys.extend(keys)
    elif key_type in _INTEGER_KEYS:
        made.keys.extend(keys)
    made.values.CopyFrom(values)
    return made
