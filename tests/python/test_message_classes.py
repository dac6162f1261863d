"""Message classes: what the official package has, what is our own, and threads that edit one tree."""

import copy
import inspect
import math
import threading
from typing import Any

import onnx
import pytest
import refeed
import refeed.onnx
from google.protobuf import text_format
from google.protobuf.unknown_fields import UnknownFieldSet
from graphs import official_model

# ---------------------------------------------------------------------------------------------- beside the official one


def test_every_class_of_the_official_package_is_there() -> None:
    for name in vars(onnx):
        value = getattr(onnx, name)
        if isinstance(value, type) and hasattr(value, "DESCRIPTOR"):
            assert getattr(refeed.onnx, name).DESCRIPTOR.full_name == value.DESCRIPTOR.full_name
    nested = refeed.onnx.StructTypeProto.Structure.Field
    assert nested.__qualname__ == "StructTypeProto.Structure.Field"
    assert refeed.onnx.onnx_pb.PersistentBindingProto is refeed.onnx.PersistentBindingProto


def test_each_package_reads_what_the_other_writes() -> None:
    theirs = official_model()
    ours = refeed.onnx.ModelProto.FromString(theirs.SerializeToString())
    assert ours.SerializeToString() == theirs.SerializeToString()
    assert str(ours) == str(theirs)
    again = onnx.ModelProto.FromString(ours.SerializeToString())
    assert again == theirs


def test_texts_are_read_as_protobuf_reads_them() -> None:
    theirs = official_model()
    theirs.metadata_props.add(key="é\n\x00\"'", value="\\")
    theirs.graph.node[0].attribute.add(name="f", f=0.1, floats=[1e-45, math.inf, -math.inf, 3.4e38], type=1)
    text = text_format.MessageToString(theirs)
    ours = refeed.onnx.load_model_from_string(text, "textproto")
    assert ours.SerializeToString() == theirs.SerializeToString()
    for written in ("ir_version: 0x10 graph < name: 'a' \"b\" node: [{}, {op_type: 'x'}] >; domain: 'é'", "# none"):
        expected = text_format.Parse(written, onnx.ModelProto())
        assert refeed.onnx.load_model_from_string(written, "textproto").SerializeToString() == (
            expected.SerializeToString()
        )
    with pytest.raises(refeed.DecodeError, match=r"line 2, column 1: expected a field of onnx\.ModelProto, got `foo`"):
        refeed.onnx.load_model_from_string("ir_version: 3\nfoo: 1", "textproto")


def test_unknown_fields_are_listed() -> None:
    wire = b"\xd8\x04\x01\xe2\x04\x02hi\xed\x04\x01\0\0\0\xf1\x04\2\0\0\0\0\0\0\0\xf3\x04\x08\x05\xf4\x04"
    ours = refeed.onnx.NodeProto.FromString(wire).UnknownFields()
    theirs = UnknownFieldSet(onnx.NodeProto.FromString(wire))
    for mine, its in zip(ours[:4], theirs, strict=False):
        assert (mine.field_number, mine.wire_type, mine.data) == (its.field_number, its.wire_type, its.data)
    group = ours[4]
    assert (group.field_number, group.wire_type) == (78, 3)
    assert isinstance(group.data, list)
    assert [(field.field_number, field.data) for field in group.data] == [(1, 5)]


# ------------------------------------------------------------------------------------------------------ what is our own


def test_has_and_add() -> None:
    block = refeed.onnx.PagedCacheBlockProto()
    assert not block.has_key()
    assert not block.has_start()
    key = block.add_key()
    key.name = "k"
    block.start = 0
    assert block.has_key()
    assert block.has_start()
    assert block.key is key
    assert block.add_encoded_key() == refeed.onnx.EncodedValueProto()
    assert block.WhichOneof("key_payload") == "encoded_key"
    assert not block.has_key()
    assert key.name == "k"
    cache = refeed.onnx.PagedCacheProto()
    assert not cache.has_blocks()
    cache.blocks.add()
    assert cache.has_blocks()
    assert not hasattr(cache, "add_blocks")
    assert refeed.onnx.PagedCacheProto.has_blocks(cache)
    with pytest.raises(TypeError):
        block.add_key(3)  # type: ignore[call-arg]


def test_retired_fields_are_refused() -> None:
    binding = refeed.onnx.PersistentBindingProto(input_name="in", output_name="out")
    assert binding.SerializeToString() == b"\x0a\x02in\x12\x03out"
    for name in ("input_field_path", "output_field_path", "retired_input_field_path"):
        assert not hasattr(binding, name)
        with pytest.raises((TypeError, ValueError)):
            refeed.onnx.PersistentBindingProto(**{name: b"x"})
    with pytest.raises(TypeError):
        refeed.onnx.PersistentBindingProto(input_field_path=b"x")  # type: ignore[call-arg]
    for wire in (b"\x1a\x01a", b"\x22\x00"):
        with pytest.raises(ValueError, match="whole"):
            refeed.onnx.PersistentBindingProto.FromString(wire)
        with pytest.raises(refeed.DecodeError, match="whole"):
            refeed.onnx.GraphProto.FromString(b"\xca\x3e" + bytes([len(wire)]) + wire)
    assert "retired" not in str(refeed.onnx.PersistentBindingProto.DESCRIPTOR.fields_by_name)


def test_a_failed_parse_changes_nothing() -> None:
    node = refeed.onnx.NodeProto(name="old", input=["a"])
    for parse in (node.ParseFromString, node.MergeFromString):
        with pytest.raises(refeed.DecodeError):
            parse(b"\x0a\x01b\x0a")
        assert node == refeed.onnx.NodeProto(name="old", input=["a"])


def test_text_is_parsed_as_its_utf8_bytes() -> None:
    assert refeed.onnx.NodeProto.FromString("\x0a\x01a").input == ["a"]


def test_dictionaries_that_hold_themselves_are_refused() -> None:
    fields: dict[str, Any] = {}
    fields["sequence_type"] = {"elem_type": fields}
    with pytest.raises(ValueError, match="100 deep"):
        refeed.onnx.TypeProto(**fields)


def test_classes_are_where_they_say() -> None:
    for message in (refeed.onnx.ModelProto, refeed.onnx.TypeProto.Tensor):
        scope: Any = refeed.onnx
        for part in message.__qualname__.split("."):
            scope = getattr(scope, part)
        assert scope is message
        assert message.__module__ == "refeed.onnx"


# -------------------------------------------------------------------------------------------------------------- threads


def test_threads_edit_one_tree() -> None:
    graph = refeed.onnx.GraphProto()
    failures: list[BaseException] = []

    def edit(name: str) -> None:
        try:
            for index in range(300):
                node = graph.node.add(name=name, op_type="A")
                node.input.append(str(index))
                graph.SerializeToString()
                [item.name for item in graph.node]
                if index % 10 == 0:
                    copy.deepcopy(graph)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=edit, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for name in "abc":
        assert [node.input[0] for node in graph.node if node.name == name] == [str(index) for index in range(300)]


def test_unknown_fields_have_no_text_in_either_package() -> None:
    wire = onnx.NodeProto(op_type="Add", name="n").SerializeToString() + b"\xc0\x3e\x05\xca\x3e\x03abc"
    ours, theirs = (o.NodeProto.FromString(wire) for o in (refeed.onnx, onnx))
    assert str(ours) == str(theirs) == 'name: "n"\nop_type: "Add"\n'
    assert ours.SerializeToString() == wire
    assert [(field.field_number, field.data) for field in ours.UnknownFields()] == [(1000, 5), (1001, b"abc")]


def test_classes_say_what_they_are_and_what_they_hold() -> None:
    for name in ("NodeProto", "ModelProto", "TensorProto", "TypeProto"):
        cls = getattr(refeed.onnx, name)
        text = inspect.getdoc(cls)
        assert text
        for field in cls.DESCRIPTOR.fields:
            assert f"\n{field.name} : " in text, field.name
    text = inspect.getdoc(refeed.onnx.NodeProto) or ""
    assert "input : list of str" in text
    assert "attribute : list of AttributeProto" in text
    assert "type : AttributeProto.AttributeType" in (inspect.getdoc(refeed.onnx.AttributeProto) or "")


def test_methods_of_fields_have_a_signature() -> None:
    node = refeed.onnx.NodeProto(name="n")
    assert str(inspect.signature(node.has_name)) == "()"
    assert str(inspect.signature(refeed.onnx.NodeProto.has_name)) == "(self)"
    assert getattr(node.has_name, "__text_signature__") == "()"  # noqa: B009
    assert refeed.onnx.NodeProto.has_name(node)
    assert str(inspect.signature(refeed.onnx.ModelProto().add_graph)) == "()"


def test_a_dictionary_with_one_field_twice_keeps_the_last() -> None:
    class Same(str):
        """Equal to no other text."""

        __slots__ = ()

        def __hash__(self) -> int:
            return id(self)

        def __eq__(self, other: object) -> bool:
            return self is other

    fields: Any = {Same("op_type"): "First", Same("name"): "n", "op_type": "Last"}
    model = refeed.onnx.GraphProto(node=[fields])
    assert model.SerializeToString() == onnx.GraphProto(node=[{"op_type": "Last", "name": "n"}]).SerializeToString()
