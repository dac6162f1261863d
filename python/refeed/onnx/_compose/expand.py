"""One more axis for outputs."""

from refeed.errors import ModelError
from refeed.onnx import GraphProto, ModelProto, TensorProto, helper
from refeed.onnx._compose.names import need_text, read_instead

__all__ = ["expand_out_dim", "expand_out_dim_graph"]


def expand_out_dim_graph(graph: GraphProto, dim_idx: int, inplace: bool | None = False) -> GraphProto:
    """Give every output of a graph one more axis, of extent 1.

    Parameters
    ----------
    graph : GraphProto
        The graph. Its outputs are tensors.
    dim_idx : int
        Where the axis is inserted. Negative numbers count from the end.
    inplace : bool
        Change `graph` itself and return it.

    Returns
    -------
    GraphProto

    Raises
    ------
    TypeError
        When `graph` is no graph.
    ModelError
        When an output is no tensor, or is bound to an input, whose type it would no longer have.
    """
    need_text(graph, GraphProto, "graph")
    for binding in graph.persistent_bindings:
        raise ModelError(
            f"expand_out_dim_graph: output `{binding.output_name}` is bound to input `{binding.input_name}` and must "
            "keep its axes; remove the persistent binding first"
        )
    made = {name for node in graph.node for name in node.output}
    for value in graph.output:
        if value.name not in made:
            raise ModelError(f"expand_out_dim_graph: no node makes output `{value.name}`; put an Identity before it")
        if not value.type.HasField("tensor_type"):
            kind = value.type.WhichOneof("value") or "no type"
            raise ModelError(f"expand_out_dim_graph: output `{value.name}`: expected a tensor, got {kind}")
    if not inplace:
        copied = GraphProto()
        copied.CopyFrom(graph)
        graph = copied
    inner = {value.name: f"{value.name}_collapsed_dim_{dim_idx}" for value in graph.output}
    for node in graph.node:
        for index, name in enumerate(node.output):
            if name in inner:
                node.output[index] = inner[name]
        read_instead(node, inner)

    axis = f"{graph.name}_expand_out_dim_idx"
    tensor = helper.make_tensor(name=f"{axis}-value", data_type=TensorProto.INT64, dims=[1], vals=[dim_idx])
    graph.node.append(helper.make_node("Constant", inputs=[], outputs=[axis], name=f"{axis}-constant", value=tensor))
    for value in graph.output:
        graph.node.append(
            helper.make_node(
                "Unsqueeze", inputs=[inner[value.name], axis], outputs=[value.name], name=f"unsqueeze-{value.name}"
            )
        )
        kept = value.type.tensor_type
        shape = None
        if kept.HasField("shape"):
            shape = [getattr(dim, dim.WhichOneof("value") or "", None) for dim in kept.shape.dim]
            shape.insert(dim_idx if dim_idx >= 0 else dim_idx + len(shape) + 1, 1)
        value.CopyFrom(helper.make_tensor_value_info(value.name, kept.elem_type, shape))
    return graph


def expand_out_dim(model: ModelProto, dim_idx: int, inplace: bool | None = False) -> ModelProto:
    """Give every output of a model one more axis, of extent 1. See `expand_out_dim_graph`.

    Parameters
    ----------
    model : ModelProto
        The model. The outputs of its graph are tensors.
    dim_idx : int
        Where the axis is inserted. Negative numbers count from the end.
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
        As `expand_out_dim_graph`.
    """
    need_text(model, ModelProto, "model")
    if not inplace:
        copied = ModelProto()
        copied.CopyFrom(model)
        model = copied
    expand_out_dim_graph(model.graph, dim_idx, inplace=True)
    return model
