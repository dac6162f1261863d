"""`help` at run time shows what the stubs say: the first paragraph of each native class, method and function."""

import ast
import inspect
import pathlib

import pytest
import refeed._native as native

STUB = ast.parse((pathlib.Path(native.__file__).parent / "_native.pyi").read_text())


def first_paragraph(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


def described() -> list[tuple[str, str]]:
    """Each public name of the stub that has a docstring, with its first paragraph."""
    found: dict[str, str] = {}

    def add(name: str, node: ast.ClassDef | ast.FunctionDef) -> None:
        if text := ast.get_docstring(node):
            found.setdefault(name, first_paragraph(text))

    for node in STUB.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            add(node.name, node)
            for member in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                    add(f"{node.name}.{member.name}", member)
    return sorted(found.items())


@pytest.mark.parametrize(("name", "text"), described())
def test_help_says_what_the_stub_says(name: str, text: str) -> None:
    owner: object = native
    for part in name.split("."):
        owner = getattr(owner, part)
    assert first_paragraph(inspect.getdoc(owner)) == text
