"""The sandbox of chat templates, in which a few characters cannot ask for more than a conversation. Needs `jinja2`."""

import re
from collections.abc import Sequence, Sized
from typing import Any

import jinja2.sandbox

from refeed.errors import ValueTypeError
from refeed.text.chat_template import MOST_CHARACTERS

__all__ = ["Sandbox", "checked"]

# A conversion of `%`: its width and its precision.
FORM = re.compile(r"%(?:\([^)]*\))?[#0\- +]*([0-9]+|\*)?(?:\.([0-9]+|\*))?")


def _check_size(operator: str, left: Any, right: Any) -> None:
    """Refuse what a few characters of a template would make larger than any conversation."""
    size = 0.0
    if operator == "*":
        for part, count in ((left, right), (right, left)):
            if isinstance(part, Sized) and isinstance(count, int):
                size = max(size, len(part) * float(min(count, MOST_CHARACTERS + 1)))
    elif operator == "**" and isinstance(left, int) and isinstance(right, int):
        size = left.bit_length() * float(min(max(right, 0), MOST_CHARACTERS + 1))
    elif operator == "%" and isinstance(left, str):
        # Widths and precisions, and those that come as values.
        widths = [digits for found in FORM.finditer(left) for digits in found.groups() if digits]
        values = right if isinstance(right, tuple) else (right,)
        given = [value for value in values if isinstance(value, int)] if "*" in widths else []
        sizes = [*(int(digits[:12]) for digits in widths if digits != "*"), *map(abs, given)]
        size = float(min(max(sizes, default=0), MOST_CHARACTERS + 1))
    if size > MOST_CHARACTERS:
        raise ValueTypeError(f"chat template: expected at most {MOST_CHARACTERS} characters, got more by `{operator}`")


def _check_numbers(function: Any, values: Sequence[Any]) -> None:
    """Refuse a method of a text that is to fill it up to more than a conversation."""
    if isinstance(getattr(function, "__self__", None), str):
        most = max((value for value in values if isinstance(value, int)), default=0)
        if most > MOST_CHARACTERS:
            raise ValueTypeError(f"chat template: expected at most {MOST_CHARACTERS} characters, got {most}")


def checked(filters: Any, name: str) -> Any:
    """Return a filter that refuses to write more than a conversation."""

    def checked(text: Any, *values: Any, **names: Any) -> Any:
        if name == "format":
            _check_size("%", str(text), (*values, *names.values()))
        else:
            _check_numbers("".center, (*values, *names.values()))
        return filters(text, *values, **names)

    return checked


class Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """A sandbox in which no product, power or form is larger than a conversation."""

    intercepted_binops = frozenset(("*", "**", "%"))

    def call(self, context: Any, function: Any, *values: Any, **names: Any) -> Any:
        """Call what a template calls, unless it is to fill a text up."""
        _check_numbers(function, (*values, *names.values()))
        return super().call(context, function, *values, **names)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute one of the intercepted operators, unless its result is too large."""
        _check_size(operator, left, right)
        return super().call_binop(context, operator, left, right)
