"""The official package's 93 node tests of `Attention`, as nodes and as the function bodies that they are defined by.

The bodies are attention in single nodes, of a form that recognition does not take (rows without a key are found by
their largest score), so that they must give the same with and without it.
"""

import warnings
from typing import Any

import ml_dtypes
import numpy as np
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
