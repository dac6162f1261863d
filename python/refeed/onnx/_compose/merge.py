"""One graph or model behind another."""

from refeed.errors import ModelError
from refeed.onnx import GraphProto, ModelProto, OperatorSetIdProto, checker, helper, utils
from refeed.onnx._carried import check_bindings, merge_struct_types, policies_of, refuse_caches
from refeed.onnx._compose.names import check_overlapping_names, common, need_text, read_instead
from refeed.onnx._compose.prefix import add_prefix, add_prefix_graph

__all__ = ["merge_graphs", "merge_models"]


def _prefixed_map(io_map: list[tuple[str, str]], prefix1: str | None, prefix2: str | None) -> list[tuple[str, str]]:
    return [((prefix1 or "") + output, (prefix2 or "") + name) for output, name in io_map]


def _part(graph: GraphProto, inputs: list[str], outputs: list[str]) -> GraphProto:
    """Return the part of a graph between inputs and outputs, or the graph when they are all of its own."""
    if len(inputs) == len(graph.input) and len(outputs) == len(graph.output):
        return graph
    return utils.Extractor(helper.make_model(graph)).extract_model(inputs, outputs).graph


def merge_graphs(
    g1: GraphProto,
    g2: GraphProto,
    io_map: list[tuple[str, str]],
    inputs: list[str] | None = None,
    outputs: list[str] | None = None,
    prefix1: str | None = None,
    prefix2: str | None = None,
    name: str | None = None,
    doc_string: str | None = None,
) -> GraphProto:
    """Put one graph behind another.

    Parameters
    ----------
    g1, g2 : GraphProto
        The graphs. They are not changed.
    io_map : list of (output of g1, input of g2)
        What is connected. These are no inputs and outputs of the result; all others are.
    inputs, outputs : list of str, optional
        The inputs and outputs of the result, when not all are wanted. What they do not need is left out.
    prefix1, prefix2 : str, optional
        Put before every name of a graph first. `io_map` has the names without them, `inputs` and `outputs` with them.
    name, doc_string : str, optional
        Of the result. By default made from those of both.

    Returns
    -------
    GraphProto

    Raises
    ------
    TypeError
        When `g1` or `g2` is no graph.
    ModelError
        A `ValueError`: a name in `io_map` does not exist; the graphs have names in common; a graph has paged cache or
        encoded initializers; a persistent binding would lose an end.
    """
    need_text(g1, GraphProto, "g1")
    need_text(g2, GraphProto, "g2")
    refuse_caches(g1, "merge_graphs")
    refuse_caches(g2, "merge_graphs")
    if prefix1:
        g1 = add_prefix_graph(g1, prefix1)
    if prefix2:
        g2 = add_prefix_graph(g2, prefix2)
    io_map = _prefixed_map(io_map, prefix1, prefix2)
    outs = {value.name for value in g1.output}
    ins = {value.name for value in g2.input}
    for output, input_name in io_map:
        if output not in outs:
            raise ModelError(f"io_map: `{output}` is no output of g1")
        if input_name not in ins:
            raise ModelError(f"io_map: `{input_name}` is no input of g2")
    mapped_outs = {output for output, _ in io_map}
    mapped_ins = {input_name: output for output, input_name in io_map}

    wanted_ins, wanted_outs = set(inputs or ()), set(outputs or ())
    if inputs or outputs:
        g1 = _part(
            g1,
            [v.name for v in g1.input if not inputs or v.name in wanted_ins],
            [v.name for v in g1.output if not outputs or v.name in wanted_outs | mapped_outs],
        )
        g2 = _part(
            g2,
            [v.name for v in g2.input if not inputs or v.name in wanted_ins or v.name in mapped_ins],
            [v.name for v in g2.output if not outputs or v.name in wanted_outs],
        )

    for category, names in check_overlapping_names(g1, g2, io_map):
        listed = ", ".join(f"`{each}`" for each in names)
        raise ModelError(
            f"the graphs have {category} names in common: {listed}; add_prefix gives one of them other names"
        )

    g = GraphProto()
    g.node.extend(g1.node)
    first_of_g2 = len(g.node)
    g.node.extend(g2.node)
    for node in list(g.node)[first_of_g2:]:
        read_instead(node, mapped_ins)

    if inputs:
        g.input.extend(v for part in (g1, g2) for v in part.input if v.name in wanted_ins)
    else:
        g.input.extend(g1.input)
        g.input.extend(v for v in g2.input if v.name not in mapped_ins)
    if outputs:
        g.output.extend(v for part in (g1, g2) for v in part.output if v.name in wanted_outs)
    else:
        g.output.extend(v for v in g1.output if v.name not in mapped_outs)
        g.output.extend(g2.output)
    g.initializer.extend(g1.initializer)
    g.initializer.extend(t for t in g2.initializer if t.name not in mapped_ins)
    g.sparse_initializer.extend(g1.sparse_initializer)
    g.sparse_initializer.extend(t for t in g2.sparse_initializer if t.values.name not in mapped_ins)
    g.value_info.extend(g1.value_info)
    g.value_info.extend(v for v in g2.value_info if v.name not in mapped_ins)
    described = {v.name for v in g.value_info} | {v.name for v in g.output}
    g.value_info.extend(v for v in g1.output if v.name in mapped_outs and v.name not in described)
    for part in (g1, g2):
        g.quantization_annotation.extend(part.quantization_annotation)
        g.persistent_bindings.extend(part.persistent_bindings)
    _merge_policies(g, g1, g2)
    check_bindings(g, "merge_graphs")

    g.name = name if name is not None else f"{g1.name}_{g2.name}"
    if doc_string is None:
        parts = (g1.name, g1.doc_string, g2.name, g2.doc_string)
        doc_string = f"Graph combining {g1.name} and {g2.name}\n" + "\n\n".join(parts)
    g.doc_string = doc_string
    return g


def _merge_policies(result: GraphProto, *graphs: GraphProto) -> None:
    held: dict[str, str] = {}
    for graph in graphs:
        for entry in policies_of(graph):
            if held.setdefault(entry.key, entry.value) != entry.value:
                raise ModelError(f"the graphs disagree about `{entry.key}`: `{held[entry.key]}` and `{entry.value}`")
    for key, value in held.items():
        entry = result.metadata_props.add()
        entry.key, entry.value = key, value


def merge_models(
    m1: ModelProto,
    m2: ModelProto,
    io_map: list[tuple[str, str]],
    inputs: list[str] | None = None,
    outputs: list[str] | None = None,
    prefix1: str | None = None,
    prefix2: str | None = None,
    name: str | None = None,
    doc_string: str | None = None,
    producer_name: str | None = "onnx.compose.merge_models",
    producer_version: str | None = "1.0",
    domain: str | None = "",
    model_version: int | None = 1,
) -> ModelProto:
    """Put one model behind another, and check the result.

    Parameters
    ----------
    m1, m2 : ModelProto
        The models, of one IR version and of one version of each operator domain. They are not changed.
    io_map, inputs, outputs, prefix1, prefix2, name, doc_string
        As for `merge_graphs`. Prefixes are also given to functions.
    producer_name, producer_version, domain, model_version
        Of the result.

    Returns
    -------
    ModelProto

    Raises
    ------
    TypeError
        When `m1` or `m2` is no model.
    ModelError
        A `ValueError`: as `merge_graphs`; also when the models differ in the version of the format or of a domain, in
        the value of a metadata property, or in a struct type; when they have functions of one name; when one has
        training steps.
    """
    need_text(m1, ModelProto, "m1")
    need_text(m2, ModelProto, "m2")
    if m1.ir_version != m2.ir_version:
        raise ModelError(f"the models have different IR versions: {m1.ir_version} and {m2.ir_version}")
    opsets: dict[str, OperatorSetIdProto] = {}
    for entry in (*m1.opset_import, *m2.opset_import):
        held = opsets.setdefault(entry.domain, entry)
        if held.version != entry.version:
            raise ModelError(
                f"the models import different versions of domain `{entry.domain}`: {held.version} and {entry.version}"
            )
    for argument, model in (("m1", m1), ("m2", m2)):
        if len(model.training_info):
            raise ModelError(f"{argument} has training steps, which a merge cannot carry")
    if prefix1:
        refuse_caches(m1.graph, "merge_models")
        m1 = add_prefix(m1, prefix1)
    if prefix2:
        refuse_caches(m2.graph, "merge_models")
        m2 = add_prefix(m2, prefix2)
    io_map = _prefixed_map(io_map, prefix1, prefix2)
    graph = merge_graphs(m1.graph, m2.graph, io_map, inputs=inputs, outputs=outputs, name=name, doc_string=doc_string)
    model = helper.make_model(
        graph,
        producer_name=producer_name,
        producer_version=producer_version,
        domain=domain,
        model_version=model_version,
        opset_imports=list(opsets.values()),
        ir_version=m1.ir_version,
    )

    properties: dict[str, str] = {}
    for entry in (*m1.metadata_props, *m2.metadata_props):
        if properties.setdefault(entry.key, entry.value) != entry.value:
            raise ModelError(
                f"the models disagree about metadata `{entry.key}`: `{properties[entry.key]}` and `{entry.value}`"
            )
    helper.set_model_props(model, properties)

    shared = common((f.name for f in m1.functions), (f.name for f in m2.functions))
    if shared:
        raise ModelError(f"the models both have functions named {', '.join(f'`{each}`' for each in shared)}")
    for part in (m1, m2):
        model.functions.extend(part.functions)
        model.configuration.extend(each for each in part.configuration if each not in list(model.configuration))
    merge_struct_types(model, m1, m2)
    checker.check_model(model)
    return model
