"""Prefixes for names."""

from collections import ChainMap
from collections.abc import Mapping

from refeed.onnx import GraphProto, ModelProto
from refeed.onnx._carried import PUBLISH_PREFIX, defined, nested_graphs, refuse_caches, subgraphs
from refeed.onnx._compose.names import need_text

__all__ = ["add_prefix", "add_prefix_graph"]


def add_prefix_graph(
    graph: GraphProto,
    prefix: str,
    rename_nodes: bool | None = True,
    rename_edges: bool | None = True,
    rename_inputs: bool | None = True,
    rename_outputs: bool | None = True,
    rename_initializers: bool | None = True,
    rename_value_infos: bool | None = True,
    inplace: bool | None = False,
    name_map: dict[str, str] | None = None,
) -> GraphProto:
    """Put a prefix before the names of a graph. Empty names stay empty.

    What nested graphs take from outside, quantization annotations and persistent bindings follow the values that they
    name.

    Parameters
    ----------
    graph : GraphProto
        The graph.
    prefix : str
        What is put before the names.
    rename_nodes : bool
        Rename nodes, and everything in nested graphs.
    rename_edges : bool
        Rename values that nodes make and that are no graph outputs.
    rename_inputs, rename_outputs, rename_initializers, rename_value_infos : bool
        Rename these.
    inplace : bool
        Change `graph` itself and return it.
    name_map : dict, optional
        More new names by old ones, which nodes and declarations of the graph get too. The names that were given are
        added to it.

    Returns
    -------
    GraphProto

    Raises
    ------
    TypeError
        When `graph` is no graph.
    ModelError
        When it has paged cache or encoded initializers.
    """
    need_text(graph, GraphProto, "graph")
    refuse_caches(graph, "add_prefix_graph")
    if not inplace:
        copied = GraphProto()
        copied.CopyFrom(graph)
        graph = copied
    names = name_map if name_map is not None else {}
    names_below: dict[str, str] = {}
    flags = {
        "edges": rename_edges,
        "inputs": rename_inputs,
        "outputs": rename_outputs,
        "initializers": rename_initializers,
        "value_infos": rename_value_infos,
    }
    names.update(_new_names(graph, prefix, {flag for flag, given in flags.items() if given}))
    open_graphs = [(graph, ChainMap(names))]
    while open_graphs:
        current, seen = open_graphs.pop()
        _rename(current, seen)
        for node in current.node:
            if rename_nodes:
                # An empty name is stated afterwards, as the onnx package does.
                node.name = prefix + node.name if node.name else ""
            for inner in subgraphs(node):
                own = defined(inner)
                if rename_nodes:
                    given = {old: new for old, new in _new_names(inner, prefix, set(flags)).items() if old in own}
                    names_below.update(given)
                    open_graphs.append((inner, seen.new_child(given)))
                elif own & seen.keys():
                    # It means values of its own by these names.
                    open_graphs.append((inner, ChainMap({old: new for old, new in seen.items() if old not in own})))
                else:
                    open_graphs.append((inner, seen))
    names.update(names_below)
    return graph


def _new_names(graph: GraphProto, prefix: str, flags: set[str]) -> dict[str, str]:
    """Return the new names of what a graph declares."""
    outputs = {value.name for value in graph.output}
    old: list[str] = []
    if "edges" in flags:
        old.extend(name for node in graph.node for name in node.output if name not in outputs)
    if "inputs" in flags:
        old.extend(value.name for value in graph.input)
    if "outputs" in flags:
        old.extend(outputs)
    if "initializers" in flags:
        old.extend(tensor.name for tensor in graph.initializer)
        for tensor in graph.sparse_initializer:
            old.extend((tensor.values.name, tensor.indices.name))
    if "value_infos" in flags:
        old.extend(value.name for value in graph.value_info)
    return {name: prefix + name for name in old if name}


def _rename(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Rename in one graph, nested graphs excepted."""
    for node in graph.node:
        for values in (node.input, node.output):
            for index, name in enumerate(values):
                if name in names:
                    values[index] = names[name]
    tensors = [part for tensor in graph.sparse_initializer for part in (tensor.values, tensor.indices)]
    for message in (*graph.input, *graph.output, *graph.initializer, *tensors, *graph.value_info):
        if message.name in names:
            message.name = names[message.name]
    for annotation in graph.quantization_annotation:
        annotation.tensor_name = names.get(annotation.tensor_name, annotation.tensor_name)
        for parameter in annotation.quant_parameter_tensor_names:
            parameter.value = names.get(parameter.value, parameter.value)
    for binding in graph.persistent_bindings:
        binding.input_name = names.get(binding.input_name, binding.input_name)
        binding.output_name = names.get(binding.output_name, binding.output_name)
    _rename_policies(graph, names)


def _rename_policies(message: GraphProto | ModelProto, names: Mapping[str, str]) -> None:
    for entry in message.metadata_props:
        bound = entry.key[len(PUBLISH_PREFIX) :]
        if entry.key.startswith(PUBLISH_PREFIX) and bound in names:
            entry.key = PUBLISH_PREFIX + names[bound]


def add_prefix(
    model: ModelProto,
    prefix: str,
    rename_nodes: bool | None = True,
    rename_edges: bool | None = True,
    rename_inputs: bool | None = True,
    rename_outputs: bool | None = True,
    rename_initializers: bool | None = True,
    rename_value_infos: bool | None = True,
    rename_functions: bool | None = True,
    inplace: bool | None = False,
) -> ModelProto:
    """Put a prefix before the names of a model: those of its graph, and of its functions.

    Parameters
    ----------
    model : ModelProto
        The model.
    prefix : str
        What is put before the names.
    rename_nodes, rename_edges, rename_inputs, rename_outputs, rename_initializers, rename_value_infos : bool
        As for `add_prefix_graph`.
    rename_functions : bool
        Rename functions, and the nodes that call them, at any depth.
    inplace : bool
        Change `model` itself and return it.

    Returns
    -------
    ModelProto

    Raises
    ------
    TypeError
        When `model` is no model.
    ModelError
        When its graph has paged cache or encoded initializers.
    """
    need_text(model, ModelProto, "model")
    refuse_caches(model.graph, "add_prefix")
    if not inplace:
        copied = ModelProto()
        copied.CopyFrom(model)
        model = copied
    names: dict[str, str] = {}
    inputs = [value.name for value in model.graph.input]
    add_prefix_graph(
        model.graph,
        prefix,
        rename_nodes=rename_nodes,
        rename_edges=rename_edges,
        rename_inputs=rename_inputs,
        rename_outputs=rename_outputs,
        rename_initializers=rename_initializers,
        rename_value_infos=rename_value_infos,
        inplace=True,
        name_map=names,
    )
    _rename_policies(model, {name: names[name] for name in inputs if name in names})
    if rename_functions:
        calls = {(f.domain, f.name, f.overload) for f in model.functions}
        for function in model.functions:
            function.name = prefix + function.name
        bodies = [model.graph.node, *(function.node for function in model.functions)]
        for nodes in bodies:
            everywhere = [*nodes, *(node for graph in nested_graphs(nodes) for node in graph.node)]
            for node in everywhere:
                if (node.domain, node.op_type, node.overload) in calls:
                    node.op_type = prefix + node.op_type
    return model
