"""Small models for tests, made with the official `onnx` package."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT
Array = np.ndarray[Any, Any]
Shape = list[int | str | None]

info = helper.make_tensor_value_info


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    *,
    opset: int = 24,
    initializers: list[TensorProto] | None = None,
    domains: tuple[str, ...] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "test", inputs, outputs, initializer=initializers or [])
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def accumulate() -> onnx.ModelProto:
    """present[2] = delta + past."""
    node = helper.make_node("Add", ["delta", "past"], ["present"], name="sum")
    return model([node], [info("delta", FLOAT, [2]), info("past", FLOAT, [2])], [info("present", FLOAT, [2])], opset=18)


def chain(layers: int, size: int) -> onnx.ModelProto:
    """present = past + x w ... w with `layers` products of [size, size]: a step that takes as long as one likes.

    `w` is the identity, so the products are `x`.
    """
    nodes = [helper.make_node("MatMul", [f"h{at}" if at else "x", "w"], [f"h{at + 1}"]) for at in range(layers)]
    nodes.append(helper.make_node("Add", ["past", f"h{layers}"], ["present"]))
    weight = helper.make_tensor("w", FLOAT, [size, size], np.eye(size, dtype=np.float32).ravel())
    shape: Shape = [size, size]
    inputs = [info("x", FLOAT, shape), info("past", FLOAT, shape)]
    return model(nodes, inputs, [info("present", FLOAT, shape)], initializers=[weight])


def concat(batch: int = 2, heads: int = 4, width: int = 48, elements: int = FLOAT) -> onnx.ModelProto:
    """present = past with the rows of new behind it, on axis 2."""
    node = helper.make_node("Concat", ["past", "new"], ["present"], axis=2)
    return model(
        [node],
        [info("new", elements, [batch, heads, "n", width]), info("past", elements, [batch, heads, "p", width])],
        [info("present", elements, [batch, heads, "t", width])],
    )


def attention(batch: int = 2, heads: int = 4, width: int = 48, groups: int = 2) -> onnx.ModelProto:
    node = helper.make_node("Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "ok", "ov"], is_causal=1)
    query: Shape = [batch, groups * heads, "n", width]
    new: Shape = [batch, heads, "n", width]
    past: Shape = [batch, heads, "p", width]
    present: Shape = [batch, heads, "t", width]
    return model(
        [node],
        [
            info("q", FLOAT, query),
            info("k", FLOAT, new),
            info("v", FLOAT, new),
            info("pk", FLOAT, past),
            info("pv", FLOAT, past),
        ],
        [info("y", FLOAT, query), info("ok", FLOAT, present), info("ov", FLOAT, present)],
    )


def grouped_query_attention(batch: int = 2, heads: int = 4, width: int = 48, groups: int = 2) -> onnx.ModelProto:
    """Keys and values [batch, n, heads * width]; every row as long as the past says."""
    node = helper.make_node(
        "GroupQueryAttention",
        ["q", "k", "v", "pk", "pv", "lengths", "total"],
        ["y", "ok", "ov"],
        domain="com.microsoft",
        num_heads=groups * heads,
        kv_num_heads=heads,
    )
    past: Shape = [batch, heads, "p", width]
    present: Shape = [batch, heads, "t", width]
    return model(
        [node],
        [
            info("q", FLOAT, [batch, "n", groups * heads * width]),
            info("k", FLOAT, [batch, "n", heads * width]),
            info("v", FLOAT, [batch, "n", heads * width]),
            info("pk", FLOAT, past),
            info("pv", FLOAT, past),
            info("lengths", TensorProto.INT32, [batch]),
            info("total", TensorProto.INT32, []),
        ],
        [
            info("y", FLOAT, [batch, "n", groups * heads * width]),
            info("ok", FLOAT, present),
            info("ov", FLOAT, present),
        ],
        opset=18,
        domains=("com.microsoft",),
    )


def address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def official_model() -> onnx.ModelProto:
    """Make a model of two nodes with a weight, attributes and a symbolic extent."""
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [2, 3], np.arange(6, dtype=np.float32).tobytes(), raw=True)
    nodes = [
        helper.make_node("Add", ["x", "w"], ["y"], name="add", extra=[1, 2, 3]),
        helper.make_node("Constant", [], ["c"], value=helper.make_tensor("t", 7, [2], [1, -2])),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, ["N", 3])],
        [helper.make_tensor_value_info("y", 1, None)],
        [tensor],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
