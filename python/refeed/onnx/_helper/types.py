"""Types of values, and the declarations of a graph's inputs and outputs."""

from collections.abc import Sequence

from refeed.onnx.messages import TensorShapeProto, TypeProto, ValueInfoProto


def _fill_shape(
    shape: TensorShapeProto,
    dims: Sequence[str | int | None],
    denotations: Sequence[str] | None,
) -> None:
    dims = list(dims)
    if denotations and len(denotations) != len(dims):
        raise ValueError(
            f"shape_denotation has {len(denotations)} entries for a shape of rank {len(dims)}; expected one for each "
            "dimension"
        )
    for index, size in enumerate(dims):
        dim = shape.dim.add()
        if isinstance(size, int):
            dim.dim_value = size
        elif isinstance(size, str):
            dim.dim_param = size
        elif size is not None:
            raise ValueError(
                f"dimension {index} of the shape is {size!r} of type {type(size).__name__}; expected an int, a str, or "
                "None for an unknown size"
            )
        if denotations:
            dim.denotation = denotations[index]


def make_tensor_type_proto(
    elem_type: int,
    shape: Sequence[str | int | None] | None,
    shape_denotation: Sequence[str] | None = None,
) -> TypeProto:
    """Make the type of a tensor.

    Parameters
    ----------
    elem_type : int
        A value of `TensorProto.DataType`.
    shape : sequence of int, str or None; or None
        Sizes, names of sizes, None for a size that is not known. None as a whole is an unknown rank.
    shape_denotation : sequence of str, optional
        What each dimension means, one entry for each.

    Raises
    ------
    ValueError
        An entry of `shape` is nothing of the kind, or the lengths differ.

    Examples
    --------
    >>> make_tensor_type_proto(TensorProto.FLOAT, ["N", 3]).tensor_type.shape.dim[1].dim_value
    3
    """
    made = TypeProto()
    tensor = made.tensor_type
    tensor.elem_type = elem_type
    if shape is not None:
        tensor.shape.SetInParent()
        _fill_shape(tensor.shape, shape, shape_denotation)
    return made


def make_sparse_tensor_type_proto(
    elem_type: int,
    shape: Sequence[str | int | None] | None,
    shape_denotation: Sequence[str] | None = None,
) -> TypeProto:
    """Make the type of a sparse tensor, from the arguments of `make_tensor_type_proto`."""
    made = TypeProto()
    tensor = made.sparse_tensor_type
    tensor.elem_type = elem_type
    if shape is not None:
        tensor.shape.SetInParent()
        _fill_shape(tensor.shape, shape, shape_denotation)
    return made


def make_sequence_type_proto(inner_type_proto: TypeProto) -> TypeProto:
    """Make the type of a sequence of values of one type, which may be a struct type."""
    made = TypeProto()
    made.sequence_type.elem_type.CopyFrom(inner_type_proto)
    return made


def make_optional_type_proto(inner_type_proto: TypeProto) -> TypeProto:
    """Make the type of a value that may be absent; it may be of a struct type."""
    made = TypeProto()
    made.optional_type.elem_type.CopyFrom(inner_type_proto)
    return made


def make_map_type_proto(key_type: int, value_type: TypeProto) -> TypeProto:
    """Make the type of a map from keys, of integers or strings, to values of one type."""
    made = TypeProto()
    made.map_type.key_type = key_type
    made.map_type.value_type.CopyFrom(value_type)
    return made


def make_value_info(name: str, type_proto: TypeProto, doc_string: str = "") -> ValueInfoProto:
    """Declare a value, such as a graph's input.

    Parameters
    ----------
    name : str
        The value's name.
    type_proto : TypeProto
        Its type; a type with a `struct_type` declares a structured value.
    doc_string : str, optional
        Its documentation.
    """
    made = make_empty_tensor_value_info(name)
    if doc_string:
        made.doc_string = doc_string
    made.type.CopyFrom(type_proto)
    return made


def make_empty_tensor_value_info(name: str) -> ValueInfoProto:
    """Declare a value by its name alone."""
    made = ValueInfoProto()
    made.name = name
    return made


def make_tensor_value_info(
    name: str,
    elem_type: int,
    shape: Sequence[str | int | None] | None,
    doc_string: str = "",
    shape_denotation: Sequence[str] | None = None,
) -> ValueInfoProto:
    """Declare a tensor, from a name and the arguments of `make_tensor_type_proto`.

    Examples
    --------
    >>> make_tensor_value_info("x", TensorProto.INT64, [2, "N"]).type.tensor_type.elem_type
    7
    """
    return make_value_info(name, make_tensor_type_proto(elem_type, shape, shape_denotation), doc_string)


def make_sparse_tensor_value_info(
    name: str,
    elem_type: int,
    shape: Sequence[str | int | None] | None,
    doc_string: str = "",
    shape_denotation: Sequence[str] | None = None,
) -> ValueInfoProto:
    """Declare a sparse tensor, from a name and the arguments of `make_tensor_type_proto`."""
    return make_value_info(name, make_sparse_tensor_type_proto(elem_type, shape, shape_denotation), doc_string)


def make_tensor_sequence_value_info(
    name: str,
    elem_type: int,
    shape: Sequence[str | int | None] | None,
    doc_string: str = "",
    elem_shape_denotation: Sequence[str] | None = None,
) -> ValueInfoProto:
    """Declare a sequence of tensors, from a name and the arguments of `make_tensor_type_proto`."""
    element = make_tensor_type_proto(elem_type, shape, elem_shape_denotation)
    return make_value_info(name, make_sequence_type_proto(element), doc_string)
