"""What messages cost in Python: building, walking and copying a graph beside the official `onnx` package.

A round does the same with refeed's classes and with the official ones; rounds alternate, so that a machine that changes
its speed changes both. Times are those of the thread: other work on the machine counts as little as can be. Nothing is
asserted but that both packages make the same bytes.
"""

import argparse
import copy
import gc
import time

import onnx
import refeed.onnx
from measure import bootstrap, report
from onnx import helper


def add(package, nodes):
    """Build a graph node by node: `node.add()`, two scalars, three items."""
    graph = package.GraphProto()
    for _ in range(nodes):
        node = graph.node.add()
        node.op_type = "Add"
        node.name = "n"
        node.input.append("a")
        node.input.append("b")
        node.output.append("c")
    return graph


def append(package, nodes):
    """Build a graph of nodes made by their constructor."""
    graph = package.GraphProto()
    for _ in range(nodes):
        graph.node.append(package.NodeProto(op_type="Add", name="n", input=["a", "b"], output=["c"]))
    return graph


def make_node(package, nodes):
    """Make nodes with `helper.make_node`, one attribute each."""
    make = helper.make_node if package is onnx else refeed.onnx.helper.make_node
    graph = package.GraphProto()
    graph.node.extend([make("Add", ["a", "b"], ["c"], "n", axis=1) for _ in range(nodes)])
    return graph


def walkable(package, nodes):
    """Make a graph whose nodes have three attributes each."""
    graph = add(package, nodes)
    for node in graph.node:
        for _ in range(3):
            node.attribute.add(name="k", i=3, type=2)
    return graph


def walk(graph):
    """Read every node, its names and its attributes."""
    total = 0
    for node in graph.node:
        total += len(node.op_type)
        for name in node.input:
            total += len(name)
        for name in node.output:
            total += len(name)
        for attribute in node.attribute:
            total += attribute.i + len(attribute.name)
    return total


def timed(work, *arguments):
    """Time one run, collections put off."""
    gc.collect()
    gc.disable()
    try:
        start = time.thread_time()
        work(*arguments)
        return (time.thread_time() - start) * 1e3
    finally:
        gc.enable()


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=25, help="alternated rounds (25)")
    parser.add_argument("--nodes", type=int, default=2000, help="nodes of the graph (2000)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()

    packages = (refeed.onnx, onnx)
    for build in (add, append, make_node, walkable):
        ours, theirs = (build(package, 3).SerializeToString() for package in packages)
        assert ours == theirs, build.__name__
    graphs = [walkable(package, options.nodes) for package in packages]
    assert walk(graphs[0]) == walk(graphs[1])

    results = {"benchmark": "messages", "rounds": options.rounds, "nodes": options.nodes}
    # A graph that nobody has walked yet, and one whose nodes have all been asked for before.
    tasks = {
        "add": lambda index: timed(add, packages[index], options.nodes),
        "append": lambda index: timed(append, packages[index], options.nodes),
        "make_node": lambda index: timed(make_node, packages[index], options.nodes),
        "walk": lambda index: timed(walk, copy.deepcopy(graphs[index])),
        "walk again": lambda index: timed(walk, graphs[index]),
        "deepcopy": lambda index: timed(copy.deepcopy, graphs[index]),
        "serialize": lambda index: timed(graphs[index].SerializeToString),
    }
    for name, task in tasks.items():
        rounds = [[task(0), task(1)] for _ in range(options.rounds)]
        ours, theirs = zip(*rounds, strict=True)
        results[f"{name}: refeed ms"] = bootstrap(ours)
        results[f"{name}: onnx ms"] = bootstrap(theirs)
        results[f"{name}: refeed / onnx"] = bootstrap([a / b for a, b in rounds])
    report(results, as_json=options.json)


if __name__ == "__main__":
    main()
