"""Text of tokens that come one by one."""

import operator
from collections.abc import Iterable, Sequence
from typing import Protocol

from refeed._native import GeneratedToken
from refeed.errors import ValueTypeError

__all__ = ["TextStream"]

# Tokens of the prompt that are decoded along, because some tokenizers write a token differently at the beginning.
CONTEXT = 6
# The longest character has four bytes. What is still broken after more tokens than that stays broken.
MOST_HELD = 8
BROKEN = "\N{REPLACEMENT CHARACTER}"


class Decoder(Protocol):
    """What turns token ids into text: a `Tokenizer`."""

    def decode(self, ids: Iterable[int], /) -> str:
        """Return the text of token ids."""


class TextStream:
    """Turns tokens into text as they come: whole characters only, and nothing from a stop string on.

    A token may end in the middle of a character, or of a stop string. Its text is held back until the next ones decide.

    Parameters
    ----------
    tokenizer : Tokenizer
        Decodes the tokens.
    stop : sequence of str
        Texts that end the stream. They are not part of the text.
    prompt : sequence of int
        The tokens before the first one, which decide whether that one begins with a space.

    Attributes
    ----------
    stopped : str or None
        The stop string that was met.

    Raises
    ------
    ValueTypeError
        For an empty stop string.

    Examples
    --------
    >>> stream = TextStream(tokenizer, stop=["###"])                           # doctest: +SKIP
    >>> for token in generator.stream():                                       # doctest: +SKIP
    ...     print(stream.push(token.token), end="", flush=True)
    ...     if stream.stopped is not None:
    ...         break
    ... print(stream.finish())
    """

    def __init__(self, tokenizer: Decoder, stop: Sequence[str] = (), prompt: Sequence[int] = ()) -> None:
        if isinstance(stop, str) or not all(stop):
            raise ValueTypeError(f"stop: expected a sequence of texts that are not empty, got {stop!r}")
        self.stopped: str | None = None
        self._decode = tokenizer.decode
        self._stop = tuple(stop)
        # The window of tokens that is decoded each time; the text of its first `_shown` tokens is out. It must
        # not begin inside a character, which would spoil the rest.
        self._window = list(prompt[-CONTEXT:])
        while BROKEN in self._decode(self._window):
            del self._window[0]
        self._shown = len(self._window)
        # How many characters of the window's text are out, where it does not begin with a whole one.
        self._known: int | None = None
        self._held = ""

    def push(self, token: int) -> str:
        """Add a token and return the text that is now certain; empty after a stop string."""
        if self.stopped is not None:
            return ""
        self._window.append(operator.index(token))
        return self._release(self._advance(final=False), final=False)

    def take(self, token: GeneratedToken) -> str:
        """Add a token that was generated, as `push` does; one that ends a text is no part of it."""
        return "" if token.finish_reason in ("eos", "stop") else self.push(token.token)

    def finish(self) -> str:
        """Return what was held back: the beginning of a stop string, or U+FFFD for a character that was cut off."""
        if self.stopped is not None:
            return ""
        text = self._release(self._advance(final=True), final=True)
        self._window, self._shown, self._known = [], 0, None
        return text

    def _advance(self, *, final: bool) -> str:
        """Return the new whole characters of the window."""
        known = self._known if self._known is not None else len(self._decode(self._window[: self._shown]))
        now = self._decode(self._window)
        held = len(self._window) - self._shown
        if not final and now.endswith(BROKEN):
            if held <= MOST_HELD:
                return ""
            whole = len(now.rstrip(BROKEN))
            if whole > known:
                # Each of these tokens ends inside a character: what is whole goes out, and the window goes on with its
                # last whole character, whatever it begins with.
                kept = next(n for n in range(1, len(self._window) + 1) if self._decode(self._window[-n:]).strip(BROKEN))
                self._window, self._shown = self._window[-kept:], 0
                self._known = len(self._decode(self._window).rstrip(BROKEN))
                return now[known:whole]
        # The tokens that were new stay as context for the next ones, so that a window never grows. Broken ones do not:
        # together with what comes they might read differently.
        new = self._window if self._known is not None else self._window[self._shown :]
        broken = now.endswith(BROKEN) or (self._known is not None and self._decode(new).startswith(BROKEN))
        self._window, self._shown, self._known = ([], 0, None) if broken else (new, len(new), None)
        return now[known:]

    def _release(self, text: str, *, final: bool) -> str:
        """Cut at a stop string, and hold back what may become one."""
        text = self._held + text
        found = [(at, stop) for stop in self._stop if (at := text.find(stop)) >= 0]
        if found:
            # The first to end, so that the cuts between tokens do not matter; of two that end at one place the longer.
            at, self.stopped = min(found, key=lambda one: (one[0] + len(one[1]), one[0]))
            self._held = ""
            return text[:at]
        keep = 0 if final else max((_overlap(text, stop) for stop in self._stop), default=0)
        cut = len(text) - keep
        self._held = text[cut:]
        return text[:cut]


def _overlap(text: str, stop: str) -> int:
    """Return how many characters at the end of a text are the beginning of a stop string."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
