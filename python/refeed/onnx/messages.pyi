# Written by `cargo xtask codegen` from proto/onnx.proto. Do not edit.
"""The classes of the ONNX messages and of refeed's extension messages."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Literal, Protocol, Self, SupportsIndex, TypeVar, final, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer, disjoint_base

from refeed.onnx.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

__all__ = [
    "EXPERIMENTAL",
    "IR_VERSION",
    "IR_VERSION_2017_10_10",
    "IR_VERSION_2017_10_30",
    "IR_VERSION_2017_11_3",
    "IR_VERSION_2019_1_22",
    "IR_VERSION_2019_3_18",
    "IR_VERSION_2019_9_19",
    "IR_VERSION_2020_5_8",
    "IR_VERSION_2021_7_30",
    "IR_VERSION_2023_5_5",
    "IR_VERSION_2024_3_25",
    "IR_VERSION_2025_05_12",
    "IR_VERSION_2025_08_26",
    "IR_VERSION_2025_11_06",
    "STABLE",
    "AffineLayoutProto",
    "AttributeProto",
    "DeviceConfigurationProto",
    "EncodedValueProto",
    "EnumTypeWrapper",
    "FunctionProto",
    "GraphProto",
    "IntIntListEntryProto",
    "MapProto",
    "Message",
    "ModelProto",
    "NodeDeviceConfigurationProto",
    "NodeProto",
    "OperatorProto",
    "OperatorSetIdProto",
    "OperatorSetProto",
    "OperatorStatus",
    "OptionalProto",
    "PagedCacheBlockProto",
    "PagedCacheProto",
    "ParseOptions",
    "PersistentBindingProto",
    "Repeated",
    "RepeatedComposite",
    "RepeatedScalar",
    "SequenceProto",
    "SerializeOptions",
    "SerializeSizeResult",
    "ShardedDimProto",
    "ShardingSpecProto",
    "SimpleShardedDimProto",
    "SparseTensorProto",
    "StringStringEntryProto",
    "StructTypeProto",
    "TensorAnnotation",
    "TensorProto",
    "TensorShapeProto",
    "TrainingInfoProto",
    "TypeProto",
    "UnknownField",
    "ValueInfoProto",
    "Version",
]

_T = TypeVar("_T")
_M = TypeVar("_M", bound=Message)

class _Writer(Protocol):
    def write(self, content: bytes, /) -> int | None: ...

@disjoint_base
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
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    __hash__ = None  # type: ignore[assignment]

@disjoint_base
class Repeated(Generic[_T]):
    """The list of a repeated field. It reads and edits the message."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: SupportsIndex, /) -> _T: ...
    @overload
    def __getitem__(self, key: slice, /) -> list[_T]: ...
    def __iter__(self) -> Iterator[_T]: ...
    def __reversed__(self) -> Iterator[_T]: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
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

@final
class RepeatedScalar(Repeated[_T]):
    """A list of numbers, texts or bytes."""

    def append(self, item: _T) -> None:
        """Append an item."""
    def extend(self, items: Iterable[_T]) -> None:
        """Append items."""
    def MergeFrom(self, items: Iterable[_T]) -> None:
        """Do what `extend` does."""
    def insert(self, index: int, item: _T) -> None:
        """Insert an item."""
    def __delitem__(self, key: SupportsIndex | slice, /) -> None: ...
    @overload
    def __setitem__(self, key: SupportsIndex, value: _T, /) -> None: ...
    @overload
    def __setitem__(self, key: slice, value: Iterable[_T], /) -> None: ...
    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray[Any, Any]: ...

@final
class RepeatedComposite(Repeated[_M]):
    """A list of messages."""

    def add(self, **fields: Any) -> _M:
        """Append a new message and return it."""
    def append(self, item: _M) -> None:
        """Append an item. It is copied."""
    def extend(self, items: Iterable[_M]) -> None:
        """Append items. They are copied."""
    def MergeFrom(self, items: Iterable[_M]) -> None:
        """Do what `extend` does."""
    def insert(self, index: int, item: _M) -> None:
        """Insert an item. It is copied."""
    def __delitem__(self, key: SupportsIndex | slice, /) -> None: ...

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
        structure_bytes: int = 1073741824,
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

@final
class ModelProto(Message):
    """A whole model file."""

    DESCRIPTOR: Descriptor
    IR_VERSION_FIELD_NUMBER: int
    OPSET_IMPORT_FIELD_NUMBER: int
    PRODUCER_NAME_FIELD_NUMBER: int
    PRODUCER_VERSION_FIELD_NUMBER: int
    DOMAIN_FIELD_NUMBER: int
    MODEL_VERSION_FIELD_NUMBER: int
    DOC_STRING_FIELD_NUMBER: int
    GRAPH_FIELD_NUMBER: int
    METADATA_PROPS_FIELD_NUMBER: int
    TRAINING_INFO_FIELD_NUMBER: int
    FUNCTIONS_FIELD_NUMBER: int
    CONFIGURATION_FIELD_NUMBER: int
    STRUCT_TYPES_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        ir_version: int | None = None,
        opset_import: Iterable[OperatorSetIdProto | dict[str, Any]] | None = None,
        producer_name: str | bytes | None = None,
        producer_version: str | bytes | None = None,
        domain: str | bytes | None = None,
        model_version: int | None = None,
        doc_string: str | bytes | None = None,
        graph: GraphProto | dict[str, Any] | None = None,
        metadata_props: Iterable[StringStringEntryProto | dict[str, Any]] | None = None,
        training_info: Iterable[TrainingInfoProto | dict[str, Any]] | None = None,
        functions: Iterable[FunctionProto | dict[str, Any]] | None = None,
        configuration: Iterable[DeviceConfigurationProto | dict[str, Any]] | None = None,
        struct_types: Iterable[StructTypeProto | dict[str, Any]] | None = None,
    ) -> Self: ...
    @overload
    def HasField(
        self,
        field_name: Literal[
            "ir_version",
            "producer_name",
            "producer_version",
            "domain",
            "model_version",
            "doc_string",
            "graph",
        ],
    ) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(
        self,
        field_name: Literal[
            "ir_version",
            "opset_import",
            "producer_name",
            "producer_version",
            "domain",
            "model_version",
            "doc_string",
            "graph",
            "metadata_props",
            "training_info",
            "functions",
            "configuration",
            "struct_types",
        ],
    ) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def ir_version(self) -> int: ...
    @ir_version.setter
    def ir_version(self, value: int) -> None: ...
    def has_ir_version(self) -> bool:
        """Tell whether `ir_version` is set."""
    @property
    def opset_import(self) -> RepeatedComposite[OperatorSetIdProto]:
        """Operator sets whose names the graph may use, one version a domain."""
    def has_opset_import(self) -> bool:
        """Tell whether `opset_import` has elements."""
    @property
    def producer_name(self) -> str: ...
    @producer_name.setter
    def producer_name(self, value: str | bytes) -> None: ...
    def has_producer_name(self) -> bool:
        """Tell whether `producer_name` is set."""
    @property
    def producer_version(self) -> str: ...
    @producer_version.setter
    def producer_version(self, value: str | bytes) -> None: ...
    def has_producer_version(self) -> bool:
        """Tell whether `producer_version` is set."""
    @property
    def domain(self) -> str: ...
    @domain.setter
    def domain(self, value: str | bytes) -> None: ...
    def has_domain(self) -> bool:
        """Tell whether `domain` is set."""
    @property
    def model_version(self) -> int: ...
    @model_version.setter
    def model_version(self, value: int) -> None: ...
    def has_model_version(self) -> bool:
        """Tell whether `model_version` is set."""
    @property
    def doc_string(self) -> str: ...
    @doc_string.setter
    def doc_string(self, value: str | bytes) -> None: ...
    def has_doc_string(self) -> bool:
        """Tell whether `doc_string` is set."""
    @property
    def graph(self) -> GraphProto:
        """The root graph."""
    def has_graph(self) -> bool:
        """Tell whether `graph` is set."""
    def add_graph(self) -> GraphProto:
        """Set `graph` to an empty message and give it."""
    @property
    def metadata_props(self) -> RepeatedComposite[StringStringEntryProto]: ...
    def has_metadata_props(self) -> bool:
        """Tell whether `metadata_props` has elements."""
    @property
    def training_info(self) -> RepeatedComposite[TrainingInfoProto]: ...
    def has_training_info(self) -> bool:
        """Tell whether `training_info` has elements."""
    @property
    def functions(self) -> RepeatedComposite[FunctionProto]:
        """Operators that the model defines itself."""
    def has_functions(self) -> bool:
        """Tell whether `functions` has elements."""
    @property
    def configuration(self) -> RepeatedComposite[DeviceConfigurationProto]: ...
    def has_configuration(self) -> bool:
        """Tell whether `configuration` has elements."""
    @property
    def struct_types(self) -> RepeatedComposite[StructTypeProto]:
        """Extension. Catalogue of structured types; each entry has its own nonzero `type_id`."""
    def has_struct_types(self) -> bool:
        """Tell whether `struct_types` has elements."""

@final
class OperatorSetIdProto(Message):
    """A version of the operators of one domain; the empty domain is ONNX's own."""

    DESCRIPTOR: Descriptor
    DOMAIN_FIELD_NUMBER: int
    VERSION_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        domain: str | bytes | None = None,
        version: int | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["domain", "version"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(self, field_name: Literal["domain", "version"]) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def domain(self) -> str: ...
    @domain.setter
    def domain(self, value: str | bytes) -> None: ...
    def has_domain(self) -> bool:
        """Tell whether `domain` is set."""
    @property
    def version(self) -> int: ...
    @version.setter
    def version(self, value: int) -> None: ...
    def has_version(self) -> bool:
        """Tell whether `version` is set."""

@final
class GraphProto(Message):
    """Nodes in topological order, with the values that enter and leave."""

    DESCRIPTOR: Descriptor
    NODE_FIELD_NUMBER: int
    NAME_FIELD_NUMBER: int
    INITIALIZER_FIELD_NUMBER: int
    SPARSE_INITIALIZER_FIELD_NUMBER: int
    DOC_STRING_FIELD_NUMBER: int
    INPUT_FIELD_NUMBER: int
    OUTPUT_FIELD_NUMBER: int
    VALUE_INFO_FIELD_NUMBER: int
    QUANTIZATION_ANNOTATION_FIELD_NUMBER: int
    METADATA_PROPS_FIELD_NUMBER: int
    ENCODED_INITIALIZER_FIELD_NUMBER: int
    PERSISTENT_BINDINGS_FIELD_NUMBER: int
    PAGED_CACHE_INITIALIZER_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        node: Iterable[NodeProto | dict[str, Any]] | None = None,
        name: str | bytes | None = None,
        initializer: Iterable[TensorProto | dict[str, Any]] | None = None,
        sparse_initializer: Iterable[SparseTensorProto | dict[str, Any]] | None = None,
        doc_string: str | bytes | None = None,
        input: Iterable[ValueInfoProto | dict[str, Any]] | None = None,
        output: Iterable[ValueInfoProto | dict[str, Any]] | None = None,
        value_info: Iterable[ValueInfoProto | dict[str, Any]] | None = None,
        quantization_annotation: Iterable[TensorAnnotation | dict[str, Any]] | None = None,
        metadata_props: Iterable[StringStringEntryProto | dict[str, Any]] | None = None,
        encoded_initializer: Iterable[EncodedValueProto | dict[str, Any]] | None = None,
        persistent_bindings: Iterable[PersistentBindingProto | dict[str, Any]] | None = None,
        paged_cache_initializer: Iterable[PagedCacheProto | dict[str, Any]] | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["name", "doc_string"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(
        self,
        field_name: Literal[
            "node",
            "name",
            "initializer",
            "sparse_initializer",
            "doc_string",
            "input",
            "output",
            "value_info",
            "quantization_annotation",
            "metadata_props",
            "encoded_initializer",
            "persistent_bindings",
            "paged_cache_initializer",
        ],
    ) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def node(self) -> RepeatedComposite[NodeProto]: ...
    def has_node(self) -> bool:
        """Tell whether `node` has elements."""
    @property
    def name(self) -> str: ...
    @name.setter
    def name(self, value: str | bytes) -> None: ...
    def has_name(self) -> bool:
        """Tell whether `name` is set."""
    @property
    def initializer(self) -> RepeatedComposite[TensorProto]:
        """Named constants. One may also be the default of a graph input."""
    def has_initializer(self) -> bool:
        """Tell whether `initializer` has elements."""
    @property
    def sparse_initializer(self) -> RepeatedComposite[SparseTensorProto]: ...
    def has_sparse_initializer(self) -> bool:
        """Tell whether `sparse_initializer` has elements."""
    @property
    def doc_string(self) -> str: ...
    @doc_string.setter
    def doc_string(self, value: str | bytes) -> None: ...
    def has_doc_string(self) -> bool:
        """Tell whether `doc_string` is set."""
    @property
    def input(self) -> RepeatedComposite[ValueInfoProto]: ...
    def has_input(self) -> bool:
        """Tell whether `input` has elements."""
    @property
    def output(self) -> RepeatedComposite[ValueInfoProto]: ...
    def has_output(self) -> bool:
        """Tell whether `output` has elements."""
    @property
    def value_info(self) -> RepeatedComposite[ValueInfoProto]:
        """Types of values in between, as far as they are known."""
    def has_value_info(self) -> bool:
        """Tell whether `value_info` has elements."""
    @property
    def quantization_annotation(self) -> RepeatedComposite[TensorAnnotation]: ...
    def has_quantization_annotation(self) -> bool:
        """Tell whether `quantization_annotation` has elements."""
    @property
    def metadata_props(self) -> RepeatedComposite[StringStringEntryProto]: ...
    def has_metadata_props(self) -> bool:
        """Tell whether `metadata_props` has elements."""
    @property
    def encoded_initializer(self) -> RepeatedComposite[EncodedValueProto]:
        """Extension. Named encoded constants."""
    def has_encoded_initializer(self) -> bool:
        """Tell whether `encoded_initializer` has elements."""
    @property
    def persistent_bindings(self) -> RepeatedComposite[PersistentBindingProto]:
        """Extension. Which output feeds which input of the next call; root graph only."""
    def has_persistent_bindings(self) -> bool:
        """Tell whether `persistent_bindings` has elements."""
    @property
    def paged_cache_initializer(self) -> RepeatedComposite[PagedCacheProto]:
        """Extension. Named paged caches."""
    def has_paged_cache_initializer(self) -> bool:
        """Tell whether `paged_cache_initializer` has elements."""

@final
class NodeProto(Message):
    """One call of an operator. An empty name among inputs or outputs stands for an omitted optional value."""

    DESCRIPTOR: Descriptor
    INPUT_FIELD_NUMBER: int
    OUTPUT_FIELD_NUMBER: int
    NAME_FIELD_NUMBER: int
    OP_TYPE_FIELD_NUMBER: int
    DOMAIN_FIELD_NUMBER: int
    OVERLOAD_FIELD_NUMBER: int
    ATTRIBUTE_FIELD_NUMBER: int
    DOC_STRING_FIELD_NUMBER: int
    METADATA_PROPS_FIELD_NUMBER: int
    DEVICE_CONFIGURATIONS_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        input: Iterable[str | bytes] | None = None,
        output: Iterable[str | bytes] | None = None,
        name: str | bytes | None = None,
        op_type: str | bytes | None = None,
        domain: str | bytes | None = None,
        overload: str | bytes | None = None,
        attribute: Iterable[AttributeProto | dict[str, Any]] | None = None,
        doc_string: str | bytes | None = None,
        metadata_props: Iterable[StringStringEntryProto | dict[str, Any]] | None = None,
        device_configurations: Iterable[NodeDeviceConfigurationProto | dict[str, Any]] | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["name", "op_type", "domain", "overload", "doc_string"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(
        self,
        field_name: Literal[
            "input",
            "output",
            "name",
            "op_type",
            "domain",
            "overload",
            "attribute",
            "doc_string",
            "metadata_props",
            "device_configurations",
        ],
    ) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def input(self) -> RepeatedScalar[str]: ...
    def has_input(self) -> bool:
        """Tell whether `input` has elements."""
    @property
    def output(self) -> RepeatedScalar[str]: ...
    def has_output(self) -> bool:
        """Tell whether `output` has elements."""
    @property
    def name(self) -> str: ...
    @name.setter
    def name(self, value: str | bytes) -> None: ...
    def has_name(self) -> bool:
        """Tell whether `name` is set."""
    @property
    def op_type(self) -> str: ...
    @op_type.setter
    def op_type(self, value: str | bytes) -> None: ...
    def has_op_type(self) -> bool:
        """Tell whether `op_type` is set."""
    @property
    def domain(self) -> str: ...
    @domain.setter
    def domain(self, value: str | bytes) -> None: ...
    def has_domain(self) -> bool:
        """Tell whether `domain` is set."""
    @property
    def overload(self) -> str:
        """Picks one of several functions of the same domain and name."""
    @overload.setter
    def overload(self, value: str | bytes) -> None: ...
    def has_overload(self) -> bool:
        """Tell whether `overload` is set."""
    @property
    def attribute(self) -> RepeatedComposite[AttributeProto]: ...
    def has_attribute(self) -> bool:
        """Tell whether `attribute` has elements."""
    @property
    def doc_string(self) -> str: ...
    @doc_string.setter
    def doc_string(self, value: str | bytes) -> None: ...
    def has_doc_string(self) -> bool:
        """Tell whether `doc_string` is set."""
    @property
    def metadata_props(self) -> RepeatedComposite[StringStringEntryProto]: ...
    def has_metadata_props(self) -> bool:
        """Tell whether `metadata_props` has elements."""
    @property
    def device_configurations(self) -> RepeatedComposite[NodeDeviceConfigurationProto]: ...
    def has_device_configurations(self) -> bool:
        """Tell whether `device_configurations` has elements."""

@final
class AttributeProto(Message):
    """A named constant of a node; `type` says which of the payload fields carries it."""

    DESCRIPTOR: Descriptor
    AttributeType: EnumTypeWrapper
    UNDEFINED: int
    FLOAT: int
    INT: int
    STRING: int
    TENSOR: int
    GRAPH: int
    SPARSE_TENSOR: int
    TYPE_PROTO: int
    FLOATS: int
    INTS: int
    STRINGS: int
    TENSORS: int
    GRAPHS: int
    SPARSE_TENSORS: int
    TYPE_PROTOS: int
    NAME_FIELD_NUMBER: int
    REF_ATTR_NAME_FIELD_NUMBER: int
    DOC_STRING_FIELD_NUMBER: int
    TYPE_FIELD_NUMBER: int
    F_FIELD_NUMBER: int
    I_FIELD_NUMBER: int
    S_FIELD_NUMBER: int
    T_FIELD_NUMBER: int
    G_FIELD_NUMBER: int
    SPARSE_TENSOR_FIELD_NUMBER: int
    TP_FIELD_NUMBER: int
    FLOATS_FIELD_NUMBER: int
    INTS_FIELD_NUMBER: int
    STRINGS_FIELD_NUMBER: int
    TENSORS_FIELD_NUMBER: int
    GRAPHS_FIELD_NUMBER: int
    SPARSE_TENSORS_FIELD_NUMBER: int
    TYPE_PROTOS_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        name: str | bytes | None = None,
        ref_attr_name: str | bytes | None = None,
        doc_string: str | bytes | None = None,
        type: int | str | None = None,
        f: float | None = None,
        i: int | None = None,
        s: bytes | None = None,
        t: TensorProto | dict[str, Any] | None = None,
        g: GraphProto | dict[str, Any] | None = None,
        sparse_tensor: SparseTensorProto | dict[str, Any] | None = None,
        tp: TypeProto | dict[str, Any] | None = None,
        floats: Iterable[float] | None = None,
        ints: Iterable[int] | None = None,
        strings: Iterable[bytes] | None = None,
        tensors: Iterable[TensorProto | dict[str, Any]] | None = None,
        graphs: Iterable[GraphProto | dict[str, Any]] | None = None,
        sparse_tensors: Iterable[SparseTensorProto | dict[str, Any]] | None = None,
        type_protos: Iterable[TypeProto | dict[str, Any]] | None = None,
    ) -> Self: ...
    @overload
    def HasField(
        self,
        field_name: Literal[
            "name",
            "ref_attr_name",
            "doc_string",
            "type",
            "f",
            "i",
            "s",
            "t",
            "g",
            "sparse_tensor",
            "tp",
        ],
    ) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(
        self,
        field_name: Literal[
            "name",
            "ref_attr_name",
            "doc_string",
            "type",
            "f",
            "i",
            "s",
            "t",
            "g",
            "sparse_tensor",
            "tp",
            "floats",
            "ints",
            "strings",
            "tensors",
            "graphs",
            "sparse_tensors",
            "type_protos",
        ],
    ) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def name(self) -> str: ...
    @name.setter
    def name(self, value: str | bytes) -> None: ...
    def has_name(self) -> bool:
        """Tell whether `name` is set."""
    @property
    def ref_attr_name(self) -> str:
        """Inside a function body: the function's attribute whose value this one takes."""
    @ref_attr_name.setter
    def ref_attr_name(self, value: str | bytes) -> None: ...
    def has_ref_attr_name(self) -> bool:
        """Tell whether `ref_attr_name` is set."""
    @property
    def doc_string(self) -> str: ...
    @doc_string.setter
    def doc_string(self, value: str | bytes) -> None: ...
    def has_doc_string(self) -> bool:
        """Tell whether `doc_string` is set."""
    @property
    def type(self) -> int: ...
    @type.setter
    def type(self, value: int | str) -> None: ...
    def has_type(self) -> bool:
        """Tell whether `type` is set."""
    @property
    def f(self) -> float: ...
    @f.setter
    def f(self, value: float) -> None: ...
    def has_f(self) -> bool:
        """Tell whether `f` is set."""
    @property
    def i(self) -> int: ...
    @i.setter
    def i(self, value: int) -> None: ...
    def has_i(self) -> bool:
        """Tell whether `i` is set."""
    @property
    def s(self) -> bytes: ...
    @s.setter
    def s(self, value: bytes) -> None: ...
    def has_s(self) -> bool:
        """Tell whether `s` is set."""
    def s_view(self) -> memoryview:
        """Give the bytes of `s` where they lie."""
    @property
    def t(self) -> TensorProto: ...
    def has_t(self) -> bool:
        """Tell whether `t` is set."""
    def add_t(self) -> TensorProto:
        """Set `t` to an empty message and give it."""
    @property
    def g(self) -> GraphProto: ...
    def has_g(self) -> bool:
        """Tell whether `g` is set."""
    def add_g(self) -> GraphProto:
        """Set `g` to an empty message and give it."""
    @property
    def sparse_tensor(self) -> SparseTensorProto: ...
    def has_sparse_tensor(self) -> bool:
        """Tell whether `sparse_tensor` is set."""
    def add_sparse_tensor(self) -> SparseTensorProto:
        """Set `sparse_tensor` to an empty message and give it."""
    @property
    def tp(self) -> TypeProto: ...
    def has_tp(self) -> bool:
        """Tell whether `tp` is set."""
    def add_tp(self) -> TypeProto:
        """Set `tp` to an empty message and give it."""
    @property
    def floats(self) -> RepeatedScalar[float]: ...
    def has_floats(self) -> bool:
        """Tell whether `floats` has elements."""
    @property
    def ints(self) -> RepeatedScalar[int]: ...
    def has_ints(self) -> bool:
        """Tell whether `ints` has elements."""
    @property
    def strings(self) -> RepeatedScalar[bytes]: ...
    def has_strings(self) -> bool:
        """Tell whether `strings` has elements."""
    @property
    def tensors(self) -> RepeatedComposite[TensorProto]: ...
    def has_tensors(self) -> bool:
        """Tell whether `tensors` has elements."""
    @property
    def graphs(self) -> RepeatedComposite[GraphProto]: ...
    def has_graphs(self) -> bool:
        """Tell whether `graphs` has elements."""
    @property
    def sparse_tensors(self) -> RepeatedComposite[SparseTensorProto]: ...
    def has_sparse_tensors(self) -> bool:
        """Tell whether `sparse_tensors` has elements."""
    @property
    def type_protos(self) -> RepeatedComposite[TypeProto]: ...
    def has_type_protos(self) -> bool:
        """Tell whether `type_protos` has elements."""

@final
class FunctionProto(Message):
    """An operator written as nodes of other operators."""

    DESCRIPTOR: Descriptor
    NAME_FIELD_NUMBER: int
    INPUT_FIELD_NUMBER: int
    OUTPUT_FIELD_NUMBER: int
    ATTRIBUTE_FIELD_NUMBER: int
    ATTRIBUTE_PROTO_FIELD_NUMBER: int
    NODE_FIELD_NUMBER: int
    DOC_STRING_FIELD_NUMBER: int
    OPSET_IMPORT_FIELD_NUMBER: int
    DOMAIN_FIELD_NUMBER: int
    OVERLOAD_FIELD_NUMBER: int
    VALUE_INFO_FIELD_NUMBER: int
    METADATA_PROPS_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        name: str | bytes | None = None,
        input: Iterable[str | bytes] | None = None,
        output: Iterable[str | bytes] | None = None,
        attribute: Iterable[str | bytes] | None = None,
        attribute_proto: Iterable[AttributeProto | dict[str, Any]] | None = None,
        node: Iterable[NodeProto | dict[str, Any]] | None = None,
        doc_string: str | bytes | None = None,
        opset_import: Iterable[OperatorSetIdProto | dict[str, Any]] | None = None,
        domain: str | bytes | None = None,
        overload: str | bytes | None = None,
        value_info: Iterable[ValueInfoProto | dict[str, Any]] | None = None,
        metadata_props: Iterable[StringStringEntryProto | dict[str, Any]] | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["name", "doc_string", "domain", "overload"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(
        self,
        field_name: Literal[
            "name",
            "input",
            "output",
            "attribute",
            "attribute_proto",
            "node",
            "doc_string",
            "opset_import",
            "domain",
            "overload",
            "value_info",
            "metadata_props",
        ],
    ) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def name(self) -> str: ...
    @name.setter
    def name(self, value: str | bytes) -> None: ...
    def has_name(self) -> bool:
        """Tell whether `name` is set."""
    @property
    def input(self) -> RepeatedScalar[str]: ...
    def has_input(self) -> bool:
        """Tell whether `input` has elements."""
    @property
    def output(self) -> RepeatedScalar[str]: ...
    def has_output(self) -> bool:
        """Tell whether `output` has elements."""
    @property
    def attribute(self) -> RepeatedScalar[str]:
        """Attributes without a default."""
    def has_attribute(self) -> bool:
        """Tell whether `attribute` has elements."""
    @property
    def attribute_proto(self) -> RepeatedComposite[AttributeProto]:
        """Attributes with a default."""
    def has_attribute_proto(self) -> bool:
        """Tell whether `attribute_proto` has elements."""
    @property
    def node(self) -> RepeatedComposite[NodeProto]: ...
    def has_node(self) -> bool:
        """Tell whether `node` has elements."""
    @property
    def doc_string(self) -> str: ...
    @doc_string.setter
    def doc_string(self, value: str | bytes) -> None: ...
    def has_doc_string(self) -> bool:
        """Tell whether `doc_string` is set."""
    @property
    def opset_import(self) -> RepeatedComposite[OperatorSetIdProto]: ...
    def has_opset_import(self) -> bool:
        """Tell whether `opset_import` has elements."""
    @property
    def domain(self) -> str: ...
    @domain.setter
    def domain(self, value: str | bytes) -> None: ...
    def has_domain(self) -> bool:
        """Tell whether `domain` is set."""
    @property
    def overload(self) -> str: ...
    @overload.setter
    def overload(self, value: str | bytes) -> None: ...
    def has_overload(self) -> bool:
        """Tell whether `overload` is set."""
    @property
    def value_info(self) -> RepeatedComposite[ValueInfoProto]: ...
    def has_value_info(self) -> bool:
        """Tell whether `value_info` has elements."""
    @property
    def metadata_props(self) -> RepeatedComposite[StringStringEntryProto]: ...
    def has_metadata_props(self) -> bool:
        """Tell whether `metadata_props` has elements."""

@final
class TrainingInfoProto(Message):
    """Graphs that train the model; refeed keeps them and does not run them."""

    DESCRIPTOR: Descriptor
    INITIALIZATION_FIELD_NUMBER: int
    ALGORITHM_FIELD_NUMBER: int
    INITIALIZATION_BINDING_FIELD_NUMBER: int
    UPDATE_BINDING_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        initialization: GraphProto | dict[str, Any] | None = None,
        algorithm: GraphProto | dict[str, Any] | None = None,
        initialization_binding: Iterable[StringStringEntryProto | dict[str, Any]] | None = None,
        update_binding: Iterable[StringStringEntryProto | dict[str, Any]] | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["initialization", "algorithm"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(
        self,
        field_name: Literal[
            "initialization",
            "algorithm",
            "initialization_binding",
            "update_binding",
        ],
    ) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def initialization(self) -> GraphProto: ...
    def has_initialization(self) -> bool:
        """Tell whether `initialization` is set."""
    def add_initialization(self) -> GraphProto:
        """Set `initialization` to an empty message and give it."""
    @property
    def algorithm(self) -> GraphProto: ...
    def has_algorithm(self) -> bool:
        """Tell whether `algorithm` is set."""
    def add_algorithm(self) -> GraphProto:
        """Set `algorithm` to an empty message and give it."""
    @property
    def initialization_binding(self) -> RepeatedComposite[StringStringEntryProto]: ...
    def has_initialization_binding(self) -> bool:
        """Tell whether `initialization_binding` has elements."""
    @property
    def update_binding(self) -> RepeatedComposite[StringStringEntryProto]: ...
    def has_update_binding(self) -> bool:
        """Tell whether `update_binding` has elements."""

@final
class StringStringEntryProto(Message):
    """A key with its value."""

    DESCRIPTOR: Descriptor
    KEY_FIELD_NUMBER: int
    VALUE_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        key: str | bytes | None = None,
        value: str | bytes | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["key", "value"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(self, field_name: Literal["key", "value"]) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def key(self) -> str: ...
    @key.setter
    def key(self, value: str | bytes) -> None: ...
    def has_key(self) -> bool:
        """Tell whether `key` is set."""
    @property
    def value(self) -> str: ...
    @value.setter
    def value(self, value: str | bytes) -> None: ...
    def has_value(self) -> bool:
        """Tell whether `value` is set."""

@final
class TensorAnnotation(Message):
    """Names of the tensors that quantise one tensor."""

    DESCRIPTOR: Descriptor
    TENSOR_NAME_FIELD_NUMBER: int
    QUANT_PARAMETER_TENSOR_NAMES_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        tensor_name: str | bytes | None = None,
        quant_parameter_tensor_names: Iterable[StringStringEntryProto | dict[str, Any]] | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["tensor_name"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(self, field_name: Literal["tensor_name", "quant_parameter_tensor_names"]) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def tensor_name(self) -> str: ...
    @tensor_name.setter
    def tensor_name(self, value: str | bytes) -> None: ...
    def has_tensor_name(self) -> bool:
        """Tell whether `tensor_name` is set."""
    @property
    def quant_parameter_tensor_names(self) -> RepeatedComposite[StringStringEntryProto]: ...
    def has_quant_parameter_tensor_names(self) -> bool:
        """Tell whether `quant_parameter_tensor_names` has elements."""

@final
class DeviceConfigurationProto(Message):
    """A named set of devices that nodes may refer to."""

    DESCRIPTOR: Descriptor
    NAME_FIELD_NUMBER: int
    NUM_DEVICES_FIELD_NUMBER: int
    DEVICE_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        name: str | bytes | None = None,
        num_devices: int | None = None,
        device: Iterable[str | bytes] | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["name", "num_devices"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(self, field_name: Literal["name", "num_devices", "device"]) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def name(self) -> str: ...
    @name.setter
    def name(self, value: str | bytes) -> None: ...
    def has_name(self) -> bool:
        """Tell whether `name` is set."""
    @property
    def num_devices(self) -> int: ...
    @num_devices.setter
    def num_devices(self, value: int) -> None: ...
    def has_num_devices(self) -> bool:
        """Tell whether `num_devices` is set."""
    @property
    def device(self) -> RepeatedScalar[str]: ...
    def has_device(self) -> bool:
        """Tell whether `device` has elements."""

@final
class NodeDeviceConfigurationProto(Message):
    """How one node is spread over a device configuration."""

    DESCRIPTOR: Descriptor
    CONFIGURATION_ID_FIELD_NUMBER: int
    SHARDING_SPEC_FIELD_NUMBER: int
    PIPELINE_STAGE_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        configuration_id: str | bytes | None = None,
        sharding_spec: Iterable[ShardingSpecProto | dict[str, Any]] | None = None,
        pipeline_stage: int | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["configuration_id", "pipeline_stage"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(self, field_name: Literal["configuration_id", "sharding_spec", "pipeline_stage"]) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def configuration_id(self) -> str: ...
    @configuration_id.setter
    def configuration_id(self, value: str | bytes) -> None: ...
    def has_configuration_id(self) -> bool:
        """Tell whether `configuration_id` is set."""
    @property
    def sharding_spec(self) -> RepeatedComposite[ShardingSpecProto]: ...
    def has_sharding_spec(self) -> bool:
        """Tell whether `sharding_spec` has elements."""
    @property
    def pipeline_stage(self) -> int: ...
    @pipeline_stage.setter
    def pipeline_stage(self, value: int) -> None: ...
    def has_pipeline_stage(self) -> bool:
        """Tell whether `pipeline_stage` is set."""

@final
class ShardingSpecProto(Message):
    """How one input or output of a node is spread over devices."""

    DESCRIPTOR: Descriptor
    TENSOR_NAME_FIELD_NUMBER: int
    DEVICE_FIELD_NUMBER: int
    INDEX_TO_DEVICE_GROUP_MAP_FIELD_NUMBER: int
    SHARDED_DIM_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        tensor_name: str | bytes | None = None,
        device: Iterable[int] | None = None,
        index_to_device_group_map: Iterable[IntIntListEntryProto | dict[str, Any]] | None = None,
        sharded_dim: Iterable[ShardedDimProto | dict[str, Any]] | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["tensor_name"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(
        self,
        field_name: Literal[
            "tensor_name",
            "device",
            "index_to_device_group_map",
            "sharded_dim",
        ],
    ) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def tensor_name(self) -> str: ...
    @tensor_name.setter
    def tensor_name(self, value: str | bytes) -> None: ...
    def has_tensor_name(self) -> bool:
        """Tell whether `tensor_name` is set."""
    @property
    def device(self) -> RepeatedScalar[int]: ...
    def has_device(self) -> bool:
        """Tell whether `device` has elements."""
    @property
    def index_to_device_group_map(self) -> RepeatedComposite[IntIntListEntryProto]: ...
    def has_index_to_device_group_map(self) -> bool:
        """Tell whether `index_to_device_group_map` has elements."""
    @property
    def sharded_dim(self) -> RepeatedComposite[ShardedDimProto]: ...
    def has_sharded_dim(self) -> bool:
        """Tell whether `sharded_dim` has elements."""

@final
class ShardedDimProto(Message):
    """One spread axis."""

    DESCRIPTOR: Descriptor
    AXIS_FIELD_NUMBER: int
    SIMPLE_SHARDING_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        axis: int | None = None,
        simple_sharding: Iterable[SimpleShardedDimProto | dict[str, Any]] | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["axis"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(self, field_name: Literal["axis", "simple_sharding"]) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def axis(self) -> int: ...
    @axis.setter
    def axis(self, value: int) -> None: ...
    def has_axis(self) -> bool:
        """Tell whether `axis` is set."""
    @property
    def simple_sharding(self) -> RepeatedComposite[SimpleShardedDimProto]: ...
    def has_simple_sharding(self) -> bool:
        """Tell whether `simple_sharding` has elements."""

@final
class SimpleShardedDimProto(Message):
    """A part of a spread axis."""

    DESCRIPTOR: Descriptor
    DIM_VALUE_FIELD_NUMBER: int
    DIM_PARAM_FIELD_NUMBER: int
    NUM_SHARDS_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        dim_value: int | None = None,
        dim_param: str | bytes | None = None,
        num_shards: int | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["dim_value", "dim_param", "num_shards", "dim"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(self, field_name: Literal["dim_value", "dim_param", "num_shards", "dim"]) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @overload
    def WhichOneof(self, oneof_group: Literal["dim"]) -> Literal["dim_value", "dim_param"] | None: ...
    @overload
    def WhichOneof(self, oneof_group: str | bytes) -> str | None: ...
    @property
    def dim_value(self) -> int: ...
    @dim_value.setter
    def dim_value(self, value: int) -> None: ...
    def has_dim_value(self) -> bool:
        """Tell whether `dim_value` is set."""
    @property
    def dim_param(self) -> str: ...
    @dim_param.setter
    def dim_param(self, value: str | bytes) -> None: ...
    def has_dim_param(self) -> bool:
        """Tell whether `dim_param` is set."""
    @property
    def num_shards(self) -> int: ...
    @num_shards.setter
    def num_shards(self, value: int) -> None: ...
    def has_num_shards(self) -> bool:
        """Tell whether `num_shards` is set."""

@final
class IntIntListEntryProto(Message):
    """An integer with a list of integers."""

    DESCRIPTOR: Descriptor
    KEY_FIELD_NUMBER: int
    VALUE_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        key: int | None = None,
        value: Iterable[int] | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["key"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(self, field_name: Literal["key", "value"]) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def key(self) -> int: ...
    @key.setter
    def key(self, value: int) -> None: ...
    def has_key(self) -> bool:
        """Tell whether `key` is set."""
    @property
    def value(self) -> RepeatedScalar[int]: ...
    def has_value(self) -> bool:
        """Tell whether `value` has elements."""

@final
class TensorProto(Message):
    """A constant tensor. Its elements are in `raw_data`, in the typed field of its element type, or in another file."""

    DESCRIPTOR: Descriptor
    DataType: EnumTypeWrapper
    UNDEFINED: int
    FLOAT: int
    UINT8: int
    INT8: int
    UINT16: int
    INT16: int
    INT32: int
    INT64: int
    STRING: int
    BOOL: int
    FLOAT16: int
    DOUBLE: int
    UINT32: int
    UINT64: int
    COMPLEX64: int
    COMPLEX128: int
    BFLOAT16: int
    FLOAT8E4M3FN: int
    FLOAT8E4M3FNUZ: int
    FLOAT8E5M2: int
    FLOAT8E5M2FNUZ: int
    UINT4: int
    INT4: int
    FLOAT4E2M1: int
    FLOAT8E8M0: int
    UINT2: int
    INT2: int
    FLOAT6E2M3: int
    FLOAT6E3M2: int
    DataLocation: EnumTypeWrapper
    DEFAULT: int
    EXTERNAL: int
    DIMS_FIELD_NUMBER: int
    DATA_TYPE_FIELD_NUMBER: int
    SEGMENT_FIELD_NUMBER: int
    FLOAT_DATA_FIELD_NUMBER: int
    INT32_DATA_FIELD_NUMBER: int
    STRING_DATA_FIELD_NUMBER: int
    INT64_DATA_FIELD_NUMBER: int
    NAME_FIELD_NUMBER: int
    DOC_STRING_FIELD_NUMBER: int
    RAW_DATA_FIELD_NUMBER: int
    EXTERNAL_DATA_FIELD_NUMBER: int
    DATA_LOCATION_FIELD_NUMBER: int
    DOUBLE_DATA_FIELD_NUMBER: int
    UINT64_DATA_FIELD_NUMBER: int
    METADATA_PROPS_FIELD_NUMBER: int

    @final
    class Segment(Message):
        """A part of a tensor that is stored in pieces."""

        DESCRIPTOR: Descriptor
        BEGIN_FIELD_NUMBER: int
        END_FIELD_NUMBER: int
        def __new__(
            cls,
            *,
            begin: int | None = None,
            end: int | None = None,
        ) -> Self: ...
        @overload
        def HasField(self, field_name: Literal["begin", "end"]) -> bool: ...
        @overload
        def HasField(self, field_name: str | bytes) -> bool: ...
        @overload
        def ClearField(self, field_name: Literal["begin", "end"]) -> None: ...
        @overload
        def ClearField(self, field_name: str | bytes) -> None: ...
        @property
        def begin(self) -> int: ...
        @begin.setter
        def begin(self, value: int) -> None: ...
        def has_begin(self) -> bool:
            """Tell whether `begin` is set."""
        @property
        def end(self) -> int: ...
        @end.setter
        def end(self, value: int) -> None: ...
        def has_end(self) -> bool:
            """Tell whether `end` is set."""

    def __new__(
        cls,
        *,
        dims: Iterable[int] | None = None,
        data_type: int | None = None,
        segment: TensorProto.Segment | dict[str, Any] | None = None,
        float_data: Iterable[float] | None = None,
        int32_data: Iterable[int] | None = None,
        string_data: Iterable[bytes] | None = None,
        int64_data: Iterable[int] | None = None,
        name: str | bytes | None = None,
        doc_string: str | bytes | None = None,
        raw_data: bytes | None = None,
        external_data: Iterable[StringStringEntryProto | dict[str, Any]] | None = None,
        data_location: int | str | None = None,
        double_data: Iterable[float] | None = None,
        uint64_data: Iterable[int] | None = None,
        metadata_props: Iterable[StringStringEntryProto | dict[str, Any]] | None = None,
    ) -> Self: ...
    @overload
    def HasField(
        self,
        field_name: Literal[
            "data_type",
            "segment",
            "name",
            "doc_string",
            "raw_data",
            "data_location",
        ],
    ) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(
        self,
        field_name: Literal[
            "dims",
            "data_type",
            "segment",
            "float_data",
            "int32_data",
            "string_data",
            "int64_data",
            "name",
            "doc_string",
            "raw_data",
            "external_data",
            "data_location",
            "double_data",
            "uint64_data",
            "metadata_props",
        ],
    ) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def dims(self) -> RepeatedScalar[int]: ...
    def has_dims(self) -> bool:
        """Tell whether `dims` has elements."""
    @property
    def data_type(self) -> int:
        """A `DataType`; a plain integer on the wire, so that newer numbers survive."""
    @data_type.setter
    def data_type(self, value: int) -> None: ...
    def has_data_type(self) -> bool:
        """Tell whether `data_type` is set."""
    @property
    def segment(self) -> TensorProto.Segment: ...
    def has_segment(self) -> bool:
        """Tell whether `segment` is set."""
    def add_segment(self) -> TensorProto.Segment:
        """Set `segment` to an empty message and give it."""
    @property
    def float_data(self) -> RepeatedScalar[float]:
        """FLOAT and COMPLEX64 (real and imaginary parts in turn)."""
    def has_float_data(self) -> bool:
        """Tell whether `float_data` has elements."""
    @property
    def int32_data(self) -> RepeatedScalar[int]:
        """INT32 and every type of 16 bits or less, FLOAT16 and the like by their bits."""
    def has_int32_data(self) -> bool:
        """Tell whether `int32_data` has elements."""
    @property
    def string_data(self) -> RepeatedScalar[bytes]: ...
    def has_string_data(self) -> bool:
        """Tell whether `string_data` has elements."""
    @property
    def int64_data(self) -> RepeatedScalar[int]: ...
    def has_int64_data(self) -> bool:
        """Tell whether `int64_data` has elements."""
    @property
    def name(self) -> str: ...
    @name.setter
    def name(self, value: str | bytes) -> None: ...
    def has_name(self) -> bool:
        """Tell whether `name` is set."""
    @property
    def doc_string(self) -> str: ...
    @doc_string.setter
    def doc_string(self, value: str | bytes) -> None: ...
    def has_doc_string(self) -> bool:
        """Tell whether `doc_string` is set."""
    @property
    def raw_data(self) -> bytes:
        """Little-endian elements, row by row; several to a byte for types under 8 bits."""
    @raw_data.setter
    def raw_data(self, value: bytes) -> None: ...
    def has_raw_data(self) -> bool:
        """Tell whether `raw_data` is set."""
    def raw_data_view(self) -> memoryview:
        """Give the bytes of `raw_data` where they lie."""
    @property
    def external_data(self) -> RepeatedComposite[StringStringEntryProto]:
        """`location`, `offset`, `length`, `checksum` of elements stored in another file."""
    def has_external_data(self) -> bool:
        """Tell whether `external_data` has elements."""
    @property
    def data_location(self) -> int: ...
    @data_location.setter
    def data_location(self, value: int | str) -> None: ...
    def has_data_location(self) -> bool:
        """Tell whether `data_location` is set."""
    @property
    def double_data(self) -> RepeatedScalar[float]:
        """DOUBLE and COMPLEX128 (real and imaginary parts in turn)."""
    def has_double_data(self) -> bool:
        """Tell whether `double_data` has elements."""
    @property
    def uint64_data(self) -> RepeatedScalar[int]:
        """UINT32 and UINT64."""
    def has_uint64_data(self) -> bool:
        """Tell whether `uint64_data` has elements."""
    @property
    def metadata_props(self) -> RepeatedComposite[StringStringEntryProto]: ...
    def has_metadata_props(self) -> bool:
        """Tell whether `metadata_props` has elements."""

@final
class SparseTensorProto(Message):
    """A tensor given by its nonzero elements and their positions."""

    DESCRIPTOR: Descriptor
    VALUES_FIELD_NUMBER: int
    INDICES_FIELD_NUMBER: int
    DIMS_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        values: TensorProto | dict[str, Any] | None = None,
        indices: TensorProto | dict[str, Any] | None = None,
        dims: Iterable[int] | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["values", "indices"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(self, field_name: Literal["values", "indices", "dims"]) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def values(self) -> TensorProto: ...
    def has_values(self) -> bool:
        """Tell whether `values` is set."""
    def add_values(self) -> TensorProto:
        """Set `values` to an empty message and give it."""
    @property
    def indices(self) -> TensorProto: ...
    def has_indices(self) -> bool:
        """Tell whether `indices` is set."""
    def add_indices(self) -> TensorProto:
        """Set `indices` to an empty message and give it."""
    @property
    def dims(self) -> RepeatedScalar[int]: ...
    def has_dims(self) -> bool:
        """Tell whether `dims` has elements."""

@final
class ValueInfoProto(Message):
    """A value's name and type."""

    DESCRIPTOR: Descriptor
    NAME_FIELD_NUMBER: int
    TYPE_FIELD_NUMBER: int
    DOC_STRING_FIELD_NUMBER: int
    METADATA_PROPS_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        name: str | bytes | None = None,
        type: TypeProto | dict[str, Any] | None = None,
        doc_string: str | bytes | None = None,
        metadata_props: Iterable[StringStringEntryProto | dict[str, Any]] | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["name", "type", "doc_string"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(self, field_name: Literal["name", "type", "doc_string", "metadata_props"]) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def name(self) -> str: ...
    @name.setter
    def name(self, value: str | bytes) -> None: ...
    def has_name(self) -> bool:
        """Tell whether `name` is set."""
    @property
    def type(self) -> TypeProto: ...
    def has_type(self) -> bool:
        """Tell whether `type` is set."""
    def add_type(self) -> TypeProto:
        """Set `type` to an empty message and give it."""
    @property
    def doc_string(self) -> str: ...
    @doc_string.setter
    def doc_string(self, value: str | bytes) -> None: ...
    def has_doc_string(self) -> bool:
        """Tell whether `doc_string` is set."""
    @property
    def metadata_props(self) -> RepeatedComposite[StringStringEntryProto]: ...
    def has_metadata_props(self) -> bool:
        """Tell whether `metadata_props` has elements."""

@final
class TensorShapeProto(Message):
    """The dimensions of a tensor, each a number, a symbol or unknown."""

    DESCRIPTOR: Descriptor
    DIM_FIELD_NUMBER: int

    @final
    class Dimension(Message):
        DESCRIPTOR: Descriptor
        DIM_VALUE_FIELD_NUMBER: int
        DIM_PARAM_FIELD_NUMBER: int
        DENOTATION_FIELD_NUMBER: int
        def __new__(
            cls,
            *,
            dim_value: int | None = None,
            dim_param: str | bytes | None = None,
            denotation: str | bytes | None = None,
        ) -> Self: ...
        @overload
        def HasField(self, field_name: Literal["dim_value", "dim_param", "denotation", "value"]) -> bool: ...
        @overload
        def HasField(self, field_name: str | bytes) -> bool: ...
        @overload
        def ClearField(self, field_name: Literal["dim_value", "dim_param", "denotation", "value"]) -> None: ...
        @overload
        def ClearField(self, field_name: str | bytes) -> None: ...
        @overload
        def WhichOneof(self, oneof_group: Literal["value"]) -> Literal["dim_value", "dim_param"] | None: ...
        @overload
        def WhichOneof(self, oneof_group: str | bytes) -> str | None: ...
        @property
        def dim_value(self) -> int: ...
        @dim_value.setter
        def dim_value(self, value: int) -> None: ...
        def has_dim_value(self) -> bool:
            """Tell whether `dim_value` is set."""
        @property
        def dim_param(self) -> str: ...
        @dim_param.setter
        def dim_param(self, value: str | bytes) -> None: ...
        def has_dim_param(self) -> bool:
            """Tell whether `dim_param` is set."""
        @property
        def denotation(self) -> str: ...
        @denotation.setter
        def denotation(self, value: str | bytes) -> None: ...
        def has_denotation(self) -> bool:
            """Tell whether `denotation` is set."""

    def __new__(
        cls,
        *,
        dim: Iterable[TensorShapeProto.Dimension | dict[str, Any]] | None = None,
    ) -> Self: ...
    @overload
    def ClearField(self, field_name: Literal["dim"]) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def dim(self) -> RepeatedComposite[TensorShapeProto.Dimension]: ...
    def has_dim(self) -> bool:
        """Tell whether `dim` has elements."""

@final
class TypeProto(Message):
    """The type of a value."""

    DESCRIPTOR: Descriptor
    TENSOR_TYPE_FIELD_NUMBER: int
    SEQUENCE_TYPE_FIELD_NUMBER: int
    MAP_TYPE_FIELD_NUMBER: int
    OPTIONAL_TYPE_FIELD_NUMBER: int
    SPARSE_TENSOR_TYPE_FIELD_NUMBER: int
    OPAQUE_TYPE_FIELD_NUMBER: int
    STRUCT_TYPE_FIELD_NUMBER: int
    DENOTATION_FIELD_NUMBER: int

    @final
    class Tensor(Message):
        DESCRIPTOR: Descriptor
        ELEM_TYPE_FIELD_NUMBER: int
        SHAPE_FIELD_NUMBER: int
        def __new__(
            cls,
            *,
            elem_type: int | None = None,
            shape: TensorShapeProto | dict[str, Any] | None = None,
        ) -> Self: ...
        @overload
        def HasField(self, field_name: Literal["elem_type", "shape"]) -> bool: ...
        @overload
        def HasField(self, field_name: str | bytes) -> bool: ...
        @overload
        def ClearField(self, field_name: Literal["elem_type", "shape"]) -> None: ...
        @overload
        def ClearField(self, field_name: str | bytes) -> None: ...
        @property
        def elem_type(self) -> int: ...
        @elem_type.setter
        def elem_type(self, value: int) -> None: ...
        def has_elem_type(self) -> bool:
            """Tell whether `elem_type` is set."""
        @property
        def shape(self) -> TensorShapeProto: ...
        def has_shape(self) -> bool:
            """Tell whether `shape` is set."""
        def add_shape(self) -> TensorShapeProto:
            """Set `shape` to an empty message and give it."""

    @final
    class Sequence(Message):
        DESCRIPTOR: Descriptor
        ELEM_TYPE_FIELD_NUMBER: int
        def __new__(
            cls,
            *,
            elem_type: TypeProto | dict[str, Any] | None = None,
        ) -> Self: ...
        @overload
        def HasField(self, field_name: Literal["elem_type"]) -> bool: ...
        @overload
        def HasField(self, field_name: str | bytes) -> bool: ...
        @overload
        def ClearField(self, field_name: Literal["elem_type"]) -> None: ...
        @overload
        def ClearField(self, field_name: str | bytes) -> None: ...
        @property
        def elem_type(self) -> TypeProto: ...
        def has_elem_type(self) -> bool:
            """Tell whether `elem_type` is set."""
        def add_elem_type(self) -> TypeProto:
            """Set `elem_type` to an empty message and give it."""

    @final
    class Map(Message):
        DESCRIPTOR: Descriptor
        KEY_TYPE_FIELD_NUMBER: int
        VALUE_TYPE_FIELD_NUMBER: int
        def __new__(
            cls,
            *,
            key_type: int | None = None,
            value_type: TypeProto | dict[str, Any] | None = None,
        ) -> Self: ...
        @overload
        def HasField(self, field_name: Literal["key_type", "value_type"]) -> bool: ...
        @overload
        def HasField(self, field_name: str | bytes) -> bool: ...
        @overload
        def ClearField(self, field_name: Literal["key_type", "value_type"]) -> None: ...
        @overload
        def ClearField(self, field_name: str | bytes) -> None: ...
        @property
        def key_type(self) -> int: ...
        @key_type.setter
        def key_type(self, value: int) -> None: ...
        def has_key_type(self) -> bool:
            """Tell whether `key_type` is set."""
        @property
        def value_type(self) -> TypeProto: ...
        def has_value_type(self) -> bool:
            """Tell whether `value_type` is set."""
        def add_value_type(self) -> TypeProto:
            """Set `value_type` to an empty message and give it."""

    @final
    class Optional(Message):
        DESCRIPTOR: Descriptor
        ELEM_TYPE_FIELD_NUMBER: int
        def __new__(
            cls,
            *,
            elem_type: TypeProto | dict[str, Any] | None = None,
        ) -> Self: ...
        @overload
        def HasField(self, field_name: Literal["elem_type"]) -> bool: ...
        @overload
        def HasField(self, field_name: str | bytes) -> bool: ...
        @overload
        def ClearField(self, field_name: Literal["elem_type"]) -> None: ...
        @overload
        def ClearField(self, field_name: str | bytes) -> None: ...
        @property
        def elem_type(self) -> TypeProto: ...
        def has_elem_type(self) -> bool:
            """Tell whether `elem_type` is set."""
        def add_elem_type(self) -> TypeProto:
            """Set `elem_type` to an empty message and give it."""

    @final
    class SparseTensor(Message):
        DESCRIPTOR: Descriptor
        ELEM_TYPE_FIELD_NUMBER: int
        SHAPE_FIELD_NUMBER: int
        def __new__(
            cls,
            *,
            elem_type: int | None = None,
            shape: TensorShapeProto | dict[str, Any] | None = None,
        ) -> Self: ...
        @overload
        def HasField(self, field_name: Literal["elem_type", "shape"]) -> bool: ...
        @overload
        def HasField(self, field_name: str | bytes) -> bool: ...
        @overload
        def ClearField(self, field_name: Literal["elem_type", "shape"]) -> None: ...
        @overload
        def ClearField(self, field_name: str | bytes) -> None: ...
        @property
        def elem_type(self) -> int: ...
        @elem_type.setter
        def elem_type(self, value: int) -> None: ...
        def has_elem_type(self) -> bool:
            """Tell whether `elem_type` is set."""
        @property
        def shape(self) -> TensorShapeProto: ...
        def has_shape(self) -> bool:
            """Tell whether `shape` is set."""
        def add_shape(self) -> TensorShapeProto:
            """Set `shape` to an empty message and give it."""

    @final
    class Opaque(Message):
        DESCRIPTOR: Descriptor
        DOMAIN_FIELD_NUMBER: int
        NAME_FIELD_NUMBER: int
        def __new__(
            cls,
            *,
            domain: str | bytes | None = None,
            name: str | bytes | None = None,
        ) -> Self: ...
        @overload
        def HasField(self, field_name: Literal["domain", "name"]) -> bool: ...
        @overload
        def HasField(self, field_name: str | bytes) -> bool: ...
        @overload
        def ClearField(self, field_name: Literal["domain", "name"]) -> None: ...
        @overload
        def ClearField(self, field_name: str | bytes) -> None: ...
        @property
        def domain(self) -> str: ...
        @domain.setter
        def domain(self, value: str | bytes) -> None: ...
        def has_domain(self) -> bool:
            """Tell whether `domain` is set."""
        @property
        def name(self) -> str: ...
        @name.setter
        def name(self, value: str | bytes) -> None: ...
        def has_name(self) -> bool:
            """Tell whether `name` is set."""

    def __new__(
        cls,
        *,
        tensor_type: TypeProto.Tensor | dict[str, Any] | None = None,
        sequence_type: TypeProto.Sequence | dict[str, Any] | None = None,
        map_type: TypeProto.Map | dict[str, Any] | None = None,
        optional_type: TypeProto.Optional | dict[str, Any] | None = None,
        sparse_tensor_type: TypeProto.SparseTensor | dict[str, Any] | None = None,
        opaque_type: TypeProto.Opaque | dict[str, Any] | None = None,
        struct_type: StructTypeProto | dict[str, Any] | None = None,
        denotation: str | bytes | None = None,
    ) -> Self: ...
    @overload
    def HasField(
        self,
        field_name: Literal[
            "tensor_type",
            "sequence_type",
            "map_type",
            "optional_type",
            "sparse_tensor_type",
            "opaque_type",
            "struct_type",
            "denotation",
            "value",
        ],
    ) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(
        self,
        field_name: Literal[
            "tensor_type",
            "sequence_type",
            "map_type",
            "optional_type",
            "sparse_tensor_type",
            "opaque_type",
            "struct_type",
            "denotation",
            "value",
        ],
    ) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @overload
    def WhichOneof(
        self,
        oneof_group: Literal["value"],
    ) -> (
        Literal[
            "tensor_type",
            "sequence_type",
            "map_type",
            "optional_type",
            "sparse_tensor_type",
            "opaque_type",
            "struct_type",
        ]
        | None
    ): ...
    @overload
    def WhichOneof(self, oneof_group: str | bytes) -> str | None: ...
    @property
    def tensor_type(self) -> TypeProto.Tensor: ...
    def has_tensor_type(self) -> bool:
        """Tell whether `tensor_type` is set."""
    def add_tensor_type(self) -> TypeProto.Tensor:
        """Set `tensor_type` to an empty message and give it."""
    @property
    def sequence_type(self) -> TypeProto.Sequence: ...
    def has_sequence_type(self) -> bool:
        """Tell whether `sequence_type` is set."""
    def add_sequence_type(self) -> TypeProto.Sequence:
        """Set `sequence_type` to an empty message and give it."""
    @property
    def map_type(self) -> TypeProto.Map: ...
    def has_map_type(self) -> bool:
        """Tell whether `map_type` is set."""
    def add_map_type(self) -> TypeProto.Map:
        """Set `map_type` to an empty message and give it."""
    @property
    def optional_type(self) -> TypeProto.Optional: ...
    def has_optional_type(self) -> bool:
        """Tell whether `optional_type` is set."""
    def add_optional_type(self) -> TypeProto.Optional:
        """Set `optional_type` to an empty message and give it."""
    @property
    def sparse_tensor_type(self) -> TypeProto.SparseTensor: ...
    def has_sparse_tensor_type(self) -> bool:
        """Tell whether `sparse_tensor_type` is set."""
    def add_sparse_tensor_type(self) -> TypeProto.SparseTensor:
        """Set `sparse_tensor_type` to an empty message and give it."""
    @property
    def opaque_type(self) -> TypeProto.Opaque: ...
    def has_opaque_type(self) -> bool:
        """Tell whether `opaque_type` is set."""
    def add_opaque_type(self) -> TypeProto.Opaque:
        """Set `opaque_type` to an empty message and give it."""
    @property
    def struct_type(self) -> StructTypeProto:
        """Extension. A structured type; without a kind it stands for any of them."""
    def has_struct_type(self) -> bool:
        """Tell whether `struct_type` is set."""
    def add_struct_type(self) -> StructTypeProto:
        """Set `struct_type` to an empty message and give it."""
    @property
    def denotation(self) -> str: ...
    @denotation.setter
    def denotation(self, value: str | bytes) -> None: ...
    def has_denotation(self) -> bool:
        """Tell whether `denotation` is set."""

@final
class SequenceProto(Message):
    """A list of values of one kind."""

    DESCRIPTOR: Descriptor
    DataType: EnumTypeWrapper
    UNDEFINED: int
    TENSOR: int
    SPARSE_TENSOR: int
    SEQUENCE: int
    MAP: int
    OPTIONAL: int
    NAME_FIELD_NUMBER: int
    ELEM_TYPE_FIELD_NUMBER: int
    TENSOR_VALUES_FIELD_NUMBER: int
    SPARSE_TENSOR_VALUES_FIELD_NUMBER: int
    SEQUENCE_VALUES_FIELD_NUMBER: int
    MAP_VALUES_FIELD_NUMBER: int
    OPTIONAL_VALUES_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        name: str | bytes | None = None,
        elem_type: int | None = None,
        tensor_values: Iterable[TensorProto | dict[str, Any]] | None = None,
        sparse_tensor_values: Iterable[SparseTensorProto | dict[str, Any]] | None = None,
        sequence_values: Iterable[SequenceProto | dict[str, Any]] | None = None,
        map_values: Iterable[MapProto | dict[str, Any]] | None = None,
        optional_values: Iterable[OptionalProto | dict[str, Any]] | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["name", "elem_type"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(
        self,
        field_name: Literal[
            "name",
            "elem_type",
            "tensor_values",
            "sparse_tensor_values",
            "sequence_values",
            "map_values",
            "optional_values",
        ],
    ) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def name(self) -> str: ...
    @name.setter
    def name(self, value: str | bytes) -> None: ...
    def has_name(self) -> bool:
        """Tell whether `name` is set."""
    @property
    def elem_type(self) -> int:
        """A `DataType`."""
    @elem_type.setter
    def elem_type(self, value: int) -> None: ...
    def has_elem_type(self) -> bool:
        """Tell whether `elem_type` is set."""
    @property
    def tensor_values(self) -> RepeatedComposite[TensorProto]: ...
    def has_tensor_values(self) -> bool:
        """Tell whether `tensor_values` has elements."""
    @property
    def sparse_tensor_values(self) -> RepeatedComposite[SparseTensorProto]: ...
    def has_sparse_tensor_values(self) -> bool:
        """Tell whether `sparse_tensor_values` has elements."""
    @property
    def sequence_values(self) -> RepeatedComposite[SequenceProto]: ...
    def has_sequence_values(self) -> bool:
        """Tell whether `sequence_values` has elements."""
    @property
    def map_values(self) -> RepeatedComposite[MapProto]: ...
    def has_map_values(self) -> bool:
        """Tell whether `map_values` has elements."""
    @property
    def optional_values(self) -> RepeatedComposite[OptionalProto]: ...
    def has_optional_values(self) -> bool:
        """Tell whether `optional_values` has elements."""

@final
class MapProto(Message):
    """Values by key: the keys in one list, the values in another of the same length."""

    DESCRIPTOR: Descriptor
    NAME_FIELD_NUMBER: int
    KEY_TYPE_FIELD_NUMBER: int
    KEYS_FIELD_NUMBER: int
    STRING_KEYS_FIELD_NUMBER: int
    VALUES_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        name: str | bytes | None = None,
        key_type: int | None = None,
        keys: Iterable[int] | None = None,
        string_keys: Iterable[bytes] | None = None,
        values: SequenceProto | dict[str, Any] | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["name", "key_type", "values"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(self, field_name: Literal["name", "key_type", "keys", "string_keys", "values"]) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def name(self) -> str: ...
    @name.setter
    def name(self, value: str | bytes) -> None: ...
    def has_name(self) -> bool:
        """Tell whether `name` is set."""
    @property
    def key_type(self) -> int:
        """A `TensorProto.DataType`: an integer type or STRING."""
    @key_type.setter
    def key_type(self, value: int) -> None: ...
    def has_key_type(self) -> bool:
        """Tell whether `key_type` is set."""
    @property
    def keys(self) -> RepeatedScalar[int]: ...
    def has_keys(self) -> bool:
        """Tell whether `keys` has elements."""
    @property
    def string_keys(self) -> RepeatedScalar[bytes]: ...
    def has_string_keys(self) -> bool:
        """Tell whether `string_keys` has elements."""
    @property
    def values(self) -> SequenceProto: ...
    def has_values(self) -> bool:
        """Tell whether `values` is set."""
    def add_values(self) -> SequenceProto:
        """Set `values` to an empty message and give it."""

@final
class OptionalProto(Message):
    """A value, or none."""

    DESCRIPTOR: Descriptor
    DataType: EnumTypeWrapper
    UNDEFINED: int
    TENSOR: int
    SPARSE_TENSOR: int
    SEQUENCE: int
    MAP: int
    OPTIONAL: int
    NAME_FIELD_NUMBER: int
    ELEM_TYPE_FIELD_NUMBER: int
    TENSOR_VALUE_FIELD_NUMBER: int
    SPARSE_TENSOR_VALUE_FIELD_NUMBER: int
    SEQUENCE_VALUE_FIELD_NUMBER: int
    MAP_VALUE_FIELD_NUMBER: int
    OPTIONAL_VALUE_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        name: str | bytes | None = None,
        elem_type: int | None = None,
        tensor_value: TensorProto | dict[str, Any] | None = None,
        sparse_tensor_value: SparseTensorProto | dict[str, Any] | None = None,
        sequence_value: SequenceProto | dict[str, Any] | None = None,
        map_value: MapProto | dict[str, Any] | None = None,
        optional_value: OptionalProto | dict[str, Any] | None = None,
    ) -> Self: ...
    @overload
    def HasField(
        self,
        field_name: Literal[
            "name",
            "elem_type",
            "tensor_value",
            "sparse_tensor_value",
            "sequence_value",
            "map_value",
            "optional_value",
        ],
    ) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(
        self,
        field_name: Literal[
            "name",
            "elem_type",
            "tensor_value",
            "sparse_tensor_value",
            "sequence_value",
            "map_value",
            "optional_value",
        ],
    ) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def name(self) -> str: ...
    @name.setter
    def name(self, value: str | bytes) -> None: ...
    def has_name(self) -> bool:
        """Tell whether `name` is set."""
    @property
    def elem_type(self) -> int:
        """A `DataType`."""
    @elem_type.setter
    def elem_type(self, value: int) -> None: ...
    def has_elem_type(self) -> bool:
        """Tell whether `elem_type` is set."""
    @property
    def tensor_value(self) -> TensorProto: ...
    def has_tensor_value(self) -> bool:
        """Tell whether `tensor_value` is set."""
    def add_tensor_value(self) -> TensorProto:
        """Set `tensor_value` to an empty message and give it."""
    @property
    def sparse_tensor_value(self) -> SparseTensorProto: ...
    def has_sparse_tensor_value(self) -> bool:
        """Tell whether `sparse_tensor_value` is set."""
    def add_sparse_tensor_value(self) -> SparseTensorProto:
        """Set `sparse_tensor_value` to an empty message and give it."""
    @property
    def sequence_value(self) -> SequenceProto: ...
    def has_sequence_value(self) -> bool:
        """Tell whether `sequence_value` is set."""
    def add_sequence_value(self) -> SequenceProto:
        """Set `sequence_value` to an empty message and give it."""
    @property
    def map_value(self) -> MapProto: ...
    def has_map_value(self) -> bool:
        """Tell whether `map_value` is set."""
    def add_map_value(self) -> MapProto:
        """Set `map_value` to an empty message and give it."""
    @property
    def optional_value(self) -> OptionalProto: ...
    def has_optional_value(self) -> bool:
        """Tell whether `optional_value` is set."""
    def add_optional_value(self) -> OptionalProto:
        """Set `optional_value` to an empty message and give it."""

@final
class OperatorProto(Message):
    """One operator."""

    DESCRIPTOR: Descriptor
    OP_TYPE_FIELD_NUMBER: int
    SINCE_VERSION_FIELD_NUMBER: int
    STATUS_FIELD_NUMBER: int
    DOC_STRING_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        op_type: str | bytes | None = None,
        since_version: int | None = None,
        status: int | str | None = None,
        doc_string: str | bytes | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["op_type", "since_version", "status", "doc_string"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(self, field_name: Literal["op_type", "since_version", "status", "doc_string"]) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def op_type(self) -> str: ...
    @op_type.setter
    def op_type(self, value: str | bytes) -> None: ...
    def has_op_type(self) -> bool:
        """Tell whether `op_type` is set."""
    @property
    def since_version(self) -> int: ...
    @since_version.setter
    def since_version(self, value: int) -> None: ...
    def has_since_version(self) -> bool:
        """Tell whether `since_version` is set."""
    @property
    def status(self) -> int: ...
    @status.setter
    def status(self, value: int | str) -> None: ...
    def has_status(self) -> bool:
        """Tell whether `status` is set."""
    @property
    def doc_string(self) -> str: ...
    @doc_string.setter
    def doc_string(self, value: str | bytes) -> None: ...
    def has_doc_string(self) -> bool:
        """Tell whether `doc_string` is set."""

@final
class OperatorSetProto(Message):
    """The operators of one domain at one version."""

    DESCRIPTOR: Descriptor
    MAGIC_FIELD_NUMBER: int
    IR_VERSION_FIELD_NUMBER: int
    IR_VERSION_PRERELEASE_FIELD_NUMBER: int
    IR_BUILD_METADATA_FIELD_NUMBER: int
    DOMAIN_FIELD_NUMBER: int
    OPSET_VERSION_FIELD_NUMBER: int
    DOC_STRING_FIELD_NUMBER: int
    OPERATOR_FIELD_NUMBER: int
    FUNCTIONS_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        magic: str | bytes | None = None,
        ir_version: int | None = None,
        ir_version_prerelease: str | bytes | None = None,
        ir_build_metadata: str | bytes | None = None,
        domain: str | bytes | None = None,
        opset_version: int | None = None,
        doc_string: str | bytes | None = None,
        operator: Iterable[OperatorProto | dict[str, Any]] | None = None,
        functions: Iterable[FunctionProto | dict[str, Any]] | None = None,
    ) -> Self: ...
    @overload
    def HasField(
        self,
        field_name: Literal[
            "magic",
            "ir_version",
            "ir_version_prerelease",
            "ir_build_metadata",
            "domain",
            "opset_version",
            "doc_string",
        ],
    ) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(
        self,
        field_name: Literal[
            "magic",
            "ir_version",
            "ir_version_prerelease",
            "ir_build_metadata",
            "domain",
            "opset_version",
            "doc_string",
            "operator",
            "functions",
        ],
    ) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def magic(self) -> str: ...
    @magic.setter
    def magic(self, value: str | bytes) -> None: ...
    def has_magic(self) -> bool:
        """Tell whether `magic` is set."""
    @property
    def ir_version(self) -> int: ...
    @ir_version.setter
    def ir_version(self, value: int) -> None: ...
    def has_ir_version(self) -> bool:
        """Tell whether `ir_version` is set."""
    @property
    def ir_version_prerelease(self) -> str: ...
    @ir_version_prerelease.setter
    def ir_version_prerelease(self, value: str | bytes) -> None: ...
    def has_ir_version_prerelease(self) -> bool:
        """Tell whether `ir_version_prerelease` is set."""
    @property
    def ir_build_metadata(self) -> str: ...
    @ir_build_metadata.setter
    def ir_build_metadata(self, value: str | bytes) -> None: ...
    def has_ir_build_metadata(self) -> bool:
        """Tell whether `ir_build_metadata` is set."""
    @property
    def domain(self) -> str: ...
    @domain.setter
    def domain(self, value: str | bytes) -> None: ...
    def has_domain(self) -> bool:
        """Tell whether `domain` is set."""
    @property
    def opset_version(self) -> int: ...
    @opset_version.setter
    def opset_version(self, value: int) -> None: ...
    def has_opset_version(self) -> bool:
        """Tell whether `opset_version` is set."""
    @property
    def doc_string(self) -> str: ...
    @doc_string.setter
    def doc_string(self, value: str | bytes) -> None: ...
    def has_doc_string(self) -> bool:
        """Tell whether `doc_string` is set."""
    @property
    def operator(self) -> RepeatedComposite[OperatorProto]: ...
    def has_operator(self) -> bool:
        """Tell whether `operator` has elements."""
    @property
    def functions(self) -> RepeatedComposite[FunctionProto]: ...
    def has_functions(self) -> bool:
        """Tell whether `functions` has elements."""

@final
class PersistentBindingProto(Message):
    """After a call, the value of graph output `output_name` becomes graph input `input_name` of the next call."""

    DESCRIPTOR: Descriptor
    INPUT_NAME_FIELD_NUMBER: int
    OUTPUT_NAME_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        input_name: str | bytes | None = None,
        output_name: str | bytes | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["input_name", "output_name"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(self, field_name: Literal["input_name", "output_name"]) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def input_name(self) -> str: ...
    @input_name.setter
    def input_name(self, value: str | bytes) -> None: ...
    def has_input_name(self) -> bool:
        """Tell whether `input_name` is set."""
    @property
    def output_name(self) -> str: ...
    @output_name.setter
    def output_name(self, value: str | bytes) -> None: ...
    def has_output_name(self) -> bool:
        """Tell whether `output_name` is set."""

@final
class PagedCacheProto(Message):
    """A cache of keys and values in pages."""

    DESCRIPTOR: Descriptor
    BLOCKS_FIELD_NUMBER: int
    NAME_FIELD_NUMBER: int
    DOC_STRING_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        blocks: Iterable[PagedCacheBlockProto | dict[str, Any]] | None = None,
        name: str | bytes | None = None,
        doc_string: str | bytes | None = None,
    ) -> Self: ...
    @overload
    def HasField(self, field_name: Literal["name", "doc_string"]) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(self, field_name: Literal["blocks", "name", "doc_string"]) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def blocks(self) -> RepeatedComposite[PagedCacheBlockProto]:
        """Pages in the order of their positions."""
    def has_blocks(self) -> bool:
        """Tell whether `blocks` has elements."""
    @property
    def name(self) -> str:
        """The initializer's name in its graph, unique among initializers of all kinds."""
    @name.setter
    def name(self, value: str | bytes) -> None: ...
    def has_name(self) -> bool:
        """Tell whether `name` is set."""
    @property
    def doc_string(self) -> str:
        """What people should know of it."""
    @doc_string.setter
    def doc_string(self, value: str | bytes) -> None: ...
    def has_doc_string(self) -> bool:
        """Tell whether `doc_string` is set."""

@final
class PagedCacheBlockProto(Message):
    """One page: `length` positions from `start` on. Both numbers must be present."""

    DESCRIPTOR: Descriptor
    START_FIELD_NUMBER: int
    LENGTH_FIELD_NUMBER: int
    KEY_FIELD_NUMBER: int
    ENCODED_KEY_FIELD_NUMBER: int
    VALUE_FIELD_NUMBER: int
    ENCODED_VALUE_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        start: int | None = None,
        length: int | None = None,
        key: TensorProto | dict[str, Any] | None = None,
        encoded_key: EncodedValueProto | dict[str, Any] | None = None,
        value: TensorProto | dict[str, Any] | None = None,
        encoded_value: EncodedValueProto | dict[str, Any] | None = None,
    ) -> Self: ...
    @overload
    def HasField(
        self,
        field_name: Literal[
            "start",
            "length",
            "key",
            "encoded_key",
            "value",
            "encoded_value",
            "key_payload",
            "value_payload",
        ],
    ) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(
        self,
        field_name: Literal[
            "start",
            "length",
            "key",
            "encoded_key",
            "value",
            "encoded_value",
            "key_payload",
            "value_payload",
        ],
    ) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @overload
    def WhichOneof(self, oneof_group: Literal["key_payload"]) -> Literal["key", "encoded_key"] | None: ...
    @overload
    def WhichOneof(self, oneof_group: Literal["value_payload"]) -> Literal["value", "encoded_value"] | None: ...
    @overload
    def WhichOneof(self, oneof_group: str | bytes) -> str | None: ...
    @property
    def start(self) -> int:
        """Position of the page's first token."""
    @start.setter
    def start(self, value: int) -> None: ...
    def has_start(self) -> bool:
        """Tell whether `start` is set."""
    @property
    def length(self) -> int:
        """Number of tokens that are there: at least 1, at most the rows of the payloads."""
    @length.setter
    def length(self, value: int) -> None: ...
    def has_length(self) -> bool:
        """Tell whether `length` is set."""
    @property
    def key(self) -> TensorProto:
        """Dense keys, `[batch, heads, rows, width]`."""
    def has_key(self) -> bool:
        """Tell whether `key` is set."""
    def add_key(self) -> TensorProto:
        """Set `key` to an empty message and give it."""
    @property
    def encoded_key(self) -> EncodedValueProto:
        """Encoded keys."""
    def has_encoded_key(self) -> bool:
        """Tell whether `encoded_key` is set."""
    def add_encoded_key(self) -> EncodedValueProto:
        """Set `encoded_key` to an empty message and give it."""
    @property
    def value(self) -> TensorProto:
        """Dense values, `[batch, heads, rows, width]`."""
    def has_value(self) -> bool:
        """Tell whether `value` is set."""
    def add_value(self) -> TensorProto:
        """Set `value` to an empty message and give it."""
    @property
    def encoded_value(self) -> EncodedValueProto:
        """Encoded values."""
    def has_encoded_value(self) -> bool:
        """Tell whether `encoded_value` is set."""
    def add_encoded_value(self) -> EncodedValueProto:
        """Set `encoded_value` to an empty message and give it."""

@final
class EncodedValueProto(Message):
    """Bytes with the layout that decodes them."""

    DESCRIPTOR: Descriptor
    AFFINE_FIELD_NUMBER: int
    STRUCT_TYPE_FIELD_NUMBER: int
    LOGICAL_TYPE_FIELD_NUMBER: int
    RAW_DATA_FIELD_NUMBER: int
    EXTERNAL_DATA_FIELD_NUMBER: int
    DATA_LOCATION_FIELD_NUMBER: int
    NAME_FIELD_NUMBER: int
    DOC_STRING_FIELD_NUMBER: int
    PARAMETER_REF_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        affine: AffineLayoutProto | dict[str, Any] | None = None,
        struct_type: StructTypeProto | dict[str, Any] | None = None,
        logical_type: TypeProto | dict[str, Any] | None = None,
        raw_data: bytes | None = None,
        external_data: Iterable[StringStringEntryProto | dict[str, Any]] | None = None,
        data_location: int | str | None = None,
        name: str | bytes | None = None,
        doc_string: str | bytes | None = None,
        parameter_ref: str | bytes | None = None,
    ) -> Self: ...
    @overload
    def HasField(
        self,
        field_name: Literal[
            "affine",
            "struct_type",
            "logical_type",
            "raw_data",
            "data_location",
            "name",
            "doc_string",
            "parameter_ref",
            "layout",
        ],
    ) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(
        self,
        field_name: Literal[
            "affine",
            "struct_type",
            "logical_type",
            "raw_data",
            "external_data",
            "data_location",
            "name",
            "doc_string",
            "parameter_ref",
            "layout",
        ],
    ) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @overload
    def WhichOneof(self, oneof_group: Literal["layout"]) -> Literal["affine", "struct_type"] | None: ...
    @overload
    def WhichOneof(self, oneof_group: str | bytes) -> str | None: ...
    @property
    def affine(self) -> AffineLayoutProto: ...
    def has_affine(self) -> bool:
        """Tell whether `affine` is set."""
    def add_affine(self) -> AffineLayoutProto:
        """Set `affine` to an empty message and give it."""
    @property
    def struct_type(self) -> StructTypeProto: ...
    def has_struct_type(self) -> bool:
        """Tell whether `struct_type` is set."""
    def add_struct_type(self) -> StructTypeProto:
        """Set `struct_type` to an empty message and give it."""
    @property
    def logical_type(self) -> TypeProto:
        """Type of the decoded value."""
    def has_logical_type(self) -> bool:
        """Tell whether `logical_type` is set."""
    def add_logical_type(self) -> TypeProto:
        """Set `logical_type` to an empty message and give it."""
    @property
    def raw_data(self) -> bytes:
        """The encoded bytes. Present and empty means zero records."""
    @raw_data.setter
    def raw_data(self, value: bytes) -> None: ...
    def has_raw_data(self) -> bool:
        """Tell whether `raw_data` is set."""
    def raw_data_view(self) -> memoryview:
        """Give the bytes of `raw_data` where they lie."""
    @property
    def external_data(self) -> RepeatedComposite[StringStringEntryProto]: ...
    def has_external_data(self) -> bool:
        """Tell whether `external_data` has elements."""
    @property
    def data_location(self) -> int: ...
    @data_location.setter
    def data_location(self, value: int | str) -> None: ...
    def has_data_location(self) -> bool:
        """Tell whether `data_location` is set."""
    @property
    def name(self) -> str: ...
    @name.setter
    def name(self, value: str | bytes) -> None: ...
    def has_name(self) -> bool:
        """Tell whether `name` is set."""
    @property
    def doc_string(self) -> str: ...
    @doc_string.setter
    def doc_string(self, value: str | bytes) -> None: ...
    def has_doc_string(self) -> bool:
        """Tell whether `doc_string` is set."""
    @property
    def parameter_ref(self) -> str:
        """Name of a set of quantisation parameters that the model shares."""
    @parameter_ref.setter
    def parameter_ref(self, value: str | bytes) -> None: ...
    def has_parameter_ref(self) -> bool:
        """Tell whether `parameter_ref` is set."""

@final
class AffineLayoutProto(Message):
    """Integer codes that stand for `(code - zero_point) * scale`."""

    DESCRIPTOR: Descriptor
    STORAGE_TYPE_FIELD_NUMBER: int
    SCALE_FIELD_NUMBER: int
    ZERO_POINT_FIELD_NUMBER: int
    AXIS_FIELD_NUMBER: int
    BLOCK_SIZE_FIELD_NUMBER: int
    SIGNED_STORAGE_FIELD_NUMBER: int
    def __new__(
        cls,
        *,
        storage_type: int | str | None = None,
        scale: TensorProto | dict[str, Any] | None = None,
        zero_point: TensorProto | dict[str, Any] | None = None,
        axis: int | None = None,
        block_size: int | None = None,
        signed_storage: bool | None = None,
    ) -> Self: ...
    @overload
    def HasField(
        self,
        field_name: Literal[
            "storage_type",
            "scale",
            "zero_point",
            "axis",
            "block_size",
            "signed_storage",
        ],
    ) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(
        self,
        field_name: Literal[
            "storage_type",
            "scale",
            "zero_point",
            "axis",
            "block_size",
            "signed_storage",
        ],
    ) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @property
    def storage_type(self) -> int: ...
    @storage_type.setter
    def storage_type(self, value: int | str) -> None: ...
    def has_storage_type(self) -> bool:
        """Tell whether `storage_type` is set."""
    @property
    def scale(self) -> TensorProto: ...
    def has_scale(self) -> bool:
        """Tell whether `scale` is set."""
    def add_scale(self) -> TensorProto:
        """Set `scale` to an empty message and give it."""
    @property
    def zero_point(self) -> TensorProto:
        """Of the storage type and the shape of `scale`; absent means 0."""
    def has_zero_point(self) -> bool:
        """Tell whether `zero_point` is set."""
    def add_zero_point(self) -> TensorProto:
        """Set `zero_point` to an empty message and give it."""
    @property
    def axis(self) -> int:
        """Axis along which the parameters change; absent means one scale for the whole tensor."""
    @axis.setter
    def axis(self, value: int) -> None: ...
    def has_axis(self) -> bool:
        """Tell whether `axis` is set."""
    @property
    def block_size(self) -> int:
        """Elements along `axis` that share parameters."""
    @block_size.setter
    def block_size(self, value: int) -> None: ...
    def has_block_size(self) -> bool:
        """Tell whether `block_size` is set."""
    @property
    def signed_storage(self) -> bool:
        """Instead of `storage_type`: signed or unsigned codes whose width follows from the payload size."""
    @signed_storage.setter
    def signed_storage(self, value: bool) -> None: ...
    def has_signed_storage(self) -> bool:
        """Tell whether `signed_storage` is set."""

@final
class StructTypeProto(Message):
    """A type whose values are made of parts, with tight bit packing."""

    DESCRIPTOR: Descriptor
    ARRAY_FIELD_NUMBER: int
    STRUCTURE_FIELD_NUMBER: int
    BIT_PACKING_FIELD_NUMBER: int
    TYPE_REF_FIELD_NUMBER: int
    DECODER_FIELD_NUMBER: int
    ENCODER_FIELD_NUMBER: int
    NAME_FIELD_NUMBER: int
    DOC_STRING_FIELD_NUMBER: int
    METADATA_PROPS_FIELD_NUMBER: int
    TYPE_ID_FIELD_NUMBER: int

    @final
    class Array(Message):
        """`dimension` elements of one type."""

        DESCRIPTOR: Descriptor
        ELEMENT_TYPE_FIELD_NUMBER: int
        DIMENSION_FIELD_NUMBER: int
        def __new__(
            cls,
            *,
            element_type: TypeProto | dict[str, Any] | None = None,
            dimension: int | None = None,
        ) -> Self: ...
        @overload
        def HasField(self, field_name: Literal["element_type", "dimension"]) -> bool: ...
        @overload
        def HasField(self, field_name: str | bytes) -> bool: ...
        @overload
        def ClearField(self, field_name: Literal["element_type", "dimension"]) -> None: ...
        @overload
        def ClearField(self, field_name: str | bytes) -> None: ...
        @property
        def element_type(self) -> TypeProto: ...
        def has_element_type(self) -> bool:
            """Tell whether `element_type` is set."""
        def add_element_type(self) -> TypeProto:
            """Set `element_type` to an empty message and give it."""
        @property
        def dimension(self) -> int: ...
        @dimension.setter
        def dimension(self, value: int) -> None: ...
        def has_dimension(self) -> bool:
            """Tell whether `dimension` is set."""

    @final
    class Structure(Message):
        """Named fields in order."""

        DESCRIPTOR: Descriptor
        FIELD_FIELD_NUMBER: int

        @final
        class Field(Message):
            DESCRIPTOR: Descriptor
            NAME_FIELD_NUMBER: int
            TYPE_FIELD_NUMBER: int
            CONSTANT_FIELD_NUMBER: int
            DOC_STRING_FIELD_NUMBER: int
            def __new__(
                cls,
                *,
                name: str | bytes | None = None,
                type: TypeProto | dict[str, Any] | None = None,
                constant: TensorProto | dict[str, Any] | None = None,
                doc_string: str | bytes | None = None,
            ) -> Self: ...
            @overload
            def HasField(self, field_name: Literal["name", "type", "constant", "doc_string", "content"]) -> bool: ...
            @overload
            def HasField(self, field_name: str | bytes) -> bool: ...
            @overload
            def ClearField(self, field_name: Literal["name", "type", "constant", "doc_string", "content"]) -> None: ...
            @overload
            def ClearField(self, field_name: str | bytes) -> None: ...
            @overload
            def WhichOneof(self, oneof_group: Literal["content"]) -> Literal["type", "constant"] | None: ...
            @overload
            def WhichOneof(self, oneof_group: str | bytes) -> str | None: ...
            @property
            def name(self) -> str: ...
            @name.setter
            def name(self, value: str | bytes) -> None: ...
            def has_name(self) -> bool:
                """Tell whether `name` is set."""
            @property
            def type(self) -> TypeProto:
                """A field that each record stores."""
            def has_type(self) -> bool:
                """Tell whether `type` is set."""
            def add_type(self) -> TypeProto:
                """Set `type` to an empty message and give it."""
            @property
            def constant(self) -> TensorProto:
                """A field with the same value in every record; records do not store it."""
            def has_constant(self) -> bool:
                """Tell whether `constant` is set."""
            def add_constant(self) -> TensorProto:
                """Set `constant` to an empty message and give it."""
            @property
            def doc_string(self) -> str: ...
            @doc_string.setter
            def doc_string(self, value: str | bytes) -> None: ...
            def has_doc_string(self) -> bool:
                """Tell whether `doc_string` is set."""

        def __new__(
            cls,
            *,
            field: Iterable[StructTypeProto.Structure.Field | dict[str, Any]] | None = None,
        ) -> Self: ...
        @overload
        def ClearField(self, field_name: Literal["field"]) -> None: ...
        @overload
        def ClearField(self, field_name: str | bytes) -> None: ...
        @property
        def field(self) -> RepeatedComposite[StructTypeProto.Structure.Field]: ...
        def has_field(self) -> bool:
            """Tell whether `field` has elements."""

    @final
    class BitPacking(Message):
        """`dimension` groups of unsigned integers, packed from the least significant bit on."""

        DESCRIPTOR: Descriptor
        COMPONENT_FIELD_NUMBER: int
        DIMENSION_FIELD_NUMBER: int

        @final
        class Component(Message):
            DESCRIPTOR: Descriptor
            NAME_FIELD_NUMBER: int
            BIT_WIDTH_FIELD_NUMBER: int
            def __new__(
                cls,
                *,
                name: str | bytes | None = None,
                bit_width: int | None = None,
            ) -> Self: ...
            @overload
            def HasField(self, field_name: Literal["name", "bit_width"]) -> bool: ...
            @overload
            def HasField(self, field_name: str | bytes) -> bool: ...
            @overload
            def ClearField(self, field_name: Literal["name", "bit_width"]) -> None: ...
            @overload
            def ClearField(self, field_name: str | bytes) -> None: ...
            @property
            def name(self) -> str: ...
            @name.setter
            def name(self, value: str | bytes) -> None: ...
            def has_name(self) -> bool:
                """Tell whether `name` is set."""
            @property
            def bit_width(self) -> int: ...
            @bit_width.setter
            def bit_width(self, value: int) -> None: ...
            def has_bit_width(self) -> bool:
                """Tell whether `bit_width` is set."""

        def __new__(
            cls,
            *,
            component: Iterable[StructTypeProto.BitPacking.Component | dict[str, Any]] | None = None,
            dimension: int | None = None,
        ) -> Self: ...
        @overload
        def HasField(self, field_name: Literal["dimension"]) -> bool: ...
        @overload
        def HasField(self, field_name: str | bytes) -> bool: ...
        @overload
        def ClearField(self, field_name: Literal["component", "dimension"]) -> None: ...
        @overload
        def ClearField(self, field_name: str | bytes) -> None: ...
        @property
        def component(self) -> RepeatedComposite[StructTypeProto.BitPacking.Component]: ...
        def has_component(self) -> bool:
            """Tell whether `component` has elements."""
        @property
        def dimension(self) -> int: ...
        @dimension.setter
        def dimension(self, value: int) -> None: ...
        def has_dimension(self) -> bool:
            """Tell whether `dimension` is set."""

    def __new__(
        cls,
        *,
        array: StructTypeProto.Array | dict[str, Any] | None = None,
        structure: StructTypeProto.Structure | dict[str, Any] | None = None,
        bit_packing: StructTypeProto.BitPacking | dict[str, Any] | None = None,
        type_ref: int | None = None,
        decoder: FunctionProto | dict[str, Any] | None = None,
        encoder: FunctionProto | dict[str, Any] | None = None,
        name: str | bytes | None = None,
        doc_string: str | bytes | None = None,
        metadata_props: Iterable[StringStringEntryProto | dict[str, Any]] | None = None,
        type_id: int | None = None,
    ) -> Self: ...
    @overload
    def HasField(
        self,
        field_name: Literal[
            "array",
            "structure",
            "bit_packing",
            "type_ref",
            "decoder",
            "encoder",
            "name",
            "doc_string",
            "type_id",
            "kind",
        ],
    ) -> bool: ...
    @overload
    def HasField(self, field_name: str | bytes) -> bool: ...
    @overload
    def ClearField(
        self,
        field_name: Literal[
            "array",
            "structure",
            "bit_packing",
            "type_ref",
            "decoder",
            "encoder",
            "name",
            "doc_string",
            "metadata_props",
            "type_id",
            "kind",
        ],
    ) -> None: ...
    @overload
    def ClearField(self, field_name: str | bytes) -> None: ...
    @overload
    def WhichOneof(
        self,
        oneof_group: Literal["kind"],
    ) -> Literal["array", "structure", "bit_packing", "type_ref"] | None: ...
    @overload
    def WhichOneof(self, oneof_group: str | bytes) -> str | None: ...
    @property
    def array(self) -> StructTypeProto.Array: ...
    def has_array(self) -> bool:
        """Tell whether `array` is set."""
    def add_array(self) -> StructTypeProto.Array:
        """Set `array` to an empty message and give it."""
    @property
    def structure(self) -> StructTypeProto.Structure: ...
    def has_structure(self) -> bool:
        """Tell whether `structure` is set."""
    def add_structure(self) -> StructTypeProto.Structure:
        """Set `structure` to an empty message and give it."""
    @property
    def bit_packing(self) -> StructTypeProto.BitPacking: ...
    def has_bit_packing(self) -> bool:
        """Tell whether `bit_packing` is set."""
    def add_bit_packing(self) -> StructTypeProto.BitPacking:
        """Set `bit_packing` to an empty message and give it."""
    @property
    def type_ref(self) -> int:
        """`type_id` of an entry of the model's catalogue."""
    @type_ref.setter
    def type_ref(self, value: int) -> None: ...
    def has_type_ref(self) -> bool:
        """Tell whether `type_ref` is set."""
    @property
    def decoder(self) -> FunctionProto: ...
    def has_decoder(self) -> bool:
        """Tell whether `decoder` is set."""
    def add_decoder(self) -> FunctionProto:
        """Set `decoder` to an empty message and give it."""
    @property
    def encoder(self) -> FunctionProto: ...
    def has_encoder(self) -> bool:
        """Tell whether `encoder` is set."""
    def add_encoder(self) -> FunctionProto:
        """Set `encoder` to an empty message and give it."""
    @property
    def name(self) -> str: ...
    @name.setter
    def name(self, value: str | bytes) -> None: ...
    def has_name(self) -> bool:
        """Tell whether `name` is set."""
    @property
    def doc_string(self) -> str: ...
    @doc_string.setter
    def doc_string(self, value: str | bytes) -> None: ...
    def has_doc_string(self) -> bool:
        """Tell whether `doc_string` is set."""
    @property
    def metadata_props(self) -> RepeatedComposite[StringStringEntryProto]: ...
    def has_metadata_props(self) -> bool:
        """Tell whether `metadata_props` has elements."""
    @property
    def type_id(self) -> int:
        """Nonzero identity, in entries of the catalogue only."""
    @type_id.setter
    def type_id(self, value: int) -> None: ...
    def has_type_id(self) -> bool:
        """Tell whether `type_id` is set."""

Version: EnumTypeWrapper
IR_VERSION_2017_10_10: int
IR_VERSION_2017_10_30: int
IR_VERSION_2017_11_3: int
IR_VERSION_2019_1_22: int
IR_VERSION_2019_3_18: int
IR_VERSION_2019_9_19: int
IR_VERSION_2020_5_8: int
IR_VERSION_2021_7_30: int
IR_VERSION_2023_5_5: int
IR_VERSION_2024_3_25: int
IR_VERSION_2025_05_12: int
IR_VERSION_2025_08_26: int
IR_VERSION_2025_11_06: int
IR_VERSION: int
OperatorStatus: EnumTypeWrapper
EXPERIMENTAL: int
STABLE: int
