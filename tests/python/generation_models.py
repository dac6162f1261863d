"""Models without weights that predict what a test can work out by hand, made with the official `onnx` package."""

from typing import Any

import graphs
import numpy as np
import onnx
import refeed
from graphs import info
from onnx import TensorProto, helper

INT64, FLOAT = TensorProto.INT64, TensorProto.FLOAT
Array = np.ndarray[Any, Any]


def _constant(name: str, value: Any, dtype: Any) -> TensorProto:
    return onnx.numpy_helper.from_array(np.array(value, dtype), name)


def _one_hot(vocabulary: int, elements: int) -> tuple[list[onnx.NodeProto], list[TensorProto]]:
    """Make `logits` of type `elements` from `following`: the one of each token is 1, the others are 0."""
    nodes = [
        helper.make_node("Mod", ["following", "depth"], ["within"]),
        helper.make_node("OneHot", ["within", "depth", "values"], ["hot"], axis=-1),
        helper.make_node("Cast", ["hot"], ["logits"], to=elements),
    ]
    return nodes, [_constant("depth", vocabulary, np.int64), _constant("values", [0, 1], np.float32)]


def successor(vocabulary: int = 8, elements: int = FLOAT, last_only: bool = False) -> onnx.ModelProto:
    """P1: after each token comes the next number. With `last_only` logits are [batch, vocabulary]."""
    tail, constants = _one_hot(vocabulary, elements)
    head = [helper.make_node("Add", ["input_ids", "one"], ["next"])]
    dims: graphs.Shape = ["batch", "length", vocabulary]
    if last_only:
        head.append(helper.make_node("Gather", ["next", "minus"], ["following"], axis=1))
        constants.append(_constant("minus", -1, np.int64))
        dims = ["batch", vocabulary]
    else:
        head.append(helper.make_node("Identity", ["next"], ["following"]))
    constants.append(_constant("one", 1, np.int64))
    return graphs.model(
        [*head, *tail],
        [info("input_ids", INT64, ["batch", "length"])],
        [info("logits", elements, dims)],
        initializers=constants,
    )


def of_positions(vocabulary: int = 8) -> onnx.ModelProto:
    """P2: the token is the position of the column that is read."""
    tail, constants = _one_hot(vocabulary, FLOAT)
    return graphs.model(
        [
            helper.make_node("Add", ["position_ids", "input_ids"], ["both"]),
            helper.make_node("Sub", ["both", "input_ids"], ["following"]),
            *tail,
        ],
        [
            info("input_ids", INT64, ["batch", "length"]),
            info("attention_mask", INT64, ["batch", "total"]),
            info("position_ids", INT64, ["batch", "length"]),
        ],
        [info("logits", FLOAT, ["batch", "length", vocabulary])],
        initializers=constants,
    )


def of_mask(vocabulary: int = 8, elements: int = INT64) -> onnx.ModelProto:
    """P3: the token is the number of ones in the mask."""
    tail, constants = _one_hot(vocabulary, FLOAT)
    return graphs.model(
        [
            helper.make_node("Cast", ["attention_mask"], ["ones"], to=INT64),
            helper.make_node("ReduceSum", ["ones", "axes"], ["following"], keepdims=0),
            *tail,
        ],
        [info("input_ids", INT64, ["batch", "length"]), info("attention_mask", elements, ["batch", "total"])],
        [info("logits", FLOAT, ["batch", vocabulary])],
        initializers=[*constants, _constant("axes", [1], np.int64)],
    )


def of_width(vocabulary: int = 32) -> onnx.ModelProto:
    """P4: the token is the number of columns that the step is fed."""
    tail, constants = _one_hot(vocabulary, FLOAT)
    return graphs.model(
        [
            helper.make_node("Shape", ["input_ids"], ["columns"], start=1, end=2),
            helper.make_node("Mul", ["input_ids", "zero"], ["zeros"]),
            helper.make_node("Add", ["zeros", "columns"], ["following"]),
            *tail,
        ],
        [info("input_ids", INT64, ["batch", "length"])],
        [info("logits", FLOAT, ["batch", "length", vocabulary])],
        initializers=[*constants, _constant("zero", 0, np.int64)],
    )


def of_history(vocabulary: int = 17, width: int = 3) -> onnx.ModelProto:
    """The token is 1 + 3 * (the sum of all tokens under the mask), modulo the vocabulary. The cache holds them all.

    Unbound, `past` is an ordinary input.
    """
    tail, constants = _one_hot(vocabulary, FLOAT)
    return graphs.model(
        [
            helper.make_node("Cast", ["input_ids"], ["as_float"], to=FLOAT),
            helper.make_node("Unsqueeze", ["as_float", "last"], ["column"]),
            helper.make_node("Expand", ["column", "wide"], ["new"]),
            helper.make_node("Concat", ["past", "new"], ["present"], axis=1),
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=FLOAT),
            helper.make_node("Unsqueeze", ["mask", "last"], ["mask_column"]),
            helper.make_node("Mul", ["present", "mask_column"], ["seen"]),
            helper.make_node("ReduceSum", ["seen", "axes"], ["sum"], keepdims=0),
            helper.make_node("Gather", ["sum", "first"], ["total"], axis=1),
            helper.make_node("Cast", ["total"], ["whole"], to=INT64),
            helper.make_node("Mul", ["whole", "three"], ["thrice"]),
            helper.make_node("Add", ["thrice", "one"], ["following"]),
            *tail,
        ],
        [
            info("input_ids", INT64, ["batch", "length"]),
            info("attention_mask", INT64, ["batch", "total"]),
            info("past", FLOAT, ["batch", "before", width]),
        ],
        [info("logits", FLOAT, ["batch", vocabulary]), info("present", FLOAT, ["batch", "after", width])],
        initializers=[
            *constants,
            _constant("last", [-1], np.int64),
            _constant("wide", [1, 1, width], np.int64),
            _constant("axes", [1], np.int64),
            _constant("first", 0, np.int64),
            _constant("three", 3, np.int64),
            _constant("one", 1, np.int64),
        ],
    )


def successor_with_mask(vocabulary: int = 8) -> onnx.ModelProto:
    """P1, with a mask that changes nothing."""
    proto = successor(vocabulary)
    proto.graph.input.append(info("attention_mask", INT64, ["batch", "total"]))
    proto.graph.output.append(info("ones", INT64, ["batch"]))
    proto.graph.initializer.append(_constant("axes", [1], np.int64))
    proto.graph.node.append(helper.make_node("ReduceSum", ["attention_mask", "axes"], ["ones"], keepdims=0))
    return proto


def recurrent(vocabulary: int = 11) -> onnx.ModelProto:
    """present[batch, 1] = past + the sum of the fed tokens; the token is present modulo the vocabulary."""
    tail, constants = _one_hot(vocabulary, FLOAT)
    return graphs.model(
        [
            helper.make_node("Cast", ["input_ids"], ["as_float"], to=FLOAT),
            helper.make_node("ReduceSum", ["as_float", "axes"], ["sum"], keepdims=1),
            helper.make_node("Add", ["past", "sum"], ["present"]),
            helper.make_node("Cast", ["present"], ["whole"], to=INT64),
            helper.make_node("Squeeze", ["whole", "axes"], ["following"]),
            *tail,
        ],
        [info("input_ids", INT64, ["batch", "length"]), info("past", FLOAT, ["batch", 1])],
        [info("logits", FLOAT, ["batch", vocabulary]), info("present", FLOAT, ["batch", 1])],
        initializers=[*constants, _constant("axes", [1], np.int64)],
    )


def bound_history(vocabulary: int = 17, width: int = 3) -> refeed.Model:
    model, _ = refeed.bind(of_history(vocabulary, width), pairs=[("past", "present")])
    return model


def bound_positions() -> refeed.Model:
    """P2 with a cache that counts columns: the token is its own position."""
    proto, cached = of_positions(32), of_history()
    taken = {"past", "as_float", "column", "new", "present"}
    proto.graph.node.extend(node for node in cached.graph.node if set(node.output) <= taken)
    proto.graph.initializer.extend(tensor for tensor in cached.graph.initializer if tensor.name in ("last", "wide"))
    proto.graph.input.append(cached.graph.input[2])
    proto.graph.output.append(cached.graph.output[1])
    model, _ = refeed.bind(proto, pairs=[("past", "present")])
    return model


def after_recurrent(tokens: list[int], count: int, vocabulary: int = 11) -> list[int]:
    """Return the next `count` tokens of `recurrent`, worked out by hand."""
    made = list(tokens)
    for _ in range(count):
        made.append(sum(made) % vocabulary)
    return made[len(tokens) :]


def after_history(tokens: list[int], count: int, vocabulary: int = 17) -> list[int]:
    """Return the next `count` tokens of `of_history`, worked out by hand."""
    made = list(tokens)
    for _ in range(count):
        made.append((3 * sum(made) + 1) % vocabulary)
    return made[len(tokens) :]


def fixed(logits: Any, elements: int = FLOAT) -> onnx.ModelProto:
    """The same logits at every step, of every row: [vocabulary]."""
    row = np.asarray(logits, np.float64)
    return graphs.model(
        [
            helper.make_node("Shape", ["input_ids"], ["rows"], start=0, end=1),
            helper.make_node("Concat", ["rows", "one"], ["shape"], axis=0),
            helper.make_node("Expand", ["row", "shape"], ["wide"]),
            helper.make_node("Cast", ["wide"], ["logits"], to=elements),
        ],
        [info("input_ids", INT64, ["batch", "length"])],
        [info("logits", elements, ["batch", row.size])],
        initializers=[onnx.numpy_helper.from_array(row, "row"), _constant("one", [1], np.int64)],
    )


def bigram(table: Any) -> onnx.ModelProto:
    """Logits are the row of `table` that the last token names: [vocabulary, vocabulary]."""
    rows = np.asarray(table, np.float32)
    return graphs.model(
        [helper.make_node("Gather", ["table", "input_ids"], ["logits"], axis=0)],
        [info("input_ids", INT64, ["batch", "length"])],
        [info("logits", FLOAT, ["batch", "length", rows.shape[1]])],
        initializers=[onnx.numpy_helper.from_array(rows, "table")],
    )


def ids(*rows: list[int]) -> Array:
    return np.array(rows, np.int64)


def empty(batch: int = 1, width: int = 3) -> Array:
    return np.zeros((batch, 0, width), np.float32)


def paged_decoder() -> refeed.onnx.ModelProto:
    """`successor`, beside a cache that only an initializer gives."""
    model = refeed.onnx.ModelProto()
    model.ParseFromString(successor().SerializeToString())
    for values, name in ((model.graph.input, "past"), (model.graph.output, "present")):
        values.add(name=name).type.struct_type.CopyFrom(refeed.onnx.StructTypeProto())
    model.graph.node.append(refeed.onnx.helper.make_node("Identity", ["past"], ["present"]))
    model.graph.persistent_bindings.add(input_name="past", output_name="present")
    model.graph.paged_cache_initializer.add(name="past")
    return model
