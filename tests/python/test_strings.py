"""Tensors of STRING: fed, computed, given back, beside a numeric state that never keeps them (rules 3.2, 3.7, 3.8)."""

# Kernels take the node, whether they use it or not.
# ruff: noqa: ARG001, ARG005

from typing import Any

import numpy as np
import onnx as official
import pytest
import refeed
import structured as s
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn
from refeed import runtime
from refeed.onnx import helper, parser
from refeed.onnx.reference import ReferenceEvaluator

NODE = helper.make_node
STRING = 8
ONES = np.ones(2, np.float32)


def text(dims: s.Dims | None) -> Any:
    return s.tensor(dims, STRING)


def counting(nodes: list[Any], inputs: dict[str, Any], outputs: dict[str, Any], **more: Any) -> Any:
    """Nodes on texts beside a state that adds."""
    return s.model(
        [*nodes, NODE("Add", ["past", "d"], ["present"])],
        {**inputs, "past": s.tensor([2]), "d": s.tensor([2])},
        {**outputs, "present": s.tensor([2])},
        {"past": "present"},
        **more,
    )


def test_texts_run_beside_a_numeric_state() -> None:
    """Rule 3.7.1; S080."""
    model = counting(
        [NODE("StringConcat", ["x", "y"], ["z"]), NODE("Identity", ["x"], ["same"])],
        {"x": text(["n", 3]), "y": text([3])},
        {"z": text(["n", 3]), "same": text(["n", 3])},
    )
    state = s.state(model, {"past": np.zeros(2, np.float32)})
    x, y = np.array([["a", "", "ccc"], ["é", "e", "f"]]), np.array(["1", "2", ""])
    for step in range(1, 4):
        out = state.run({"x": x, "y": y, "d": ONES})
        assert out["z"].tolist() == [["a1", "2", "ccc"], ["é1", "e2", "f"]]
        assert out["same"].tolist() == x.tolist()
        assert (out["z"].data_type, out["z"].shape, out["z"].ndim, out["z"].name) == (STRING, (2, 3), 2, "z")
        assert state.values["past"].numpy().tolist() == [step, step]
    state.close()
    assert out["z"].numpy().dtype == object
    # A result is fed again.
    again = s.state(model, {"past": np.zeros(2, np.float32)})
    out = again.run({"x": out["z"], "y": y, "d": ONES})
    assert out["z"].tolist() == [["a11", "22", "ccc"], ["é11", "e22", "f"]]


IDENTITY = s.model([NODE("Identity", ["x"], ["y"])], {"x": text(None)}, {"y": text(None)})


@pytest.mark.parametrize(
    "array",
    [
        np.array(["a", "bc"]),
        np.array([b"a", b"bc"]),
        np.array(["a", b"bc"], object),
        np.array(["a", "bc"], np.dtypes.StringDType()),
        np.array([["a", "x"], ["bc", "x"]])[:, 0],
        np.array(["bc", "a"])[::-1],
        runtime.tensor_from_proto(helper.make_tensor("t", STRING, [2], ["a", "bc"])),
    ],
    ids=["U", "S", "O", "T", "column", "turned", "message"],
)
def test_arrays_of_texts_of_every_kind_are_taken(array: Any) -> None:
    session = refeed.RuntimeSession(IDENTITY)
    assert session.run({"x": array})["y"].tolist() == ["a", "bc"]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1, 1)])
def test_texts_of_every_shape(shape: tuple[int, ...]) -> None:
    array = np.full(shape, "x", object)
    got = refeed.RuntimeSession(IDENTITY).run({"x": array})["y"]
    assert got.shape == shape
    np.testing.assert_array_equal(np.asarray(got), array)
    assert np.asarray(got, dtype="U").shape == shape


def test_bytes_that_are_no_text_come_back_as_bytes() -> None:
    got = refeed.RuntimeSession(IDENTITY).run({"x": np.array([b"\xff\x00a", b"ok"], object)})["y"]
    assert got.tolist() == [b"\xff\x00a", "ok"]


CHARACTERS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)


@given(st.data())
def test_joining_broadcasts_as_numpy_does(data: st.DataObject) -> None:
    shapes = data.draw(hn.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3))
    x, y = (data.draw(hn.arrays(object, shape, elements=CHARACTERS)) for shape in shapes.input_shapes)
    model = s.model([NODE("StringConcat", ["x", "y"], ["z"])], {"x": text(None), "y": text(None)}, {"z": text(None)})
    got = refeed.RuntimeSession(model).run({"x": x, "y": y})["z"]
    expected = np.asarray(np.add(x, y), object)
    assert got.shape == expected.shape == shapes.result_shape
    assert got.tolist() == expected.tolist()


def test_shapes_that_do_not_broadcast_and_operands_that_are_numbers() -> None:
    model = s.model([NODE("StringConcat", ["x", "y"], ["z"])], {"x": text(None), "y": text(None)}, {"z": text(None)})
    session = refeed.RuntimeSession(model)
    with pytest.raises(refeed.KernelError, match="do not broadcast"):
        session.run({"x": np.array(["a", "b"]), "y": np.array(["a", "b", "c"])})
    with pytest.raises(refeed.ValueTypeError, match="`y`: dtype mismatch, expected STRING, got FLOAT"):
        session.run({"x": np.array(["a"]), "y": ONES})


def test_initializers_constants_and_branches_give_texts() -> None:
    words = helper.make_tensor("w", STRING, [2], ["left", "right"])
    default = helper.make_tensor("x", STRING, [2], ["x0", "x1"])
    branch = helper.make_graph([NODE("Identity", ["w"], ["o"])], "b", [], [helper.make_value_info("o", text([2]))])
    inner = helper.make_graph([NODE("Identity", ["v"], ["o"])], "c", [], [helper.make_value_info("o", text([2]))])
    inner.initializer.append(helper.make_tensor("v", STRING, [2], ["u", "v"]))
    model = s.model(
        [
            NODE("If", ["c"], ["chosen"], then_branch=branch, else_branch=inner),
            NODE("Constant", [], ["k"], value=helper.make_tensor("", STRING, [], ["-"])),
            NODE("StringConcat", ["x", "k"], ["a"]),
            NODE("StringConcat", ["a", "chosen"], ["y"]),
            NODE("SequenceConstruct", ["y", "x"], ["list"]),
        ],
        {"x": text([2]), "c": helper.make_tensor_type_proto(9, [])},
        {"y": text([2]), "list": s.sequence(text([2]))},
        initializer=[words, default],
    )
    session = refeed.RuntimeSession(model)
    out = session.run({"c": np.array(True)})
    assert out["y"].tolist() == ["x0-left", "x1-right"]
    assert [part.tolist() for part in out["list"]] == [["x0-left", "x1-right"], ["x0", "x1"]]
    out = session.run({"c": np.array(False), "x": np.array(["p", "q"])})
    assert out["y"].tolist() == ["p-u", "q-v"]


@pytest.mark.parametrize(
    ("declared", "value", "match"),
    [
        ([2], np.array(["a"]), "`x`: shape mismatch"),
        ([2], np.array([["a", "b"]]), "`x`: rank mismatch"),
        ([2], np.ones(2, np.float32), "`x`: dtype mismatch, expected STRING, got FLOAT"),
    ],
)
def test_texts_fit_their_declaration(declared: list[int], value: Any, match: str) -> None:
    model = s.model([NODE("Identity", ["x"], ["y"])], {"x": text(declared)}, {"y": text(declared)})  # type: ignore[arg-type]
    with pytest.raises(refeed.ValueTypeError, match=match):
        refeed.RuntimeSession(model).run({"x": value})


def test_texts_are_no_numbers() -> None:
    model = s.model([NODE("Neg", ["x"], ["y"])], {"x": s.tensor([2])}, {"y": s.tensor([2])})
    with pytest.raises(refeed.ValueTypeError, match="`x`: dtype mismatch, expected FLOAT, got STRING"):
        refeed.RuntimeSession(model).run({"x": np.array(["a", "b"])})
    reshaped = s.model([NODE("Flatten", ["x"], ["y"])], {"x": text([2])}, {"y": text([2, 1])})
    with pytest.raises(refeed.Error, match=r"STRING|a tensor of texts"):
        refeed.RuntimeSession(reshaped).run({"x": np.array(["a", "b"])})
    wrong: tuple[Any, ...] = (np.array(["a", 1], object), np.array([None], object), "a", ["a", 1])
    for value in wrong:
        with pytest.raises((TypeError, ValueError)):
            refeed.RuntimeSession(IDENTITY).run({"x": value})


@pytest.mark.parametrize("nested", [False, True])
def test_no_state_keeps_texts(nested: bool) -> None:
    """Rules 3.2.1, 3.8.5; S077, S079."""
    wrap = s.sequence if nested else lambda ty: ty
    with pytest.raises(refeed.ModelError, match="String tensors cannot be persistent"):
        s.state(s.keep(wrap(text([1]))), {"past": [] if nested else np.array(["a"])})
    # Nothing is declared of what the kernel gives until it is held to the input that it would feed.
    model = s.model(
        [NODE("Say", ["past"], ["present"], domain="my")],
        {"past": wrap(s.tensor([1]))},
        {"present": wrap(s.tensor([1]))},
        {"past": "present"},
    )
    model.opset_import.append(helper.make_opsetid("my", 1))
    context = runtime.RuntimeContext()
    said: Any = np.array(["text"])
    context.register_custom_kernel("my", "Say", lambda node, call: [said] if nested else said)
    initial: Any = np.zeros(1, np.float32)
    state = s.state(model, {"past": [initial] if nested else initial})
    with pytest.raises((refeed.KernelError, refeed.ValueTypeError), match="STRING"):
        state.run(context, {})
    assert s.plain(state.values["past"]) == ([[0]] if nested else [0])


def test_kernels_of_the_callers_own_read_and_give_texts() -> None:
    """Rule 7.4.3."""
    model = s.model([NODE("Upper", ["x"], ["y"], domain="my")], {"x": text([2])}, {"y": text([2])})
    model.opset_import.append(helper.make_opsetid("my", 1))

    def upper(node: Any, call: runtime.KernelInvocation) -> Any:
        with pytest.raises(refeed.ValueTypeError, match="expected a tensor, got a tensor of texts"):
            call.get("x")
        return np.array([word.upper() for word in call.get_value("x").tolist()])

    context = runtime.RuntimeContext()
    context.register_custom_kernel("my", "Upper", upper)
    session = refeed.RuntimeSession(model)
    assert session.run({"x": np.array(["a", "é"])}, context)["y"].tolist() == ["A", "É"]
    context.register_custom_kernel("my", "Upper", lambda node, call: np.array(["one"]))
    with pytest.raises(refeed.KernelError, match=r"expected STRING\[2\], got STRING\[1\]"):
        session.run({"x": np.array(["a", "é"])}, context)


def test_events_keep_a_few_texts() -> None:
    for count in (2, 9):
        context = runtime.RuntimeContext(events_enabled=True)
        refeed.RuntimeSession(IDENTITY).run({"x": np.array([f"t{i}" for i in range(count)])}, context)
        event = next(event for event in context.events() if event.name == "y")
        assert event.value_count == count
        assert event.string_values == (["t0", "t1"] if count == 2 else [])
        assert (event.data_type, event.shape, event.values) == ((STRING, [2], []) if count == 2 else (-1, [], []))


def test_messages_of_texts_there_and_back() -> None:
    make: Any = official.helper.make_tensor
    for proto in [
        make("t", STRING, [2, 1], ["a", "é"]),
        make("bytes", STRING, [], [b"\xff"]),
        make("none", STRING, [0], []),
    ]:
        read = runtime.tensor_from_proto(proto)
        assert isinstance(read, runtime.StringTensor)
        assert (read.name, read.shape) == (proto.name, tuple(proto.dims))
        assert runtime.tensor_to_proto(read).SerializeToString() == proto.SerializeToString()
    bad = make("t", STRING, [2], ["a", "b"])
    bad.dims[0] = 3
    with pytest.raises(refeed.Error, match="3"):
        runtime.tensor_from_proto(bad)


def test_the_evaluator_takes_and_gives_arrays_of_texts() -> None:
    evaluator = ReferenceEvaluator(
        parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 20]> g (string[n] x, string[n] y) => (string[n] z)'
            "{ z = StringConcat(x, y) }"
        )
    )
    (z,) = evaluator.run(None, {"x": np.array(["a", "b"]), "y": np.array(["c", "d"], object)})
    np.testing.assert_array_equal(z, np.array(["ac", "bd"], object))
    context = runtime.RuntimeContext()
    context.put_value("x", np.array(["a"]))
    assert context.get_value("x").tolist() == ["a"]
    assert not context.has("x")
