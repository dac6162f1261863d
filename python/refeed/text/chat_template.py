"""Chat templates: conversations written as the text that a model was trained on, by the `jinja2` package."""

import datetime
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from refeed.errors import ValueTypeError
from refeed.text.settings_file import MOST_BYTES, folder_of, read_settings

__all__ = ["ChatTemplate"]

# A conversation is far smaller; a template that writes more does not end.
MOST_CHARACTERS = 16 << 20
SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token")


def _raise_exception(message: str) -> NoReturn:
    raise ValueTypeError(f"chat template: {message}")


def _to_json(value: Any, indent: int | None = None, ensure_ascii: bool = False) -> str:
    # As model authors expect it: jinja2's own filter writes HTML entities.
    return json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)


class ChatTemplate:
    r"""A chat template.

    It is rendered in the sandbox of `jinja2`: a template has no access to files, modules or attributes of Python.

    Parameters
    ----------
    source : str
        The template.
    special_tokens : mapping of str to str, optional
        What the template may use by name: `bos_token`, `eos_token` and their like.

    Raises
    ------
    ImportError
        When the package `jinja2` is not installed.
    ValueTypeError
        When the source is no template.

    Examples
    --------
    >>> template = ChatTemplate("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
    >>> template.render([{"role": "user", "content": "Hello!"}], answer=False)
    'user: Hello!\n'
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str] | None = None) -> None:
        try:
            import jinja2

            from refeed.text.template_sandbox import Sandbox, checked
        except ImportError:
            raise ImportError("chat templates need the package `jinja2`: pip install 'refeed[text]'") from None

        environment = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
        environment.filters["tojson"] = _to_json
        environment.filters |= {
            name: checked(environment.filters[name], name) for name in ("format", "center", "indent")
        }
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = lambda form: datetime.datetime.now().astimezone().strftime(form)
        self._special_tokens = dict(special_tokens or {})
        try:
            self._template = environment.from_string(source)
        except (jinja2.TemplateError, RecursionError) as error:
            raise ValueTypeError(f"chat template: expected a template of jinja2, got: {error}") from None

    @staticmethod
    def beside(model: str | os.PathLike[str]) -> "ChatTemplate":
        """Load the template of a model's folder: `chat_template.jinja`, or else that of `tokenizer_config.json`.

        Of several templates in `tokenizer_config.json` the one named `default` is taken.

        Raises
        ------
        FileNotFoundError
            When the folder has no template. Other errors are those of the constructor.
        """
        folder = folder_of(model)
        settings = read_settings(folder / "tokenizer_config.json")
        source = _read_text(folder / "chat_template.jinja")
        special_tokens = {}
        if settings is not None:
            found = {name: settings.special_token(name) for name in SPECIAL_TOKENS}
            special_tokens = {name: token for name, token in found.items() if token is not None}
            if source is None and settings.is_list("chat_template"):
                named = [one for one in settings.listed("chat_template") if isinstance(one, dict)]
                source = next((one.get("template") for one in named if one.get("name") == "default"), None)
                if not isinstance(source, str):
                    raise settings.wrong("chat_template", "a template named `default`")
            elif source is None:
                source = settings.text("chat_template")
        if source is None:
            raise FileNotFoundError(
                f"{folder}: expected chat_template.jinja, or chat_template in tokenizer_config.json, got neither"
            )
        return ChatTemplate(source, special_tokens)

    def render(self, messages: Sequence[Mapping[str, Any]], *, answer: bool = True, **names: Any) -> str:
        """Write a conversation.

        Parameters
        ----------
        messages : sequence of mapping
            Each with `role` and `content`, in order.
        answer : bool
            Whether the text ends with what begins an answer (`add_generation_prompt`).
        **names
            What else this template knows, such as `tools`.

        Raises
        ------
        ValueTypeError
            When the template refuses the conversation, fails, or writes more than 16 Mi characters.
        """
        import jinja2

        known = {**self._special_tokens, **names, "messages": list(messages), "add_generation_prompt": answer}
        parts, length = [], 0
        try:
            for part in self._template.generate(known):
                parts.append(part)
                length += len(part)
                if length > MOST_CHARACTERS:
                    raise ValueTypeError(f"chat template: expected at most {MOST_CHARACTERS} characters, got more")
        except ValueTypeError:
            raise
        except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise ValueTypeError(f"chat template: {type(error).__name__}: {error}") from error
        return "".join(parts)


def _read_text(path: pathlib.Path) -> str | None:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(content) > MOST_BYTES:
        raise ValueTypeError(f"{path}: expected at most {MOST_BYTES} bytes, got more")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueTypeError(f"{path}: expected UTF-8, got: {error}") from None
