"""Greedy decoding of exported language models, with the caches kept in a state or carried by hand."""

import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from refeed import errors
from refeed._native import (
    Model,
    PersistentValueState,
    RuntimeContext,
    RuntimeSession,
    Tensor,
)
from refeed.runtime import RuntimeEventAction

__all__ = ["Counters", "Prompt", "Stateful", "Stateless", "Stepper", "decode", "shipped_model"]

_INT32, _INT64 = 6, 7


@dataclasses.dataclass
class Counters:
    """What steps cost, counted from events and explanations.

    Attributes
    ----------
    steps : int
        Calls counted.
    allocations, allocated_bytes, prefix_copied_bytes, append_copied_bytes, reuse_count : int
        Sums of the storage events' counters.
    rewritten : dict of str to int
        Bytes of caches that ordinary operators wrote again, by operator.
    rewritten_known : bool
        Whether `rewritten` was counted.
    """

    steps: int = 0
    allocations: int = 0
    allocated_bytes: int = 0
    prefix_copied_bytes: int = 0
    append_copied_bytes: int = 0
    reuse_count: int = 0
    rewritten: dict[str, int] = dataclasses.field(default_factory=dict)
    rewritten_known: bool = True

    def count(self, context: RuntimeContext) -> None:
        """Add the events of one call, and forget them."""
        self.steps += 1
        for event in context.events():
            if event.action == RuntimeEventAction.kPersistentStorage:
                self.allocations += event.storage_allocations
                self.allocated_bytes += event.storage_allocated_bytes
                self.prefix_copied_bytes += event.storage_prefix_copied_bytes
                self.append_copied_bytes += event.storage_append_copied_bytes
                self.reuse_count += event.storage_reuse_count
        context.clear_events()


class Stepper(Protocol):
    """Runs one step of a decoder and remembers its caches."""

    model: Model

    def step(self, feeds: Mapping[str, Any]) -> dict[str, Tensor]:
        """Run the model on current feeds."""

    def caches(self) -> dict[str, Tensor]:
        """Return the caches as they are now, by input name."""


class Stateful:
    """Steps of a `PersistentValueState`.

    Parameters
    ----------
    model : Model
        A model with bindings.
    initial : mapping of str to array
        Initial caches.
    counters : Counters, optional
        Where to count.
    context : RuntimeContext, optional
        What the calls share; without one, events are on when there are counters.
    """

    def __init__(
        self,
        model: Model,
        initial: Mapping[str, Any],
        counters: Counters | None = None,
        context: RuntimeContext | None = None,
    ) -> None:
        self.model = model
        self.state = PersistentValueState(model, initial)
        self.counters = counters
        self._context = context or RuntimeContext(events_enabled=counters is not None)

    def step(self, feeds: Mapping[str, Any]) -> dict[str, Tensor]:
        """Run the model on current feeds."""
        outputs = self.state.run(self._context, feeds)
        if self.counters is not None:
            self.counters.count(self._context)
            for op_type, written in self.state.explain().rewritten.items():
                self.counters.rewritten[op_type] = self.counters.rewritten.get(op_type, 0) + written
        return outputs

    def caches(self) -> dict[str, Tensor]:
        """Return the caches as they are now, by input name."""
        return self.state.values


class Stateless:
    """Steps of a `RuntimeSession` whose caches are fed by hand, as users of stateless runtimes do.

    Parameters
    ----------
    model : Model
        A model with bindings, which say what to carry.
    initial : mapping of str to array
        Initial caches.
    counters : Counters, optional
        Where to count; events are off without.
    """

    def __init__(self, model: Model, initial: Mapping[str, Any], counters: Counters | None = None) -> None:
        self.model = model
        self.session = RuntimeSession(model)
        self.counters = counters
        if counters is not None:
            counters.rewritten_known = False
        self._context = RuntimeContext(events_enabled=counters is not None)
        self._pairs = [(binding.input, binding.output) for binding in model.bindings]
        self._caches: dict[str, Any] = dict(initial)

    def step(self, feeds: Mapping[str, Any]) -> dict[str, Tensor]:
        """Run the model on current feeds and the caches of the last step."""
        outputs = self.session.run({**self._caches, **feeds}, self._context)
        self._caches = {name: outputs[output] for name, output in self._pairs}
        if self.counters is not None:
            self.counters.count(self._context)
        return outputs

    def caches(self) -> dict[str, Tensor]:
        """Return the caches as they are now, by input name."""
        return {name: value if isinstance(value, Tensor) else Tensor(value) for name, value in self._caches.items()}


class Prompt:
    """Makes the feeds of each step: token ids, and mask and positions where the model declares them.

    Parameters
    ----------
    model : Model
        A decoder with an input `input_ids` and an output `logits`.
    ids : sequence of int
        The prompt, one row.

    Raises
    ------
    refeed.ValueTypeError
        When the prompt is empty, or the model has no such input or output, or needs an input that cannot be made.
    """

    def __init__(self, model: Model, ids: Sequence[int]) -> None:
        if not ids:
            raise errors.ValueTypeError("prompt: expected at least one token id, got none")
        self.ids = list(ids)
        self._length = 0
        given = {binding.input for binding in model.bindings} | set(model.initializer_names)
        self._current = {value.name: value for value in model.inputs if value.name not in given}
        if "input_ids" not in self._current:
            raise errors.ValueTypeError(f"expected a graph input `input_ids`, got {', '.join(self._current)}")
        if all(value.name != "logits" for value in model.outputs):
            names = ", ".join(value.name for value in model.outputs)
            raise errors.ValueTypeError(f"expected a graph output `logits`, got {names}")
        for value in self._current.values():
            known = value.name in ("input_ids", "attention_mask", "position_ids")
            whole = value.data_type in (_INT32, _INT64) and value.shape is not None and len(value.shape) == 2
            if not known or not whole:
                raise errors.ValueTypeError(
                    f"input `{value.name}`: {value.type} cannot be made; only input_ids, attention_mask and "
                    "position_ids of INT64 or INT32 [batch, length] are"
                )

    def feeds(self, ids: Sequence[int]) -> dict[str, np.ndarray[Any, Any]]:
        """Return the feeds of a step that adds `ids` to the sequence."""
        start, self._length = self._length, self._length + len(ids)
        made = {
            "input_ids": np.array([ids], np.int64),
            "attention_mask": np.ones((1, self._length), np.int64),
            "position_ids": np.arange(start, self._length, dtype=np.int64)[None],
        }
        return {
            name: made[name].astype(np.int32 if value.data_type == _INT32 else np.int64, copy=False)
            for name, value in self._current.items()
        }


def decode(
    stepper: Stepper,
    ids: Sequence[int],
    max_new_tokens: int,
    eos_token_id: int | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[tuple[int, float]]:
    """Decode greedily: the most probable token each step.

    Parameters
    ----------
    stepper : Stepper
        A decoder with fresh caches.
    ids : sequence of int
        The prompt, one row; it is run in one step.
    max_new_tokens : int
        How many tokens to make.
    eos_token_id : int, optional
        A token that ends the sequence.
    clock : callable
        Gives seconds.

    Yields
    ------
    token : int
        The token.
    seconds : float
        Time of the step that made it.
    """
    prompt = Prompt(stepper.model, ids)
    current: Sequence[int] = prompt.ids
    for _ in range(max_new_tokens):
        feeds = prompt.feeds(current)
        start = clock()
        logits = stepper.step(feeds)["logits"]
        token = int(np.argmax(logits.numpy()[0, -1].astype(np.float32)))
        yield token, clock() - start
        if token == eos_token_id:
            return
        current = [token]


def shipped_model() -> str:
    """Return the path of the decoder that the package ships, with its tokenizer beside it."""
    return os.path.join(os.path.dirname(__file__), "data", "demo", "model.onnx")
