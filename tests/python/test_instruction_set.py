"""`REFEED_ISA`: one instruction set for the process."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np
import onnx.parser
import refeed

model = refeed.load(onnx.parser.parse_model('''
<ir_version: 10, opset_import: ["" : 24]> g (float[n] x) => (float[n] y) { y = Exp (x) }
'''))
print(np.asarray(model.run({"x": np.linspace(-3, 3, 19, dtype=np.float32)})["y"]).tobytes().hex())
"""


def _run(isa: str | None) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name != "REFEED_ISA"}
    if isa is not None:
        environment["REFEED_ISA"] = isa
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603


def test_an_empty_name_is_none() -> None:
    unset, empty = _run(None), _run("")
    assert unset.returncode == 0, unset.stderr
    assert empty.returncode == 0, empty.stderr
    assert empty.stdout == unset.stdout


@pytest.mark.parametrize("name", ["sse9", "AVX2", " "])
def test_an_unknown_name_is_told(name: str) -> None:
    ended = _run(name)
    assert ended.returncode != 0
    assert f"REFEED_ISA: expected scalar, avx2, avx512, avx512vnni or neon, got `{name}`" in ended.stderr


DIRECT = """
import numpy as np
from refeed import runtime
from refeed.onnx import PagedCacheProto

rows = [np.ones((1, 1, 2, 16), np.float32)] * 3
runtime.PagedAttention()(*rows, PagedCacheProto(), block_size=16, max_tokens=2)
"""


def test_a_kernel_that_is_called_directly_heeds_the_name() -> None:
    environment = {**os.environ, "REFEED_ISA": "scalar"}
    command = [sys.executable, "-c", DIRECT]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert ended.returncode == 0, ended.stderr
    environment["REFEED_ISA"] = "sse9"
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert ended.returncode != 0
    assert "REFEED_ISA: expected scalar, avx2, avx512, avx512vnni or neon, got `sse9`" in ended.stderr
