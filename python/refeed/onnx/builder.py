"""Building and editing graphs.

A `GraphBuilder` starts from nothing or from a model, and ends as a validated model. Between the two, its edits keep
what belongs together together: a renamed graph input takes its persistent binding along, a pass that removes nodes
keeps every graph input and output, and an export that would lose a declaration is refused and says which.

Examples
--------
>>> from refeed.onnx import PersistentBindingProto, TensorProto
>>> from refeed.onnx.builder import GraphBuilder
>>> builder = GraphBuilder("running_sum")
>>> past = builder.make_input("past", TensorProto.FLOAT, ["n"])
>>> delta = builder.make_input("delta", TensorProto.FLOAT, ["n"])
>>> (total,) = builder.make_node("Add", [past, delta], ["present"])
>>> builder.make_output(total)
'present'
>>> builder.make_persistent_binding(PersistentBindingProto(input_name=past, output_name=total))
>>> builder.rename_value("past", "sum")
>>> model = builder.to_onnx()
>>> model.graph.persistent_bindings[0].input_name
'sum'
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np

from refeed._native import Model, _GraphBuilder
from refeed.onnx import (
    AttributeProto,
    EncodedValueProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    PagedCacheProto,
    PersistentBindingProto,
    SparseTensorProto,
    StructTypeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)
from refeed.onnx._arguments import need, need_items, need_message

__all__ = ["GraphBuilder"]

_Shape = Sequence[int | str | None]


class GraphBuilder:
    """A graph that is being built or edited.

    An edit is done whole or refused whole. Nested graphs are followed with their scopes: a graph that defines a name
    itself means its own value by it. Function bodies are scopes of their own and are left as they are. Payloads are
    shared by every edit.

    Parameters
    ----------
    source : str or model
        The name of an empty graph, or the model to start from: a `ModelProto`, bytes, a `refeed.Model`, an official
        `onnx.ModelProto`, or a path as `os.PathLike`.

    Raises
    ------
    ModelError
        When the model is broken, which a binding is that names what is no graph input or output.
    """

    __slots__ = ("_native",)
    _native: _GraphBuilder

    def __init__(self, source: str | ModelProto | Model | bytes | os.PathLike[str] = "graph") -> None:
        if isinstance(source, str):
            self._native = _GraphBuilder(source)
        else:
            self._native = _GraphBuilder(model=source)

    # Versions.

    def set_opset_version(self, domain: str, version: int) -> None:
        """Import a version of an operator domain, in place of the one that was imported before.

        A builder that started from nothing, and was told no version of ai.onnx, takes the newest.
        """
        need(domain, str, "domain")
        need(version, int, "version")
        self._native.set_opset(domain, version)

    def opset_version(self, domain: str) -> int | None:
        """Return the imported version of a domain; "" and "ai.onnx" are the same."""
        need(domain, str, "domain")
        return self._native.opset(domain)

    def opset_versions(self) -> dict[str, int]:
        """Return all imported versions by domain."""
        return dict(self._native.opsets())

    def set_ir_version(self, version: int) -> None:
        """State the IR version. Unless it is stated, a new model has the oldest that knows its opset."""
        need(version, int, "version")
        self._native.set_ir_version(version)

    # Names.

    def has_name(self, name: str) -> bool:
        """Return whether a value of this name is or was in the model, in whatever scope."""
        need(name, str, "name")
        return self._native.has_name(name)

    def has_value(self, name: str) -> bool:
        """Return whether the root graph defines a value of this name."""
        need(name, str, "name")
        return self._native.has_value(name)

    def fresh_name(self, stem: str) -> str:
        """Return a name that no value has or had: `stem`, or ``stem_1`` and so on. It is not returned twice."""
        need(stem, str, "stem")
        return self._native.fresh_name(stem)

    def producer(self, value: str) -> int | None:
        """Return the position of the node that makes a value; None for inputs, initializers and unknown names."""
        need(value, str, "value")
        return self._native.producer(value)

    # What a graph has.

    def make_input(
        self,
        name: str | ValueInfoProto,
        elem_type: int | TypeProto | None = None,
        shape: _Shape | None = None,
    ) -> str:
        """Add a graph input.

        Parameters
        ----------
        name : str or ValueInfoProto
            The name, or the whole declaration.
        elem_type : int or TypeProto
            The element type of a tensor, or any type.
        shape : sequence of int, str or None, optional
            Dimensions of a tensor: numbers, symbols, unknown ones. No shape at all when None.

        Returns
        -------
        str
            The name.

        Raises
        ------
        ModelError
            When the name is in use, or there is no type.
        """
        info = _info(name, elem_type, shape)
        self._native.make_input(info)
        return info.name

    def make_output(
        self,
        name: str | ValueInfoProto,
        elem_type: int | TypeProto | None = None,
        shape: _Shape | None = None,
    ) -> str:
        """Declare a value to be a graph output.

        Parameters
        ----------
        name : str or ValueInfoProto
            The name, or the whole declaration.
        elem_type : int or TypeProto, optional
            The element type of a tensor, or any type. When there is none, the export finds out.
        shape : sequence of int, str or None, optional
            Dimensions of a tensor: numbers, symbols, unknown ones.

        Returns
        -------
        str
            The name.

        Raises
        ------
        ModelError
            When the root graph has no such value, or it is an output already.
        """
        info = _info(name, elem_type, shape)
        self._native.make_output(info)
        return info.name

    def make_node(
        self,
        op_type: str,
        inputs: Iterable[str | None] = (),
        outputs: str | Iterable[str | None] | int | None = None,
        domain: str = "",
        name: str = "",
        attributes: Mapping[str, Any] | Iterable[AttributeProto] | None = None,
        **more: Any,
    ) -> list[str]:
        """Add a node at the end.

        Parameters
        ----------
        op_type : str
            The operator.
        inputs : iterable of str or None
            Values of the root graph; None or "" leaves an optional input out.
        outputs : str, iterable of str or None, int, optional
            Names of the outputs: "" asks for a new name, None leaves an optional output out. A number asks for so many
            new names. When None, the operator's required outputs, or all of a function, get new names.
        domain, name : str
            The operator's domain, and the node's name.
        attributes : mapping of str to value, or iterable of AttributeProto, optional
            Values are turned into attributes as `helper.make_attribute` does; None is left out.
        **more
            More attributes by name.

        Returns
        -------
        list of str
            Names of the outputs; omitted ones are "".

        Raises
        ------
        ModelError
            When the node reads what the root graph does not define, or an output's name is in use.
        """
        need(op_type, str, "op_type")
        need(domain, str, "domain")
        need(name, str, "name")
        given = need_items(inputs, (str, type(None)), "inputs")
        if isinstance(outputs, int):
            if outputs < 1:
                raise ValueError(f"outputs: expected 1 or more, got {outputs}")
            names: list[str | None] = [""] * outputs
        elif isinstance(outputs, str):
            names = [outputs]
        else:
            names = [] if outputs is None else need_items(outputs, (str, type(None)), "outputs")
        made: list[AttributeProto] = []
        pairs = dict(more)
        if isinstance(attributes, Mapping):
            pairs = {**attributes, **pairs}
        elif attributes is not None:
            made.extend(need_items(attributes, object, "attributes"))
            for index, attribute in enumerate(made):
                need_message(attribute, AttributeProto, f"attributes[{index}]")
        made.extend(helper.make_attribute(key, value) for key, value in sorted(pairs.items()) if value is not None)
        return self._native.make_node(op_type, [each or "" for each in given], names, domain, name, made)

    def make_initializer(self, value: TensorProto | np.ndarray[Any, Any], name: str = "", *, copy: bool = True) -> str:
        """Add an initializer.

        Parameters
        ----------
        value : TensorProto or numpy.ndarray
            One with the name of a graph input is that input's default.
        name : str
            The name of an array. A new one when empty.
        copy : bool
            Copy an array (the default), or share the memory of one that is read-only. The payload of a TensorProto is
            always shared.

        Returns
        -------
        str
            The name.

        Raises
        ------
        ModelError
            When the name is that of another value or initializer.
        """
        return self._native.make_initializer(_tensor(value, name, copy=copy))

    def make_sparse_initializer(self, value: SparseTensorProto) -> str:
        """Add a sparse initializer and return its name, which is that of its values. See `make_initializer`."""
        need_message(value, SparseTensorProto, "value")
        return self._native.make_sparse_initializer(value)

    def make_encoded_initializer(self, value: EncodedValueProto) -> str:
        """Add an encoded initializer and return its name. See `make_initializer`."""
        need_message(value, EncodedValueProto, "value")
        return self._native.make_encoded_initializer(value)

    def make_paged_cache_initializer(self, cache: PagedCacheProto) -> str:
        """Add a paged cache as an initializer and return its name.

        With the name of a graph input it is that input's default, which a caller may override; otherwise it is a
        constant of the graph. Its pages are checked at export.
        """
        need_message(cache, PagedCacheProto, "cache")
        return self._native.make_paged_cache_initializer(cache)

    def make_constant(self, value: TensorProto | np.ndarray[Any, Any], name: str = "") -> str:
        """Add a Constant node and return the name of its output: the tensor's name, or a new one when it has none."""
        return self._native.make_constant(_tensor(value, name))

    def make_struct_type(self, declared: StructTypeProto) -> int:
        """Add a declaration to the model's catalogue of struct types and return its ``type_id``."""
        need_message(declared, StructTypeProto, "declared")
        return self._native.make_struct_type(declared)

    def make_function(self, function: FunctionProto) -> None:
        """Add a model-local function."""
        need_message(function, FunctionProto, "function")
        self._native.make_function(function)

    def make_persistent_binding(self, binding: PersistentBindingProto) -> None:
        """Add a persistent binding. Its names and types, and that nothing is bound twice, are checked at export."""
        need_message(binding, PersistentBindingProto, "binding")
        self._native.make_persistent_binding(binding)

    def persistent_bindings(self) -> list[PersistentBindingProto]:
        """Return copies of the persistent bindings, in the order of declaration."""
        return self._native.persistent_bindings()

    def paged_cache_initializers(self) -> list[PagedCacheProto]:
        """Return copies of the paged caches that the graph holds."""
        return self._native.paged_cache_initializers()

    def encoded_initializers(self) -> list[EncodedValueProto]:
        """Return copies of the encoded values that the graph holds."""
        return self._native.encoded_initializers()

    def struct_types(self) -> list[StructTypeProto]:
        """Return copies of the model's struct types."""
        return self._native.struct_types()

    # Edits.

    def remove_input(self, name: str) -> ValueInfoProto:
        """Take a graph input away and return it.

        Raises
        ------
        ModelError
            When there is none, or something reads it and no initializer is there in its place.
        """
        need(name, str, "name")
        return self._native.remove_input(name)

    def remove_output(self, name: str) -> ValueInfoProto:
        """Take a graph output away and return it; the value stays. While a binding names it, export is refused."""
        need(name, str, "name")
        return self._native.remove_output(name)

    def remove_persistent_binding(self, input_name: str) -> PersistentBindingProto:
        """Take away the binding of an input, with its publication policy, and return it."""
        need(input_name, str, "input_name")
        return self._native.remove_persistent_binding(input_name)

    def rename_value(self, old: str, new: str) -> None:
        """Rename a value of the root graph wherever it is named.

        That is by nodes, by nested graphs that take it from outside, by declarations, annotations, bindings and their
        policies.

        Raises
        ------
        ModelError
            When the root graph has no value `old`, or another value keeps the name `new`.
        """
        need(old, str, "old")
        need(new, str, "new")
        self._native.rename_values([(old, new)])

    def rename_values(self, names: Mapping[str, str]) -> None:
        """Rename values of the root graph, old names to new ones, at once: names may be swapped. See `rename_value`."""
        need(names, Mapping, "names")
        pairs = list(names.items())
        for old, new in pairs:
            need(old, str, "names")
            need(new, str, f"names[{old!r}]")
        self._native.rename_values(pairs)

    def replace_all_uses(self, old: str, new: str) -> int:
        """Let every reader of a value read another one, and return how many nodes were changed.

        The nodes that `new` itself is computed from keep reading `old`, so a node can be put behind a value. A graph
        output keeps its name and its value.

        Raises
        ------
        ModelError
            When the root graph does not have both, or a nested graph that reads `old` has its own value `new`.
        """
        need(old, str, "old")
        need(new, str, "new")
        return self._native.replace_all_uses(old, new)

    def replace_node(self, index: int, node: NodeProto) -> None:
        """Put a node in the place of another. One without outputs takes over those of the node that it replaces."""
        need(index, int, "index")
        need_message(node, NodeProto, "node")
        self._native.replace_node(index, node)

    def replace_nodes(self, removed: Iterable[int], added: Iterable[NodeProto]) -> None:
        """Take nodes away and put others in their place, in an order in which each stands after what it needs.

        Raises
        ------
        ModelError
            When an output's name is in use, a value that is still read would be made by nothing, or nodes would need
            each other.
        """
        nodes = need_items(added, object, "added")
        for index, node in enumerate(nodes):
            need_message(node, NodeProto, f"added[{index}]")
        self._native.replace_nodes(need_items(removed, int, "removed"), nodes)

    def remove_node(self, index: int) -> None:
        """Take a node away, when nothing reads what it makes."""
        need(index, int, "index")
        self._native.replace_nodes([index], [])

    def remove_identity_nodes(self) -> int:
        """Remove Identity nodes, in nested graphs too, and return how many.

        Names of graph inputs and outputs stay, and so do bindings; a bound input gets no second use.
        """
        return self._native.remove_identity_nodes()

    def remove_unused_nodes(self) -> int:
        """Remove the nodes that no graph output needs, in nested graphs too, and return how many.

        The only use of a bound input stays: a bound input must have one.
        """
        return self._native.remove_unused_nodes()

    def remove_unused_initializers(self) -> int:
        """Remove the initializers of every kind that nothing reads and that are no defaults; return how many."""
        return self._native.remove_unused_initializers()

    def remove_duplicate_nodes(self) -> int:
        """Remove nodes that compute what an earlier node of the same graph computes, and return how many.

        Random operators, nodes with nested graphs and calls of functions are left alone, and names of graph inputs and
        outputs stay.
        """
        return self._native.remove_duplicate_nodes()

    def extract(self, inputs: Iterable[str], outputs: Iterable[str]) -> "GraphBuilder":
        """Return the part of the graph that makes some values from others, with all that belongs to it.

        Initializers of every kind come along, functions, types, struct types, and the bindings whose both ends do.

        Raises
        ------
        ModelError
            When a name is no value, the nodes read graph inputs that are not among `inputs`, or one end of a binding
            would be there without the other.
        """
        part = GraphBuilder.__new__(GraphBuilder)
        part._native = self._native.extract(need_items(inputs, str, "inputs"), need_items(outputs, str, "outputs"))
        return part

    def merge(self, other: "GraphBuilder", io_map: Iterable[tuple[str, str]] = (), prefix: str = "") -> None:
        """Append another graph, some of whose inputs are fed by values of this one.

        Parameters
        ----------
        other : GraphBuilder
            What is appended. It is not changed.
        io_map : iterable of (value of this graph, input of the other)
            What is connected, with the other's names as they are now.
        prefix : str
            Put before every name of the other: values, nodes, functions.

        Raises
        ------
        ModelError
            When the models have names in common or disagree about opsets, functions, struct types or metadata, types do
            not fit, or a binding would lose an end.
        """
        need(other, GraphBuilder, "other")
        need(prefix, str, "prefix")
        pairs = need_items(io_map, (tuple, list), "io_map")
        for index, pair in enumerate(pairs):
            if len(pair) != 2:
                raise TypeError(f"io_map[{index}]: expected a pair of names, got {len(pair)} items")
            need_items(pair, str, f"io_map[{index}]")
        self._native.merge(other._native, [(mine, theirs) for mine, theirs in pairs], prefix)

    # Exports.

    def build_graph(self) -> GraphProto:
        """Return the graph as it is now, not validated."""
        return self._native.graph()

    @overload
    def to_onnx(self, kind: Literal["model"] = "model") -> ModelProto: ...
    @overload
    def to_onnx(self, kind: Literal["graph"]) -> GraphProto: ...
    @overload
    def to_onnx(self, kind: Literal["function"]) -> FunctionProto: ...
    def to_onnx(self, kind: str = "model") -> ModelProto | GraphProto | FunctionProto:
        """Return the validated model, or its graph, or the graph as a function. The builder can go on.

        Parameters
        ----------
        kind : {"model", "graph", "function"}
            A function has the name of the graph and the domain "local"; see `to_function`.

        Raises
        ------
        ModelError
            When the model breaks a rule: a dangling binding, a bound input that is not used exactly once, an output
            without a type, ...; or when a function cannot carry what the graph has.
        ValueError
            For another kind.
        """
        if kind == "model":
            return self._native.to_onnx()
        if kind == "graph":
            return self._native.to_onnx().graph
        if kind == "function":
            return self.to_function("local", self.build_graph().name or "graph")
        raise ValueError(f'kind: expected "model", "graph" or "function", got {kind!r}')

    def to_model(self) -> ModelProto:
        """Return the validated model. See `to_onnx`."""
        return self._native.to_onnx()

    def to_standard_model(self) -> ModelProto:
        """Return the model for programs that read standard ONNX only.

        Raises
        ------
        ModelError
            While it has persistent bindings, struct types, encoded or paged cache initializers: the message lists what
            would be lost. Also as `to_onnx`.
        """
        return self._native.to_standard_model()

    def to_function(self, domain: str, name: str) -> FunctionProto:
        """Return the graph as a model-local function. Its initializers become Constant nodes.

        Raises
        ------
        ModelError
            While it has what a FunctionProto cannot: bindings, encoded or paged cache initializers, inputs with a
            default, quantization annotations; the message lists what would be lost. Also as `to_onnx`.
        """
        need(domain, str, "domain")
        need(name, str, "name")
        return self._native.to_function(domain, name)

    def load(self) -> Model:
        """Return the validated model as `refeed.load` does, ready to be bound and run."""
        # Called on the class, as `refeed.load` would be, this gets no builder.
        need(self, GraphBuilder, "self")
        return self._native.load()

    def __repr__(self) -> str:
        graph = self.build_graph()
        counts = f"{len(graph.input)} inputs, {len(graph.node)} nodes, {len(graph.output)} outputs"
        return f"<GraphBuilder {graph.name!r}: {counts}>"


def _info(name: str | ValueInfoProto, elem_type: int | TypeProto | None, shape: _Shape | None) -> ValueInfoProto:
    if not isinstance(name, str):
        if elem_type is not None or shape is not None:
            raise TypeError("a ValueInfoProto states its type itself: expected no elem_type and no shape")
        if not isinstance(name, ValueInfoProto):
            need_message(name, ValueInfoProto, "name")
            name = ValueInfoProto.FromString(name.SerializeToString())
        return name
    if elem_type is None:
        if shape is not None:
            raise TypeError("a shape needs an elem_type")
        return ValueInfoProto(name=name)
    if isinstance(elem_type, int):
        if shape is not None:
            need_items(shape, (int, str, type(None)), "shape")
        return helper.make_tensor_value_info(name, elem_type, shape)
    if shape is not None:
        raise TypeError("a TypeProto states its shape itself: expected no shape")
    need(elem_type, (TypeProto, int), "elem_type")
    return helper.make_value_info(name, elem_type)


def _tensor(value: TensorProto | np.ndarray[Any, Any], name: str, *, copy: bool = True) -> TensorProto:
    need(name, str, "name")
    if isinstance(value, np.ndarray):
        return numpy_helper.from_array(value, name, copy=copy)
    need_message(value, TensorProto, "value")
    if name:
        raise TypeError("a TensorProto states its name itself: expected no name")
    return value
