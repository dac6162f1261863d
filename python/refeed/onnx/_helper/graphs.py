"""Nodes, graphs, functions and models."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from refeed._native import _onnx
from refeed.onnx._helper.versions import NEWEST_IR_VERSION, NEWEST_OPSET, find_min_ir_version_for
from refeed.onnx.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    SparseTensorProto,
    StringStringEntryProto,
    TensorProto,
    TrainingInfoProto,
    ValueInfoProto,
)

AssignmentBindingType: TypeAlias = list[tuple[str, str]]


if TYPE_CHECKING:

    def make_node(
        op_type: str,
        inputs: Iterable[str],
        outputs: Iterable[str],
        name: str | None = None,
        doc_string: str | None = None,
        domain: str | None = None,
        overload: str | None = None,
        **kwargs: Any,
    ) -> NodeProto: ...

else:
    make_node = _onnx.make_node


def make_operatorsetid(domain: str, version: int) -> OperatorSetIdProto:
    """Say which version of a domain's operators is used; the domain is empty for ONNX's own."""
    made = OperatorSetIdProto()
    made.domain = domain
    made.version = version
    return made


def make_opsetid(domain: str, version: int) -> OperatorSetIdProto:
    """Do what `make_operatorsetid` does, under a shorter name."""
    return make_operatorsetid(domain, version)


def make_graph(
    nodes: Iterable[NodeProto],
    name: str,
    inputs: Iterable[ValueInfoProto],
    outputs: Iterable[ValueInfoProto],
    initializer: Iterable[TensorProto] | None = None,
    doc_string: str | None = None,
    value_info: Iterable[ValueInfoProto] | None = None,
    sparse_initializer: Iterable[SparseTensorProto] | None = None,
) -> GraphProto:
    """Make a graph. The parts are copied, their payloads are shared.

    Parameters
    ----------
    nodes : iterable of NodeProto
        In an order in which they can be computed.
    name : str
        The graph's name.
    inputs, outputs : iterable of ValueInfoProto
        What is given and what is returned.
    initializer : iterable of TensorProto, optional
        Constants, each under its own name.
    doc_string : str, optional
        The graph's documentation.
    value_info : iterable of ValueInfoProto, optional
        Types of values in between.
    sparse_initializer : iterable of SparseTensorProto, optional
        Sparse constants, under the names of their values.
    """
    graph = GraphProto()
    graph.node.extend(nodes)
    graph.name = name
    graph.input.extend(inputs)
    graph.output.extend(outputs)
    graph.initializer.extend(initializer or ())
    graph.sparse_initializer.extend(sparse_initializer or ())
    graph.value_info.extend(value_info or ())
    if doc_string:
        graph.doc_string = doc_string
    return graph


def make_function(
    domain: str,
    fname: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    nodes: Iterable[NodeProto],
    opset_imports: Iterable[OperatorSetIdProto],
    attributes: Sequence[str] | None = None,
    attribute_protos: Iterable[AttributeProto] | None = None,
    doc_string: str | None = None,
    overload: str | None = None,
    value_info: Iterable[ValueInfoProto] | None = None,
) -> FunctionProto:
    """Make a function of a model.

    Parameters
    ----------
    domain, fname : str
        The name under which nodes call it.
    inputs, outputs : sequence of str
        Names of values.
    nodes : iterable of NodeProto
        The body.
    opset_imports : iterable of OperatorSetIdProto
        Which operators the body uses.
    attributes : sequence of str, optional
        Names of the attributes that a call must give.
    attribute_protos : iterable of AttributeProto, optional
        Attributes that have a default value.
    doc_string : str, optional
        The function's documentation.
    overload : str, optional
        Tells functions of one name apart.
    value_info : iterable of ValueInfoProto, optional
        Types of the body's values.
    """
    function = FunctionProto()
    function.domain = domain
    function.name = fname
    function.input.extend(inputs)
    function.output.extend(outputs)
    function.node.extend(nodes)
    function.opset_import.extend(opset_imports)
    function.attribute.extend(attributes or ())
    function.attribute_proto.extend(attribute_protos or ())
    if doc_string:
        function.doc_string = doc_string
    if overload is not None:
        function.overload = overload
    function.value_info.extend(value_info or ())
    return function


def make_model(graph: GraphProto, **kwargs: Any) -> ModelProto:
    """Make a model.

    Parameters
    ----------
    graph : GraphProto
        What `make_graph` returns.
    opset_imports : iterable of OperatorSetIdProto, optional
        Which operators the graph uses; the newest of ONNX's own when not given.
    functions : iterable of FunctionProto, optional
        The model's functions.
    **kwargs : object
        Any other field of one value: `ir_version` (the newest when not given), `producer_name`, `producer_version`,
        `domain`, `model_version`, `doc_string`.

    Raises
    ------
    AttributeError
        There is no such field, or it is a repeated one.
    """
    model = ModelProto()
    model.ir_version = NEWEST_IR_VERSION
    model.graph.CopyFrom(graph)
    opset_imports = kwargs.pop("opset_imports", None)
    if opset_imports is None:
        model.opset_import.add().version = NEWEST_OPSET
    else:
        model.opset_import.extend(opset_imports)
    model.functions.extend(kwargs.pop("functions", None) or ())
    for field, value in kwargs.items():
        setattr(model, field, value)
    return model


def make_model_gen_version(graph: GraphProto, **kwargs: Any) -> ModelProto:
    """Do what `make_model` does, with the lowest `ir_version` that `opset_imports` allow.

    Raises
    ------
    ValueError
        No release of ONNX has an operator set that is imported, and no `ir_version` is given.
    """
    if "ir_version" not in kwargs:
        kwargs["ir_version"] = find_min_ir_version_for(kwargs.get("opset_imports"))
    return make_model(graph, **kwargs)


def make_training_info(
    algorithm: GraphProto,
    algorithm_bindings: AssignmentBindingType,
    initialization: GraphProto | None,
    initialization_bindings: AssignmentBindingType | None,
) -> TrainingInfoProto:
    """Describe one step of training.

    Parameters
    ----------
    algorithm : GraphProto
        What a step computes.
    algorithm_bindings : list of (str, str)
        Which initializer each output of `algorithm` replaces.
    initialization : GraphProto, optional
        What gives the initializers their first values.
    initialization_bindings : list of (str, str), optional
        Which initializer each output of `initialization` replaces.
    """
    made = TrainingInfoProto()
    made.algorithm.CopyFrom(algorithm)
    _add_entries(made.update_binding, algorithm_bindings)
    if initialization is not None:
        made.initialization.CopyFrom(initialization)
    _add_entries(made.initialization_binding, initialization_bindings or ())
    return made


def _add_entries(entries: Any, pairs: Iterable[tuple[str, str]]) -> None:
    for key, value in pairs:
        entry = StringStringEntryProto()
        entry.key = key
        entry.value = value
        entries.append(entry)


def set_metadata_props(
    proto: ModelProto | GraphProto | FunctionProto | NodeProto | TensorProto | ValueInfoProto,
    dict_value: Mapping[str, str],
) -> None:
    """Replace the metadata of a message.

    Parameters
    ----------
    proto : message
        One with a field `metadata_props`.
    dict_value : dict of str to str
        The whole new metadata.
    """
    proto.metadata_props.clear()
    _add_entries(proto.metadata_props, dict_value.items())


def set_model_props(model: ModelProto, dict_value: Mapping[str, str]) -> None:
    """Replace the metadata of a model: `set_metadata_props` under its older name."""
    set_metadata_props(model, dict_value)


def strip_doc_string(proto: Any) -> None:
    """Clear `doc_string` in a message and in every message inside it, in place.

    Raises
    ------
    TypeError
        `proto` is not a message.
    """
    if not hasattr(proto, "ListFields"):
        raise TypeError(f"proto must be a message, got {type(proto).__name__}")
    pending = [proto]
    while pending:
        message = pending.pop()
        for descriptor, value in message.ListFields():
            if descriptor.name == "doc_string":
                message.ClearField("doc_string")
            elif hasattr(value, "ListFields"):
                pending.append(value)
            elif descriptor.message_type is not None:
                pending.extend(value)
