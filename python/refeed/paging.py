"""Models whose dense caches become paged ones: `refeed.page`.

A node that keeps its keys and values in two bound tensors (`Attention`, `com.microsoft::GroupQueryAttention`) becomes
an `ai.rt::PagedAttention` with one bound cache. What PagedAttention has no word for is refused by name, and nothing is
left half rewritten.
"""

import dataclasses
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from refeed._native import Model, load
from refeed.decomposed_attention import decomposed_attentions, without_unread
from refeed.errors import ModelError
from refeed.onnx import (
    ModelProto,
    NodeProto,
    PagedCacheProto,
    PersistentBindingProto,
    StructTypeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    helper,
    numpy_helper,
    shape_inference,
)
from refeed.paging_check import check_of

__all__ = ["PagedCache", "PagingReport", "page"]

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)


@dataclasses.dataclass(frozen=True)
class PagedCache:
    """One attention that was rewritten.

    Attributes
    ----------
    node : str
        The node, as errors name it: its name, else its first output.
    op_type : str
        What it was.
    past, present : str
        The bound graph input and output that hold the cache now.
    dense : tuple of str
        The inputs that it had: keys, values; and the outputs.
    """

    node: str
    op_type: str
    past: str
    present: str
    dense: tuple[str, str, str, str]


@dataclasses.dataclass(frozen=True)
class PagingReport:
    """What `page` did. `str(report)` is a table.

    Attributes
    ----------
    caches : list of PagedCache
        In the order of the nodes.
    largest_difference : float or None
        The largest distance of an output from that of the model as it was, over all steps that were checked.
    """

    caches: list[PagedCache]
    largest_difference: float | None = None

    def __str__(self) -> str:
        lines = [f"{cache.node} ({cache.op_type}): {cache.past} <- {cache.present}" for cache in self.caches]
        if self.largest_difference is not None:
            lines.append(f"largest difference of an output: {self.largest_difference:.3g}")
        return "\n".join(lines)


def page(
    model: Any,
    *,
    block_size: int = 16,
    max_tokens: int = 4096,
    padded: bool = True,
    check: Sequence[Mapping[str, Any]] | None = None,
    initial: Mapping[str, Any] | None = None,
    tolerance: float = 1e-5,
) -> tuple[Model, PagingReport]:
    """Keep the caches of a model in pages.

    Every `Attention` and `com.microsoft::GroupQueryAttention` of the graph whose four cache values are bound becomes an
    `ai.rt::PagedAttention`, and so does attention in single nodes, from the `Concat` that appends to the caches to the
    product of weights and values, or to an `Attention` without caches of its own. The two inputs of a node become one
    input of pages, the two outputs one output, and the binding goes along; a state starts with an empty cache when none
    is given. Where rotary positions are the node's own business, they become a node in front of it.

    Run the result with the kernel registered: `refeed.runtime.register_paged_attention`.

    Parameters
    ----------
    model : model-like
        As for `refeed.load`, with its bindings; `refeed.bind` writes them. It is not changed.
    block_size, max_tokens : int
        Most rows of a page, most tokens of a cache.
    padded : bool
        Whether the rows of a batch may be of different length. A `GroupQueryAttention` takes such lengths as an input,
        other attention a mask, which PagedAttention has not; False promises that rows are always whole, and that masks
        only hide later tokens. Masks are taken on that promise only together with `check`.
    check : sequence of feeds, optional
        One step or more that both models take from the start; their outputs must agree.
    initial : mapping, optional
        Initial values of the model as it was, for the check: its bound inputs. The model in pages starts with the same
        tokens. When not given, caches begin without a token, and other values with zeros, as they are declared, with
        the extents that the feeds of the first step have by the same names.
    tolerance : float
        Largest distance of an output that the check allows, relative to the largest number of the output when that
        is above 1.

    Returns
    -------
    Model
    PagingReport

    Raises
    ------
    ModelError
        When no attention has bound caches, with what is in the way of each; when one has a scale of its own, a
        softcap, an output of scores, or caches that other nodes read; when one has a mask or may have padding, unless
        that is ruled out; when the results of the check differ.
    TypeError
        When a size is no integer, or the check no feeds.
    ValueError
        When a size is below 1, there is no step to check, the tolerance is no finite number of 0 or more, or there are
        initial values without a check.
    """
    block_size, max_tokens = _count("block_size", block_size), _count("max_tokens", max_tokens)
    comparison = check_of(check, initial, tolerance)
    dense = load(model)
    proto = ModelProto()
    proto.CopyFrom(dense.to_proto())
    rewrite = _Rewrite(proto, block_size, max_tokens, padded, comparison is not None)
    caches = rewrite.run()
    paged = dense.with_proto(proto)
    if comparison is None:
        return paged, PagingReport(caches)
    held = {cache.past: cache.dense for cache in caches}
    return paged, PagingReport(caches, comparison.largest_difference(dense, paged, held, block_size))


def _count(argument: str, number: Any) -> int:
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{argument}: expected an integer, got {type(number).__name__}")
    if not 1 <= operator.index(number) < 2**63:
        raise ValueError(f"{argument}: expected 1 to 2**63 - 1, got {number}")
    return operator.index(number)


class _Rewrite:
    """The model that is being rewritten, and the names in it."""

    def __init__(self, proto: ModelProto, block_size: int, max_tokens: int, padded: bool, checked: bool) -> None:
        self.proto = proto
        self.graph = proto.graph
        self.attributes: dict[str, Any] = {"block_size": block_size, "max_tokens": max_tokens}
        self.padded, self.checked = padded, checked
        self.bound = {binding.input_name: binding.output_name for binding in self.graph.persistent_bindings}
        self.names = set(_names(self.graph))
        self.others: list[str] = []
        self.types = {info.name: info.type for info in _infos(shape_inference.infer_shapes(proto))}
        self.initializers = {tensor.name: tensor for tensor in self.graph.initializer}
        self.opset = max((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), default=0)

    def run(self) -> list[PagedCache]:
        caches: list[PagedCache] = []
        nodes: list[NodeProto] = []
        unbound: list[str] = []
        for index, node in enumerate(list(self.graph.node)):
            places = _CACHES.get((node.domain.removeprefix("ai.onnx"), node.op_type))
            held = places and _values(node, places)
            if held is None or self.bound.get(held[0]) != held[2] or self.bound.get(held[1]) != held[3]:
                nodes.append(node)
                if held is not None:
                    past, present = next(
                        pair for pair in zip(held[:2], held[2:], strict=True) if self.bound.get(pair[0]) != pair[1]
                    )
                    told = f"{node.op_type} `{node.name or node.output[0]}`"
                    unbound.append(f"{told}: expected a binding of `{past}` to `{present}`")
                continue
            made, cache = self.rewritten(index, node, held)
            nodes.extend(made)
            caches.append(cache)
        nodes = self.decomposed(nodes, caches)
        if not caches:
            told = "page: expected an Attention or GroupQueryAttention whose caches are bound, found none"
            raise ModelError("; ".join([told, *[*unbound, *self.others][:8]]))
        dropped = {name for cache in caches for name in cache.dense}
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        self.replace_declarations(caches, dropped)
        if all(entry.domain != "ai.rt" for entry in self.proto.opset_import):
            self.proto.opset_import.append(helper.make_opsetid("ai.rt", 1))
        return caches

    def decomposed(self, nodes: list[NodeProto], caches: list[PagedCache]) -> list[NodeProto]:
        """Replace attention in single nodes; what was only there for it goes along."""
        found, self.others = decomposed_attentions(self.graph, self.bound)
        if not found:
            return nodes
        removed = [id(node) for each in found for node in (each.last, *each.appends)]
        replaced: dict[int, list[NodeProto]] = {}
        for each in found:
            told = f"page: attention that ends in node `{each.last.name or each.last.output[0]}` ({each.last.op_type})"
            if each.mask is not None:
                self.refuse_mask(told, f"mask `{each.mask}`")
            if each.last.op_type == "Attention":
                attributes = {entry.name: helper.get_attribute_value(entry) for entry in each.last.attribute}
                self.refuse_attributes(told, attributes, _ATTENTION_DEFAULTS, _ATTENTION_READ)
                self.refuse_element_type(told, each.last)
                rank = self.rank(each.query)
                if rank != 4 and not (rank is None and "q_num_heads" not in attributes):
                    raise ModelError(f"{told}: expected a query of 4 axes, got `{each.query}` of 3")
            self.refuse_scale(told, each.key, each.factor, None)
            past, present = (self.fresh(_common(each.held[at : at + 2], name)) for at, name in _SIDES)
            made: list[NodeProto] = []
            inputs = [each.query, each.key, each.value]
            self.paged(made, each.last, inputs, past, present, int(each.mask is not None), -1, False)
            replaced[id(each.last)] = made
            name = each.last.name or each.last.output[0]
            form = "Concat, Attention" if each.last.op_type == "Attention" else "MatMul, Softmax, MatMul"
            caches.append(PagedCache(name, form, past, present, each.held))
        left = []
        for node in nodes:
            left.extend(replaced.get(id(node), [] if id(node) in removed else [node]))
        self.ask_others_for_batch(left, [each.held[0] for each in found] + [each.held[1] for each in found])
        gone = {name for each in found for name in each.held[2:]}
        outputs = {info.name for info in self.graph.output if info.name not in gone}
        left = without_unread(left, outputs | {cache.present for cache in caches})
        for each in found:
            told = f"page: attention that ends in node `{each.last.name or each.last.output[0]}` ({each.last.op_type})"
            self.refuse_readers(told, left, each.held)
        return left

    def ask_others_for_batch(self, nodes: list[NodeProto], pasts: list[str]) -> None:
        """Let nodes that read the batch of a cache read that of an input which is declared with the same one."""
        for at, node in enumerate(nodes):
            if node.op_type != "Shape" or node.input[0] not in pasts:
                continue
            attributes = {attribute.name: attribute.i for attribute in node.attribute}
            batch = self.symbols(node.input[0])[:1]
            if (attributes.get("start", 0), attributes.get("end")) != (0, 1) or not batch or not batch[0]:
                continue
            places = ((info.name, self.symbols(info.name)) for info in self.graph.input if info.name not in self.bound)
            place = next(((name, held.index(batch[0])) for name, held in places if batch[0] in held), None)
            if place is not None:
                name, axis = place
                nodes[at] = helper.make_node(
                    "Shape", [name], list(node.output), name=node.name, start=axis, end=axis + 1
                )

    def symbols(self, name: str) -> list[str]:
        """Return the symbols of a value's extents, empty where it has none."""
        kind = self.types.get(name)
        return [] if kind is None else [dim.dim_param for dim in kind.tensor_type.shape.dim]

    def rewritten(
        self, index: int, node: NodeProto, held: tuple[str, str, str, str]
    ) -> tuple[list[NodeProto], PagedCache]:
        told = f"page: node `{node.name or node.output[0]}` ({node.op_type})"
        self.refuse_other_readers(told, index, held)
        past, present = self.fresh(_common(held[:2], "past_cache")), self.fresh(_common(held[2:], "present_cache"))
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        build = self.attention if node.op_type == "Attention" else self.group_query
        made = build(told, node, attributes, past, present)
        return made, PagedCache(node.name or node.output[0], node.op_type, past, present, held)

    def refuse_other_readers(self, told: str, index: int, held: tuple[str, ...]) -> None:
        """Refuse caches whose extents or numbers other nodes read, and policies that pages have no meaning for."""
        others = [other for place, other in enumerate(self.graph.node) if place != index]
        self.refuse_readers(told, others, held)

    def refuse_readers(self, told: str, others: Iterable[NodeProto], held: Iterable[str]) -> None:
        for name in held:
            for other in others:
                if name in other.input or name in _names_of_graphs(other):
                    raise ModelError(
                        f"{told}: `{name}` is also read by node `{other.name or other.output[0]}` ({other.op_type}), "
                        "which a cache in pages cannot feed"
                    )
            policy = {entry.key: entry.value for entry in self.graph.metadata_props}.get(f"refeed.publish:{name}")
            if policy not in (None, "always"):
                raise ModelError(f"{told}: `{name}` is published {policy!r}, expected 'always'")
            if name in self.initializers:
                raise ModelError(f"{told}: `{name}` has an initializer, which is no cache in pages")

    def attention(
        self, told: str, node: NodeProto, attributes: dict[str, Any], past: str, present: str
    ) -> list[NodeProto]:
        """Return the nodes for ai.onnx Attention."""
        masked = len(node.input) > 3 and bool(node.input[3])
        if masked:
            self.refuse_mask(told, f"attn_mask `{node.input[3]}`")
        if len(node.input) > 6 and node.input[6]:
            raise ModelError(f"{told}: expected no nonpad_kv_seqlen, got `{node.input[6]}`")
        if len(node.output) > 3 and node.output[3]:
            raise ModelError(f"{told}: expected no qk_matmul_output, got `{node.output[3]}`")
        self.refuse_attributes(
            told,
            attributes,
            _ATTENTION_DEFAULTS,
            _ATTENTION_READ | {"left_window_size", "right_window_size"},
        )
        causal = int(attributes.get("is_causal", 0) or masked)
        if attributes.get("right_window_size", -1) >= 0 and not causal:
            right = attributes["right_window_size"]
            raise ModelError(f"{told}: expected no right_window_size without is_causal, got {right}")
        self.refuse_scale(told, node.input[0], attributes.get("scale"), attributes.get("q_num_heads"))
        self.refuse_element_type(told, node)
        fused = self.rank(node.input[0]) == 3 or (self.rank(node.input[0]) is None and "q_num_heads" in attributes)
        made: list[NodeProto] = []
        inputs = list(node.input[:3])
        if fused:
            if not {"q_num_heads", "kv_num_heads"} <= attributes.keys():
                raise ModelError(f"{told}: expected q_num_heads and kv_num_heads beside inputs of 3 axes")
            heads = [int(attributes[name]) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
            inputs = [self.split_heads(made, name, count) for name, count in zip(inputs, heads, strict=True)]
        window = int(attributes.get("left_window_size", -1))
        self.paged(made, node, inputs, past, present, causal, window, fused)
        return made

    def group_query(
        self, told: str, node: NodeProto, attributes: dict[str, Any], past: str, present: str
    ) -> list[NodeProto]:
        """Return the nodes for com.microsoft GroupQueryAttention."""
        for at, name in ((10, "attention_bias"), (11, "head_sink"), (12, "k_scale"), (13, "v_scale")):
            if len(node.input) > at and node.input[at]:
                raise ModelError(f"{told}: expected no {name}, got `{node.input[at]}`")
        if len(node.output) > 3 and any(node.output[3:]):
            raise ModelError(f"{told}: expected no output of scores, got `{node.output[3]}`")
        if self.padded:
            raise ModelError(
                f"{told}: seqlens_k `{node.input[5]}` may tell of padding, which PagedAttention has not; "
                "page(model, padded=False) promises that there is none"
            )
        self.refuse_attributes(
            told,
            attributes,
            {
                "softcap": (0.0,),
                "smooth_softmax": (0, -1),
                "sliding_window_cache": (0,),
                "qk_output": (0,),
                "kv_cache_bit_width": (0,),
                "k_quant_type": ("NONE", b"NONE"),
                "v_quant_type": ("NONE", b"NONE"),
            },
            {"do_rotary", "kv_num_heads", "num_heads", "local_window_size", "rotary_interleaved", "scale"},
        )
        heads, kv_heads = int(attributes["num_heads"]), int(attributes["kv_num_heads"])
        packed = not (len(node.input) > 1 and node.input[1])
        scale = attributes.get("scale", 0.0)
        self.refuse_scale(told, node.input[0], scale or None, heads + 2 * kv_heads if packed else heads)
        self.refuse_element_type(told, node)
        made: list[NodeProto] = []
        if packed:
            if self.opset < 13:
                raise ModelError(f"{told}: a packed query is split with opset 13 or more, got {self.opset}")
            whole = self.split_heads(made, node.input[0], heads + 2 * kv_heads)
            parts = [self.fresh(f"{node.input[0]}_{part}") for part in ("query", "key", "value")]
            sizes = self.constant([heads, kv_heads, kv_heads], f"{node.input[0]}_parts")
            made.append(helper.make_node("Split", [whole, sizes], parts, axis=1))
        else:
            counts = (heads, kv_heads, kv_heads)
            parts = [self.split_heads(made, name, n) for name, n in zip(node.input[:3], counts, strict=True)]
        if attributes.get("do_rotary", 0):
            positions = self.positions(made, node, parts[0])
            for at, count in ((0, heads), (1, kv_heads)):
                parts[at] = self.rotated(told, made, node, parts[at], positions, count, attributes)
        window = int(attributes.get("local_window_size", -1))
        # A local window counts the token itself.
        self.paged(made, node, parts, past, present, 1, window - 1 if window > 0 else -1, True)
        return made

    def positions(self, made: list[NodeProto], node: NodeProto, query: str) -> str:
        """Return the positions of the new tokens: given, or from the end of the past on."""
        if len(node.input) > 9 and node.input[9]:
            return node.input[9]
        shape, length, total, first = (self.fresh(f"{query}_{part}") for part in ("shape", "length", "total", "first"))
        flat = self.fresh(f"{query}_offset")
        made.append(helper.make_node("Shape", [query], [shape]))
        made.append(helper.make_node("Gather", [shape, self.constant([2], f"{query}_axis")], [length], axis=0))
        made.append(helper.make_node("Cast", [node.input[6]], [total], to=TensorProto.INT64))
        made.append(helper.make_node("Sub", [total, length], [first]))
        made.append(helper.make_node("Reshape", [first, self.constant([1], f"{query}_one")], [flat]))
        return flat

    def rotated(
        self,
        told: str,
        made: list[NodeProto],
        node: NodeProto,
        name: str,
        positions: str,
        heads: int,
        attributes: dict[str, Any],
    ) -> str:
        out = self.fresh(f"{name}_rotated")
        tables = list(node.input[7:9])
        if len(tables) < 2 or not all(tables):
            raise ModelError(f"{told}: expected cos_cache and sin_cache beside do_rotary")
        more: dict[str, Any] = {"interleaved": int(attributes.get("rotary_interleaved", 0))}
        shape = self.shape(tables[0])
        size = self.head_size(node.input[0], int(attributes["num_heads"]))
        if shape is not None and size is not None and isinstance(shape[-1], int) and 2 * shape[-1] != size:
            more |= {"rotary_embedding_dim": 2 * shape[-1], "num_heads": heads}
        made.append(
            helper.make_node("RotaryEmbedding", [name, positions, *tables], [out], domain="com.microsoft", **more)
        )
        return out

    def split_heads(self, made: list[NodeProto], name: str, heads: int) -> str:
        """Return `[batch, length, heads * width]` as `[batch, heads, length, width]`."""
        split, turned = self.fresh(f"{name}_split"), self.fresh(f"{name}_heads")
        shape = self.constant([0, 0, heads, -1], f"{name}_shape")
        made.append(helper.make_node("Reshape", [name, shape], [split]))
        made.append(helper.make_node("Transpose", [split], [turned], perm=[0, 2, 1, 3]))
        return turned

    def paged(
        self,
        made: list[NodeProto],
        node: NodeProto,
        inputs: list[str],
        past: str,
        present: str,
        causal: int,
        window: int,
        fused: bool,
    ) -> None:
        """Add the node, and what joins its heads again."""
        out = node.output[0]
        result = self.fresh(f"{out}_heads") if fused else out
        made.append(
            helper.make_node(
                "PagedAttention",
                [*inputs, past],
                [result, present],
                name=node.name or None,
                domain="ai.rt",
                is_causal=causal,
                left_window_size=window,
                **self.attributes,
            )
        )
        if fused:
            turned = self.fresh(f"{out}_rows")
            made.append(helper.make_node("Transpose", [result], [turned], perm=[0, 2, 1, 3]))
            made.append(helper.make_node("Reshape", [turned, self.constant([0, 0, -1], f"{out}_shape")], [out]))

    def refuse_mask(self, told: str, mask: str) -> None:
        """Refuse a mask, unless it was promised that it only hides later tokens and there are steps to compare."""
        if self.padded or not self.checked:
            raise ModelError(
                f"{told}: the {mask} may tell of padding or more, which PagedAttention has not; "
                "page(model, padded=False, check=steps) promises that it only hides later tokens, and compares"
            )

    def refuse_attributes(
        self, told: str, attributes: dict[str, Any], allowed: dict[str, tuple[Any, ...]], read: set[str]
    ) -> None:
        for name, value in attributes.items():
            if name in read or value in allowed.get(name, ()):
                continue
            got = value.decode(errors="replace") if isinstance(value, bytes) else value
            raise ModelError(f"{told}: PagedAttention has no {name}, got {got!r}")

    def refuse_scale(self, told: str, query: str, scale: float | None, heads: Any) -> None:
        """Refuse a scale other than `1 / sqrt(head size)`."""
        if scale is None:
            return
        size = self.head_size(query, heads)
        if size is None or not math.isclose(scale, 1 / math.sqrt(size), rel_tol=1e-6):
            expected = "1 / sqrt(head size)" if size is None else f"{1 / math.sqrt(size):.7g}"
            raise ModelError(f"{told}: expected the scale {expected}, which PagedAttention has, got {scale:.7g}")

    def refuse_element_type(self, told: str, node: NodeProto) -> None:
        kind = self.types.get(node.input[0])
        number = kind.tensor_type.elem_type if kind is not None else 0
        if number and number not in _FLOATS:
            name = TensorProto.DataType.Name(number)
            raise ModelError(f"{told}: expected FLOAT, FLOAT16 or BFLOAT16, got {name}")

    def shape(self, name: str) -> list[int | None] | None:
        """Return the extents of a value as far as they are known."""
        if name in self.initializers:
            return list(self.initializers[name].dims)
        kind = self.types.get(name)
        if kind is None or not kind.tensor_type.HasField("shape"):
            return None
        return [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.tensor_type.shape.dim]

    def rank(self, name: str) -> int | None:
        shape = self.shape(name)
        return None if shape is None else len(shape)

    def head_size(self, query: str, heads: Any) -> int | None:
        shape = self.shape(query)
        if shape is None or shape[-1] is None:
            return None
        return shape[-1] if len(shape) == 4 or not heads else shape[-1] // int(heads)

    def constant(self, numbers: list[int], name: str) -> str:
        """Return the name of an INT64 initializer."""
        made = self.fresh(name)
        self.graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.int64), made))
        return made

    def fresh(self, name: str) -> str:
        """Return a name that nothing has yet."""
        made, count = name, 1
        while made in self.names:
            made, count = f"{name}_{count}", count + 1
        self.names.add(made)
        return made

    def replace_declarations(self, caches: list[PagedCache], dropped: set[str]) -> None:
        """Put inputs, outputs, bindings and defaults of pages in the places of those that are gone."""
        graph = self.graph
        first = {name: cache for cache in caches for name in (cache.dense[0], cache.dense[2])}
        for field, side in ((graph.input, "past"), (graph.output, "present")):
            infos = []
            for info in field:
                if info.name in first:
                    infos.append(_cache_info(getattr(first[info.name], side)))
                elif info.name not in dropped:
                    infos.append(info)
            kept = [_copied(info) for info in infos]
            del field[:]
            field.extend(kept)
        lists: list[tuple[Any, Callable[[Any], str]]] = [
            (graph.value_info, lambda info: info.name),
            (graph.persistent_bindings, lambda binding: binding.input_name),
            (graph.metadata_props, lambda entry: entry.key.removeprefix("refeed.publish:")),
        ]
        for entries, name_of in lists:
            left = [_copied(entry) for entry in entries if name_of(entry) not in dropped]
            del entries[:]
            entries.extend(left)
        for cache in caches:
            graph.persistent_bindings.append(PersistentBindingProto(input_name=cache.past, output_name=cache.present))
            graph.paged_cache_initializer.append(PagedCacheProto(name=cache.past))


#: Where the names of past and present caches begin, and what is said when they have nothing in common.
_SIDES = ((0, "past_cache"), (2, "present_cache"))

#: Attributes of ai.onnx Attention that say nothing with these values, and those that are looked at.
_ATTENTION_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "left_window_size": (-1,),
    "right_window_size": (-1,),
    "softcap": (0.0,),
    "softmax_precision": (TensorProto.FLOAT,),
}
_ATTENTION_READ = {"is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale"}

#: Where caches stand: past keys and values among the inputs, present ones among the outputs.
_CACHES = {("", "Attention"): (4, 5, 1, 2), ("com.microsoft", "GroupQueryAttention"): (3, 4, 1, 2)}


def _values(node: NodeProto, places: tuple[int, int, int, int]) -> tuple[str, str, str, str] | None:
    """Return the names of past keys and values and present keys and values; None when one is absent."""
    if len(node.input) <= max(places[:2]) or len(node.output) <= max(places[2:]):
        return None
    held = (node.input[places[0]], node.input[places[1]], node.output[places[2]], node.output[places[3]])
    return held if all(held) else None


def _copied(message: Any) -> Any:
    made = type(message)()
    made.CopyFrom(message)
    return made


def _cache_info(name: str) -> ValueInfoProto:
    return ValueInfoProto(name=name, type=TypeProto(struct_type=StructTypeProto()))


def _common(names: Sequence[str], otherwise: str) -> str:
    """Return how two names begin, up to a separator."""
    alike = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*names, strict=False))
    return "".join(one for one, _ in alike).rstrip("._/- ") or otherwise


def _infos(model: ModelProto) -> list[ValueInfoProto]:
    return [*model.graph.input, *model.graph.output, *model.graph.value_info]


def _names(graph: Any) -> Iterable[str]:
    """Go through every name of a graph and the graphs in it."""
    for field in (graph.input, graph.output, graph.initializer, graph.value_info):
        yield from (entry.name for entry in field)
    for node in graph.node:
        yield from node.input
        yield from node.output
        yield from _names_of_graphs(node)


def _names_of_graphs(node: NodeProto) -> Iterable[str]:
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            yield from _names(graph)
