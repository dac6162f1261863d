"""A generator that takes text and gives text."""

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from refeed._native import (
    GeneratedToken,
    GenerationOptions,
    Generator,
    Model,
    RuntimeContext,
    RuntimeSessionOptions,
    TaskCompletion,
)
from refeed.errors import ValueTypeError
from refeed.text.model_settings import ModelSettings
from refeed.text.settings_file import model_file
from refeed.text.text_stream import TextStream
from refeed.text.tokenizer import Tokenizer

__all__ = ["GeneratedText", "TextGenerator"]


@dataclasses.dataclass(frozen=True)
class GeneratedText:
    """A text that was generated.

    Attributes
    ----------
    text : str
        The new text, without what ended it.
    tokens : list of int
        Its tokens, with what ended it.
    finish_reason : str
        `eos`, `stop`, `length`, `interrupted` or `cancelled`.
    log_probabilities : list of float or None
        Those of the tokens, where the option asked for them.
    """

    text: str
    tokens: list[int]
    finish_reason: str
    log_probabilities: list[float] | None = None


class TextGenerator:
    """A `Generator` of one row that takes text and gives text.

    Options that nobody gives are those of `generation_config.json` and `genai_config.json` beside the model: whether
    and how tokens are drawn, limits, tokens and texts that end an answer.

    Parameters
    ----------
    model : model-like
        As for `refeed.load`, or the folder of a `model.onnx`. Nothing is bound by name: `refeed.bind` does that.
    options : GenerationOptions, optional
        Options of calls that bring none, in place of all that the files say.
    tokenizer : Tokenizer or path-like, optional
        The tokenizer, or the model's file or folder that it lies beside; needed where `model` is no path.
    settings : ModelSettings, optional
        Those beside the model by default, or beside the tokenizer's path.
    stop : str or sequence of str, optional
        Texts that end an answer, or the only one, in place of those of the files.
    initial, feeds, later_feeds, context, session_options
        As for `Generator`.
    **fields
        Options that differ.

    Attributes
    ----------
    generator : Generator
        What generates: it has `rewind`, `truncate`, `fork`, `tokens`.
    tokenizer : Tokenizer
        The tokenizer.
    stop : tuple of str
        Texts that end an answer.

    Raises
    ------
    ValueTypeError
        When no tokenizer is given and `model` is no path, or a file or option is not what it must be.
    FileNotFoundError
        When there is no `tokenizer.json`.

    Examples
    --------
    >>> model, _ = refeed.bind("decoder/model.onnx", patterns="known", uses="any")        # doctest: +SKIP
    >>> text = refeed.text.TextGenerator(model, tokenizer="decoder", max_new_tokens=50)   # doctest: +SKIP
    >>> text.append("Once upon a time")                                                   # doctest: +SKIP
    >>> for piece in text.stream():                                                       # doctest: +SKIP
    ...     print(piece, end="", flush=True)
    """

    def __init__(
        self,
        model: "Model | bytes | str | os.PathLike[str] | Any",
        options: GenerationOptions | None = None,
        *,
        tokenizer: "Tokenizer | str | os.PathLike[str] | None" = None,
        settings: ModelSettings | None = None,
        stop: str | Sequence[str] | None = None,
        initial: Mapping[str, Any] | None = None,
        feeds: Mapping[str, Any] | None = None,
        later_feeds: Mapping[str, Any] | None = None,
        context: RuntimeContext | None = None,
        session_options: RuntimeSessionOptions | None = None,
        **fields: Any,
    ) -> None:
        if tokenizer is not None and not isinstance(tokenizer, Tokenizer | str | os.PathLike):
            raise TypeError(f"tokenizer: expected a Tokenizer or a path, got {type(tokenizer)}")
        if options is not None and not isinstance(options, GenerationOptions):
            raise TypeError(f"options: expected GenerationOptions, got {type(options)}")
        place = tokenizer if isinstance(tokenizer, str | os.PathLike) else None
        if isinstance(model, str | os.PathLike):
            model = model_file(model)
            place = model if place is None else place
        if place is None and tokenizer is None:
            raise ValueTypeError("tokenizer: expected one, or a path of a model that it lies beside, got neither")
        self.tokenizer = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.beside(str(place))
        if settings is None:
            settings = ModelSettings() if place is None else ModelSettings.beside(place)
        self.stop = settings.stop_strings if stop is None else (stop,) if isinstance(stop, str) else tuple(stop)
        chosen = settings.options(**fields) if options is None else options.replace(**fields)
        self.generator = Generator(
            model,
            chosen,
            initial=initial,
            feeds=feeds,
            later_feeds=later_feeds,
            context=context,
            session_options=session_options,
        )

    def append(self, text: str) -> None:
        """Add text: the next turn. The tokenizer begins the first one as it begins texts.

        Raises
        ------
        ValueTypeError
            When the text has no token, or cannot be encoded.
        """
        ids = self.tokenizer.encode(text, special=self.generator.length == 0)
        if not ids:
            raise ValueTypeError(f"text: expected at least one token, got none from {text!r}")
        self.generator.append(ids)

    def generate(
        self,
        *,
        callback: Callable[[GeneratedToken], Any] | None = None,
        completion: TaskCompletion | None = None,
        **fields: Any,
    ) -> GeneratedText:
        """Generate until the text ends. After Ctrl-C, return what there is.

        Parameters
        ----------
        callback, completion
            As for `Generator.generate`.
        **fields
            Options that differ, for this call.

        Raises
        ------
        ValueTypeError
            As `Generator.generate`, and for several sequences or beams: a text is one.
        """
        options = self._options(fields)
        stream = self._stream()
        parts = []

        def each(token: GeneratedToken) -> Any:
            parts.append(stream.take(token))
            answer = None if callback is None else callback(token)
            return False if stream.stopped is not None else answer

        made = self.generator.generate(options, callback=each, completion=completion)
        text = "".join(parts) + stream.finish()
        told = made.log_probabilities
        return GeneratedText(text, made.tokens[0], made.finish_reasons[0], None if told is None else told[0])

    def stream(self, *, completion: TaskCompletion | None = None, **fields: Any) -> Iterator[str]:
        """Return an iterator over pieces of the text, each given out once it is certain. Arguments as for `generate`.

        Raises
        ------
        ValueTypeError
            As `generate`.
        """
        return self._pieces(self._options(fields), completion)

    def _pieces(self, options: GenerationOptions, completion: TaskCompletion | None) -> Iterator[str]:
        stream = self._stream()
        tokens = self.generator.stream(options, completion=completion)
        try:
            for token in tokens:
                piece = stream.take(token)
                if piece:
                    yield piece
                if stream.stopped is not None:
                    return
        finally:
            tokens.close()
        rest = stream.finish()
        if rest:
            yield rest

    def _stream(self) -> TextStream:
        return TextStream(self.tokenizer, self.stop, self.generator.tokens[0] if self.generator.length else ())

    def _options(self, fields: Mapping[str, Any]) -> GenerationOptions:
        options = self.generator.options.replace(**fields)
        for name in ("num_return_sequences", "num_beams"):
            if getattr(options, name) != 1:
                raise ValueTypeError(f"{name}: expected 1 for a text, got {getattr(options, name)}; see Generator")
        return options
