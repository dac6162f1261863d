"""What the documents show runs: the example programs, and the Python blocks of the pages."""

import pathlib
import re
import subprocess
import sys

import pytest
import refeed
import refeed.decoding
import refeed.errors
import refeed.onnx.reference
import refeed.runtime
import refeed.text

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
PAGES = [
    "README.md",
    "docs/attention.md",
    "docs/custom-kernels.md",
    "docs/feedback.md",
    "docs/ownership.md",
    "docs/paged-cache.md",
    "docs/paged-attention.md",
    "docs/state.md",
    "docs/text.md",
    "docs/values.md",
    "docs/python-api.md",
]


def blocks(page: str, language: str = "python") -> list[str]:
    """The code blocks of a page in one language, each with as many lines in front as the page has."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return ["\n" * text[: match.start(1)].count("\n") + match[1] for match in found]


def test_there_are_examples() -> None:
    assert [path.name for path in EXAMPLES] == [
        "contiguous_kv_decode.py",
        "decoder_cache_formats.py",
        "quantized_cache_pages.py",
    ]
    assert all(blocks(page) for page in PAGES)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """S185."""
    command = [sys.executable, "-W", "error", str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all figures are as documented\n")


@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_pages_run(page: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of one page run one after the other, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    try:
        for code in blocks(page):
            exec(compile(code, str(ROOT / page), "exec"), names)  # noqa: S102
    finally:
        refeed.runtime.clear_custom_kernels()  # kernels of the process would be there for other tests, too


def test_the_readme_shows_the_rust_example() -> None:
    """The Rust code of the README is a file that cargo compiles."""
    source = (ROOT / "crates" / "refeed" / "examples" / "decode_step.rs").read_text(encoding="utf-8")
    (shown,) = blocks("README.md", "rust")
    assert source.endswith("\n\n" + shown.lstrip("\n"))


def test_the_page_of_kernels_shows_the_rust_example() -> None:
    """The Rust code of the page is a file that cargo compiles and runs."""
    source = (ROOT / "crates" / "refeed" / "examples" / "custom_kernel.rs").read_text(encoding="utf-8")
    (shown,) = blocks("docs/custom-kernels.md", "rust")
    assert source.endswith("\n\n" + shown.lstrip("\n"))


def test_links_of_pages_lead_somewhere() -> None:
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benches/README.md")]
    pages += sorted((ROOT / "docs").rglob("*.md"))
    broken = []
    for page in pages:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path, _, anchor = target.partition("#")
            if ":" in path:
                continue
            file = page.parent / path if path else page
            if not file.exists():
                broken.append(f"{page.name}: {target}")
            elif anchor:
                headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
                if anchor not in [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]:
                    broken.append(f"{page.name}: {target}")
    assert not broken


def test_the_api_page_names_everything_public() -> None:
    words = set(re.findall(r"\w+", (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8")))
    expected = {*refeed.decoding.__all__}
    for module in (refeed, refeed.runtime, refeed.errors, refeed.text, refeed.onnx.reference):
        for name in module.__all__:
            value = getattr(module, name)
            members = vars(value) if isinstance(value, type) else {}
            expected |= {name, *(member for member in members if not member.startswith("_"))}
    assert expected - words == set()
