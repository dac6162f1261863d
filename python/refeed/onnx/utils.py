"""Extraction of a part of a model, with the names, arguments and results of `onnx.utils`.

What nested graphs take from outside is extracted with the nodes that have them. A persistent binding is kept when both
its ends are, and an extraction that would separate them is refused. Graphs with cache initializers are refused by name;
`refeed.onnx.builder.GraphBuilder.extract` carries those.
"""

import difflib
import os
from collections import deque
from collections.abc import Iterable

import refeed.onnx
from refeed.errors import ModelError
from refeed.onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    checker,
    helper,
    shape_inference,
)
from refeed.onnx._carried import bindings_within, reads, refuse_caches, subgraphs

__all__ = ["Extractor", "extract_model"]


class Extractor:
    """Cuts parts out of one model, which it does not change.

    Parameters
    ----------
    model : ModelProto
        The model. Values that are to be inputs or outputs of a part need a declared type.

    Raises
    ------
    ModelError
        When the graph has paged cache or encoded initializers, or two nodes make one value.

    Attributes
    ----------
    model, graph : ModelProto, GraphProto
        What it cuts.
    initializers : dict of str to TensorProto
        By name.
    value_infos : dict of str to ValueInfoProto
        Declared types of inner values, inputs and outputs, by name.
    outmap : dict of str to int
        Positions of the nodes that make the values.
    """

    def __init__(self, model: ModelProto) -> None:
        refuse_caches(model.graph, "extract_model")
        self.model = model
        self.graph: GraphProto = model.graph
        self.initializers: dict[str, TensorProto] = {tensor.name: tensor for tensor in self.graph.initializer}
        self.value_infos: dict[str, ValueInfoProto] = {
            value.name: value
            for values in (self.graph.value_info, self.graph.input, self.graph.output)
            for value in values
        }
        self.outmap: dict[str, int] = {}
        self._nodes: list[NodeProto] = list(self.graph.node)
        for index, node in enumerate(self._nodes):
            for name in node.output:
                if name and self.outmap.setdefault(name, index) != index:
                    raise ModelError(f"value `{name}` is made by nodes {self.outmap[name]} and {index}")

    def _described(self, role: str, names: Iterable[str]) -> list[ValueInfoProto]:
        missing = [name for name in names if name not in self.value_infos]
        unknown = [name for name in missing if not self._has(name)]
        if unknown:
            raise ModelError("; ".join(self._no_such(role, name) for name in unknown))
        if missing:
            listed = ", ".join(f"`{name}`" for name in missing)
            raise ModelError(f"{role} names without a declared type in the graph: {listed}; infer shapes first")
        return [self.value_infos[name] for name in names]

    def _has(self, name: str) -> bool:
        return name in self.value_infos or name in self.outmap or name in self.initializers

    def _no_such(self, role: str, name: str) -> str:
        known = sorted({*self.value_infos, *self.outmap, *self.initializers})
        close = ", ".join(f"`{each}`" for each in difflib.get_close_matches(name, known))
        hint = f"close names are {close}" if close else "no name is close to it"
        return f"{role} name `{name}`: the graph has no such value; {hint}"

    def _needed(self, inputs: Iterable[str], outputs: Iterable[str]) -> list[NodeProto]:
        """Return the nodes that make outputs from inputs, in the graph's order."""
        given = set(inputs)
        needed: set[int] = set()
        open_names = list(outputs)
        while open_names:
            name = open_names.pop()
            index = self.outmap.get(name)
            if index is not None and name not in given and index not in needed:
                needed.add(index)
                open_names.extend(reads(self._nodes[index]))
        return [self._nodes[index] for index in sorted(needed)]

    def _called(self, nodes: Iterable[NodeProto]) -> list[FunctionProto]:
        """Return the functions that nodes call, and those that these call, in the order in which they are met."""
        functions = {(f.domain, f.name, f.overload): f for f in self.model.functions}
        called: list[FunctionProto] = []
        open_nodes = deque(nodes)
        while open_nodes and functions:
            node = open_nodes.popleft()
            function = functions.pop((node.domain, node.op_type, node.overload), None)
            if function is not None:
                called.append(function)
                open_nodes.extend(function.node)
            open_nodes.extend(inner for graph in subgraphs(node) for inner in graph.node)
        return called

    def extract_model(self, input_names: list[str], output_names: list[str]) -> ModelProto:
        """Return the part of the model that makes some values from others.

        Parameters
        ----------
        input_names, output_names : list of str
            Values of the graph: inputs, outputs, or inner ones with a declared type.

        Returns
        -------
        ModelProto

        Raises
        ------
        ModelError
            A `ValueError`: the graph has no value of a name (the message lists close ones); a name has no declared
            type; the graph has sparse initializers or quantization annotations; a persistent
            binding would keep only one end.
        """
        for what in ("sparse_initializer", "quantization_annotation"):
            count = len(getattr(self.graph, what))
            if count:
                raise ModelError(f"{what}: expected none, got {count}; GraphBuilder.extract carries them")
        inputs = self._described("input", input_names)
        outputs = self._described("output", output_names)
        nodes = self._needed(input_names, output_names)
        named = {name for node in nodes for name in (*reads(node), *node.output)} | set(output_names)
        graph = helper.make_graph(
            nodes,
            "Extracted from {" + self.graph.name + "}",
            inputs,
            outputs,
            initializer=[tensor for name, tensor in self.initializers.items() if name in named],
            value_info=[value for name, value in self.value_infos.items() if name in named],
        )
        bindings_within(self.graph, graph, "extract_model")
        model = helper.make_model(
            graph,
            ir_version=self.model.ir_version,
            opset_imports=self.model.opset_import,
            producer_name="onnx.utils.extract_model",
            functions=self._called(nodes),
        )
        model.struct_types.extend(self.model.struct_types)
        return model


def extract_model(
    input_path: str | os.PathLike[str],
    output_path: str | os.PathLike[str],
    input_names: list[str],
    output_names: list[str],
    check_model: bool = True,
    infer_shapes: bool = True,
) -> None:
    """Extract a part of a model file to another file.

    Parameters
    ----------
    input_path, output_path : str or os.PathLike
        The files. When the part is larger than 2 GiB, its tensors go to ``<output_path>.data``.
    input_names, output_names : list of str
        Values of the graph: inputs, outputs, or inner ones.
    check_model : bool
        Check the whole model and the part.
    infer_shapes : bool
        Infer the types of inner values first.

    Raises
    ------
    ModelError
        A `ValueError`: a file or name is missing, a name is given twice, a model is broken; also as
        `Extractor.extract_model`.
    """
    if not os.path.exists(input_path):
        raise ModelError(f"input_path: no such file: `{os.fspath(input_path)}`")
    if not output_path:
        raise ModelError("output_path: expected a path, got an empty one")
    for argument, names in (("input_names", input_names), ("output_names", output_names)):
        if not names:
            raise ModelError(f"{argument}: expected at least one name, got none")
        if len(names) != len(set(names)):
            raise ModelError(f"{argument}: each name may be given once")
    if check_model:
        checker.check_model(input_path)
    model = refeed.onnx.load(input_path)
    refuse_caches(model.graph, "extract_model")
    if infer_shapes:
        model = shape_inference.infer_shapes(model)
    extracted = Extractor(model).extract_model(input_names, output_names)
    if extracted.ByteSize() > checker.MAXIMUM_PROTOBUF:
        location = os.path.basename(output_path) + ".data"
        refeed.onnx.save(extracted, output_path, save_as_external_data=True, location=location)
    else:
        refeed.onnx.save(extracted, output_path)
    if check_model:
        checker.check_model(output_path)
