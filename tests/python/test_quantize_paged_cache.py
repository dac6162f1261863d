"""ai.rt::QuantizePagedCache: what it converts to, what it leaves, what it refuses."""

from typing import Any

import numpy as np
import onnx as official
import onnx.helper as official_helper
import pages as p
import pytest
import refeed
import structured as s
from onnx.reference import ReferenceEvaluator
from refeed import onnx, runtime
from refeed.onnx import helper, numpy_helper
from refeed.onnx.verify import verify_model
from refeed.runtime import RuntimeContext, RuntimeSession, tensor_from_proto

NAMES = ["cache", "indices", "key_scale", "key_zero", "value_scale", "value_zero"]
TARGETS = {**p.CODES, **p.DENSE}
IMPORTS = [helper.make_opsetid("", 23), helper.make_opsetid("ai.rt", 1)]


def scalar(dtype: str, value: float = 0) -> Any:
    return helper.make_tensor("", TARGETS[dtype], [], [value])


def model(key: Any, value: Any, scales: tuple[float, float] = (0.25, 0.125), **replaced: Any) -> Any:
    """The operator with its parameters as initializers; `replaced` are other tensors in their places."""
    parameters = {
        "key_scale": scalar("FLOAT", scales[0]),
        "key_zero": key,
        "value_scale": scalar("FLOAT", scales[1]),
        "value_zero": value,
        **replaced,
    }
    for name, tensor in parameters.items():
        tensor.name = name
    graph = helper.make_graph(
        [helper.make_node("QuantizePagedCache", NAMES, ["out"], domain="ai.rt")],
        "test",
        [helper.make_value_info("cache", s.any_cache()), helper.make_tensor_value_info("indices", 7, None)],
        [helper.make_value_info("out", s.any_cache())],
        initializer=list(parameters.values()),
    )
    return helper.make_model(graph, opset_imports=IMPORTS, ir_version=10)


def run(model: Any, cache: Any, indices: Any) -> Any:
    return RuntimeSession(model).run({"cache": cache, "indices": np.asarray(indices, np.int64)})["out"]


def addresses(cache: Any) -> list[tuple[int, int]]:
    """Where the payloads of each page lie."""

    def address(message: Any) -> int:
        return int(np.frombuffer(message.raw_data_view(), np.uint8).__array_interface__["data"][0])

    return [(address(p.payload(block, "key")), address(p.payload(block, "value"))) for block in cache.blocks]


def quantize_linear(rows: Any, scale: float, zero: int, storage: str) -> Any:
    """The official reference of QuantizeLinear, as codes."""
    kind = getattr(official.TensorProto, storage)
    graph = official_helper.make_graph(
        [official_helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])],
        "reference",
        [official_helper.make_tensor_value_info("x", 1, rows.shape)],
        [official_helper.make_tensor_value_info("y", kind, rows.shape)],
        initializer=[
            official_helper.make_tensor("s", 1, [], [scale]),
            official_helper.make_tensor("z", kind, [], [zero]),
        ],
    )
    made = official_helper.make_model(graph, opset_imports=[official_helper.make_opsetid("", 25)])
    codes: Any = ReferenceEvaluator(made).run(None, {"x": rows})
    return np.asarray(codes[0]).astype(np.int64)


ZERO = {"INT8": -3, "UINT8": 120, "INT4": 2, "UINT4": 8, "INT2": -1, "UINT2": 2}
PAIRS = [(a, b) for at, a in enumerate(p.FORMATS) for b in (p.FORMATS[(at + 4) % 9], p.FORMATS[(at + 7) % 9])]


@pytest.mark.parametrize(("key", "value"), PAIRS)
@pytest.mark.parametrize("source", p.FORMATS)
def test_6_5_every_format_becomes_every_other(source: str, key: str, value: str) -> None:
    """Rules 6.5.4, 6.5.6; S212, S214, S215."""
    rng = np.random.default_rng([p.FORMATS.index(source), p.FORMATS.index(key)])
    cache = p.random_cache(rng, 3, [source], typed=0, batch=2, heads=3, key_width=5, value_width=3)
    before = cache.SerializeToString()
    scales = {"key": 0.11, "value": 0.37}
    out = run(model(scalar(key, ZERO.get(key, 0)), scalar(value, ZERO.get(value, 0)), (0.11, 0.37)), cache, [0, 2])
    assert cache.SerializeToString() == before
    assert out.blocks[1] == cache.blocks[1]
    for index in (0, 2):
        old, new = cache.blocks[index], out.blocks[index]
        assert (new.start, new.length) == (old.start, old.length)
        for part, to in (("key", key), ("value", value)):
            dims = p.dims_of(old, part)
            assert (p.format_of(new, part), p.dims_of(new, part)) == (to, dims)
            rows = p.decoded(old, part).astype(np.float32)
            if to in p.DENSE:
                whole = numpy_helper.to_array(p.payload(new, part)).astype(np.float32)
                np.testing.assert_array_equal(whole[:, :, : old.length], rows.astype(p.NUMPY[to]).astype(np.float32))
                np.testing.assert_array_equal(whole[:, :, old.length :], 0)
                continue
            held = p.payload(new, part)
            assert held.affine.storage_type == p.CODES[to]
            assert (held.affine.scale.dims, held.affine.HasField("axis")) == ([], False)
            assert p.unpack(held.affine.zero_point.raw_data, to, ()) == ZERO[to]
            codes = p.unpack(held.raw_data, to, dims)
            assert p.pack(codes, to) == held.raw_data, "bits past the last code are zero"
            np.testing.assert_array_equal(codes[:, :, old.length :], ZERO[to])
            np.testing.assert_array_equal(codes[:, :, : old.length], quantize_linear(rows, scales[part], ZERO[to], to))


def test_6_5_unselected_pages_and_empty_selections_keep_their_memory() -> None:
    """Rule 6.5.7; S217."""
    cache = p.random_cache(np.random.default_rng(0), 6, typed=0)
    made = model(scalar("INT4"), scalar("FLOAT16"))
    out = run(made, cache, [1, 4])
    for index, (old, new) in enumerate(zip(addresses(cache), addresses(out), strict=True)):
        if index in (1, 4):
            assert not set(old) & set(new)
        else:
            assert old == new
    assert addresses(run(made, cache, [])) == addresses(cache)
    assert len(run(made, onnx.PagedCacheProto(), []).blocks) == 0


Feeds = dict[str, Any]
BAD: dict[str, tuple[Feeds, str]] = {
    "an index twice": ({"indices": [1, 0, 1]}, "block_indices: expected each page once, got 1 more than once"),
    "an index too large": ({"indices": [0, 3]}, "block_indices: expected 0 to 2, got 3"),
    "a negative index": ({"indices": [-1]}, "block_indices: expected 0 to 2, got -1"),
    "indices of two axes": ({"indices": [[0]]}, r"block_indices: expected one axis, got shape \[1, 1\]"),
    "a scale of zero": ({"key_scale": 0.0}, "key_scale: expected a positive finite number, got 0"),
    "a negative scale": ({"value_scale": -1.0}, "value_scale: expected a positive finite number, got -1"),
    "a scale that is NaN": ({"value_scale": np.nan}, "value_scale: expected a positive finite number, got NaN"),
    "an infinite scale": ({"key_scale": np.inf}, "key_scale: expected a positive finite number, got inf"),
}


@pytest.mark.parametrize("targets", [("INT4", "UINT8"), ("FLOAT16", "FLOAT")])
@pytest.mark.parametrize("case", BAD)
def test_6_5_selections_and_scales_are_checked(case: str, targets: tuple[str, str]) -> None:
    """Rules 6.5.2, 6.5.3; S210, S211."""
    feeds, expected = BAD[case]
    given = {"indices": [2], "key_scale": 0.25, "value_scale": 0.125, **feeds}
    indices = given.pop("indices")
    made = model(scalar(targets[0]), scalar(targets[1]), (given["key_scale"], given["value_scale"]))
    cache = p.random_cache(np.random.default_rng(1), 3)
    with pytest.raises(refeed.KernelValueError, match=expected):
        run(made, cache, indices)
    with pytest.raises(ValueError, match=expected):
        run(made, cache, indices)


@pytest.mark.parametrize("name", ["key_scale", "value_scale", "key_zero", "value_zero"])
def test_6_5_parameters_are_scalars_of_their_types(name: str) -> None:
    """Rules 6.5.3, 6.5.4; S211."""
    cache = p.random_cache(np.random.default_rng(2), 2)
    kind = "FLOAT" if "scale" in name else "INT8"
    for tensor in (
        helper.make_tensor("", TARGETS[kind], [1], [1]),
        helper.make_tensor("", onnx.TensorProto.DOUBLE, [], [1]),
        helper.make_tensor("", onnx.TensorProto.INT16, [], [1]),
    ):
        made = model(scalar("INT4"), scalar("INT4"), (0.25, 0.125), **{name: tensor})
        with pytest.raises(ValueError, match=r"QuantizePagedCache"):
            run(made, cache, [0])


def test_6_5_the_whole_cache_is_checked_before_the_selection_is_used() -> None:
    """Also with nothing selected, and before a broken index is. Rule 6.5.5; S216, S230."""
    made = model(scalar("INT4"), scalar("INT4"))
    for indices in ([], [0], [77]):
        cache = s.cache(3)
        cache["blocks"][2]["length"] = np.array(99)
        # Such a value fits no declaration of a cache, so a kernel of the caller's own makes it inside of the graph.
        graph = made.graph
        context = RuntimeContext()

        def broken(_: Any, call: Any, cache: Any = cache) -> None:
            call.put_value("broken", cache)

        context.register_custom_kernel("test", "Broken", broken)
        inner = onnx.ModelProto()
        inner.CopyFrom(made)
        node = helper.make_node("Broken", ["cache"], ["broken"], domain="test")
        nodes = [node, *graph.node]
        del inner.graph.node[:]
        inner.graph.node.extend(nodes)
        inner.graph.node[1].input[0] = "broken"
        inner.graph.value_info.append(helper.make_value_info("broken", s.any_cache()))
        inner.opset_import.append(helper.make_opsetid("test", 1))
        session = RuntimeSession(inner)
        with pytest.raises(ValueError, match=r"blocks\[2\]\.length: expected at most 2"):
            session.run({"cache": s.cache_message(1), "indices": np.array(indices, np.int64)}, context=context)


def test_6_5_numbers_that_cannot_be_kept_name_the_page() -> None:
    """Rules 6.5.5, 6.5.8; S216."""
    cache = p.random_cache(np.random.default_rng(3), 3, ["FLOAT"], capacity=2)
    array = np.full(p.dims_of(cache.blocks[1], "value"), 1e30, np.float32)
    p.set_dense(cache.blocks[1], "value", array)
    with pytest.raises(ValueError, match=r"blocks\[1\]\.value\.rows: expected a number within FLOAT16"):
        run(model(scalar("INT8"), scalar("FLOAT16")), cache, [1])
    array[:] = np.inf
    p.set_dense(cache.blocks[1], "value", array)
    for indices in ([1], [0, 1, 2]):
        with pytest.raises(ValueError, match=r"blocks\[1\]\.value\.payload: expected a finite number"):
            run(model(scalar("INT8"), scalar("INT8")), cache, indices)
    left = run(model(scalar("INT8"), scalar("INT8")), cache, [0, 2]).blocks[1].value
    assert numpy_helper.to_array(left).max() == np.inf


def test_6_5_scales_of_other_types_and_structured_codes_are_left_or_refused() -> None:
    cache = p.random_cache(np.random.default_rng(4), 2, ["INT8"])
    for block in cache.blocks:
        scale = block.encoded_key.affine.scale
        scale.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scale).astype(np.float64)))
    made = model(scalar("INT8"), scalar("INT8"))
    assert run(made, cache, []) == cache
    with pytest.raises(ValueError, match=r"blocks\[1\]\.key\.scale: expected elements of FLOAT, got DOUBLE"):
        run(made, cache, [1])


def test_6_5_markers_of_dense_formats_may_say_anything() -> None:
    """Rule 6.5.4; S212."""
    cache = p.random_cache(np.random.default_rng(5), 2, ["INT4"])
    odd = model(scalar("FLOAT16", np.nan), scalar("BFLOAT16", 7), (3.0, 1e-30))
    assert run(odd, cache, [0, 1]) == run(model(scalar("FLOAT16"), scalar("BFLOAT16")), cache, [0, 1])


def test_6_5_a_cache_is_a_structure_of_blocks() -> None:
    """Rule 6.5.1."""
    made = model(scalar("INT8"), scalar("INT8"))
    made.graph.input[0].type.CopyFrom(s.struct(blocks=s.sequence(s.tensor([2])), more=s.tensor([2])))
    with pytest.raises(ValueError, match="the field `blocks` alone"):
        RuntimeSession(made)


def test_6_1_inference_keeps_the_declaration_of_the_cache() -> None:
    """Rule 6.5.9; S219."""
    made = model(scalar("INT8"), scalar("INT8"))
    declared = s.struct(
        blocks=s.sequence(
            s.struct(
                start=s.tensor([], s.INT64),
                length=s.tensor([], s.INT64),
                key=s.tensor([1, 2, 4, 3]),
                value=s.tensor([1, 2, 4, 5]),
            )
        )
    )
    made.graph.input[0].type.CopyFrom(declared)
    made.graph.input[1].CopyFrom(helper.make_tensor_value_info("indices", 7, ["n"]))
    del made.graph.output[0]
    made.graph.node.append(helper.make_node("Identity", ["out"], ["same"]))
    made.graph.output.append(helper.make_value_info("same", declared))
    verify_model(made)
    inferred = onnx.shape_inference.infer_shapes(made)
    found = {info.name: info.type for info in inferred.graph.value_info}
    assert found["out"] == declared
    cache = s.cache_message(2)
    with pytest.raises(ValueError, match="cache"):
        run(made, cache, [0])


def test_6_5_states_keep_converted_pages_and_declared_capacities() -> None:
    """Each step converts one more page; pages of other formats stay logical FLOAT, what was kept stays where it was.

    Rules 6.5.6, 6.5.7, 6.5.8, 6.5.10; S213, S215, S217, S218.
    """
    nodes = [helper.make_node("QuantizePagedCache", ["past", *NAMES[1:]], ["present"], domain="ai.rt")]
    page = s.struct(
        start=s.tensor([], s.INT64),
        length=s.tensor([], s.INT64),
        key=s.tensor([2, 3, 4, 5]),
        value=s.tensor([2, 3, 4, 3]),
    )
    declared = s.struct(blocks=s.sequence(page))
    parameters = {"key_scale": 0.25, "key_zero": 0, "value_scale": 0.125, "value_zero": 0}
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_value_info("past", declared), helper.make_tensor_value_info("indices", 7, ["n"])],
        [helper.make_value_info("present", declared)],
        initializer=[
            helper.make_tensor(name, 1 if "scale" in name else p.CODES["INT2"], [], [value])
            for name, value in parameters.items()
        ],
    )
    binding = graph.persistent_bindings.add()
    binding.input_name, binding.output_name = "past", "present"
    made = helper.make_model(graph, opset_imports=IMPORTS, ir_version=10)
    cache = p.random_cache(
        np.random.default_rng(6), 3, ["FLOAT16", "FLOAT"], 0, batch=2, heads=3, capacity=4, key_width=5, value_width=3
    )
    state = refeed.PersistentValueState(made, {"past": cache})
    held = [addresses(cache)]
    for index in (2, 0, 1):
        out = state.run({"indices": np.array([index])})["present"]
        assert p.format_of(out.blocks[index], "key") == "INT2"
        held.append(addresses(out))
        kept = [at for at in range(3) if at != index]
        assert [held[-1][at] for at in kept] == [held[-2][at] for at in kept]
    before = state.values["past"]
    with pytest.raises(ValueError, match="expected 0 to 2, got 3"):
        state.run({"indices": np.array([0, 3])})
    assert addresses(state.values["past"]) == addresses(before)


def test_6_5_conversions_in_a_row_and_an_unknown_target() -> None:
    """INT4, INT8, FLOAT16, UINT2, and a target that there is not, after which the cache is what it was.

    Rules 6.5.4, 6.5.8; S214.
    """
    cache = p.random_cache(np.random.default_rng(7), 1, ["FLOAT"])
    expected = {part: p.decoded(cache.blocks[0], part) for part in ("key", "value")}
    for target in ("INT4", "INT8", "FLOAT16", "UINT2"):
        cache = run(model(scalar(target), scalar(target), (0.25, 0.25)), cache, [0])
        for part, rows in expected.items():
            if target in p.CODES:
                low, high = p.code_range(target)
                rows = np.clip(np.rint(rows / 0.25), low, high) * 0.25
            expected[part] = rows
            np.testing.assert_array_equal(p.decoded(cache.blocks[0], part), rows)
    before = cache.SerializeToString()
    with pytest.raises(ValueError, match="QuantizePagedCache"):
        run(model(helper.make_tensor("", onnx.TensorProto.INT16, [], [0]), scalar("INT8")), cache, [0])
    assert cache.SerializeToString() == before


def test_6_5_importing_the_runtime_registers_it() -> None:
    context = RuntimeContext()
    context.put_value("cache", s.cache_message(2))
    context.set("indices", tensor_from_proto(numpy_helper.from_array(np.array([1]))))
    RuntimeSession(model(scalar("INT8"), scalar("UINT8", 128))).run(context)
    assert isinstance(context.get_value("out"), onnx.PagedCacheProto)


def test_6_2_shared_references_go_through_with_their_set_and_are_refused_where_they_are_chosen() -> None:
    """Rules 6.2.5, 6.2.8; S223, S229, S251."""
    made = model(scalar("INT8"), scalar("INT8"))
    storage = runtime.make_affine_quantization_type(p.CODES["INT4"], 8, 8)
    logical = helper.make_tensor_type_proto(p.FLOAT, [1, 1, 2, 4])
    runtime.add_quantization_parameters(made, "set", storage, logical, scales=np.array([0.25]))
    rows = np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 1, 2, 4)
    shared = runtime.quantize_tensor_shared(rows, made, "set")
    cache = onnx.PagedCacheProto()
    for _ in range(2):
        block = p.add_page(cache, 2)
        block.encoded_key.CopyFrom(shared.encoded)
        p.set_dense(block, "value", rows)
    cache.blocks[1].ClearField("encoded_key")
    p.set_dense(cache.blocks[1], "key", rows)
    out = run(made, cache, [1])
    assert out.blocks[0] == cache.blocks[0]
    assert p.format_of(out.blocks[1], "key") == "INT8"
    with pytest.raises(ValueError, match=r"blocks\[0\]\.key\.payload: expected an affine encoding"):
        run(made, cache, [0])
    # A set that the model has not, and a model that has none.
    cache.blocks[0].encoded_key.parameter_ref = "other"
    with pytest.raises(refeed.ValueTypeError, match=r"blocks\[0\]\.encoded_key\.parameter_ref"):
        run(made, cache, [])
    cache.blocks[0].encoded_key.parameter_ref = "set"
    with pytest.raises(refeed.ValueTypeError, match=r"blocks\[0\]\.encoded_key\.parameter_ref"):
        run(model(scalar("INT8"), scalar("INT8")), cache, [])
