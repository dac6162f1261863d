"""Requests to the two operators on pages that are wrong in one thing, and what stays of the cache and of the model."""

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pages as p
import pytest
import refeed
import structured as s
from paged_reference import TYPES, array, attention, empty, model, random, reconstructed, step, unpack
from refeed import onnx, runtime
from refeed.onnx import TensorProto, helper
from refeed.onnx.builder import GraphBuilder
from refeed.onnx.shape_inference import infer_shapes
from refeed.onnx.verify import verify_model

SCALARS = {"key_scale": 0.25, "key_zero": 0, "value_scale": 0.125, "value_zero": 0}
INPUTS = ["cache", "indices", *SCALARS]


def quantizer(scales: int = 1, zeros: int = TensorProto.INT8, **more: Any) -> Any:
    """`out = QuantizePagedCache(...)` of parameters that are initializers."""
    node = helper.make_node("QuantizePagedCache", INPUTS, ["out"], domain="ai.rt", **more)
    graph = helper.make_graph(
        [node],
        "test",
        [helper.make_value_info("cache", s.any_cache()), helper.make_tensor_value_info("indices", 7, None)],
        [helper.make_value_info("out", s.any_cache())],
        initializer=[
            helper.make_tensor(name, scales if "scale" in name else zeros, [], [value])
            for name, value in SCALARS.items()
        ],
    )
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("ai.rt", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def quantize(made: Any, cache: Any, indices: Any, context: runtime.RuntimeContext | None = None) -> Any:
    return runtime.RuntimeSession(made).run({"cache": cache, "indices": indices}, context=context)["out"]


# ---- schemas


@pytest.mark.parametrize("kind", [1, 10, 16])
def test_one_schema_says_inference_and_runs(kind: int) -> None:
    """Rules 6.1.1, 6.1.4; S191: four inputs and two outputs of `ai.rt`, version 1, in each of the three types."""
    made = model(kind)
    node = made.graph.node[0]
    assert (node.domain, len(node.input), len(node.output), made.opset_import[1].version) == ("ai.rt", 4, 2, 1)
    made.graph.output[0].ClearField("type")
    assert infer_shapes(made, strict_mode=True).graph.output[0].type.tensor_type.elem_type == kind
    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context)
    state = runtime.PersistentValueState(model(kind), {"past": empty()})
    rng = np.random.default_rng(kind)
    q, k, v = (random(rng, 2, heads, 3, width, dtype=kind) for heads, width in ((6, 5), (2, 5), (2, 7)))
    out = array(state.run(context, {"Q": q, "K": k, "V": v})["Y"])
    assert (out.dtype, out.shape) == (TYPES[kind], (2, 6, 3, 7))
    np.testing.assert_allclose(out.astype(np.float64), attention(q, k, v), atol={1: 1e-5, 10: 2e-3, 16: 1e-2}[kind])


@pytest.mark.parametrize("kernel", [False, True])
def test_what_only_values_tell_passes_inference_and_fails_the_run(kernel: bool) -> None:
    """Rule 6.1.8; S197: heads of the pages, their widths, and the number of new tokens."""
    made = model(max_tokens=4)
    verify_model(made)
    infer_shapes(made, strict_mode=True)
    context = runtime.RuntimeContext()
    if kernel:
        runtime.register_paged_attention(context)
    rows = {name: np.ones((1, 2, 2, 4), np.float32) for name in "QKV"}
    cases = [
        (rows, s.cache(1, heads=3), "heads of the pages" if kernel else "PagedAttention"),
        (rows, s.cache(1, heads=2), "key width of the pages" if kernel else "PagedAttention"),
        ({name: np.ones((1, 2, 5, 4), np.float32) for name in "QKV"}, empty(), "max_tokens|PagedAttention"),
    ]
    for feeds, past, expected in cases:
        state = runtime.PersistentValueState(made, {"past": past})
        before = state.values["past"].SerializeToString()
        with pytest.raises(ValueError, match=expected):
            state.run(context, feeds)
        assert state.values["past"].SerializeToString() == before


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda node: node.input.pop(), "QuantizePagedCache"),
        (lambda node: node.input.append("key_zero"), "QuantizePagedCache"),
        (lambda node: node.output.append("more"), "QuantizePagedCache"),
        (lambda node: node.input.__setitem__(2, ""), "QuantizePagedCache"),
        (lambda node: node.attribute.append(helper.make_attribute("axis", 1)), "axis"),
        # Two inputs in the wrong order: a scale is FLOAT, a zero point is none where it is to be a scale.
        (lambda node: node.input.__setitem__(2, "key_zero"), "QuantizePagedCache"),
        (lambda node: node.input.__setitem__(1, "key_scale"), "QuantizePagedCache"),
    ],
)
def test_six_inputs_in_their_order_and_no_attribute(change: Callable[[Any], Any], expected: str) -> None:
    """Rule 6.5.1; S209."""
    made = quantizer()
    cache = p.random_cache(np.random.default_rng(0), 2, ["FLOAT"])
    assert [p.format_of(block, "key") for block in quantize(made, cache, np.array([0, 1])).blocks] == ["INT8", "INT8"]
    change(made.graph.node[0])
    with pytest.raises(ValueError, match=expected):
        quantize(made, cache, np.array([0]))
    without = quantizer()
    del without.opset_import[1]
    with pytest.raises(refeed.ModelError, match=r"domain `ai\.rt` is not imported"):
        runtime.RuntimeSession(without)


@pytest.mark.parametrize(
    "indices", [np.array([0], np.int32), np.array(0), np.array([[0]]), np.array([0.0], np.float32)]
)
def test_positions_are_int64_of_one_axis(indices: Any) -> None:
    """Rule 6.5.2; S210."""
    cache = p.random_cache(np.random.default_rng(1), 2, ["FLOAT"])
    with pytest.raises(ValueError, match="indices"):
        quantize(quantizer(), cache, indices)


@pytest.mark.parametrize("target", [TensorProto.INT4, TensorProto.FLOAT16])
@pytest.mark.parametrize("name", ["key_scale", "value_scale"])
@pytest.mark.parametrize("shape", [[1], [2], [1, 1]])
def test_scales_have_no_axis_whatever_the_target(name: str, target: int, shape: list[int]) -> None:
    """Rule 6.5.3; S211."""
    made = quantizer(zeros=target)
    at = list(SCALARS).index(name)
    count = int(np.prod(shape))
    made.graph.initializer[at].CopyFrom(helper.make_tensor(name, 1, shape, [0.5] * count))
    cache = p.random_cache(np.random.default_rng(2), 2, ["FLOAT"])
    with pytest.raises(ValueError, match="QuantizePagedCache"):
        quantize(made, cache, np.array([0]))


# ---- the whole cache first


def without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda block: block.pop(name)


def given(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda block: block.update(fields)


FAULTS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a field is missing": (without("value"), r"blocks\[2\]"),
    "a field too many": (given(more=np.zeros(1, np.float32)), r"blocks\[2\]"),
    "a gap": (given(start=np.array(5)), r"blocks\[2\]\.start"),
    "an overlap": (given(start=np.array(3)), r"blocks\[2\]\.start"),
    "no tokens": (given(length=np.array(0)), r"blocks\[2\]\.length"),
    "too many tokens": (given(length=np.array(3)), r"blocks\[2\]\.length"),
    "another capacity": (given(value=np.ones((1, 2, 3, 5), np.float32)), r"blocks\[2\]\.value"),
    "another width": (given(key=np.ones((1, 2, 2, 4), np.float32)), r"blocks\[2\]\.key"),
    "three axes": (given(key=np.ones((1, 2, 2), np.float32)), r"blocks\[2\]\.key"),
    "no batch": (given(key=np.ones((0, 2, 2, 3), np.float32)), r"blocks\[2\]\.key"),
    "another type": (given(key=np.ones((1, 2, 2, 3), np.int32)), r"blocks\[2\]\.key"),
    "a number that is no scalar": (given(start=np.array([4])), r"blocks\[2\]"),
}


def made_inside(made: Any, broken: Any) -> tuple[Any, runtime.RuntimeContext]:
    """The model with its first node reading a cache that a kernel of the caller's own makes, as no input may be."""
    node = made.graph.node[0]
    source = next(name for name in node.input if name in ("cache", "past"))
    node.input[list(node.input).index(source)] = "broken"
    nodes = [helper.make_node("Broken", [source], ["broken"], domain="my.ops"), *made.graph.node]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    made.graph.value_info.append(helper.make_value_info("broken", s.any_cache()))
    made.opset_import.append(helper.make_opsetid("my.ops", 1))
    context = runtime.RuntimeContext()
    context.register_custom_kernel("my.ops", "Broken", lambda _, call: call.put_value("broken", broken))
    return made, context


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("indices", [[], [0]])
def test_a_fault_in_a_page_that_is_not_chosen_is_found(fault: str, indices: list[int]) -> None:
    """Rules 6.2.9, 6.5.5; S216, S230."""
    change, expected = FAULTS[fault]
    cache = s.cache(3)
    change(cache["blocks"][2])
    made, context = made_inside(quantizer(), cache)
    with pytest.raises(ValueError, match=expected):
        quantize(made, s.cache_message(1), np.array(indices, np.int64), context)


@pytest.mark.parametrize("fault", FAULTS)
def test_attention_checks_the_pages_that_it_gets(fault: str) -> None:
    """Rules 6.2.9, 6.3.13; S230, S271: a kernel made the cache; nothing is published."""
    change, expected = FAULTS[fault]
    cache = s.cache(3)
    change(cache["blocks"][2])
    made, context = made_inside(model(), cache)
    kernel = runtime.register_paged_attention(context)
    state = runtime.PersistentValueState(made, {"past": empty()})
    feeds = {"Q": np.ones((1, 2, 1, 3)), "K": np.ones((1, 2, 1, 3)), "V": np.ones((1, 2, 1, 5))}
    with pytest.raises(ValueError, match=expected):
        state.run(context, {name: value.astype(np.float32) for name, value in feeds.items()})
    assert state.values["past"] == empty()
    assert kernel.total_statistics().copied_bytes == 0


def test_no_payload_is_decoded_to_check_a_cache() -> None:
    """Rule 6.5.5; S216: what cannot be decoded stays in pages that are not chosen, and is an error in others."""
    cache = onnx.PagedCacheProto()
    for scale in (0.5, 3e38):
        block = p.add_page(cache, 2)
        for part in ("key", "value"):
            p.set_codes(block, part, np.full((1, 1, 2, 4), 100), "INT8", scale)
    made = quantizer(zeros=TensorProto.FLOAT)
    assert quantize(made, cache, np.array([], np.int64)) == cache
    assert quantize(made, cache, np.array([0])).blocks[1] == cache.blocks[1]
    with pytest.raises(ValueError, match=r"blocks\[1\]"):
        quantize(made, cache, np.array([1]))


def test_nothing_is_published_unless_all_holds() -> None:
    """Rule 6.5.8; S218: one fault in the last position, scale or zero point; the cache stays."""
    made = quantizer()
    made.graph.persistent_bindings.add(input_name="cache", output_name="out")
    cache = p.random_cache(np.random.default_rng(3), 3, ["FLOAT"], typed=0)
    for change, indices in (
        (None, [0, 1, 3]),
        (helper.make_tensor("value_scale", 1, [], [-1.0]), [0, 1, 2]),
        (helper.make_tensor("value_zero", TensorProto.INT16, [], [0]), [0, 1, 2]),
    ):
        each = onnx.ModelProto()
        each.CopyFrom(made)
        if change is not None:
            each.graph.initializer[list(SCALARS).index(change.name)].CopyFrom(change)

        def run(each: Any = each, indices: list[int] = indices) -> None:
            state = runtime.PersistentValueState(each, {"cache": cache})
            try:
                state.run({"indices": np.array(indices)})
            finally:
                assert state.values["cache"] == cache

        with pytest.raises(ValueError, match=r"QuantizePagedCache|block_indices"):
            run()


# ---- two bits


@pytest.mark.parametrize("storage", [TensorProto.INT2, TensorProto.UINT2])
def test_four_codes_go_round_and_are_promised_no_more(storage: int, root: pathlib.Path) -> None:
    """Rule 6.3.10; S270: what the codes stand for comes back exactly."""
    low = -2 if storage == TensorProto.INT2 else 0
    zero = 0 if storage == TensorProto.INT2 else 2
    grid = (np.arange(low, low + 4) - zero) * 0.5
    rng = np.random.default_rng(storage)
    exact = rng.choice(grid, size=(2, 3, 7, 5)).astype(np.float32)
    near = exact + rng.uniform(-0.24, 0.24, exact.shape).astype(np.float32)
    kernel = runtime.PagedAttention(format_selector=lambda *_: runtime.PageFormat(storage, 0.5, zero))
    q = random(rng, 2, 6, 7, 5)
    _, cache, _ = step(kernel, (q, exact, near), empty())
    for side in reconstructed(cache):
        np.testing.assert_array_equal(side, exact)
    codes = unpack(bytes(cache.blocks[0].encoded_key.raw_data), storage, exact.size)
    np.testing.assert_array_equal(codes.reshape(exact.shape), exact / 0.5 + zero)
    x = [random(rng, 2, 6, 1, 5), random(rng, 2, 3, 1, 5), random(rng, 2, 3, 1, 5)]
    y, _, _ = step(kernel, x, cache)
    whole = [np.concatenate([exact, new], axis=2) for new in x[1:]]
    np.testing.assert_allclose(y, attention(x[0], *whole), atol=1e-5)
    page = " ".join((root / "docs" / "paged-attention.md").read_text(encoding="utf-8").split())
    assert "INT2 and UINT2 have four codes" in page
    assert "no bound on the results" in page


# ---- initializers that go on


def declared(entry: int) -> Any:
    """A state of a cache whose type is the model's, with a default."""
    page = s.struct(
        start=s.tensor([], s.INT64),
        length=s.tensor([], s.INT64),
        key=s.tensor([1, 2, "c", 3]),
        value=s.tensor([1, 2, "c", 5]),
    )
    layout = s.layout(blocks=s.sequence(page))
    return s.keep(s.reference(entry), entries={entry: layout}, paged_cache_initializer=[s.cache_message(3, "past")])


def test_models_with_a_cache_initializer_are_inferred_verified_and_built() -> None:
    """S235, S239: the initializer and the references of its type come out as they went in."""
    made = declared(7)
    before = made.SerializeToString()
    verify_model(made)
    inferred = infer_shapes(made, strict_mode=True)
    built = GraphBuilder(made).to_onnx()
    for each in (made, inferred, built):
        assert each.graph.paged_cache_initializer[0] == s.cache_message(3, "past")
        assert each.graph.input[0].type.struct_type.type_ref == 7
        assert each.struct_types[0] == made.struct_types[0]
        assert s.state(each, {}).values["past"] == s.cache_message(3)
    assert made.SerializeToString() == before
    builder = GraphBuilder("new")
    builder.make_input(made.graph.input[0])
    builder.make_node("Identity", ["past"], "present")
    builder.make_output(helper.make_value_info("present", s.reference(7)))
    assert builder.make_paged_cache_initializer(s.cache_message(2, "past")) == "past"
    assert [cache.name for cache in builder.paged_cache_initializers()] == ["past"]
    with pytest.raises(refeed.ModelError, match=r"standard ONNX: .*paged cache initializer `past`"):
        GraphBuilder(made).to_standard_model()


RESUME = """
import sys, pathlib
import numpy as np
import refeed
from refeed import runtime

model, feeds, out = sys.argv[1:]
context = runtime.RuntimeContext()
runtime.register_paged_attention(context)
state = runtime.PersistentValueState(refeed.load(model), {})
with np.load(feeds) as file:
    for at in range(3):
        result = state.run(context, {name: file[f"{at}{name}"] for name in "QKV"})
np.save(out, result["Y"].numpy())
pathlib.Path(out + ".cache").write_bytes(state.values["past"].SerializeToString())
"""


def test_a_cache_in_a_new_model_resumes_in_another_process(tmp_path: pathlib.Path) -> None:
    """Rule 6.2.10; S238: the old state is closed, the model is a file, and the numbers are the same to the bit."""
    rng = np.random.default_rng(4)
    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context)
    state = runtime.PersistentValueState(model(block_size=4), {"past": empty()})
    steps = [{name: random(rng, 1, 2, length, 4) for name in "QKV"} for length in (6, 1, 1, 5, 1)]
    for feeds in steps[:2]:
        state.run(context, feeds)
    cache = state.values["past"]
    for feeds in steps[2:]:
        expected = array(state.run(context, feeds)["Y"])
    end = state.values["past"].SerializeToString()
    state.close()
    again = model(block_size=4)
    cache.name = "past"
    again.graph.paged_cache_initializer.append(cache)
    file, feeds_file, out = (str(tmp_path / name) for name in ("model.onnx", "feeds.npz", "y.npy"))
    refeed.load(again).save(file)
    fed: dict[str, Any] = {f"{at}{name}": rows for at, feeds in enumerate(steps[2:]) for name, rows in feeds.items()}
    np.savez(feeds_file, **fed)
    del state, again, cache
    command = [sys.executable, "-c", RESUME, file, feeds_file, out]
    subprocess.run(command, check=True, env=dict(os.environ))  # noqa: S603 - our own code
    np.testing.assert_array_equal(np.load(out), expected)
    assert pathlib.Path(out + ".cache").read_bytes() == end
