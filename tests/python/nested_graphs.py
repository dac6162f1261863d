"""Random models of nested `Loop`, `Scan` and `If`: integers below 97, so that every runtime gives the same bits."""

import itertools
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

INT64 = TensorProto.INT64
BOOL = TensorProto.BOOL
WIDTH = 3
TRIPS = (0, 1, 5, 17)


class _Graph:
    """A graph being drawn. Names are unique in the whole model, since bodies read what stands around them."""

    def __init__(self, draw: Any, numbers: "itertools.count[int]") -> None:
        self.draw = draw
        self.numbers = numbers
        self.nodes: list[onnx.NodeProto] = []

    def name(self) -> str:
        return f"v{next(self.numbers)}"

    def add(self, op: str, *inputs: str, count: int = 1, **attributes: Any) -> str:
        outputs = [self.name() for _ in range(count)]
        self.nodes.append(helper.make_node(op, list(inputs), outputs, **attributes))
        return outputs[0]

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        return self.add("Constant", value=numpy_helper.from_array(np.array(value, dtype)))

    def below(self) -> "_Graph":
        return _Graph(self.draw, self.numbers)

    def step(self, x: str, seen: list[str]) -> str:
        """x times a number, plus a value from around, modulo 97."""
        factor = self.constant(self.draw(st.integers(2, 9)))
        other = self.draw(st.sampled_from([x, *seen]))
        return self.add("Mod", self.add("Add", self.add("Mul", x, factor), other), self.constant(97))

    def block(self, x: str, seen: list[str], depth: int) -> str:
        """Some steps on x, nested ones among them."""
        for _ in range(self.draw(st.integers(1, 2))):
            kinds = ["step", "loop", "scan", "if"] if depth > 0 else ["step"]
            kind = self.draw(st.sampled_from(kinds))
            x = self.step(x, seen) if kind == "step" else getattr(self, kind)(x, [*seen, x], depth - 1)
        return x

    def total(self, x: str, parts: str) -> str:
        axes = self.constant([0])
        return self.add("Mod", self.add("Add", x, self.add("ReduceSum", parts, axes, keepdims=0)), self.constant(97))

    def loop(self, x: str, seen: list[str], depth: int) -> str:
        body = self.below()
        number, condition, state = body.name(), body.name(), body.name()
        last = body.block(state, seen, depth)
        if self.draw(st.booleans()):
            until = body.constant(self.draw(st.integers(0, 6)))
            goes_on = body.add("Less", number, until)
        else:
            goes_on = body.add("Identity", condition)
        # One value both as the next state and as a part: they must not get in each other's way.
        part = last if self.draw(st.booleans()) else body.add("Neg", last)
        graph = helper.make_graph(
            body.nodes,
            "body",
            [_info(number, INT64, []), _info(condition, BOOL, []), _info(state, INT64, [WIDTH])],
            [_info(goes_on, BOOL, []), _info(last, INT64, [WIDTH]), _info(part, INT64, [WIDTH])],
        )
        if part == last:
            part = body.name()
            graph.node.append(helper.make_node("Identity", [last], [part]))
            graph.output[2].name = part
        trips = self.constant(self.draw(st.sampled_from(TRIPS)))
        given = self.constant(self.draw(st.sampled_from([True, True, True, False])), np.bool_)
        given = self.draw(st.sampled_from([given, ""]))
        outputs = [self.name(), self.name()]
        self.nodes.append(helper.make_node("Loop", [trips, given, x], outputs, body=graph))
        return self.total(*outputs)

    def scan(self, x: str, seen: list[str], depth: int) -> str:
        body = self.below()
        state, row = body.name(), body.name()
        last = body.block(body.add("Add", state, row), seen, depth)
        part = body.add("Sub", last, row)
        graph = helper.make_graph(
            body.nodes,
            "body",
            [_info(state, INT64, [WIDTH]), _info(row, INT64, [WIDTH])],
            [_info(last, INT64, [WIDTH]), _info(part, INT64, [WIDTH])],
        )
        length = self.draw(st.sampled_from([1, 2, 5]))
        rows = self.constant(np.arange(length * WIDTH).reshape(length, WIDTH) % 11)
        outputs = [self.name(), self.name()]
        self.nodes.append(helper.make_node("Scan", [x, rows], outputs, body=graph, num_scan_inputs=1))
        return self.total(*outputs)

    def choice(self, x: str, seen: list[str], depth: int) -> str:
        total = self.add("ReduceSum", x, self.constant([0]), keepdims=0)
        condition = self.add("Less", self.add("Mod", total, self.constant(2)), self.constant(1))
        branches = {}
        for name in ("then_branch", "else_branch"):
            body = self.below()
            result = body.block(body.add("Identity", x), seen, depth)
            branches[name] = helper.make_graph(body.nodes, name, [], [_info(result, INT64, [WIDTH])])
        return self.add("If", condition, **branches)


setattr(_Graph, "if", _Graph.choice)


def _info(name: str, kind: int, shape: list[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


@st.composite
def models(draw: Any) -> onnx.ModelProto:
    """y = f(x), with x and y INT64[3]."""
    graph = _Graph(draw, itertools.count())
    last = graph.block("x", [], draw(st.integers(1, 3)))
    graph.nodes.append(helper.make_node("Identity", [last], ["y"]))
    info = [_info(name, INT64, [WIDTH]) for name in ("x", "y")]
    whole = helper.make_graph(graph.nodes, "nested", info[:1], info[1:])
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
