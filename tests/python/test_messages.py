"""Messages beside those of the official package: the same code on both, the same outcome."""

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import refeed
import refeed.onnx

Case = Callable[[Any], Any]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def plain(value: Any) -> Any:
    """Turn what a case gives into something that compares across the packages."""
    if hasattr(value, "SerializeToString"):
        return type(value).__qualname__, value.SerializeToString(), str(value)
    if type(value).__name__ in ("RepeatedScalarContainer", "RepeatedScalar"):
        return "scalars", [plain(item) for item in value]
    if type(value).__name__ in ("RepeatedCompositeContainer", "RepeatedComposite"):
        return "messages", [plain(item) for item in value]
    if type(value).__name__ == "FieldDescriptor":
        return value.full_name
    if isinstance(value, list | tuple):
        return type(value).__name__, [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    return type(value).__name__, value


def outcome(function: Case, package: Any) -> Any:
    try:
        return "value", plain(function(package))
    except Exception as error:
        # Each package has errors of its own; what they are beside that is compared.
        for kind in (UnicodeError, TypeError, AttributeError, IndexError, KeyError):
            if isinstance(error, kind):
                return "error", kind.__name__
        if type(error).__name__ == "DecodeError":
            return "error", "DecodeError"
        if isinstance(error, ValueError):
            return "error", "ValueError"
        raise


def refused(function: Callable[[], Any]) -> str:
    """Run something that fails, and give its kind and text."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        function()
    text = str(caught.value).replace("onnx.onnx_ml_pb2.", "onnx.").replace("refeed.onnx.", "onnx.")
    return f"{type(caught.value).__name__}: {text}"


# ------------------------------------------------------------------------------------------------------- constructing


@case
def a_model_from_dictionaries(o: Any) -> Any:
    return o.ModelProto(ir_version=3, graph={"name": "x", "node": [{"op_type": "A", "input": ["a", "b"]}]})


@case
def keywords_of_every_kind(o: Any) -> Any:
    attribute = o.AttributeProto(
        name="x",
        f=0.1,
        i=-(2**63),
        s=b"\0\xff",
        ints=[1, 2**63 - 1],
        floats=(1, 1e40, -0.0),
        strings=[b"", b"a"],
        type="FLOATS",
        t=o.TensorProto(dims=[2], data_type=1, float_data=[1.5, 2]),
        tp={"tensor_type": {"elem_type": 7, "shape": {"dim": [{"dim_value": 3}, {"dim_param": "N"}, {}]}}},
    )
    return attribute, o.TensorProto(uint64_data=[2**64 - 1], double_data=[0.1], int32_data=[-(2**31)])


@case
def none_leaves_a_field_out(o: Any) -> Any:
    return o.NodeProto(input=None, attribute=None, op_type=None, name=""), o.ModelProto(graph=None).HasField("graph")


@case
def empty_messages_are_present(o: Any) -> Any:
    return o.ModelProto(graph=o.GraphProto()).HasField("graph"), o.ModelProto(graph={}).HasField("graph")


@case
def a_message_is_copied_into_a_constructor(o: Any) -> Any:
    graph = o.GraphProto(name="before")
    model = o.ModelProto(graph=graph)
    graph.name = "after"
    return model


@case
def the_last_member_of_a_oneof_wins(o: Any) -> Any:
    return [
        o.TensorShapeProto.Dimension(dim_value=3, dim_param="x"),
        o.TensorShapeProto.Dimension(dim_param="x", dim_value=3),
        o.TypeProto(tensor_type=o.TypeProto.Tensor(elem_type=1), sequence_type=o.TypeProto.Sequence()),
    ]


@case
def a_string_is_iterated(o: Any) -> Any:
    return o.NodeProto(input="abc")


@case
def wrong_keywords(o: Any) -> Any:
    return [
        refused(lambda: o.ModelProto(foo=1)),
        refused(lambda: o.ModelProto(graph={"nme": "x"})),
        outcome(lambda _: o.ModelProto(1), o),
        outcome(lambda _: o.ModelProto(b""), o),
        refused(lambda: o.ModelProto(graph=o.NodeProto())),
        refused(lambda: o.ModelProto(graph=3)),
        refused(lambda: o.GraphProto(node=[3])),
        refused(lambda: o.GraphProto(node=[None])),
        refused(lambda: o.GraphProto(node=3)),
    ]


CASES |= {
    "a_number_in_a_list_of_texts": lambda o: o.NodeProto(input=["a", 3]),
    "a_number_as_text": lambda o: o.NodeProto(op_type=3),
    "a_text_as_number": lambda o: o.ModelProto(ir_version="3"),
    "a_float_as_number": lambda o: o.ModelProto(ir_version=2.0),
    "a_float_in_a_list_of_numbers": lambda o: o.AttributeProto(ints=[1.0]),
    "a_number_as_list": lambda o: o.AttributeProto(ints=3),
    "a_text_as_list_of_numbers": lambda o: o.AttributeProto(ints="abc"),
    "a_text_as_bytes": lambda o: o.AttributeProto(strings=["abc"]),
    "bytes_as_list_of_bytes": lambda o: o.AttributeProto(strings=b"abc"),
    "an_unknown_enum_label": lambda o: o.AttributeProto(type="FLOATX"),
    "an_unknown_enum_number": lambda o: o.AttributeProto(type=999),
    "a_float_as_enum": lambda o: o.AttributeProto(type=1.0),
    "a_number_too_large": lambda o: o.ModelProto(ir_version=2**63),
    "a_number_too_small": lambda o: o.TensorProto(data_type=-(2**31) - 1),
    "a_negative_unsigned": lambda o: o.TensorProto(uint64_data=[-1]),
    "text_that_is_no_utf8": lambda o: o.NodeProto(name=b"\xff"),
    "a_lone_surrogate": lambda o: o.NodeProto(name="\ud800"),
    "an_int_as_message": lambda o: o.ModelProto().MergeFrom(3),
    "none_as_message": lambda o: o.ModelProto().CopyFrom(None),
    "bytes_cut_off": lambda o: o.NodeProto.FromString(b"\x0a"),
    "a_zero_tag": lambda o: o.NodeProto().ParseFromString(b"\x00"),
    "a_number_as_bytes": lambda o: o.NodeProto().ParseFromString(3),
    "an_attribute_that_is_none": lambda o: o.ModelProto().foo,
    "a_method_that_is_none": lambda o: o.ModelProto().FooBar(),
    "deleting_a_field": lambda o: o.ModelProto().__delattr__("graph"),
    "hashing": lambda o: hash(o.ModelProto()),
    "ordering": lambda o: o.ModelProto() < o.ModelProto(),
    "has_field_of_an_unknown_name": lambda o: o.ModelProto().HasField("foo"),
    "has_field_of_a_list": lambda o: o.ModelProto().HasField("functions"),
    "has_field_of_a_number": lambda o: o.ModelProto().HasField(3),
    "which_oneof_of_an_unknown_name": lambda o: o.TypeProto().WhichOneof("val"),
    "clear_field_of_an_unknown_name": lambda o: o.TypeProto().ClearField("x"),
    "a_name_of_no_number": lambda o: o.TensorProto.DataType.Name(1111),
    "a_name_of_text": lambda o: o.TensorProto.DataType.Name("x"),
    "a_name_of_a_float": lambda o: o.TensorProto.DataType.Name(1.0),
    "a_number_of_no_name": lambda o: o.TensorProto.DataType.Value("FX"),
    "a_number_of_a_number": lambda o: o.TensorProto.DataType.Value(3),
    "an_enum_attribute_that_is_none": lambda o: o.TensorProto.DataType.FX,
    "an_enum_method_of_a_message": lambda o: o.TensorProto.Name(1),
    "an_unknown_keyword_of_a_method": lambda o: o.ModelProto().SerializeToString(foo=True),
    "subclassing": lambda o: type("X", (o.ModelProto,), {}),
}


# ------------------------------------------------------------------------------------------------------------- fields


@case
def scalars_are_set_and_read(o: Any) -> Any:
    attribute = o.AttributeProto()
    before = [getattr(attribute, name) for name in ("name", "i", "f", "s", "type")]
    attribute.name, attribute.i, attribute.f, attribute.s, attribute.type = "n", -5, 1e40, b"\x80", "GRAPH"
    return before, [getattr(attribute, name) for name in ("name", "i", "f", "s", "type")], attribute


@case
def numbers_of_numpy_are_numbers(o: Any) -> Any:
    attribute = o.AttributeProto(i=np.int64(3), f=np.float32(0.1), ints=np.arange(3))
    attribute.floats.extend(np.array([0.5, 2], np.float32))
    return attribute


@case
def text_may_be_given_as_bytes(o: Any) -> Any:
    node = o.NodeProto(name=b"abc", input=[b"x"])
    return node.name, list(node.input), node


@case
def assigning(o: Any) -> Any:
    model, tensor = o.ModelProto(), o.TensorProto()
    return [
        refused(lambda: setattr(model, "graph", o.GraphProto())),
        refused(lambda: setattr(model, "metadata_props", [])),
        refused(lambda: setattr(model, "foo", 1)),
        refused(lambda: setattr(model, "SerializeToString", 1)),
        refused(lambda: delattr(model, "graph")),
        refused(lambda: delattr(model, "ir_version")),
        outcome(lambda _: setattr(model, "ir_version", None), o),
        outcome(lambda _: setattr(model, "ir_version", 1.5), o),
        outcome(lambda _: setattr(model, "ir_version", True), o),
        outcome(lambda _: setattr(tensor, "raw_data", "abc"), o),
        outcome(lambda _: setattr(tensor, "raw_data", bytearray(b"abc")), o),
        outcome(lambda _: setattr(tensor, "raw_data", 3), o),
        outcome(lambda _: setattr(tensor, "data_type", 2**31), o),
        model,
        tensor,
    ]


@case
def presence(o: Any) -> Any:
    model = o.ModelProto()
    steps = [model.HasField("graph"), model.HasField("ir_version"), model.HasField(b"domain")]
    graph = model.graph
    steps.append(model.HasField("graph"))
    model.ir_version = 0
    graph.node.add()
    steps += [model.HasField("graph"), model.HasField("ir_version")]
    model.ClearField("ir_version")
    return [*steps, model.HasField("ir_version"), model]


@case
def reading_makes_nothing_present(o: Any) -> Any:
    info = o.ValueInfoProto()
    info.type.tensor_type.shape.dim  # noqa: B018
    before = info.HasField("type")
    info.type.tensor_type.shape.SetInParent()
    return before, info


@case
def a_child_is_a_part_of_its_parent(o: Any) -> Any:
    attribute = o.AttributeProto()
    tensor = attribute.t
    tensor.raw_data = b"x"
    return attribute.HasField("t"), attribute.t is tensor, attribute.t == tensor, attribute


@case
def a_cleared_child_lives_on(o: Any) -> Any:
    model = o.ModelProto()
    graph = model.graph
    node = graph.node.add()
    model.ClearField("graph")
    node.op_type = "x"
    graph.name = "g"
    return model, graph, node, model.HasField("graph")


@case
def oneofs(o: Any) -> Any:
    value = o.TypeProto()
    steps = [value.WhichOneof("value"), value.HasField("value")]
    value.tensor_type.elem_type = 1
    steps += [value.WhichOneof("value"), value.HasField("value"), value.HasField("sequence_type")]
    value.map_type.key_type = 7
    steps += [value.WhichOneof(b"value"), value.HasField("tensor_type"), copy.deepcopy(value)]
    value.ClearField("value")
    return [*steps, value.WhichOneof("value"), value]


@case
def a_member_of_a_oneof_that_somebody_holds(o: Any) -> Any:
    value = o.TypeProto()
    tensor = value.tensor_type
    value.sequence_type.SetInParent()
    tensor.elem_type = 3
    return value.WhichOneof("value"), value


@case
def fields_are_listed_by_number(o: Any) -> Any:
    model = o.ModelProto(graph={"name": "g"}, opset_import=[{"version": 3}], ir_version=1, domain="")
    return model.ListFields(), o.NodeProto().ListFields()


@case
def clearing(o: Any) -> Any:
    model = o.ModelProto(ir_version=3, graph={"name": "g"})
    graph = model.graph
    model.Clear()
    graph.name = "h"
    return model, graph, model.HasField("graph")


# ------------------------------------------------------------------------------------------------- copying and merging


@case
def copies(o: Any) -> Any:
    model = o.ModelProto(ir_version=3, graph={"name": "g"})
    made = [copy.copy(model), copy.deepcopy(model), o.ModelProto()]
    made[2].CopyFrom(model)
    model.graph.name = "changed"
    return made, [each == model for each in made]


@case
def copying_replaces(o: Any) -> Any:
    model = o.ModelProto(ir_version=3, domain="d")
    model.CopyFrom(o.ModelProto(producer_name="p"))
    model.CopyFrom(model)
    return model


@case
def merging(o: Any) -> Any:
    model = o.ModelProto(ir_version=3, domain="d", graph={"name": "g", "node": [{"op_type": "A"}]})
    model.MergeFrom(o.ModelProto(ir_version=4, graph={"doc_string": "s", "node": [{"op_type": "B"}]}))
    model.graph.MergeFrom(model.graph)
    return model


@case
def merging_clears_other_members_of_a_oneof(o: Any) -> Any:
    value = o.TypeProto(tensor_type={"elem_type": 1}, denotation="d")
    value.MergeFrom(o.TypeProto(sequence_type={"elem_type": {"tensor_type": {"elem_type": 2}}}))
    return value


@case
def merging_what_is_another_class(o: Any) -> Any:
    return [
        refused(lambda: o.ModelProto().CopyFrom(o.GraphProto())),
        refused(lambda: o.ModelProto().MergeFrom(o.GraphProto())),
        refused(lambda: o.ModelProto().MergeFrom(None)),
    ]


@case
def equality(o: Any) -> Any:
    nan, zero = o.TensorProto(float_data=[math.nan]), o.TensorProto(float_data=[0.0])
    return [
        o.NodeProto(name="a") == o.NodeProto(name="a"),
        o.NodeProto(name="a") != o.NodeProto(name="b"),
        o.NodeProto(name="") == o.NodeProto(),
        o.NodeProto() == o.GraphProto(),
        o.NodeProto() == 3,
        o.NodeProto() != {},
        nan == o.TensorProto(float_data=[math.nan]),
        zero == o.TensorProto(float_data=[-0.0]),
        o.NodeProto.FromString(b"\xd8\x04\x01") == o.NodeProto(),
        o.AttributeProto(f=math.nan) == o.AttributeProto(f=math.nan),
    ]


# --------------------------------------------------------------------------------------------------------------- lists


@case
def lists_of_scalars(o: Any) -> Any:
    dims = o.TensorProto(dims=[5, 3]).dims
    dims.append(7)
    dims.extend([1, 2, 3])
    dims.extend([])
    dims.insert(0, 9)
    dims.insert(-1, 8)
    dims.insert(99, 4)
    seen = [list(dims), dims[0], dims[-1], dims[1:3], dims[::-2], len(dims), 7 in dims, 77 in dims]
    seen += [dims.pop(), dims.pop(0), dims.pop(-2), list(dims)]
    dims.remove(3)
    dims[0] = 100
    dims[1:3] = [41, 42, 43]
    seen.append(list(dims))
    del dims[0]
    del dims[-1:]
    dims.sort(reverse=True)
    seen.append(list(dims))
    dims.reverse()
    dims.MergeFrom(dims)
    return [*seen, list(dims), dims == list(dims), dims == [1], dims != [1], repr(dims), copy.deepcopy(dims)]


@case
def lists_of_scalars_refuse(o: Any) -> Any:
    names = o.NodeProto(input=["a", "b"]).input
    return [
        outcome(lambda _: names.append(3), o),
        outcome(lambda _: names.extend(["c", 3]), o),
        outcome(lambda _: names.extend(3), o),
        outcome(lambda _: names[5], o),
        outcome(lambda _: names["a"], o),
        outcome(lambda _: names.__setitem__(5, "x"), o),
        outcome(lambda _: names.__setitem__(0, 1), o),
        outcome(lambda _: names.__delitem__(5), o),
        outcome(lambda _: names.remove("z"), o),
        outcome(lambda _: hash(names), o),
        list(names),
    ]


@case
def lists_of_messages(o: Any) -> Any:
    graph = o.GraphProto()
    first = graph.node.add(op_type="A", input=["x"])
    graph.node.add().op_type = "B"
    given = o.NodeProto(op_type="C")
    graph.node.append(given)
    given.op_type = "changed"
    graph.node.extend([o.NodeProto(op_type="D"), o.NodeProto(op_type="E")])
    graph.node.insert(1, o.NodeProto(op_type="F"))
    first.name = "first"
    seen = [len(graph.node), graph.node[0] is first, graph.node[-1].op_type, [n.op_type for n in graph.node[1:4]]]
    popped = graph.node.pop(2)
    del graph.node[0]
    first.name = "alone"
    graph.node.remove(o.NodeProto(op_type="F"))
    graph.node.sort(key=lambda node: node.op_type, reverse=True)
    seen += [popped, first, copy.deepcopy(graph)]
    graph.node.reverse()
    return [
        *seen,
        [n.op_type for n in graph.node],
        graph.node == list(graph.node),
        o.NodeProto(op_type="E") in graph.node,
    ]


@case
def lists_of_messages_refuse(o: Any) -> Any:
    nodes = o.GraphProto(node=[{"op_type": "A"}]).node
    return [
        outcome(lambda o: nodes.append(o.GraphProto()), o),
        outcome(lambda _: nodes.append({"op_type": "B"}), o),
        outcome(lambda o: nodes.extend([o.NodeProto(), 3]), o),
        outcome(lambda o: nodes.__setitem__(0, o.NodeProto()), o),
        outcome(lambda _: nodes[7], o),
        outcome(lambda _: nodes.add(foo=1), o),
        nodes[0],
    ]


@case
def an_item_taken_before_a_clear_stays(o: Any) -> Any:
    graph = o.GraphProto(node=[{"op_type": "A"}, {"op_type": "B"}])
    item = graph.node[1]
    del graph.node[:]
    item.name = "kept"
    return item, graph, len(graph.node)


@case
def changing_a_list_while_it_is_walked(o: Any) -> Any:
    node = o.NodeProto(input=["a", "b", "c"])
    seen = []
    for name in node.input:
        seen.append(name)
        if name == "a":
            del node.input[1]
    return seen


# ---------------------------------------------------------------------------------------------------------------- wire


@case
def bytes_there_and_back(o: Any) -> Any:
    wire = o.ModelProto(ir_version=3, graph={"node": [{"input": ["a", ""]}]}).SerializeToString()
    model = o.ModelProto(domain="gone")
    seen = [wire, model.ParseFromString(wire), copy.deepcopy(model), model.MergeFromString(wire), model]
    seen += [model.ByteSize(), o.ModelProto.FromString(wire), o.ModelProto().ParseFromString(b"")]
    for kind in (bytearray, memoryview):
        seen.append(o.ModelProto().ParseFromString(kind(wire)))
    return [*seen, model.SerializePartialToString(), model.SerializeToString(deterministic=True)]


@case
def unknown_fields_are_kept(o: Any) -> Any:
    wire = b"\x0a\x01a\xd8\x04\x01\xe2\x04\x02hi\xed\x04\x01\x02\x03\x04\xf1\x04\x01\x02\x03\x04\x05\x06\x07\x08"
    node = o.NodeProto.FromString(wire)
    seen = [node.SerializeToString(), node.ByteSize(), str(node), node.ListFields()]
    graph = o.GraphProto()
    graph.node.append(node)
    seen.append(graph)
    node.DiscardUnknownFields()
    return [*seen, node]


@case
def text_that_is_not_utf8_is_read_as_bytes(o: Any) -> Any:
    node = o.NodeProto.FromString(b"\x0a\x01\xff\x22\x02\xc3\xa9\x1a\x01\xff")
    return node.input[0], list(node.input), node.op_type, node.name, str(node), node


@case
def the_last_value_wins_and_messages_merge(o: Any) -> Any:
    return o.ModelProto.FromString(b"\x08\x01\x3a\x03\x12\x01a\x08\x02\x3a\x03\x52\x01b")


@case
def lists_come_packed_or_not(o: Any) -> Any:
    return o.TensorProto.FromString(b"\x08\x01\x0a\x02\x02\x03\x08\x04\x22\x04\0\0\x80\x3f\x25\0\0\0\x40")


@case
def pickles_of_old_protocols(o: Any) -> Any:
    node = o.NodeProto(op_type="A", input=["x"])
    return [pickle.loads(pickle.dumps(node, protocol)) for protocol in range(2, 5)]  # noqa: S301


@case
def initialised(o: Any) -> Any:
    return o.ModelProto().IsInitialized(), o.ModelProto().FindInitializationErrors()


# ---------------------------------------------------------------------------------------------------------------- text


@case
def the_text_of_a_tensor(o: Any) -> Any:
    return str(o.TensorProto(dims=[1, 2], raw_data=b'\0\1"abc\xff', name="a\n\"'é", float_data=[1.5, 1e20, 0.1]))


@case
def short_texts(o: Any) -> Any:
    return [
        repr(o.ModelProto()),
        repr(
            o.ModelProto(
                ir_version=3,
                domain="d",
                producer_name="p",
                producer_version="1",
                graph={"name": "g", "node": [{}], "input": [{}], "initializer": [{}, {}]},
                functions=[{"name": "f"}],
                opset_import=[{"version": 3}, {"domain": "x", "version": 1}],
            )
        ),
        repr(o.FunctionProto(name="f", domain="d", attribute=["a", "b"], node=[{}], input=["x"], overload="o")),
        repr(o.NodeProto(op_type="x")),
        repr(o.GraphProto(value_info=[{}], output=[{}])),
        repr(o.GraphProto(node=[{"op_type": "A"}]).node),
    ]


# ------------------------------------------------------------------------------------------------------------- schema


@case
def enums(o: Any) -> Any:
    data_type = o.TensorProto.DataType
    return [
        data_type.Name(1),
        data_type.Name(True),
        data_type.Value("FLOAT"),
        data_type.keys(),
        data_type.values(),
        data_type.items(),
        data_type.FLOAT16,
        o.TensorProto.INT4,
        o.TensorProto().FLOAT,
        o.AttributeProto.AttributeType.items(),
        o.AttributeProto.GRAPHS,
        o.TensorProto.EXTERNAL,
        o.Version.items(),
        o.IR_VERSION,
        o.OperatorStatus.keys(),
        o.EXPERIMENTAL,
        o.SequenceProto.DataType.items(),
    ]


@case
def numbers_of_fields(o: Any) -> Any:
    return [
        o.ModelProto.IR_VERSION_FIELD_NUMBER,
        o.TypeProto.SPARSE_TENSOR_TYPE_FIELD_NUMBER,
        o.TypeProto.Tensor.ELEM_TYPE_FIELD_NUMBER,
        o.AttributeProto.REF_ATTR_NAME_FIELD_NUMBER,
    ]


@case
def field_descriptors(o: Any) -> Any:
    names = "name full_name number type cpp_type has_presence is_repeated is_packed is_extension has_default_value"
    names += " is_required camelcase_name json_name default_value"
    seen = []
    for message in (o.NodeProto, o.AttributeProto, o.TensorProto, o.OperatorSetProto):
        for field in message.DESCRIPTOR.fields:
            seen.append([getattr(field, name) for name in names.split()])
            seen.append([field.index, field.containing_type.name, field.containing_oneof is None])
            seen.append(field.message_type and field.message_type.full_name)
            seen.append(field.enum_type and field.enum_type.full_name)
    return seen


@case
def message_descriptors(o: Any) -> Any:
    seen: list[Any] = []
    for message in (o.TensorProto, o.TensorShapeProto, o.TensorShapeProto.Dimension, o.MapProto):
        descriptor = message.DESCRIPTOR
        seen += [descriptor.name, descriptor.full_name, [field.name for field in descriptor.fields]]
        seen += [list(descriptor.fields_by_name), list(descriptor.fields_by_number), "x" in descriptor.fields_by_name]
        seen += [list(descriptor.fields_by_camelcase_name), list(descriptor.enum_values_by_name)]
        seen += [[inner.name for inner in descriptor.nested_types], list(descriptor.enum_types_by_name)]
        seen += [descriptor.containing_type and descriptor.containing_type.full_name]
        seen += [[(oneof.name, oneof.full_name, oneof.index) for oneof in descriptor.oneofs]]
        seen += [[[field.name for field in oneof.fields] for oneof in descriptor.oneofs]]
        seen += [descriptor._concrete_class is message, descriptor.is_extendable, descriptor.has_options]
    values = o.TensorProto.DataType.DESCRIPTOR
    seen += [values.name, values.full_name, values.containing_type.name, values.values[1].name, values.values[1].index]
    return [*seen, values.values_by_name["FLOAT"].number, values.values_by_number[1].name, values.values[1].type.name]


@pytest.mark.parametrize("name", CASES)
def test_both_packages_do_the_same(name: str) -> None:
    ours, theirs = outcome(CASES[name], refeed.onnx), outcome(CASES[name], onnx)
    assert ours == theirs


def test_there_are_cases() -> None:
    assert len(CASES) > 80
