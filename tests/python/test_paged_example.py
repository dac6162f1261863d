"""The worked example of cache pages: one page quantised and restored in one graph, written, read, and run again."""

import pathlib
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pages as p
import pytest
from refeed import onnx, runtime
from refeed.onnx import helper as oh
from refeed.onnx import numpy_helper as onh
from refeed.onnx import verify

Array = np.ndarray[Any, Any]
FIRST = np.linspace(-0.5, 0.5, 8, dtype=np.float32).reshape(1, 1, 2, 4)
UNUSED = [np.nan] * 4
KEYS = np.array([-1.3, -0.4, 0.3, 1.2, *UNUSED], np.float32).reshape(1, 1, 2, 4)
VALUES = np.array([-0.8, -0.3, 0.2, 0.7, *UNUSED], np.float32).reshape(1, 1, 2, 4)
SCALARS = [
    ("key_scale", onnx.TensorProto.FLOAT, 0.25),
    ("key_zero", onnx.TensorProto.INT4, 0),
    ("value_scale", onnx.TensorProto.FLOAT, 0.125),
    ("value_zero", onnx.TensorProto.UINT4, 8),
    ("one", onnx.TensorProto.FLOAT, 1),
    ("float16_marker", onnx.TensorProto.FLOAT16, 0),
    ("bfloat16_marker", onnx.TensorProto.BFLOAT16, 0),
]


def two_pages() -> Any:
    """Room for two tokens in each page; the second holds one, and NaN behind it."""
    cache = onnx.PagedCacheProto()
    first = cache.blocks.add()
    first.start = 0
    first.length = 2
    first.key.CopyFrom(onh.from_array(FIRST))
    first.value.CopyFrom(onh.from_array(-FIRST))
    second = cache.blocks.add()
    second.start = 2
    second.length = 1
    second.key.CopyFrom(onh.from_array(KEYS))
    second.value.CopyFrom(onh.from_array(VALUES))
    return cache


def round_trip() -> Any:
    """The chosen page becomes INT4 keys and UINT4 values, then FLOAT16 and BFLOAT16."""
    cache_type = onnx.TypeProto(struct_type=onnx.StructTypeProto())
    quantize = ["past", "indices", "key_scale", "key_zero", "value_scale", "value_zero"]
    restore = ["quantized", "indices", "one", "float16_marker", "one", "bfloat16_marker"]
    graph = oh.make_graph(
        [
            oh.make_node("QuantizePagedCache", quantize, ["quantized"], domain="ai.rt"),
            oh.make_node("QuantizePagedCache", restore, ["restored"], domain="ai.rt"),
        ],
        "selected_page_roundtrip",
        [oh.make_value_info("past", cache_type), oh.make_tensor_value_info("indices", onnx.TensorProto.INT64, [1])],
        [oh.make_value_info("quantized", cache_type), oh.make_value_info("restored", cache_type)],
        initializer=[oh.make_tensor(name, kind, [], [number]) for name, kind, number in SCALARS],
    )
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 23), oh.make_opsetid("ai.rt", 1)], ir_version=10)


def context_of(cache: Any, *indices: int) -> runtime.RuntimeContext:
    context = runtime.RuntimeContext()
    context.put_value("past", cache)
    context.set("indices", runtime.tensor_from_proto(onh.from_array(np.array(indices, np.int64))))
    return context


@pytest.fixture(scope="module")
def ran() -> tuple[runtime.RuntimeContext, runtime.RuntimeSession, Any, Any]:
    context = context_of(two_pages(), 1)
    session = runtime.RuntimeSession(round_trip())
    session.run(context)
    return context, session, context.get_value("quantized"), context.get_value("restored")


def test_a_cache_is_written_down_page_by_page() -> None:
    """Rule 6.5.11; S274: the second page is one token in room for two, and NaN in the other row is no fault."""
    cache = two_pages()
    assert [(block.start, block.length, list(block.key.dims)) for block in cache.blocks] == [
        (0, 2, [1, 1, 2, 4]),
        (2, 1, [1, 1, 2, 4]),
    ]
    assert np.isnan(onh.to_array(cache.blocks[1].key)[:, :, 1:]).all()
    verify.verify_paged_cache(cache)
    context = context_of(cache, 1)
    assert context.get_value("past") == cache


def test_the_graph_is_made_and_verified() -> None:
    """Rule 6.5.11; S276, S277."""
    model = round_trip()
    verify.verify_model(model)
    assert model.ir_version == 10
    assert [(one.domain, one.version) for one in model.opset_import] == [("", 23), ("ai.rt", 1)]
    assert [node.domain for node in model.graph.node] == ["ai.rt", "ai.rt"]
    declared = [info.type for info in [model.graph.input[0], *model.graph.output]]
    assert all(ty.HasField("struct_type") and ty.struct_type.WhichOneof("kind") is None for ty in declared)
    scalars = {tensor.name: tensor for tensor in model.graph.initializer}
    for name, kind, number in SCALARS:
        assert (scalars[name].data_type, list(scalars[name].dims)) == (kind, [])
        assert float(onh.to_array(scalars[name]).astype(np.float32)) == number
    model.graph.node[1].input[0] = "nothing"
    with pytest.raises(ValueError, match="nothing"):
        verify.verify_model(model)


def test_importing_the_runtime_registers_one_of_the_two_kernels() -> None:
    """Rule 6.5.1; S278."""
    code = (
        "import numpy as np\n"
        "from refeed import runtime\n"
        "import paged_reference as r, test_paged_example as t\n"
        "context = t.context_of(t.two_pages(), 1)\n"
        "runtime.RuntimeSession(t.round_trip()).run(context)\n"
        "assert context.has('quantized') or context.get_value('quantized')\n"
        "state = runtime.PersistentValueState(r.model(), {'past': r.empty()})\n"
        "try:\n"
        "    state.run({name: np.ones((1, 1, 1, 4), np.float32) for name in 'QKV'})\n"
        "except ValueError as error:\n"
        "    assert 'PagedAttention' in str(error), error\n"
        "else:\n"
        "    raise AssertionError('PagedAttention is registered')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=pathlib.Path(__file__).parent)  # noqa: S603


def test_a_session_runs_on_a_context(ran: tuple[Any, ...]) -> None:
    """Rule 6.5.11; S279, S280: both outputs stay in the context, as caches."""
    context, _, quantized, restored = ran
    assert isinstance(quantized, onnx.PagedCacheProto)
    assert isinstance(restored, onnx.PagedCacheProto)
    assert context.get_value("quantized") == quantized
    assert context.get_value("restored") == restored
    assert context.get("indices").numpy().tolist() == [1]


def test_other_pages_are_unchanged(ran: tuple[Any, ...]) -> None:
    """Rules 6.5.7, 6.5.11; S275, S281: keys and values of a page differ in format, the other page stays FLOAT."""
    for output in ran[2:]:
        assert len(output.blocks) == 2
        np.testing.assert_array_equal(onh.to_array(output.blocks[0].key), FIRST)
        np.testing.assert_array_equal(onh.to_array(output.blocks[0].value), -FIRST)
        assert output.blocks[0].key.data_type == output.blocks[0].value.data_type == onnx.TensorProto.FLOAT
        assert (output.blocks[1].start, output.blocks[1].length) == (2, 1)
    formats = [[(p.format_of(b, "key"), p.format_of(b, "value")) for b in cache.blocks] for cache in ran[2:]]
    assert formats == [[("FLOAT", "FLOAT"), ("INT4", "UINT4")], [("FLOAT", "FLOAT"), ("FLOAT16", "BFLOAT16")]]


def test_the_quantised_page_says_its_types_and_takes_eight_bytes(ran: tuple[Any, ...]) -> None:
    """Rule 6.5.11; S282."""
    page = ran[2].blocks[1]
    assert page.encoded_key.affine.HasField("storage_type")
    assert page.encoded_key.affine.storage_type == onnx.TensorProto.INT4
    assert page.encoded_value.affine.storage_type == onnx.TensorProto.UINT4
    assert (len(page.encoded_key.raw_data), len(page.encoded_value.raw_data)) == (4, 4)
    assert len(two_pages().blocks[1].key.raw_data) + len(two_pages().blocks[1].value.raw_data) == 64


def test_the_restored_page_holds_what_the_codes_stand_for(ran: tuple[Any, ...]) -> None:
    """Rule 6.5.11; S283, S284, S285, S286."""
    page = ran[3].blocks[1]
    assert page.key.data_type == onnx.TensorProto.FLOAT16
    assert page.value.data_type == onnx.TensorProto.BFLOAT16
    keys, values = onh.to_array(page.key), onh.to_array(page.value).astype(np.float32)
    assert keys.shape == values.shape == (1, 1, 2, 4)
    assert (keys.dtype.name, onh.to_array(page.value).dtype.name) == ("float16", "bfloat16")
    valid = (slice(None), slice(None), slice(1))
    np.testing.assert_array_equal(keys[valid], np.clip(np.rint(KEYS[valid] / 0.25), -8, 7) * 0.25)
    steps = np.clip(np.rint(VALUES[valid] / 0.125) + 8, 0, 15) - 8
    np.testing.assert_array_equal(values[valid], steps * 0.125)
    assert keys[valid].ravel().tolist() == [-1.25, -0.5, 0.25, 1.25]
    assert values[valid].ravel().tolist() == [-0.75, -0.25, 0.25, 0.75]
    assert not keys[:, :, 1:].any()
    assert not values[:, :, 1:].any()
    assert np.abs(keys[valid] - KEYS[valid]).max() <= 0.125
    assert np.abs(values[valid] - VALUES[valid]).max() <= 0.0625


def test_a_cache_is_written_read_and_run_again(ran: tuple[Any, ...]) -> None:
    """Rules 6.2.10, 6.5.11; S287, S288: the context takes the cache again, its outputs are replaced."""
    context, session, quantized, restored = ran
    reloaded = onnx.PagedCacheProto()
    reloaded.ParseFromString(quantized.SerializeToString())
    assert reloaded == quantized
    for block, other in zip(reloaded.blocks, quantized.blocks, strict=True):
        for part in ("key", "value"):
            assert p.format_of(block, part) == p.format_of(other, part)
    context.put_value("past", reloaded)
    session.run(context)
    again = context.get_value("restored")
    assert again is not restored
    assert again == restored
    assert context.get_value("quantized") == quantized


def test_a_page_of_four_goes_to_two_bits_and_back() -> None:
    """Rules 6.5.6, 6.5.11; S220: page 3 to INT2 keys and UINT4 values, then FLOAT16 and BFLOAT16."""
    rng = np.random.default_rng(3)
    cache = onnx.PagedCacheProto()
    for length in (3, 4, 1, 2):
        block = p.add_page(cache, length)
        for part, width in (("key", 6), ("value", 5)):
            p.fill(rng, block, part, (2, 3, 4, width), "FLOAT")
    model = round_trip()
    model.graph.initializer[1].CopyFrom(oh.make_tensor("key_zero", onnx.TensorProto.INT2, [], [0]))
    context = context_of(cache, 3)
    runtime.RuntimeSession(model).run(context)
    quantized, restored = context.get_value("quantized"), context.get_value("restored")
    assert [list(output.blocks)[:3] for output in (quantized, restored)] == [list(cache.blocks)[:3]] * 2
    page, back = quantized.blocks[3], restored.blocks[3]
    assert (p.format_of(page, "key"), p.format_of(page, "value")) == ("INT2", "UINT4")
    assert (p.format_of(back, "key"), p.format_of(back, "value")) == ("FLOAT16", "BFLOAT16")
    for part, low, high, scale in (("key", -2, 1, 0.25), ("value", -8, 7, 0.125)):
        source = p.decoded(cache.blocks[3], part)
        expected = np.clip(np.rint(source / scale), low, high) * scale
        np.testing.assert_array_equal(p.decoded(page, part), expected)
        np.testing.assert_array_equal(p.decoded(back, part), expected)
        assert not onh.to_array(p.payload(back, part)).astype(np.float32)[:, :, 2:].any()


def test_the_picture_is_drawn_and_shown(root: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """S289: two panels, before against restored."""
    pytest.importorskip("matplotlib")
    figure = tmp_path / "pages.svg"
    command = [sys.executable, str(root / "docs" / "examples" / "quantized_cache_pages.py"), "--figure", str(figure)]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)  # noqa: S603
    for file in (figure, root / "docs" / "images" / "quantized_cache_pages.svg"):
        drawn = file.read_text(encoding="utf-8")
        assert len(re.findall(r'<g id="axes_\d+">', drawn)) == 2
        assert len(re.findall(r'<g id="legend_\d+">', drawn)) == 2
    shown = (root / "docs" / "paged-cache.md").read_text(encoding="utf-8")
    assert "](images/quantized_cache_pages.svg)" in shown
