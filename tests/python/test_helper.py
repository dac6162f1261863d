"""`refeed.onnx.helper` against `onnx.helper`."""

# Calls take the package, whether they use it or not.
# ruff: noqa: ARG005

import fractions
import inspect
import itertools
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import refeed.onnx
from differential import Call, outcome, refused, same
from hypothesis import given
from hypothesis import strategies as st

ELEMENT_TYPES = sorted(onnx.helper.get_all_tensor_dtypes())


def names_of(module: Any) -> set[str]:
    """Public names that a module defines, not those that it imports."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and name != "TYPE_CHECKING"
        and getattr(value, "__module__", module.__name__).startswith("onnx.")
        if not inspect.ismodule(value) and not (inspect.isclass(value) and value.__module__.endswith("_pb2"))
    }


@pytest.mark.parametrize("module", ["helper", "numpy_helper", "external_data_helper"])
def test_every_public_name_is_there_with_the_same_arguments(module: str) -> None:
    official, ours = getattr(onnx, module), getattr(refeed.onnx, module)
    wanted = names_of(official)
    assert wanted <= set(ours.__all__)
    assert set(ours.__all__) == {name for name in vars(ours) if name in ours.__all__}
    for name in wanted:
        function = inspect.unwrap(getattr(official, name))
        if not inspect.isfunction(function):
            continue
        expected = inspect.signature(function).parameters
        got = inspect.signature(getattr(ours, name)).parameters
        assert [(p.name, p.kind, p.default) for p in got.values() if p.name != "copy"] == [
            (p.name, p.kind, p.default) for p in expected.values()
        ], name


# Nodes and attributes


def graph(o: Any, name: str = "inner") -> Any:
    value = o.helper.make_tensor_value_info("x", o.TensorProto.FLOAT, [2, "N"])
    node = o.helper.make_node("Neg", ["x"], ["y"], zeta=1, alpha="s")
    return o.helper.make_graph([node], name, [value], [o.helper.make_empty_tensor_value_info("y")])


#: Values of attributes; those of messages need the package.
VALUES: list[Call] = [
    *(
        (lambda o, value=value: value)
        for value in [
            1, 0, -1, True, False, 2**31, 2**63 - 1, -(2**63), 2**63, 2**64, -(2**63) - 1, 10**400,
            1.5, -0.0, 1e300, 1e-50, float("nan"), float("inf"), fractions.Fraction(1, 3),
            np.int8(-3), np.int64(5), np.uint64(2**64 - 1), np.float16(1.5), np.float32(0.1), np.float64(0.1),
            np.longdouble(1), np.bool_(True), np.complex64(1), 1j, np.str_("a"), np.bytes_(b"a"), np.datetime64("2020"),
            "", "text", "é\n\"'", "\ud800", b"", b"\xff\x00", bytearray(b"xy"), memoryview(b"xy"), None, object,
            [1], [1, 2], (3, 4), range(5), {7}, frozenset([7]), {1: 2}, {"a": 1}, [], (), {}, "ab" * 3,
            [1, 2.0], [1.5], [True], [1, True], [2.0, True], [2**63], [-(2**70)], [1e300], [float("nan")],
            [np.int32(1), np.float32(2)], [fractions.Fraction(1, 3)], [np.float16(2)], [np.bool_(True)], [1j],
            ["a"], ["a", b"b"], [b"\xff"], ["\ud800"], ["a", 1], [b"a", 1], [1, "a"], [None], [[1]], [[]], [object],
            np.array([1, 2]), np.array([1.0, 2.0]), np.array([], np.int64), np.array([[1, 2]]), np.array(3),
            np.array(1.5), np.array("a"), np.array(["a", "b"]), np.array([True]), np.array([1, 2], np.uint8),
            np.array([1.5], ml_dtypes.bfloat16), ml_dtypes.bfloat16(1.5), [ml_dtypes.bfloat16(1.5)],
        ]
    ),
    lambda o: iter([1, 2]),
    lambda o: iter([]),
    lambda o: (size for size in [1.5]),
    lambda o: o.TensorProto(),
    lambda o: o.TensorProto(name="t", dims=[2]),
    lambda o: o.SparseTensorProto(dims=[3]),
    lambda o: graph(o),
    lambda o: o.helper.make_tensor_type_proto(1, ["N"]),
    lambda o: o.TypeProto(),
    lambda o: o.NodeProto(),
    lambda o: o.AttributeProto(),
    lambda o: o.ValueInfoProto(),
    lambda o: o.TensorProto,
    lambda o: o.TensorProto.FLOAT,
    lambda o: [o.TensorProto(), o.TensorProto(name="t")],
    lambda o: [o.SparseTensorProto(dims=[3])],
    lambda o: [graph(o), graph(o, "other")],
    lambda o: [o.TypeProto()],
    lambda o: [o.NodeProto()],
    lambda o: [o.TensorProto(), o.TypeProto()],
    lambda o: [o.TensorProto(), 1],
    lambda o: [1, o.TensorProto()],
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_attribute_of_a_value(value: Call) -> None:
    same(lambda o: o.helper.make_attribute("key", value(o)))
    same(lambda o: o.helper.make_node("Op", ["x"], ["y"], key=value(o)))
    same(lambda o: o.helper.get_attribute_value(o.helper.make_attribute("key", value(o))))


@pytest.mark.parametrize("value", VALUES)
def test_printed_attribute_of_a_value(value: Call) -> None:
    same(lambda o: o.helper.printable_attribute(o.helper.make_attribute("key", value(o))))
    same(lambda o: o.helper.printable_attribute(o.helper.make_attribute("key", value(o)), subgraphs=True))


@pytest.mark.parametrize("attr_type", [*onnx.AttributeProto.AttributeType.values(), 99, -1])
def test_attribute_of_a_value_and_a_type(attr_type: int) -> None:
    for value in VALUES:
        same(lambda o, value=value: o.helper.make_attribute("key", value(o), attr_type=attr_type))


@pytest.mark.parametrize(
    "call",
    [
        lambda o: o.helper.make_attribute("", 1),
        lambda o: o.helper.make_attribute(b"key", 1),
        lambda o: o.helper.make_attribute(None, 1),
        lambda o: o.helper.make_attribute(3, 1),
        lambda o: o.helper.make_attribute("key", 1, "documentation"),
        lambda o: o.helper.make_attribute("key", 1, ""),
        lambda o: o.helper.make_attribute("key", 1, None),
        lambda o: o.helper.make_attribute("key", 1, b"documentation"),
        lambda o: o.helper.make_attribute("key", 1, 3),
        lambda o: o.helper.make_attribute("key", [1], attr_type="INTS"),
        lambda o: o.helper.make_attribute("key", [1], attr_type=True),
        lambda o: o.helper.make_attribute("key"),
        lambda o: o.helper.make_attribute_ref("a", o.AttributeProto.INT),
        lambda o: o.helper.make_attribute_ref("a", o.AttributeProto.INT, "documentation"),
        lambda o: o.helper.make_attribute_ref("a", o.AttributeProto.INT, None, ref_attr_name="b"),
        lambda o: o.helper.make_attribute_ref("a", o.AttributeProto.INT, "", ref_attr_name=""),
        lambda o: o.helper.make_attribute_ref("a", o.AttributeProto.INT, ref_attr_name=3),
        lambda o: o.helper.make_attribute_ref("a", o.AttributeProto.INT, "", "b"),
        lambda o: o.helper.make_attribute_ref("", o.AttributeProto.INT),
        lambda o: o.helper.make_attribute_ref(None, o.AttributeProto.INT),
        lambda o: o.helper.make_attribute_ref(b"a", o.AttributeProto.INT),
        lambda o: o.helper.make_attribute_ref("a", 0),
        lambda o: o.helper.make_attribute_ref("a", 99),
        lambda o: o.helper.make_attribute_ref("a", "INT"),
        lambda o: o.helper.make_attribute_ref("a", None),
        lambda o: o.helper.make_attribute_ref("a", True),
        lambda o: o.helper.make_attribute_ref("a", 2.0),
        lambda o: o.helper.get_attribute_value(o.helper.make_attribute_ref("a", o.AttributeProto.INT)),
        lambda o: o.helper.get_attribute_value(o.AttributeProto()),
        lambda o: o.helper.get_attribute_value(o.AttributeProto(i=3)),
        lambda o: o.helper.get_attribute_value(o.AttributeProto(type=o.AttributeProto.INT)),
        lambda o: o.helper.get_attribute_value(o.AttributeProto(type=o.AttributeProto.TENSOR)),
        lambda o: o.helper.get_attribute_value(o.AttributeProto(type=o.AttributeProto.GRAPHS)),
        lambda o: o.helper.get_attribute_value(o.AttributeProto(type=o.AttributeProto.INTS, i=3)),
        lambda o: o.helper.get_attribute_value(o.NodeProto()),
        lambda o: o.helper.get_attribute_value(3),
        lambda o: o.helper.get_node_attr_value(o.helper.make_node("Op", [], [], a=1, b=[1.5]), "b"),
        lambda o: o.helper.get_node_attr_value(o.helper.make_node("Op", [], [], a=1), "b"),
        lambda o: o.helper.get_node_attr_value(o.helper.make_node("Op", [], [], a=1), b"a"),
        lambda o: o.helper.get_node_attr_value(o.helper.make_node("Op", [], [], a=1), None),
        lambda o: o.helper.get_node_attr_value(o.NodeProto(attribute=[o.helper.make_attribute("a", 1)] * 2), "a"),
        lambda o: o.helper.get_node_attr_value(3, "a"),
    ],
)
def test_attributes(call: Call) -> None:
    same(call)


def test_attribute_values_are_live() -> None:
    tensor = refeed.onnx.helper.make_attribute("t", refeed.onnx.TensorProto(name="before"))
    refeed.onnx.helper.get_attribute_value(tensor).name = "after"
    assert tensor.t.name == "after"


#: What is no text, and what is none.
ODD: list[Any] = [3, 0, None, [], False, b"\xff"]


@pytest.mark.parametrize(
    "call",
    [
        lambda o: o.helper.make_node("Op", ["x"], ["y"]),
        lambda o: o.helper.make_node("Op", ["x"], ["y"], "name", "documentation", "domain", "overload"),
        lambda o: o.helper.make_node("Op", ["x"], ["y"], name="", doc_string="", domain="", overload=""),
        lambda o: o.helper.make_node("Op", ["x"], ["y"], name=b"n", doc_string=b"d", domain=b"d", overload=b"o"),
        lambda o: o.helper.make_node("Op", ["x"], ["y"], b=1, a=2.0, c=None, Z="s", ä=3),
        lambda o: o.helper.make_node("Op", ["x"], ["y"], key=1, value=2, ref_attr_name="r", attr_type=5),
        lambda o: o.helper.make_node("Op", ["x"], ["y"], **{"not an identifier": 1, "": 2}),
        lambda o: o.helper.make_node("Op", "xy", "z"),
        lambda o: o.helper.make_node("Op", iter(["x", ""]), ("y", "z")),
        lambda o: o.helper.make_node("Op", {"x": 1}, {"y"}),
        lambda o: o.helper.make_node(b"Op", [b"x"], ["y"]),
        lambda o: o.helper.make_node("", [], []),
        lambda o: o.helper.make_node("Op", [1], ["y"]),
        lambda o: o.helper.make_node("Op", [None], ["y"]),
        lambda o: o.helper.make_node("Op", None, ["y"]),
        lambda o: o.helper.make_node("Op", ["x"], None),
        lambda o: o.helper.make_node("Op", 3, ["y"]),
        lambda o: o.helper.make_node(1, ["x"], ["y"]),
        lambda o: o.helper.make_node(None, ["x"], ["y"]),
        lambda o: o.helper.make_node("\ud800", ["x"], ["y"]),
        lambda o: o.helper.make_node("Op", ["\ud800"], ["y"]),
        lambda o: o.helper.make_node(b"\xff", ["x"], ["y"]),
        lambda o: o.helper.make_node("Op", [b"\xff"], ["y"]),
        lambda o: o.helper.make_node("Op", ["x"]),
        lambda o: o.helper.make_node("Op", ["x"], ["y"], "n", "d", "m", "o", 1),
        lambda o: o.helper.make_node("Op", ["x"], ["y"], "n", name="m"),
        *(
            (lambda o, field=field, value=value: o.helper.make_node("Op", ["x"], ["y"], **{field: value}))
            for field in ("name", "doc_string", "domain", "overload")
            for value in ODD
        ),
    ],
)
def test_node(call: Call) -> None:
    same(call)


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=4),
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
        st.one_of(
            st.none(),
            st.integers(-(2**63), 2**63 - 1),
            st.floats(width=32),
            st.text(st.characters(exclude_categories=["Cs"])),
            st.binary(),
            st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
            st.lists(st.one_of(st.floats(width=32), st.integers(-100, 100)), min_size=1),
            st.lists(st.one_of(st.binary(), st.text(st.characters(exclude_categories=["Cs"]))), min_size=1),
        ),
        max_size=5,
    ),
)
def test_random_nodes(op_type: str, values: list[str], attributes: dict[str, Any]) -> None:
    # Names of arguments cannot be those of attributes here.
    arguments = inspect.signature(onnx.helper.make_node).parameters
    attributes = {key: value for key, value in attributes.items() if key not in arguments}
    same(lambda o: o.helper.make_node(op_type, values, values[::-1], **attributes))


# Types and declared values

TYPES = [
    lambda o: o.TypeProto(),
    lambda o: o.helper.make_tensor_type_proto(1, [2, "N", None]),
    lambda o: o.helper.make_tensor_type_proto(1, None),
    lambda o: o.helper.make_tensor_type_proto(21, []),
    lambda o: o.helper.make_tensor_type_proto(99, [2]),
    lambda o: o.helper.make_sparse_tensor_type_proto(7, ["N"]),
    lambda o: o.helper.make_sequence_type_proto(o.helper.make_tensor_type_proto(1, [2])),
    lambda o: o.helper.make_optional_type_proto(o.helper.make_sequence_type_proto(o.TypeProto())),
    lambda o: o.helper.make_map_type_proto(8, o.helper.make_tensor_type_proto(1, None)),
    lambda o: o.TypeProto(opaque_type=o.TypeProto.Opaque(name="n")),
    lambda o: o.TypeProto(denotation="IMAGE"),
    lambda o: o.TypeProto(tensor_type=o.TypeProto.Tensor()),
    lambda o: o.TypeProto(tensor_type=o.TypeProto.Tensor(shape=o.TensorShapeProto())),
]
NOT_TYPES = [lambda o: None, lambda o: 3, lambda o: "", lambda o: o.NodeProto()]


@pytest.mark.parametrize("inner", TYPES + NOT_TYPES)
def test_types_of_types(inner: Call) -> None:
    same(lambda o: o.helper.make_sequence_type_proto(inner(o)))
    same(lambda o: o.helper.make_optional_type_proto(inner(o)))
    for key in (7, 8, 0, 99, None, "x", 7.0, True):
        same(lambda o, key=key: o.helper.make_map_type_proto(key, inner(o)))
    for name, documentation in itertools.product(["x", "", b"x", None, 3], ["", "documentation", None, 3]):
        same(lambda o, n=name, d=documentation: o.helper.make_value_info(n, inner(o), d))
    same(lambda o: o.helper.printable_type(inner(o)))
    same(lambda o: o.helper.printable_value_info(o.helper.make_value_info("x", inner(o))))


@pytest.mark.parametrize(
    "make", ["make_tensor_type_proto", "make_sparse_tensor_type_proto"], ids=["tensor", "sparse tensor"]
)
def test_tensor_types(make: str) -> None:
    shapes: list[Any] = [
        [1], None, [], [1, "N", None], ["N", "M", 3], [1.5], [True], [""], [b"N"], [np.int64(3)], [-1], [2**63], 3,
        "ab", "", (1, 2), range(2), {}, [[1]], [None], 0, False, np.array([1, 2]), {"N": 1},
    ]  # fmt: skip
    denotations: list[Any] = [None, [], ["a"], ["a", "b"], ["a", None, "c"], [""], "a", [3], ()]
    for shape, denotation in itertools.product(shapes, denotations):
        same(lambda o, s=shape, d=denotation: getattr(o.helper, make)(1, s, d))
    for elem_type in [0, 1, 28, 99, -1, None, "1", 1.0, True, 2**31]:
        same(lambda o, e=elem_type: getattr(o.helper, make)(e, [1]))
    same(lambda o: getattr(o.helper, make)(1, iter([1, "N"])))


@pytest.mark.parametrize(
    "make", ["make_tensor_value_info", "make_sparse_tensor_value_info", "make_tensor_sequence_value_info"]
)
def test_declared_tensors(make: str) -> None:
    for name in ["x", "", b"x", None, 3]:
        same(lambda o, n=name: getattr(o.helper, make)(n, 1, [2]))
    for documentation in ["", "documentation", None, 3]:
        same(lambda o, d=documentation: getattr(o.helper, make)("x", 1, ["N"], d, ["d"]))
    same(lambda o: getattr(o.helper, make)("x", 1, None))
    same(lambda o: getattr(o.helper, make)("x", 1, ["N"], "", ["d", "e"]))
    same(lambda o: getattr(o.helper, make)("x", 1, [1.5]))
    for name in ["x", "", b"x", None, 3]:
        same(lambda o, n=name: o.helper.make_empty_tensor_value_info(n))


def test_struct_types_go_where_types_go() -> None:
    o: Any = refeed.onnx
    cache = o.TypeProto(struct_type=o.StructTypeProto())
    value = o.helper.make_value_info("past", cache)
    assert value.type == cache
    assert o.helper.make_sequence_type_proto(cache).sequence_type.elem_type == cache
    assert o.helper.make_optional_type_proto(cache).optional_type.elem_type == cache
    assert o.helper.make_map_type_proto(o.TensorProto.INT64, cache).map_type.value_type == cache
    assert o.helper.make_attribute("type", cache).tp == cache
    assert o.helper.make_attribute("types", [cache, o.TypeProto()]).type_protos[0] == cache
    made = o.helper.make_graph([], "g", [value], [])
    assert made.input[0].type.HasField("struct_type")
    assert o.helper.printable_value_info(value) == "%past[Unknown type struct_type]"


# Graphs, functions, models


@pytest.mark.parametrize(
    "call",
    [
        lambda o: graph(o),
        lambda o: o.helper.make_graph([], "", [], []),
        lambda o: o.helper.make_graph((n for n in graph(o).node), b"g", tuple(graph(o).input), iter(graph(o).output)),
        lambda o: o.helper.make_graph(
            graph(o).node, "g", graph(o).input, graph(o).output, [o.helper.make_tensor("t", 1, [1], [1])], "doc",
            graph(o).input, [o.SparseTensorProto(dims=[3])],
        ),
        lambda o: o.helper.make_graph([], "g", [], [], None, "", None, None),
        lambda o: o.helper.make_graph([], "g", [], [], [], "", [], []),
        lambda o: o.helper.make_graph(o.NodeProto(), "g", [], []),
        lambda o: o.helper.make_graph([o.ValueInfoProto()], "g", [], []),
        lambda o: o.helper.make_graph([], "g", [o.NodeProto()], []),
        lambda o: o.helper.make_graph([], "g", [1], []),
        lambda o: o.helper.make_graph([], "g", "ab", []),
        lambda o: o.helper.make_graph([], "g", [None], []),
        lambda o: o.helper.make_graph(None, "g", [], []),
        lambda o: o.helper.make_graph([], "g", None, []),
        lambda o: o.helper.make_graph([], "g", [], None),
        lambda o: o.helper.make_graph([], None, [], []),
        lambda o: o.helper.make_graph([], 3, [], []),
        lambda o: o.helper.make_graph([], "g", [], [], doc_string=3),
        lambda o: o.helper.make_graph([], "g", [], [], initializer=3),
        lambda o: o.helper.make_graph([], "g", [], [], initializer=[o.TensorProto(), o.SparseTensorProto()]),
        lambda o: o.helper.make_graph([], "g", [], [], value_info=[o.NodeProto()]),
        lambda o: o.helper.make_graph([], "g", [], [], sparse_initializer=[o.NodeProto()]),
        lambda o: o.helper.make_function("d", "f", ["x"], ["y"], graph(o).node, [o.helper.make_opsetid("", 3)]),
        lambda o: o.helper.make_function(
            "d", "f", ["x"], ["y"], [], [], ["a"], [o.helper.make_attribute("b", 1)], "doc", "o", graph(o).input
        ),
        lambda o: o.helper.make_function("", "", [], [], [], [], [], [], "", "", []),
        lambda o: o.helper.make_function("d", "f", "ab", "c", [], [], attributes="de"),
        lambda o: o.helper.make_function("d", "f", None, [], [], []),
        lambda o: o.helper.make_function(None, "f", [], [], [], []),
        lambda o: o.helper.make_function("d", None, [], [], [], []),
        lambda o: o.helper.make_function("d", "f", [], [], [o.ValueInfoProto()], []),
        lambda o: o.helper.make_function("d", "f", [], [], None, []),
        lambda o: o.helper.make_function("d", "f", [], [], [], None),
        lambda o: o.helper.make_function("d", "f", [], [], [], [], attributes=3),
        lambda o: o.helper.make_function("d", "f", [], [], [], [], attribute_protos=[o.NodeProto()]),
        lambda o: o.helper.make_function("d", "f", [], [], [], [], overload=3),
        lambda o: o.helper.make_function("d", "f", [], [], [], [], doc_string=3),
        lambda o: o.helper.make_model(graph(o)),
        lambda o: o.helper.make_model(o.GraphProto()),
        lambda o: o.helper.make_model(o.NodeProto()),
        lambda o: o.helper.make_model(None),
        lambda o: o.helper.make_model(),
        *(
            (lambda o, kwargs=kwargs: o.helper.make_model(graph(o), **kwargs(o)))
            for kwargs in [
                lambda o: {"opset_imports": [o.helper.make_opsetid("", 3), o.helper.make_opsetid("m", 1)]},
                lambda o: {"opset_imports": []},
                lambda o: {"opset_imports": None},
                lambda o: {"opset_imports": 3},
                lambda o: {"opset_imports": [o.NodeProto()]},
                lambda o: {"functions": [o.helper.make_function("d", "f", [], [], [], [])]},
                lambda o: {"functions": []},
                lambda o: {"functions": None},
                lambda o: {"functions": [o.NodeProto()]},
                lambda o: {"ir_version": 3},
                lambda o: {"ir_version": None},
                lambda o: {"ir_version": "x"},
                lambda o: {"producer_name": "p", "producer_version": "1", "domain": "d"},
                lambda o: {"model_version": 5, "doc_string": "documentation"},
                lambda o: {"producer_name": 3},
                lambda o: {"unknown": 1},
                lambda o: {"metadata_props": [o.StringStringEntryProto()]},
                lambda o: {"opset_import": [o.helper.make_opsetid("", 3)]},
                lambda o: {"training_info": [o.TrainingInfoProto()]},
                lambda o: {"SerializeToString": 3},
                lambda o: {"graph": graph(o)},
            ]
        ),
        *(
            (lambda o, sets=sets, more=more: o.helper.make_model_gen_version(
                graph(o), opset_imports=[o.helper.make_opsetid(*pair) for pair in sets], **more
            ))
            for sets, more in [
                ([("", 3)], {}), ([("", 23)], {}), ([("", 29)], {}), ([("m", 1)], {}), ([], {}), ([("", 0)], {}),
                ([("ai.onnx", 9)], {}), ([("ai.onnx.ml", 4), ("", 8)], {}), ([("", 29)], {"ir_version": 99}),
            ]
        ),
        lambda o: o.helper.make_model_gen_version(graph(o)),
        lambda o: o.helper.make_model_gen_version(graph(o), opset_imports=None),
        lambda o: o.helper.make_model_gen_version(graph(o), opset_imports=3),
        lambda o: o.helper.make_training_info(graph(o), [("a", "b")], graph(o, "i"), [("c", "d")]),
        lambda o: o.helper.make_training_info(graph(o), [], None, None),
        lambda o: o.helper.make_training_info(graph(o), [("a", "b")], None, [("c", "d")]),
        lambda o: o.helper.make_training_info(graph(o), ["ab"], o.GraphProto(), []),
        lambda o: o.helper.make_training_info(graph(o), [("a",)], None, None),
        lambda o: o.helper.make_training_info(graph(o), [("a", "b", "c")], None, None),
        lambda o: o.helper.make_training_info(graph(o), [("a", 1)], None, None),
        lambda o: o.helper.make_training_info(graph(o), None, None, None),
        lambda o: o.helper.make_training_info(graph(o), 3, None, None),
        lambda o: o.helper.make_training_info(o.NodeProto(), [], None, None),
        lambda o: o.helper.make_training_info(None, [], None, None),
        *(
            (lambda o, make=make, domain=domain, version=version: getattr(o.helper, make)(domain, version))
            for make in ("make_opsetid", "make_operatorsetid")
            for domain, version in [
                ("", 1), ("d", 2), (b"d", 1), (None, 1), (3, 1), ("d", None), ("d", "1"), ("d", 1.0), ("d", 2**63),
                ("d", -1), ("d", True), ("d", np.int64(3)),
            ]
        ),
    ],
)  # fmt: skip
def test_graphs_functions_and_models(call: Call) -> None:
    same(call)


def test_every_operator_set_of_every_release() -> None:
    assert refeed.onnx.helper.VERSION_TABLE == onnx.helper.VERSION_TABLE
    assert refeed.onnx.helper.OP_SET_ID_VERSION_MAP == onnx.helper.OP_SET_ID_VERSION_MAP
    domains = ["", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview", "ai.onnx.preview.training", "m"]
    for domain, version, ignore in itertools.product(domains, range(32), [False, True]):
        same(
            lambda o, d=domain, v=version, i=ignore: o.helper.find_min_ir_version_for(
                [o.helper.make_opsetid("", 9), o.helper.make_opsetid(d, v)], i
            )
        )
    same(lambda o: o.helper.find_min_ir_version_for([]))
    same(lambda o: o.helper.find_min_ir_version_for(None))
    same(lambda o: o.helper.find_min_ir_version_for(3))
    same(lambda o: o.helper.find_min_ir_version_for([3]))
    same(lambda o: o.helper.find_min_ir_version_for([o.OperatorSetIdProto()]))


@pytest.mark.parametrize(
    "message", ["ModelProto", "GraphProto", "FunctionProto", "NodeProto", "TensorProto", "ValueInfoProto", "TypeProto"]
)
def test_metadata(message: str) -> None:
    def set_twice(o: Any, setter: str, metadata: Any) -> Any:
        made = getattr(o, message)()
        getattr(o.helper, setter)(made, {"old": "value"})
        return getattr(o.helper, setter)(made, metadata), made

    for setter in ("set_metadata_props", "set_model_props"):
        for metadata in [{"a": "b", "c": "d"}, {}, {b"a": b"b"}, {"a": 1}, {1: "a"}, {"a": None}, None, [("a", "b")]]:
            same(lambda o, s=setter, m=metadata: set_twice(o, s, m))
    same(lambda o: o.helper.set_metadata_props(3, {"a": "b"}))


def test_doc_strings_are_stripped_at_every_depth() -> None:
    # The official function fails with the protobuf package that is installed, so the result is written out.
    o: Any = refeed.onnx

    def model(documentation: str | None) -> Any:
        text = {} if documentation is None else {"doc_string": documentation}
        inner = o.GraphProto(name="inner", initializer=[o.TensorProto(name="t", **text)], **text)
        attribute = o.AttributeProto(name="body", g=inner, **text)
        node = o.NodeProto(op_type="Loop", attribute=[attribute, o.AttributeProto(name="i", ints=[1])], **text)
        outer = o.GraphProto(node=[node], input=[o.ValueInfoProto(name="x", **text)], **text)
        return o.ModelProto(graph=outer, functions=[o.FunctionProto(name="f", node=[node], **text)], **text)

    for documentation in ("documentation", ""):
        stripped = model(documentation)
        assert stripped != model(None)
        o.helper.strip_doc_string(stripped)
        assert stripped == model(None)
    empty = o.ModelProto()
    o.helper.strip_doc_string(empty)
    assert not empty.HasField("graph")
    for value in (None, 3, o.ModelProto):
        refused(lambda o, value=value: o.helper.strip_doc_string(value))


# Text for people


def fields(o: Any) -> dict[str, Any]:
    tensor = o.helper.make_tensor("t", 1, [2], [1, 2])
    return {
        "f": 1, "i": 2, "s": b"x", "t": tensor, "g": o.GraphProto(name="g"), "tp": o.TypeProto(denotation="d"),
        "sparse_tensor": o.SparseTensorProto(), "floats": [0.1], "ints": [2], "strings": [b"y"], "tensors": [tensor],
        "graphs": [o.GraphProto(name="h")], "type_protos": [o.TypeProto()], "sparse_tensors": [o.SparseTensorProto()],
    }  # fmt: skip


def test_printed_attributes() -> None:
    names = list(fields(onnx))
    for size in (0, 1, 2):
        for chosen in itertools.combinations(names, size):

            def attribute(o: Any, chosen: tuple[str, ...] = chosen) -> Any:
                every = fields(o)
                return o.AttributeProto(name="a", **{name: every[name] for name in chosen})

            same(lambda o, a=attribute: o.helper.printable_attribute(a(o), True))
    values: list[Any] = [
        1e30, 1234567890.0, 1e-5, 0.1, "x" * 63, "x" * 64, "x" * 65, "é" * 64, b"\xff" * 70 + b"a", "\n" * 70, '"',
        "\\",
        ["x" * 100, "é", b"\xff"], [0.1] * 50, list(range(100)),
    ]  # fmt: skip
    for value in values:
        same(lambda o, v=value: o.helper.printable_attribute(o.helper.make_attribute("a", v)))
    for data_type, value in [(1, 0.1), (7, 5), (8, "x"), (9, True), (10, 1.5), (11, 0.1), (13, 2**63), (14, 1 + 2j)]:
        same(
            lambda o, d=data_type, v=value: o.helper.printable_attribute(
                o.helper.make_attribute("a", o.helper.make_tensor("t", d, [], [v]))
            )
        )
    for number in (0, 1, 99):
        same(lambda o, n=number: o.helper.printable_attribute(o.AttributeProto(t=o.TensorProto(data_type=n))))
        same(lambda o, n=number: o.helper.printable_tensor_proto(o.TensorProto(data_type=n, dims=[0, -1, 3])))
    for wrong in [3, None]:
        for function in ("attribute", "dim", "type", "value_info", "tensor_proto", "node", "graph"):
            same(lambda o, f=function, w=wrong: getattr(o.helper, f"printable_{f}")(w))


@pytest.mark.parametrize(
    "dim", [{}, {"dim_value": 0}, {"dim_value": -5}, {"dim_param": "N"}, {"dim_param": ""}, {"denotation": "d"}]
)
def test_printed_dimensions(dim: dict[str, Any]) -> None:
    same(lambda o: o.helper.printable_dim(o.TensorShapeProto.Dimension(**dim)))


@st.composite
def graph_makers(draw: st.DrawFn, depth: int = 0) -> Call:
    """Graphs with any mix of inputs, constants and nested graphs."""
    names = st.sampled_from(["x", "y", "w", "v", ""])
    nodes = draw(st.lists(st.tuples(st.lists(names, max_size=2), st.lists(names, max_size=2)), max_size=2))
    inner = draw(st.lists(graph_makers(depth + 1), max_size=2)) if depth < 2 else []
    inputs, outputs = draw(st.lists(names, max_size=3, unique=True)), draw(st.lists(names, max_size=2))
    constants = draw(st.lists(names, max_size=2, unique=True))

    def make(o: Any) -> Any:
        made = [o.helper.make_node("Op", *node, alpha=1) for node in nodes]
        made += [o.helper.make_node("If", [], ["z"], branch=body(o), more=[body(o)]) for body in inner]
        values = [o.helper.make_tensor_value_info(name, 1, [2, "N"]) for name in inputs]
        tensors = [o.helper.make_tensor(name, 1, [2], [1, 2]) for name in constants]
        returned = [o.helper.make_empty_tensor_value_info(name) for name in outputs]
        return o.helper.make_graph(made, f"g{depth}", values, returned, tensors)

    return make


@given(graph_makers(), st.sampled_from(["", "  ", "> "]))
def test_printed_graphs(make: Call, prefix: str) -> None:
    same(lambda o: o.helper.printable_graph(make(o), prefix))
    same(lambda o: [o.helper.printable_node(node, prefix) for node in make(o).node])
    same(lambda o: [o.helper.printable_node(node, prefix, subgraphs=True) for node in make(o).node])


def test_printing_a_graph_is_deprecated() -> None:
    for o in (onnx, refeed.onnx):
        with pytest.warns(DeprecationWarning, match="to_text"):
            o.helper.printable_graph(o.GraphProto())


def test_official_messages_are_attributes() -> None:
    tensor = onnx.helper.make_tensor("t", 1, [2], [1.0, 2.0])
    graph = onnx.parser.parse_graph("g (float[n] x) => (float[n] y) { y = Relu(x) }")
    sparse = onnx.helper.make_sparse_tensor(tensor, onnx.helper.make_tensor("i", 7, [2], [0, 3]), [5])
    tp = onnx.helper.make_tensor_type_proto(1, ["n"])
    values: dict[str, Any] = {"t": tensor, "g": graph, "s": sparse, "tp": tp}
    values |= {f"{key}s": [value, value] for key, value in values.items()}
    ours, theirs = (
        o.helper.make_node("Op", ["x"], ["y"], "n", **values).SerializeToString() for o in (refeed.onnx, onnx)
    )
    assert ours == theirs
    mixed = [tensor, refeed.onnx.TensorProto.FromString(tensor.SerializeToString())]
    made = refeed.onnx.helper.make_attribute("k", mixed)
    assert list(made.tensors) == [mixed[1], mixed[1]]
    empty = refeed.onnx.helper.make_attribute("k", [], attr_type=refeed.onnx.AttributeProto.TENSORS)
    assert empty.type == refeed.onnx.AttributeProto.TENSORS
    function: Any = onnx.FunctionProto(name="f")
    with pytest.raises(TypeError, match=r"attribute .k.: .* of type FunctionProto is no attribute's value; expected"):
        refeed.onnx.helper.make_attribute("k", function)
    with pytest.raises(TypeError, match="tensors: expected a TensorProto, got GraphProto"):
        refeed.onnx.helper.make_attribute("k", [graph], attr_type=refeed.onnx.AttributeProto.TENSORS)


def test_outcomes_can_differ() -> None:
    """The comparison of this file can fail."""
    assert outcome(lambda o: o.helper.make_node("A", [], []), onnx) != outcome(
        lambda o: o.helper.make_node("B", [], []), refeed.onnx
    )
    with pytest.raises(AssertionError):
        same(lambda o: o.__name__)
