"""What the editing functions of the onnx package know nothing of: persistent bindings, caches, struct types.

`compose` and `utils` work like their namesakes, which build new graphs from the fields that ONNX has. What is here
keeps the other fields, or refuses by name what cannot be kept.
"""

from collections.abc import Iterable, Iterator

from refeed.errors import ModelError
from refeed.onnx import GraphProto, ModelProto, NodeProto, StringStringEntryProto, StructTypeProto

PUBLISH_PREFIX = "refeed.publish:"
POLICY_PREFIX = "refeed."

__all__ = [
    "POLICY_PREFIX",
    "PUBLISH_PREFIX",
    "bindings_within",
    "check_bindings",
    "defined",
    "merge_struct_types",
    "nested_graphs",
    "policies_of",
    "reads",
    "refuse_caches",
    "subgraphs",
]


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs that are attributes of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def nested_graphs(nodes: Iterable[NodeProto]) -> Iterator[GraphProto]:
    """Yield the graphs nested in nodes, at any depth."""
    open_graphs = [graph for node in nodes for graph in subgraphs(node)]
    while open_graphs:
        graph = open_graphs.pop()
        yield graph
        open_graphs.extend(inner for node in graph.node for inner in subgraphs(node))


def defined(graph: GraphProto) -> set[str]:
    """Return the names that a graph defines itself."""
    names = {value.name for value in graph.input}
    for values in (graph.initializer, graph.encoded_initializer, graph.paged_cache_initializer):
        names.update(value.name for value in values)
    names.update(part.name for tensor in graph.sparse_initializer for part in (tensor.values, tensor.indices))
    names.update(name for node in graph.node for name in node.output)
    names.discard("")
    return names


def reads(node: NodeProto) -> set[str]:
    """Return the names that a node reads: its inputs, and what the graphs in it take from outside."""
    names = set(node.input)
    nothing: frozenset[str] = frozenset()
    open_graphs = [(graph, nothing) for graph in subgraphs(node)]
    while open_graphs:
        graph, hidden = open_graphs.pop()
        hidden = hidden | defined(graph)
        inputs = (name for inner in graph.node for name in inner.input)
        outputs = (value.name for value in graph.output)
        names.update(name for part in (inputs, outputs) for name in part if name not in hidden)
        open_graphs.extend((below, hidden) for inner in graph.node for below in subgraphs(inner))
    names.discard("")
    return names


def refuse_caches(graph: GraphProto, action: str) -> None:
    """Refuse a graph that holds, at any depth, initializers that only refeed has.

    Raises
    ------
    ModelError
        Names the paged cache and encoded initializers.
    """
    for part in (graph, *nested_graphs(graph.node)):
        for what, values in (
            ("paged cache", part.paged_cache_initializer),
            ("encoded", part.encoded_initializer),
        ):
            if len(values):
                names = ", ".join(f"`{value.name}`" for value in values)
                raise ModelError(
                    f"{action}: graph `{part.name}` has {what} initializers ({names}), which this function does not "
                    "carry; use refeed.onnx.builder.GraphBuilder"
                )


def check_bindings(graph: GraphProto, action: str) -> None:
    """Refuse a graph one of whose bindings has lost an end.

    Raises
    ------
    ModelError
        Names the binding and the end.
    """
    if not len(graph.persistent_bindings):
        return
    ends = {
        "input": {value.name for value in graph.input},
        "output": {value.name for value in graph.output},
    }
    for binding in graph.persistent_bindings:
        for role, name in (("input", binding.input_name), ("output", binding.output_name)):
            if name not in ends[role]:
                raise ModelError(
                    f"{action}: persistent binding `{binding.input_name}` -> `{binding.output_name}` would lose its "
                    f"{role}, which is no graph {role} of the result; keep it as one, or remove the binding first"
                )


def bindings_within(graph: GraphProto, result: GraphProto, action: str) -> None:
    """Give a part of a graph the bindings whose both ends it has, with their policies; refuse those with one end.

    Raises
    ------
    ModelError
        As `check_bindings`.
    """
    inputs = {value.name for value in result.input}
    outputs = {value.name for value in result.output}
    for binding in graph.persistent_bindings:
        if binding.input_name in inputs or binding.output_name in outputs:
            result.persistent_bindings.append(binding)
    check_bindings(result, action)
    bound = {binding.input_name for binding in result.persistent_bindings}
    if bound:
        result.metadata_props.extend(
            entry
            for entry in policies_of(graph)
            if not entry.key.startswith(PUBLISH_PREFIX) or entry.key[len(PUBLISH_PREFIX) :] in bound
        )


def policies_of(message: GraphProto | ModelProto) -> list[StringStringEntryProto]:
    """Return the entries of a message's metadata that govern bindings."""
    return [entry for entry in message.metadata_props if entry.key.startswith(POLICY_PREFIX)]


def merge_struct_types(result: ModelProto, *models: ModelProto) -> None:
    """Give a model the struct types of others, each identity once.

    Raises
    ------
    ModelError
        When two of them declare one identity differently.
    """
    held: dict[int, StructTypeProto] = {}
    for model in models:
        for declared in model.struct_types:
            first = held.setdefault(declared.type_id, declared)
            if first is declared:
                result.struct_types.append(declared)
            elif first.SerializeToString() != declared.SerializeToString():
                raise ModelError(
                    f"the models declare struct type {declared.type_id} differently: `{first.name}` and "
                    f"`{declared.name}`; give one of them another type_id"
                )
