"""Attention of tensors without elements whose extents are huge, and outputs that no memory holds."""

import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import pytest
import refeed
from onnx import helper

HUGE = 2**40
Shapes = dict[str, tuple[int, ...]]

# Operator, domain, shapes by input, outputs, attributes, what the outputs are.
CASES: list[tuple[str, str, Shapes, list[str], dict[str, int], list[tuple[int, ...]]]] = [
    (
        "Attention",
        "",
        {"q": (1, 3, 0), "k": (1, 3, 0), "v": (1, 3, 0)},
        ["y"],
        {"q_num_heads": HUGE, "kv_num_heads": HUGE},
        [(1, 3, 0)],
    ),
    ("Attention", "", dict.fromkeys("qkv", (HUGE, 1, 1, 0)), ["y"], {}, [(HUGE, 1, 1, 0)]),
    ("Attention", "", {"q": (1, 1, HUGE, 0), "k": (1, 1, 1, 0), "v": (1, 1, 1, 0)}, ["y"], {}, [(1, 1, HUGE, 0)]),
    ("Attention", "", {"q": (1, 1, 1, 0), "k": (1, 1, HUGE, 0), "v": (1, 1, HUGE, 0)}, ["y"], {}, [(1, 1, 1, 0)]),
    (
        "Attention",
        "",
        {"q": (1, 1, 1, 0), "k": (1, 1, HUGE, 0), "v": (1, 1, HUGE, 0), "": (), "pk": (1, 1, 5, 0), "pv": (1, 1, 5, 0)},
        ["y", "a", "b"],
        {"is_causal": 1},
        [(1, 1, 1, 0), (1, 1, HUGE + 5, 0), (1, 1, HUGE + 5, 0)],
    ),
    (
        "Attention",
        "",
        {"q": (1, 1, 1, 0), "k": (1, 1, HUGE, 0), "v": (1, 1, HUGE, 0)},
        ["y"],
        {"softmax_precision": 11},
        [(1, 1, 1, 0)],
    ),
    (
        "MultiHeadAttention",
        "com.microsoft",
        dict.fromkeys("qkv", (1, 1, 0)),
        ["y"],
        {"num_heads": HUGE},
        [(1, 1, 0)],
    ),
    (
        "RotaryEmbedding",
        "",
        {"x": (1, HUGE, 1, 0), "cos": (1, 1, 0), "sin": (1, 1, 0)},
        ["y"],
        {},
        [(1, HUGE, 1, 0)],
    ),
    (
        "RotaryEmbedding",
        "",
        {"x": (HUGE, 1, 1, 0), "cos": (HUGE, 1, 0), "sin": (HUGE, 1, 0)},
        ["y"],
        {},
        [(HUGE, 1, 1, 0)],
    ),
]


def _model(
    op_type: str, domain: str, inputs: dict[str, Any], outputs: list[str], opset: int = 24, **attributes: Any
) -> onnx.ModelProto:
    """Return a model of one node, with inputs of these types and any shape."""
    node = helper.make_node(op_type, list(inputs), outputs, domain=domain, **attributes)

    def declared(name: str, kind: int) -> onnx.ValueInfoProto:
        tensor = onnx.TypeProto.Tensor(elem_type=kind)
        return onnx.ValueInfoProto(name=name, type=onnx.TypeProto(tensor_type=tensor))

    types = {name: helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype) for name, array in inputs.items() if name}
    ins = [declared(name, kind) for name, kind in types.items()]
    first = next(iter(types.values()))
    outs = [declared(name, first) for name in outputs if name]
    graph = helper.make_graph([node], "g", ins, outs)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=11)


def run_all() -> None:
    """Run every case; the process that does this may hang, and then its parent ends it."""
    for op_type, domain, shapes, outputs, attributes, expected in CASES:
        inputs: dict[str, Any] = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        model = refeed.load(_model(op_type, domain, inputs, outputs, **attributes))
        made = model.run({name: array for name, array in inputs.items() if name})
        assert [tuple(made[name].shape) for name in outputs] == expected, (op_type, shapes)
    inputs = {name: np.zeros((1, 1, 0), np.float32) for name in ("q", "k", "v", "pk", "pv")}
    inputs |= {"last": np.zeros(1, np.int32), "total": np.ones(1, np.int32)}
    model = _model("GroupQueryAttention", "com.microsoft", inputs, ["y", "a", "b"], num_heads=HUGE, kv_num_heads=HUGE)
    # Without a past.
    model.graph.node[0].input[3:5] = ["", ""]
    del model.graph.input[3:5]
    made = refeed.load(model).run({name: array for name, array in inputs.items() if name not in ("pk", "pv")})
    assert [tuple(made[name].shape) for name in "yab"] == [(1, 1, 0), (1, HUGE, 1, 0), (1, HUGE, 1, 0)]


def test_nothing_is_computed_where_there_is_no_element() -> None:
    command = [sys.executable, __file__]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    ("mask", "heads"),
    [((1, 1, 4, 9), 2), ((5,), 2), (None, 3)],
    ids=["a mask of more keys", "a mask of another extent", "query heads that do not divide"],
)
def test_what_has_no_element_is_checked_all_the_same(mask: tuple[int, ...] | None, heads: int) -> None:
    shapes: Shapes = {"q": (1, heads, 4, 0), "k": (1, 2, 3, 0), "v": (1, 2, 3, 0)}
    inputs: dict[str, Any] = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    if mask is not None:
        inputs["m"] = np.zeros(mask, np.float32)
    with pytest.raises(refeed.Error):
        refeed.load(_model("Attention", "", inputs, ["y"])).run(inputs)


def test_scores_that_no_memory_holds_are_refused_before_anything_is_computed() -> None:
    """Computing 2^40 products first would take this test many minutes."""
    inputs = {name: np.zeros((1, 1, 2**20, 1), np.float32) for name in "qkv"}
    model = _model("Attention", "", inputs, ["y", "", "", "scores"])
    with pytest.raises(MemoryError):
        refeed.runtime.RuntimeSession(model, memory_limit=1 << 30).run(inputs)


if __name__ == "__main__":
    run_all()
