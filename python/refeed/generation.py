"""Generation in one call."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

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
from refeed.text import GeneratedText, ModelSettings, TextGenerator, Tokenizer
from refeed.text.settings_file import model_file

__all__ = ["generate"]


@overload
def generate(
    model: "Model | bytes | str | os.PathLike[str] | Any",
    prompt: str,
    options: GenerationOptions | None = None,
    *,
    settings: ModelSettings | None = None,
    tokenizer: "Tokenizer | str | os.PathLike[str] | None" = None,
    initial: Mapping[str, Any] | None = None,
    feeds: Mapping[str, Any] | None = None,
    later_feeds: Mapping[str, Any] | None = None,
    context: RuntimeContext | None = None,
    session_options: RuntimeSessionOptions | None = None,
    callback: Callable[[GeneratedToken], Any] | None = None,
    completion: TaskCompletion | None = None,
    **fields: Any,
) -> GeneratedText: ...


@overload
def generate(
    model: "Model | bytes | str | os.PathLike[str] | Any",
    prompt: Sequence[int] | Sequence[Sequence[int]] | np.ndarray[Any, Any],
    options: GenerationOptions | None = None,
    *,
    settings: ModelSettings | None = None,
    tokenizer: "Tokenizer | str | os.PathLike[str] | None" = None,
    initial: Mapping[str, Any] | None = None,
    feeds: Mapping[str, Any] | None = None,
    later_feeds: Mapping[str, Any] | None = None,
    context: RuntimeContext | None = None,
    session_options: RuntimeSessionOptions | None = None,
    callback: Callable[[GeneratedToken], Any] | None = None,
    completion: TaskCompletion | None = None,
    **fields: Any,
) -> Generation: ...


def generate(
    model: "Model | bytes | str | os.PathLike[str] | Any",
    prompt: str | Sequence[int] | Sequence[Sequence[int]] | np.ndarray[Any, Any],
    options: GenerationOptions | None = None,
    *,
    settings: ModelSettings | None = None,
    tokenizer: "Tokenizer | str | os.PathLike[str] | None" = None,
    initial: Mapping[str, Any] | None = None,
    feeds: Mapping[str, Any] | None = None,
    later_feeds: Mapping[str, Any] | None = None,
    context: RuntimeContext | None = None,
    session_options: RuntimeSessionOptions | None = None,
    callback: Callable[[GeneratedToken], Any] | None = None,
    completion: TaskCompletion | None = None,
    **fields: Any,
) -> Generation | GeneratedText:
    """Generate continuations of prompts.

    A `Generator` that lives for one call: prompts may be of unequal length, initial caches are made, and rows that have
    ended cost nothing where no other input has a batch axis. `refeed.runtime.generate` is the same with feeds in and a
    tensor out.

    Parameters
    ----------
    model : model-like
        As for `refeed.load`, or the folder of a `model.onnx`. Nothing is bound by name: `refeed.bind` does that.
    prompt : str, sequence of int, or sequence of such
        A text, the token ids of one prompt, or those of a batch.
    options : GenerationOptions, optional
        Settings, in place of all that files say.
    settings : ModelSettings, optional
        What options are by default: where `model` is a path, what `generation_config.json` and `genai_config.json`
        beside it say. `ModelSettings()` says nothing. Texts that end a sequence count for a text only.
    tokenizer : Tokenizer or path-like, optional
        Of a text: as for `refeed.text.TextGenerator`.
    initial, feeds, later_feeds, context, session_options
        As for `Generator`.
    callback, completion
        As for `Generator.generate`.
    **fields
        Options that differ from `options`.

    Returns
    -------
    Generation, or GeneratedText for a text
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
    >>> refeed.generate(model, "Once upon", tokenizer="decoder").text    # doctest: +SKIP
    ' a time'
    """
    if isinstance(prompt, bytes | bytearray):
        raise TypeError(f"prompt: expected a str or token ids, got {type(prompt)}")
    if options is not None and not isinstance(options, GenerationOptions):
        raise TypeError(f"options: expected GenerationOptions, got {type(options)}")
    common: dict[str, Any] = {
        "initial": initial,
        "feeds": feeds,
        "later_feeds": later_feeds,
        "context": context,
        "session_options": session_options,
    }
    if isinstance(prompt, str):
        text = TextGenerator(model, options, tokenizer=tokenizer, settings=settings, **common, **fields)
        text.append(prompt)
        return text.generate(callback=callback, completion=completion)
    if isinstance(model, str | os.PathLike):
        model = model_file(model)
        settings = ModelSettings.beside(model) if settings is None else settings
    said = (settings or ModelSettings()).options(**fields) if options is None else options.replace(**fields)
    generator = Generator(model, said, **common)
    generator.append(prompt)
    return generator.generate(callback=callback, completion=completion)
