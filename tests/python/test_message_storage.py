"""Payloads, pickles and files of messages: where bytes lie, and what is written."""

import io
import os
import pathlib
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import pytest
import refeed
import refeed.onnx
from graphs import official_model

# -------------------------------------------------------------------------------------------------------------- sharing


def address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0])


def test_bytes_are_kept_where_they_are() -> None:
    content = bytes(range(256)) * 40
    tensor = refeed.onnx.TensorProto(raw_data=content)
    assert tensor.raw_data is content
    view = tensor.raw_data_view()
    assert view.readonly
    assert view == content
    assert address(view) == address(memoryview(content))
    other = refeed.onnx.TensorProto()
    other.CopyFrom(tensor)
    assert other.raw_data is content
    with pytest.raises(TypeError):
        view[0] = 1
    assert bytes(refeed.onnx.TensorProto().raw_data_view()) == b""
    assert bytes(refeed.onnx.AttributeProto(s=b"abc").s_view()) == b"abc"


def test_parsed_payloads_are_parts_of_the_bytes() -> None:
    wire = refeed.onnx.TensorProto(raw_data=b"x" * 5000, name="w").SerializeToString()
    tensor = refeed.onnx.TensorProto.FromString(wire)
    start = address(memoryview(wire))
    assert start < address(tensor.raw_data_view()) < start + len(wire)
    view = tensor.raw_data_view()
    del tensor, wire
    assert view == b"x" * 5000
    changing = bytearray(refeed.onnx.TensorProto(raw_data=b"abc").SerializeToString())
    tensor = refeed.onnx.TensorProto.FromString(changing)
    changing[-1] = 0
    assert tensor.raw_data == b"abc"


def test_a_payload_has_one_address_from_message_to_session() -> None:
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    content = weights.tobytes()
    model = refeed.onnx.ModelProto.FromString(official_model().SerializeToString())
    model.graph.initializer[0].raw_data = content
    bound = refeed.Model.from_proto(model)
    message = bound.to_proto()
    start = address(memoryview(content))
    assert address(model.graph.initializer[0].raw_data_view()) == start
    assert address(message.graph.initializer[0].raw_data_view()) == start
    # A session that had moved a payload would have counted it.
    del model.graph.node[1], model.graph.node[0].attribute[:]
    runnable = refeed.load(model)
    refeed.RuntimeSession(runnable).run({"x": np.ones((2, 3), np.float32)})
    assert runnable.moved_payloads == 0
    array = refeed.onnx.numpy_helper.to_array(model.graph.initializer[0], copy=False)
    assert array.__array_interface__["data"][0] == start
    np.testing.assert_array_equal(array, weights)


def test_an_unchanged_message_is_bound_once() -> None:
    model = refeed.onnx.ModelProto.FromString(official_model().SerializeToString())
    first = refeed.load(model)
    graph = model.graph
    name = graph.name
    graph.name = "other"
    second = refeed.load(model)
    graph.name = name
    assert first.to_proto().graph.name == name
    assert second.to_proto().graph.name == "other"
    with pytest.raises(TypeError, match="GraphProto"):
        refeed.load(model.graph)  # type: ignore[arg-type]


def test_later_edits_do_not_reach_a_session() -> None:
    model = refeed.onnx.ModelProto.FromString(official_model().SerializeToString())
    del model.graph.node[1]
    del model.graph.node[0].attribute[:]
    session = refeed.RuntimeSession(model)
    x = np.ones((1, 3), np.float32)
    before = session.run({"x": x})["y"].numpy().copy()
    model.graph.node[0].op_type = "Mul"
    model.graph.initializer[0].raw_data = bytes(24)
    model.graph.node.add(op_type="NoSuchOperator", output=["z"])
    np.testing.assert_array_equal(session.run({"x": x})["y"].numpy(), before)
    np.testing.assert_array_equal(before, 1 + np.arange(6, dtype=np.float32).reshape(2, 3))


# --------------------------------------------------------------------------------------------------------------- pickle


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles(protocol: int) -> None:
    model = refeed.onnx.ModelProto.FromString(official_model().SerializeToString() + b"\xd8\x3e\x01")
    model.graph.initializer[0].raw_data = b"x" * 5000
    model.graph.sparse_initializer.add().values.raw_data = b"y" * 6000
    for message in (model, model.graph.node[1].attribute[0].t, refeed.onnx.TypeProto.Tensor(elem_type=3)):
        again = pickle.loads(pickle.dumps(message, protocol))  # noqa: S301
        assert again == message
        assert type(again) is type(message)


def test_large_payloads_travel_beside_a_pickle() -> None:
    content, small = b"x" * 5000, b"y" * 100
    graph = refeed.onnx.GraphProto(initializer=[{"raw_data": small}, {"raw_data": content}, {"raw_data": b""}])
    buffers: list[pickle.PickleBuffer] = []
    structure = pickle.dumps(graph, 5, buffer_callback=buffers.append)
    assert len(structure) < 1000
    assert [address(buffer.raw()) for buffer in buffers] == [address(memoryview(content))]
    again = pickle.loads(structure, buffers=buffers)  # noqa: S301
    assert again == graph
    assert address(again.initializer[1].raw_data_view()) == address(memoryview(content))
    # Memory that somebody can still write to is copied.
    received = bytearray(content)
    again = pickle.loads(structure, buffers=[received])  # noqa: S301
    received[:] = bytes(5000)
    assert again == graph
    with pytest.raises(ValueError, match="expected 1 buffers"):
        refeed.onnx.GraphProto._join(graph.SerializeToString(), [1], [])  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------------------------------------------- files


def test_files(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    model = refeed.onnx.ModelProto.FromString(official_model().SerializeToString())
    model.SerializeToFile(path)
    assert path.read_bytes() == model.SerializeToString()
    again = refeed.onnx.ModelProto(domain="gone")
    again.ParseFromFile(str(path), options=refeed.onnx.ParseOptions(mmap=False))
    assert again == model
    for write in (model.SerializeToOstream, model.SerializeToOStream):
        stream = io.BytesIO()
        write(stream)
        assert stream.getvalue() == model.SerializeToString()
    fd = os.open(tmp_path / "fd", os.O_WRONLY | os.O_CREAT)
    model.SerializeToFileDescriptor(fd)
    os.write(fd, b"open")
    os.close(fd)
    assert (tmp_path / "fd").read_bytes() == model.SerializeToString() + b"open"
    with pytest.raises(OSError, match="descriptor"):
        model.SerializeToFileDescriptor(fd)
    with pytest.raises(FileNotFoundError):
        again.ParseFromFile(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        model.SerializeToFile(tmp_path / "none" / "m.onnx")
    (tmp_path / "broken").write_bytes(b"\x0a")
    with pytest.raises(refeed.DecodeError, match="broken"):
        again.ParseFromFile(tmp_path / "broken")
    assert again == model
    assert sorted(each.name for each in tmp_path.iterdir()) == ["broken", "fd", "m.onnx"]


def test_a_stream_that_takes_little_at_a_time() -> None:
    class Slow(io.RawIOBase):
        taken = b""

        def write(self, content: Any, /) -> int:
            part = bytes(content)[:3]
            self.taken += part
            return len(part)

    stream = Slow()
    model = refeed.onnx.ModelProto(producer_name="p" * 20)
    model.SerializeToOstream(stream)
    assert stream.taken == model.SerializeToString()


def test_external_data(tmp_path: pathlib.Path) -> None:
    path, data = tmp_path / "m.onnx", tmp_path / "w.data"
    model = refeed.onnx.ModelProto.FromString(official_model().SerializeToString())
    before = model.SerializeToString()
    options = refeed.onnx.SerializeOptions(raw_data_threshold=16)
    model.SerializeToFile(path, options, external_data_file=data)
    assert model.SerializeToString() == before
    assert data.read_bytes() == model.graph.initializer[0].raw_data
    # Official `onnx` reads both files.
    official = onnx.load(path)
    np.testing.assert_array_equal(
        onnx.numpy_helper.to_array(official.graph.initializer[0]), np.arange(6, dtype=np.float32).reshape(2, 3)
    )
    split = refeed.onnx.ModelProto()
    split.ParseFromFile(path)
    assert split.graph.initializer[0].data_location == refeed.onnx.TensorProto.EXTERNAL
    assert not split.graph.initializer[0].has_raw_data()
    whole = refeed.onnx.ModelProto()
    whole.ParseFromFile(path, external_data_file=data)
    assert whole.graph.initializer[0].raw_data == data.read_bytes()
    with pytest.raises(ValueError, match=r"w\.data"):
        whole.ParseFromFile(path, external_data_file="other.data")
    with pytest.raises(ValueError, match="folder"):
        model.SerializeToFile(path, options, external_data_file="/elsewhere/w.data")
    assert refeed.onnx.load(path) == whole
    np.testing.assert_array_equal(refeed.load(path).to_proto().graph.name, "g")


def test_options() -> None:
    model = refeed.onnx.ModelProto.FromString(official_model().SerializeToString())
    options = refeed.onnx.SerializeOptions(raw_data_threshold=24, skip_raw_data=True)
    bare = refeed.onnx.ModelProto.FromString(model.SerializeToString(options))
    assert not bare.graph.initializer[0].has_raw_data()
    assert bare.graph.node == model.graph.node
    size = model.SerializeSize(refeed.onnx.SerializeOptions(raw_data_threshold=24))
    assert (size.size, size.raw_data_size, int(size)) == (model.ByteSize(), 24, model.ByteSize())
    assert model.SerializeSize(options).size == bare.ByteSize()
    parse = refeed.onnx.ParseOptions(skip_raw_data=True, raw_data_threshold=25)
    again = refeed.onnx.ModelProto()
    again.ParseFromString(model.SerializeToString(), parse)
    assert again == model
    parse.raw_data_threshold = 24
    again.ParseFromString(model.SerializeToString(), parse)
    assert again == bare
    with pytest.raises(refeed.DecodeError, match="structure"):
        again.ParseFromString(model.SerializeToString(), refeed.onnx.ParseOptions(structure_bytes=10))
    with pytest.raises(TypeError, match="SerializeOptions"):
        model.SerializeToString(parse)  # type: ignore[arg-type]


@pytest.mark.parametrize("extension", [".onnx", ".pb", ".textproto", ".onnxtxt", ".unknown"])
def test_load_and_save(tmp_path: pathlib.Path, extension: str) -> None:
    path = tmp_path / f"m{extension}"
    model = refeed.onnx.ModelProto.FromString(official_model().SerializeToString())
    del model.graph.node[1]
    refeed.onnx.save(model, path)
    again = refeed.onnx.load(path)
    if extension != ".onnxtxt":
        assert again == model
    if extension != ".onnxtxt":
        with path.open("rb") as file:
            assert refeed.onnx.load(file) == model
        assert onnx.load(path).SerializeToString() == model.SerializeToString()
        onnx.save(official_model(), path)
        assert refeed.onnx.load(path).SerializeToString() == official_model().SerializeToString()
    assert [node.op_type for node in again.graph.node] == ["Add"]


def test_load_and_save_refuse(tmp_path: pathlib.Path) -> None:
    model = refeed.onnx.ModelProto(ir_version=3)
    with pytest.raises(ValueError, match="json"):
        refeed.onnx.save(model, tmp_path / "m.json")
    with pytest.raises(ValueError, match="'foo'"):
        refeed.onnx.save(model, tmp_path / "m.onnx", format="foo")
    with pytest.raises(TypeError, match="bytes"):
        refeed.onnx.load_from_string("text")
    with pytest.raises(refeed.DecodeError):
        refeed.onnx.load_from_string(b"\xff")
    with pytest.raises(FileNotFoundError):
        refeed.onnx.load(tmp_path / "none.onnx")
    with pytest.raises(ValueError, match="open one"):
        refeed.onnx.save(model, io.BytesIO(), save_as_external_data=True)
    with pytest.raises(ValueError, match="relative"):
        refeed.onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="/w.data")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("one_file", [True, False])
@pytest.mark.parametrize("attributes", [True, False])
def test_save_with_external_data(tmp_path: pathlib.Path, one_file: bool, attributes: bool) -> None:
    path = tmp_path / "m.onnx"
    model = refeed.onnx.ModelProto.FromString(official_model().SerializeToString())
    constant = model.graph.node[1].attribute[0].t
    constant.ClearField("int64_data")
    constant.raw_data = np.array([1, -2]).tobytes()
    before = model.SerializeToString()
    refeed.onnx.save(
        model,
        path,
        save_as_external_data=True,
        all_tensors_to_one_file=one_file,
        size_threshold=1,
        convert_attribute=attributes,
    )
    assert model.SerializeToString() == before
    expected = ["m.onnx", "m.onnx.data"] if one_file else ["m.onnx", *(["t"] if attributes else []), "w"]
    assert sorted(each.name for each in tmp_path.iterdir()) == expected
    for package in (onnx, refeed.onnx):
        again: Any = package.load(path)
        assert again.graph.initializer[0].raw_data == model.graph.initializer[0].raw_data
        assert again.graph.node[1].attribute[0].t.raw_data == constant.raw_data


def test_a_message_over_2_gib_says_what_to_do(tmp_path: pathlib.Path) -> None:
    # One mebibyte, shared by 2100 tensors: the message takes as much as they do together, memory takes it once.
    content = bytes(1 << 20)
    model = refeed.onnx.ModelProto(ir_version=10)
    for index in range(2100):
        tensor = model.graph.initializer.add(name=f"t{index}", data_type=2, raw_data=content)
        tensor.dims.append(len(content))
    assert model.ByteSize() > 2**31
    with pytest.raises(refeed.EncodeError, match="external data"):
        model.SerializeToString()
    with pytest.raises(refeed.EncodeError, match="external data"):
        model.SerializeToFile(tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
    model.SerializeToFile(tmp_path / "m.onnx", external_data_file=tmp_path / "m.data")
    assert (tmp_path / "m.data").stat().st_size == len(content)
    assert model.graph.initializer[2099].raw_data is content
    again = refeed.onnx.load(tmp_path / "m.onnx")
    assert len(again.graph.initializer) == 2100
    assert again.graph.initializer[7].raw_data == content


def test_a_file_over_2_gib_is_read(tmp_path: pathlib.Path) -> None:
    # A tensor of name "w" and more raw_data than a message may be written with; the file has a hole where the data is.
    size = 2**31 + 4096
    length = bytes([0x80, 0xA0, 0x80, 0x80, 0x08])
    path = tmp_path / "large.pb"
    path.write_bytes(b"\x42\x01w\x4a" + length)
    os.truncate(path, 9 + size)
    tensor = refeed.onnx.TensorProto()
    tensor.ParseFromFile(path)
    assert (tensor.name, tensor.raw_data_view().nbytes) == ("w", size)
    assert tensor.ByteSize() == 9 + size
    with pytest.raises(refeed.EncodeError, match="external data"):
        tensor.SerializeToString()


def test_tensors_marked_for_a_file_are_written_by_save(tmp_path: pathlib.Path) -> None:
    model = refeed.onnx.ModelProto.FromString(official_model().SerializeToString())
    before = model.graph.initializer[0].raw_data
    refeed.onnx.convert_model_to_external_data(model, True, "w.data", size_threshold=0)
    refeed.onnx.save(model, tmp_path / "m.onnx")
    assert model.graph.initializer[0].raw_data == before
    assert (tmp_path / "w.data").stat().st_size >= len(before)
    for package in (onnx, refeed.onnx):
        assert package.load(str(tmp_path / "m.onnx")).graph.initializer[0].raw_data == before


def test_official_tensors_become_arrays() -> None:
    tensor = official_model().graph.initializer[0]
    expected = onnx.numpy_helper.to_array(tensor)
    np.testing.assert_array_equal(refeed.onnx.numpy_helper.to_array(tensor), expected)


def test_official_models_are_saved(tmp_path: pathlib.Path) -> None:
    refeed.onnx.save(official_model(), tmp_path / "m.onnx")
    assert onnx.load(tmp_path / "m.onnx") == official_model()
    with pytest.raises(TypeError, match=r"expected an onnx\.ModelProto or its bytes, got str"):
        refeed.onnx.save("m", tmp_path / "n.onnx")  # type: ignore[arg-type]


def test_importing_the_package_brings_its_modules() -> None:
    script = (
        "from refeed import onnx; print(onnx.checker, onnx.shape_inference, onnx.compose, onnx.utils, onnx.builder)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0  # noqa: S603


def test_a_model_is_written_over_the_open_file_that_it_came_from(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    refeed.onnx.save(refeed.onnx.ModelProto(graph={"initializer": [{"raw_data": b"x" * 5000}]}), path)
    model = refeed.onnx.load(path)
    with open(path, "wb") as file:
        file.write(model.SerializeToString())
    assert refeed.onnx.load(path) == model
    with open(path, "wb") as file:
        refeed.onnx.save(model, file)
    assert refeed.onnx.load(path).graph.initializer[0].raw_data == b"x" * 5000


def test_a_data_file_never_takes_the_name_of_the_model(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    tensor = {"name": "m.onnx", "data_type": 1, "dims": [1], "raw_data": b"AAAA"}
    long = {"name": "n" * 400, "data_type": 1, "dims": [1], "raw_data": b"BBBB"}
    model = refeed.onnx.ModelProto(graph={"initializer": [tensor, long]})
    with pytest.raises(ValueError, match="expected another name"):
        refeed.onnx.save(model, path, save_as_external_data=True, location="m.onnx", size_threshold=0)
    assert not path.exists()
    refeed.onnx.save(model, path, save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=0)
    assert [held.raw_data for held in refeed.onnx.load(path).graph.initializer] == [b"AAAA", b"BBBB"]


def test_a_replaced_file_keeps_its_mode(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    refeed.onnx.save(official_model(), path)
    path.chmod(0o600)
    refeed.onnx.save(official_model(), path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_list_that_was_asked_for_last_is_kept() -> None:
    node = refeed.onnx.NodeProto(input=["a"], output=["b"])
    first = node.input
    assert node.input is first
    references = sys.getrefcount(first)
    other = node.output
    assert sys.getrefcount(first) == references - 1, "the list of another field takes its place"
    assert node.output is other
    assert node.input is not first
    assert list(node.input) == list(first)
    node.ClearField("output")
    assert list(other) == []
    other.append("c")
    assert list(node.output) == ["c"]
    # It lives longer than the object of its message, which is not kept by it.
    kept = refeed.onnx.GraphProto(name="g").node
    assert sys.getrefcount(kept) == 2
    assert kept.add(op_type="Add").op_type == "Add"
