"""Text to token ids and back, by the `tokenizers` package."""

import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from refeed.errors import ValueTypeError
from refeed.text.chat_template import ChatTemplate
from refeed.text.settings_file import folder_of

__all__ = ["Tokenizer"]


class Tokenizer:
    """A tokenizer of the `tokenizers` package, with the chat template that lies beside it.

    Parameters
    ----------
    path : path-like
        A `tokenizer.json`. A chat template is looked for in its folder.

    Raises
    ------
    ImportError
        When the package `tokenizers` is not installed.
    FileNotFoundError
        When there is no such file.
    ValueTypeError
        When the file holds no tokenizer.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            import tokenizers
        except ImportError:
            raise ImportError("text needs the package `tokenizers`: pip install 'refeed[text]'") from None
        file = pathlib.Path(path)
        content = file.read_bytes()
        try:
            self._tokenizer = tokenizers.Tokenizer.from_buffer(content)
        except Exception as error:  # the package raises Exception itself
            raise ValueTypeError(f"{file}: expected a tokenizer, got: {error}") from None
        self._folder = file.parent
        self._chat_template: ChatTemplate | None = None

    @staticmethod
    def beside(model: str | os.PathLike[str]) -> "Tokenizer":
        """Load the `tokenizer.json` of a model's folder.

        Parameters
        ----------
        model : path-like
            The model's file, or its folder.

        Raises
        ------
        FileNotFoundError
            When there is no `tokenizer.json`. Other errors are those of the constructor.
        """
        return Tokenizer(folder_of(model) / "tokenizer.json")

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens, added ones included."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    def token_id(self, token: str) -> int | None:
        """Return the id of a token; None when there is no such token."""
        found = self._tokenizer.token_to_id(token)
        return None if found is None else int(found)

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Return the token ids of a text.

        Parameters
        ----------
        text : str
            The text. Special tokens that it spells are recognised, as in the text of a chat template.
        special : bool
            Whether the tokenizer adds what it begins and ends a text with. A chat template writes that itself.

        Raises
        ------
        ValueTypeError
            When the text cannot be encoded: a lone surrogate, or a character that the tokenizer has no token for.
        """
        if not isinstance(text, str):
            raise TypeError(f"text: expected a str, got {type(text)}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueTypeError(f"text: expected Unicode, got {text[error.start]!r} at place {error.start}") from None
        try:
            return list(self._tokenizer.encode(text, add_special_tokens=special).ids)
        except Exception as error:
            raise ValueTypeError(f"text: expected what the tokenizer can encode, got: {error}") from None

    def decode(self, ids: Iterable[int], *, special: bool = False) -> str:
        """Return the text of token ids.

        Parameters
        ----------
        ids : iterable of int
            Token ids. Incomplete characters become U+FFFD; see `TextStream` for tokens that come one by one.
        special : bool
            Whether special tokens are written out.

        Raises
        ------
        ValueTypeError
            For an id that is no number of 32 bits.
        """
        listed = list(ids)
        try:
            return str(self._tokenizer.decode(listed, skip_special_tokens=not special))
        except (TypeError, OverflowError) as error:
            raise ValueTypeError(f"ids: expected token ids, got: {error}") from None

    @property
    def chat_template(self) -> ChatTemplate:
        """The chat template of the tokenizer's folder.

        Raises
        ------
        ImportError
            When the package `jinja2` is not installed.
        FileNotFoundError
            When the folder has no chat template.
        ValueTypeError
            When the template is none.
        """
        if self._chat_template is None:
            self._chat_template = ChatTemplate.beside(self._folder)
        return self._chat_template

    def encode_chat(self, messages: Sequence[Mapping[str, Any]], *, answer: bool = True) -> list[int]:
        """Return the token ids of a conversation, written by the chat template.

        Parameters
        ----------
        messages : sequence of mapping
            Each with `role` and `content`.
        answer : bool
            Whether the text ends with what begins an answer.
        """
        return self.encode(self.chat_template.render(messages, answer=answer), special=False)
