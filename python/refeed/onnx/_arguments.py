"""Checks of arguments, whose errors name the argument, what was got and what was expected."""

from collections.abc import Iterable
from typing import Any

__all__ = ["need", "need_items", "need_message"]


def need(value: object, kind: type | tuple[type, ...], argument: str) -> None:
    """Refuse a value of another class. An `int` is whatever Python takes as one, such as NumPy's integers."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if isinstance(value, kinds) or (int in kinds and hasattr(value, "__index__")):
        return
    expected = " or ".join("None" if each is type(None) else each.__name__ for each in kinds)
    raise TypeError(f"{argument}: expected {expected}, got {type(value).__name__}")


def need_items(values: Any, kind: type | tuple[type, ...], argument: str) -> list[Any]:
    """Return the items of an iterable, each of a class."""
    if not isinstance(values, Iterable):
        raise TypeError(f"{argument}: expected an iterable, got {type(values).__name__}")
    items = list(values)
    for index, item in enumerate(items):
        need(item, kind, f"{argument}[{index}]")
    return items


def need_message(value: Any, kind: type, argument: str) -> None:
    """Refuse what is no message of a class, of this package or of the official one."""
    if isinstance(value, kind):
        return
    name = getattr(getattr(value, "DESCRIPTOR", None), "full_name", None)
    if name != kind.DESCRIPTOR.full_name:  # type: ignore[attr-defined]
        raise TypeError(f"{argument}: expected {kind.__name__}, got {type(value).__name__}")
