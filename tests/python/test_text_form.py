"""The text form beside that of the official package: what it parses, what it prints, where it finds faults."""

import copy
import doctest
import math
import pathlib
import pickle
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx.printer
import pytest
import refeed
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests
from refeed.onnx import messages, parser, printer

TEXTS = pathlib.Path(__file__).resolve().parents[1] / "data" / "text"
Parse = Callable[[Any], Any]

#: Each entry point: ours, the official one, and the official class of what comes out.
ENTRIES: dict[str, tuple[Parse, Parse | None, Any]] = {
    "model": (parser.parse_model, onnx.parser.parse_model, onnx.ModelProto),
    "graph": (parser.parse_graph, onnx.parser.parse_graph, onnx.GraphProto),
    "function": (parser.parse_function, onnx.parser.parse_function, onnx.FunctionProto),
    "node": (parser.parse_node, onnx.parser.parse_node, onnx.NodeProto),
    "attribute": (parser.parse_attribute, None, onnx.AttributeProto),
    "tensor": (parser.parse_tensor, None, onnx.TensorProto),
    "value_info": (parser.parse_value_info, None, onnx.ValueInfoProto),
    "type": (parser.parse_type, None, onnx.TypeProto),
}


def texts(folder: str) -> list[Any]:
    found = []
    for path in sorted((TEXTS / folder).glob("*.txt")):
        # Line feeds as they are: some texts are about them.
        with path.open(encoding="utf-8", newline="") as file:
            cases = re.split(r"^==== ", file.read(), flags=re.MULTILINE)
        for case in cases[1:]:
            title, _, text = case.partition("\n")
            found.append(pytest.param(path.stem, title, text.removesuffix("\n"), id=f"{path.stem}: {title}"))
    return found


def wire(message: Any) -> bytes:
    """The bytes of an official message, or of one of ours as the official package reads and writes it."""
    official = message
    if not type(message).__module__.startswith("onnx"):
        official = getattr(onnx, type(message).__name__)()
        official.ParseFromString(message.SerializeToString())
    written: bytes = official.SerializeToString(deterministic=True)
    return written


def ours(message: Any) -> Any:
    """An official message as one of ours."""
    return getattr(messages, type(message).__name__).FromString(message.SerializeToString())


#: The typed field and the elements of raw data; all other types are bytes in `int32_data`.
RAW: dict[int, tuple[str, str]] = {
    TensorProto.FLOAT: ("float_data", "<f4"),
    TensorProto.COMPLEX64: ("float_data", "<f4"),
    TensorProto.DOUBLE: ("double_data", "<f8"),
    TensorProto.COMPLEX128: ("double_data", "<f8"),
    TensorProto.INT64: ("int64_data", "<i8"),
    TensorProto.UINT64: ("uint64_data", "<u8"),
    TensorProto.UINT32: ("uint64_data", "<u4"),
    TensorProto.INT32: ("int32_data", "<i4"),
    TensorProto.INT16: ("int32_data", "<i2"),
    TensorProto.UINT16: ("int32_data", "<u2"),
    TensorProto.FLOAT16: ("int32_data", "<u2"),
    TensorProto.BFLOAT16: ("int32_data", "<u2"),
    TensorProto.INT8: ("int32_data", "i1"),
}


def plain(message: Any) -> Any:
    """The message with raw elements in their typed field, and without fields that hold their default."""
    if isinstance(message, TensorProto) and message.HasField("raw_data"):
        raw = message.raw_data
        message.ClearField("raw_data")
        if message.data_type in (TensorProto.FLOAT6E2M3, TensorProto.FLOAT6E3M2):
            count = math.prod(message.dims)
            bits = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")[: 6 * count]
            message.int32_data.extend((bits.reshape(count, 6) << np.arange(6)).sum(axis=1).tolist())
        else:
            field, element = RAW.get(message.data_type, ("int32_data", "u1"))
            getattr(message, field).extend(np.frombuffer(raw, element).tolist())
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if field.is_repeated else [value]:
                plain(part)
            # A type that says nothing is no type.
            if isinstance(message, onnx.ValueInfoProto) and field.name == "type" and value == onnx.TypeProto():
                message.ClearField("type")
            continue
        # `-0.0` equals `0.0`, and is no default.
        default = value == field.default_value and not (isinstance(value, float) and math.copysign(1, value) < 0)
        if default and not field.is_repeated and field.containing_oneof is None:
            message.ClearField(field.name)
    return message


@pytest.mark.parametrize(("kind", "title", "text"), texts("valid"))
def test_texts_of_the_grammar_page(kind: str, title: str, text: str) -> None:
    parse, official, _ = ENTRIES[kind]
    assert official is not None, title
    parsed = parse(text)
    assert wire(parsed) == wire(official(text))
    assert parse(text.encode()) == parsed
    again = printer.to_text(parsed, fidelity="exact")
    assert parse(again) == parsed
    assert wire(parse(again)) == wire(parsed)


@pytest.mark.parametrize(("kind", "title", "text"), texts("broken"))
def test_broken_texts(kind: str, title: str, text: str) -> None:
    parse, official, _ = ENTRIES[kind]
    before, mark, after = text.partition("¦")
    assert mark
    with pytest.raises(parser.ParseError) as caught:
        parse(before + after)
    lines = before.split("\n")
    assert (caught.value.line, caught.value.column) == (len(lines), len(lines[-1]) + 1)
    first, _, excerpt = str(caught.value).partition("\n")
    assert first.startswith(f"line {len(lines)}, column {len(lines[-1]) + 1}: expected ")
    assert excerpt.endswith("^")
    if official is not None:
        taken = title.startswith("(taken by onnx)")
        try:
            official(before + after)
        except Exception:  # It raises several kinds.
            assert not taken
        else:
            assert taken


@pytest.fixture(scope="module")
def node_tests() -> list[Any]:
    with warnings.catch_warnings():
        # Its test data overflow on purpose.
        warnings.simplefilter("ignore")
        return [case.model for case in load_model_tests(kind="node")]


def test_texts_of_the_official_printer_parse_to_equal_messages(node_tests: list[Any]) -> None:
    assert len(node_tests) >= 1884
    for model in node_tests:
        text = onnx.printer.to_text(model)
        assert wire(parser.parse_model(text)) == wire(onnx.parser.parse_model(text)), model.graph.name


def test_every_node_test_comes_back(node_tests: list[Any]) -> None:
    for model in node_tests:
        text = printer.to_text(ours(model))
        parsed = parser.parse_model(text)
        # The official package reads our text, too, and its own text differs in blanks only.
        assert wire(onnx.parser.parse_model(text)) == wire(parsed), model.graph.name
        assert "".join(onnx.printer.to_text(model).split()) == "".join(text.split()), model.graph.name
        assert printer.to_text(parsed, fidelity="exact") == text
        back = onnx.ModelProto.FromString(wire(parsed))
        assert wire(plain(back)) == wire(plain(copy.deepcopy(model))), model.graph.name


def test_exported_models_come_back(cases: pathlib.Path) -> None:
    paths = sorted(cases.glob("*/model.onnx"))
    assert len(paths) >= 16
    for path in paths:
        model = onnx.load(path, load_external_data=False)
        text = printer.to_text(ours(model))
        parsed = parser.parse_model(text)
        back = onnx.ModelProto.FromString(wire(parsed))
        assert wire(plain(back)) == wire(plain(model)), path.parent.name
        assert printer.to_text(parsed, fidelity="exact") == text
        assert printer.to_text(ours(onnx.load(path, load_external_data=False)), fidelity="lossy") == text


#: Bits an element, of the types that have other than eight.
BITS: dict[int, int] = {
    **dict.fromkeys((TensorProto.COMPLEX128,), 128),
    **dict.fromkeys((TensorProto.COMPLEX64, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.UINT64), 64),
    **dict.fromkeys((TensorProto.FLOAT, TensorProto.INT32, TensorProto.UINT32), 32),
    **dict.fromkeys((TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT16, TensorProto.UINT16), 16),
    **dict.fromkeys((TensorProto.FLOAT6E2M3, TensorProto.FLOAT6E3M2), 6),
    **dict.fromkeys((TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1), 4),
    **dict.fromkeys((TensorProto.INT2, TensorProto.UINT2), 2),
}


def test_raw_elements_of_every_type_come_back() -> None:
    rng = np.random.default_rng(7)
    for number in set(TensorProto.DataType.values()) - {TensorProto.UNDEFINED, TensorProto.STRING}:
        # Eight elements are as many bytes as one has bits. The bits are any, but no NaN of the wider floats.
        raw = rng.integers(0, 256, BITS.get(number, 8), dtype=np.uint8)
        if number in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.COMPLEX64, TensorProto.COMPLEX128):
            raw &= np.resize(np.array([0xFF, 0xFF, 0xFF, 0xBF], np.uint8), raw.shape)
        tensor = TensorProto(data_type=number, dims=[8], raw_data=raw.tobytes(), name="t")
        back = onnx.TensorProto.FromString(wire(parser.parse_tensor(printer.to_text(ours(tensor)))))
        assert numpy_helper.to_array(back).tobytes() == numpy_helper.to_array(tensor).tobytes(), number
        assert wire(plain(back)) == wire(plain(tensor)), number


def test_numbers_that_are_not_finite_come_back_or_are_refused() -> None:
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, 3.4e38], np.float32)
    node = helper.make_node("Op", [], ["y"], f=[float(value) for value in values])
    node.domain = ""
    text = printer.to_text(ours(node))
    assert text == "y = Op <f: floats = [0, -0, inf, -inf, nan, -nan, 1e-45, 3.4e+38]> ()\n"
    assert wire(parser.parse_node(text)) == wire(node) == wire(onnx.parser.parse_node(text))
    tensor = TensorProto(data_type=TensorProto.FLOAT, dims=[2], name="t", raw_data=b"\0\0\0\0\x01\0\xc0\x7f")
    with pytest.raises(printer.PrintError, match="a NaN with other bits"):
        printer.to_text(ours(tensor))


def test_what_the_text_form_cannot_carry_is_named() -> None:
    """S239."""
    model = parser.parse_model('<ir_version: 10, opset_import: ["": 21]> g (float x) => (float y) { y = Neg (x) }')
    assert printer.to_text(model, fidelity="exact").endswith("{\n   y = Neg (x)\n}")
    graph = model.graph
    graph.persistent_bindings.add(input_name="x", output_name="y")
    graph.encoded_initializer.add(name="e")
    graph.paged_cache_initializer.add(name="c")
    model.struct_types.add(name="t")
    graph.output[0].type.struct_type.name = "s"
    graph.node[0].doc_string = "negates"
    with pytest.raises(printer.PrintError) as caught:
        printer.to_text(model)
    assert caught.value.lost == (
        ("struct_types", "has no syntax"),
        ("graph.encoded_initializer", "has no syntax"),
        ("graph.persistent_bindings", "has no syntax"),
        ("graph.paged_cache_initializer", "has no syntax"),
        ("graph.output[0].type.struct_type", "has no syntax"),
        ("graph.node[0].doc_string", "has no syntax"),
    )
    assert str(caught.value).startswith("the text form cannot carry 6 fields: struct_types: has no syntax; ")
    rest = parser.parse_model(printer.to_text(model, fidelity="lossy"))
    assert list(rest.graph.node[0].input) == ["x"]
    assert not rest.graph.output[0].HasField("type")


def test_fields_that_the_schema_does_not_know_are_named() -> None:
    # Field 2000 of a node in a graph, a varint.
    node = parser.parse_node("y = Neg (x)").SerializeToString() + b"\x80\x7d\x07"
    graph = messages.GraphProto()
    graph.node.add().ParseFromString(node)
    with pytest.raises(printer.PrintError) as caught:
        printer.to_text(graph)
    assert caught.value.lost == (("node[0].2000", "is a field that the schema does not know"),)
    with pytest.raises(printer.PrintError, match=r"cannot carry 1 field: 2000: is a field that the schema.*lossy"):
        printer.to_text(graph.node[0])
    assert printer.to_text(graph, fidelity="lossy") == '"" () => () {\n   y = Neg (x)\n}'


def test_exact_is_exact() -> None:
    node = messages.NodeProto(op_type="Neg", input=["x"], output=["y"])
    assert printer.to_text(node) == "y = Neg (x)\n"
    with pytest.raises(printer.PrintError) as caught:
        printer.to_text(node, fidelity="exact")
    assert [path for path, _ in caught.value.lost] == ["domain"]
    node.domain = ""
    assert parser.parse_node(printer.to_text(node, fidelity="exact")) == node


def test_every_kind_of_message_has_its_text() -> None:
    kinds: list[tuple[Parse, str]] = [
        (parser.parse_attribute, "a: ints = [1, 2]"),
        (parser.parse_tensor, "int64[2] t {1,2}"),
        (parser.parse_value_info, "float[N,3] x"),
        (parser.parse_type, "seq(map(int64, float[]))"),
        (parser.parse_graph, "g () => () {\n}"),
        (parser.parse_function, "<\n  opset_import: []\n>\nf () => ()\n{\n}"),
    ]
    for parse, text in kinds:
        assert printer.to_text(parse(text), fidelity="exact") == text


def test_official_messages_are_printed() -> None:
    official: Any = helper.make_node("Neg", ["x"], ["y"])
    assert printer.to_text(official) == "y = Neg (x)\n"


def test_the_errors() -> None:
    error = parser.ParseError
    assert issubclass(error, refeed.Error)
    assert issubclass(error, ValueError)
    assert error is refeed.ParseError
    assert printer.PrintError is refeed.PrintError
    with pytest.raises(error) as caught:
        parser.parse_node("y = Op (\n  x; z)")
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert (str(again), again.line, again.column) == (str(caught.value), 2, 4)
    assert str(again) == "line 2, column 4: expected `,` or `)`, got `;`\n      x; z)\n       ^"
    wrong: Any = 7
    with pytest.raises(TypeError, match="text: expected str or bytes, got int"):
        parser.parse_model(wrong)
    with pytest.raises(TypeError, match=r"proto: expected one of ModelProto, .*, got OperatorSetIdProto"):
        printer.to_text(messages.OperatorSetIdProto())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"proto: expected one of ModelProto, .*, got str"):
        printer.to_text("model")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='fidelity: expected exact, equivalent or lossy, got "loose"'):
        printer.to_text(messages.NodeProto(), fidelity="loose")  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        parser.parse_node("y = Op (\ud800)")


def test_the_examples_of_the_documentation() -> None:
    for module in (parser, printer):
        failed, tried = doctest.testmod(module)
        assert tried > 0
        assert failed == 0


def test_strings_of_bytes() -> None:
    node = parser.parse_node(b'y = Op <s = "\xff\x00\x80"> ()')
    assert node.attribute[0].s == b"\xff\x00\x80"
    with pytest.raises(printer.PrintError, match=r"attribute\[0\].s: expected a string in UTF-8"):
        printer.to_text(node)


def test_the_refusal_names_the_way_out_where_there_is_one() -> None:
    node = messages.NodeProto(op_type="Add", doc_string="adds")
    with pytest.raises(printer.PrintError) as caught:
        printer.to_text(node)
    assert str(caught.value).endswith('doc_string: has no syntax; fidelity="lossy" prints the rest')
    assert printer.to_text(node, fidelity="lossy")
    # Without a type there is nothing to print at all.
    nothing = messages.TensorProto(dims=[1])
    for fidelity in ("equivalent", "lossy"):
        with pytest.raises(printer.PrintError) as caught:
            printer.to_text(nothing, fidelity=fidelity)
        assert "lossy" not in str(caught.value)
