"""Text that is written as it comes, with a rate behind it."""

import shutil
import sys
import time
import unicodedata

from refeed.commands.table import LiveLine

__all__ = ["LiveText"]

# Seconds between two changes of the rate: it is to be read.
PAUSE = 0.1
# What steers a terminal is not for a model to write: all control characters but the new line and the tab.
CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)}


class LiveText:
    r"""Writes text to standard output, and how fast it comes to standard error, when that is a terminal.

    Where both are one terminal the rate stands behind the text and goes when more text comes; where the text goes
    elsewhere it is a line of its own. On a terminal, control characters are written as `\x1b`.

    Parameters
    ----------
    on : bool
        False to write nothing at all.
    """

    def __init__(self, *, on: bool = True) -> None:
        self._on = on
        self._controls = CONTROLS if sys.stdout.isatty() else {}
        self._behind = sys.stdout.isatty() and sys.stderr.isatty()
        self._line = LiveLine()
        self._begun = time.perf_counter()
        self._shown = 0.0
        self._column = 0
        self._pending = False

    def show(self, text: str, tokens: int) -> None:
        """Write text, and the rate of `tokens` tokens since the beginning."""
        if not self._on:
            return
        self.write(text)
        now = time.perf_counter()
        if now - self._shown < PAUSE:
            return
        self._shown = now
        rate = f"{tokens} tokens, {tokens / max(now - self._begun, 1e-9):.0f} tokens/s"
        if not self._behind:
            self._line.show(rate)
        elif self._column + len(rate) + 3 < shutil.get_terminal_size().columns:
            # Save the place, write dimly, go back.
            sys.stderr.write(f"\x1b7  \x1b[2m{rate}\x1b[0m\x1b8")
            sys.stderr.flush()
            self._pending = True

    def write(self, text: str) -> None:
        """Write text alone."""
        if not self._on or not text:
            return
        self._remove_rate()
        text = text.translate(self._controls)
        sys.stdout.write(text)
        sys.stdout.flush()
        width = shutil.get_terminal_size().columns
        for sign in text:
            self._column += 2 if unicodedata.east_asian_width(sign) in "WF" else 1
            self._column = 0 if sign == "\n" else self._column % width

    def finish(self) -> None:
        """Remove the rate and end the line."""
        if self._on:
            self._remove_rate()
            self._line.clear()
            sys.stdout.write("\n")
            sys.stdout.flush()

    def _remove_rate(self) -> None:
        if self._pending:
            sys.stderr.write("\x1b[K")
            sys.stderr.flush()
            self._pending = False
