"""`refeed.onnx.compose` and `refeed.onnx.utils` against the onnx package's own, on the same models."""

import functools
import itertools
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import onnx
import onnx.compose
import onnx.utils
import pytest
import refeed
from onnx.backend.test.case.node import collect_testcases
from refeed.onnx import ModelProto, PagedCacheProto, PersistentBindingProto, compose, helper, utils

FLOAT = onnx.TensorProto.FLOAT


def ours(message: Any) -> Any:
    """Turn an official message into one of refeed's."""
    made = getattr(refeed.onnx, type(message).__name__)()
    made.ParseFromString(message.SerializeToString())
    return made


def official(message: Any) -> Any:
    """Turn one of refeed's messages into an official one."""
    made = getattr(onnx, type(message).__name__)()
    made.ParseFromString(message.SerializeToString())
    return made


def once_each(model: onnx.ModelProto) -> onnx.ModelProto:
    """Drop repeated opset imports, which the onnx package's merge makes and its own rules forbid."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.opset_import[:]
    held: dict[str, Any] = {entry.domain: entry for entry in reversed(model.opset_import)}
    made.opset_import.extend(held[domain] for domain in dict.fromkeys(e.domain for e in model.opset_import))
    return made


@functools.cache
def node_models() -> tuple[tuple[str, onnx.ModelProto], ...]:
    with warnings.catch_warnings():
        # Their inputs and outputs are computed too, with overflows.
        warnings.simplefilter("ignore")
        return tuple((case.name, case.model) for case in collect_testcases(None) if case.model is not None)


def model_files(cases: pathlib.Path) -> list[pathlib.Path]:
    return sorted(cases.glob("*/model.onnx"))


def graph_of(
    nodes: list[Any], inputs: list[str], outputs: list[str], name: str = "g", **keywords: Any
) -> onnx.GraphProto:
    make = onnx.helper.make_tensor_value_info
    first, second = ([make(each, FLOAT, ["n", 3]) for each in names] for names in (inputs, outputs))
    return onnx.helper.make_graph(nodes, name, first, second, **keywords)


def model_of(graph: onnx.GraphProto, **keywords: Any) -> onnx.ModelProto:
    opsets = [onnx.helper.make_opsetid("", 18)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10, **keywords)


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return onnx.helper.make_node(op_type, inputs.split(), outputs.split(), **attributes)


def outcome(work: Callable[[], Any]) -> Any:
    """Return what a call gives, or that it is refused as a value."""
    try:
        return work()
    except (ValueError, onnx.checker.ValidationError) as refused:
        return ("refused", isinstance(refused, ValueError))


# Prefixes.


def test_prefixes_of_every_node_model() -> None:
    compared = 0
    for name, model in node_models():
        theirs = onnx.compose.add_prefix(model, "p/")
        assert official(compose.add_prefix(ours(model), "p/")) == theirs, name
        compared += 1
    assert compared > 1_800


@pytest.mark.parametrize("flag", ["nodes", "edges", "inputs", "outputs", "initializers", "value_infos", "functions"])
def test_each_flag_of_prefixes(flag: str, cases: pathlib.Path) -> None:
    models = [model for _, model in node_models()[::40] if not any_subgraph(model)]
    models += [onnx.load(path, load_external_data=False) for path in model_files(cases)[:2]]
    for model in models:
        flags: dict[str, Any] = {f"rename_{flag}": False}
        theirs = onnx.compose.add_prefix(model, "p/", **flags)
        assert official(compose.add_prefix(ours(model), "p/", **flags)) == theirs
        only: dict[str, Any] = {
            f"rename_{each}": each == flag
            for each in ("nodes", "edges", "inputs", "outputs", "initializers", "value_infos", "functions")
        }
        theirs = onnx.compose.add_prefix(model, "p/", **only)
        assert official(compose.add_prefix(ours(model), "p/", **only)) == theirs


def any_subgraph(model: onnx.ModelProto) -> bool:
    return any(a.HasField("g") or len(a.graphs) for n in model.graph.node for a in n.attribute)


def test_prefixes_of_exported_models(cases: pathlib.Path) -> None:
    files = model_files(cases)
    assert len(files) > 10
    for path in files:
        model = onnx.load(path, load_external_data=False)
        if any_subgraph(model):
            continue
        theirs = onnx.compose.add_prefix(model, "p/")
        assert official(compose.add_prefix(ours(model), "p/")) == theirs, path


def test_prefixes_change_in_place_or_not_at_all() -> None:
    graph = ours(graph_of([node("Neg", "x", "y")], ["x"], ["y"]))
    before = graph.SerializeToString()
    renamed = compose.add_prefix_graph(graph, "p_")
    assert graph.SerializeToString() == before
    assert (renamed.input[0].name, renamed.node[0].output[0]) == ("p_x", "p_y")
    assert compose.add_prefix_graph(graph, "p_", inplace=True) is graph
    assert graph == renamed
    model = ours(model_of(graph_of([node("Neg", "x", "y")], ["x"], ["y"])))
    assert compose.add_prefix(model, "p_", inplace=True) is model
    assert model.graph == renamed


def test_a_name_map_is_used_and_filled() -> None:
    graph = graph_of([node("Add", "x far", "a"), node("Neg", "a", "y")], ["x", "far"], ["y"])
    maps: list[dict[str, str]] = [{"far": "near"}, {"far": "near"}]
    theirs = onnx.compose.add_prefix_graph(graph, "p_", rename_inputs=False, name_map=maps[0])
    assert official(compose.add_prefix_graph(ours(graph), "p_", rename_inputs=False, name_map=maps[1])) == theirs
    assert maps[0] == maps[1] == {"far": "near", "a": "p_a", "y": "p_y"}


def branches(**keywords: Any) -> onnx.NodeProto:
    """Return an `If` whose branches read `a` and `w` from outside; the second has its own `a`."""
    first = graph_of([node("Add", "a w", "t")], [], ["t"], "then")
    second = graph_of([node("Neg", "w", "a"), node("Neg", "a", "e")], [], ["e"], "else")
    return node("If", "cond", "y", then_branch=first, else_branch=second, **keywords)


def branching() -> onnx.ModelProto:
    graph = graph_of([node("Neg", "x", "a"), branches()], ["x"], ["y"])
    graph.input.append(onnx.helper.make_tensor_value_info("cond", onnx.TensorProto.BOOL, []))
    graph.initializer.append(onnx.helper.make_tensor("w", FLOAT, [3], [1.0, 2.0, 4.0]))
    return model_of(graph)


@pytest.mark.parametrize("rename_nodes", [True, False])
def test_nested_graphs_follow_what_they_take_from_outside(rename_nodes: bool) -> None:
    # The onnx package renames an initializer, and not the nested graph that reads it.
    renamed = official(compose.add_prefix(ours(branching()), "p_", rename_nodes=rename_nodes))
    refeed.load(renamed)
    graphs = {attribute.name: attribute.g for attribute in renamed.graph.node[1].attribute}
    first, second = graphs["then_branch"], graphs["else_branch"]
    own = "p_" if rename_nodes else ""
    assert [*first.node[0].input] == ["p_a", "p_w"]
    assert [*second.node[0].input, *second.node[0].output] == ["p_w", f"{own}a"]
    assert [*second.node[1].input, second.output[0].name] == [f"{own}a", f"{own}e"]


def test_functions_are_renamed_where_they_are_called() -> None:
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("mine", 1)]
    body = [node("Relu", "x", "y")]
    function = onnx.helper.make_function("mine", "Relu", ["x"], ["y"], body, opsets)
    calls = [node("Relu", "x", "a", domain="mine"), node("Relu", "a", "y")]
    model = onnx.helper.make_model(
        graph_of(calls, ["x"], ["y"]), functions=[function], opset_imports=opsets, ir_version=10
    )
    renamed = compose.add_prefix(ours(model), "p_")
    # An operator of the same name in another domain is another operator.
    assert [each.op_type for each in renamed.graph.node] == ["p_Relu", "Relu"]
    assert (renamed.functions[0].name, renamed.functions[0].node[0].op_type) == ("p_Relu", "Relu")
    refeed.load(official(renamed))


# Merges.


def fits(first: onnx.ValueInfoProto, second: onnx.ValueInfoProto) -> bool:
    kinds = [value.type.WhichOneof("value") for value in (first, second)]
    return kinds == ["tensor_type"] * 2 and first.type == second.type


def pairs_that_fit() -> list[tuple[str, onnx.ModelProto, str, onnx.ModelProto]]:
    """Return node models whose first output can be the first input of another one, each once as the first."""
    by_input: dict[bytes, list[tuple[str, onnx.ModelProto]]] = {}
    for name, model in node_models():
        if len(model.graph.input):
            by_input.setdefault(model.graph.input[0].type.SerializeToString(), []).append((name, model))
    found = []
    for index, (name, model) in enumerate(node_models()):
        if not len(model.graph.output):
            continue
        others = [
            (other, second)
            for other, second in by_input.get(model.graph.output[0].type.SerializeToString(), [])
            if fits(model.graph.output[0], second.graph.input[0]) and same_versions(model, second)
        ]
        if others:
            found.append((name, model, *others[index % len(others)]))
    return found


def same_versions(first: onnx.ModelProto, second: onnx.ModelProto) -> bool:
    versions = {entry.domain: entry.version for entry in first.opset_import}
    agree = all(versions.get(entry.domain, entry.version) == entry.version for entry in second.opset_import)
    return agree and first.ir_version == second.ir_version


def test_node_models_merged_pairwise() -> None:
    pairs = pairs_that_fit()
    assert len(pairs) > 500
    merged = 0
    for name, first, other, second in pairs:
        io_map = [(first.graph.output[0].name, second.graph.input[0].name)]
        keywords: dict[str, Any] = {"io_map": io_map, "prefix1": "a_", "prefix2": "b_"}
        theirs = outcome(lambda: onnx.compose.merge_models(first, second, **keywords))  # noqa: B023
        mine = outcome(lambda: compose.merge_models(ours(first), ours(second), **keywords))  # noqa: B023
        if isinstance(theirs, tuple):
            continue
        merged += 1
        assert official(mine) == once_each(theirs), (name, other)
    assert merged > 500


def three() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    first = graph_of(
        [node("Add", "x0 x1", "y0"), node("Mul", "x1 x2", "y1"), node("Neg", "y0", "y2")],
        ["x0", "x1", "x2"],
        ["y0", "y1", "y2"],
        "first",
        doc_string="of the first",
        value_info=[onnx.helper.make_tensor_value_info("y1", FLOAT, ["n", 3])],
    )
    second = graph_of(
        [node("Sub", "z0 z1", "v0"), node("Exp", "z2", "v1"), node("Mul", "v0 w", "v2")],
        ["z0", "z1", "z2"],
        ["v1", "v2"],
        "second",
        initializer=[onnx.helper.make_tensor("w", FLOAT, [3], [1, 2, 3])],
    )
    return model_of(first, producer_name="one"), model_of(second)


IO_MAPS: list[list[tuple[str, str]]] = [
    [],
    [("y0", "z0")],
    [("y0", "z0"), ("y1", "z1"), ("y2", "z2")],
    [("y0", "z0"), ("y0", "z1")],
]


@pytest.mark.parametrize("io_map", IO_MAPS)
@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"name": "named", "doc_string": "said"},
        {"prefix1": "p_"},
        {"prefix2": "q_"},
        {"inputs": ["x0", "x1", "z1", "z2"], "outputs": ["v2"]},
        {"outputs": ["v1", "y1"]},
        {"outputs": ["y0", "v1", "v2"]},
    ],
)
def test_arguments_of_merges(io_map: list[tuple[str, str]], keywords: dict[str, Any]) -> None:
    first, second = three()
    keywords = {"io_map": io_map, **keywords}
    theirs = outcome(lambda: onnx.compose.merge_graphs(first.graph, second.graph, **keywords))
    mine = outcome(lambda: compose.merge_graphs(ours(first.graph), ours(second.graph), **keywords))
    assert isinstance(theirs, tuple) == isinstance(mine, tuple)
    assert isinstance(theirs, tuple) or official(mine) == theirs
    theirs = outcome(lambda: onnx.compose.merge_models(first, second, **keywords))
    mine = outcome(lambda: compose.merge_models(ours(first), ours(second), **keywords))
    assert isinstance(theirs, tuple) == isinstance(mine, tuple)
    assert isinstance(theirs, tuple) or official(mine) == once_each(theirs)


def test_exported_models_merged(cases: pathlib.Path) -> None:
    # An adapter behind the logits of every decoder.
    adapter = graph_of([node("Identity", "logits_in", "logits_out")], ["logits_in"], ["logits_out"], "adapter")
    merged = 0
    for path in model_files(cases):
        model = onnx.load(path)
        output = model.graph.output[0]
        second = onnx.helper.make_model(adapter, opset_imports=model.opset_import, ir_version=model.ir_version)
        second.graph.input[0].type.CopyFrom(output.type)
        second.graph.output[0].type.CopyFrom(output.type)
        keywords: dict[str, Any] = {"io_map": [(output.name, "logits_in")]}
        theirs = outcome(lambda: onnx.compose.merge_models(model, second, **keywords))  # noqa: B023
        if isinstance(theirs, tuple):
            continue
        assert official(compose.merge_models(ours(model), ours(second), **keywords)) == once_each(theirs), path
        merged += 1
    assert merged > 10


def test_refused_merges() -> None:
    first, second = three()
    checks: list[tuple[dict[str, Any], str]] = [
        ({"io_map": [("nowhere", "z0")]}, "`nowhere` is no output of g1"),
        ({"io_map": [("y0", "nowhere")]}, "`nowhere` is no input of g2"),
    ]
    for keywords, text in checks:
        with pytest.raises(refeed.ModelError, match=text):
            compose.merge_models(ours(first), ours(second), **keywords)
    with pytest.raises(ValueError, match="edge names in common: `x0`"):
        compose.merge_models(ours(first), ours(first), [])
    older = model_of(second.graph)
    older.ir_version = 9
    with pytest.raises(ValueError, match="IR versions: 10 and 9"):
        compose.merge_models(ours(first), ours(older), [])
    older = model_of(second.graph)
    older.opset_import[0].version = 17
    with pytest.raises(ValueError, match="versions of domain ``: 18 and 17"):
        compose.merge_models(ours(first), ours(older), [])
    other = model_of(second.graph)
    for model, author in ((first, "one"), (other, "two")):
        onnx.helper.set_model_props(model, {"author": author})
    with pytest.raises(ValueError, match="metadata `author`: `one` and `two`"):
        compose.merge_models(ours(first), ours(other), [])
    trained = model_of(second.graph)
    trained.training_info.add()
    with pytest.raises(ValueError, match="training steps"):
        compose.merge_models(ours(trained), ours(second), [], prefix1="p_")
    mine = ours(first.graph)
    for g1, g2 in ((mine, first.graph), (first.graph, mine), (first.graph, first.graph)):
        with pytest.raises(TypeError, match="expected GraphProto"):
            compose.merge_graphs(g1, g2, [])


def test_overlapping_names() -> None:
    first, second = three()
    second.graph.node[0].input[0] = "x0"
    second.graph.value_info.append(first.graph.value_info[0])
    first.graph.initializer.append(second.graph.initializer[0])
    for io_map in (None, [("y0", "x0")]):
        theirs = onnx.compose.check_overlapping_names(first.graph, second.graph, io_map)
        mine = compose.check_overlapping_names(ours(first.graph), ours(second.graph), io_map)
        assert [(category, sorted(names)) for category, names in mine] == [
            (category, sorted(names)) for category, names in theirs
        ]


# Expansion.


@pytest.mark.parametrize("dim_idx", [0, 1])
def test_expansion_of_every_node_model(dim_idx: int) -> None:
    compared = 0
    for name, model in node_models():
        outputs = model.graph.output
        made = {each for n in model.graph.node for each in n.output}
        concrete = all(
            o.name in made and o.type.HasField("tensor_type") and all(d.HasField("dim_value") for d in dims(o))
            for o in outputs
        )
        if not concrete or any_subgraph(model) or any(not o.type.tensor_type.HasField("shape") for o in outputs):
            continue
        theirs = onnx.compose.expand_out_dim(model, dim_idx)
        assert official(compose.expand_out_dim(ours(model), dim_idx)) == theirs, name
        compared += 1
    assert compared > 1_000


def dims(value: onnx.ValueInfoProto) -> Any:
    return value.type.tensor_type.shape.dim


def test_expansion_keeps_symbols_and_counts_from_the_end() -> None:
    graph = ours(graph_of([node("Neg", "x", "y"), node("Exp", "y", "z")], ["x"], ["y", "z"]))
    expanded = official(compose.expand_out_dim_graph(graph, -1))
    shapes = [[d.dim_param or d.dim_value for d in dims(o)] for o in expanded.output]
    assert shapes == [["n", 3, 1], ["n", 3, 1]]
    assert [[*n.input, *n.output] for n in expanded.node[:2]] == [
        ["x", "y_collapsed_dim_-1"],
        ["y_collapsed_dim_-1", "z_collapsed_dim_-1"],
    ]
    refeed.load(model_of(expanded))
    with pytest.raises(ValueError, match="no node makes output `x`"):
        compose.expand_out_dim_graph(ours(graph_of([], ["x"], ["x"])), 0)


# What refeed adds.


def feedback(prefix: str = "") -> ModelProto:
    model: ModelProto
    graph = graph_of([node("Add", f"{prefix}past {prefix}x", f"{prefix}present")], [], [])
    model = ours(model_of(graph))
    for names, values in (("past x", model.graph.input), ("present", model.graph.output)):
        for name in names.split():
            values.append(helper.make_tensor_value_info(prefix + name, FLOAT, ["n", 3]))
    binding = PersistentBindingProto(input_name=f"{prefix}past", output_name=f"{prefix}present")
    model.graph.persistent_bindings.append(binding)
    entry = model.graph.metadata_props.add()
    entry.key, entry.value = f"refeed.publish:{prefix}past", "once"
    return model


def bindings(model: ModelProto) -> list[tuple[str, str]]:
    return [(each.input_name, each.output_name) for each in model.graph.persistent_bindings]


def published(model: ModelProto) -> dict[str, str]:
    return {each.input: each.publish for each in refeed.load(model.SerializeToString()).bindings}


def test_bindings_are_renamed_with_their_ends() -> None:
    renamed = compose.add_prefix(feedback(), "p_")
    assert bindings(renamed) == [("p_past", "p_present")]
    assert published(renamed) == {"p_past": "once"}
    half = compose.add_prefix(feedback(), "p_", rename_inputs=False)
    assert bindings(half) == [("past", "p_present")]
    assert published(half) == {"past": "once"}


def test_bindings_of_both_models_are_merged() -> None:
    first, second = feedback("a_"), feedback("b_")
    merged = compose.merge_models(first, second, [])
    assert bindings(merged) == [("a_past", "a_present"), ("b_past", "b_present")]
    assert published(merged) == {"a_past": "once", "b_past": "once"}
    with pytest.raises(ValueError, match="`a_past` -> `a_present` would lose its output"):
        compose.merge_models(first, second, [("a_present", "b_x")])
    with pytest.raises(ValueError, match="`b_past` -> `b_present` would lose its input"):
        compose.merge_models(first, second, [("a_present", "b_past")], outputs=["a_present", "b_present"])
    kept = compose.merge_models(first, second, [("a_present", "b_x")], outputs=["a_present", "b_present"])
    assert bindings(kept) == [("a_past", "a_present"), ("b_past", "b_present")]
    refeed.load(kept.SerializeToString())


def test_extraction_keeps_bindings_whole() -> None:
    model = feedback()
    model.graph.node.append(helper.make_node("Neg", ["present"], ["y"]))
    model.graph.output.append(helper.make_tensor_value_info("y", FLOAT, ["n", 3]))
    part = utils.Extractor(model).extract_model(["past", "x"], ["present"])
    assert bindings(part) == [("past", "present")]
    assert published(part) == {"past": "once"}
    assert bindings(utils.Extractor(model).extract_model(["present"], ["y"])) == [("past", "present")][:0]
    with pytest.raises(ValueError, match="would lose its output"):
        utils.Extractor(model).extract_model(["past", "x"], ["y"])


def test_bound_outputs_keep_their_axes() -> None:
    with pytest.raises(ValueError, match="output `present` is bound to input `past`"):
        compose.expand_out_dim(feedback(), 0)


def with_cache(kind: str, nested: bool) -> ModelProto:
    model: ModelProto = ours(branching())
    graph = model.graph.node[1].attribute[0].g if nested else model.graph
    if kind == "paged cache":
        graph.paged_cache_initializer.append(PagedCacheProto(name="held"))
    else:
        graph.encoded_initializer.add(name="held")
    return model


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("kind", ["paged cache", "encoded"])
def test_cache_initializers_are_refused_by_name(kind: str, nested: bool, tmp_path: pathlib.Path) -> None:
    """S239."""
    model = with_cache(kind, nested)
    before = model.SerializeToString()
    other = ours(three()[0])
    path = tmp_path / "model.onnx"
    path.write_bytes(before)
    calls: list[Callable[[], Any]] = [
        lambda: compose.add_prefix_graph(model.graph, "p_"),
        lambda: compose.add_prefix(model, "p_", inplace=True),
        lambda: compose.merge_graphs(model.graph, model.graph, []),
        lambda: compose.merge_graphs(other.graph, model.graph, []),
        lambda: compose.merge_models(model, other, []),
        lambda: compose.merge_models(model, other, [], prefix1="p_"),
        lambda: utils.Extractor(model),
        lambda: utils.extract_model(path, tmp_path / "part.onnx", ["x"], ["a"], check_model=False),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"has {kind} initializers \\(`held`\\)"):
            call()
    assert model.SerializeToString() == before
    assert not (tmp_path / "part.onnx").exists()


def test_struct_types_are_merged() -> None:
    first, second = (ours(each) for each in three())
    for model, dimension in ((first, 2), (second, 2)):
        declared = model.struct_types.add(type_id=7, name="Pair")
        declared.array.dimension = dimension
        declared.array.element_type.tensor_type.elem_type = onnx.TensorProto.UINT8
    assert [each.type_id for each in compose.merge_models(first, second, []).struct_types] == [7]
    second.struct_types[0].array.dimension = 3
    with pytest.raises(ValueError, match="struct type 7 differently"):
        compose.merge_models(first, second, [])


# Extraction.


def chain() -> onnx.ModelProto:
    """Return a model with a chain of values, each of a declared type."""
    nodes = [node("Neg", "x", "a"), node("Add", "a w", "b"), node("Exp", "b", "c"), node("Mul", "b c", "y")]
    infos = [onnx.helper.make_tensor_value_info(name, FLOAT, ["n", 3]) for name in "abc"]
    initializer = [onnx.helper.make_tensor(name, FLOAT, [3], [1, 2, 3]) for name in ("unread", "w")]
    return model_of(graph_of(nodes, ["x"], ["y"], value_info=infos, initializer=initializer))


def test_parts_of_a_chain() -> None:
    model = chain()
    names = ["x", "a", "b", "c", "y"]
    for start, end in itertools.combinations(names, 2):
        theirs = onnx.utils.Extractor(model).extract_model([start], [end])
        assert official(utils.Extractor(ours(model)).extract_model([start], [end])) == theirs, (start, end)


def test_parts_of_exported_models(cases: pathlib.Path) -> None:
    compared = 0
    for path in model_files(cases):
        model = onnx.load(path)
        if any_subgraph(model):
            continue
        typed = onnx.shape_inference.infer_shapes(model)
        made = {name for each in typed.graph.node for name in each.output}
        inner = [value.name for value in typed.graph.value_info if value.name in made]
        for name in inner[:: max(1, len(inner) // 3)]:
            inputs = [value.name for value in model.graph.input]
            theirs = onnx.utils.Extractor(typed).extract_model(inputs, [name])
            assert official(utils.Extractor(ours(typed)).extract_model(inputs, [name])) == theirs, (path, name)
            compared += 1
    assert compared > 20


def test_files_are_extracted(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "whole.onnx"
    onnx.save(chain(), source)
    for check, infer in itertools.product([True, False], repeat=2):
        keywords: dict[str, Any] = {"check_model": check, "infer_shapes": infer}
        onnx.utils.extract_model(source, tmp_path / "theirs.onnx", ["a"], ["c"], **keywords)
        utils.extract_model(source, tmp_path / "ours.onnx", ["a"], ["c"], **keywords)
        assert onnx.load(tmp_path / "ours.onnx") == onnx.load(tmp_path / "theirs.onnx")
    utils.extract_model(str(source), str(tmp_path / "text.onnx"), ["a"], ["c"])
    assert onnx.load(tmp_path / "text.onnx") == onnx.load(tmp_path / "theirs.onnx")


def test_refused_extractions(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "whole.onnx"
    onnx.save(chain(), source)
    target = tmp_path / "part.onnx"
    checks: list[tuple[tuple[Any, ...], str]] = [
        ((tmp_path / "none.onnx", target, ["a"], ["c"]), "no such file"),
        ((source, "", ["a"], ["c"]), "expected a path"),
        ((source, target, [], ["c"]), "input_names: expected at least one"),
        ((source, target, ["a"], []), "output_names: expected at least one"),
        ((source, target, ["a", "a"], ["c"]), "input_names: each name"),
        ((source, target, ["a"], ["c", "c"]), "output_names: each name"),
        ((source, target, ["a"], ["nowhere"]), "`nowhere`"),
    ]
    for arguments, text in checks:
        with pytest.raises(refeed.ModelError, match=text):
            utils.extract_model(*arguments)
    assert not target.exists()
    model = chain()
    model.graph.sparse_initializer.add()
    with pytest.raises(ValueError, match="sparse_initializer: expected none, got 1"):
        utils.Extractor(ours(model)).extract_model(["a"], ["c"])
    model = chain()
    model.graph.node.append(model.graph.node[0])
    with pytest.raises(ValueError, match="value `a` is made by nodes 0 and 4"):
        utils.Extractor(ours(model))


def test_an_output_that_is_an_initializer_is_extracted() -> None:
    # The onnx package leaves it undefined.
    model = chain()
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("w", FLOAT, [3]))
    part = official(utils.Extractor(ours(model)).extract_model(["x"], ["a", "w"]))
    assert [each.name for each in part.graph.initializer] == ["w"]
    refeed.load(part)


def test_nested_graphs_are_extracted_with_what_they_take() -> None:
    # The onnx package leaves out the node and the initializer that only the branches read.
    model = branching()
    part = official(utils.Extractor(ours(model)).extract_model(["x", "cond"], ["y"]))
    assert [each.op_type for each in part.graph.node] == ["Neg", "If"]
    assert [each.name for each in part.graph.initializer] == ["w"]
    refeed.load(part)


def test_a_name_that_the_graph_does_not_have_is_told_apart_from_one_without_a_type() -> None:
    graph = ours(onnx.parser.parse_graph("g (float[n] x) => (float[n] y) { hidden = Relu(x)  y = Neg(hidden) }"))
    extractor = utils.Extractor(helper.make_model(graph))
    refused = [
        ((["x"], ["hiden"]), "output name `hiden`: the graph has no such value; close names are `hidden`"),
        ((["q"], ["y"]), "input name `q`: the graph has no such value; no name is close to it"),
        ((["x"], ["hidden"]), "output names without a declared type in the graph: `hidden`; infer shapes first"),
    ]
    for arguments, text in refused:
        with pytest.raises(refeed.ModelError) as caught:
            extractor.extract_model(*arguments)
        assert str(caught.value) == text


def test_names_that_are_not_utf8_are_refused() -> None:
    wire = onnx.parser.parse_graph("g (float[n] x) => (float[n] y) { y = Relu(qq) }").SerializeToString()
    broken = refeed.onnx.GraphProto.FromString(wire.replace(b"qq", b"\xff\xfe"))
    model = ModelProto(ir_version=10, graph=broken)
    whole = ours(three()[0])
    text = r"node\[0\]\.input\[0\]: expected UTF-8 text, got bytes that are not from byte 0 on: \\xff\\xfe"
    before = model.SerializeToString()
    calls: list[Callable[[], Any]] = [
        lambda: compose.add_prefix_graph(broken, "p_", inplace=True),
        lambda: compose.add_prefix(model, "p_", inplace=True),
        lambda: compose.merge_graphs(whole.graph, broken, []),
        lambda: compose.merge_models(model, whole, []),
        lambda: compose.expand_out_dim_graph(broken, 0, inplace=True),
        lambda: compose.expand_out_dim(model, 0, inplace=True),
        lambda: compose.check_overlapping_names(broken, whole.graph),
    ]
    for call in calls:
        with pytest.raises(refeed.ModelError, match=text):
            call()
    assert model.SerializeToString() == before
