"""The stored facts about the official operators, which native tests read, are those of the installed package."""

import json
import pathlib

import onnx
import operator_table
import pytest
from onnx import helper, parser, shape_inference

RULES = pathlib.Path(__file__).resolve().parents[1] / "data" / "type_rules.txt"


def test_the_stored_table_is_the_official_one() -> None:
    stored = json.loads(operator_table.TABLE.read_text())
    official = operator_table.official()
    names = [(entry["domain"], entry["op_type"]) for entry in stored]
    assert names == [(entry["domain"], entry["op_type"]) for entry in official]
    for ours, theirs in zip(stored, official, strict=True):
        assert ours == theirs, "run tests/python/operator_table.py"


def tells(wanted: onnx.TypeProto, official: onnx.TypeProto) -> bool:
    """Whether a stored type says all that the official one says, and nothing else where both speak."""
    kind = official.WhichOneof("value")
    if kind is None:
        return True
    if wanted.WhichOneof("value") != kind:
        return False
    if kind in ("sequence_type", "optional_type"):
        return tells(getattr(wanted, kind).elem_type, getattr(official, kind).elem_type)
    ours, theirs = wanted.tensor_type, official.tensor_type
    if theirs.elem_type and ours.elem_type != theirs.elem_type:
        return False
    if not theirs.HasField("shape"):
        return True
    # What is not known gets a name of its own.
    dims = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in theirs.shape.dim]
    mine = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in ours.shape.dim]
    made = [isinstance(dim, str) and (not dim or dim.startswith("unk__")) for dim in dims]
    return len(mine) == len(dims) and all(blank or a == b for a, b, blank in zip(mine, dims, made, strict=True))


@pytest.mark.parametrize("line", [line for line in RULES.read_text().splitlines() if not line.startswith("#")])
def test_the_stored_types_are_the_official_ones(line: str) -> None:
    version, text = line.split(" ", 1)
    graph = parser.parse_graph(f"g {text}")
    wanted = {output.name: output.type for output in graph.output}
    opsets = [helper.make_opsetid("", int(version)), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    for output in model.graph.output:
        output.ClearField("type")
    inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    for output in inferred.graph.output:
        assert tells(wanted[output.name], output.type), output
