"""The rules of `docs/contract.md` and the tests that cite them. Run with rules as arguments, it prints their tests."""

import ast
import pathlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "contract.md"
RUST = [ROOT / "crates", ROOT / "tests" / "rust"]
PYTHON = ROOT / "tests" / "python"

#: How many promises there are: those of the first description of persistent feedback, its example and its messages.
PROMISES = 305

ROW = re.compile(r"^\| (\d+\.\d+\.\d+) \|([^|]*)\| ([^|]+) \|$", re.MULTILINE)
WAIVED = re.compile(r"^\| (S\d{3}) \| [^|]+ \|$", re.MULTILINE)
CITED = re.compile(r"\bRules?\s+((?:\d+\.\d+\.\d+|,|and|\s)+)")
NUMBER = re.compile(r"\d+\.\d+\.\d+")
PROMISE = re.compile(r"\bS(\d{3})\b")
NAMED = re.compile(r"(?:^|_)s(\d{3})(?:_to_s(\d{3}))?(?=_)")


@dataclass(frozen=True)
class Test:
    """A test, and what is written over it."""

    file: str
    name: str
    text: str

    def rules(self) -> set[str]:
        return {rule for cited in CITED.findall(self.text) for rule in NUMBER.findall(cited)}

    def promises(self) -> set[str]:
        found = {int(number) for number in PROMISE.findall(self.text)}
        for first, last in NAMED.findall(self.name):
            found |= set(range(int(first), int(last or first) + 1))
        return {f"S{number:03}" for number in found}


def rules() -> dict[str, set[str]]:
    """Every rule, with the promises that stand beside it."""
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    found = {rule: set(promises.split()) for rule, promises, _ in rows}
    assert len(found) == len(rows), "a rule stands twice"
    return found


def waived() -> set[str]:
    """The promises that do not hold, each on a line of its own with the reason."""
    return set(WAIVED.findall(PAGE.read_text(encoding="utf-8")))


def python_tests() -> Iterator[Test]:
    for path in sorted(PYTHON.glob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield Test(str(path.relative_to(ROOT)), node.name, ast.get_docstring(node) or "")


def rust_tests() -> Iterator[Test]:
    """Functions below `#[test]`, and documentation that holds code, which `cargo test` runs."""
    for path in sorted(path for folder in RUST for path in folder.rglob("*.rs")):
        comment: list[str] = []
        attributes: list[str] = []
        for line in path.read_text(encoding="utf-8").splitlines():
            text = line.strip()
            if text.startswith(("///", "//!")):
                comment.append(text[3:])
            elif text.startswith("#["):
                attributes.append(text)
            else:
                item = re.match(r"(?:pub(?:\([^)]*\))? )?(?:async |const |unsafe )*\w+ (\w+)", text)
                if "#[test]" in attributes or any("```" in part for part in comment):
                    yield Test(str(path.relative_to(ROOT)), item[1] if item else path.stem, "\n".join(comment))
                comment, attributes = [], []


def tests() -> list[Test]:
    return [*python_tests(), *rust_tests()]


def main() -> None:
    for rule in sys.argv[1:] or rules():
        cited = [f"{test.file}::{test.name}" for test in tests() if rule in test.rules() | test.promises()]
        print(rule, *cited, sep="\n    ")


if __name__ == "__main__":
    main()
