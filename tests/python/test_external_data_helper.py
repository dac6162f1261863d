"""`refeed.onnx.external_data_helper` against `onnx.external_data_helper`."""

import os
import pathlib
import re
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import refeed
import refeed.onnx
from differential import Call, refused, same
from refeed.onnx import TensorProto, external_data_helper

KEYS = [
    {}, {"location": "a"}, {"location": "a", "offset": "3", "length": "8", "checksum": "c", "basepath": "b"},
    {"location": "a", "offset": "x"}, {"location": "a", "offset": "-1"}, {"location": "a", "length": "-1"},
    {"location": "a", "offset": "1.5"}, {"location": "a", "offset": ""}, {"location": "a", "offset": " 3 "},
    {"location": "a", "length": "9" * 30}, {"location": "a", "bogus": "b", "other": "c"},
]  # fmt: skip


def external(o: Any, **entries: str) -> Any:
    return o.TensorProto(
        name="w",
        data_type=1,
        dims=[2],
        data_location=o.TensorProto.EXTERNAL,
        external_data=[o.StringStringEntryProto(key=key, value=value) for key, value in entries.items()],
    )


def inline(o: Any, **fields: Any) -> Any:
    return o.TensorProto(**{"name": "w", "data_type": 1, "dims": [2], "raw_data": b"12345678", **fields})


@pytest.mark.parametrize("entries", KEYS)
def test_what_a_tensor_says_of_its_file(entries: dict[str, str]) -> None:
    same(lambda o: vars(o.external_data_helper.ExternalDataInfo(external(o, **entries))))
    same(lambda o: o.external_data_helper.uses_external_data(external(o, **entries)))


def test_unknown_keys_are_warned_of() -> None:
    tensor = external(refeed.onnx, location="a", **{f"key{i}": "v" * 10 for i in range(14)})
    with pytest.warns(UserWarning, match="'key0'.*'key9' and 4 more"):
        external_data_helper.ExternalDataInfo(tensor)


def test_the_last_of_two_values_counts() -> None:
    def info(o: Any) -> Any:
        pairs = [("offset", "1"), ("location", "a"), ("offset", "2"), ("location", "b")]
        entries = [o.StringStringEntryProto(key=key, value=value) for key, value in pairs]
        return vars(o.external_data_helper.ExternalDataInfo(o.TensorProto(external_data=entries)))

    assert same(info)["offset"] == 2


def changed(function: str, make: Call, *arguments: Any, **keywords: Any) -> Call:
    """What a function makes of a tensor."""

    def call(o: Any) -> Any:
        tensor = make(o)
        return getattr(o.external_data_helper, function)(tensor, *arguments, **keywords), tensor

    return call


@pytest.mark.parametrize(
    "call",
    [
        *(
            changed("set_external_data", inline, *arguments)
            for arguments in [
                ("file",), ("file", 3, 8, "c", "b"), ("file", 0, 0, "", ""), ("",), (None,), ("file", -1),
                ("file", "5"), (pathlib.Path("file"),), ("file", 1.5), ("file", "x"), (),
            ]
        ),
        changed("set_external_data", lambda o: o.TensorProto(), "file"),
        changed("set_external_data", lambda o: external(o, location="old", bogus="1"), "file"),
        changed("set_external_data", lambda o: o.TensorProto(data_type=8, string_data=[b"a"]), "file"),
        changed("set_external_data", lambda o: inline(o, raw_data=b""), "file"),
        changed("remove_external_data_field", lambda o: external(o, location="a", offset="1"), "offset"),
        changed("remove_external_data_field", lambda o: external(o, location="a"), "offset"),
        changed("remove_external_data_field", lambda o: o.TensorProto(), "offset"),
        lambda o: o.external_data_helper.set_external_data(3, "file"),
        lambda o: o.external_data_helper.uses_external_data(o.TensorProto()),
        lambda o: o.external_data_helper.uses_external_data(o.TensorProto(data_location=o.TensorProto.DEFAULT)),
        lambda o: o.external_data_helper.uses_external_data(3),
        lambda o: o.external_data_helper.ExternalDataInfo(3),
    ],
)  # fmt: skip
def test_saying_where_elements_are(call: Call) -> None:
    same(call)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A model's folder, with a file of 32 bytes and what a location must not reach."""
    (tmp_path / "outside").write_bytes(b"secret")
    model = tmp_path / "model"
    (model / "sub").mkdir(parents=True)
    (model / "a").write_bytes(bytes(range(32)))
    (model / "sub" / "b").write_bytes(b"x" * 8)
    (model / "link").symlink_to(model / "a")
    (model / "folder").symlink_to(tmp_path)
    (model / "hard").hardlink_to(tmp_path / "outside")
    os.mkfifo(model / "pipe")
    return model


@pytest.mark.parametrize(
    "entries",
    [
        {"location": "a"}, {"location": "a", "offset": "8"}, {"location": "a", "offset": "8", "length": "8"},
        {"location": "a", "length": "0"}, {"location": "a", "offset": "32"}, {"location": "a", "offset": "33"},
        {"location": "a", "offset": "30", "length": "8"}, {"location": "a", "length": "100"},
        {"location": "a", "length": "9" * 30}, {"location": "a", "offset": "9" * 30}, {"location": "a", "offset": "x"},
        {"location": "a", "length": "-1"}, {"location": "sub/b"}, {"location": "./a"},
        {"location": "a", "checksum": "z"},
        {"location": "missing"}, {"location": ""}, {}, {"location": "../outside"}, {"location": "sub/../../outside"},
        {"location": "/etc/passwd"}, {"location": "link"}, {"location": "folder/outside"}, {"location": "hard"},
        {"location": "sub"}, {"location": "."}, {"location": "a/"}, {"location": "~/a"},
        {"location": "missing/a"}, {"location": "a/b"},
    ],
)  # fmt: skip
def test_loading_one_tensor(folder: pathlib.Path, entries: dict[str, str]) -> None:
    same(changed("load_external_data_for_tensor", lambda o: external(o, **entries), str(folder)))
    same(lambda o: o.numpy_helper.to_array(external(o, **entries), str(folder)))


def test_loading_never_leaves_the_folder(folder: pathlib.Path) -> None:
    """What the official package refuses otherwise, or takes."""
    for location in ["pipe", "C:\\a", "sub\\b", "\\\\server\\a", "sub/../a", "sub//b", "a\0b", "x" * 5000]:
        start = time.perf_counter()
        with pytest.raises(refeed.ModelError, match=r"location|external data"):
            external_data_helper.load_external_data_for_tensor(external(refeed.onnx, location=location), str(folder))
        assert time.perf_counter() - start < 1


def test_a_location_is_judged_by_the_rules_of_the_loader(folder: pathlib.Path) -> None:
    for location, why in [("/a", "is absolute"), ("sub/../a", "has a `..` part"), ("sub//b", "has an empty part")]:
        with pytest.raises(refeed.ModelError, match=re.escape(f"the location {location!r} of its external data {why}")):
            external_data_helper.load_external_data_for_tensor(external(refeed.onnx, location=location), str(folder))
    wire = external(refeed.onnx, location="qq").SerializeToString()
    broken = refeed.onnx.TensorProto.FromString(wire.replace(b"qq", b"\xff\xfe"))
    with pytest.raises(refeed.ModelError, match=r"the location b'\\xff\\xfe' of its external data is not UTF-8"):
        external_data_helper.load_external_data_for_tensor(broken, str(folder))


def test_loading_from_the_working_directory(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    same(changed("load_external_data_for_tensor", lambda o: external(o, location="a", length="8"), ""))
    tensor = external(refeed.onnx, location="a", length="8")
    external_data_helper.load_external_data_for_tensor(tensor, folder)  # type: ignore[arg-type]
    assert tensor.raw_data == bytes(range(8))
    refused(changed("load_external_data_for_tensor", lambda o: external(o, location="a"), str(folder / "missing")))


def test_a_failed_load_leaves_the_tensor_as_it_was(folder: pathlib.Path) -> None:
    tensor = external(refeed.onnx, location="a", length="100")
    before = tensor.SerializeToString()
    with pytest.raises(ValueError, match="asks for 100 bytes"):
        external_data_helper.load_external_data_for_tensor(tensor, str(folder))
    assert tensor.SerializeToString() == before


def model(o: Any) -> Any:
    """Tensors of different sizes in every place where a model has some."""

    def tensor(name: str, size: int) -> Any:
        data = np.arange(size, dtype=np.float32) + size
        return o.helper.make_tensor(name, 1, [size], data, raw=True)

    def constant(name: str, size: int) -> Any:
        return o.helper.make_node("Constant", [], [name], value=tensor(f"{name} value", size))

    inner = o.helper.make_graph([constant("q", 500)], "inner", [], [], [tensor("inner w", 310)])
    body = o.helper.make_node(
        "If", ["c"], ["d"], else_branch=inner, tensors=[tensor("listed", 301), tensor("x/y", 302)]
    )
    other = o.helper.make_graph([body], "other", [], [], [tensor("", 303)])
    nodes = [constant("c", 400), o.helper.make_node("If", ["c"], ["e"], branches=[other, inner]), body]
    initializers = [tensor("w", 300), o.helper.make_tensor("typed", 1, [2], [1, 2]), tensor("small", 2)]
    function = o.helper.make_function("d", "f", [], ["z"], [constant("z", 600)], [])
    return o.helper.make_model(o.helper.make_graph(nodes, "g", [], [], initializers), functions=[function])


def unique_names(model: Any) -> Any:
    """The model with the made-up file names numbered."""
    found: dict[str, str] = {}
    text = model.SerializeToString()
    for tensor in tensors(model):
        for entry in tensor.external_data:
            if entry.key == "location" and entry.value.count("-") == 4:
                found.setdefault(entry.value, f"{len(found):036d}" + entry.value[36:])
    for name, number in found.items():
        text = text.replace(name.encode(), number.encode())
    return text


def tensors(model: Any) -> list[Any]:
    found: list[Any] = []
    holders = [model.graph, *model.functions]
    while holders:
        holder = holders.pop()
        found += getattr(holder, "initializer", [])
        for node in holder.node:
            for attribute in node.attribute:
                found += [attribute.t] if attribute.HasField("t") else []
                found += attribute.tensors
                holders += [attribute.g] if attribute.HasField("g") else []
                holders += attribute.graphs
    return found


@pytest.mark.parametrize(
    "options",
    [
        {}, {"size_threshold": 0}, {"size_threshold": 2000}, {"convert_attribute": True}, {"location": "data.bin"},
        {"location": "a/b"}, {"location": ""}, {"location": "/absolute"}, {"location": "exists"},
        {"all_tensors_to_one_file": False}, {"all_tensors_to_one_file": False, "location": "/absolute"},
        {"all_tensors_to_one_file": False, "convert_attribute": True, "size_threshold": 0},
    ],
)  # fmt: skip
def test_converting_a_model(options: dict[str, Any], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exists").touch()

    def convert(o: Any) -> Any:
        made = model(o)
        o.external_data_helper.convert_model_to_external_data(made, **options)
        return unique_names(made)

    same(convert)


def test_a_threshold_is_one_of_bytes_of_elements() -> None:
    """The official package adds the size of a Python object."""
    made = model(refeed.onnx)
    external_data_helper.convert_model_to_external_data(made, size_threshold=1201)
    assert not external_data_helper.uses_external_data(made.graph.initializer[0])
    external_data_helper.convert_model_to_external_data(made, size_threshold=1200)
    assert external_data_helper.uses_external_data(made.graph.initializer[0])


@pytest.mark.parametrize("one_file", [True, False])
def test_there_and_back(one_file: bool, tmp_path: pathlib.Path) -> None:
    def written(o: Any) -> tuple[Any, pathlib.Path]:
        folder = tmp_path / o.__name__
        folder.mkdir(exist_ok=True)
        made = model(o)
        for tensor in tensors(made):
            tensor.name = tensor.name.replace("/", "-") or "unnamed"
        location = "data.bin" if one_file else None
        o.external_data_helper.convert_model_to_external_data(
            made, one_file, location, size_threshold=1100, convert_attribute=True
        )
        return made, folder

    def write(o: Any) -> Any:
        made, folder = written(o)
        assert o.external_data_helper.write_external_data_tensors(made, str(folder)) is made
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        for path in folder.iterdir():
            path.unlink()
        return made, files

    def read(o: Any) -> Any:
        made, folder = written(o)
        o.external_data_helper.write_external_data_tensors(made, str(folder))
        o.external_data_helper.load_external_data_for_model(made, str(folder))
        for path in folder.iterdir():
            path.unlink()
        return made

    def convert_back(o: Any) -> Any:
        made, _ = written(o)
        o.external_data_helper.convert_model_from_external_data(made)
        return made

    same(write)
    same(read)
    same(convert_back)
    same(lambda o: o.external_data_helper.convert_model_from_external_data(write(o)[0]))


def saved(make: Callable[[Any], Any], **arguments: Any) -> Call:
    """Save a tensor after another, with some name of the file and some offset."""

    def call(o: Any) -> Any:
        folder = pathlib.Path(os.environ["TEST_FOLDER"], o.__name__)
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        first = inline(o)
        o.external_data_helper.set_external_data(first, "file")
        o.external_data_helper.save_external_data(first, str(folder))
        tensor = make(o)
        if arguments:
            o.external_data_helper.set_external_data(tensor, **arguments)
        result = o.external_data_helper.save_external_data(tensor, str(folder))
        return result, tensor, {path.name: path.read_bytes() for path in folder.iterdir()}

    return call


@pytest.mark.parametrize(
    "arguments",
    [
        {"location": "file"}, {"location": "file", "offset": 8}, {"location": "file", "offset": 5000},
        {"location": "file", "offset": 3}, {"location": "new"}, {"location": "new", "offset": 10},
        {"location": "new", "length": 4}, {"location": "new", "offset": 65536}, {"location": "new", "offset": 65537},
        {"location": "new", "offset": 10**12}, {"location": "../file"}, {"location": ""}, {"location": "/file"},
        {"location": "sub/file"}, {"location": "new", "checksum": "c", "basepath": "b"},
    ],
)  # fmt: skip
def test_saving_one_tensor(arguments: dict[str, Any], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_FOLDER", str(tmp_path))
    same(saved(inline, **arguments))


def test_saving_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_FOLDER", str(tmp_path))
    refused(saved(lambda o: external(o, location="file")))
    refused(saved(lambda o: o.TensorProto()))
    refused(changed("save_external_data", lambda o: external(o, location="file"), str(tmp_path / "missing")))
    (tmp_path / "elsewhere").touch()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "hard").hardlink_to(tmp_path / "elsewhere")
    (tmp_path / "folder").symlink_to("/")
    for location in ["link", "hard", "folder/tmp/file"]:
        tensor = inline(refeed.onnx)
        external_data_helper.set_external_data(tensor, location)
        with pytest.raises(refeed.ModelError):
            external_data_helper.save_external_data(tensor, str(tmp_path))
    assert (tmp_path / "elsewhere").read_bytes() == b""


def test_a_full_disk_is_an_error(tmp_path: pathlib.Path) -> None:
    tensor = inline(refeed.onnx, raw_data=bytes(100_000), dims=[25_000])
    external_data_helper.set_external_data(tensor, "file")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(refeed.ModelError, match="cannot be written"):
            external_data_helper.save_external_data(tensor, str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert tensor.HasField("raw_data")


def test_copies_on_request_need_no_file() -> None:
    with pytest.raises(ValueError, match="in a file"):
        refeed.onnx.numpy_helper.to_array(external(refeed.onnx, location="a"), copy=False)


def test_the_official_package_reads_what_we_write(tmp_path: pathlib.Path) -> None:
    ours = model(refeed.onnx)
    external_data_helper.convert_model_to_external_data(ours, location="data.bin")
    external_data_helper.write_external_data_tensors(ours, str(tmp_path))
    (tmp_path / "model.onnx").write_bytes(ours.SerializeToString())
    read = onnx.load(tmp_path / "model.onnx")
    expected = model(onnx).graph.initializer[0]
    np.testing.assert_array_equal(
        onnx.numpy_helper.to_array(read.graph.initializer[0]), onnx.numpy_helper.to_array(expected)
    )
    assert TensorProto.FromString(expected.SerializeToString()).dims == [300]
