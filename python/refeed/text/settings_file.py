"""Files of settings beside a model: read whole, checked field by field."""

import json
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from refeed.errors import ValueTypeError

__all__ = ["Fields", "folder_of", "model_file", "read_settings"]

# Settings are small; what is larger is something else.
MOST_BYTES = 64 << 20
# Names of a model in its folder; of encoder-decoders, the file that generates.
MODELS = ("model.onnx", "decoder_model_merged.onnx", "decoder_with_past_model.onnx")


def folder_of(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return the folder of a model: the path itself when it is a folder, otherwise the one that the file lies in."""
    given = pathlib.Path(path)
    return given if given.is_dir() else given.parent


def model_file(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return the file of a model: the path itself, or that of a folder, by the names that exporters give it."""
    given = pathlib.Path(path)
    if not given.is_dir():
        return given
    return next((given / name for name in MODELS if (given / name).exists()), given / MODELS[0])


def read_settings(path: pathlib.Path) -> "Fields | None":
    """Read a file whose content is a JSON object; None when there is no file.

    Raises
    ------
    ValueTypeError
        When the content is no JSON object, or larger than 64 MiB.
    OSError
        When the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(content) > MOST_BYTES:
        raise ValueTypeError(f"{path}: expected at most {MOST_BYTES} bytes of settings, got more")
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueTypeError(f"{path}: expected JSON, got {type(error).__name__}: {error}") from None
    if not isinstance(parsed, dict):
        raise ValueTypeError(f"{path}: expected a JSON object, got {type(parsed).__name__}")
    return Fields(str(path), parsed)


def _is_count(value: Any) -> bool:
    """Say whether a value is a whole number that options can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


class Fields:
    """The fields of a JSON object, each read as the type that is expected.

    Parameters
    ----------
    where : str
        The file and the path of the object in it, for messages.
    fields : mapping
        The object.
    """

    def __init__(self, where: str, fields: Mapping[str, Any]) -> None:
        self._where = where
        self._fields = fields

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def names(self) -> list[str]:
        """Return the names of all fields."""
        return list(self._fields)

    def wrong(self, name: str, expected: str) -> ValueTypeError:
        """Make the error for a field that is not what is expected."""
        got = self._fields.get(name)
        return ValueTypeError(f"{self._where}: {name}: expected {expected}, got {str(got)[:80]!r}")

    def part(self, name: str) -> "Fields":
        """Return an object in the object; an empty one when the field is missing or null."""
        got = self._fields.get(name)
        if got is None:
            got = {}
        if not isinstance(got, dict):
            raise self.wrong(name, "an object")
        return Fields(f"{self._where}: {name}", got)

    def text(self, name: str) -> str | None:
        """Return a string; None when the field is missing or null."""
        got = self._fields.get(name)
        if got is not None and not isinstance(got, str):
            raise self.wrong(name, "a string")
        return got

    def count(self, name: str) -> int | None:
        """Return a whole number of at least 0; None when the field is missing or null."""
        got = self._fields.get(name)
        if got is not None and not _is_count(got):
            raise self.wrong(name, "a whole number of at least 0")
        return got

    def number(self, name: str, least: float, most: float = math.inf) -> float | None:
        """Return a finite number from `least` to `most`; None when the field is missing or null."""
        got = self._fields.get(name)
        if got is None:
            return None
        number = isinstance(got, int | float) and not isinstance(got, bool)
        if not number or not math.isfinite(got) or not least <= got <= most:
            bounds = f"a number of at least {least:g}" if math.isinf(most) else f"a number from {least:g} to {most:g}"
            raise self.wrong(name, bounds)
        return float(got)

    def flag(self, name: str) -> bool | None:
        """Return true or false; None when the field is missing or null."""
        got = self._fields.get(name)
        if got is not None and not isinstance(got, bool):
            raise self.wrong(name, "true or false")
        return got

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a text or a list of them, none of which is empty; nothing when the field is missing or null."""
        got = self._fields.get(name)
        if got is None:
            return ()
        listed = got if isinstance(got, list) else [got]
        if not all(isinstance(one, str) and one for one in listed):
            raise self.wrong(name, "a text, or a list of them, none of which is empty")
        return tuple(listed)

    def counts(self, name: str) -> tuple[int, ...]:
        """Return a whole number or a list of them; empty when the field is missing or null."""
        got = self._fields.get(name)
        if got is None:
            return ()
        listed = got if isinstance(got, list) else [got]
        if not all(map(_is_count, listed)):
            raise self.wrong(name, "a whole number of at least 0, or a list of them")
        return tuple(dict.fromkeys(listed))

    def special_token(self, name: str) -> str | None:
        """Return the text of a special token, which files write as a string or as an object with `content`."""
        if isinstance(self._fields.get(name), dict):
            return self.part(name).text("content")
        return self.text(name)

    def listed(self, name: str) -> list[Any]:
        """Return a list; empty when the field is missing or null."""
        got = self._fields.get(name)
        if got is None:
            return []
        if not isinstance(got, list):
            raise self.wrong(name, "a list")
        return got

    def ids(self, value: Any, name: str) -> tuple[int, ...]:
        """Return one of several sequences of token ids in a field."""
        if not isinstance(value, list) or not value or not all(map(_is_count, value)):
            raise self.wrong(name, "a list of lists of token ids")
        return tuple(value)

    def holds(self, name: str, value: Any) -> bool:
        """Say whether a field has a value, whatever that is."""
        return bool(self._fields.get(name) == value)

    def is_list(self, name: str) -> bool:
        """Say whether a field holds a list."""
        return isinstance(self._fields.get(name), list)
