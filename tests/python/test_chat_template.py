"""Chat templates: what is written, and what a template may not do."""

import json
import pathlib
from collections.abc import Mapping, Sequence

import pytest
import refeed
from refeed.text import ChatTemplate

MESSAGES = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": 'Is 1 < 2 & "so on"?'},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": "And 3?"},
]
MARKED = (
    "{% for message in messages %}\n"
    "  {%- if message.role == 'tool' %}\n    {{ raise_exception('no tools here') }}\n  {%- endif %}\n"
    "{{ bos_token if loop.first }}<|{{ message['role'] }}|>{{ message['content'] }}{{ eos_token }}\n"
    "{% endfor %}\n"
    "{% if add_generation_prompt %}\n<|assistant|>{% endif %}"
)


def by_hand(messages: Sequence[Mapping[str, str]], answer: bool) -> str:
    lines = [f"<|{message['role']}|>{message['content']}</s>\n" for message in messages]
    return "<s>" + "".join(lines) + ("<|assistant|>" if answer else "")


def write(folder: pathlib.Path, settings: object = None, template: str | None = None) -> pathlib.Path:
    if settings is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    return folder


@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_conversation_as_written_by_hand(count: int, answer: bool) -> None:
    template = ChatTemplate(MARKED, {"bos_token": "<s>", "eos_token": "</s>"})
    assert template.render(MESSAGES[:count], answer=answer) == by_hand(MESSAGES[:count], answer)


def test_where_templates_are_looked_for(tmp_path: pathlib.Path) -> None:
    tokens = {"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False}}
    write(tmp_path, {**tokens, "chat_template": MARKED})
    assert ChatTemplate.beside(tmp_path / "model.onnx").render(MESSAGES) == by_hand(MESSAGES, True)
    named = [{"name": "tools", "template": "no"}, {"name": "default", "template": MARKED}]
    write(tmp_path, {**tokens, "chat_template": named})
    assert ChatTemplate.beside(tmp_path).render(MESSAGES) == by_hand(MESSAGES, True)
    write(tmp_path, {**tokens, "chat_template": "old"}, "{{ eos_token }}{{ messages[0].content }}")
    assert ChatTemplate.beside(tmp_path).render(MESSAGES) == "</s>Be kind."


def test_names_of_the_template_itself() -> None:
    template = ChatTemplate(
        "{{ tools | tojson }}{% for one in messages %}{% break %}{% endfor %}{{ strftime_now('%%') }}"
    )
    assert template.render(MESSAGES, tools=[{"a": "<é>"}]) == '[{"a": "<é>"}]%'


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{{ messages[0].missing.more }}", "UndefinedError"),
        ("{{ 1 // 0 }}", "ZeroDivisionError"),
        ("{{ 'a' + 1 }}", "TypeError"),
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ 'x' * 20000000 }}", "at most"),
        ("{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}", "at most"),
        ("{% include 'other' %}", "TypeError|no loader"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "RecursionError"),
    ],
)
def test_what_a_template_may_not_do(source: str, text: str) -> None:
    with pytest.raises(refeed.ValueTypeError, match=text):
        ChatTemplate(source).render(MESSAGES)


def test_sources_that_are_no_template() -> None:
    with pytest.raises(refeed.ValueTypeError, match="template of jinja2"):
        ChatTemplate("{% for %}")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"chat_template": 7}, "chat_template: expected a string"),
        ({"chat_template": [{"name": "tools", "template": "x"}]}, "named `default`"),
        ({"chat_template": "x", "eos_token": 3}, "eos_token: expected a string"),
        ([], "a JSON object"),
    ],
)
def test_settings_that_are_wrong(settings: object, text: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(refeed.ValueTypeError, match=text):
        ChatTemplate.beside(write(tmp_path, settings))


def test_a_folder_without_a_template(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"chat_template\.jinja"):
        ChatTemplate.beside(tmp_path)
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(refeed.ValueTypeError, match="UTF-8"):
        ChatTemplate.beside(tmp_path)


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 10**10 }}",
        "{{ 10**10 * 'ab' }}",
        "{{ [1] * 99999999999 }}",
        "{{ 2 ** 1000000000 }}",
        "{{ '%9999999999d' % 1 }}",
        "{{ '%.9999999999f' % 1 }}",
        "{{ '%*d' % (9999999999, 1) }}",
        "{{ '%0999999999d'|format(1) }}",
        "{% set x = 'a' * 500000000 %}b",
    ],
)
def test_a_few_characters_make_no_more_than_a_conversation(source: str) -> None:
    with pytest.raises(refeed.ValueTypeError, match="expected at most 16777216 characters, got more by"):
        ChatTemplate(source).render([])


@pytest.mark.parametrize("source", ["{{ 'a'.center(10**10) }}", "{{ 'a'|center(10**10) }}", "{{ '1'.zfill(10**10) }}"])
def test_texts_are_not_filled_up_without_end(source: str) -> None:
    with pytest.raises(refeed.ValueTypeError, match="expected at most 16777216 characters, got 10000000000"):
        ChatTemplate(source).render([])


def test_products_and_forms_of_templates_work() -> None:
    source = "{{ '-' * 5 }}{{ 3 * 4 }}{{ 2 ** 10 }}{{ '%5.1f|%s 123456789012' % (2.25, 'x') }}{{ 'a' * -1 }}{{ 7 % 4 }}"
    source += "{{ 'x'|center(3) }}{{ '%s'|format(5) }}"
    assert ChatTemplate(source).render([]) == "-----121024  2.2|x 1234567890123 x 5"
