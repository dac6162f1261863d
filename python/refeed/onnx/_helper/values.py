"""Lists, dictionaries and optional values as messages, and the reverse."""

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from refeed.onnx._helper.arrays import from_array, to_array, utf8
from refeed.onnx._helper.containers import VALUE_FIELDS
from refeed.onnx._helper.dtypes import element_type, np_dtype_to_tensor_dtype
from refeed.onnx.messages import MapProto, OptionalProto, SequenceProto, TensorProto

#: How deep lists, dictionaries and optional values may nest: the depth at which messages end too.
_DEPTH = 100


def _read(kind: int, message: Any, depth: int) -> Any:
    """Return the value of one message of a sequence, map or optional value."""
    if depth > _DEPTH:
        raise ValueError(f"values nest deeper than {_DEPTH}")
    if kind == SequenceProto.TENSOR:
        return to_array(message)
    if kind == SequenceProto.SPARSE_TENSOR:
        raise ValueError("a sparse tensor has no array; read its values and indices")
    if kind == SequenceProto.SEQUENCE:
        return _read_sequence(message, depth)
    if kind == SequenceProto.MAP:
        return _read_map(message, depth)
    if kind == SequenceProto.OPTIONAL:
        return _read_optional(message, depth)
    raise TypeError(f"no value has the element type {kind}: expected a value of SequenceProto.DataType")


def _read_sequence(sequence: SequenceProto, depth: int) -> list[Any]:
    kind = sequence.elem_type
    if kind not in VALUE_FIELDS:
        raise TypeError(f"sequence {sequence.name!r}: no value has the element type {kind}")
    return [_read(kind, value, depth + 1) for value in getattr(sequence, VALUE_FIELDS[kind][0])]


def _read_map(map_proto: MapProto, depth: int) -> dict[Any, Any]:
    keys = list(map_proto.string_keys if map_proto.key_type == TensorProto.STRING else map_proto.keys)
    values = _read_sequence(map_proto.values, depth + 1)
    if len(keys) != len(values):
        # The class that onnx raises here.
        raise IndexError(f"map {map_proto.name!r} has {len(keys)} keys and {len(values)} values")
    return dict(zip(keys, values, strict=True))


def _read_optional(optional: OptionalProto, depth: int) -> Any:
    kind = optional.elem_type
    if kind == OptionalProto.UNDEFINED:
        return None
    if kind not in VALUE_FIELDS:
        raise TypeError(f"optional {optional.name!r}: no value has the element type {kind}")
    return _read(kind, getattr(optional, VALUE_FIELDS[kind][1]), depth + 1)


def to_list(sequence: SequenceProto) -> list[Any]:
    """Return a sequence's elements as a list: arrays, lists, dictionaries, or None where an optional one is absent.

    Raises
    ------
    TypeError
        The sequence has no element type.
    ValueError
        It holds sparse tensors, or nests deeper than 100.
    """
    return _read_sequence(sequence, 0)


def to_dict(map_proto: MapProto) -> dict[Any, Any]:
    """Return a map as a dictionary. Keys are int, or bytes when they are strings.

    Raises
    ------
    TypeError
        The values have no element type.
    IndexError
        There are more keys than values, or fewer.
    """
    return _read_map(map_proto, 0)


def to_optional(optional: OptionalProto) -> Any:
    """Return an optional value, or None where it has none.

    Raises
    ------
    TypeError
        Its element type is unknown.
    """
    return _read_optional(optional, 0)


def _kind(value: Any) -> int:
    if isinstance(value, dict):
        return SequenceProto.MAP
    return SequenceProto.SEQUENCE if isinstance(value, list) else SequenceProto.TENSOR


def _write(kind: int, value: Any, depth: int) -> Any:
    """Return the message of a value of a list, dictionary or optional value."""
    if depth > _DEPTH:
        raise ValueError(f"values nest deeper than {_DEPTH}")
    if kind == SequenceProto.TENSOR:
        return from_array(value)
    if kind == SequenceProto.SEQUENCE:
        return _write_sequence(value, None, depth)
    if kind == SequenceProto.MAP:
        return _write_map(value, depth)
    raise TypeError(f"values of element type {kind} are not made from Python values; use TENSOR, SEQUENCE or MAP")


def _write_sequence(values: Any, dtype: int | None, depth: int) -> SequenceProto:
    made = SequenceProto()
    size = len(values)
    kind = dtype if dtype is not None else _kind(values[0]) if size else SequenceProto.TENSOR
    made.elem_type = kind
    if size and not all(isinstance(value, type(values[0])) for value in values):
        kinds = sorted({type(value).__name__ for value in values})
        raise TypeError(f"the elements of a sequence have one type, got {', '.join(kinds)}")
    if kind not in (SequenceProto.TENSOR, SequenceProto.SEQUENCE, SequenceProto.MAP):
        raise TypeError(f"sequences of element type {kind} are not made from lists; use TENSOR, SEQUENCE or MAP")
    field = getattr(made, VALUE_FIELDS[kind][0])
    for value in values:
        field.append(_write(kind, np.asarray(value) if kind == SequenceProto.TENSOR else value, depth + 1))
    return made


def _write_map(entries: dict[Any, Any], depth: int) -> MapProto:
    made = MapProto()
    if not entries:
        raise ValueError("an empty dictionary does not say the types of a map's keys and values")
    key_types = {_key_type(key) for key in entries}
    values = list(entries.values())
    if len(key_types) != 1:
        raise TypeError(f"the keys of a map have one type, got {_names(key_types)}")
    value_types = {_value_type(value) for value in values}
    if len(value_types) != 1:
        raise TypeError(f"the values of a map have one type, got {_names(value_types)}")
    made.key_type = key_types.pop()
    if made.key_type == TensorProto.STRING:
        made.string_keys.extend(utf8(key) for key in entries)
    else:
        made.keys.extend(int(key) for key in entries)
    made.values.CopyFrom(_write_sequence(values, None, depth + 1))
    return made


def _names(types: Iterable[int | str]) -> str:
    return ", ".join(sorted(kind if isinstance(kind, str) else element_type(kind).name for kind in types))


def _key_type(key: Any) -> int:
    if isinstance(key, (str, bytes)):
        return TensorProto.STRING
    if isinstance(key, numbers.Integral) and not isinstance(key, bool):
        dtype = np.result_type(key)  # type: ignore[arg-type]
        if dtype.kind in "iu":
            return np_dtype_to_tensor_dtype(dtype)
        raise ValueError(f"integer keys of a map are stored as INT64, got {key}")
    raise TypeError(f"the keys of a map are integers, str or bytes, got {key!r} of type {type(key).__name__}")


def _value_type(value: Any) -> int | str:
    kind = _kind(value)
    if kind == SequenceProto.TENSOR:
        return np_dtype_to_tensor_dtype(np.asarray(value).dtype)
    return "MAP" if kind == SequenceProto.MAP else "SEQUENCE"


def from_list(lst: list[Any], name: str | None = None, dtype: int | None = None) -> SequenceProto:
    """Make a sequence of a list's elements.

    Parameters
    ----------
    lst : list
        Elements of one type: arrays, or what `numpy.asarray` takes; lists; or dictionaries.
    name : str, optional
        The sequence's name.
    dtype : int, optional
        The `SequenceProto.DataType` of the elements. An empty list makes tensors when it is not given.

    Raises
    ------
    TypeError
        The elements have several types, or are no tensors, sequences or maps.
    ValueError
        No tensor holds an element, or lists nest deeper than 100.
    """
    made = _write_sequence(lst, dtype, 0)
    if name:
        made.name = name
    return made


def from_dict(dict_: dict[Any, Any], name: str | None = None) -> MapProto:
    """Make a map of a dictionary.

    Parameters
    ----------
    dict_ : dict
        Keys of one type, integers or strings, and values of one type: what `from_list` takes. Not empty.
    name : str, optional
        The map's name.

    Raises
    ------
    TypeError
        Keys or values have several types, or keys are neither integers nor strings.
    ValueError
        The dictionary is empty, a key does not fit INT64, or no tensor holds a value.
    """
    made = _write_map(dict_, 0)
    if name:
        made.name = name
    return made


def from_optional(opt: Any, name: str | None = None, dtype: int | None = None) -> OptionalProto:
    """Make an optional value.

    Parameters
    ----------
    opt : numpy.ndarray, list, dict or None
        The value; None for none.
    name : str, optional
        The value's name.
    dtype : int, optional
        The `OptionalProto.DataType`. When not given it is the value's, `UNDEFINED` for none.

    Raises
    ------
    TypeError
        `dtype` is no such value, or one that cannot be made.
    AttributeError
        The value is no array.
    """
    if dtype is not None and dtype not in OptionalProto.DataType.values():
        raise TypeError(f"dtype is a value of OptionalProto.DataType, got {dtype!r}")
    made = OptionalProto()
    if name:
        made.name = name
    if dtype is not None:
        made.elem_type = dtype
    else:
        made.elem_type = OptionalProto.UNDEFINED if opt is None else _kind(opt)
    if opt is not None:
        value = _write(made.elem_type, opt, 0)
        getattr(made, VALUE_FIELDS[made.elem_type][1]).CopyFrom(value)
    return made
