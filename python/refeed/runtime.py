"""What a call of a model does: tensors, sessions, states, contexts, events."""

import enum

from refeed._native import (
    BindingReport,
    Explanation,
    KernelContext,
    OpsetId,
    PersistentValueState,
    RuntimeContext,
    RuntimeEvent,
    RuntimeSession,
    RuntimeSessionOptions,
    Tensor,
    default_opset,
)

__all__ = [
    "BindingReport",
    "Explanation",
    "KernelContext",
    "OpsetId",
    "PersistentValueState",
    "RuntimeContext",
    "RuntimeEvent",
    "RuntimeEventAction",
    "RuntimeSession",
    "RuntimeSessionOptions",
    "Tensor",
    "default_opset",
]


class RuntimeEventAction(enum.IntEnum):
    """What an event is about."""

    kAdd = 0  # noqa: N815
    kReplace = 1  # noqa: N815
    kRemove = 2  # noqa: N815
    kRunNode = 3  # noqa: N815
    kPersistentStorage = 4  # noqa: N815
