"""Elements of tensors in files beside the model.

A location is the name of a file in the model's folder. It is opened part by part from a descriptor of that folder, and
no part may be a link: whoever wrote the model chooses the name, and must not reach a file elsewhere with it.
"""

import errno
import os
import stat
import warnings
from pathlib import PurePath
from typing import NamedTuple

from refeed._native import _onnx
from refeed.errors import ModelError
from refeed.onnx.messages import TensorProto

_KEYS = ("location", "offset", "length", "checksum", "basepath")
#: A key from a file is shown so long at most, and so many unknown ones are named.
_SHOWN_KEY, _SHOWN_KEYS = 100, 10
#: How far beyond the end of a file an offset may lie, so that a few bytes cannot ask for a file of any size.
MAX_PADDING = 64 * 1024


class ExternalDataInfo:
    """What the `external_data` of a tensor says.

    Attributes
    ----------
    location : str
        The file, as a path below the model's folder.
    offset, length : int or None
        Which bytes of it; from the start and to the end when not given.
    checksum : str or None
        Kept, not checked.
    basepath : str
        Kept, not used.

    Parameters
    ----------
    tensor : TensorProto
        The tensor; of a key that is given twice the last value counts.

    Raises
    ------
    ValueError
        `offset` or `length` is not a number, or negative.
    """

    def __init__(self, tensor: TensorProto) -> None:
        self.location = ""
        self.offset: int | None = None
        self.length: int | None = None
        self.checksum: str | None = None
        self.basepath = ""
        unknown = []
        for entry in tensor.external_data:
            if entry.key in ("offset", "length"):
                setattr(self, entry.key, _size(tensor.name, entry.key, entry.value))
            elif entry.key in _KEYS:
                setattr(self, entry.key, entry.value)
            else:
                unknown.append(entry.key[:_SHOWN_KEY])
        if unknown:
            more = f" and {len(unknown) - _SHOWN_KEYS} more" if len(unknown) > _SHOWN_KEYS else ""
            warnings.warn(
                f"tensor {tensor.name!r}: external_data has keys that are not known and not used: "
                f"{', '.join(map(repr, unknown[:_SHOWN_KEYS]))}{more}; known are {', '.join(_KEYS)}",
                stacklevel=3,
            )


def _size(tensor: str, key: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise ValueError(f"tensor {tensor!r}: external_data has the {key} {text!r}, expected a number") from None
    if value < 0:
        raise ValueError(f"tensor {tensor!r}: external_data has the {key} {value}, expected at least 0")
    return value


def uses_external_data(tensor: TensorProto) -> bool:
    """Return whether a tensor's elements are in a file."""
    return tensor.HasField("data_location") and tensor.data_location == TensorProto.EXTERNAL


def read_external_data(tensor: TensorProto, base_dir: str) -> bytes:
    """Read a tensor's elements from its file in the folder `base_dir`; the tensor is not changed.

    Raises
    ------
    ModelError
        The location is not the name of a regular file in the folder, or the file cannot be read.
    ValueError
        The file has not the bytes that `offset` and `length` say.
    """
    info = ExternalDataInfo(tensor)
    file = _open(tensor.name, base_dir, info.location, os.O_RDONLY)
    with os.fdopen(file, "rb") as content:
        size = os.fstat(file).st_size
        offset = info.offset or 0
        if offset > size:
            raise ValueError(
                f"tensor {tensor.name!r}: external_data has the offset {offset}, and {info.location!r} {size} bytes"
            )
        length = size - offset if info.length is None else info.length
        if length > size - offset:
            raise ValueError(
                f"tensor {tensor.name!r}: external_data asks for {length} bytes from {offset} on, and "
                f"{info.location!r} has {size}"
            )
        content.seek(offset)
        data = content.read(length)
    if len(data) != length:
        raise ModelError(f"tensor {tensor.name!r}: {info.location!r} became shorter while it was read")
    return data


class Written(NamedTuple):
    """Where elements were written."""

    offset: int
    length: int


def write_external_data(tensor: TensorProto, base_path: str) -> Written:
    """Write a tensor's `raw_data` to its file in the folder `base_path`, at the end or at its offset beyond the end.

    Raises
    ------
    ModelError
        The tensor has no `raw_data`, its location is not the name of a regular file in the folder, the offset lies
        within the file or more than 64 KiB beyond its end, or the file cannot be written.
    """
    info = ExternalDataInfo(tensor)
    if not tensor.HasField("raw_data"):
        raise ModelError(f"tensor {tensor.name!r} has no raw_data to write")
    data = tensor.raw_data_view()
    file = _open(tensor.name, base_path, info.location, os.O_WRONLY | os.O_CREAT)
    with os.fdopen(file, "wb") as content:
        size = os.fstat(file).st_size
        offset = size if info.offset is None else info.offset
        if not size <= offset <= size + MAX_PADDING:
            raise ModelError(
                f"tensor {tensor.name!r}: external_data has the offset {offset}; elements are written at the end of "
                f"{info.location!r}, {size}, or up to {MAX_PADDING} bytes beyond it"
            )
        content.seek(offset)
        try:
            content.write(data)
            content.flush()
        except OSError as error:
            raise ModelError(f"tensor {tensor.name!r}: {info.location!r} cannot be written: {error}") from error
    return Written(offset, len(data))


def _parts(tensor: str, location: str) -> list[str]:
    """Return the folders and the file that a location names."""
    try:
        parts: list[str] = _onnx._location_parts(location)
    except (TypeError, UnicodeError):  # `bytes` that came from a file, or half a pair of surrogates
        why = "is not UTF-8"
    except ModelError as error:
        why = str(error)
    else:
        return parts
    raise ModelError(
        f"tensor {tensor!r}: the location {location[:_SHOWN_KEY]!r} of its external data {why}; expected the name of "
        "a file in the model's folder"
    )


def _open(tensor: str, folder: str, location: str, flags: int) -> int:
    """Open the regular file that `location` names in `folder`."""
    *folders, name = _parts(tensor, location)
    common = os.O_CLOEXEC | os.O_NOFOLLOW

    def refused(why: str) -> ModelError:
        return ModelError(f"tensor {tensor!r}: its external data {location!r} in {folder or '.'!r} {why}")

    try:
        # The user named this folder, so links on the way to it are followed.
        opened = os.open(PurePath(folder or "."), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in folders:
            outer = opened
            try:
                opened = os.open(part, os.O_RDONLY | os.O_DIRECTORY | common, dir_fd=outer)
            finally:
                os.close(outer)
        try:
            # Opening what turns out to be a pipe must not wait for its other end.
            file = os.open(name, flags | os.O_NONBLOCK | common, 0o666, dir_fd=opened)
        finally:
            os.close(opened)
    except OSError as error:
        link = error.errno == errno.ELOOP
        raise refused("is a symbolic link" if link else f"cannot be opened: {error.strerror}") from error
    status = os.fstat(file)
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
        return file
    os.close(file)
    if stat.S_ISREG(status.st_mode):
        raise refused("has a second name (a hard link), so it may be a file from elsewhere")
    raise refused("is not a regular file")
