"""The classes of the ONNX messages and of refeed's extension messages."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, Self, SupportsIndex, TypeVar, final, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from refeed.onnx.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

__all__: list[str]

_T = TypeVar("_T")
_M = TypeVar("_M", bound=Message)

class _Writer(Protocol):
    def write(self, content: bytes, /) -> int | None: ...

class Message:
    """The base of all messages, with protobuf's interface.

    A message that is reached through another one is a part of it: an edit of the part is an edit of the whole. A field
    that holds a message or a list cannot be assigned; it is edited in place.
    """

    def HasField(self, field_name: str | bytes) -> bool:
        """Tell whether a field, or a member of a oneof, is set.

        Raises
        ------
        ValueError
            There is no such field, or it is a list.
        """
    def ClearField(self, field_name: str | bytes) -> None:
        """Clear a field, or the member of a oneof that is set."""
    def WhichOneof(self, oneof_group: str | bytes) -> str | None:
        """Tell the member of a oneof that is set."""
    def ListFields(self) -> list[tuple[FieldDescriptor, Any]]:
        """List the fields that have a value, in the order of their numbers."""
    def Clear(self) -> None:
        """Clear every field."""
    def CopyFrom(self, other_msg: Self) -> None:
        """Become a copy of another message of the same class."""
    def MergeFrom(self, other_msg: Self) -> None:
        """Take what another message has: values replace, lists are appended, messages merge."""
    def SetInParent(self) -> None:
        """Make this message present in the message that it is a part of."""
    def DiscardUnknownFields(self) -> None:
        """Forget the fields of this message that the schema does not know."""
    def UnknownFields(self) -> list[UnknownField]:
        """List the fields of this message that the schema does not know."""
    def IsInitialized(self, errors: Any = None) -> bool:
        """Tell that nothing is missing: the schema requires no field."""
    def FindInitializationErrors(self) -> list[str]:
        """List what is missing: nothing."""
    def SerializeToString(
        self, options: SerializeOptions | bool | None = None, *, deterministic: bool | None = None
    ) -> bytes:
        """Give the message as bytes, always the same for the same message.

        Raises
        ------
        refeed.EncodeError
            The message takes more than 2 GiB (`SerializeToFile` with external data writes it), or is nested too deep.
        """
    def SerializePartialToString(
        self, options: SerializeOptions | bool | None = None, *, deterministic: bool | None = None
    ) -> bytes:
        """Do what `SerializeToString` does."""
    def ByteSize(self) -> int:
        """Tell how many bytes `SerializeToString` would give."""
    def SerializeSize(self, options: SerializeOptions | None = None) -> SerializeSizeResult:
        """Tell how many bytes the message takes, and how many of them are elements of large tensors."""
    def SerializeToFile(
        self,
        name: str | os.PathLike[str],
        options: SerializeOptions | None = None,
        external_data_file: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write the message to a file, whole or not at all. It stays in memory as it is.

        Parameters
        ----------
        name : str or os.PathLike
            The file.
        options : SerializeOptions, optional
            `raw_data_threshold` is the size from which on tensors go to `external_data_file`.
        external_data_file : str or os.PathLike, optional
            A file in the folder of `name`, or below, for the elements of large tensors.
        """
    def SerializeToFileDescriptor(self, fd: int, options: SerializeOptions | None = None) -> None:
        """Write the message to an open file descriptor, which stays open."""
    def SerializeToOstream(self, output: _Writer) -> None:
        """Write the message to an object with a `write` method."""
    def SerializeToOStream(self, output: _Writer) -> None:
        """Do what `SerializeToOstream` does."""
    def ParseFromString(self, data: Buffer | str, options: ParseOptions | None = None) -> int:
        """Become the message that `data` holds, and tell its size.

        The payloads of a message that is read from `bytes` are parts of that object, which stays alive with them. Other
        buffers are copied; `str` stands for its UTF-8 bytes.

        Raises
        ------
        refeed.DecodeError
            The bytes are no such message. This message stays as it was.
        """
    def ParseFromFile(
        self,
        name: str | os.PathLike[str],
        options: ParseOptions | None = None,
        external_data_file: str | os.PathLike[str] | None = None,
    ) -> None:
        """Become the message of a file of any size, which is mapped.

        Parameters
        ----------
        name : str or os.PathLike
            The file. It must not change while the message, or a model made from it, is in use.
        options : ParseOptions, optional
            `mmap=False` reads the file instead.
        external_data_file : str or os.PathLike, optional
            The file in the same folder, or below, that holds the elements of tensors that are not in `name`. Without it
            they stay there.
        """
    def MergeFromString(self, data: Buffer | str) -> int:
        """Merge the message that `data` holds, and tell its size."""
    @classmethod
    def FromString(cls, data: Buffer | str) -> Self:
        """Make a message from bytes."""
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...
    def __eq__(self, other: object) -> bool: ...
    def __ne__(self, other: object) -> bool: ...
    __hash__ = None  # type: ignore[assignment]

class Repeated(Generic[_T]):
    """The list of a repeated field. It reads and edits the message."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: SupportsIndex) -> _T: ...
    @overload
    def __getitem__(self, key: slice) -> list[_T]: ...
    def __delitem__(self, key: SupportsIndex | slice) -> None: ...
    def __iter__(self) -> Iterator[_T]: ...
    def __reversed__(self) -> Iterator[_T]: ...
    def __contains__(self, item: object) -> bool: ...
    def __eq__(self, other: object) -> bool: ...
    def __ne__(self, other: object) -> bool: ...
    __hash__ = None  # type: ignore[assignment]
    def __deepcopy__(self, memo: Any) -> Self: ...
    def pop(self, index: int = -1) -> _T:
        """Remove an item and return it."""
    def remove(self, item: _T) -> None:
        """Remove the first equal item."""
    def index(self, item: _T) -> int:
        """Tell the place of the first equal item."""
    def count(self, item: _T) -> int:
        """Count equal items."""
    def clear(self) -> None:
        """Remove every item."""
    def reverse(self) -> None:
        """Put the items in reverse order."""
    def sort(self, *, key: Callable[[_T], Any] | None = None, reverse: bool = False) -> None:
        """Put the items in order."""
    def append(self, item: _T) -> None:
        """Append an item. A message is copied."""
    def extend(self, items: Iterable[_T]) -> None:
        """Append items. Messages are copied."""
    def MergeFrom(self, items: Iterable[_T]) -> None:
        """Do what `extend` does."""
    def insert(self, index: int, item: _T) -> None:
        """Insert an item. A message is copied."""

@final
class RepeatedScalar(Repeated[_T]):
    """A list of numbers, texts or bytes."""

    @overload
    def __setitem__(self, key: SupportsIndex, item: _T) -> None: ...
    @overload
    def __setitem__(self, key: slice, item: Iterable[_T]) -> None: ...
    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray[Any, Any]: ...

@final
class RepeatedComposite(Repeated[_M]):
    """A list of messages."""

    def add(self, **fields: Any) -> _M:
        """Append a new message and return it."""

@final
class EnumTypeWrapper:
    """Names and numbers of an enum. The names are attributes as well."""

    @property
    def DESCRIPTOR(self) -> EnumDescriptor: ...
    def Name(self, number: int) -> str:
        """Tell the name of a number."""
    def Value(self, name: str) -> int:
        """Tell the number of a name."""
    def keys(self) -> list[str]:
        """List the names."""
    def values(self) -> list[int]:
        """List the numbers."""
    def items(self) -> list[tuple[str, int]]:
        """List names and numbers."""
    def __getattr__(self, name: str) -> int: ...

@final
class UnknownField:
    """A field that the schema does not know."""

    @property
    def field_number(self) -> int:
        """Number of the field."""
    @property
    def wire_type(self) -> int:
        """Type on the wire."""
    @property
    def data(self) -> int | bytes | list[UnknownField]:
        """What the field holds: a number, bytes, or the fields of a group."""

@final
class SerializeOptions:
    """How messages are written.

    Parameters
    ----------
    raw_data_threshold : int
        Tensors of at least this many bytes are the large ones.
    skip_raw_data : bool
        Leave out the elements of large tensors.
    """

    raw_data_threshold: int
    skip_raw_data: bool
    def __new__(cls, raw_data_threshold: int = 1024, skip_raw_data: bool = False) -> Self: ...

@final
class ParseOptions:
    """How messages are read.

    Parameters
    ----------
    raw_data_threshold : int
        Tensors of at least this many bytes are the large ones.
    skip_raw_data : bool
        Leave out the elements of large tensors.
    mmap : bool
        Map files instead of reading them.
    structure_bytes : int
        The most memory that messages and lists may take; payloads do not count.
    """

    raw_data_threshold: int
    skip_raw_data: bool
    mmap: bool
    structure_bytes: int
    def __new__(
        cls,
        raw_data_threshold: int = 1024,
        skip_raw_data: bool = False,
        mmap: bool = True,
        structure_bytes: int = 1 << 30,
    ) -> Self: ...

@final
class SerializeSizeResult:
    """What a message takes when it is written. `int` of it is `size`."""

    @property
    def size(self) -> int:
        """Bytes of the message."""
    @property
    def raw_data_size(self) -> int:
        """Bytes of the elements of large tensors."""
    def __int__(self) -> int: ...
