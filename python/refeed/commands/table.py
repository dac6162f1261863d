"""Plain text tables and a live line."""

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

__all__ = ["LiveLine", "amount", "rows"]


def rows(lines: Iterable[Sequence[str]], indent: str = "  ") -> str:
    """Return lines of cells as columns of equal width."""
    table = [list(line) for line in lines]
    if not table:
        return ""
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    text = []
    for line in table:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        text.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(text)


def amount(count: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024 or unit == "MiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


class LiveLine:
    """One line that is written over while work goes on, on a terminal only.

    Parameters
    ----------
    stream : file, optional
        Where to write, standard error by default.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._on = self._stream.isatty()

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._on:
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()

    def clear(self) -> None:
        """Remove the line."""
        if self._on:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
