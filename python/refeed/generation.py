"""Text generation in one call."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from refeed._native import (
    GeneratedToken,
    Generation,
    GenerationOptions,
    Generator,
    Model,
    RuntimeContext,
    RuntimeSessionOptions,
    TaskCompletion,
)

__all__ = ["generate"]


def generate(
    model: "Model | bytes | str | os.PathLike[str] | Any",
    prompt: Sequence[int] | Sequence[Sequence[int]] | np.ndarray[Any, Any],
    options: GenerationOptions | None = None,
    *,
    initial: Mapping[str, Any] | None = None,
    feeds: Mapping[str, Any] | None = None,
    later_feeds: Mapping[str, Any] | None = None,
    context: RuntimeContext | None = None,
    session_options: RuntimeSessionOptions | None = None,
    callback: Callable[[GeneratedToken], Any] | None = None,
    completion: TaskCompletion | None = None,
    **fields: Any,
) -> Generation:
    """Generate continuations of prompts.

    A `Generator` that lives for one call: prompts may be of unequal length, initial caches are made, and rows that have
    ended cost nothing where no other input has a batch axis. `refeed.runtime.generate` is the same with feeds in and a
    tensor out.

    Parameters
    ----------
    model : model-like
        As for `refeed.load`. Nothing is bound by name: `refeed.bind` does that.
    prompt : sequence of int, or sequence of such
        Token ids of one prompt, or of a batch.
    options : GenerationOptions, optional
        Settings.
    initial, feeds, later_feeds, context, session_options
        As for `Generator`.
    callback, completion
        As for `Generator.generate`.
    **fields
        Options that differ from `options`.

    Returns
    -------
    Generation
        The new tokens. After Ctrl-C, what there is.

    Raises
    ------
    ValueTypeError
        When an option, a prompt, a feed or the model is not what it must be, or the logits choose no token.
    ModelError
        When the model cannot be compiled.
    KernelError
        When a node fails.

    Examples
    --------
    >>> refeed.generate(model, [1, 17, 42], max_new_tokens=3).tokens    # doctest: +SKIP
    [[99, 7, 5]]
    """
    settings = (options or GenerationOptions()).replace(**fields)
    generator = Generator(
        model,
        settings,
        initial=initial,
        feeds=feeds,
        later_feeds=later_feeds,
        context=context,
        session_options=session_options,
    )
    generator.append(prompt)
    return generator.generate(callback=callback, completion=completion)
