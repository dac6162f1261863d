"""Names that graphs use, and reads that change."""

from collections.abc import Iterable, Mapping
from typing import Any

from refeed._native import _onnx
from refeed.onnx import GraphProto, NodeProto
from refeed.onnx._arguments import need
from refeed.onnx._carried import defined, subgraphs

__all__ = ["check_overlapping_names", "common", "need_text", "read_instead"]


def need_text(value: Any, kind: type, argument: str) -> None:
    """Refuse what is no message of a class, and one with names that are not UTF-8: they cannot be put together."""
    need(value, kind, argument)
    _onnx._check_text(value)


def common(first: Iterable[str], second: Iterable[str]) -> list[str]:
    """Return the names that are in both, each once, in the order of the first."""
    others = set(second)
    return [name for name in dict.fromkeys(first) if name in others]


def check_overlapping_names(
    g1: GraphProto, g2: GraphProto, io_map: list[tuple[str, str]] | None = None
) -> list[tuple[str, list[str]]]:
    """Find the names that two graphs both use.

    Parameters
    ----------
    g1, g2 : GraphProto
        The graphs.
    io_map : list of (output of g1, input of g2), optional
        What is to be connected: these inputs of `g2` may have names of `g1`.

    Returns
    -------
    list of (category, names)
        The category is one of "edge", "value_info", "initializer", "sparse_initializer"; those without a common name
        are left out.
    """
    need_text(g1, GraphProto, "g1")
    need_text(g2, GraphProto, "g2")
    mapped = {name for _, name in io_map or []}

    def edges(graph: GraphProto, leave_out: set[str]) -> list[str]:
        names = [name for node in graph.node for name in (*node.input, *node.output)]
        return [name for name in names if name and name not in leave_out]

    def sparse(graph: GraphProto, part: str) -> list[str]:
        return [getattr(tensor, part).name for tensor in graph.sparse_initializer]

    found = [
        ("edge", common(edges(g1, set()), edges(g2, mapped))),
        ("value_info", common((v.name for v in g1.value_info), (v.name for v in g2.value_info))),
        ("initializer", common((t.name for t in g1.initializer), (t.name for t in g2.initializer))),
        (
            "sparse_initializer",
            common(sparse(g1, "values"), sparse(g2, "values")) + common(sparse(g1, "indices"), sparse(g2, "indices")),
        ),
    ]
    return [(category, names) for category, names in found if names]


def read_instead(node: NodeProto, names: Mapping[str, str]) -> None:
    """Let a node, and the graphs in it that take the values from outside, read others."""
    open_nodes = [(node, names)]
    while open_nodes:
        current, seen = open_nodes.pop()
        for index, name in enumerate(current.input):
            if name in seen:
                current.input[index] = seen[name]
        for graph in subgraphs(current):
            own = defined(graph)
            inner = {old: new for old, new in seen.items() if old not in own} if own & seen.keys() else seen
            for value in graph.output:
                if value.name in inner:
                    value.name = inner[value.name]
            open_nodes.extend((each, inner) for each in graph.node)
