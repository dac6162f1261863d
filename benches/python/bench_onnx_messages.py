"""Building, walking and writing graphs: refeed's message classes beside those of the official package.

A round times one task with refeed, then with the official package; rounds alternate, so that a machine that changes
its speed changes both. Nothing is asserted.
"""

import argparse
import time

import onnx
import onnx.helper
import refeed.onnx
import refeed.onnx.helper
from measure import bootstrap, report

PACKAGES = {"refeed": refeed.onnx, "onnx": onnx}


def build(package, nodes):
    """Add nodes in place: two scalars, three names, one attribute each."""
    graph = package.GraphProto()
    for index in range(nodes):
        node = graph.node.add()
        node.op_type = "Gemm"
        node.name = f"node_{index}"
        node.input.append(f"value_{index}")
        node.input.append("weight")
        node.output.append(f"value_{index + 1}")
        attribute = node.attribute.add()
        attribute.name = "alpha"
        attribute.f = 0.5
        attribute.type = package.AttributeProto.FLOAT
    return graph


def construct(package, nodes):
    """Append nodes made by keywords."""
    graph = package.GraphProto()
    for index in range(nodes):
        graph.node.append(
            package.NodeProto(op_type="Relu", name=f"node_{index}", input=[f"v{index}"], output=[f"v{index + 1}"])
        )
    return graph


def walk(graph):
    """Read every name, and every attribute's value."""
    seen = 0
    for node in graph.node:
        seen += len(node.op_type) + len(node.name)
        for name in node.input:
            seen += len(name)
        for name in node.output:
            seen += len(name)
        for attribute in node.attribute:
            seen += len(attribute.name) + (attribute.f > 0)
    return seen


def make_nodes(package, nodes):
    """Call `helper.make_node` with attributes of four kinds."""
    make_node = package.helper.make_node
    return [
        make_node(
            "Conv", ["x", "w"], ["y"], name=f"n{index}", kernel_shape=[3, 3], group=1, alpha=0.5, auto_pad="VALID"
        )
        for index in range(nodes)
    ]


def tasks(nodes):
    """Each task as a function of the package's name."""
    graphs = {name: build(package, nodes) for name, package in PACKAGES.items()}
    wires = {name: graph.SerializeToString() for name, graph in graphs.items()}
    assert wires["refeed"] == graphs["onnx"].SerializeToString(deterministic=True)
    assert walk(graphs["refeed"]) == walk(graphs["onnx"])
    fresh = {name: lambda n=name: PACKAGES[n].GraphProto.FromString(wires[n]) for name in PACKAGES}
    return {
        "build in place": lambda name: build(PACKAGES[name], nodes),
        "build by keywords": lambda name: construct(PACKAGES[name], nodes),
        "walk": lambda name: walk(graphs[name]),
        "parse and walk": lambda name: walk(fresh[name]()),
        "parse": lambda name: fresh[name](),
        "serialise": lambda name: graphs[name].SerializeToString(),
        "helper.make_node": lambda name: make_nodes(PACKAGES[name], nodes),
    }


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=25, help="alternated rounds (25)")
    parser.add_argument("--nodes", type=int, default=2000, help="nodes of the graph (2000)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()

    results = {"benchmark": "onnx_messages", "rounds": options.rounds, "nodes": options.nodes}
    for title, task in tasks(options.nodes).items():
        times = {name: [] for name in PACKAGES}
        for name in PACKAGES:
            task(name)
        for _ in range(options.rounds):
            for name, taken in times.items():
                start = time.perf_counter()
                task(name)
                taken.append((time.perf_counter() - start) * 1e3)
        ratios = [ours / theirs for ours, theirs in zip(times["refeed"], times["onnx"], strict=True)]
        results[f"{title}: refeed ms"] = bootstrap(times["refeed"])
        results[f"{title}: refeed / onnx"] = bootstrap(ratios)
    report(results, as_json=options.json)


if __name__ == "__main__":
    main()
