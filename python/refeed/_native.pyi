"""Types of the native module. Import from `refeed` and `refeed.runtime`; this module is private."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, Self, TypeAlias, final, overload

import numpy as np
from typing_extensions import Buffer, CapsuleType, disjoint_base

from refeed.onnx.messages import (
    AttributeProto,
    EncodedValueProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    PagedCacheProto,
    PersistentBindingProto,
    SparseTensorProto,
    StructTypeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)
from refeed.runtime import RuntimeEventAction, TaskStatus

__all__ = [
    "AppendReservation",
    "AttentionForm",
    "BindReport",
    "Binding",
    "BindingReport",
    "BoundPair",
    "Checkpoint",
    "ExecutionArena",
    "Explanation",
    "GeneratedToken",
    "Generation",
    "GenerationOptions",
    "Generator",
    "IOArena",
    "KernelContext",
    "KernelInvocation",
    "Model",
    "OperatorUse",
    "OpsetId",
    "PageFormat",
    "PagedAttention",
    "PagedStatistics",
    "PersistentValueState",
    "RawBufferAllocator",
    "RuntimeContext",
    "RuntimeEvent",
    "RuntimeSession",
    "RuntimeSessionOptions",
    "SharedQuantizedValue",
    "SimpleRawBufferAllocator",
    "TaskCompletion",
    "Tensor",
    "TokenStream",
    "ValueInfo",
    "__version__",
    "add_quantization_parameters",
    "bind",
    "check_paged_cache",
    "clear_custom_kernels",
    "default_opset",
    "dequantize_tensor",
    "empty_caches",
    "generate",
    "known_schemes",
    "load",
    "make_affine_quantization_type",
    "make_shared_quantization_type",
    "materialize_quantized_value",
    "quantize_tensor_shared",
    "register_custom_kernel",
    "register_paged_attention",
    "tensor_from_numpy",
    "tensor_from_proto",
    "tensor_to_numpy",
    "tensor_to_proto",
    "unregister_custom_kernel",
]

class _OnnxModel(Protocol):
    """An official `onnx.ModelProto`."""

    @property
    def graph(self) -> Any: ...
    def SerializeToString(self) -> bytes: ...

class _DlpackProducer(Protocol):
    """An array of another library, on the CPU."""

    def __dlpack__(self) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, int]: ...

_ModelLike: TypeAlias = Model | _OnnxModel | bytes | bytearray | memoryview | str | os.PathLike[str]
_TensorLike: TypeAlias = Tensor | np.ndarray[Any, Any] | np.generic | _DlpackProducer | Buffer
# A struct is a dict, a sequence a list, of such values. Results are values of the kinds that the model declares.
_Value: TypeAlias = (
    _TensorLike | StringTensor | SharedQuantizedValue | EncodedValueProto | PagedCacheProto | dict[str, Any] | list[Any]
)
_Publish: TypeAlias = Literal["always", "once", "if_present"]
_Uses: TypeAlias = Literal["one", "any"]
_Kernel: TypeAlias = Callable[[NodeProto, KernelInvocation], Any]
_AppendReuse: TypeAlias = Literal["always", "exclusive"]

__version__: str

# The messages, and functions on them; `refeed.onnx` has their types.
_onnx: Any

def load(model: _ModelLike, *, mmap: bool = True) -> Model:
    """Read and validate a model.

    Parameters
    ----------
    model : str, os.PathLike, bytes-like, onnx.ModelProto or Model
        A path reads the file and finds external data in the file's folder. Bytes and messages have no folder. `bytes`
        are shared, not copied; an official message is serialised once.
    mmap : bool
        Map files (the default) or read them into memory. A mapped file must not be changed while the model is in use.

    Returns
    -------
    Model

    Raises
    ------
    ModelError
        When the bytes are no model or the model is broken.
    OSError
        When a file cannot be read: `FileNotFoundError`, `PermissionError`, ...
    TypeError
        When `model` is none of the accepted kinds.
    """

def bind(
    model: _ModelLike,
    pairs: Iterable[tuple[str, str]] | Mapping[str, str] | None = None,
    patterns: str | Sequence[str] | None = None,
    *,
    uses: _Uses | None = None,
    publish: _Publish | Mapping[str, _Publish] | None = None,
) -> tuple[Model, BindReport]:
    """Write persistent bindings into a model's graph. Nothing is guessed, and what is ambiguous is an error.

    Parameters
    ----------
    model : model-like
        As for `load`. Bindings that its graph has stay. It is not changed.
    pairs : iterable of (input, output), or mapping
        Exact names: graph input, graph output that is its next value.
    patterns : str or sequence of str
        Templates such as ``"past_key_values.{i}.{kv} -> present.{i}.{kv}"``, names of `known_schemes`, or ``"known"``
        for all of them.
    uses : {"one", "any"}, optional
        How often a bound input may be used; what the graph says when None. ``"any"`` also makes symbolic dimensions
        that disagree a warning.
    publish : str or mapping, optional
        When an output becomes the next value: ``"always"``, ``"once"`` (the first success after construction or
        reset), ``"if_present"`` (when it has no zero extent). A mapping says so for single inputs or templates.

    Returns
    -------
    Model
        Shares all payloads with `model`.
    BindReport
        What was bound, by what; its text is a table.

    Raises
    ------
    ModelError
        When a name does not exist, a pattern fits nothing or is ambiguous, or the result breaks a rule of bindings.
    """

def known_schemes() -> list[tuple[str, str, list[str]]]:
    """Return the table of known naming schemes: name, who writes such names, templates."""

def default_opset(version: int) -> OpsetId:
    """Return version `version` of the domain ai.onnx."""

@final
class Model:
    """A loaded, validated, immutable model. Made by `load` and `bind`."""

    @property
    def inputs(self) -> list[ValueInfo]:
        """All declared inputs of the graph, bound ones and those with a default included."""
    @property
    def outputs(self) -> list[ValueInfo]:
        """All declared outputs of the graph."""
    @property
    def initializer_names(self) -> list[str]:
        """Names of the graph's constant tensors; an input of such a name need not be fed."""
    @property
    def bindings(self) -> list[Binding]:
        """The persistent bindings, in the order of declaration."""
    @property
    def binding_uses(self) -> str:
        """How often a bound input may be used, as the graph says: "one" or "any"."""
    @property
    def opsets(self) -> dict[str, int]:
        """Imported operator sets by domain; ai.onnx is ""."""
    @property
    def operators(self) -> list[OperatorUse]:
        """Every operator of the model, and what stands in the way of computing it."""
    @property
    def warnings(self) -> list[str]:
        """What is odd about the model but not wrong."""
    @property
    def moved_payloads(self) -> int:
        """Number of payloads that were copied because they were not aligned for their type."""
    def verify(self) -> None:
        """Check the uses of bound inputs under the graph's own policy.

        Raises
        ------
        ModelError
            For the first bound input that breaks the policy.
        """
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, and its external tensors to ``<file name>.data`` beside it.

        Raises
        ------
        OSError
            When a file cannot be written.
        """
    def to_bytes(self) -> bytes:
        """Return the serialised model.

        Raises
        ------
        ModelError
            When the model has tensors in other files or does not fit in one message.
        """
    def to_proto(self) -> ModelProto:
        """Give the model as a message, which shares its payloads. Editing it changes nothing here."""
    def with_proto(self, model: ModelProto) -> Model:
        """Return a model with a changed message, whose tensors in other files are found where this model's are.

        Raises
        ------
        ModelError
            When the changed model is broken.
        TypeError
            When `model` is no ModelProto.
        """

    @staticmethod
    def from_proto(model: _ModelLike) -> Model:
        """Make a model from a message as it is now: payloads are shared, structure is copied.

        The same message, unchanged, gives the same model for as long as somebody keeps it. Fields that the schema does
        not know are left out.
        """
    def run(self, feeds: Mapping[str, _Value]) -> dict[str, Any]:
        """Run the graph once without any state; a session is made at the first call.

        Raises
        ------
        ValueTypeError
            When a feed is unknown, missing, or contradicts its declaration.
        KernelError
            When a node fails.
        """

@final
class ValueInfo:
    """A named, typed graph input or output."""

    @property
    def name(self) -> str:
        """The value's name, taken literally."""
    @property
    def type(self) -> str:
        """The declared type as text, such as ``FLOAT[batch, 8]``."""
    @property
    def data_type(self) -> int | None:
        """The element type's number in `onnx.TensorProto`; None when it is not declared or the value is no tensor."""
    @property
    def shape(self) -> tuple[int | str | None, ...] | None:
        """Declared dimensions: numbers, symbols, or None where nothing is said; None without a declared rank."""

@final
class Binding:
    """One pair: an output that is the next value of an input."""

    @property
    def input(self) -> str:
        """The graph input that is fed."""
    @property
    def output(self) -> str:
        """The graph output that feeds it."""
    @property
    def publish(self) -> str:
        """When the output is published: "always", "once" or "if_present"."""

@final
class OperatorUse:
    """One operator of a model."""

    @property
    def domain(self) -> str:
        """Operator domain; ai.onnx is ""."""
    @property
    def op_type(self) -> str:
        """Operator."""
    @property
    def nodes(self) -> int:
        """Number of nodes, those of subgraphs and called functions included."""
    @property
    def problems(self) -> list[str]:
        """What stands in the way of computing it; empty when all its nodes can run."""

@final
class BoundPair:
    """One binding of a bound model, and what found it."""

    @property
    def input(self) -> str:
        """The graph input."""
    @property
    def output(self) -> str:
        """The graph output."""
    @property
    def input_type(self) -> str:
        """Declared type of the input."""
    @property
    def output_type(self) -> str:
        """Declared type of the output."""
    @property
    def matched_by(self) -> str:
        """What found the pair: the graph, a pair, a template or a scheme."""
    @property
    def publish(self) -> str:
        """When the output is published."""
    @property
    def uses(self) -> int:
        """How often the input is used."""

@final
class BindReport:
    """What `bind` did. `str(report)` is a table, one binding a line."""

    @property
    def pairs(self) -> list[BoundPair]:
        """All bindings of the new model, in the order of declaration."""
    @property
    def uses(self) -> str:
        """The use policy of the new model."""
    @property
    def warnings(self) -> list[str]:
        """What the caller may want to know."""

@final
class StringTensor:
    """A tensor of STRING, as calls give it back.

    Wherever a value is taken, NumPy arrays of texts are taken too (of dtype ``U``, ``S``, ``StringDType``, or of `str`
    and `bytes` objects), with any strides. Texts are copied. No state keeps them.
    """

    @property
    def name(self) -> str:
        """The name that the call gives it."""
    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
    @property
    def ndim(self) -> int:
        """Number of axes."""
    @property
    def data_type(self) -> int:
        """`TensorProto.STRING`."""
    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a new array of `str` objects; of `bytes` where a text is not UTF-8."""
    def tolist(self) -> Any:
        """Return the texts as nested lists; of no axes, the text."""
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]: ...

@final
class Tensor:
    """A handle to a value. Its memory is shared and never written; its metadata is its own.

    Parameters
    ----------
    value : tensor-like
        A runtime tensor, a contiguous CPU NumPy array, a DLPack producer or a buffer. Nothing is copied: whoever made
        the memory must not change it while the tensor lives.
    name : str, optional
        A name for messages.
    """

    def __new__(cls, value: _TensorLike, *, name: str | None = None) -> Self: ...
    @property
    def name(self) -> str:
        """The value's name."""
    @name.setter
    def name(self, value: str) -> None: ...
    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, outermost first. Assigning another shape of as many elements changes this handle only."""
    @shape.setter
    def shape(self, value: Sequence[int]) -> None: ...
    @property
    def data_type(self) -> int:
        """The element type's number in `onnx.TensorProto`. Assigning one of the same width changes this handle only."""
    @data_type.setter
    def data_type(self, value: int) -> None: ...
    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy element type; `ml_dtypes` for BFLOAT16 and FLOAT8.

        Raises
        ------
        ValueTypeError
            For packed types, which NumPy does not have.
        """
    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements, outermost first."""
    @property
    def nbytes(self) -> int:
        """Bytes that the elements take when dense."""
    @property
    def ndim(self) -> int:
        """Number of axes."""
    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a read-only view as an array, strides included. Nothing is copied."""
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        """Export through DLPack: read only for consumers of version 1.0 and later, a copy for older ones.

        Raises
        ------
        BufferError
            For a stream, a device other than the CPU, or ``copy=False`` where only a copy can be given.
        """
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __len__(self) -> int: ...

@final
class OpsetId:
    """A domain and a version of it."""

    def __new__(cls, domain: str = "", version: int = 0) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]
    @property
    def domain(self) -> str:
        """The domain; "" is ai.onnx."""
    @domain.setter
    def domain(self, value: str) -> None: ...
    @property
    def version(self) -> int:
        """The version."""
    @version.setter
    def version(self, value: int) -> None: ...

@final
class KernelContext:
    """What kernels assume where no model says otherwise."""

    def __new__(cls, opset: OpsetId | None = None) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]
    @property
    def opset(self) -> OpsetId:
        """The default opset."""
    @opset.setter
    def opset(self, value: OpsetId) -> None: ...

@disjoint_base
class RawBufferAllocator:
    """An allocator that a caller brings to the calls of a context. Abstract: make one of its kinds."""

    @property
    def total_allocated_size(self) -> int:
        """Bytes that were asked for and are in use."""
    @property
    def peak_allocated_size(self) -> int:
        """The most bytes that were in use at once since the start or the last `reset_peak`."""
    @property
    def allocated_count(self) -> int:
        """Buffers in use: each is held by a value that somebody keeps."""
    @property
    def capacity(self) -> int:
        """The most buffers that may be in use at once."""
    def reset_peak(self) -> None:
        """Start measuring the peak anew, from what is in use now."""

@final
class SimpleRawBufferAllocator(RawBufferAllocator):
    """An allocator that counts, and frees what comes back.

    Parameters
    ----------
    capacity : int
        The most buffers that may be in use at once; a request beyond it is a `MemoryError`, and is not tried again.
    """

    def __new__(cls, capacity: int) -> Self: ...

class ExecutionArena(RawBufferAllocator):
    """An allocator that keeps buffers that come back for later requests; for what a call needs on the way.

    Buffers are zeroed when they are handed out again. The arena lives on as long as a buffer of it is in use.

    Parameters
    ----------
    capacity : int
        The most buffers that may be in use at once; a request beyond it is a `MemoryError`, and is not tried again.
    retention_cap : int, optional
        Most bytes of free buffers that are kept; no limit when None.
    """

    def __new__(cls, capacity: int, retention_cap: int | None = None) -> Self: ...
    @property
    def retained_size(self) -> int:
        """Bytes of the free buffers that are kept."""
    @property
    def retained_count(self) -> int:
        """Free buffers that are kept."""
    @property
    def retention_cap(self) -> int:
        """Most bytes of free buffers that are kept. When it is lowered, the largest go first."""
    @retention_cap.setter
    def retention_cap(self, cap: int) -> None: ...
    def trim(self) -> None:
        """Free all buffers that are kept."""

@final
class IOArena(ExecutionArena):
    """An arena for outputs and retained values."""

    def __new__(cls, capacity: int, retention_cap: int | None = None) -> Self: ...
    @property
    def leased_count(self) -> int:
        """Buffers in use. Each is one lease: the state's, or that of the last view of a value."""

@final
class RuntimeContextOptions:
    """What a `RuntimeContext` is made with. Every field may be read and written; a context copies them when it is made.

    Parameters
    ----------
    allocator : RawBufferAllocator, optional
        Where calls take memory for intermediate values; the session's own memory when None.
    io_allocator : RawBufferAllocator, optional
        Where calls take memory for outputs and for the room that appends reserve; as `allocator` when None.
    events_enabled : bool
        Whether reports are recorded.
    verbose : int
        0; other levels are refused.
    release_intermediates : bool
        Whether `RuntimeSession.run(context)` lets go of values on the way after their last use, instead of keeping them
        in the context beside the outputs.
    device : str
        ``"cpu"``.
    """

    def __new__(
        cls,
        *,
        allocator: RawBufferAllocator | None = None,
        io_allocator: RawBufferAllocator | None = None,
        events_enabled: bool | None = None,
        verbose: int | None = None,
        release_intermediates: bool | None = None,
        device: str | None = None,
    ) -> Self: ...
    allocator: RawBufferAllocator | None
    io_allocator: RawBufferAllocator | None
    events_enabled: bool
    verbose: int
    release_intermediates: bool
    device: str

@final
class RuntimeContext:
    """What the calls of a request share: events, values by name, kernels of the caller's own, allocators.

    Parameters
    ----------
    kernel_ctx : KernelContext, optional
        What kernels assume.
    options : RuntimeContextOptions, optional
        Settings; or give them as keywords, which mean the same.
    """

    def __new__(
        cls,
        kernel_ctx: KernelContext | None = None,
        options: RuntimeContextOptions | None = None,
        *,
        events_enabled: bool | None = None,
        verbose: int | None = None,
        release_intermediates: bool | None = None,
        allocator: RawBufferAllocator | None = None,
        io_allocator: RawBufferAllocator | None = None,
        device: str | None = None,
    ) -> Self: ...
    release_intermediates: bool
    """Whether `RuntimeSession.run(context)` lets go of values on the way after their last use."""
    @property
    def kernel_ctx(self) -> KernelContext:
        """A copy of what kernels assume."""
    @property
    def events_enabled(self) -> bool:
        """Whether reports are recorded."""
    @property
    def verbose(self) -> int:
        """0."""
    @property
    def execution_allocator(self) -> RawBufferAllocator | None:
        """Where calls take memory for intermediate values, when the context says so."""
    @property
    def io_allocator(self) -> RawBufferAllocator | None:
        """Where calls take memory for outputs, when the context says so."""
    def events(self) -> list[RuntimeEvent]:
        """Return a copy of all recorded events; always empty with events off."""
    def export_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events to a file that Perfetto and Chrome show (JSON of the Trace Event Format).

        Raises
        ------
        OSError
            When the file cannot be written; an older one is then untouched.
        """
    def node_table(self) -> list[dict[str, Any]]:
        """Return where the time of the recorded calls went: one row a node, the most time first.

        A row has `node_index`, `subgraph_node_index`, `name`, `op_domain`, `op_type`, `calls`, `total_ns`, `min_ns` and
        `max_ns`. The time of a control-flow node includes that of the nodes in its subgraphs.
        """
    def clear_events(self) -> None:
        """Forget all recorded events."""
    def record_event(self, action: RuntimeEventAction | int, **fields: Any) -> None:
        """Record an event outside of any node; nothing with events off.

        Parameters
        ----------
        action : RuntimeEventAction
            What the event is about.
        **fields
            `name`, and for `kPersistentStorage` the five `storage_*` counters of `RuntimeEvent`.

        Raises
        ------
        TypeError
            When there is no such field.
        ValueTypeError
            When the action is none, or has no storage counters.
        MemoryError
            When there is no memory for the event.
        """
    def has(self, name: str) -> bool:
        """Return whether a tensor is kept under a name."""
    def set(self, name: str, tensor: _TensorLike, kind: str = "input") -> None:
        """Keep a value under a name that has none. With events on, this is `kAdd`.

        Raises
        ------
        DuplicateValueError
            When the name has a value, of whatever kind.
        """
    def put(self, name: str, tensor: _TensorLike, kind: str = "intermediate") -> None:
        """Keep a value under a name; what was there goes. With events on, this is `kAdd` or `kReplace`.

        Parameters
        ----------
        name : str
            The name.
        tensor : tensor-like
            The value, which is shared, not copied.
        kind : str
            What it is to a graph: ``"unknown"``, ``"initializer"``, ``"input"``, ``"intermediate"`` or ``"output"``.
        """
    def put_value(self, name: str, value: _Value) -> None:
        """As `put`, for values of every kind: a dict is a struct, a list a sequence."""
    def get(self, name: str) -> Tensor:
        """Return the tensor of a name.

        Raises
        ------
        MissingValueError
            When the name has no value.
        ValueTypeError
            When its value is no tensor.
        """
    def get_value(self, name: str) -> Any:
        """Return the value of a name, of whatever kind.

        Raises
        ------
        MissingValueError
            When the name has no value.
        """
    def kind(self, name: str) -> str:
        """Return what the value of a name is to a graph."""
    def remove(self, name: str) -> bool:
        """Forget the value of a name, of whatever kind; False when there is none. Of a tensor, this is a `kRemove`."""
    def names(self) -> list[str]:
        """Return the names of the tensors, in the order of the alphabet."""
    def has_sequence(self, name: str) -> bool:
        """Return whether a sequence is kept under a name."""
    def sequence_names(self) -> list[str]:
        """Return the names of the sequences, in the order of the alphabet."""
    def get_sequence(self, name: str) -> list[Any]:
        """Return the elements of a sequence."""
    def put_sequence(self, name: str, values: list[Any]) -> None:
        """Keep a sequence under a name; what was there goes."""
    def has_map(self, name: str) -> bool:
        """Return whether a map is kept under a name."""
    def map_names(self) -> list[str]:
        """Return the names of the maps, in the order of the alphabet."""
    def get_map(self, name: str) -> dict[Any, Any]:
        """Return a map as a dictionary, in the order in which it was given.

        Raises
        ------
        MissingValueError
            When the name has no value.
        ValueTypeError
            When its value is no map.
        """
    def put_map(
        self,
        name: str,
        values: dict[int, int] | dict[int, float] | dict[int, str] | dict[str, int] | dict[str, float] | dict[str, str],
    ) -> None:
        """Keep a map under a name; what was there goes. No graph reads maps: they are for kernels of the caller's own.

        Parameters
        ----------
        name : str
            The name.
        values : dict
            Keys are all int or all str, values all int, all float or all str, as the first entry says. bool is neither.

        Raises
        ------
        ValueTypeError
            When a key or value is of another type.
        """
    def clear(self) -> None:
        """Forget all values and all recorded events; kernels and allocators stay."""
    def register_custom_kernel(self, domain: str, op_type: str, fn: _Kernel) -> None:
        """Make a function the kernel of an operator, for calls with this context.

        It comes before kernels of the process and before refeed's own; functions of the model and control flow come
        before it.

        Parameters
        ----------
        domain : str
            The operator's domain; ``"ai.onnx"`` is the same as ``""``.
        op_type : str
            The operator.
        fn : function of (node, invocation)
            Gets the node's message and a `KernelInvocation`. It puts its outputs there, or returns them: one value, or
            a tuple of one for each output. What it raises comes out of the call as itself, with a note that names the
            node.

        Raises
        ------
        ValueTypeError
            When the operator has no name, or is control flow.
        TypeError
            When `fn` cannot be called.
        """
    def unregister_custom_kernel(self, domain: str, op_type: str) -> bool:
        """Forget a kernel of this context; False when there is none."""
    def clear_custom_kernels(self) -> None:
        """Forget all kernels of this context."""

@final
class KernelInvocation:
    """What a kernel written in Python sees of one execution of its node. It is of no use after the call."""

    @property
    def input_names(self) -> list[str]:
        """The node's inputs, by position; "" for one that is left out."""
    @property
    def output_names(self) -> list[str]:
        """The node's outputs, by position; "" for one that is left out."""
    @property
    def inputs(self) -> list[Any]:
        """The values of the inputs, by position; None for one that is left out."""
    def has(self, name: str) -> bool:
        """Return whether an input, or an output that was put, has this name."""
    def get(self, name: str) -> Tensor:
        """Return an input that is a tensor, or an output that was put.

        Raises
        ------
        MissingValueError
            When the node has no such input.
        ValueTypeError
            When the value is no tensor, or the call is over.
        """
    def get_value(self, name: str) -> Any:
        """Return an input of whatever kind, or an output that was put."""
    def put(self, name: str, value: _Value, kind: str = "intermediate") -> None:
        """Set an output. An array is taken as it is, so it must not be changed afterwards.

        Raises
        ------
        ValueTypeError
            When the node has no output of this name, the value cannot be taken, or the call is over.
        """
    def put_value(self, name: str, value: _Value) -> None:
        """Set an output of whatever kind: a dict is a struct, a list a sequence."""
    def reserve_persistent_append(
        self, past: str | Tensor, shape: Sequence[int], axis: int, input_slot: int, output_slot: int
    ) -> AppendReservation | None:
        """Ask for the rows behind a retained input, when the graph feeds an output back into it.

        Parameters
        ----------
        past : str or Tensor
            The input itself: its name, or the tensor that `get` returned.
        shape : sequence of int
            The whole result; only its extent along `axis` may differ from the input's, by growing.
        axis : int
            The axis that grows.
        input_slot, output_slot : int
            Positions of the input and of the output among the node's own.

        Returns
        -------
        AppendReservation or None
            None when there is no binding of just these two, or the append is declined (the state's `explain` says why):
            compute the whole result instead. One that declines for its slots may be tried again with others.

        Raises
        ------
        ValueTypeError
            When the shape does not extend the input, or the rows of this input were asked for already.
        MemoryError
            When memory cannot be had.
        """
    def commit_persistent_append(self, output_slot: int, reservation: AppendReservation, bytes: int) -> Tensor:
        """End the writing of reserved rows, and make the whole result an output.

        Parameters
        ----------
        output_slot : int
            Position of the output.
        reservation : AppendReservation
            The rows, all written.
        bytes : int
            How many bytes were written: all of the reservation's.

        Returns
        -------
        Tensor
            The whole result: old rows and new ones.

        Raises
        ------
        BufferError
            When an array of the rows is still alive. The rows are given back with the last such array.
        ValueTypeError
            When it is another number of bytes, another output, or the reservation was committed already.
        """
    def record_event(self, action: RuntimeEventAction | int, **fields: Any) -> None:
        """Record an event of this node, as `RuntimeContext.record_event` does."""

@final
class AppendReservation:
    """Rows behind a retained value that only one kernel can see, until it commits them. Dropping it gives them back."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the rows alone."""
    @property
    def data_type(self) -> int:
        """Number of their element type, as in `TensorProto.DataType`."""
    @property
    def nbytes(self) -> int:
        """Bytes of the rows: what is to be written."""
    @property
    def outcome(self) -> str:
        """Where the rows were found: in place, or in a larger buffer."""
    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a writable array of the rows, zero at first.

        It is strided where the value has several slices before the axis that grows; rows of types narrower than a byte
        come as their bytes. It, and every view of it, must be gone before the commit.

        Raises
        ------
        ValueTypeError
            When the reservation was committed or given back.
        """
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """As `numpy`."""
    def release(self) -> None:
        """Give the rows back."""

@final
class TaskCompletion:
    """A single-use handle to one run of a state: any thread may cancel it until the run publishes.

    Of a publication and a cancellation that meet, exactly one wins. The kernel that runs when it is cancelled
    begins no further task, later nodes do not start, and nothing is published.

    Parameters
    ----------
    task_id : int
        The caller's number, for messages.

    Examples
    --------
    ```python
    completion = runtime.TaskCompletion()
    threading.Timer(2.0, completion.cancel, ["too slow"]).start()
    outputs = state.run(context, feeds, completion)
    ```
    """

    def __new__(cls, task_id: int = 0) -> Self: ...
    def cancel(self, message: str = "") -> None:
        """Decide that the run publishes nothing; it ends with a `CancelledError` that carries `message`.

        Raises
        ------
        CompletionError
            When the run has published, or the completion was cancelled before.
        """
    def is_ready(self) -> bool:
        """Whether it is decided: the run has published, or it was cancelled."""
    @property
    def status(self) -> TaskStatus:
        """Where it stands now."""
    @property
    def task_id(self) -> int:
        """The caller's number."""
    @property
    def message(self) -> str:
        """What the canceller said; empty before that."""

@final
class RuntimeEvent:
    """One recorded fact. Read only."""

    @property
    def action(self) -> RuntimeEventAction:
        """What the event is about."""
    @property
    def kind(self) -> str:
        """What it happened to: "input", "initializer", "result", "node" or "storage"."""
    @property
    def timestamp_ns(self) -> int:
        """Nanoseconds since the context was made, at the end of what happened."""
    @property
    def name(self) -> str:
        """Name of the value, or of the node; "" when the model gives it none."""
    @property
    def data_type(self) -> int:
        """Element type of a tensor of at most 8 elements, as a number of `TensorProto.DataType`; else -1."""
    @property
    def shape(self) -> list[int]:
        """Extents of a tensor of at most 8 elements; else empty."""
    @property
    def value_count(self) -> int:
        """Elements of a tensor or sequence, fields of a struct."""
    @property
    def values(self) -> list[int] | list[float]:
        """The elements of a tensor of at most 8 of a type that Python has numbers for; else empty."""
    @property
    def string_values(self) -> list[str]:
        """Always empty: a run keeps no strings."""
    @property
    def inputs(self) -> list[str]:
        """Names of the values that a node read; only for `kRunNode`."""
    @property
    def duration_ns(self) -> int:
        """How long a node ran, the nodes of its subgraphs included; only for `kRunNode`."""
    @property
    def cpu_executor_instance_id(self) -> int:
        """Always 0: the process has one pool of threads."""
    @property
    def cpu_effective_threads(self) -> int:
        """Threads that the node could use."""
    @property
    def device(self) -> int:
        """Always -1: the CPU."""
    @property
    def op_domain(self) -> str:
        """Domain of the node's operator."""
    @property
    def op_type(self) -> str:
        """The node's operator."""
    @property
    def node_index(self) -> int:
        """Position of the node in the graph that holds it; -1 for graph inputs, -2 for initializers."""
    @property
    def subgraph_node_index(self) -> int:
        """Position in the root graph of the control-flow node around it; -1 when there is none."""
    @property
    def subgraph_attr_name(self) -> str:
        """Attribute of that control-flow node; "" when there is none."""
    @property
    def allocated_bytes(self) -> int:
        """Bytes that the allocator had in use."""
    @property
    def peak_bytes(self) -> int:
        """The most bytes it ever had in use."""
    @property
    def storage_allocations(self) -> int:
        """Buffers requested."""
    @property
    def storage_allocated_bytes(self) -> int:
        """Bytes requested for them, capacity included."""
    @property
    def storage_prefix_copied_bytes(self) -> int:
        """Bytes of earlier rows that were copied."""
    @property
    def storage_append_copied_bytes(self) -> int:
        """Bytes of new rows that were copied in."""
    @property
    def storage_reuse_count(self) -> int:
        """Appends that found room in the buffer they already had."""
    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as a dictionary; the `storage_*` ones only for storage events."""
    def summary(self) -> str:
        """Return one line of text."""

@final
class RuntimeSessionOptions:
    """Settings of a session or state. They are copied when one is made; later changes have no effect.

    Parameters
    ----------
    persistent_tensor_initial_capacity : int
        Rows that the first append of a value reserves along its growing axis, 32 by default; 0 disables reservations.
    append_reuse : {"always", "exclusive"}
        When an append may happen in place: always (the default), or only when no other handle to the value lives.
    binding_uses : {"one", "any"}, optional
        How often a bound input may be used; overrides what the model says.
    max_length : int, optional
        The expected length of growing axes: room is reserved at once. Not a limit: beyond it values grow as usual.
    memory_limit : int, optional
        Most bytes that the tensors of a session may have in use at once.
    check_shapes : bool
        Whether a session checks its outputs against their declared types (a state always does).
    recognize_attention : bool
        Whether attention that a graph writes out in single nodes (MatMul, a factor, a mask, Softmax, MatMul) runs
        through the kernel of Attention where both are the same up to rounding; True by default.

    Raises
    ------
    OverflowError
        For a negative number or one that does not fit 64 bits.
    ValueTypeError
        For an unknown text.
    TypeError
        For a value of another type, bool as a number included.
    """

    def __new__(
        cls,
        *,
        persistent_tensor_initial_capacity: int | None = None,
        append_reuse: _AppendReuse | None = None,
        binding_uses: _Uses | None = None,
        max_length: int | None = None,
        memory_limit: int | None = None,
        check_shapes: bool | None = None,
        recognize_attention: bool | None = None,
    ) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]
    @property
    def persistent_tensor_initial_capacity(self) -> int:
        """Rows that the first append reserves."""
    @persistent_tensor_initial_capacity.setter
    def persistent_tensor_initial_capacity(self, value: int) -> None: ...
    @property
    def append_reuse(self) -> str:
        """When an append may happen in place."""
    @append_reuse.setter
    def append_reuse(self, value: _AppendReuse) -> None: ...
    @property
    def binding_uses(self) -> str | None:
        """How often a bound input may be used; None for what the model says."""
    @binding_uses.setter
    def binding_uses(self, value: _Uses | None) -> None: ...
    @property
    def max_length(self) -> int | None:
        """The expected length of growing axes; a reservation, not a limit."""
    @max_length.setter
    def max_length(self, value: int | None) -> None: ...
    @property
    def memory_limit(self) -> int | None:
        """Most bytes in use at once."""
    @memory_limit.setter
    def memory_limit(self, value: int | None) -> None: ...
    @property
    def check_shapes(self) -> bool:
        """Whether a session checks its outputs."""
    @check_shapes.setter
    def check_shapes(self, value: bool) -> None: ...
    @property
    def recognize_attention(self) -> bool:
        """Whether attention in single nodes runs through the attention kernel."""
    @recognize_attention.setter
    def recognize_attention(self, value: bool) -> None: ...

@final
class RuntimeSession:
    """A compiled model whose runs remember nothing. Threads may run one session at the same time.

    Parameters
    ----------
    model : model-like
        As for `load`.
    options : RuntimeSessionOptions, optional
        Settings; or give them as keywords.
    context : RuntimeContext, optional
        The context of calls that name none. Its kernels are looked at now, so that faults show here.

    Raises
    ------
    ModelError
        When the model breaks the rules of its bindings, or has a node that refeed cannot compute.
    """

    def __new__(
        cls,
        model: _ModelLike,
        options: RuntimeSessionOptions | None = None,
        *,
        persistent_tensor_initial_capacity: int | None = None,
        append_reuse: _AppendReuse | None = None,
        binding_uses: _Uses | None = None,
        max_length: int | None = None,
        memory_limit: int | None = None,
        check_shapes: bool | None = None,
        recognize_attention: bool | None = None,
        context: RuntimeContext | None = None,
    ) -> Self: ...
    @overload
    def run(self, feeds: Mapping[str, _Value], context: RuntimeContext | None = None) -> dict[str, Any]:
        """Run the graph once. Every input that no initializer gives must be fed, bound ones too.

        Raises
        ------
        ValueTypeError
            When a feed is unknown, missing, or contradicts its declaration.
        KernelError
            When a node fails.
        """
    @overload
    def run(self, feeds: RuntimeContext, context: None = None) -> None:
        """Run the graph on the values that a context keeps.

        Each graph input is fed the value of its name, and each graph output is kept under its own. Values on the way
        are not kept. A run that fails changes nothing.

        Raises
        ------
        ValueTypeError
            When a value is missing or contradicts its declaration, or has the name of a constant of the model.
        KernelError
            When a node fails.
        """
    def new_state(self, initial: Mapping[str, _Value]) -> PersistentValueState:
        """Make a state that shares plan and weights with this session, which costs a few microseconds.

        Parameters
        ----------
        initial : mapping of str to tensor-like
            As for `PersistentValueState`.

        Raises
        ------
        ModelError
            When the model declares no binding.
        ValueTypeError
            As for `PersistentValueState`.
        """
    @property
    def attention(self) -> list[AttentionForm]:
        """The attention that the graph writes out in single nodes; empty with ``recognize_attention=False``."""
    def forecast(self) -> list[str]:
        """Return what a state's calls will do for each binding, as far as the graph tells."""
    @property
    def model(self) -> Model:
        """The model."""
    @property
    def output_types(self) -> list[ValueInfo]:
        """What the operators' rules say of the graph outputs: often more than their declarations do."""
    @property
    def live_bytes(self) -> int:
        """Bytes that tensors of this session have in use."""

@final
class PersistentValueState:
    """The state of one request: a model whose bound inputs are fed by its own outputs.

    `run`, `reset`, `close` and `values` of one state must not overlap; the second one fails at once.

    Parameters
    ----------
    model : model-like
        As for `load`, with bindings.
    initial : mapping of str to tensor-like
        The first value of every bound input. They are kept without a copy, so they must not be changed.
    options : RuntimeSessionOptions, optional
        Settings; or give them as keywords.
    context : RuntimeContext, optional
        The context of calls that name none. Its kernels are looked at now, so that faults show here.

    Raises
    ------
    ModelError
        When the model declares no binding or cannot be computed.
    ValueTypeError
        When an initial value is missing, unknown, or contradicts its declaration.
    """

    def __new__(
        cls,
        model: _ModelLike,
        initial: Mapping[str, _Value],
        options: RuntimeSessionOptions | None = None,
        *,
        persistent_tensor_initial_capacity: int | None = None,
        append_reuse: _AppendReuse | None = None,
        binding_uses: _Uses | None = None,
        max_length: int | None = None,
        memory_limit: int | None = None,
        check_shapes: bool | None = None,
        recognize_attention: bool | None = None,
        context: RuntimeContext | None = None,
    ) -> Self: ...
    @overload
    def run(
        self,
        context: RuntimeContext | None,
        feeds: Mapping[str, _Value],
        completion: TaskCompletion | None = None,
    ) -> dict[str, Any]:
        """Run one step: retained values and `feeds` in, all graph outputs out. Bound outputs are retained.

        The context may be left out: ``run(feeds)``. A call that fails leaves the state as it was.

        Parameters
        ----------
        context : RuntimeContext, optional
            What the calls of a request share.
        feeds : mapping of str to value
            Every input that is neither retained nor given by an initializer: arrays and tensors, ``dict`` for a struct,
            ``list`` for a sequence, ``EncodedValueProto``, ``SharedQuantizedValue``, ``PagedCacheProto``.

        Returns
        -------
        dict of str to value
            ``Tensor``, ``dict``, ``list``, ``EncodedValueProto`` (``SharedQuantizedValue`` where it refers to shared
            parameters), or ``PagedCacheProto`` for a struct that is built as a cache is.

        Other parameters
        ----------------
        completion : TaskCompletion, optional
            Pending; any thread may cancel it until the call publishes. The publication succeeds it, a failure leaves
            it pending.

        Raises
        ------
        CancelledError
            When the completion was cancelled, before the call or during it. Nothing was published.
        CompletionError
            When another run has or had the completion.
        ValueTypeError
            When a feed is unknown, missing, names a bound input, or contradicts its declaration.
        KernelError
            When a node fails.
        StateBusyError
            When another operation of this state is going on.
        StateClosedError
            When the state is closed.
        """
    @overload
    def run(
        self, context: Mapping[str, _Value], feeds: None = None, completion: TaskCompletion | None = None
    ) -> dict[str, Any]: ...
    @overload
    def run(
        self,
        context: None = None,
        *,
        feeds: Mapping[str, _Value],
        completion: TaskCompletion | None = None,
    ) -> dict[str, Any]: ...
    def reset(self, initial: Mapping[str, _Value]) -> None:
        """Replace every retained value, without a copy.

        Raises
        ------
        ValueTypeError
            As for construction; the retained values are then unchanged.
        """
    def close(self) -> None:
        """Release the retained values. Closing again does nothing; any other use is an error from now on."""
    @property
    def values(self) -> dict[str, Any]:
        """The retained values by input name: shared views, not copies."""
    def fork(self) -> PersistentValueState:
        """Make a second state with the same values, which goes its own way from here.

        It shares plan, weights and values; the cost is a handle a value. Where two forks append to one value, the first
        one does so in place and the other copies the old rows once; after that both append in place.

        Raises
        ------
        StateBusyError, StateClosedError
        """
    def truncate(self, length: int) -> None:
        """Keep the first `length` rows of every value that grows, as if the later steps had not been.

        The axis of a tensor is that of its append or, where no node appends, the one axis in which the declarations of
        input and output differ. Values that publish once stay. Nothing is copied; the first append afterwards copies
        the rows once unless nobody else holds the memory. Paged caches share their pages.

        Raises
        ------
        ValueTypeError
            When a value does not grow and so cannot go back (all of them are named), no value grows, or one has fewer
            rows. The state is unchanged then.
        """
    def select(self, rows: Iterable[int], axes: Mapping[str, int | None] | None = None) -> None:
        """Make every value's batch the rows `rows` of what it was: reordered, repeated, fewer or more.

        What is kept is copied once, and values that grow get room behind their rows. The same rows in the same order
        copy nothing.

        Parameters
        ----------
        rows : iterable of int
            Rows of the batch as it is.
        axes : dict of str to int or None, optional
            The batch axis of bound inputs, 0 for those that are not named; None for one that has no batch and stays.

        Raises
        ------
        ValueTypeError
            When a value has no such axis or row, is neither a tensor nor a paged cache, `axes` names no bound input, or
            the chosen rows contradict what the model declares. The state is unchanged then.
        MemoryError
            When memory cannot be had, or `memory_limit` would be passed. The state is unchanged then.
        """
    def checkpoint(self) -> Checkpoint:
        """Return the values as they are now, to go back to: handles, not copies."""
    def restore(self, checkpoint: Checkpoint) -> None:
        """Go back to a checkpoint of this state, or of another one of the same model.

        Nothing is copied; the first append afterwards copies the old rows once if somebody has appended behind them.

        Raises
        ------
        ValueTypeError
            When the checkpoint is of another model. The state is unchanged then.
        """
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the retained values to a file, whole or not at all (docs/state-files.md).

        The state is free again before the writing starts.

        Raises
        ------
        OSError
            When the file cannot be written; an older one is then untouched.
        """
    def load(self, path: str | os.PathLike[str]) -> None:
        """Replace every retained value by those of a file.

        Raises
        ------
        StateFileError
            When the file is no state file, damaged, or of another model. The state is unchanged, as for every error.
        ValueTypeError
            When a value contradicts its declaration.
        OSError
            When the file cannot be read.
        """
    @classmethod
    def from_file(
        cls,
        model: _ModelLike,
        path: str | os.PathLike[str],
        options: RuntimeSessionOptions | None = None,
        *,
        persistent_tensor_initial_capacity: int | None = None,
        append_reuse: _AppendReuse | None = None,
        binding_uses: _Uses | None = None,
        max_length: int | None = None,
        memory_limit: int | None = None,
        check_shapes: bool | None = None,
        recognize_attention: bool | None = None,
        context: RuntimeContext | None = None,
    ) -> PersistentValueState:
        """Make a state that starts with the values of a file. Settings and context are as for the constructor.

        Raises
        ------
        ModelError
            As for construction.
        StateFileError, ValueTypeError, OSError
            As for `load`.
        """
    def explain(self) -> Explanation:
        """Return what the last call did for each binding, and why."""
    @property
    def model(self) -> Model:
        """The model."""
    @property
    def live_bytes(self) -> int:
        """Bytes that tensors of this state have in use."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class Checkpoint:
    """The retained values of a state at one moment: handles, not copies. It keeps their memory alive."""

    @property
    def values(self) -> dict[str, Any]:
        """The values by input name: shared views."""
    @property
    def model(self) -> Model:
        """The model whose values these are."""

@final
class BindingReport:
    """The state of one binding after the last call."""

    @property
    def input(self) -> str:
        """The graph input."""
    @property
    def output(self) -> str:
        """The graph output that feeds it."""
    @property
    def outcome(self) -> str:
        """What the last call did: "in place", "grown: ...", "copied because ...", "appended ...", "kept", ...."""
    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the retained value."""
    @property
    def capacity(self) -> int:
        """Rows that fit before the buffer must grow; 0 when the value has no capacity."""
    @property
    def bytes(self) -> int:
        """Bytes of the visible elements."""

@final
class AttentionForm:
    """Attention that a graph writes out in single nodes: whether the attention kernel stands for them, and why not."""

    @property
    def node(self) -> str:
        """The product of weights and values, whose output the whole computes."""
    @property
    def nodes(self) -> int:
        """Nodes that the kernel stands for, those that only compute shapes included; 0 when they run as written."""
    @property
    def obstacle(self) -> str | None:
        """Why the nodes run as they are written; None when the kernel runs."""
    @property
    def declined(self) -> tuple[int, str] | None:
        """Calls of the session so far in which the nodes ran all the same, and why in the last of them."""

@final
class Explanation:
    """What a state answers about its last call; `str` of it is a table."""

    @property
    def bindings(self) -> list[BindingReport]:
        """One report a binding, in the model's order."""
    @property
    def materialised(self) -> dict[str, int]:
        """Outputs that were copied so that they share no memory with a feed, with the bytes copied."""
    @property
    def rewritten(self) -> dict[str, int]:
        """Bytes of retained values that ordinary operators wrote again, by operator; counted only with events on."""
    @property
    def attention(self) -> list[AttentionForm]:
        """The attention that the graph writes out in single nodes, as for `RuntimeSession`."""
    @property
    def warnings(self) -> list[str]:
        """Declarations that the values contradict and that ``binding_uses="any"`` lets pass."""

@final
class _GraphBuilder:
    """What `refeed.onnx.builder.GraphBuilder` stands on."""

    def __new__(cls, name: str | None = None, model: _ModelLike | None = None) -> Self: ...
    def set_opset(self, domain: str, version: int) -> None: ...
    def set_ir_version(self, version: int) -> None: ...
    def opset(self, domain: str) -> int | None: ...
    def opsets(self) -> list[tuple[str, int]]: ...
    def has_name(self, name: str) -> bool: ...
    def has_value(self, name: str) -> bool: ...
    def fresh_name(self, stem: str) -> str: ...
    def producer(self, value: str) -> int | None: ...
    def make_input(self, info: ValueInfoProto) -> None: ...
    def make_output(self, info: ValueInfoProto) -> None: ...
    def make_node(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str | None],
        domain: str,
        name: str,
        attributes: Sequence[AttributeProto],
    ) -> list[str]: ...
    def make_initializer(self, value: TensorProto) -> str: ...
    def make_sparse_initializer(self, value: SparseTensorProto) -> str: ...
    def make_encoded_initializer(self, value: EncodedValueProto) -> str: ...
    def make_paged_cache_initializer(self, value: PagedCacheProto) -> str: ...
    def make_constant(self, value: TensorProto) -> str: ...
    def make_struct_type(self, declared: StructTypeProto) -> int: ...
    def make_function(self, function: FunctionProto) -> None: ...
    def make_persistent_binding(self, binding: PersistentBindingProto) -> None: ...
    def persistent_bindings(self) -> list[PersistentBindingProto]: ...
    def paged_cache_initializers(self) -> list[PagedCacheProto]: ...
    def encoded_initializers(self) -> list[EncodedValueProto]: ...
    def struct_types(self) -> list[StructTypeProto]: ...
    def remove_input(self, name: str) -> ValueInfoProto: ...
    def remove_output(self, name: str) -> ValueInfoProto: ...
    def remove_persistent_binding(self, input: str) -> PersistentBindingProto: ...
    def rename_values(self, pairs: Sequence[tuple[str, str]]) -> None: ...
    def replace_all_uses(self, old: str, new: str) -> int: ...
    def replace_node(self, index: int, node: NodeProto) -> None: ...
    def replace_nodes(self, removed: Sequence[int], added: Sequence[NodeProto]) -> None: ...
    def remove_identity_nodes(self) -> int: ...
    def remove_unused_nodes(self) -> int: ...
    def remove_unused_initializers(self) -> int: ...
    def remove_duplicate_nodes(self) -> int: ...
    def extract(self, inputs: Sequence[str], outputs: Sequence[str]) -> _GraphBuilder: ...
    def merge(self, other: _GraphBuilder, io_map: Sequence[tuple[str, str]], prefix: str) -> None: ...
    def graph(self) -> GraphProto: ...
    def to_onnx(self) -> ModelProto: ...
    def to_standard_model(self) -> ModelProto: ...
    def to_function(self, domain: str, name: str) -> FunctionProto: ...
    def load(self) -> Model: ...

def tensor_from_proto(tensor: TensorProto | Any, /) -> Any:
    """Return the tensor of a message: a `Tensor`, or a `StringTensor` of texts.

    It owns its elements: later edits of the message do not reach it. `raw_data` is shared when it is aligned for its
    type, because payloads of messages never change; elements in typed fields are converted. The tensor has the
    message's name.

    Parameters
    ----------
    tensor : TensorProto
        Of `refeed.onnx` or of the official package (then it is serialised once).

    Raises
    ------
    ModelError
        When the message is broken, or has its elements in another file.
    """

def tensor_to_proto(tensor: Tensor | StringTensor, /) -> TensorProto:
    """Return the message of a tensor: its elements are `raw_data`, which shares the tensor's memory.

    The elements of a tensor that has gaps between them are copied. Texts are `string_data`.
    """

def tensor_to_numpy(tensor: Tensor, /, steal: bool = False) -> np.ndarray[Any, Any]:
    """Return the bytes of a tensor as a read-only uint8 array of one axis, which shares the tensor's memory.

    Bytes of a tensor that has gaps between its elements are copied. `Tensor.numpy` returns the elements.

    Parameters
    ----------
    tensor : Tensor
        Any tensor.
    steal : bool
        Whether the tensor lets its memory go and is left with the shape ``(0,)``.
    """

def tensor_from_numpy(name: str, data_type: int, shape: Sequence[int], raw: _TensorLike, copy: bool = True) -> Tensor:
    """Return a tensor of these bytes.

    Parameters
    ----------
    name : str
        The tensor's name.
    data_type : int
        Number of the element type, as in `TensorProto.DataType`.
    shape : sequence of int
        The extents.
    raw : array of uint8
        One axis, contiguous, exactly as many bytes as the elements take; types narrower than a byte are packed from the
        low bits on.
    copy : bool
        Whether the bytes are copied. When not, their memory must be aligned for the element type.

    Raises
    ------
    ValueTypeError
        When the number is no type of tensors, or the bytes are of another size, type, shape or alignment.
    """

@final
class SharedQuantizedValue:
    """A quantised tensor whose parameters a model shares; it keeps them, whatever becomes of the model.

    It is fed and returned like an `EncodedValueProto`, without a look-up of its parameters.
    """

    @property
    def encoded(self) -> EncodedValueProto:
        """A message of the value, with `parameter_ref`; its payload is shared, the message is a new one each time."""
    @property
    def parameter_ref(self) -> str:
        """Name of the parameter set."""
    @property
    def raw_data(self) -> bytes:
        """The payload: a reserved zero byte, the values of outliers, the codes."""

def make_affine_quantization_type(
    data_type: int,
    count: int,
    block_size: int = 128,
    *,
    permutation: bool = False,
    matrix_size: int = 0,
    outliers: int = 0,
) -> StructTypeProto:
    """Makes the struct type of values with affine codes in blocks, which carry all their parameters.

    Args:
        data_type: INT8, UINT8, INT4, UINT4, INT2 or UINT2.
        count: number of elements.
        block_size: elements that share a scale; the last block has what is left.
        permutation: whether elements are permuted before they are encoded.
        matrix_size: side of the matrices that are applied to every so many elements, 0 for none.
        outliers: number of elements that are kept as they are.

    Raises:
        refeed.errors.ValueTypeError: another type, no elements, or a side that does not divide them.

    Example:
        >>> from refeed import runtime
        >>> runtime.make_affine_quantization_type(22, 4).name
        'onnx_light.quantization.v1/affine'
    """

def add_quantization_parameters(
    model: ModelProto,
    name: str,
    storage_type: StructTypeProto,
    logical_type: TypeProto,
    *,
    scales: TensorProto | _TensorLike | None,
    zero_points: TensorProto | _TensorLike | None = None,
    offsets: TensorProto | _TensorLike | None = None,
    codebooks: TensorProto | _TensorLike | None = None,
    permutation: TensorProto | _TensorLike | None = None,
    forward: TensorProto | _TensorLike | None = None,
    inverse: TensorProto | _TensorLike | None = None,
    outliers: TensorProto | _TensorLike | None = None,
) -> StructTypeProto:
    """Adds a set of quantisation parameters that values of the model share.

    The set is checked first, in a copy. Then each role becomes an initializer
    ``onnx_light.quantization.parameters:<name>/<role>``, and one annotation joins them.

    Args:
        model: the message that is extended.
        name: of the set.
        storage_type: of a value that carries its parameters itself, see `make_affine_quantization_type`.
        logical_type: what values decode to: a tensor type whose dimensions are numbers.
        scales: one number a block; the other roles as the storage type asks for.

    Returns:
        The struct type of values that refer to the set: what they hold themselves.

    Raises:
        ValueError: an empty name or one that is taken, no scales, tensors that the storage type does not ask for.
    """

def make_shared_quantization_type(model: Model | ModelProto, name: str) -> StructTypeProto:
    """Gives the struct type of values that refer to a set of the model: what they hold themselves.

    Raises:
        ValueError: no such set, or one that is not of the affine profile.
    """

def quantize_tensor_shared(
    tensor: TensorProto | _TensorLike, model: Model | ModelProto, name: str
) -> SharedQuantizedValue:
    """Encodes a tensor with a set of the model. Numbers outside the range of the shared scales saturate.

    Raises:
        ValueError: no such set, a tensor of another type or shape, or elements that are not finite.
    """

def materialize_quantized_value(
    value: SharedQuantizedValue | EncodedValueProto, model: Model | ModelProto | None = None
) -> EncodedValueProto:
    """Gives the value with its parameters inside, so that it needs no model.

    Args:
        value: what to give its parameters; one that has them comes back as it is.
        model: whose sets a message refers to.

    Raises:
        ValueError: a reference without its model, or a value that breaks a rule.
    """

def check_paged_cache(cache: PagedCacheProto, model: Model | ModelProto | None = None) -> None:
    """Holds the pages of a cache to their rules, without decoding them.

    Args:
        cache: the pages.
        model: whose sets and struct types a message refers to.

    Raises:
        ValueError: with the number of the page and the field that breaks a rule.
    """

def dequantize_tensor(
    value: SharedQuantizedValue | EncodedValueProto, model: Model | ModelProto | None = None
) -> Tensor:
    """Decodes a value: affine layouts to FLOAT, values of the affine profile to the type that they declare.

    Args:
        value: what to decode.
        model: whose sets and struct types a message refers to.

    Raises:
        ValueError: a reference without its model, a value that breaks a rule, or an encoding that is not computed.
    """

def register_custom_kernel(domain: str, op_type: str, fn: _Kernel) -> None:
    """Make a function the kernel of an operator for the whole process, as `RuntimeContext.register_custom_kernel` does.

    It is used by sessions and states that are made from now on, and by those that lack a kernel for the operator. It is
    forgotten before the interpreter ends.
    """

def unregister_custom_kernel(domain: str, op_type: str) -> bool:
    """Forget a kernel of the process; False when there is none. Sessions that have it keep it."""

def clear_custom_kernels() -> None:
    """Forget all kernels of the process. Sessions that have them keep them."""

@final
class GenerationOptions:
    """Settings of a generation. Lists and dictionaries are copied: assign a whole one to change it.

    A value that means nothing is told by the call that uses it, in the order of the fields.

    Parameters
    ----------
    max_new_tokens : int
        Most tokens that one call adds to a row.
    temperature : float
        0: the most probable token. Positive: a draw from ``softmax(logits / temperature)``.
    seed : int, optional
        Makes draws repeatable; without one, each call draws differently.
    eos_token_id : int, optional
        A token that ends its row.
    pad_token_id : int, optional
        What rows that have ended are filled with; the end token when absent.
    input_ids_name : str
        The graph input of the token ids.
    logits_name : str
        The graph output of the logits.
    attention_mask_name : str
        The graph input of the mask, when there is one of this name.
    position_ids_name : str
        The graph input of the positions, when there is one of this name.
    top_k : int, optional
        Draws are among so many of the most probable tokens; equal ones count by their number.
    top_p : float, optional
        Draws are among the most probable tokens that together have this probability, in (0, 1].
    min_p : float, optional
        Draws are among tokens at least this many times as probable as the most probable one.
    repetition_penalty : float
        Divides positive and multiplies negative logits of tokens that stand in the row.
    presence_penalty : float
        Subtracted from the logits of tokens that this call has generated in the row.
    frequency_penalty : float
        The same, as many times as the token was generated.
    logit_bias : dict[int, float]
        Added to the logits of single tokens; negative infinity forbids one.
    bad_words : list[list[int]]
        Sequences of tokens that are not generated.
    stop_token_ids : list[int]
        More tokens that end their row.
    stop_sequences : list[list[int]]
        Sequences of generated tokens that end their row.
    min_new_tokens : int
        Tokens that end a row are forbidden before so many were generated.
    max_length : int, optional
        Most tokens that a row may have, prompt included.
    num_return_sequences : int
        Sequences for each prompt, from one evaluation of it; of beams, the best ones.
    num_beams : int
        Width of a beam search; 1: none.
    length_penalty : float
        Beams are ranked by log-probability over new length to this power.
    log_probabilities : bool
        Whether log-probabilities are told: of the model's own distribution.
    prefill_chunk : int, optional
        Prompts are evaluated in pieces of at most so many tokens (models with bindings). By default a `Generator` takes
        512, or as many as `input_ids` is declared for, and `refeed.runtime.generate` takes all at once.
    drop_finished : bool
        Whether a `Generator` lets rows go that have ended, so that they cost nothing.
    first_row : int
        The number of the first row in the random stream, for parts of a batch.
    batch_axes : dict[str, int | None]
        Which axis of each retained value is the batch, where declarations do not tell.

    Raises
    ------
    TypeError
        For an unknown field, or a value of another type.
    OverflowError
        For a number that does not fit 64 bits, or a negative seed.
    """

    def __new__(
        cls,
        *,
        max_new_tokens: int = ...,
        temperature: float = ...,
        seed: int | None = ...,
        eos_token_id: int | None = ...,
        pad_token_id: int | None = ...,
        input_ids_name: str = ...,
        logits_name: str = ...,
        attention_mask_name: str = ...,
        position_ids_name: str = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        min_p: float | None = ...,
        repetition_penalty: float = ...,
        presence_penalty: float = ...,
        frequency_penalty: float = ...,
        logit_bias: Mapping[int, float] = ...,
        bad_words: Sequence[Sequence[int]] = ...,
        stop_token_ids: Sequence[int] = ...,
        stop_sequences: Sequence[Sequence[int]] = ...,
        min_new_tokens: int = ...,
        max_length: int | None = ...,
        num_return_sequences: int = ...,
        num_beams: int = ...,
        length_penalty: float = ...,
        log_probabilities: bool = ...,
        prefill_chunk: int | None = ...,
        drop_finished: bool = ...,
        first_row: int = ...,
        batch_axes: Mapping[str, int | None] = ...,
    ) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]
    def replace(
        self,
        *,
        max_new_tokens: int = ...,
        temperature: float = ...,
        seed: int | None = ...,
        eos_token_id: int | None = ...,
        pad_token_id: int | None = ...,
        input_ids_name: str = ...,
        logits_name: str = ...,
        attention_mask_name: str = ...,
        position_ids_name: str = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        min_p: float | None = ...,
        repetition_penalty: float = ...,
        presence_penalty: float = ...,
        frequency_penalty: float = ...,
        logit_bias: Mapping[int, float] = ...,
        bad_words: Sequence[Sequence[int]] = ...,
        stop_token_ids: Sequence[int] = ...,
        stop_sequences: Sequence[Sequence[int]] = ...,
        min_new_tokens: int = ...,
        max_length: int | None = ...,
        num_return_sequences: int = ...,
        num_beams: int = ...,
        length_penalty: float = ...,
        log_probabilities: bool = ...,
        prefill_chunk: int | None = ...,
        drop_finished: bool = ...,
        first_row: int = ...,
        batch_axes: Mapping[str, int | None] = ...,
    ) -> Self:
        """Return a copy with other values of some fields."""
    @property
    def max_new_tokens(self) -> int:
        """Most tokens that one call adds to a row."""
    @max_new_tokens.setter
    def max_new_tokens(self, value: int) -> None: ...
    @property
    def temperature(self) -> float:
        """0: the most probable token. Positive: a draw from ``softmax(logits / temperature)``."""
    @temperature.setter
    def temperature(self, value: float) -> None: ...
    @property
    def seed(self) -> int | None:
        """Makes draws repeatable; without one, each call draws differently."""
    @seed.setter
    def seed(self, value: int | None) -> None: ...
    @property
    def eos_token_id(self) -> int | None:
        """A token that ends its row."""
    @eos_token_id.setter
    def eos_token_id(self, value: int | None) -> None: ...
    @property
    def pad_token_id(self) -> int | None:
        """What rows that have ended are filled with; the end token when absent."""
    @pad_token_id.setter
    def pad_token_id(self, value: int | None) -> None: ...
    @property
    def input_ids_name(self) -> str:
        """The graph input of the token ids."""
    @input_ids_name.setter
    def input_ids_name(self, value: str) -> None: ...
    @property
    def logits_name(self) -> str:
        """The graph output of the logits."""
    @logits_name.setter
    def logits_name(self, value: str) -> None: ...
    @property
    def attention_mask_name(self) -> str:
        """The graph input of the mask, when there is one of this name."""
    @attention_mask_name.setter
    def attention_mask_name(self, value: str) -> None: ...
    @property
    def position_ids_name(self) -> str:
        """The graph input of the positions, when there is one of this name."""
    @position_ids_name.setter
    def position_ids_name(self, value: str) -> None: ...
    @property
    def top_k(self) -> int | None:
        """Draws are among so many of the most probable tokens; equal ones count by their number."""
    @top_k.setter
    def top_k(self, value: int | None) -> None: ...
    @property
    def top_p(self) -> float | None:
        """Draws are among the most probable tokens that together have this probability, in (0, 1]."""
    @top_p.setter
    def top_p(self, value: float | None) -> None: ...
    @property
    def min_p(self) -> float | None:
        """Draws are among tokens at least this many times as probable as the most probable one."""
    @min_p.setter
    def min_p(self, value: float | None) -> None: ...
    @property
    def repetition_penalty(self) -> float:
        """Divides positive and multiplies negative logits of tokens that stand in the row."""
    @repetition_penalty.setter
    def repetition_penalty(self, value: float) -> None: ...
    @property
    def presence_penalty(self) -> float:
        """Subtracted from the logits of tokens that this call has generated in the row."""
    @presence_penalty.setter
    def presence_penalty(self, value: float) -> None: ...
    @property
    def frequency_penalty(self) -> float:
        """The same, as many times as the token was generated."""
    @frequency_penalty.setter
    def frequency_penalty(self, value: float) -> None: ...
    @property
    def logit_bias(self) -> dict[int, float]:
        """Added to the logits of single tokens; negative infinity forbids one."""
    @logit_bias.setter
    def logit_bias(self, value: Mapping[int, float]) -> None: ...
    @property
    def bad_words(self) -> list[list[int]]:
        """Sequences of tokens that are not generated."""
    @bad_words.setter
    def bad_words(self, value: Sequence[Sequence[int]]) -> None: ...
    @property
    def stop_token_ids(self) -> list[int]:
        """More tokens that end their row."""
    @stop_token_ids.setter
    def stop_token_ids(self, value: Sequence[int]) -> None: ...
    @property
    def stop_sequences(self) -> list[list[int]]:
        """Sequences of generated tokens that end their row."""
    @stop_sequences.setter
    def stop_sequences(self, value: Sequence[Sequence[int]]) -> None: ...
    @property
    def min_new_tokens(self) -> int:
        """Tokens that end a row are forbidden before so many were generated."""
    @min_new_tokens.setter
    def min_new_tokens(self, value: int) -> None: ...
    @property
    def max_length(self) -> int | None:
        """Most tokens that a row may have, prompt included."""
    @max_length.setter
    def max_length(self, value: int | None) -> None: ...
    @property
    def num_return_sequences(self) -> int:
        """Sequences for each prompt, from one evaluation of it; of beams, the best ones."""
    @num_return_sequences.setter
    def num_return_sequences(self, value: int) -> None: ...
    @property
    def num_beams(self) -> int:
        """Width of a beam search; 1: none."""
    @num_beams.setter
    def num_beams(self, value: int) -> None: ...
    @property
    def length_penalty(self) -> float:
        """Beams are ranked by log-probability over new length to this power."""
    @length_penalty.setter
    def length_penalty(self, value: float) -> None: ...
    @property
    def log_probabilities(self) -> bool:
        """Whether log-probabilities are told: of the model's own distribution."""
    @log_probabilities.setter
    def log_probabilities(self, value: bool) -> None: ...
    @property
    def prefill_chunk(self) -> int | None:
        """Prompts are evaluated in pieces of at most so many tokens (models with bindings)."""
    @prefill_chunk.setter
    def prefill_chunk(self, value: int | None) -> None: ...
    @property
    def drop_finished(self) -> bool:
        """Whether a `Generator` lets rows go that have ended, so that they cost nothing."""
    @drop_finished.setter
    def drop_finished(self, value: bool) -> None: ...
    @property
    def first_row(self) -> int:
        """The number of the first row in the random stream, for parts of a batch."""
    @first_row.setter
    def first_row(self, value: int) -> None: ...
    @property
    def batch_axes(self) -> dict[str, int | None]:
        """Which axis of each retained value is the batch, where declarations do not tell."""
    @batch_axes.setter
    def batch_axes(self, value: Mapping[str, int | None]) -> None: ...

@final
class GeneratedToken:
    """A token that was generated. Made by a `Generator`."""

    @property
    def sequence(self) -> int:
        """Which sequence it belongs to, in the order of the results."""
    @property
    def token(self) -> int:
        """The token."""
    @property
    def log_probability(self) -> float | None:
        """Its log-probability, when it was asked for."""
    @property
    def finish_reason(self) -> str | None:
        """Why the sequence ends with it (`"eos"`, `"stop"`, `"length"`), when it does."""

@final
class Generation:
    """What one call has generated, one entry a sequence: row by row, and of beams the best first."""

    @property
    def tokens(self) -> list[list[int]]:
        """The new tokens of each sequence; one that ended it is among them."""
    @property
    def rows(self) -> list[int]:
        """The row of the prompts that each sequence continues."""
    @property
    def finish_reasons(self) -> list[str]:
        """`"eos"`, `"stop"`, `"length"`, `"interrupted"` (Ctrl-C) or `"cancelled"`, of each sequence."""
    @property
    def log_probabilities(self) -> list[list[float]] | None:
        """The log-probability of each token, when they were asked for."""
    @property
    def scores(self) -> list[float] | None:
        """What each sequence was ranked by; beams only."""
    def __len__(self) -> int:
        """Return the number of sequences."""

@final
class TokenStream:
    """Tokens one by one, as `Generator.stream` makes them. The next call of the generator ends it."""

    def __iter__(self) -> Self:
        """Return itself."""
    def __next__(self) -> GeneratedToken:
        """Return the next token.

        Raises
        ------
        StopIteration
            When every sequence has ended, the completion was cancelled, or the generator was called otherwise.
        """
    def close(self) -> None:
        """End the call where it is; the generator keeps what was generated."""

@final
class Generator:
    """Generates in turns: append tokens, generate, append more, go back, fork.

    It keeps the tokens of its rows and, for a model with bindings, the state that has seen them, so that each token is
    evaluated once. A call that fails or is stopped leaves the tokens that it has generated; the next one goes on.

    Parameters
    ----------
    model : model-like
        As for `refeed.load`.
    options : GenerationOptions, optional
        Options of calls that bring none, and the names of the inputs.
    initial : mapping of str to value, optional
        Initial values of bound inputs; the others are made empty. A prefix that they hold is continued.
    feeds : mapping of str to value, optional
        What else the model is fed, the same at every step.
    later_feeds : mapping of str to value, optional
        What replaces `feeds` of the same names once the model has run: switches of merged decoders.
    context : RuntimeContext, optional
        What the runs share.
    session_options : RuntimeSessionOptions, optional
        Settings of the session or state.

    Raises
    ------
    ValueTypeError
        When the model has not the inputs and outputs that the options name, or a feed is unknown or made by the
        generator.
    ModelError
        When the model cannot be compiled.
    """

    def __new__(
        cls,
        model: _ModelLike,
        options: GenerationOptions | None = None,
        *,
        initial: Mapping[str, _Value] | None = None,
        feeds: Mapping[str, _Value] | None = None,
        later_feeds: Mapping[str, _Value] | None = None,
        context: RuntimeContext | None = None,
        session_options: RuntimeSessionOptions | None = None,
    ) -> Self: ...
    def append(self, tokens: Sequence[int] | Sequence[Sequence[int]] | np.ndarray[Any, Any]) -> None:
        """Add tokens: the prompts of a batch at first, later the next turn of a single row.

        Nothing is evaluated yet. Prompts of unequal length are padded on the left where a mask hides that from the
        model; otherwise each row has a state of its own and is run by itself.

        Raises
        ------
        ValueTypeError
            When there is no token, one is negative, or rows cannot be added as they are.
        """
    def generate(
        self,
        options: GenerationOptions | None = None,
        *,
        callback: Callable[[GeneratedToken], Any] | None = None,
        completion: TaskCompletion | None = None,
        **fields: Any,
    ) -> Generation:
        """Generate until every sequence has ended. After Ctrl-C, return what there is.

        Parameters
        ----------
        options : GenerationOptions, optional
            Those of the generator by default.
        callback : function of GeneratedToken, optional
            Sees each token at once, but those of beams; returning anything false but None stops.
        completion : TaskCompletion, optional
            Cancels the call from another thread, or before it, which then returns what there is.
        **fields
            Options that differ from `options`.

        Raises
        ------
        ValueTypeError
            When there are no tokens, an option means nothing or does not fit, or the logits choose no token.
        KernelError
            When a node fails.
        """
    def stream(
        self,
        options: GenerationOptions | None = None,
        *,
        completion: TaskCompletion | None = None,
        **fields: Any,
    ) -> TokenStream:
        """Return an iterator that makes a step whenever the next token is asked for. Arguments as for `generate`."""
    def prefill(self, completion: TaskCompletion | None = None) -> None:
        """Evaluate what was appended, so that the next call begins with a token at once."""
    @property
    def tokens(self) -> list[list[int]]:
        """All tokens of each row, without padding."""
    @property
    def length(self) -> int:
        """The number of tokens of the longest row, with the padding that it is fed with."""
    @property
    def turns(self) -> list[int]:
        """The number of tokens before each `append`."""
    def rewind(self, turn: int) -> None:
        """Go back to before `append` number `turn`; negative numbers count from the end.

        Raises
        ------
        IndexError
            When there is no such turn.
        """
    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens of the one row that there is."""
    def fork(self, row: int | None = None) -> Generator:
        """Return a second generator that goes its own way from here, with all rows or one, which is row 0 there."""
    def reset(self) -> None:
        """Forget all tokens."""
    def explain(self) -> Explanation | None:
        """Tell what the last step did for each binding; None without bindings or before the first tokens."""
    @property
    def values(self) -> dict[str, Any]:
        """The retained values by input name: shared views. Where rows run one by one, those of the first."""
    @property
    def live_bytes(self) -> int:
        """Bytes that tensors of the model's runs have in use, those of forks included."""
    @property
    def model(self) -> Model:
        """The model."""
    @property
    def options(self) -> GenerationOptions:
        """A copy of the options of calls that bring none."""

def generate(
    model: _ModelLike,
    context: RuntimeContext,
    feeds: Mapping[str, _Value],
    options: GenerationOptions | None = None,
    session_options: RuntimeSessionOptions | None = None,
    *,
    completion: TaskCompletion | None = None,
) -> Tensor:
    """Continue prompts with the tokens that a model predicts.

    Models without bindings see the whole growing prefix at every step. Models with bindings get a fresh state: feeds of
    bound inputs are its initial values and must be an empty prefix; the prompt is evaluated once, then one token a
    step. A declared mask and declared positions of INT64 are made when they are not fed, and extended; every other feed
    stays as it is.

    Parameters
    ----------
    model : model-like
        As for `refeed.load`; its logits are FLOAT, DOUBLE, FLOAT16 or BFLOAT16 `[batch, length, vocabulary]`, of which
        the last position counts, or `[batch, vocabulary]`.
    context : RuntimeContext
        Allocators, kernels and events of the runs.
    feeds : mapping of str to value
        The prompt, INT64 `[batch, length]`, unpadded or padded on the left, and what else the model needs.
    options : GenerationOptions, optional
        Settings.
    session_options : RuntimeSessionOptions, optional
        Settings of the session or state.
    completion : TaskCompletion, optional
        Cancels the call from another thread, which then returns what there is.

    Returns
    -------
    Tensor
        INT64 `[rows, length + generated]`, the prompt included, named as the token input. After Ctrl-C, what there is.

    Raises
    ------
    ValueTypeError
        When an option, a feed or the model is not what it must be, or the logits choose no token.
    ModelError
        When the model cannot be compiled.
    KernelError
        When a node fails.
    """

def empty_caches(
    model: _ModelLike, batch: int | None = None, input_ids_name: str = "input_ids"
) -> dict[str, Tensor | PagedCacheProto | list[Any]]:
    """Make the initial values of all bound inputs from their declared types: zeros, with nothing in what grows.

    Known extents are taken, also those that only the operators behind the bound output tell (a head size that the model
    declares by a name). The first extent is `batch` where nothing says it, and so is the symbol of the first axis of
    the token ids wherever it stands; every other symbol is 0. Inputs that a paged-cache initializer gives are left out.

    Parameters
    ----------
    model : model-like
        A model with bindings.
    batch : int, optional
        1 by default.
    input_ids_name : str
        The graph input of the token ids.

    Raises
    ------
    ValueTypeError
        When an input declares no shape or element type, or is of a kind without an empty form.
    """

_FormatSelector: TypeAlias = Callable[[Tensor, Tensor, int], PageFormat | tuple[PageFormat, PageFormat] | None]

@final
class PageFormat:
    """How the keys or the values of new pages are kept.

    Codes stand for ``(code - zero_point) * scale``; FLOAT, FLOAT16 and BFLOAT16 have scale 1 and zero point 0.

    Example:
        >>> from refeed.onnx import TensorProto
        >>> PageFormat(TensorProto.INT8, scale=1 / 64)
        PageFormat(INT8, scale=0.015625, zero_point=0)
    """

    def __new__(cls, storage_type: int = 1, scale: float = 1.0, zero_point: int = 0) -> Self:
        """A format.

        Args:
            storage_type: FLOAT, FLOAT16, BFLOAT16, INT8, UINT8, INT4, UINT4, INT2 or UINT2, by their numbers in
                `TensorProto`.
            scale: what one step of the codes is worth.
            zero_point: the code that stands for 0.

        Raises:
            ValueTypeError: another element type, a scale that is not positive and finite, a zero point that is no code,
                or a dense format with a scale or zero point of its own.
        """

    @property
    def storage_type(self) -> int:
        """The number of the element type."""

    @property
    def scale(self) -> float:
        """What one step of the codes is worth."""

    @property
    def zero_point(self) -> int:
        """The code that stands for 0."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class PagedStatistics:
    """What an execution of ``ai.rt::PagedAttention`` cost, or several together."""

    @property
    def copied_bytes(self) -> int:
        """Payload bytes of new pages: what was copied or converted."""

    @property
    def dequantized_bytes(self) -> int:
        """FLOAT bytes of the quantised keys and values of every visible token, for each query row and query
        head. Defined, not measured.
        """

    @property
    def peak_workspace_bytes(self) -> int:
        """Bytes of one double a value column. Defined, not measured; of several executions, the most."""

    @property
    def validated_pages(self) -> int:
        """Pages held to the rules for the first time; those that an earlier execution checked do not count."""

    @property
    def decoded_bytes(self) -> int:
        """FLOAT bytes of codes that were computed with, once for all query rows and heads that share them."""

    @property
    def tile_bytes(self) -> int:
        """Bytes that one task of the computation works in; of several executions, the most."""

    def as_dict(self) -> dict[str, int]:
        """All counts by name."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class PagedAttention:
    """The kernel of ``ai.rt::PagedAttention``: attention to a cache in pages and to new tokens, which become further
    pages.

    It is opt-in: `register` makes it known to the process or to a context; or it is called without a model.

    Example:
        >>> import numpy as np
        >>> from refeed.onnx import PagedCacheProto
        >>> kernel = PagedAttention()
        >>> one = np.ones((1, 1, 1, 4), np.float32)
        >>> y, cache, statistics = kernel(one, one, one, PagedCacheProto())
        >>> len(cache.blocks), statistics.copied_bytes
        (1, 32)
    """

    def __new__(
        cls,
        *,
        format_selector: _FormatSelector | None = None,
        partial_blocks: str = "sealed",
        query_precision: str = "full",
    ) -> Self:
        """A kernel.

        Args:
            format_selector: called in every execution that has new tokens, with the new keys, the new values and the
                number of tokens before them; returns how the new pages are kept: a format for both, one for keys and
                one for values, or None for FLOAT. Without it pages are FLOAT.
            partial_blocks: ``"sealed"``: a page is never extended; ``"fill"``: new tokens of the same format go behind
                the tokens of a last page that has less than ``block_size``.
            query_precision: ``"full"``: codes are multiplied as exactly as FLOAT; ``"int8"``: by queries of 8 bits and
                weights of 16, where the processor has AVX-512 VNNI. Pages of FLOAT, FLOAT16 and BFLOAT16 are as exact
                with either.

        Raises:
            ValueTypeError: another word for ``partial_blocks`` or ``query_precision``.
            TypeError: a selector that cannot be called.
        """

    def register(self, context: RuntimeContext | None = None) -> None:
        """Make it the kernel of the operator, for the calls with a context or for the whole process.

        `unregister_custom_kernel` undoes it, with domain ``"ai.rt"`` and operator ``"PagedAttention"``.
        """

    def __call__(
        self,
        q: _TensorLike,
        k: _TensorLike,
        v: _TensorLike,
        past: PagedCacheProto | dict[str, Any],
        *,
        block_size: int | None = None,
        max_tokens: int | None = None,
        is_causal: bool = True,
        left_window_size: int = -1,
    ) -> tuple[Tensor, PagedCacheProto, PagedStatistics]:
        """Compute without a model.

        Args:
            q: ``[batch, query_heads, length, head_size]`` of FLOAT, FLOAT16 or BFLOAT16.
            k: ``[batch, kv_heads, length, head_size]`` of the same type.
            v: ``[batch, kv_heads, length, value_size]`` of the same type.
            past: the cache so far; ``PagedCacheProto()`` at the start.
            block_size: most rows of a page; 16 by default.
            max_tokens: most tokens of the cache; 4096 by default.
            is_causal: whether a query sees no later token.
            left_window_size: how many tokens before its own a query sees; -1 for all.

        Returns:
            The result ``[batch, query_heads, length, value_size]`` of ``q``'s type, the cache with the new pages, and
            what it cost.

        Raises:
            ValueTypeError: an input that breaks a rule; the message names the page and the field.
        """

    def statistics(self) -> PagedStatistics:
        """Those of the last execution that succeeded, by any kernel of this registration."""

    def total_statistics(self) -> PagedStatistics:
        """Those of all executions together."""

def register_paged_attention(
    context: RuntimeContext | None = None,
    *,
    format_selector: _FormatSelector | None = None,
    partial_blocks: str = "sealed",
    query_precision: str = "full",
) -> PagedAttention:
    """Make `PagedAttention` the kernel of ``ai.rt::PagedAttention``, for the calls with a context or for the whole
    process.

    Args:
        context: whose calls use it; None: sessions and states that are made from now on, and those that lack a kernel.
        format_selector: as for `PagedAttention`.
        partial_blocks: as for `PagedAttention`.
        query_precision: as for `PagedAttention`.

    Returns:
        The kernel, whose ``statistics()`` tell what executions cost.
    """
