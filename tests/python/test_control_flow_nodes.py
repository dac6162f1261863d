"""The official package's node tests of operators that hold graphs, of sequences and of optional values."""

import pathlib
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.backend.test
import pytest
import refeed
from onnx import numpy_helper
from refeed import runtime

# Values of every kind go in and out, which types would have to tell apart at each use.
load: Any = refeed.load
Session: Any = runtime.RuntimeSession

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnx.backend.test.loader import load_model_tests

    NODE_TESTS: list[Any] = load_model_tests(kind="node")

OPERATORS = {
    "ConcatFromSequence", "Identity", "If", "Loop", "Optional", "OptionalGetElement", "OptionalHasElement", "Scan",
    "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
    "SequenceMap", "SplitToSequence",
}  # fmt: skip

MISSING = {"ConcatFromSequence", "SequenceErase"}

#: Function bodies that use one of the operators beside others; those have tests of their own.
OTHERS = ("test_attention_", "test_dynamicquantizelinear_", "test_sce_")


def _belongs(case: Any) -> bool:
    return bool({node.op_type for node in case.model.graph.node} & OPERATORS) and not case.name.startswith(OTHERS)


CASES = [case for case in NODE_TESTS if _belongs(case)]


def test_every_operator_has_a_case() -> None:
    """In nested graphs as well as in the root graph."""

    def operators(graph: onnx.GraphProto) -> set[str]:
        found = {node.op_type for node in graph.node}
        for node in graph.node:
            for attribute in node.attribute:
                found |= operators(attribute.g)
        return found

    found = set().union(*(operators(case.model.graph) for case in CASES))
    # The package has no case of these.
    assert OPERATORS - found == MISSING
    assert len(CASES) == 100


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def _compare(ours: Any, want: Any, case: Any) -> None:
    if isinstance(want, list):
        assert isinstance(ours, list)
        assert len(ours) == len(want)
        for own, other in zip(ours, want, strict=True):
            _compare(own, other, case)
        return
    got = ours.numpy()
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.dtype.kind == "f" or want.dtype == ml_dtypes.bfloat16:
        got, want = got.astype(np.float64), want.astype(np.float64)
        np.testing.assert_allclose(got, want, rtol=case.rtol, atol=max(case.atol, 1e-7))
    else:
        np.testing.assert_array_equal(got, want)


# Some sequences have elements of different extents where the model declares one symbol for all.
@pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_node(case: Any) -> None:
    session = Session(load(case.model), binding_uses="any")
    names = [value.name for value in case.model.graph.input]
    assert case.data_sets
    for inputs, outputs in case.data_sets:
        feeds = {name: _plain(value) for name, value in zip(names, inputs, strict=False) if value is not None}
        got = session.run(feeds)
        assert len(got) == len(outputs)
        for ours, value in zip(got.values(), outputs, strict=True):
            _compare(ours, _plain(value), case)


# ------------------------------------------------------------------- models of several sequence operators

SIMPLE = pathlib.Path(onnx.backend.test.__file__).parent / "data" / "simple"
SEQUENCE_MODELS = sorted(SIMPLE.glob("test_sequence_model*"))


def _stored(path: pathlib.Path, declared: onnx.ValueInfoProto) -> Any:
    if declared.type.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(path.read_bytes()))
    return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


def test_all_models_are_there() -> None:
    assert len(SEQUENCE_MODELS) == 8


@pytest.mark.parametrize("folder", SEQUENCE_MODELS, ids=lambda folder: folder.name)
def test_model(folder: pathlib.Path) -> None:
    model = onnx.load(folder / "model.onnx")
    data = folder / "test_data_set_0"
    # Inputs that have an initializer are not fed.
    given = {data / f"input_{i}.pb": declared for i, declared in enumerate(model.graph.input)}
    feeds = {declared.name: _stored(path, declared) for path, declared in given.items() if path.exists()}
    got = load(model).run(feeds)
    for index, declared in enumerate(model.graph.output):
        want, ours = _stored(data / f"output_{index}.pb", declared), got[declared.name]
        for own, other in zip(ours, want, strict=True) if isinstance(want, list) else [(ours, want)]:
            np.testing.assert_array_equal(own.numpy(), other, strict=True)
