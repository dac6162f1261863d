"""`ReferenceEvaluator`: NumPy in, NumPy out, as in the `onnx` package."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

import refeed
from refeed._native import (
    GenerationOptions,
    KernelInvocation,
    Model,
    RawBufferAllocator,
    RuntimeContext,
    RuntimeEvent,
    RuntimeSession,
    generate,
    load,
    register_custom_kernel,
    unregister_custom_kernel,
)
from refeed.onnx.messages import NodeProto

__all__ = ["ReferenceEvaluator"]

Kernel: TypeAlias = Callable[..., Any]


class ReferenceEvaluator:
    """Runs a model without any state.

    Parameters
    ----------
    proto : Model, onnx.ModelProto, bytes, str or os.PathLike
        The model.
    verbose : int
        Only 0.
    events_enabled : bool
        Whether storage events are recorded; `events` returns them.
    allocator : RawBufferAllocator, optional
        Where runs take memory for intermediate values.
    io_allocator : RawBufferAllocator, optional
        Where runs take memory for outputs.

    Raises
    ------
    refeed.ModelError
        When the model is broken or has a node that refeed cannot compute.
    TypeError
        When `proto` is no model.
    """

    def __init__(
        self,
        proto: "Model | bytes | str | os.PathLike[str] | Any",
        *,
        verbose: int = 0,
        events_enabled: bool = False,
        allocator: RawBufferAllocator | None = None,
        io_allocator: RawBufferAllocator | None = None,
    ) -> None:
        self._model = load(proto)
        self._context = RuntimeContext(
            events_enabled=events_enabled, verbose=verbose, allocator=allocator, io_allocator=io_allocator
        )
        self._session = RuntimeSession(self._model, context=self._context)
        self._outputs = [value.name for value in self._model.outputs]
        given = set(self._model.initializer_names)
        self._inputs = [value.name for value in self._model.inputs if value.name not in given]

    @property
    def input_names(self) -> list[str]:
        """Names of the graph inputs that must be fed."""
        return list(self._inputs)

    @property
    def output_names(self) -> list[str]:
        """Names of the graph outputs."""
        return list(self._outputs)

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Run the graph once.

        Parameters
        ----------
        output_names : sequence of str or None
            The outputs wanted, in this order; None for all, in the graph's order.
        feeds : mapping of str to array
            One array an input, a list for a sequence, a dictionary for a structured value, None for an
            empty optional value. Arrays that are not contiguous or not in native byte order are copied.

        Returns
        -------
        list of numpy.ndarray
            Read-only views of the results, BFLOAT16 and FLOAT8 as `ml_dtypes`; lists and dictionaries of such.

        Raises
        ------
        refeed.ValueTypeError
            When a feed or an output is unknown, a feed is missing, or one contradicts its declaration.
        refeed.KernelError
            When a node fails.
        """
        if isinstance(output_names, str):
            raise TypeError(f"output_names: expected a list of names or None, got the name `{output_names}`")
        if not isinstance(feeds, Mapping):
            raise TypeError(f"feeds: expected a mapping from names to arrays, got {type(feeds).__name__}")
        wanted = self._outputs if output_names is None else list(output_names)
        for name in wanted:
            if name not in self._outputs:
                known = ", ".join(self._outputs)
                raise refeed.ValueTypeError(f"unknown graph output `{name}`: expected one of {known}")
        given = {name: _plain(value) for name, value in feeds.items() if value is not None}
        results = self._session.run(given, self._context)
        return [_arrays(results[name]) for name in wanted]

    def generate(
        self,
        feeds: Mapping[str, Any],
        max_new_tokens: int = 20,
        temperature: float = 0.0,
        seed: int | None = None,
        eos_token_id: int | None = None,
        pad_token_id: int | None = None,
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Continue prompts with the tokens that the model predicts.

        The loop is that of `refeed.runtime.generate`, which tells what the model may look like. Each call has a state
        of its own; the model and `feeds` stay as they are.

        Parameters
        ----------
        feeds : mapping of str to array
            The prompt, INT64 `[batch, length]`, as `input_ids`; initial empty values of bound inputs; what else the
            model needs, the same at every step. `attention_mask` and `position_ids` are made where they are not given.
        max_new_tokens : int
            Most tokens that are added to a row.
        temperature : float
            0: the most probable token. Positive: a draw from ``softmax(logits / temperature)``.
        seed : int, optional
            Makes draws repeatable.
        eos_token_id : int, optional
            A token that ends its row.
        pad_token_id : int, optional
            What rows that have ended are filled with; `eos_token_id` when absent.

        Returns
        -------
        numpy.ndarray
            INT64 `[batch, length + generated]`, the prompt included. After Ctrl-C, what there is.

        Raises
        ------
        refeed.ValueTypeError
            When an argument, a feed or the model is not what it must be.
        refeed.KernelError
            When a node fails.
        """
        if not isinstance(feeds, Mapping):
            raise TypeError(f"feeds: expected a mapping from names to arrays, got {type(feeds).__name__}")
        options = GenerationOptions(
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            seed=seed,
            eos_token_id=eos_token_id,
            pad_token_id=pad_token_id,
        )
        given = {name: _plain(value) for name, value in feeds.items() if value is not None}
        tokens: np.ndarray[Any, np.dtype[np.int64]] = generate(self._model, self._context, given, options).numpy()
        return tokens

    def events(self) -> list[RuntimeEvent]:
        """Return a copy of all events of earlier runs; always empty with events off."""
        return self._context.events()

    def register_custom_kernel(self, domain: str, op_type: str, fn: Kernel) -> None:
        """Make a function the kernel of an operator, for the runs of this evaluator.

        It comes before kernels that are registered for the whole process and before refeed's own; functions of the
        model and control flow come before it.

        Parameters
        ----------
        domain : str
            The operator's domain; ``"ai.onnx"`` is the same as ``""``.
        op_type : str
            The operator.
        fn : function of (node, *arrays)
            Gets the node's message and one array an input (None for one that is left out), and returns an array, or a
            tuple or list of one array for each output.

        Raises
        ------
        refeed.ValueTypeError
            When the operator has no name, or is control flow.
        TypeError
            When `fn` cannot be called.
        """
        self._context.register_custom_kernel(domain, op_type, _of_arrays(fn))

    def unregister_custom_kernel(self, domain: str, op_type: str) -> bool:
        """Forget a kernel of this evaluator; False when there is none."""
        return self._context.unregister_custom_kernel(domain, op_type)

    @staticmethod
    def register_custom_kernel_global(domain: str, op_type: str, fn: Kernel) -> None:
        """Make a function the kernel of an operator for the whole process.

        The arguments are those of `register_custom_kernel`. It is used by evaluators and sessions that are made from
        now on.
        """
        register_custom_kernel(domain, op_type, _of_arrays(fn))

    @staticmethod
    def unregister_custom_kernel_global(domain: str, op_type: str) -> bool:
        """Forget a kernel of the process; False when there is none."""
        return unregister_custom_kernel(domain, op_type)


def _of_arrays(fn: Kernel) -> Callable[[NodeProto, KernelInvocation], Any]:
    """Make a kernel of a function of arrays."""
    if not callable(fn):
        raise TypeError(f"fn: expected a function of a node and arrays, got {type(fn).__name__}")

    def kernel(node: NodeProto, invocation: KernelInvocation) -> Any:
        arrays = [None if value is None else _arrays(value) for value in invocation.inputs]
        results = fn(node, *arrays)
        if not isinstance(results, (tuple, list)):
            results = (results,)
        return tuple(_plain(result) for result in results)

    return kernel


def _arrays(value: Any) -> Any:
    """Show the tensors of a result as arrays."""
    if isinstance(value, list):
        return [_arrays(element) for element in value]
    if isinstance(value, dict):
        return {key: _arrays(field) for key, field in value.items()}
    return value.numpy()


def _plain(value: Any) -> Any:
    """Copy what refeed refuses only because of how it lies in memory."""
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {key: _plain(field) for key, field in value.items()}
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        if not value.dtype.isnative:
            value = value.astype(value.dtype.newbyteorder("="))
        if not value.flags.c_contiguous or not value.flags.aligned:
            value = value.copy(order="C")
    return value
