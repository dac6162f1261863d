"""`refeed.onnx.verify`: the format, and the extensions that the `onnx` package does not know."""

import pathlib
from typing import Any

import numpy as np
import pytest
import refeed
from refeed import onnx
from refeed.onnx import helper, numpy_helper, parser, verify

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64

ACCUMULATE = (
    '<ir_version: 10, opset_import: ["" : 18]>'
    "accumulate (float[2] delta, float[2] past) => (float[2] present)"
    "{ present = Add(delta, past) }"
)


def bound(text: str = ACCUMULATE, source: str = "past", target: str = "present") -> Any:
    model = parser.parse_model(text)
    model.graph.persistent_bindings.add(input_name=source, output_name=target)
    return model


def refused(message: Any, *parts: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        verify.verify_model(message)
    assert isinstance(caught.value, refeed.ModelError)
    for part in parts:
        assert part in str(caught.value)


# ------------------------------------------------------------------------------------------------- bindings


def test_the_seeds_texts() -> None:
    """S008, S012, S060, S077, S093, S101: the words that code written for the format looks for."""
    verify.verify_model(bound())
    for source, target in [("nothing", "present"), ("past", "nothing"), ("", "present"), ("past", "")]:
        with pytest.raises(ValueError, match=r"exact.*input/output"):
            verify.verify_model(bound(source=source, target=target))
    with pytest.raises(ValueError, match="must be used exactly once, got 2"):
        verify.verify_model(bound(ACCUMULATE.replace("Add(delta, past)", "Add(past, past)")))
    with pytest.raises(ValueError, match="must be used exactly once, got 0"):
        verify.verify_model(bound(ACCUMULATE.replace("Add(delta, past)", "Neg(delta)")))
    with pytest.raises(ValueError, match="String tensors cannot be persistent"):
        verify.verify_model(bound(ACCUMULATE.replace("float[2]", "string[2]")))
    twice = bound()
    twice.graph.persistent_bindings.add(input_name="past", output_name="present")
    refused(twice, "graph.persistent_bindings[1]", "input `past` is already in binding 0")
    retired = onnx.PersistentBindingProto()
    with pytest.raises(ValueError, match="whole"):
        retired.ParseFromString(b"\x0a\x04past\x12\x07present\x1a\x01a")
    with pytest.raises(ValueError, match="root graph"):
        verify.verify_graph(bound().graph, False)
    verify.verify_graph(bound().graph)
    verify.verify_graph(bound().graph, True)


def test_bindings_come_before_the_rest() -> None:
    """Rule 3.1.6."""
    model = bound(target="nothing")
    del model.opset_import[:]
    model.graph.node[0].input[0] = "nowhere"
    refused(model, "exact")


def test_types_that_do_not_fit_are_told_with_both_sides() -> None:
    model = bound(ACCUMULATE.replace("(float[2] present)", "(float[3] present)"))
    refused(model, 'graph.output[0] "present".type: expected FLOAT[2], got FLOAT[3]: axis 0 is 2 and 3')


# ------------------------------------------------------------------------------------------- the seed's example


def cache_page(start: int, length: int, keys: Any, values: Any) -> Any:
    block = onnx.PagedCacheBlockProto(start=start, length=length)
    block.key.CopyFrom(numpy_helper.from_array(keys))
    block.value.CopyFrom(numpy_helper.from_array(values))
    return block


def paged_cache(name: str = "") -> Any:
    """Two pages of one head: keys [1, 1, 2, 4], values [1, 1, 2, 3]; the second holds one token."""
    keys = np.linspace(-0.5, 0.5, 8, dtype=np.float32).reshape(1, 1, 2, 4)
    values = np.linspace(-0.5, 0.5, 6, dtype=np.float32).reshape(1, 1, 2, 3)
    cache = onnx.PagedCacheProto()
    if name:
        cache.name = name
    cache.blocks.append(cache_page(0, 2, keys, values))
    cache.blocks.append(cache_page(2, 1, keys, values))
    return cache


def quantize_model() -> Any:
    """The graph of the seed's example."""
    cache_type = onnx.TypeProto(struct_type=onnx.StructTypeProto())
    nodes = [
        helper.make_node(
            "QuantizePagedCache",
            ["past", "indices", "key_scale", "key_zero", "value_scale", "value_zero"],
            ["quantized"],
            domain="ai.rt",
        ),
        helper.make_node(
            "QuantizePagedCache",
            ["quantized", "indices", "one", "float16_marker", "one", "bfloat16_marker"],
            ["restored"],
            domain="ai.rt",
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "selected_page_roundtrip",
        [helper.make_value_info("past", cache_type), helper.make_tensor_value_info("indices", INT64, [1])],
        [helper.make_value_info("quantized", cache_type), helper.make_value_info("restored", cache_type)],
        initializer=[
            helper.make_tensor("key_scale", FLOAT, [], [0.25]),
            helper.make_tensor("key_zero", onnx.TensorProto.INT4, [], [0]),
            helper.make_tensor("value_scale", FLOAT, [], [0.125]),
            helper.make_tensor("value_zero", onnx.TensorProto.UINT4, [], [8]),
            helper.make_tensor("one", FLOAT, [], [1]),
            helper.make_tensor("float16_marker", onnx.TensorProto.FLOAT16, [], [0]),
            helper.make_tensor("bfloat16_marker", onnx.TensorProto.BFLOAT16, [], [0]),
        ],
    )
    imports = [helper.make_opsetid("", 23), helper.make_opsetid("ai.rt", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def test_the_seeds_example_is_verified() -> None:
    """S277."""
    verify.verify_model(quantize_model())


# ------------------------------------------------------------------------------------------------- paged caches


def test_a_cache_is_verified_alone_and_as_an_initializer() -> None:
    """Rules 3.12.1, 3.12.2; S231."""
    verify.verify_paged_cache(paged_cache())
    model = quantize_model()
    model.graph.paged_cache_initializer.append(paged_cache("past"))
    verify.verify_model(model)
    model.graph.paged_cache_initializer.append(paged_cache("past"))
    refused(model, "graph.paged_cache_initializer[1]: initializer `past` is defined more than once")
    del model.graph.paged_cache_initializer[1:]
    model.graph.paged_cache_initializer[0].blocks[1].length = 3
    refused(
        model,
        'graph.paged_cache_initializer[0] "past".blocks[1].length: expected at most 2, the capacity of the page, got 3',
    )
    model.graph.paged_cache_initializer[0].name = "indices"
    refused(model, 'graph.input[1] "indices".type: expected a struct type')


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda page: setattr(page, "start", 1), "start: expected 2, got 1"),
        (lambda page: page.ClearField("start"), "start: expected 2, got none"),
        (lambda page: setattr(page, "length", 0), "length: expected 1 or more, got 0"),
        (lambda page: setattr(page, "length", -1), "length: expected 1 or more, got -1"),
        (lambda page: page.ClearField("key"), ": expected key or encoded_key, got neither"),
        (lambda page: page.ClearField("value"), ": expected value or encoded_value, got neither"),
        (lambda page: setattr(page.key, "data_location", 1), "key.data_location: expected elements in the message"),
        (lambda page: setattr(page.key, "data_type", 11), "key.data_type: expected FLOAT, FLOAT16 or BFLOAT16"),
        (lambda page: setattr(page.key, "raw_data", bytes(31)), "expected 32 bytes in raw_data, got 31"),
        (lambda page: page.key.dims.append(1), "key.dims: expected four axes"),
    ],
)
def test_s230_every_fault_of_a_page_is_told(change: Any, fault: str) -> None:
    cache = paged_cache()
    change(cache.blocks[1])
    with pytest.raises(refeed.ModelError) as caught:
        verify.verify_paged_cache(cache)
    assert str(caught.value).startswith("paged_cache.blocks[1]")
    assert fault in str(caught.value)


# ----------------------------------------------------------------------------------------------- encoded values


def encoded(payload: bytes = bytes(3)) -> Any:
    """INT4 codes of a tensor [2, 3]."""
    value = onnx.EncodedValueProto(raw_data=payload)
    value.affine.storage_type = onnx.TensorProto.INT4
    value.affine.scale.CopyFrom(helper.make_tensor("", FLOAT, [], [0.25]))
    value.logical_type.CopyFrom(helper.make_tensor_type_proto(FLOAT, [2, 3]))
    return value


def test_an_encoded_value_is_verified() -> None:
    verify.verify_encoded_value(encoded())
    for payload, fault in [
        (bytes(2), "encoded_value.raw_data: expected 3 bytes, as INT4[2, 3] takes, got 2"),
        (bytes(4), "encoded_value.raw_data: expected 3 bytes, as INT4[2, 3] takes, got 4"),
    ]:
        with pytest.raises(refeed.ModelError) as caught:
            verify.verify_encoded_value(encoded(payload))
        assert str(caught.value) == fault
    blocked = encoded()
    blocked.affine.axis = -1
    blocked.affine.block_size = 2
    with pytest.raises(refeed.ModelError, match=r"affine\.scale\.dims: expected \[2, 2\], got \[\]"):
        verify.verify_encoded_value(blocked)


# -------------------------------------------------------------------------------------------------- struct types


def test_a_struct_type_is_verified_alone_and_in_the_catalogue() -> None:
    field = onnx.StructTypeProto.Structure.Field(name="codes", type=helper.make_tensor_type_proto(FLOAT, [2]))
    declared = onnx.StructTypeProto(structure=onnx.StructTypeProto.Structure(field=[field]))
    verify.verify_struct_type(declared)
    model = bound()
    model.struct_types.append(declared)
    refused(model, "struct_types[0].type_id: expected a nonzero identity, got 0")
    model.struct_types[0].type_id = 7
    verify.verify_model(model)
    model.struct_types[0].structure.field.add(name="self").type.struct_type.type_ref = 7
    refused(model, "struct_types[0]: expected a type that does not contain itself, got 7 -> 7")
    declared.type_id = 7
    with pytest.raises(refeed.ModelError, match=r"struct_type\.type_id: expected none outside the catalogue"):
        verify.verify_struct_type(declared)


# ------------------------------------------------------------------------------------------------------- parts


def test_every_part_is_verified_with_a_path() -> None:
    """Rule 3.11.7."""
    good = parser.parse_graph("g (float[N] x) => (float[N] y) { y = Neg (x) }")
    node = helper.make_node("Neg", ["x"], ["y"])
    function = helper.make_function(
        "mine", "f", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], [helper.make_opsetid("", 21)]
    )
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.ones(2, np.float32), "w"), numpy_helper.from_array(np.array([0, 3])), [4]
    )
    whole: list[tuple[Any, Any]] = [
        (verify.verify_graph, good),
        (verify.verify_node, node),
        (verify.verify_attribute, helper.make_attribute("axis", 1)),
        (verify.verify_function, function),
        (verify.verify_tensor, helper.make_tensor("w", FLOAT, [2], [0.5, 1.5])),
        (verify.verify_sparse_tensor, sparse),
        (verify.verify_value_info, helper.make_tensor_value_info("x", FLOAT, [2])),
    ]
    for check, message in whole:
        check(message)
        with pytest.raises(TypeError):
            check(onnx.OperatorSetIdProto())
    sparse.dims[0] = 3
    function.node[0].input[0] = "q"
    broken: list[tuple[Any, Any, str]] = [
        (
            verify.verify_graph,
            onnx.GraphProto(node=[node]),
            "graph.node[0] (Neg).input[0]: input `x` is defined nowhere",
        ),
        (verify.verify_node, onnx.NodeProto(), "node (): expected a name for the operator, got an empty one"),
        (
            verify.verify_attribute,
            onnx.AttributeProto(name="axis", type=onnx.AttributeProto.INT, f=1),
            'attribute["axis"]: expected one value of type INT, got FLOAT',
        ),
        (
            verify.verify_function,
            function,
            'functions["mine::f"].node[0] (Neg).input[0]: input `q` is defined nowhere',
        ),
        (
            verify.verify_tensor,
            onnx.TensorProto(name="w", data_type=FLOAT, dims=[2]),
            "tensor: tensor `w`: expected 2 entries in float_data, got 0",
        ),
        (verify.verify_sparse_tensor, sparse, "sparse_tensor.indices.position[1]: expected 0 to 2, got 3"),
        (verify.verify_value_info, onnx.ValueInfoProto(name="x"), "value_info.type: expected a type, got none"),
    ]
    for check, message, text in broken:
        with pytest.raises(refeed.ModelError) as caught:
            check(message)
        assert str(caught.value) == text


def test_surroundings_may_be_given() -> None:
    node = helper.make_node("Neg", ["x"], ["y"], domain="mine")
    verify.verify_node(node)
    with pytest.raises(refeed.ModelError, match="domain `mine` is not imported"):
        verify.verify_node(node, opset_imports={"": 21})
    inner = parser.parse_graph("g () => (float[N] y) { y = Neg (x) }")
    holder = helper.make_node("Op", [], ["y"], domain="mine", body=inner)
    with pytest.raises(refeed.ModelError, match="`x` is defined nowhere"):
        verify.verify_node(holder)
    verify.verify_node(holder, outer_names=["x"])
    verify.verify_attribute(holder.attribute[0], outer_names=["x"])
    verify.verify_graph(inner, False, outer_names=["x"])
    untyped = onnx.AttributeProto(name="axis", i=1)
    with pytest.raises(refeed.ModelError, match="expected a type, got none"):
        verify.verify_attribute(untyped)
    verify.verify_attribute(untyped, ir_version=1)
    verify.verify_value_info(onnx.ValueInfoProto(name="x"), False)


def test_models_come_in_every_form(tmp_path: pathlib.Path) -> None:
    model = bound()
    wire = model.SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(wire)
    for given in (model, wire, path, str(path), refeed.load(wire)):
        verify.verify_model(given)
    with pytest.raises(TypeError):
        verify.verify_model(None)


def test_operators_are_not_looked_up() -> None:
    model = bound()
    model.graph.node[0].op_type = "Sum2"
    verify.verify_model(model)
