"""`refeed.onnx.builder.GraphBuilder`."""

import functools
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnx.utils
import onnxruntime
import pytest
import refeed
from onnx.backend.test.case.node import collect_testcases
from refeed.onnx import (
    GraphProto,
    ModelProto,
    PagedCacheProto,
    PersistentBindingProto,
    StructTypeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)
from refeed.onnx.builder import GraphBuilder

FLOAT = TensorProto.FLOAT


def official(model: ModelProto) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.ParseFromString(model.SerializeToString())
    return made


def bound() -> GraphBuilder:
    """Return ``past + delta = present``, bound."""
    builder = GraphBuilder("accumulate")
    builder.set_opset_version("", 18)
    past = builder.make_input("past", FLOAT, ["n"])
    delta = builder.make_input("delta", FLOAT, ["n"])
    builder.make_node("Add", [past, delta], "present")
    builder.make_output("present")
    builder.make_persistent_binding(PersistentBindingProto(input_name="past", output_name="present"))
    return builder


def pages(name: str = "") -> PagedCacheProto:
    cache = PagedCacheProto(name=name) if name else PagedCacheProto()
    block = cache.blocks.add()
    block.start, block.length = 0, 1
    block.key.CopyFrom(numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)))
    block.value.CopyFrom(numpy_helper.from_array(np.arange(10, dtype=np.float32).reshape(1, 1, 2, 5)))
    return cache


def listing(graph: Any) -> list[str]:
    return [f"{n.op_type}({', '.join(n.input)}) -> {', '.join(n.output)}" for n in graph.node]


@functools.cache
def node_cases() -> tuple[Any, ...]:
    with warnings.catch_warnings():
        # Their inputs and outputs are computed too, with overflows.
        warnings.simplefilter("ignore")
        return tuple(collect_testcases(None))


# From nothing.


def test_a_model_from_nothing_runs() -> None:
    builder = bound()
    model = builder.load()
    state = refeed.PersistentValueState(model, {"past": np.array([1, 2], np.float32)})
    for expected in ([2.0, 4.0], [3.0, 6.0]):
        present = state.run({"delta": np.array([1, 2], np.float32)})["present"]
        np.testing.assert_array_equal(np.from_dlpack(present), expected)
    exported = builder.to_onnx()
    assert isinstance(exported, ModelProto)
    assert exported.ir_version == 8
    # The output's type was found.
    dims = exported.graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_param for dim in dims] == ["n"]
    onnx.checker.check_model(official(exported))


def test_arguments_of_nodes() -> None:
    builder = GraphBuilder("nodes")
    x = builder.make_input("x", FLOAT, [4, "n"])
    k = builder.make_initializer(np.array([2], np.int64), "k")
    assert builder.make_node("TopK", [x, k], axis=-1) == ["TopK", "TopK_1"]
    assert builder.make_node("Split", [x], 2, attributes={"axis": 0, "num_outputs": 2}) == ["Split", "Split_1"]
    assert builder.make_node("Clip", [x, None, builder.make_constant(np.array(6, np.float32))], [""]) == ["Clip"]
    assert builder.make_node("Dropout", [x], ["kept", None]) == ["kept", ""]
    attribute = helper.make_attribute("alpha", 0.5)
    assert builder.make_node("LeakyRelu", [x], "leaky", name="named", attributes=[attribute]) == ["leaky"]
    assert builder.producer("leaky") == 5
    assert builder.producer("x") is None
    nodes = builder.build_graph().node
    assert [*nodes[3].input] == ["x", "", nodes[2].output[0]]
    assert nodes[5].name == "named"
    assert nodes[5].attribute[0].f == 0.5
    assert {a.name: a.i for a in nodes[1].attribute} == {"axis": 0, "num_outputs": 2}
    builder.make_output("leaky")
    builder.to_onnx()
    with pytest.raises(ValueError, match="expected 1 or more, got 0"):
        builder.make_node("Split", [x], 0)
    with pytest.raises(refeed.ModelError, match="`nowhere` is defined nowhere"):
        builder.make_node("Neg", ["nowhere"])
    with pytest.raises(refeed.ModelError, match="taken by node 4"):
        builder.make_node("Neg", [x], "kept")
    with pytest.raises(TypeError, match=r"attributes\[0\]: expected AttributeProto, got"):
        builder.make_node("Neg", [x], attributes=[TensorProto()])  # type: ignore[list-item]


def test_declarations() -> None:
    builder = GraphBuilder("declared")
    info = helper.make_tensor_value_info("whole", FLOAT, [3])
    assert builder.make_input(info) == "whole"
    assert builder.make_input("typed", helper.make_tensor_type_proto(FLOAT, None)) == "typed"
    assert builder.make_input("open", FLOAT) == "open"
    assert builder.make_output("whole", FLOAT, [3]) == "whole"
    with pytest.raises(refeed.ModelError, match="expected a type"):
        builder.make_input("untyped")
    with pytest.raises(TypeError, match="no elem_type"):
        builder.make_input(info, FLOAT)
    with pytest.raises(TypeError, match="a shape needs"):
        builder.make_input("shaped", None, [3])
    with pytest.raises(TypeError, match="states its shape"):
        builder.make_input("shaped", helper.make_tensor_type_proto(FLOAT, None), [3])
    with pytest.raises(TypeError, match=r"name: expected ValueInfoProto, got"):
        builder.make_input(TensorProto())  # type: ignore[arg-type]
    assert builder.remove_output("whole").name == "whole"
    assert builder.remove_input("open").name == "open"
    assert [each.name for each in builder.build_graph().input] == ["whole", "typed"]
    assert repr(builder) == "<GraphBuilder 'declared': 2 inputs, 0 nodes, 0 outputs>"


def test_names() -> None:
    builder = bound()
    assert builder.fresh_name("past") == "past_1"
    assert builder.fresh_name("past") == "past_2"
    assert builder.has_name("past_2")
    assert not builder.has_value("past_2")
    assert builder.has_value("present")
    assert builder.opset_version("ai.onnx") == 18
    assert builder.opset_version("mine") is None
    builder.set_opset_version("mine", 3)
    assert builder.opset_versions() == {"": 18, "mine": 3}


# Bindings and caches.


def test_bindings_go_through() -> None:
    """S130."""
    builder = bound()
    (held,) = builder.persistent_bindings()
    assert (held.input_name, held.output_name) == ("past", "present")
    builder.rename_values({"past": "state.in", "present": "state.out"})
    for edit in (builder.remove_identity_nodes, builder.remove_unused_nodes, builder.remove_duplicate_nodes):
        assert edit() == 0
    model = builder.to_model()
    again = GraphBuilder(model).to_onnx()
    assert again == model
    (held,) = again.graph.persistent_bindings
    assert (held.input_name, held.output_name) == ("state.in", "state.out")
    assert [each.output_name for each in builder.build_graph().persistent_bindings] == ["state.out"]


def test_exports_that_would_lose_bindings_are_refused() -> None:
    """S132."""
    builder = bound()
    with pytest.raises(refeed.ModelError, match="standard ONNX: persistent binding `past -> present`"):
        builder.to_standard_model()
    with pytest.raises(refeed.ModelError, match="FunctionProto: persistent binding `past -> present`"):
        builder.to_onnx("function")
    assert builder.remove_persistent_binding("past").output_name == "present"
    onnx.checker.check_model(official(builder.to_standard_model()))
    function = builder.to_onnx("function")
    assert (function.domain, function.name, [*function.input]) == ("local", "accumulate", ["past", "delta"])
    graph = builder.to_onnx("graph")
    assert isinstance(graph, GraphProto)
    with pytest.raises(ValueError, match="got 'text'"):
        builder.to_onnx("text")  # type: ignore[call-overload]


def test_broken_bindings_are_refused() -> None:
    """S131."""
    builder = bound()
    builder.make_persistent_binding(PersistentBindingProto(input_name="past", output_name="present"))
    with pytest.raises(ValueError, match="binding"):
        builder.to_onnx()
    model = bound().to_onnx()
    model.graph.input[0].name = "renamed"
    model.graph.node[0].input[0] = "renamed"
    with pytest.raises(ValueError, match="input/output"):
        GraphBuilder(model)
    model.graph.persistent_bindings[0].input_name = "renamed"
    GraphBuilder(model).to_onnx()
    builder = bound()
    builder.remove_output("present")
    with pytest.raises(ValueError, match="input/output"):
        builder.to_onnx()


def test_paged_caches() -> None:
    """S235, S239."""
    builder = GraphBuilder("cached")
    category = TypeProto(struct_type=StructTypeProto())
    builder.make_input(ValueInfoProto(name="past", type=category))
    builder.make_node("Identity", ["past"], "present")
    builder.make_output(ValueInfoProto(name="present", type=category))
    assert builder.make_paged_cache_initializer(pages("past")) == "past"
    assert builder.make_paged_cache_initializer(pages()) == "paged_cache_initializer"
    with pytest.raises(refeed.ModelError, match="initializer `past` is given more than once"):
        builder.make_paged_cache_initializer(pages("past"))
    assert [each.name for each in builder.paged_cache_initializers()] == ["past", "paged_cache_initializer"]
    assert builder.remove_unused_initializers() == 1
    model = builder.to_model()
    assert model.graph.paged_cache_initializer[0] == pages("past")
    assert GraphBuilder(model).to_onnx() == model
    with pytest.raises(refeed.ModelError, match="standard ONNX: paged cache initializer `past`, struct type of value"):
        builder.to_standard_model()
    builder.rename_value("past", "cache")
    assert builder.to_model().graph.paged_cache_initializer[0].name == "cache"


def test_struct_types_and_functions() -> None:
    builder = bound()
    declared = StructTypeProto(name="Pair", type_id=7)
    declared.array.dimension = 2
    declared.array.element_type.CopyFrom(helper.make_tensor_type_proto(TensorProto.UINT8, []))
    assert builder.make_struct_type(declared) == 7
    (held,) = builder.struct_types()
    assert held == declared
    function = helper.make_function(
        "mine", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 18)]
    )
    builder.make_function(function)
    builder.set_opset_version("mine", 1)
    assert builder.make_node("Twice", ["present"], domain="mine") == ["Twice"]
    builder.make_output("Twice", FLOAT, ["n"])
    model = builder.to_onnx()
    assert model.functions[0] == function
    assert model.struct_types[0] == declared
    assert builder.encoded_initializers() == []


def test_payloads_are_shared() -> None:
    weight = np.arange(64, dtype=np.float32)
    raw = weight.tobytes()
    address = np.frombuffer(raw, np.float32).ctypes.data
    builder = GraphBuilder("shared")
    builder.make_input("x", FLOAT, [64])
    builder.make_initializer(TensorProto(name="w", data_type=FLOAT, dims=[64], raw_data=raw))
    builder.make_node("Add", ["x", "w"], "sum")
    builder.make_node("Identity", ["sum"], "y")
    builder.make_output("y")
    builder.rename_value("w", "weight")
    passes(builder)
    merged = GraphBuilder(builder.to_onnx())
    merged.merge(builder, [("y", "x")], prefix="second/")
    for tensor in merged.extract(["x"], ["second/y"]).to_onnx().graph.initializer:
        array = numpy_helper.to_array(tensor, copy=False)
        np.testing.assert_array_equal(array, weight)
        assert array.ctypes.data == address
    weight.flags.writeable = False
    for copy in (False, True):
        builder = GraphBuilder("adopted")
        builder.make_output(builder.make_initializer(weight, "w", copy=copy))
        array = numpy_helper.to_array(builder.to_onnx().graph.initializer[0], copy=False)
        assert (array.ctypes.data == weight.ctypes.data) == (not copy)


# What a builder starts from.


def test_sources(tmp_path: pathlib.Path) -> None:
    model = bound().to_onnx()
    wire = model.SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(wire)
    sources: list[Any] = [model, wire, path, refeed.load(wire)]
    for source in sources:
        assert GraphBuilder(source).to_onnx().SerializeToString() == wire
    plain = bound()
    plain.remove_persistent_binding("past")
    expected = plain.to_onnx()
    assert GraphBuilder(official(expected)).to_onnx() == expected
    with pytest.raises(TypeError, match="expected a path, bytes"):
        GraphBuilder(3)  # type: ignore[arg-type]


def test_official_messages_are_taken() -> None:
    builder = GraphBuilder("official")
    builder.make_input(onnx.helper.make_tensor_value_info("x", FLOAT, [2]))
    builder.make_initializer(onnx.numpy_helper.from_array(np.ones(2, np.float32), "w"))
    builder.make_node("Add", ["x", "w"], "y")
    builder.make_output("y")
    assert builder.load().run({"x": np.ones(2, np.float32)})["y"].shape == (2,)


def test_node_models_go_through_unchanged() -> None:
    through = 0
    for case in node_cases():
        wire = case.model.SerializeToString(deterministic=True)
        builder = GraphBuilder(wire)
        assert official(builder.to_onnx()) == case.model, case.name
        through += 1
    assert through > 1_800


# Edits, against other programs.


def passes(builder: GraphBuilder) -> int:
    return (
        builder.remove_identity_nodes()
        + builder.remove_duplicate_nodes()
        + builder.remove_unused_nodes()
        + builder.remove_unused_initializers()
    )


def test_passes_keep_the_results_of_expanded_models() -> None:
    """The expansions of functions have many nodes, equal constants among them."""
    compared = changed = 0
    for case in node_cases():
        if not case.name.endswith("_expanded") or len(case.model.graph.node) < 4:
            continue
        builder = GraphBuilder(case.model.SerializeToString())
        removed = passes(builder)
        if not removed or changed >= 60:
            continue
        changed += 1
        after = official(builder.to_onnx())
        assert len(after.graph.node) < len(case.model.graph.node) or removed
        onnx.checker.check_model(after)
        names = [value.name for value in case.model.graph.input]
        for inputs, _ in case.data_sets:
            feeds = dict(zip(names, inputs, strict=False))
            results = []
            for model in (case.model, after):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    results.append(onnx.reference.ReferenceEvaluator(model).run(None, feeds))
            for before, now in zip(*results, strict=True):
                np.testing.assert_array_equal(before, now, err_msg=case.name)
            compared += 1
    assert changed > 40
    assert compared >= changed


def feeds_of(path: pathlib.Path) -> dict[str, Any]:
    """Return inputs for a model of the test data: small and of the declared types, symbols being 2."""
    session = onnxruntime.InferenceSession(path)
    kinds = {
        "tensor(float)": np.float32,
        "tensor(int64)": np.int64,
        "tensor(int32)": np.int32,
        "tensor(bool)": np.bool_,
    }
    random = np.random.default_rng(5)
    feeds: dict[str, Any] = {}
    for value in session.get_inputs():
        shape = [dim if isinstance(dim, int) else 2 for dim in value.shape]
        feeds[value.name] = random.integers(0, 2, shape).astype(kinds.get(value.type, np.float32))
    return feeds


def run(model: bytes, feeds: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    results: list[Any] = onnxruntime.InferenceSession(model, options).run(None, feeds)
    return results


def test_passes_keep_the_results_of_exported_models(cases: pathlib.Path) -> None:
    compared = 0
    for path in sorted(cases.glob("*/model.onnx")):
        builder = GraphBuilder(path)
        before = len(builder.build_graph().node)
        removed = passes(builder)
        after = builder.to_onnx().SerializeToString()
        refeed.load(after)
        try:
            feeds = feeds_of(path)
            expected = run(path.read_bytes(), feeds)
        except Exception:  # noqa: S112 - inputs of these shapes do not go with each other
            continue
        assert removed >= before - len(builder.build_graph().node)
        for then, now in zip(expected, run(after, feeds), strict=True):
            np.testing.assert_array_equal(then, now, err_msg=str(path))
        compared += 1
    assert compared >= 5


def made_values(model: onnx.ModelProto) -> list[str]:
    """Return the values of a declared type that nodes make: the onnx package's cuts leave out initializers."""
    made = {name for each in model.graph.node for name in each.output}
    return [value.name for value in model.graph.value_info if value.name in made]


def test_cuts_have_the_nodes_of_the_onnx_package(cases: pathlib.Path) -> None:
    compared = 0
    for path in sorted(cases.glob("*/model.onnx")):
        model = onnx.load(path)
        if any(a.HasField("g") for n in model.graph.node for a in n.attribute):
            continue
        typed = onnx.shape_inference.infer_shapes(model)
        builder = GraphBuilder(typed.SerializeToString())
        inner = made_values(typed)
        inputs = [value.name for value in model.graph.input]
        for name in inner[:: max(1, len(inner) // 3)]:
            theirs = onnx.utils.Extractor(typed).extract_model(inputs, [name])
            mine = official(builder.extract(inputs, [name]).to_onnx())
            assert [*mine.graph.node] == [*theirs.graph.node]
            assert [*mine.graph.initializer] == [*theirs.graph.initializer]
            assert [*mine.graph.input] == [*theirs.graph.input]
            assert [*mine.graph.output] == [*theirs.graph.output]
            assert [*mine.functions] == [*theirs.functions]
            compared += 1
    assert compared > 20


def test_a_model_merged_with_itself_computes_twice() -> None:
    builder = GraphBuilder("affine")
    builder.make_input("x", FLOAT, [2, 3])
    weight = builder.make_initializer(np.arange(3, dtype=np.float32), "w")
    builder.make_node("Mul", ["x", weight], "m")
    builder.make_node("Add", ["m", weight], "y")
    builder.make_output("y")
    merged = GraphBuilder(builder.to_onnx())
    merged.merge(merged, [("y", "x")], prefix="second/")
    with pytest.raises(refeed.ModelError, match="share names of values: `m`, `w`"):
        merged.merge(builder, [("second/y", "x")])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    w = np.arange(3, dtype=np.float32)
    (result,) = run(official_low(merged), {"x": x})
    np.testing.assert_array_equal(result, (x * w + w) * w + w)


def official_low(builder: GraphBuilder) -> bytes:
    """Return a model of an opset that onnxruntime reads, whatever its version."""
    builder.set_opset_version("", 18)
    builder.set_ir_version(8)
    return builder.to_onnx().SerializeToString()


def test_replacements() -> None:
    builder = bound()
    builder.make_node("Neg", ["present"], "negative")
    builder.make_output("negative")
    builder.make_node("Abs", ["present"], "positive")
    assert builder.replace_all_uses("present", "positive") == 1
    assert listing(builder.build_graph()) == [
        "Add(past, delta) -> present",
        "Abs(present) -> positive",
        "Neg(positive) -> negative",
    ]
    builder.replace_node(2, helper.make_node("Exp", ["positive"], []))
    builder.replace_nodes([1, 2], [helper.make_node("Relu", ["present"], ["negative"])])
    assert listing(builder.build_graph()) == ["Add(past, delta) -> present", "Relu(present) -> negative"]
    with pytest.raises(refeed.ModelError, match="a graph output reads it"):
        builder.remove_node(1)
    builder.to_onnx()


def test_a_refused_edit_changes_nothing() -> None:
    builder = bound()
    before = builder.build_graph()
    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: builder.rename_value("nowhere", "x"), "has no value `nowhere`"),
        (lambda: builder.rename_value("past", "delta"), "taken by another value"),
        (lambda: builder.extract(["delta"], ["present"]), "need values that are no inputs of the cut: `past`"),
        (lambda: builder.extract(["past", "delta"], ["delta"]), "would lose its output"),
        (lambda: builder.remove_input("past"), "\\(Add\\).*input.*reads it"),
        (lambda: builder.merge(GraphBuilder("other"), [("past", "x")]), "has no input `x`"),
        (lambda: builder.set_opset_version("", 0), "expected 1 or more, got 0"),
        (lambda: builder.set_ir_version(99), "expected 1 to 14, got 99"),
    ]
    for edit, text in refused:
        with pytest.raises(refeed.ModelError, match=text):
            edit()
    assert builder.build_graph() == before
