"""The two messages of caches in pages: every method of both, presence, bytes, files, and what the stubs say."""

import ast
import io
import os
import pathlib
from typing import Any

import numpy as np
import pages as p
import pytest
import refeed
from refeed import onnx
from refeed.onnx import numpy_helper

Message = Any
CLASSES = ["PagedCacheProto", "PagedCacheBlockProto"]
SUBMESSAGES = ["key", "value", "encoded_key", "encoded_value"]
FIELDS = {
    "PagedCacheProto": ["blocks", "name", "doc_string"],
    "PagedCacheBlockProto": ["start", "length", *SUBMESSAGES],
}
METHODS = [
    "ByteSize",
    "Clear",
    "ClearField",
    "CopyFrom",
    "HasField",
    "ParseFromFile",
    "ParseFromString",
    "SerializeSize",
    "SerializeToFile",
    "SerializeToFileDescriptor",
    "SerializeToOStream",
    "SerializeToOstream",
    "SerializeToString",
]


def rows(seed: int, capacity: int = 3) -> Any:
    return np.random.default_rng(seed).normal(size=(2, 1, capacity, 4)).astype(np.float32)


def filled(name: str, capacity: int = 3) -> Message:
    """A message with every field that it can have."""
    cache = onnx.PagedCacheProto(name="past", doc_string="two pages")
    for at in range(2):
        block = p.add_page(cache, 2)
        p.set_dense(block, "key", rows(at, capacity))
        p.set_codes(block, "value", np.arange(2 * capacity * 4).reshape(2, 1, capacity, 4) % 7, "INT4", 0.5)
    return cache if name == "PagedCacheProto" else cache.blocks[1]


def made(name: str) -> Message:
    return getattr(onnx, name)()


# ---- the wire


def test_the_fields_on_the_wire() -> None:
    """Rule 6.2.1; S186, S303: numbers and kinds of all fields; a 0 that is set differs from nothing."""
    block = onnx.PagedCacheBlockProto()
    assert block.SerializeToString() == b""
    block.start, block.length = 0, 3
    assert block.SerializeToString() == b"\x08\x00\x10\x03"
    for field, tag in (("key", 0x1A), ("value", 0x22), ("encoded_key", 0x2A), ("encoded_value", 0x32)):
        one = onnx.PagedCacheBlockProto()
        getattr(one, f"add_{field}")()
        assert one.SerializeToString() == bytes([tag, 0])
    cache = onnx.PagedCacheProto(blocks=[block], name="n", doc_string="d")
    assert cache.SerializeToString() == b"\x0a\x04\x08\x00\x10\x03\x12\x01n\x1a\x01d"
    for field in ("start", "length"):
        one = onnx.PagedCacheBlockProto()
        assert (getattr(one, field), getattr(one, f"has_{field}")(), one.HasField(field)) == (0, False, False)
        setattr(one, field, 0)
        assert (getattr(one, field), getattr(one, f"has_{field}")(), one.HasField(field)) == (0, True, True)
        back = onnx.PagedCacheBlockProto()
        back.ParseFromString(one.SerializeToString())
        assert getattr(back, f"has_{field}")()


# ---- both classes


def test_keywords_make_messages() -> None:
    """S290, S298."""
    key, value = (numpy_helper.from_array(rows(seed)) for seed in (1, 2))
    block = onnx.PagedCacheBlockProto(start=4, length=2, key=key, encoded_value=onnx.EncodedValueProto(name="v"))
    assert (block.start, block.length, block.key, block.encoded_value.name) == (4, 2, key, "v")
    block = onnx.PagedCacheBlockProto(encoded_key=onnx.EncodedValueProto(name="k"), value=value)
    assert (block.encoded_key.name, block.value, block.has_start()) == ("k", value, False)
    cache = onnx.PagedCacheProto(blocks=[block, block], name="past", doc_string="told")
    assert (len(cache.blocks), cache.blocks[1], cache.name, cache.doc_string) == (2, block, "past", "told")
    for name in CLASSES:
        with pytest.raises(ValueError, match="nothing"):
            getattr(onnx, name)(nothing=1)
    with pytest.raises(TypeError, match="start"):
        onnx.PagedCacheBlockProto(start="one")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CLASSES)
def test_sizes_are_those_of_the_bytes(name: str) -> None:
    """S291, S298."""
    message = filled(name, 40)
    size = len(message.SerializeToString())
    assert message.ByteSize() == size
    assert message.SerializeSize().size == size
    large = sum(len(block.key.raw_data) for block in getattr(message, "blocks", [message]))
    options = onnx.SerializeOptions(raw_data_threshold=2 * 40 * 4 * 4)
    assert (message.SerializeSize(options).size, message.SerializeSize(options).raw_data_size) == (size, large)
    assert made(name).ByteSize() == made(name).SerializeSize().size == 0


@pytest.mark.parametrize("name", CLASSES)
def test_clearing_copying_and_asking(name: str) -> None:
    """S292, S298."""
    message = filled(name)
    copy = made(name)
    copy.CopyFrom(message)
    assert copy == message
    for field in FIELDS[name]:
        was_set = getattr(copy, f"has_{field}")()
        if field != "blocks":
            assert copy.HasField(field) == was_set
        copy.ClearField(field)
        assert not getattr(copy, f"has_{field}")()
        assert getattr(message, f"has_{field}")() == was_set
    assert copy.SerializeToString() == b""
    message.Clear()
    assert message == made(name)
    for call in (message.HasField, message.ClearField):
        with pytest.raises(ValueError, match="nothing"):
            call("nothing")
        with pytest.raises((TypeError, ValueError)):
            call(3)
    with pytest.raises(TypeError, match="same class"):
        message.CopyFrom(onnx.TensorProto())
    with pytest.raises(ValueError, match="presence"):
        onnx.PagedCacheProto().HasField("blocks")


@pytest.mark.parametrize("name", CLASSES)
def test_strings_are_parsed_as_bytes_and_as_text(name: str) -> None:
    """S293, S298: both overloads, with options; text stands for its UTF-8 bytes."""
    message = filled(name)
    options = onnx.ParseOptions()
    for arguments in ((), (options,), (None,)):
        parsed = made(name)
        parsed.ParseFromString(message.SerializeToString(), *arguments)
        assert parsed == message
    ascii_only = made(name)
    if name == "PagedCacheProto":
        ascii_only.name = "past"
    else:
        ascii_only.start = 7
    for arguments in ((), (options,)):
        parsed = made(name)
        parsed.ParseFromString(ascii_only.SerializeToString().decode(), *arguments)
        assert parsed == ascii_only
    before = message.SerializeToString()
    for broken in (b"\x0a\xff", "\x0a\x7f"):
        with pytest.raises(refeed.DecodeError):
            message.ParseFromString(broken)
        assert message.SerializeToString() == before


@pytest.mark.parametrize("name", CLASSES)
def test_files_of_one_and_two_parts(name: str, tmp_path: pathlib.Path) -> None:
    """S294, S295, S298: the threshold on both sides of a payload's size; saving changes nothing in memory."""
    message = filled(name, 40)
    before = message.SerializeToString()
    assert message.SerializeToString(onnx.SerializeOptions()) == before
    assert {message.SerializeToString(deterministic=True) for _ in range(3)} == {before}
    size = 2 * 40 * 4 * 4
    one = tmp_path / "one.pb"
    message.SerializeToFile(str(one))
    assert one.read_bytes() == before
    for threshold, outside in ((size, True), (size + 1, False)):
        path, data = tmp_path / f"{threshold}.pb", tmp_path / f"{threshold}.data"
        message.SerializeToFile(str(path), onnx.SerializeOptions(raw_data_threshold=threshold), str(data))
        assert message.SerializeToString() == before
        assert (data.exists() and data.stat().st_size >= size) == outside
        assert (path.stat().st_size < len(before) - size // 2) == outside
        back = made(name)
        back.ParseFromFile(str(path), None, str(data) if outside else "")
        for block in getattr(back, "blocks", [back]):
            block.key.ClearField("data_location")  # "here", said in so many words
        assert back.SerializeToString() == before
    whole = made(name)
    whole.ParseFromFile(str(one), onnx.ParseOptions())
    assert whole == message


class Writer:
    """An object that has `write`, and nothing else."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, part: Any) -> int:
        self.parts.append(bytes(part))
        return len(part)


@pytest.mark.parametrize("name", CLASSES)
def test_descriptors_stay_open_and_writers_need_write_alone(name: str, tmp_path: pathlib.Path) -> None:
    """S296, S298."""
    message = filled(name)
    path = tmp_path / "message.pb"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    message.SerializeToFileDescriptor(descriptor)
    os.write(descriptor, b"more")
    os.close(descriptor)
    assert path.read_bytes() == message.SerializeToString() + b"more"
    for method in ("SerializeToOstream", "SerializeToOStream"):
        writer, stream = Writer(), io.BytesIO()
        getattr(message, method)(writer)
        getattr(message, method)(stream)
        assert b"".join(writer.parts) == stream.getvalue() == message.SerializeToString()


# ---- fields


def test_fields_of_a_cache() -> None:
    """S297: pages in their order; each field set and unset; the name is one of the graph's initializers'."""
    cache = onnx.PagedCacheProto()
    assert (cache.has_blocks(), cache.has_name(), cache.has_doc_string()) == (False, False, False)
    for start in (5, 1, 3):
        cache.blocks.add().start = start
    cache.name, cache.doc_string = "past", "told"
    assert (cache.has_blocks(), cache.has_name(), cache.has_doc_string()) == (True, True, True)
    assert [block.start for block in cache.blocks] == [5, 1, 3]
    again = onnx.PagedCacheProto()
    again.ParseFromString(cache.SerializeToString())
    assert [block.start for block in again.blocks] == [5, 1, 3]
    assert (again.name, again.doc_string) == ("past", "told")
    for field in FIELDS["PagedCacheProto"]:
        again.ClearField(field)
        assert not getattr(again, f"has_{field}")()


@pytest.mark.parametrize("part", ["key", "value"])
def test_one_payload_of_a_pair_clears_the_other(part: str) -> None:
    """S299, S300: both ways, by assignment of parts, by copies and by `add_`; the other pair stays."""
    other = "value" if part == "key" else "key"
    block = onnx.PagedCacheBlockProto()
    group = f"{part}_payload"
    assert block.WhichOneof(group) is None
    getattr(block, other).name = "stays"
    ways: list[Any] = [
        lambda field: getattr(block, f"add_{field}")(),
        lambda field: setattr(getattr(block, field), "name", "x"),
        lambda field: getattr(block, field).CopyFrom(type(getattr(block, field))(name="y")),
    ]
    for way in ways:
        for field, cleared in ((part, f"encoded_{part}"), (f"encoded_{part}", part), (part, f"encoded_{part}")):
            way(field)
            assert block.WhichOneof(group) == field
            assert getattr(block, f"has_{field}")()
            assert not getattr(block, f"has_{cleared}")()
            assert block.WhichOneof(f"{other}_payload") == other
    with pytest.raises(ValueError, match="payload"):
        block.WhichOneof("payload")


@pytest.mark.parametrize("field", SUBMESSAGES)
def test_submessages_are_reached_by_reference(field: str) -> None:
    """S301, S302: `add_` sets an empty message and gives it; what is read is a part of the block."""
    block = onnx.PagedCacheBlockProto()
    added = getattr(block, f"add_{field}")()
    assert isinstance(added, onnx.EncodedValueProto if "encoded" in field else onnx.TensorProto)
    assert added.SerializeToString() == b""
    assert getattr(block, f"has_{field}")()
    added.name = "by reference"
    assert getattr(block, field).name == "by reference"
    getattr(block, field).doc_string = "again"
    assert added.doc_string == "again"
    # Adding again sets an empty one.
    assert getattr(block, f"add_{field}")().SerializeToString() == b""
    block.ClearField(field)
    assert not getattr(block, f"has_{field}")()


def test_numbers_of_a_block() -> None:
    """S302, S303."""
    block = onnx.PagedCacheBlockProto()
    for number in (0, 1, -1, 2**63 - 1, -(2**63)):
        block.start, block.length = number, number
        assert (block.start, block.length, block.has_start(), block.has_length()) == (number, number, True, True)
        back = onnx.PagedCacheBlockProto()
        back.ParseFromString(block.SerializeToString())
        assert back == block
    with pytest.raises((ValueError, OverflowError)):
        block.start = 2**63


@pytest.mark.parametrize("name", CLASSES)
def test_members_are_documented_in_the_stub(name: str) -> None:
    """S305."""
    stub = pathlib.Path(refeed.__file__).parent / "onnx" / "messages.pyi"
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    told: dict[str, str] = {}
    for owner in ("Message", name):
        assert ast.get_docstring(classes[owner])
        for node in classes[owner].body:
            if isinstance(node, ast.FunctionDef):
                told[node.name] = ast.get_docstring(node) or told.get(node.name, "")
    members = [*FIELDS[name], *METHODS, *(f"has_{field}" for field in FIELDS[name])]
    if name == "PagedCacheBlockProto":
        members += ["WhichOneof", *(f"add_{field}" for field in SUBMESSAGES)]
    for member in members:
        assert hasattr(getattr(onnx, name), member), member
        assert told.get(member), f"{member} is not described"
    for field in FIELDS[name]:
        assert told[field] == getattr(getattr(onnx, name), field).__doc__
