"""The schemas of the two operators on pages: attributes, types, extents; no kernel is needed to infer."""

import subprocess
import sys
from typing import Any

import pytest
import refeed
import structured as s
from refeed import onnx
from refeed.onnx import helper
from refeed.onnx.shape_inference import infer_shapes

FLOAT, FLOAT16, BFLOAT16, DOUBLE = 1, 10, 16, 11


def page(key: Any, value: Any) -> Any:
    return s.struct(start=s.tensor([], s.INT64), length=s.tensor([], s.INT64), key=key, value=value)


def cache(key: Any, value: Any) -> Any:
    return s.struct(blocks=s.sequence(page(key, value)))


def decoder(past: Any = None, kind: int = FLOAT, inputs: dict[str, Any] | None = None, **attributes: Any) -> Any:
    """Six query heads over two cached ones, keys of 5 numbers and values of 7."""
    types = {
        "Q": s.tensor(["batch", 6, "new", 5], kind),
        "K": s.tensor(["batch", 2, "new", 5], kind),
        "V": s.tensor(["batch", 2, "new", 7], kind),
        "past": past or s.any_cache(),
        **(inputs or {}),
    }
    node = helper.make_node("PagedAttention", ["Q", "K", "V", "past"], ["Y", "present"], domain="ai.rt", **attributes)
    outputs = [onnx.ValueInfoProto(name=name) for name in ("Y", "present")]
    graph = helper.make_graph([node], "test", [helper.make_value_info(*item) for item in types.items()], outputs)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("ai.rt", 1)], ir_version=10
    )


def inferred(model: Any) -> list[Any]:
    return [output.type for output in infer_shapes(model, strict_mode=True).graph.output]


def session(model: Any) -> Any:
    """A session of the model with its outputs declared."""
    for output, ty in zip(model.graph.output, (s.tensor(["batch", 6, "new", 7]), s.any_cache()), strict=False):
        output.type.CopyFrom(ty)
    return refeed.RuntimeSession(model)


@pytest.mark.parametrize("kind", [FLOAT, FLOAT16, BFLOAT16])
def test_6_1_the_result_has_the_type_of_queries_and_the_width_of_values(kind: int) -> None:
    """Rules 6.1.4, 6.1.5; S191, S193."""
    y, present = inferred(decoder(kind=kind))
    assert y == s.tensor(["batch", 6, "new", 7], kind)
    assert present == s.any_cache()


def test_6_1_present_is_declared_as_past_is() -> None:
    """Rule 6.1.5; S193."""
    for key in (s.tensor(["batch", 2, "capacity", 5]), s.tensor(None)):
        declared = cache(key, s.tensor(["batch", 2, "capacity", 7]))
        y, present = inferred(decoder(declared))
        assert present == declared
        assert y == s.tensor(["batch", 6, "new", 7])


def test_6_1_unknown_ranks_and_types_are_inferred_through() -> None:
    """Rule 6.1.5; S199."""
    unknown = onnx.TypeProto()
    unknown.tensor_type.elem_type = FLOAT
    y, _ = inferred(decoder(inputs={"K": unknown}))
    assert y == s.tensor(["batch", 6, "new", 7])
    y, _ = inferred(decoder(inputs={"Q": unknown}))
    assert y.tensor_type.elem_type == FLOAT
    assert y.tensor_type.shape.dim[3].dim_value == 7


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"block_size": 1, "max_tokens": 1, "is_causal": 0, "left_window_size": 0},
        {"block_size": 2**40, "max_tokens": 2**62, "is_causal": 1, "left_window_size": 2**62},
        {"left_window_size": -1},
    ],
)
def test_6_1_attributes_in_their_ranges_are_taken(attributes: dict[str, Any]) -> None:
    """Rule 6.1.2; S194, S195."""
    inferred(decoder(**attributes))


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"block_size": 0}, "block_size"),
        ({"block_size": -1}, "block_size"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"is_causal": 2}, "is_causal"),
        ({"is_causal": -1}, "is_causal"),
        ({"left_window_size": -2}, "left_window_size"),
        ({"block_size": 1.5}, "block_size"),
        ({"is_causal": "1"}, "is_causal"),
        ({"scale": 0.5}, "scale"),
        ({"softcap": 0.0}, "softcap"),
        ({"right_window_size": -1}, "right_window_size"),
        ({"key_storage_type": 3}, "key_storage_type"),
        ({"key_scale": 0.5}, "key_scale"),
        ({"value_zero_point": 0}, "value_zero_point"),
    ],
)
def test_6_1_other_attributes_types_and_ranges_are_refused(attributes: dict[str, Any], expected: str) -> None:
    """Rules 6.1.2, 6.1.3; S194, S195, S196, S204."""
    model = decoder(**attributes)
    with pytest.raises(ValueError, match=expected):
        inferred(model)
    with pytest.raises(ValueError, match=expected):
        session(model)


def test_6_1_an_attribute_stands_once() -> None:
    """Rule 6.1.3."""
    model = decoder(block_size=4)
    model.graph.node[0].attribute.append(helper.make_attribute("block_size", 4))
    with pytest.raises(ValueError, match="block_size"):
        session(model)


@pytest.mark.parametrize(("inputs", "outputs"), [(3, 2), (5, 2), (4, 1), (4, 3)])
def test_6_1_four_inputs_and_two_outputs(inputs: int, outputs: int) -> None:
    """Rule 6.1.1; S191, S204."""
    model = decoder()
    node = model.graph.node[0]
    del node.input[:], node.output[:]
    node.input.extend(["Q", "K", "V", "past", "Q"][:inputs])
    node.output.extend(["Y", "present", "more"][:outputs])
    if outputs == 1:
        del model.graph.output[1]
    with pytest.raises(ValueError, match="PagedAttention"):
        session(model)


@pytest.mark.parametrize("place", range(4))
def test_6_1_no_input_is_left_out(place: int) -> None:
    """Rule 6.1.1."""
    model = decoder()
    model.graph.node[0].input[place] = ""
    with pytest.raises(ValueError, match="PagedAttention"):
        session(model)


def test_6_1_the_two_outputs_have_different_names() -> None:
    """Rule 6.1.1."""
    model = decoder()
    model.graph.node[0].output[1] = "Y"
    del model.graph.output[1]
    with pytest.raises(ValueError, match="Y"):
        session(model)


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"Q": s.tensor(["batch", 6, "new", 5], DOUBLE)}, "DOUBLE"),
        ({"K": s.tensor(["batch", 2, "new", 5], FLOAT16)}, "FLOAT16"),
        ({"V": s.tensor(["batch", 2, "new", 7], FLOAT16)}, "FLOAT16"),
        ({"Q": s.tensor(["batch", 6, 5])}, "4 axes"),
        ({"V": s.tensor(["batch", 2, "new", 7, 1])}, "4 axes"),
        ({"Q": s.tensor([0, 6, "new", 5])}, "1 or more"),
        ({"K": s.tensor(["batch", 0, "new", 5])}, "1 or more"),
        ({"V": s.tensor(["batch", 2, "new", 0])}, "1 or more"),
        ({"Q": s.tensor([2, 6, "new", 5]), "K": s.tensor([3, 2, "new", 5])}, "the batch is 2 here and 3 there"),
        ({"Q": s.tensor(["b", 6, 2, 5]), "V": s.tensor(["b", 2, 3, 7])}, "the length is 2 here and 3 there"),
        ({"K": s.tensor(["batch", 3, "new", 5])}, "key and value heads is 3 here and 2 there"),
        ({"K": s.tensor(["batch", 2, "new", 4])}, "the head size of Q and K is 5 here and 4 there"),
        ({"Q": s.tensor(["batch", 5, "new", 5])}, "2 key and value heads divide, got 5"),
        ({"past": s.tensor([2])}, "expected a struct"),
        ({"past": s.sequence(s.tensor([2]))}, "expected a struct"),
        ({"past": s.struct(pages=s.sequence(s.any_cache()))}, "blocks"),
        ({"past": s.struct(blocks=s.tensor([2]))}, "sequence of structs"),
        ({"past": cache(s.tensor(["b", 2, "c", 4]), s.tensor(None))}, "the head size of K is 5 here and 4 there"),
        ({"past": cache(s.tensor(None), s.tensor(["b", 2, "c", 8]))}, "the head size of V is 7 here and 8 there"),
        ({"past": cache(s.tensor(["b", 3, "c", 5]), s.tensor(None))}, "key and value heads is 2 here and 3 there"),
        ({"past": cache(s.tensor(["b", 2, "c", 5], FLOAT16), s.tensor(None))}, "expected FLOAT of 4 axes"),
        ({"past": cache(s.tensor(["b", 2, "c", 5], BFLOAT16), s.tensor(None))}, "expected FLOAT of 4 axes"),
        ({"past": cache(s.tensor(["b", 2, 5]), s.tensor(None))}, "expected FLOAT of 4 axes"),
    ],
)
def test_6_1_types_and_extents_that_do_not_fit_are_refused(inputs: dict[str, Any], expected: str) -> None:
    """Rules 6.1.4, 6.1.6; S186, S191, S192."""
    with pytest.raises(ValueError, match=expected):
        inferred(decoder(inputs=inputs))


def test_6_1_no_new_tokens_are_a_length_of_zero() -> None:
    """Rule 6.1.4."""
    none = {name: s.tensor([2, heads, 0, width]) for name, heads, width in (("Q", 6, 5), ("K", 2, 5), ("V", 2, 7))}
    assert inferred(decoder(inputs=none))[0] == s.tensor([2, 6, 0, 7])


def test_6_1_the_schema_registers_no_kernel() -> None:
    """Also in a process of its own, in which nothing was registered. Rule 6.1.7; S196."""
    model = decoder()
    session(model)
    code = (
        "import sys, refeed\n"
        "model = refeed.load(sys.stdin.buffer.read())\n"
        "model.verify()\n"
        "try:\n"
        "    refeed.RuntimeSession(model).run({})\n"
        "except ValueError as error:\n"
        "    assert 'PagedAttention' in str(error), error\n"
        "else:\n"
        "    raise AssertionError('a kernel is there')\n"
    )
    subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", code], input=model.SerializeToString(), check=True
    )


def test_6_1_data_is_checked_when_it_is_there() -> None:
    """Inference knows nothing of pages: a cache of too many heads passes it, and fails as a value. Rule 6.1.8; S197."""
    declared = cache(s.tensor(["b", "h", "c", 5]), s.tensor(["b", "h", "c", 7]))
    assert inferred(decoder(declared))[1] == declared
