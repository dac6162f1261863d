"""Move elements of tensors to files beside the model and back: the names and arguments of `onnx.external_data_helper`.

Loading with `refeed.load` needs none of this: it maps external data where it lies.
"""

import os
import re
import uuid
from collections.abc import Iterator
from typing import Any

from refeed.onnx._helper.external import (
    ExternalDataInfo,
    read_external_data,
    uses_external_data,
    write_external_data,
)
from refeed.onnx.messages import AttributeProto, FunctionProto, GraphProto, ModelProto, TensorProto

__all__ = [
    "ExternalDataInfo",
    "convert_model_from_external_data",
    "convert_model_to_external_data",
    "load_external_data_for_model",
    "load_external_data_for_tensor",
    "remove_external_data_field",
    "save_external_data",
    "set_external_data",
    "uses_external_data",
    "write_external_data_tensors",
]


def load_external_data_for_tensor(tensor: TensorProto, base_dir: str) -> None:
    """Read a tensor's elements from its file into `raw_data`; after it the tensor has no external data.

    Parameters
    ----------
    tensor : TensorProto
        Changed in place.
    base_dir : str
        The model's folder.

    Raises
    ------
    ModelError
        The location is not the name of a regular file in the folder, reached without links.
    ValueError
        The file has not the bytes that `offset` and `length` say.
    """
    tensor.raw_data = read_external_data(tensor, base_dir)
    tensor.data_location = TensorProto.DEFAULT
    tensor.ClearField("external_data")


def load_external_data_for_model(model: ModelProto, base_dir: str) -> None:
    """Do `load_external_data_for_tensor` for every tensor of a model that is in a file."""
    for tensor in _tensors(model):
        if uses_external_data(tensor):
            load_external_data_for_tensor(tensor, base_dir)


def set_external_data(
    tensor: TensorProto,
    location: str,
    offset: int | None = None,
    length: int | None = None,
    checksum: str | None = None,
    basepath: str | None = None,
) -> None:
    """Say that a tensor's elements are in a file. They stay in `raw_data` until they are written there.

    Parameters
    ----------
    tensor : TensorProto
        Changed in place; what it said before about a file is replaced.
    location : str
        The file, as a path below the model's folder.
    offset, length : int, optional
        Which bytes of it.
    checksum, basepath : str, optional
        Kept with the tensor.

    Raises
    ------
    ValueError
        The tensor has no `raw_data`.
    """
    if not tensor.HasField("raw_data"):
        raise ValueError(f"tensor {tensor.name!r} has no raw_data, and only raw elements can be in a file")
    tensor.ClearField("external_data")
    tensor.data_location = TensorProto.EXTERNAL
    numbers = {"offset": offset, "length": length}
    given: dict[str, Any] = {
        "location": location,
        **{key: None if value is None else int(value) for key, value in numbers.items()},
        "checksum": checksum,
        "basepath": basepath,
    }
    for key, value in given.items():
        if value is not None:
            entry = tensor.external_data.add()
            entry.key = key
            entry.value = str(value)


def convert_model_to_external_data(
    model: ModelProto,
    all_tensors_to_one_file: bool = True,
    location: str | None = None,
    size_threshold: int = 1024,
    convert_attribute: bool = False,
) -> None:
    """Say of every large tensor that its elements are in a file; saving the model writes them there.

    Parameters
    ----------
    model : ModelProto
        Changed in place.
    all_tensors_to_one_file : bool, default True
        Whether all go to one file, or each to one that has the tensor's name.
    location : str, optional
        The one file, as a path below the model's folder; an unused name when not given.
    size_threshold : int, default 1024
        How many bytes of `raw_data` make a tensor large.
    convert_attribute : bool, default False
        Whether tensors in attributes are moved too, or only initializers.

    Raises
    ------
    ValueError
        `location` is an absolute path.
    FileExistsError
        `location` is there already.
    """
    one_file = None
    if all_tensors_to_one_file:
        if location:
            if os.path.isabs(location):
                raise ValueError(f"location is a path below the model's folder, got the absolute path {location!r}")
            if os.path.exists(location):
                raise FileExistsError(f"external data would be written into {location!r}, which is there already")
        one_file = location or f"{uuid.uuid1()}.data"
    for tensor in _tensors(model) if convert_attribute else _initializers(model):
        if tensor.HasField("raw_data") and tensor.raw_data_view().nbytes >= size_threshold:
            set_external_data(tensor, one_file or _file_name(tensor.name))


def _file_name(tensor: str) -> str:
    """Return a tensor's name where it can be that of a file, and an unused name where not."""
    usable = tensor not in ("", ".", "..") and not re.search(r'[<>:"/|?*\\\0]', tensor)
    return tensor if usable else str(uuid.uuid1())


def convert_model_from_external_data(model: ModelProto) -> None:
    """Say of every tensor that its elements, which must have been loaded, are in the model.

    Raises
    ------
    ValueError
        A tensor that is in a file has no `raw_data`.
    """
    for tensor in _tensors(model):
        if uses_external_data(tensor):
            if not tensor.HasField("raw_data"):
                raise ValueError(f"tensor {tensor.name!r} has no raw_data; load its external data first")
            tensor.ClearField("external_data")
            tensor.data_location = TensorProto.DEFAULT


def save_external_data(tensor: TensorProto, base_path: str) -> None:
    """Write a tensor's `raw_data` to its file, at the end or at its offset beyond the end.

    Parameters
    ----------
    tensor : TensorProto
        Keeps `raw_data`; its `offset` and `length` become those of what was written.
    base_path : str
        The model's folder.

    Raises
    ------
    ModelError
        The tensor has no `raw_data`, its location is not the name of a regular file in the folder, the offset lies
        within the file or more than 64 KiB beyond its end, or the file cannot be written.
    """
    info = ExternalDataInfo(tensor)
    written = write_external_data(tensor, base_path)
    set_external_data(tensor, info.location, written.offset, written.length)


def remove_external_data_field(tensor: TensorProto, field_key: str) -> None:
    """Remove the first entry of that key from a tensor's `external_data`, if there is one."""
    for index, entry in enumerate(tensor.external_data):
        if entry.key == field_key:
            tensor.external_data.pop(index)
            return


def write_external_data_tensors(model: ModelProto, filepath: str) -> ModelProto:
    """Write every tensor that is to be in a file there, and remove its elements from the model.

    Parameters
    ----------
    model : ModelProto
        Changed in place.
    filepath : str
        The model's folder.

    Returns
    -------
    ModelProto
        `model` itself.
    """
    for tensor in _tensors(model):
        # One without `raw_data` is in its file already.
        if uses_external_data(tensor) and tensor.HasField("raw_data"):
            save_external_data(tensor, filepath)
            tensor.ClearField("raw_data")
    return model


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Go through the tensors of a model: initializers, then those of attributes, of functions too."""
    yield from _initializers(model)
    holders: list[GraphProto | FunctionProto] = [*model.functions[::-1], model.graph]
    pending = [_attributes(holder) for holder in holders]
    while pending:
        attribute = next(pending[-1], None)
        if attribute is None:
            pending.pop()
            continue
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        pending.extend(_attributes(graph) for graph in reversed(_inner(attribute)))


def _initializers(model: ModelProto) -> Iterator[TensorProto]:
    """Go through the initializers of a model, those of a graph before those of the graphs inside it."""
    pending: list[GraphProto | FunctionProto] = [*model.functions[::-1], model.graph]
    while pending:
        holder = pending.pop()
        if isinstance(holder, GraphProto):
            yield from holder.initializer
        inner = [graph for attribute in _attributes(holder) for graph in _inner(attribute)]
        pending.extend(reversed(inner))


def _attributes(holder: GraphProto | FunctionProto) -> Iterator[AttributeProto]:
    return (attribute for node in holder.node for attribute in node.attribute)


def _inner(attribute: AttributeProto) -> list[GraphProto]:
    return [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]
