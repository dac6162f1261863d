"""Attention that a graph writes out in single nodes, between bound caches, as `refeed.page` rewrites it.

What is looked for, from the softmax in both directions: `MatMul(query, keys)`, factors, a mask that is added or put in,
`Softmax`, possibly a `Where` that turns rows of NaN to zeros, `MatMul(weights, values)`; or an `Attention` that is
given all keys and values. Keys and values must come, by nodes that only repeat, split, merge and turn axes, from
`Concat(past, new)` whose result is the bound output.
"""

import dataclasses
from typing import Any

from refeed.errors import ModelError
from refeed.onnx import NodeProto, helper, numpy_helper

__all__ = ["DecomposedAttention", "decomposed_attentions", "without_unread"]

#: Nodes that repeat, split, merge or turn axes.
_MOVES = frozenset({"Expand", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


@dataclasses.dataclass(frozen=True)
class DecomposedAttention:
    """One attention in single nodes.

    Attributes
    ----------
    last : NodeProto
        The product of weights and values, or the `Attention`.
    appends : tuple of NodeProto
        The nodes that append to the caches.
    query, key, value : str
        The unscaled query, and what is appended.
    held : tuple of str
        Past keys and values, present keys and values.
    mask : str or None
        What is added to the scores, or chooses among them.
    factor : float or None
        What products are multiplied by; None: `1 / sqrt(head size)`, by a rule of the node.
    """

    last: NodeProto
    appends: tuple[NodeProto, NodeProto]
    query: str
    key: str
    value: str
    held: tuple[str, str, str, str]
    mask: str | None
    factor: float | None


class _Graph:
    """Who makes a value and who reads it."""

    def __init__(self, graph: Any) -> None:
        self.producers = {name: node for node in graph.node for name in node.output if name}
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        self.readers: dict[str, list[NodeProto]] = {}
        for node in graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)

    def made_by(self, name: str, *kinds: str) -> NodeProto | None:
        node = self.producers.get(name)
        return node if node is not None and node.domain in ("", "ai.onnx") and node.op_type in kinds else None

    def number(self, name: str) -> float | None:
        """Return the number that a value of one element always is."""
        tensor = self.initializers.get(name)
        if tensor is None and (node := self.made_by(name, "Constant")) is not None:
            tensor = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}.get(
                "value"
            )
        if tensor is None:
            return None
        array = numpy_helper.to_array(tensor)
        return float(array.ravel()[0]) if array.size == 1 else None

    def unscaled(self, name: str) -> tuple[str, float]:
        """Return a value without the numbers that it is multiplied by or divided by, and their product."""
        factor = 1.0
        while (node := self.made_by(name, "Mul", "Div")) is not None:
            numbers = [self.number(operand) for operand in node.input]
            if numbers[1] is not None:
                factor *= numbers[1] if node.op_type == "Mul" else 1 / numbers[1]
                name = node.input[0]
            elif numbers[0] is not None and node.op_type == "Mul":
                factor *= numbers[0]
                name = node.input[1]
            else:
                break
        return name, factor

    def appended(self, name: str) -> tuple[NodeProto | None, float, str]:
        """Follow an operand back to the node that appends to a cache; return it, the factors, and where that ends."""
        product = 1.0
        while True:
            name, factor = self.unscaled(name)
            product *= factor
            node = self.made_by(name, "Concat", *_MOVES)
            if node is None or node.op_type == "Concat":
                return node, product, name
            name = node.input[0]


def decomposed_attentions(graph: Any, bound: dict[str, str]) -> tuple[list[DecomposedAttention], list[str]]:
    """Find the attentions whose caches are bound.

    Parameters
    ----------
    graph : GraphProto
    bound : dict
        Outputs by the inputs that they feed.

    Returns
    -------
    list of DecomposedAttention
    list of str
        For each other softmax and `Attention` without bound caches: its name and why it is none.
    """
    known = _Graph(graph)
    found, others = [], []
    for node in graph.node:
        build = {"Softmax": _around_softmax, "Attention": _around_attention}.get(node.op_type)
        if build is None or node.domain not in ("", "ai.onnx"):
            continue
        one = build(known, node, bound)
        if isinstance(one, DecomposedAttention):
            found.append(one)
        elif one is not None:
            others.append(f"{node.op_type} `{node.name or node.output[0]}`: {one}")
    return found, others


def _around_attention(known: _Graph, node: NodeProto, bound: dict[str, str]) -> DecomposedAttention | str | None:
    """Return the attention of a node that is given all keys and values, or why there is none; None with own caches."""
    inputs = [*node.input, *[""] * (7 - len(node.input))]
    if inputs[4] or inputs[5]:
        return None
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    if any(node.output[1:]):
        return f"expected its result alone, got `{next(name for name in node.output[1:] if name)}` as well"
    if inputs[6]:
        return f"expected no nonpad_kv_seqlen, got `{inputs[6]}`"
    if attributes.get("is_causal", 0):
        return (
            "expected a mask in place of is_causal, which counts from the first key where the past comes from outside"
        )
    ends = _ends(known, inputs[1], inputs[2], bound)
    if isinstance(ends, str):
        return ends
    query, own = known.unscaled(inputs[0])
    (key_append, key_factor), (value_append, _) = ends
    scale, factor = attributes.get("scale"), own * key_factor
    if scale is None and factor != 1.0:
        return f"expected a scale of its own beside the factor {factor:.7g} of its inputs"
    return DecomposedAttention(
        last=node,
        appends=(key_append, value_append),
        query=query,
        key=key_append.input[1],
        value=value_append.input[1],
        held=(key_append.input[0], value_append.input[0], key_append.output[0], value_append.output[0]),
        mask=inputs[3] or None,
        factor=None if scale is None else scale * factor,
    )


def _around_softmax(known: _Graph, softmax: NodeProto, bound: dict[str, str]) -> DecomposedAttention | str:
    """Return the attention around a softmax, or why there is none."""
    scores, mask = softmax.input[0], None
    if (node := known.made_by(scores, "Add")) is not None:
        # The scores are on the side that comes from a product.
        sides = [known.made_by(known.unscaled(name)[0], "MatMul") is not None for name in node.input]
        if sides[0] == sides[1]:
            return "expected one summand of the scores to be a product"
        scores, mask = (node.input[0], node.input[1]) if sides[0] else (node.input[1], node.input[0])
    elif (node := known.made_by(scores, "Where")) is not None:
        taken = next((name for name in node.input[1:] if known.number(name) is None), None)
        if taken is None:
            return "expected scores that a mask chooses among"
        scores, mask = taken, node.input[0]
    scores, factor = known.unscaled(scores)
    product = known.made_by(scores, "MatMul")
    if product is None:
        return f"expected scores from a product and constant factors, `{scores}` is neither"
    last = _last(known, softmax.output[0])
    if last is None:
        return "expected that weights only go to a product with values"
    query, own = known.unscaled(product.input[0])
    ends = _ends(known, product.input[1], last.input[1], bound)
    if isinstance(ends, str):
        return ends
    (key_append, key_factor), (value_append, _) = ends
    return DecomposedAttention(
        last=last,
        appends=(key_append, value_append),
        query=query,
        key=key_append.input[1],
        value=value_append.input[1],
        held=(key_append.input[0], value_append.input[0], key_append.output[0], value_append.output[0]),
        mask=mask,
        factor=factor * own * key_factor,
    )


def _ends(
    known: _Graph, keys: str, values: str, bound: dict[str, str]
) -> tuple[tuple[NodeProto, float], tuple[NodeProto, float]] | str:
    """Return the nodes that append to the caches of keys and values, each with the factor behind it, or why not."""
    held = []
    for operand, what in ((keys, "keys"), (values, "values")):
        append, number, place = known.appended(operand)
        if append is None:
            return f"expected {what} that are appended to a cache, by constant factors and moves of axes; at `{place}`"
        axis = {attribute.name: attribute.i for attribute in append.attribute}.get("axis")
        if len(append.input) != 2 or axis not in (-2, 2) or bound.get(append.input[0]) != append.output[0]:
            return f"expected {what} from a Concat of a bound cache and new rows along axis 2, got `{place}`"
        held.append((append, number))
    if held[1][1] != 1.0:
        return f"expected values without a factor, got {held[1][1]:.7g}"
    return held[0], held[1]


def _last(known: _Graph, weights: str) -> NodeProto | None:
    """Return the product of weights and values: the only reader of the weights but for a test of rows of NaN."""
    readers = list(known.readers.get(weights, ()))
    if len(readers) == 2:
        tests = [node for node in readers if node.op_type == "IsNaN"]
        chosen = [node for node in readers if node.op_type == "Where" and node.input[2] == weights]
        if len(tests) != 1 or len(chosen) != 1 or chosen[0].input[0] != tests[0].output[0]:
            return None
        if known.number(chosen[0].input[1]) != 0.0 or len(known.readers[tests[0].output[0]]) != 1:
            return None
        weights = chosen[0].output[0]
        readers = list(known.readers.get(weights, ()))
    if len(readers) == 1 and readers[0].op_type == "MatMul" and readers[0].input[0] == weights:
        return readers[0]
    return None


def without_unread(nodes: list[NodeProto], outputs: set[str]) -> list[NodeProto]:
    """Leave out the nodes that no output needs; `nodes` are in order.

    Raises
    ------
    ModelError
        When there is a node with graphs of its own, whose outer names are not looked at here.
    """
    needed, kept = set(outputs), []
    for node in reversed(nodes):
        if any(attribute.HasField("g") or len(attribute.graphs) for attribute in node.attribute):
            told = f"node `{node.name or node.output[0]}` ({node.op_type})"
            raise ModelError(f"page: {told} has graphs of its own, beside attention in single nodes")
        if needed.intersection(node.output):
            needed.update(node.input)
            kept.append(node)
    return kept[::-1]
