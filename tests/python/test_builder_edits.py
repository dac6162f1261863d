"""Random graphs keep their results through random edits; the onnx package's evaluator is the judge."""

from typing import Any

import numpy as np
import onnx
import onnx.reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refeed.onnx.builder import GraphBuilder

FLOAT = onnx.TensorProto.FLOAT
UNARY = ("Identity", "Identity", "Identity", "Neg", "Abs")
BINARY = ("Add", "Sub")


class Names:
    """New names, and sometimes one that a nested graph may use again."""

    def __init__(self) -> None:
        self.count = 0

    def new(self) -> str:
        self.count += 1
        return f"v{self.count}"


def info(name: str) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, FLOAT, [3])


def body(draw: Any, names: Names, outer: list[str], depth: int) -> tuple[list[onnx.NodeProto], list[str]]:
    """Draw nodes that read values from outside and each other; return them and the values that they make."""
    nodes: list[onnx.NodeProto] = []
    made: list[str] = []
    # Names of the graph around that this graph defines itself: it never reads the outer ones.
    hidden = draw(st.sets(st.sampled_from(outer), max_size=1)) if depth else set()
    hidden -= {"x", "flag"}
    seen = [name for name in outer if name not in hidden and name != "flag"]
    for _ in range(draw(st.integers(1, 7))):
        values = seen + made
        kind = draw(st.sampled_from(["unary", "unary", "binary", "again", "if"]))
        name = hidden.pop() if hidden else names.new()
        if kind == "if" and depth < 2:
            branches = {}
            for branch in ("then_branch", "else_branch"):
                inner, results = body(draw, names, [*values, "flag"], depth + 1)
                output = draw(st.sampled_from(results))
                branches[branch] = onnx.helper.make_graph(inner, branch, [], [info(output)])
            node = onnx.helper.make_node("If", ["flag"], [name], **branches)
        elif kind == "again" and nodes and not nodes[-1].attribute:
            node = onnx.NodeProto()
            node.CopyFrom(draw(st.sampled_from([each for each in nodes if not each.attribute])))
            node.output[0] = name
        elif kind == "binary":
            pair = [draw(st.sampled_from(values)) for _ in range(2)]
            node = onnx.helper.make_node(draw(st.sampled_from(BINARY)), pair, [name])
        else:
            node = onnx.helper.make_node(draw(st.sampled_from(UNARY)), [draw(st.sampled_from(values))], [name])
        nodes.append(node)
        made.append(name)
    return nodes, made


@st.composite
def models(draw: Any) -> onnx.ModelProto:
    nodes, made = body(draw, Names(), ["x", "w", "flag"], 0)
    outputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))
    inputs = [info("x"), onnx.helper.make_tensor_value_info("flag", onnx.TensorProto.BOOL, [])]
    weight = onnx.helper.make_tensor("w", FLOAT, [3], [1.0, -2.0, 4.0])
    graph = onnx.helper.make_graph(nodes, "drawn", inputs, [info(name) for name in outputs], [weight])
    graph.value_info.extend(info(name) for name in made if name not in outputs and draw(st.booleans()))
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)


def results(model: onnx.ModelProto, names: list[str]) -> list[list[float]]:
    evaluator = onnx.reference.ReferenceEvaluator(model)
    found = []
    for flag in (True, False):
        feeds = {model.graph.input[0].name: np.array([0.5, -8.0, 3.0], np.float32), "flag": np.array(flag)}
        found.append([np.asarray(value).tolist() for value in evaluator.run(names, feeds)])
    return found


def exported(builder: GraphBuilder) -> onnx.ModelProto:
    model = onnx.ModelProto()
    model.ParseFromString(builder.to_onnx().SerializeToString())
    return model


PASSES = ("remove_identity_nodes", "remove_duplicate_nodes", "remove_unused_nodes", "remove_unused_initializers")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(model=models(), order=st.permutations(PASSES), data=st.data())
def test_edits_keep_the_results(model: onnx.ModelProto, order: list[str], data: Any) -> None:
    outputs = [value.name for value in model.graph.output]
    expected = results(model, outputs)
    builder = GraphBuilder(model)
    for name in order:
        getattr(builder, name)()
        assert results(exported(builder), outputs) == expected, name
    # Every value under another name.
    graph = builder.build_graph()
    values = [name for node in graph.node for name in node.output]
    renamed = {name: f"r/{name}" for name in [*values, "x"]}
    builder.rename_values(renamed)
    after = exported(builder)
    assert results(after, [renamed[name] for name in outputs]) == expected
    # A value is cut off, and put back from outside.
    cut = data.draw(st.sampled_from([name for node in after.graph.node for name in node.output]))
    part = builder.extract(["r/x", "flag"], [cut])
    rest = builder.extract([cut, "r/x", "flag"], [renamed[name] for name in outputs])
    part.merge(rest, [(cut, cut), ("r/x", "r/x"), ("flag", "flag")], prefix="b/")
    whole = exported(part)
    names = [renamed[name] for name in outputs]
    # A value that was cut at and is an output is passed on.
    assert results(whole, [f"b/{name}" for name in names]) == expected
