"""Models and tensors in files: `load`, `save` and their like, with the names and arguments of the `onnx` package.

Differences: files are written whole or not at all; loading maps a file where it lies instead of reading it; saving with
external data leaves the model in memory as it is.
"""

import copy
import os
import pathlib
from typing import IO, Any, TypeAlias, TypeVar

from refeed._native import _onnx
from refeed.onnx import parser, printer
from refeed.onnx.external_data_helper import write_external_data_tensors
from refeed.onnx.messages import FunctionProto, GraphProto, Message, ModelProto, NodeProto, TensorProto

__all__ = [
    "load",
    "load_from_string",
    "load_model",
    "load_model_from_string",
    "load_tensor",
    "load_tensor_from_string",
    "save",
    "save_model",
    "save_tensor",
]

_File: TypeAlias = IO[bytes] | str | os.PathLike[str]
_M = TypeVar("_M", bound=Message)

_FORMATS = ("protobuf", "textproto", "onnxtxt")
_EXTENSIONS = {
    ".onnx": "protobuf",
    ".pb": "protobuf",
    ".txtpb": "textproto",
    ".textproto": "textproto",
    ".prototxt": "textproto",
    ".pbtxt": "textproto",
    ".onnxtxt": "onnxtxt",
    ".onnxtext": "onnxtxt",
    # Known by name, so that nothing else is written under it.
    ".json": "json",
    ".onnxjson": "json",
}


def _path(file: _File) -> pathlib.Path | None:
    """Tell the path behind `file`: of a name, or of an open file that has one."""
    if isinstance(file, str | os.PathLike):
        return pathlib.Path(os.path.abspath(file))
    name = getattr(file, "name", None)
    return pathlib.Path(os.path.abspath(name)) if isinstance(name, str) else None


def _format(given: str | None, path: pathlib.Path | None) -> str:
    if given is None:
        extension = "" if path is None else path.suffix
        given = _EXTENSIONS.get(extension, "protobuf")
    if given in _FORMATS:
        return given
    raise ValueError(f"Unsupported format: expected one of {', '.join(_FORMATS)}, got {given!r}")


def _decode(content: bytes | str, form: str, message: _M) -> _M:
    if form == "protobuf":
        if not isinstance(content, bytes):
            raise TypeError(f"expected bytes in the format 'protobuf', got {type(content).__name__}")
        message.ParseFromString(content)
        return message
    if not isinstance(content, bytes | str):
        raise TypeError(f"expected bytes or str in the format {form!r}, got {type(content).__name__}")
    text = content.decode() if isinstance(content, bytes) else content
    if form == "textproto":
        _onnx.parse_textproto(text, message)
        return message
    read: Any
    for kind, read in (
        (ModelProto, parser.parse_model),
        (GraphProto, parser.parse_graph),
        (FunctionProto, parser.parse_function),
        (NodeProto, parser.parse_node),
        (TensorProto, parser.parse_tensor),
    ):
        if isinstance(message, kind):
            message.CopyFrom(read(text))
            return message
    raise ValueError(f"expected a message with a text form, got a {type(message).__name__}")


def _encode(message: Message, form: str) -> bytes:
    if form == "protobuf":
        return message.SerializeToString()
    text: str = str(message) if form == "textproto" else printer.to_text(message)  # type: ignore[arg-type]
    return text.encode()


def _load(file: _File, form: str | None, message: _M) -> _M:
    path = _path(file)
    chosen = _format(form, path)
    if chosen == "protobuf" and isinstance(file, str | os.PathLike):
        message.ParseFromFile(os.fspath(file))
        return message
    content = pathlib.Path(file).read_bytes() if isinstance(file, str | os.PathLike) else file.read()
    return _decode(content, chosen, message)


def _save(message: Message, file: _File, form: str | None) -> None:
    chosen = _format(form, _path(file))
    if not isinstance(file, str | os.PathLike):
        file.write(_encode(message, chosen))
    elif chosen == "protobuf":
        message.SerializeToFile(os.fspath(file))
    else:
        _onnx.write_bytes(os.fspath(file), _encode(message, chosen))


def load_model(
    f: _File,
    format: str | None = None,  # noqa: A002
    load_external_data: bool = True,
) -> ModelProto:
    """Load a model.

    Parameters
    ----------
    f : str, os.PathLike or file
        Where it is. A file that is given by name is mapped: it must not change while the model is in use.
    format : str, optional
        'protobuf', 'textproto' or 'onnxtxt'. Taken from the file's extension when it is not given.
    load_external_data : bool
        Whether tensors in other files of the folder become part of the model; those files are mapped as well.

    Returns
    -------
    ModelProto
        The model, not checked.

    Raises
    ------
    OSError
        The file cannot be read.
    refeed.DecodeError
        The file is no model.
    ValueError
        The format is none of the three.
    """
    model = _load(f, format, ModelProto())
    path = _path(f)
    if load_external_data and path is not None:
        _onnx.bring_in(model, path.parent, True)
    return model


def load_tensor(
    f: _File,
    format: str | None = None,  # noqa: A002
) -> TensorProto:
    """Load a tensor; see `load_model`."""
    return _load(f, format, TensorProto())


def load_model_from_string(
    s: bytes | str,
    format: str = "protobuf",  # noqa: A002
) -> ModelProto:
    """Read a model from bytes, or from text in the formats that are text."""
    return _decode(s, _format(format, None), ModelProto())


def load_tensor_from_string(
    s: bytes | str,
    format: str = "protobuf",  # noqa: A002
) -> TensorProto:
    """Read a tensor from bytes, or from text in the formats that are text."""
    return _decode(s, _format(format, None), TensorProto())


def save_model(
    proto: ModelProto | bytes,
    f: _File,
    format: str | None = None,  # noqa: A002
    *,
    save_as_external_data: bool = False,
    all_tensors_to_one_file: bool = True,
    location: str | None = None,
    size_threshold: int = 1024,
    convert_attribute: bool = False,
) -> None:
    """Save a model. The model in memory stays as it is.

    Parameters
    ----------
    proto : ModelProto or bytes
        The model, or its bytes.
    f : str, os.PathLike or file
        Where it goes. A file that is given by name is written whole or not at all.
    format : str, optional
        'protobuf', 'textproto' or 'onnxtxt'. Taken from the file's extension when it is not given.
    save_as_external_data : bool
        Whether large tensors go to files beside the model's; `f` is a name then and the format 'protobuf'.
    all_tensors_to_one_file : bool
        Whether they share one file. Otherwise each has its own, named after the tensor.
    location : str, optional
        The shared file, relative to the model's folder. The model's name and `.data` when it is not given.
    size_threshold : int
        Tensors of at least this many bytes move.
    convert_attribute : bool
        Whether tensors move wherever they are. Otherwise initializers do.

    Raises
    ------
    OSError
        A file cannot be written.
    refeed.EncodeError
        The model is larger than 2 GiB: save it with external data.
    ValueError
        The format is none of the three, or `location` leads out of the model's folder.
    """
    model = _model(proto)
    path = _path(f)
    if not save_as_external_data:
        if path is not None:
            # Tensors that `convert_model_to_external_data` marked are written now. A copy shares every payload.
            model = write_external_data_tensors(copy.copy(model), os.fspath(path.parent))
        _save(model, f, format)
        return
    if path is None or not isinstance(f, str | os.PathLike):
        raise ValueError("save_as_external_data: expected `f` to be the name of a file, got an open one")
    form = _format(format, path)
    if form != "protobuf":
        raise ValueError(f"save_as_external_data: expected the format 'protobuf', got {form!r}")
    if location is not None and os.path.isabs(location):
        raise ValueError(f"location: expected a path relative to the model's folder, got {location!r}")
    shared = (location or f"{path.name}.data") if all_tensors_to_one_file else None
    _onnx.write_split(model, path, shared, size_threshold, convert_attribute)


def _model(proto: object) -> ModelProto:
    """Take a model, its bytes, or a model of the official package."""
    if isinstance(proto, ModelProto):
        return proto
    if isinstance(proto, bytes):
        return load_model_from_string(proto)
    serialise = getattr(proto, "SerializeToString", None)
    if serialise is None or not hasattr(proto, "graph"):
        raise TypeError(f"proto: expected an onnx.ModelProto or its bytes, got {type(proto).__qualname__}")
    return ModelProto.FromString(serialise())


def save_tensor(
    proto: TensorProto,
    f: _File,
    format: str | None = None,  # noqa: A002
) -> None:
    """Save a tensor; see `save_model`."""
    _save(proto, f, format)


load = load_model
load_from_string = load_model_from_string
save = save_model
