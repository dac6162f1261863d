"""`refeed.onnx.checker` beside the checker of the `onnx` package."""

import os
import pathlib
import time
import warnings
from typing import Any

import illegal_models
import illegal_tensors
import onnx
import operator_signatures
import pytest
import refeed
from illegal_models import (
    FLOAT,
    a_function_with_an_operator_of_another_version,
    branch,
    function,
    open_domain,
    plain,
    refuses,
    short_tensor,
)
from illegal_tensors import floats, positions, sparse
from onnx import AttributeProto, TensorProto, helper
from refeed import onnx as ours
from refeed.onnx import checker, verify

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnx.backend.test.loader import load_model_tests

    NODE_TESTS: list[Any] = load_model_tests(kind="node")

CASES = {**illegal_models.CASES, **illegal_tensors.CASES}

# -------------------------------------------------------------------------------------- what the package accepts


def test_every_node_test_that_the_package_accepts_is_accepted() -> None:
    # Of onnx 1.23; all of them are legal.
    assert len(NODE_TESTS) == 1884
    for case in NODE_TESTS:
        wire = case.model.SerializeToString()
        assert refuses(onnx.checker.check_model, wire) is None
        assert refuses(checker.check_model, wire) is None, case.name
        assert refuses(verify.verify_model, wire) is None, case.name


def test_every_model_of_the_package_and_of_ours_that_the_package_accepts_is_accepted(root: pathlib.Path) -> None:
    packaged = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data"
    paths = [*packaged.rglob("*.onnx"), *(root / "tests" / "data").rglob("*.onnx")]
    assert len(paths) > 150
    refused = []
    for path in paths:
        theirs, found = refuses(onnx.checker.check_model, path), refuses(checker.check_model, path)
        assert (theirs is None) == (found is None), (path, theirs, found)
        assert refuses(verify.verify_model, path) is None
        if theirs is not None:
            refused.append(path.parent.name)
            assert "SimplifiedLayerNormalization" in theirs
    # One exporter writes an operator of its own into the domain ai.onnx: exactly these of ours have it.
    assert sorted(refused) == [
        "genai_llama_fp32",
        "genai_llama_fp32_kvint8",
        "genai_llama_int4",
        "genai_llama_int4_asym16",
        "genai_mistral_int8",
        "genai_qwen35_fp32",
        "genai_qwen3_int4_qdq",
    ]


def test_full_check_refuses_types_that_contradict_each_other() -> None:
    model = plain()
    checker.check_model(model, full_check=True)
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 5
    checker.check_model(model)
    assert refuses(onnx.checker.check_model, model, full_check=True) is not None
    with pytest.raises(refeed.InferenceError, match="3"):
        checker.check_model(model, full_check=True)


# --------------------------------------------------------------------------------------- what the package refuses


@pytest.mark.parametrize("name", CASES)
def test_what_the_package_refuses_is_refused(name: str) -> None:
    part, change = CASES[name]
    model = plain()
    assert refuses(onnx.checker.check_model, model) is None
    assert refuses(checker.check_model, model) is None
    change(model)
    wire = model.SerializeToString()
    assert refuses(onnx.checker.check_model, wire) is not None, "the package accepts this"
    for given in (model, wire):
        with pytest.raises(checker.ValidationError) as caught:
            checker.check_model(given)
        assert part in str(caught.value)
    message = ours.ModelProto()
    message.ParseFromString(wire)
    with pytest.raises(checker.ValidationError) as caught:
        checker.check_model(message)
    assert part in str(caught.value)


def test_there_is_a_case_for_every_rule() -> None:
    assert len(CASES) >= 110


# ----------------------------------------------------------------------------------- tensors in other files


def external(folder: pathlib.Path, location: str, **more: str) -> pathlib.Path:
    model = plain()
    tensor = model.graph.initializer[0]
    tensor.CopyFrom(TensorProto(name="w", data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL))
    entries = {"location": location, **more} if location else more
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_tensors_in_other_files_are_looked_for_beside_the_model(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").write_bytes(bytes(8))
    (tmp_path / "outside.bin").write_bytes(bytes(8))
    for check in (onnx.checker.check_model, checker.check_model, verify.verify_model):
        assert refuses(check, external(folder, "w.bin")) is None
        assert refuses(check, str(external(folder, "w.bin", offset="0", length="8"))) is None
    (folder / "link.bin").symlink_to(tmp_path / "outside.bin")
    os.link(tmp_path / "outside.bin", folder / "hard.bin")
    (folder / "inner").mkdir()
    for location, part in [
        ("", "names no file"),
        ("missing.bin", "No such file"),
        ("../outside.bin", "`..` part"),
        (str(tmp_path / "outside.bin"), "is absolute"),
        ("link.bin", "symbolic link"),
        ("hard.bin", "hard link"),
        ("inner", "regular file"),
    ]:
        path = external(folder, location)
        assert refuses(onnx.checker.check_model, path) is not None, location
        with pytest.raises(checker.ValidationError) as caught:
            checker.check_model(path)
        assert 'graph.initializer[0] "w"' in str(caught.value)
        assert part in str(caught.value)
    both = onnx.load(external(folder, "w.bin"), load_external_data=False)
    both.graph.initializer[0].raw_data = bytes(8)
    (folder / "both.onnx").write_bytes(both.SerializeToString())
    assert refuses(onnx.checker.check_model, folder / "both.onnx") is not None
    with pytest.raises(checker.ValidationError, match="got both external data and raw_data"):
        checker.check_model(folder / "both.onnx")


def test_a_model_file_that_cannot_be_read_is_no_fault_of_the_model(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError):
        checker.check_model(tmp_path / "nothing.onnx")
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(checker.ValidationError, match="not an ONNX model"):
        checker.check_model(tmp_path / "text.onnx")


# -------------------------------------------------------------------------------------------------- options


def test_operators_of_other_domains_are_unknown_only_when_asked() -> None:
    model = plain()
    open_domain(model)
    checker.check_model(model)
    assert refuses(onnx.checker.check_model, model, check_custom_domain=True) is not None
    with pytest.raises(checker.ValidationError, match="an operator of mine of version 1, got `Op`"):
        checker.check_model(model, check_custom_domain=True)


def test_functions_may_import_other_versions_when_asked() -> None:
    model = plain()
    a_function_with_an_operator_of_another_version(model)
    for module in (onnx.checker, checker):
        assert refuses(module.check_model, model) is not None
        module.check_model(model, skip_opset_compatibility_check=True)


def test_models_come_in_every_form(tmp_path: pathlib.Path) -> None:
    model = plain()
    wire = model.SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(wire)
    message = ours.ModelProto.FromString(wire)
    for given in (model, wire, path, str(path), message, refeed.load(wire)):
        checker.check_model(given)
    for wrong in (None, 3, model.graph, [wire]):
        with pytest.raises(TypeError):
            checker.check_model(wrong)


# ---------------------------------------------------------------------------------------------------- parts


def test_parts_are_checked_as_in_the_package() -> None:
    model = plain()
    graph = model.graph
    attribute = helper.make_attribute("axis", 1)
    whole: list[tuple[str, Any]] = [
        ("check_graph", graph),
        ("check_node", graph.node[0]),
        ("check_attribute", attribute),
        ("check_tensor", graph.initializer[0]),
        ("check_value_info", graph.input[0]),
        ("check_sparse_tensor", sparse(floats(2), positions(0, 3), [4])),
        ("check_function", function()),
    ]
    broken: list[tuple[str, Any]] = [
        ("check_graph", helper.make_graph([helper.make_node("Neg", ["q"], ["y"])], "g", [], [])),
        ("check_node", helper.make_node("Negative", ["x"], ["y"])),
        ("check_node", helper.make_node("Neg", ["x"], ["y"], domain="mine")),
        ("check_attribute", AttributeProto(name="axis", i=1)),
        ("check_tensor", short_tensor()),
        ("check_value_info", onnx.ValueInfoProto(name="x")),
        ("check_sparse_tensor", sparse(floats(2), positions(3, 0), [4])),
        ("check_function", function([helper.make_node("Neg", ["q"], ["b"])])),
    ]
    for name, part in whole:
        for module in (onnx.checker, checker):
            assert refuses(getattr(module, name), part) is None, name
        with pytest.raises(TypeError):
            getattr(checker, name)(model)
    for name, part in broken:
        assert refuses(getattr(onnx.checker, name), part) is not None, name
        with pytest.raises(checker.ValidationError):
            getattr(checker, name)(part)


def test_contexts_say_what_the_model_is() -> None:
    for module in (onnx.checker, checker):
        assert module.DEFAULT_CONTEXT.ir_version == onnx.IR_VERSION
        assert module.DEFAULT_CONTEXT.opset_imports == {"": onnx.defs.onnx_opset_version()}
        assert module.MAXIMUM_PROTOBUF == 2**31 - 1
        context = module.C.CheckerContext()
        assert (context.ir_version, context.opset_imports) == (-1, {})
        held = helper.make_node("Squeeze", ["x"], ["y"], axes=[0])
        assert refuses(module.check_node, held) is not None
        context.ir_version, context.opset_imports = 8, {"": 11}
        module.check_node(held, context)
        context.opset_imports = {"": 13}
        assert refuses(module.check_node, held, context) is not None
        # Before IR version 2 attributes had no type.
        context.ir_version = 1
        untyped = AttributeProto(name="axis", i=1)
        module.check_attribute(untyped, context, module.C.LexicalScopeContext())
        assert refuses(module.check_attribute, untyped) is not None
    whole = helper.make_node("If", ["c"], ["y"], then_branch=branch(["x"], "u"), else_branch=branch(["x"], "v"))
    assert refuses(onnx.checker.check_node, whole) is not None
    with pytest.raises(checker.ValidationError, match="`x` is defined nowhere"):
        checker.check_node(whole)
    scope = checker.LexicalScopeContext()
    scope.add("x")
    checker.check_node(whole, checker.DEFAULT_CONTEXT, scope)


def test_the_interface_is_the_packages() -> None:
    assert set(onnx.checker.__all__) <= set(checker.__all__)
    assert issubclass(checker.ValidationError, refeed.Error)
    assert issubclass(checker.ValidationError, ValueError)
    assert checker.C.ValidationError is checker.ValidationError is refeed.ValidationError


def test_the_table_of_operators_is_that_of_the_package() -> None:
    assert operator_signatures.TABLE.read_text() == operator_signatures.official()


def test_bytes_beyond_the_limit_of_protobuf_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "MAXIMUM_PROTOBUF", 10)
    with pytest.raises(ValueError, match="expected at most 10 bytes, got "):
        checker.check_model(plain().SerializeToString())


# -------------------------------------------------------------------------------------------------- hostile


def nested(levels: int) -> Any:
    """A model with so many graphs in one another."""
    inner = branch(["x"], "leaf")
    for level in range(levels - 1):
        held = helper.make_node("Op", ["x"], [f"y{level}"], domain="mine", body=inner)
        inner = helper.make_graph([held], "g", [], [])
    model = plain()
    open_domain(model).append(helper.make_attribute("body", inner))
    return model


def test_graphs_are_nested_no_deeper_than_the_limit() -> None:
    # Each level is three messages on the wire, which nests a hundred deep.
    checker.check_model(nested(32))
    message = ours.ModelProto.FromString(plain().SerializeToString())
    for level in range(40):
        inner = message.graph
        message = ours.ModelProto.FromString(plain().SerializeToString())
        message.graph.node[0].attribute.add(name=f"a{level}", type=5).g.CopyFrom(inner)
    with pytest.raises(checker.ValidationError):
        checker.check_model(message)
    with pytest.raises(refeed.ModelError):
        verify.verify_model(message)


def test_long_models_are_checked_in_linear_time() -> None:
    def seconds(count: int) -> float:
        names = ["x", *(f"t{index}" for index in range(count))]
        model = plain()
        del model.graph.node[:]
        for before, after in zip(names, [*names[1:], "y"], strict=True):
            model.graph.node.add(op_type="Neg", input=[before], output=[after])
        wire = model.SerializeToString()
        start = time.perf_counter()
        checker.check_model(wire)
        return time.perf_counter() - start

    few, many = (min(seconds(count) for _ in range(2)) for count in (5_000, 50_000))
    # Ten times the nodes, twenty times the time at most: caches and other processes have their share.
    assert many < 20 * max(few, 0.01)
