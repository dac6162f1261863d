"""The official package's 93 node tests of `Attention`, as nodes and as the function bodies that they are defined by.

The bodies are attention in single nodes, of a form that recognition does not take (rows without a key are found by
their largest score), so that they must give the same with and without it.
"""

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import onnx.parser
import pytest
import refeed
from onnx import TensorProto, numpy_helper
from refeed import runtime

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnx.backend.test.case.node import collect_testcases

    CASES: list[Any] = [case for case in collect_testcases(None) if case.name.startswith("test_attention_")]

NODES = [case for case in CASES if "_expanded" not in case.name]
BODIES = [case for case in CASES if "_expanded" in case.name]

#: Of a narrow type the tests keep what their own steps rounded; the kernel rounds once, so the last bit may differ.
LAST_BIT = {np.dtype(np.float16): 2**-9, np.dtype(ml_dtypes.bfloat16): 2**-6}


def _array(value: Any) -> np.ndarray:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def _check(case: Any, session: runtime.RuntimeSession) -> None:
    for inputs, wanted in case.data_sets:
        names = [value.name for value in case.model.graph.input]
        feeds: dict[str, Any] = {name: _array(value) for name, value in zip(names, inputs, strict=True)}
        outputs: dict[str, Any] = session.run(feeds)
        for declared, value in zip(case.model.graph.output, wanted, strict=True):
            want, got = _array(value), outputs[declared.name].numpy()
            assert (got.dtype, got.shape) == (want.dtype, want.shape), declared.name
            near = LAST_BIT.get(want.dtype, 1e-5)
            wide, expected = got.astype(np.float64), want.astype(np.float64)
            np.testing.assert_allclose(wide, expected, rtol=max(case.rtol, near), atol=max(case.atol, near / 4))


def test_all_node_tests_are_there() -> None:
    assert (len(NODES), len(BODIES)) == (93, 93)


@pytest.mark.parametrize("case", NODES, ids=lambda case: case.name)
def test_nodes(case: Any) -> None:
    _check(case, runtime.RuntimeSession(refeed.load(case.model)))


@pytest.mark.parametrize("case", BODIES, ids=lambda case: case.name)
def test_bodies(case: Any) -> None:
    _check(case, runtime.RuntimeSession(refeed.load(case.model)))
    _check(case, runtime.RuntimeSession(refeed.load(case.model), recognize_attention=False))


@pytest.mark.parametrize("total", [4, 7, 9])
@pytest.mark.parametrize("new", [1, 3])
def test_every_pattern_of_visible_keys(total: int, new: int) -> None:
    """One batch row for each set of keys that a query may see, against float64 sums."""
    patterns = np.arange(1, 2**total)[:, None] >> np.arange(total) & 1 == 1
    batch = len(patterns)
    text = """
    <ir_version: 10, opset_import: ["" : 24]>
    g (float[B,2,S,5] q, float[B,1,T,5] k, float[B,1,T,3] v, bool[B,1,1,T] keep) => (float[B,2,S,3] y)
    { y = Attention <scale = 1.0> (q, k, v, keep) }
    """
    rng = np.random.default_rng(total * 10 + new)
    feeds = {
        "q": rng.standard_normal((batch, 2, new, 5), dtype=np.float32),
        "k": rng.standard_normal((batch, 1, total, 5), dtype=np.float32),
        "v": rng.standard_normal((batch, 1, total, 3), dtype=np.float32),
        "keep": patterns[:, None, None, :],
    }
    scores = feeds["q"].astype(np.float64) @ feeds["k"].astype(np.float64).swapaxes(2, 3)
    weights = np.exp(np.where(feeds["keep"], scores, -np.inf))
    expected = weights / weights.sum(-1, keepdims=True) @ feeds["v"]
    got = np.asarray(runtime.RuntimeSession(onnx.parser.parse_model(text)).run(feeds)["y"])
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
