"""Stateful ONNX inference on CPU.

An ONNX file that is run step by step has outputs that are the next call's inputs: KV caches, recurrent states, filter
states. A *persistent binding* in the graph says which output feeds which input, and a `PersistentValueState` keeps the
value between calls: caches are appended to in place, and an output that somebody still holds never changes.

Examples
--------
>>> model = refeed.load("decoder.onnx")                                        # doctest: +SKIP
>>> model, report = refeed.bind(model, patterns="known", uses="any")           # doctest: +SKIP
>>> state = refeed.PersistentValueState(model, initial)                        # doctest: +SKIP
>>> logits = state.run({"input_ids": ids})["logits"]                           # doctest: +SKIP
"""

from refeed import onnx, runtime, text
from refeed._native import (
    Binding,
    BindReport,
    BoundPair,
    Model,
    OperatorUse,
    ValueInfo,
    __version__,
    bind,
    known_schemes,
    load,
)
from refeed.errors import (
    CancelledError,
    CompletionError,
    CopyWarning,
    DecodeError,
    DuplicateValueError,
    EncodeError,
    Error,
    InferenceError,
    InternalError,
    KernelError,
    KernelValueError,
    MissingValueError,
    ModelError,
    ParseError,
    PrintError,
    StateBusyError,
    StateClosedError,
    StateFileError,
    SymbolWarning,
    ValidationError,
    ValueTypeError,
)
from refeed.generation import generate
from refeed.paging import PagedCache, PagingReport, page
from refeed.runtime import (
    GenerationOptions,
    Generator,
    PersistentValueState,
    RuntimeContext,
    RuntimeSession,
    RuntimeSessionOptions,
    Tensor,
)

__all__ = [
    "BindReport",
    "Binding",
    "BoundPair",
    "CancelledError",
    "CompletionError",
    "CopyWarning",
    "DecodeError",
    "DuplicateValueError",
    "EncodeError",
    "Error",
    "GenerationOptions",
    "Generator",
    "InferenceError",
    "InternalError",
    "KernelError",
    "KernelValueError",
    "MissingValueError",
    "Model",
    "ModelError",
    "OperatorUse",
    "PagedCache",
    "PagingReport",
    "ParseError",
    "PersistentValueState",
    "PrintError",
    "RuntimeContext",
    "RuntimeSession",
    "RuntimeSessionOptions",
    "StateBusyError",
    "StateClosedError",
    "StateFileError",
    "SymbolWarning",
    "Tensor",
    "ValidationError",
    "ValueInfo",
    "ValueTypeError",
    "__version__",
    "bind",
    "generate",
    "known_schemes",
    "load",
    "onnx",
    "page",
    "runtime",
    "text",
]
