"""What is public, and that it is described."""

import importlib
import importlib.metadata
import inspect
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest
import refeed
from refeed import _native, runtime

MODULES = [
    "refeed",
    "refeed.runtime",
    "refeed.errors",
    "refeed.decoding",
    "refeed.generation",
    "refeed.onnx",
    "refeed.onnx.reference",
    "refeed.onnx.parser",
    "refeed.onnx.printer",
    "refeed.onnx.checker",
    "refeed.onnx.verify",
    "refeed.text",
]


def test_the_version_is_cargos(root: pathlib.Path) -> None:
    cargo = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert refeed.__version__ == cargo == importlib.metadata.version("refeed")


@pytest.mark.parametrize("name", MODULES)
def test_public_names_exist(name: str) -> None:
    module = importlib.import_module(name)
    assert inspect.getdoc(module)
    for public in getattr(module, "__all__", []):
        assert hasattr(module, public), public


def test_every_native_class_is_public() -> None:
    public = {*refeed.__all__, *runtime.__all__}
    assert {name for name in dir(_native) if not name.startswith("_")} <= public


def test_native_classes_say_where_they_live() -> None:
    for name in dir(_native):
        value = getattr(_native, name)
        if isinstance(value, type):
            home = importlib.import_module(value.__module__)
            assert getattr(home, name) is value


def test_the_stub_describes_every_native_name(root: pathlib.Path) -> None:
    stub = (root / "python" / "refeed" / "_native.pyi").read_text()
    for name in dir(_native):
        if not name.startswith("_"):
            assert re.search(rf"^(class|def) {name}\b", stub, re.MULTILINE), name


def test_attributes_of_native_objects_cannot_be_invented() -> None:
    for value in (runtime.RuntimeSessionOptions(), runtime.RuntimeContext(), runtime.OpsetId()):
        with pytest.raises(AttributeError):
            value.invented = 1  # type: ignore[union-attr]


def test_importing_starts_nothing_and_needs_only_numpy() -> None:
    code = (
        "import sys, threading, refeed, refeed.onnx.reference, refeed.__main__\n"
        "assert threading.active_count() == 1\n"
        "optional = {'onnx', 'ml_dtypes', 'google.protobuf', 'onnxruntime', 'tokenizers', 'jinja2'}\n"
        "assert not optional & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603


def test_the_ordinary_module_has_no_planted_failures(root: pathlib.Path) -> None:
    """The wheel of `make test-faults` differs from the ordinary one by a feature; this is for the ordinary one."""
    assert not hasattr(_native, "_testing")
    assert b"injected failure" not in pathlib.Path(_native.__file__).read_bytes()
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert "features" not in project["tool"]["maturin"], "a released wheel is built with default features"
    manifest = tomllib.loads((root / "crates" / "python" / "Cargo.toml").read_text())
    assert manifest["features"]["default"] == ["abi3"]
