"""What a call of a model does: tensors, sessions, states, contexts, events."""

import atexit
import enum
from collections.abc import Iterable
from typing import Any

from refeed._native import (
    AppendReservation,
    AttentionForm,
    BindingReport,
    Checkpoint,
    ExecutionArena,
    Explanation,
    GeneratedToken,
    Generation,
    GenerationOptions,
    Generator,
    IOArena,
    KernelContext,
    KernelInvocation,
    OpsetId,
    PagedAttention,
    PagedStatistics,
    PageFormat,
    PersistentValueState,
    RawBufferAllocator,
    RuntimeContext,
    RuntimeContextOptions,
    RuntimeEvent,
    RuntimeSession,
    RuntimeSessionOptions,
    SharedQuantizedValue,
    SimpleRawBufferAllocator,
    StringTensor,
    TaskCompletion,
    Tensor,
    TokenStream,
    add_quantization_parameters,
    check_paged_cache,
    clear_custom_kernels,
    default_opset,
    dequantize_tensor,
    empty_caches,
    generate,
    make_affine_quantization_type,
    make_shared_quantization_type,
    materialize_quantized_value,
    quantize_tensor_shared,
    register_custom_kernel,
    register_paged_attention,
    tensor_from_numpy,
    tensor_from_proto,
    tensor_to_numpy,
    tensor_to_proto,
    unregister_custom_kernel,
)
from refeed.cache_report import CacheReport, PageReport, cache_report
from refeed.calibration import AttentionError, CacheCalibration, PartCalibration, calibrate_cache
from refeed.errors import ValueTypeError

__all__ = [
    "AppendReservation",
    "AttentionError",
    "AttentionForm",
    "BindingReport",
    "CacheCalibration",
    "CacheReport",
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
    "OpsetId",
    "PageFormat",
    "PageReport",
    "PagedAttention",
    "PagedStatistics",
    "PartCalibration",
    "PersistentValueState",
    "RawBufferAllocator",
    "RuntimeContext",
    "RuntimeContextOptions",
    "RuntimeEvent",
    "RuntimeEventAction",
    "RuntimeSession",
    "RuntimeSessionOptions",
    "SharedQuantizedValue",
    "SimpleRawBufferAllocator",
    "StringTensor",
    "TaskCompletion",
    "TaskStatus",
    "Tensor",
    "TokenStream",
    "add_quantization_parameters",
    "cache_report",
    "calibrate_cache",
    "check_paged_cache",
    "clear_custom_kernels",
    "default_opset",
    "dequantize_tensor",
    "empty_caches",
    "generate",
    "make_affine_quantization_type",
    "make_shared_quantization_type",
    "materialize_quantized_value",
    "quantize_tensor_shared",
    "register_custom_kernel",
    "register_paged_attention",
    "run_model",
    "tensor_from_numpy",
    "tensor_from_proto",
    "tensor_to_numpy",
    "tensor_to_proto",
    "unregister_custom_kernel",
]


class RuntimeEventAction(enum.IntEnum):
    """What an event is about."""

    kAdd = 0  # noqa: N815
    kReplace = 1  # noqa: N815
    kRemove = 2  # noqa: N815
    kRunNode = 3  # noqa: N815
    kPersistentStorage = 4  # noqa: N815


class TaskStatus(enum.IntEnum):
    """Where a `TaskCompletion` stands. There is no 3 (failed): a run that fails leaves its completion pending."""

    kPending = 0  # noqa: N815
    kRunning = 1  # noqa: N815
    kSucceeded = 2  # noqa: N815
    kCancelled = 4  # noqa: N815


# Kernels of the process are functions of Python, which must go before the interpreter does.
atexit.register(clear_custom_kernels)


def run_model(model: Any, inputs: Iterable[Tensor], verbose: int = 0) -> list[Tensor]:
    """Run a model once, without any state.

    Parameters
    ----------
    model : model-like
        As for `refeed.load`. It is compiled for this one run; a `RuntimeSession` keeps what was compiled.
    inputs : iterable of Tensor
        One tensor an input, found by its name.
    verbose : int
        Only 0.

    Returns
    -------
    list of Tensor
        The graph outputs, in the graph's order.

    Raises
    ------
    ValueTypeError
        When two tensors have one name, a name is no graph input, or an input is missing or contradicts its declaration.
    ModelError
        When the model cannot be compiled.
    KernelError
        When a node fails.
    """
    if verbose != 0:
        raise ValueTypeError(f"verbose: expected 0, got {verbose}")
    feeds: dict[str, Tensor] = {}
    for tensor in inputs:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"inputs: expected Tensors, got {type(tensor).__name__}")
        if tensor.name in feeds:
            raise ValueTypeError(f"inputs: two tensors are named `{tensor.name}`")
        feeds[tensor.name] = tensor
    return list(RuntimeSession(model).run(feeds).values())
