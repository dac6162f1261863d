"""What the seeds' documents name of paged caches: every member, and the steps of their examples up to the session."""

import io
import os
import pathlib
from typing import Any

import numpy as np
import pytest
import refeed
from refeed import onnx
from refeed.onnx import helper, numpy_helper, parser, verify

MEMBERS = {
    "PagedCacheProto": ["blocks", "doc_string", "name"],
    "PagedCacheBlockProto": ["encoded_key", "encoded_value", "key", "length", "start", "value"],
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
SUBMESSAGES = ["encoded_key", "encoded_value", "key", "value"]


def page(start: int, length: int, *, rows: int = 3, seed: int = 0) -> Any:
    """One dense page of `[batch 1, heads 1, rows, width 4]`."""
    block = onnx.PagedCacheBlockProto(start=start, length=length)
    keys = np.random.default_rng(seed).standard_normal((1, 1, rows, 4)).astype(np.float32)
    block.key.CopyFrom(numpy_helper.from_array(keys))
    block.value.CopyFrom(numpy_helper.from_array(-keys))
    return block


def cache(rows: int = 3) -> Any:
    """Two pages, five tokens, the second page with an unused row."""
    pages = [page(0, 3, rows=rows), page(3, 2, rows=rows, seed=1)]
    return onnx.PagedCacheProto(name="past", doc_string="two pages", blocks=pages)


@pytest.mark.parametrize("name", MEMBERS)
def test_every_member_of_the_paged_cache_classes(name: str) -> None:
    """S243, S297, S298, S302."""
    kind = getattr(onnx, name)
    message = kind()
    for method in METHODS:
        assert callable(getattr(message, method)), method
    for field in MEMBERS[name]:
        assert isinstance(getattr(kind, field).__doc__, str), field
        assert getattr(message, f"has_{field}")() is False, field
    fields = [field.name for field in kind.DESCRIPTOR.fields]
    assert sorted(fields) == sorted(MEMBERS[name])


def test_has_and_add_of_a_block() -> None:
    """S299, S300, S301, S302."""
    for field in SUBMESSAGES:
        block = onnx.PagedCacheBlockProto()
        child = getattr(block, f"add_{field}")()
        assert getattr(block, f"has_{field}")() is True
        assert child.SerializeToString() == b""
        assert block.WhichOneof("key_payload" if "key" in field else "value_payload") == field
    block = page(0, 3)
    assert block.has_key()
    block.add_encoded_key()
    assert not block.has_key()
    assert block.HasField("encoded_key")


def test_start_and_length_are_present_when_set_to_zero() -> None:
    """S303."""
    block = onnx.PagedCacheBlockProto()
    assert not block.has_start()
    block.start = 0
    assert block.has_start()
    assert block.SerializeToString() == b"\x08\x00"


def test_a_cache_survives_every_way_of_writing(tmp_path: pathlib.Path) -> None:
    """S291, S292, S293, S294, S296."""
    original = cache()
    wire = original.SerializeToString()
    size = original.SerializeSize()
    assert original.ByteSize() == len(wire)
    assert str(len(wire)) in repr(size)

    path = str(tmp_path / "cache.pb")
    original.SerializeToFile(path)
    from_file = onnx.PagedCacheProto()
    from_file.ParseFromFile(path)
    assert from_file == original

    with open(tmp_path / "descriptor.pb", "wb") as file:
        original.SerializeToFileDescriptor(file.fileno())
        os.fstat(file.fileno())
    assert (tmp_path / "descriptor.pb").read_bytes() == wire

    for write in (original.SerializeToOstream, original.SerializeToOStream):
        stream = io.BytesIO()
        write(stream)
        assert stream.getvalue() == wire

    parsed = onnx.PagedCacheProto()
    parsed.ParseFromString(wire)
    assert parsed == original
    parsed.Clear()
    assert parsed.SerializeToString() == b""
    parsed.CopyFrom(original)
    parsed.ClearField("doc_string")
    assert not parsed.has_doc_string()
    assert original.has_doc_string()


def test_payloads_of_a_cache_go_to_a_second_file_and_come_back(tmp_path: pathlib.Path) -> None:
    """S294, S295."""
    original = cache(rows=70)
    before = original.SerializeToString()
    options = onnx.SerializeOptions()
    options.raw_data_threshold = 16
    path, data = str(tmp_path / "cache.pb"), str(tmp_path / "cache.data")
    original.SerializeToFile(path, options, data)
    assert original.SerializeToString() == before
    assert os.path.getsize(data) >= 4 * 3 * 4 * 4
    assert os.path.getsize(path) < len(before)
    back = onnx.PagedCacheProto()
    back.ParseFromFile(path, None, data)
    for block, expected in zip(back.blocks, original.blocks, strict=True):
        np.testing.assert_array_equal(numpy_helper.to_array(block.key), numpy_helper.to_array(expected.key))


def test_a_quantising_graph_is_built_and_verified() -> None:
    """S276, S277."""
    cache_type = onnx.TypeProto(struct_type=onnx.StructTypeProto())
    assert cache_type.WhichOneof("value") == "struct_type"
    inputs = ["past", "indices", "key_scale", "key_zero", "value_scale", "value_zero"]
    graph = helper.make_graph(
        [helper.make_node("QuantizePagedCache", inputs, ["present"], domain="ai.rt")],
        "quantise",
        [
            helper.make_value_info("past", cache_type),
            helper.make_tensor_value_info("indices", onnx.TensorProto.INT64, ["pages"]),
        ],
        [helper.make_value_info("present", cache_type)],
        [
            helper.make_tensor("key_scale", onnx.TensorProto.FLOAT, [], [0.2]),
            helper.make_tensor("key_zero", onnx.TensorProto.INT4, [], [0]),
            helper.make_tensor("value_scale", onnx.TensorProto.FLOAT, [], [0.1]),
            helper.make_tensor("value_zero", onnx.TensorProto.UINT4, [], [8]),
        ],
    )
    graph.paged_cache_initializer.append(cache())
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("ai.rt", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    verify.verify_model(model)

    model.graph.paged_cache_initializer[0].blocks[1].start = 4
    with pytest.raises(ValueError, match="start"):
        verify.verify_model(model)


def test_a_parsed_model_gets_a_binding_and_keeps_its_state() -> None:
    """S055."""
    model = parser.parse_model(
        """
        <ir_version: 10, opset_import: ["" : 23]>
        sum (float[3] step, float[3] past) => (float[3] present) { present = Add(step, past) }
        """
    )
    binding = model.graph.persistent_bindings.add()
    binding.input_name, binding.output_name = "past", "present"
    assert binding.SerializeToString() == b"\x0a\x04past\x12\x07present"
    verify.verify_model(model)

    state = refeed.PersistentValueState(model, {"past": np.zeros(3, np.float32)})
    step = np.array([1, 2, 3], np.float32)
    for _ in range(4):
        present = state.run({"step": step})["present"]
    np.testing.assert_array_equal(np.from_dlpack(present), 4 * step)

    binding.output_name = "nothing"
    with pytest.raises(ValueError, match=r"exact.*output"):
        verify.verify_model(model)
    np.testing.assert_array_equal(np.from_dlpack(state.run({"step": step})["present"]), 5 * step)
