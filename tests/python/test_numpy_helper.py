"""`refeed.onnx.numpy_helper` against `onnx.numpy_helper`."""

# Calls take the package, whether they use it or not.
# ruff: noqa: ARG005

import gc
import itertools
import math
import re
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import refeed.onnx
from differential import Call, same
from hypothesis import given
from hypothesis import strategies as st
from refeed.onnx import TensorProto, numpy_helper

ELEMENT_TYPES = sorted(onnx.helper.get_all_tensor_dtypes())
DTYPES = [onnx.helper.tensor_dtype_to_np_dtype(number) for number in ELEMENT_TYPES]
F4 = np.array([1, 2], np.float32)


def numbers(dtype: np.dtype[Any], size: int) -> np.ndarray[Any, Any]:
    """Different numbers of a type, negative ones among them."""
    if dtype.kind == "O":
        return np.array([f"é{i}" for i in range(size)], object)
    return (np.arange(size) * 7 % 5 - 2).astype(np.float32).astype(dtype)


# Arrays


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_array_of_every_type(dtype: np.dtype[Any]) -> None:
    for shape in [(), (0,), (1,), (2,), (3,), (5,), (2, 3), (3, 0, 2), (2, 2, 3)]:
        array = numbers(dtype, math.prod(shape)).reshape(shape)
        number = dtype.name == "float8_e8m0fnu" and not shape  # onnx cannot make a tensor of one that is not in a list.
        same(lambda o, a=array: o.numpy_helper.from_array(a, "name"))
        same(lambda o, a=array: o.numpy_helper.to_array(o.numpy_helper.from_array(a)))
        if len(shape) > 1:
            same(lambda o, a=array: o.numpy_helper.from_array(a.T))
            same(lambda o, a=array: o.numpy_helper.from_array(a[::-1]))
        for raw in (False, True):
            if not (raw and dtype.kind == "O") and not number:
                same(
                    lambda o, a=array, r=raw: o.numpy_helper.to_array(
                        o.helper.make_tensor("t", o.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape, a, raw=r)
                    )
                )


@pytest.mark.parametrize("data_type", ELEMENT_TYPES, ids=onnx.helper.tensor_dtype_to_string)
@given(data=st.data())
def test_tensors_with_any_content(data_type: int, data: st.DataObject) -> None:
    """Every field holds what it can, whether it fits the shape and the element type or not."""
    field = onnx.helper.tensor_dtype_to_field(data_type)
    values: st.SearchStrategy[Any] = {
        "float_data": st.floats(width=32), "double_data": st.floats(),
        # NumPy, and with it onnx, cuts zero bytes from the end of a string.
        "string_data": st.binary(max_size=3).map(lambda text: text.rstrip(b"\0")),
        "int32_data": st.integers(-(2**31), 2**31 - 1) | st.integers(-20, 300),
        "int64_data": st.integers(-(2**63), 2**63 - 1), "uint64_data": st.integers(0, 2**64 - 1),
    }[field]  # fmt: skip
    content: dict[str, Any] = {field: data.draw(st.lists(values, max_size=6))}
    if data.draw(st.booleans()):
        content["raw_data"] = data.draw(st.binary(max_size=12))
    dims = data.draw(st.lists(st.integers(0, 4), max_size=2))
    made = onnx.TensorProto(data_type=data_type, dims=dims, **content)
    if data_type == onnx.TensorProto.BOOL:
        # Both are true, but the bytes differ: onnx keeps 2 in a bool.
        same(lambda o: o.numpy_helper.to_array(o.TensorProto.FromString(made.SerializeToString())).tolist())
    else:
        same(lambda o: o.numpy_helper.to_array(o.TensorProto.FromString(made.SerializeToString())))


@pytest.mark.parametrize(
    "call",
    [
        *(
            (lambda o, tensor=tensor: o.numpy_helper.to_array(tensor(o)))
            for tensor in [
                lambda o: o.TensorProto(),
                lambda o: o.TensorProto(dims=[1], float_data=[1]),
                lambda o: o.TensorProto(data_type=99),
                lambda o: o.TensorProto(data_type=1, dims=[1], segment=o.TensorProto.Segment(begin=1)),
                lambda o: o.TensorProto(data_type=1, dims=[1], int32_data=[1]),
                lambda o: o.TensorProto(data_type=1, dims=[2**40, 2**40], float_data=[1]),
                lambda o: o.TensorProto(data_type=1, dims=[2**62, 8]),
                lambda o: o.TensorProto(data_type=8, dims=[1], string_data=[b"\xff"]),
                lambda o: o.TensorProto(data_type=8, dims=[1], raw_data=b"a"),
                lambda o: o.TensorProto(data_type=1, dims=[1], data_location=o.TensorProto.EXTERNAL),
                lambda o: o.GraphProto(),
                lambda o: 3,
                lambda o: None,
            ]
        ),
        *(
            (lambda o, array=array: o.numpy_helper.from_array(array))
            for array in [
                np.array(["a", "b"]), np.array("a"), np.array([["a", "b"], ["c", "d"]]),
                np.array(["a", b"\xff"], object), np.array([b"a"]),
                np.array([1], object), np.array(["a", 1], object), np.array([None], object),
                np.array([], object), np.array([np.str_("a"), np.bytes_(b"b")], object), np.array(["\ud800"], object),
                np.array([1, 2], ">f4"), np.array([1, 2], ">i2"), np.array([1], "M8[s]"), np.array([1], "g"),
                np.array([1, 2, 3], ml_dtypes.float8_e4m3), np.array([(1, 2)], [("a", "i4"), ("b", "f4")]),
                np.array(["a"], np.dtypes.StringDType()), np.array([1, 2, 3, 4], np.int32)[::2], np.float32(3),
                np.broadcast_to(np.float32(1), (2, 3)), [1, 2], 3, None, "a",
            ]
        ),
        *((lambda o, name=name: o.numpy_helper.from_array(F4, name)) for name in ["", "n", b"n", None, 0, 3]),
        lambda o: o.numpy_helper.from_array(array=F4),
        *(
            (lambda o, array=array: o.numpy_helper.tobytes_little_endian(array))
            for array in [
                np.array([1, 2], ">i4"), np.array([1, 2], "<i4"), np.array([[1, 2], [3, 4]], np.int16).T,
                np.array(["a"]), np.array([1], ">c8"), np.array([1], ml_dtypes.bfloat16), np.float32(1),
                np.array([], ">f8"), [1], 3,
            ]
        ),
    ],
)  # fmt: skip
def test_arrays(call: Call) -> None:
    same(call)


def test_arrays_where_we_differ() -> None:
    with pytest.raises(ValueError, match="sizes are at least 0"):
        numpy_helper.to_array(TensorProto(data_type=1, dims=[-1], float_data=[1, 2]))


# Lists, dictionaries, optional values

PYTHON: list[Any] = [
    [F4], [F4, F4], [], [[F4], [F4, F4]], [[]], [{1: F4}, {2: F4}], [F4, [F4]], [{1: F4}, [F4]], [1], ["a"], [True],
    [1.5, 2.5], [None], [F4, None], (F4,), F4, [np.float32(1)], [F4, np.array([1])], [{}], 3, None, iter([F4]), "ab",
    [[[F4]]], [[{1: F4}]],
]  # fmt: skip
DICTIONARIES: list[Any] = [
    {1: F4}, {1: F4, 2: F4}, {}, {1: F4, "a": F4}, {1.5: F4}, {True: F4}, {np.int32(1): F4}, {np.uint8(1): F4},
    {np.int64(1): F4, np.int64(2): F4}, {1: 1}, {1: 1, 2: 2.5}, {1: F4, 2: np.array([1])}, {np.int8(1): 1, 2: 2},
    {np.float32(1): F4}, {np.bool_(True): F4}, {-1: F4}, {2**40: F4}, {2**63: F4}, {np.uint64(2**63): F4}, {1: None},
    {1: {}}, {None: F4}, {(1,): F4}, {1: True}, {1: 1j}, {1: np.float32(2)}, {1: np.array([1, 2], ml_dtypes.bfloat16)},
    [1], None,
]  # fmt: skip


def test_lists() -> None:
    for value in PYTHON:
        for dtype in [None, 0, 1, 2, 5, 99]:
            same(lambda o, v=value, d=dtype: o.numpy_helper.from_list(v, "name", d))
        same(lambda o, v=value: o.numpy_helper.to_list(o.numpy_helper.from_list(v)))
    same(lambda o: o.numpy_helper.from_list([F4], None, "x"))
    same(lambda o: o.numpy_helper.from_list([F4], None, o.SequenceProto.SEQUENCE))
    same(lambda o: o.numpy_helper.from_list([{1: F4}], None, o.SequenceProto.MAP))
    for name in ["", None, b"n", 3]:
        same(lambda o, n=name: o.numpy_helper.from_list([F4], n))


def test_dictionaries() -> None:
    for value in DICTIONARIES:
        same(lambda o, v=value: o.numpy_helper.from_dict(v, "name"))
        same(lambda o, v=value: o.numpy_helper.to_dict(o.numpy_helper.from_dict(v)))
    for name in ["", None, b"n", 3]:
        same(lambda o, n=name: o.numpy_helper.from_dict({1: F4}, n))


def test_optional_values() -> None:
    for value in [*PYTHON, *DICTIONARIES]:
        for dtype in [None, 0, 1, 2, 99, "x"]:
            same(lambda o, v=value, d=dtype: o.numpy_helper.from_optional(v, "name", d))
        same(lambda o, v=value: o.numpy_helper.to_optional(o.numpy_helper.from_optional(v)))


@pytest.mark.parametrize("kind", [*onnx.SequenceProto.DataType.values(), 99])
def test_messages_of_values(kind: int) -> None:
    def sequence(o: Any, **fields: Any) -> Any:
        return o.SequenceProto(elem_type=kind, **fields)

    def some(o: Any) -> Any:
        return o.numpy_helper.from_array(F4)

    if kind != onnx.SequenceProto.OPTIONAL:
        same(lambda o: o.numpy_helper.to_list(sequence(o)))
        same(lambda o: o.numpy_helper.to_list(sequence(o, tensor_values=[some(o), some(o)])))
        same(lambda o: o.numpy_helper.to_list(sequence(o, sequence_values=[o.numpy_helper.from_list([F4])])))
        same(lambda o: o.numpy_helper.to_list(sequence(o, map_values=[o.numpy_helper.from_dict({1: F4})])))
    for key_type, keys in itertools.product([0, 1, 6, 7, 8, 9], [{}, {"keys": [1]}, {"string_keys": [b"\xff"]}]):
        if kind != onnx.SequenceProto.OPTIONAL:
            same(
                lambda o, t=key_type, k=keys: o.numpy_helper.to_dict(
                    o.MapProto(key_type=t, values=sequence(o, tensor_values=[some(o)]), **k)
                )
            )
    values: list[Call] = [
        lambda o: {},
        lambda o: {"tensor_value": some(o)},
        lambda o: {"sequence_value": o.numpy_helper.from_list([F4])},
        lambda o: {"map_value": o.numpy_helper.from_dict({1: F4})},
        lambda o: {"optional_value": o.numpy_helper.from_optional(F4)},
    ]
    for value in values:
        same(lambda o, v=value: o.numpy_helper.to_optional(o.OptionalProto(elem_type=kind, **v(o))))
    for function in ("to_list", "to_dict", "to_optional"):
        same(lambda o, f=function: getattr(o.numpy_helper, f)(3))


def test_values_where_we_differ() -> None:
    """The official functions trip over these."""
    made = numpy_helper.from_dict({"a": F4, "b": F4 * 2})
    assert made.key_type == TensorProto.STRING
    assert list(made.string_keys) == [b"a", b"b"]
    assert list(numpy_helper.to_dict(made)) == [b"a", b"b"]
    nested = numpy_helper.to_dict(numpy_helper.from_dict({1: [F4], 2: [F4 * 2]}))
    np.testing.assert_array_equal(nested[2][0], F4 * 2)
    inner = numpy_helper.to_dict(numpy_helper.from_dict({1: {2: F4}}))
    np.testing.assert_array_equal(inner[1][2], F4)
    optional = refeed.onnx.SequenceProto(
        elem_type=refeed.onnx.SequenceProto.OPTIONAL,
        optional_values=[numpy_helper.from_optional(None), numpy_helper.from_optional(F4)],
    )
    absent, present = numpy_helper.to_list(optional)
    assert absent is None
    np.testing.assert_array_equal(present, F4)


def test_depth_is_bounded() -> None:
    value: Any = [F4]
    for _ in range(150):
        value = [value]
    with pytest.raises(ValueError, match="deeper than 100"):
        numpy_helper.from_list(value)
    with pytest.raises(ValueError, match="deeper than 100"):
        numpy_helper.from_optional(value)


# Numbers


@pytest.mark.parametrize("dtype", [*(d for d in DTYPES if d.kind != "O"), np.dtype("M8[s]")], ids=str)
def test_saturating_casts(dtype: np.dtype[Any]) -> None:
    numbers: list[Any] = [
        np.array([-1e9, -300, -7.5, -0.3, 0, 0.3, 1, 7.5, 300, 70000, 1e9, np.inf, -np.inf], np.float32),
        np.array([-0.5, 0.5, 1.5, 2.5, -1.5, 3.25]), np.array([-300, -2, 0, 3, 9, 300]),
        np.array([0, 7, 255], np.uint8), np.array([[1.5, -2], [3, 4]], np.float16),
        np.array([1.5, -7], ml_dtypes.bfloat16), 3.5, [1, 2], [],
    ]  # fmt: skip
    for x in numbers:
        same(lambda o, x=x: o.numpy_helper.saturate_cast(x, dtype))
    if dtype.kind == "f" or "float" in dtype.name:
        same(lambda o: o.numpy_helper.saturate_cast(np.array([np.nan], np.float32), dtype))


@given(
    st.lists(
        st.floats(width=32) | st.integers(-130, 130).map(lambda power: math.ldexp(1.0, power)) |
        st.floats(-2.0**-120, 2.0**-120, width=32),
        min_size=1, max_size=20,
    ),
    st.booleans(),
    st.sampled_from(["up", "down", "nearest"]),
)  # fmt: skip
def test_scales_of_microscaling_blocks(values: list[float], saturate: bool, mode: str) -> None:
    same(lambda o: o.numpy_helper.to_float8e8m0(np.array(values), saturate, mode))
    same(lambda o: o.numpy_helper.to_float8e8m0(values, saturate=saturate, round_mode=mode))


def test_scales_near_every_power_of_two() -> None:
    bits = np.arange(256, dtype=np.uint32)[:, None] << 23 | np.array([0, 1, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFF])
    for saturate, mode in itertools.product([True, False], ["up", "down", "nearest"]):
        same(lambda o, s=saturate, m=mode: o.numpy_helper.to_float8e8m0(bits.astype(np.uint32).view(np.float32), s, m))
    same(lambda o: o.numpy_helper.to_float8e8m0([1.0], round_mode="even"))
    same(lambda o: o.numpy_helper.to_float8e8m0(np.array(["a"])))


def test_random_integers() -> None:
    types: list[Any] = [*DTYPES, np.int32, np.uint8, np.float32, "int32", np.bool_, ml_dtypes.int4, None]
    for dtype in types:
        for shape in [(2, 3), (), (0,), 3, None]:
            same(lambda o, d=dtype, s=shape: o.numpy_helper.create_random_int(s, d))
    for seed in [0, 7, 2**32 - 1, -1]:
        same(lambda o, s=seed: o.numpy_helper.create_random_int((2,), np.int16, s))
    same(lambda o: o.numpy_helper.create_random_int((-1,), np.int16))


def test_random_integers_leave_the_global_generator_alone() -> None:
    before = np.random.get_state(legacy=False)["state"]["key"].tobytes()  # noqa: NPY002
    numpy_helper.create_random_int((2,), np.int32)
    assert np.random.get_state(legacy=False)["state"]["key"].tobytes() == before  # noqa: NPY002


# Without a copy


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def view_address(tensor: TensorProto) -> int:
    return address(np.frombuffer(tensor.raw_data_view(), np.uint8))


def frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


PACKED = ("int2", "int4", "uint2", "uint4", "float4", "float6")


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind != "O" and not d.name.startswith(PACKED)], ids=str)
def test_arrays_are_adopted_where_they_lie(dtype: np.dtype[Any]) -> None:
    for shape in [(7,), (2, 3), (1,), ()]:
        array = frozen(np.ones(shape, np.float32).astype(dtype))
        tensor = numpy_helper.from_array(array, "t", copy=False)
        assert view_address(tensor) == address(array)
        back = numpy_helper.to_array(tensor, copy=False)
        assert address(back) == address(array)
        assert back.dtype == array.dtype
        assert back.shape == array.shape
        assert not back.flags.writeable
        assert back.tobytes() == array.tobytes()
        assert tensor.SerializeToString() == numpy_helper.from_array(array, "t").SerializeToString()
        # Without `copy` it is not copied where it need not be, and it can be where that is asked for.
        assert address(numpy_helper.to_array(tensor)) == address(array)
        own = numpy_helper.to_array(tensor, copy=True)
        assert address(own) != address(array)
        assert own.flags.writeable
        assert own.tobytes() == array.tobytes()


def test_adopted_memory_outlives_the_array_and_the_tensor() -> None:
    array = frozen(np.arange(1000, dtype=np.int64))
    where, alive = address(array), weakref.ref(array)
    graph = refeed.onnx.GraphProto(initializer=[numpy_helper.from_array(array, "w", copy=False)])
    del array
    gc.collect()
    assert alive() is not None
    back = numpy_helper.to_array(graph.initializer[0], copy=False)
    assert address(back) == where
    del graph
    gc.collect()
    assert alive() is not None
    np.testing.assert_array_equal(back, np.arange(1000))
    del back
    gc.collect()
    assert alive() is None, "the array is never let go"


def test_an_array_may_go_while_messages_are_edited() -> None:
    """What is let go inside an edit has a finaliser that comes back to messages."""
    tensor = TensorProto()

    class Owner(np.ndarray[Any, Any]):
        def __del__(self) -> None:
            tensor.name += "x"

    for _ in range(3):
        array = np.zeros(4, np.float32).view(Owner)
        array.flags.writeable = False
        array.base.flags.writeable = False  # type: ignore[union-attr]
        holder = numpy_helper.from_array(array, copy=False)
        del array
        holder.raw_data = b"other"
        holder.Clear()
    assert tensor.name == "xxx"


def test_bytes_are_adopted_where_they_lie() -> None:
    payload = bytes(range(64))
    where = address(np.frombuffer(payload, np.uint8))
    tensor = TensorProto(data_type=TensorProto.UINT8, dims=[64], raw_data=payload)
    assert tensor.raw_data is payload
    assert view_address(tensor) == where
    assert address(numpy_helper.to_array(tensor, copy=False)) == where
    # An array over bytes is read-only by itself.
    array = np.frombuffer(payload, np.int16)
    assert view_address(numpy_helper.from_array(array, copy=False)) == where
    assert numpy_helper.from_array(array, copy=False).raw_data == payload
    copied = TensorProto()
    copied.CopyFrom(tensor)
    assert view_address(copied) == where


def test_views_of_raw_data() -> None:
    tensor = TensorProto()
    assert tensor.raw_data_view().nbytes == 0
    assert not tensor.HasField("raw_data")
    tensor.raw_data = b"abc"
    view = tensor.raw_data_view()
    assert view.readonly
    assert view.tobytes() == b"abc"
    tensor.raw_data = b"other"
    assert view.tobytes() == b"abc", "a later edit reached a view"
    assert tensor.raw_data_view().tobytes() == b"other"
    with pytest.raises(TypeError):
        view[0] = 1
    assert refeed.onnx.EncodedValueProto(raw_data=b"q").raw_data_view().tobytes() == b"q"
    with pytest.raises(AttributeError):
        _ = refeed.onnx.GraphProto().raw_data_view()  # type: ignore[attr-defined]


def read_only_view_of_a_writeable_array() -> np.ndarray[Any, Any]:
    return frozen(np.zeros(6, np.float32)[:])


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: np.zeros(3, np.float32), "can be written to"),
        (read_only_view_of_a_writeable_array, "through the array that it is a view of"),
        (lambda: frozen(np.frombuffer(bytearray(8), np.float32)), "through a bytearray"),
        (lambda: frozen(np.frombuffer(memoryview(bytearray(8)), np.float32)), "through a bytearray"),
        (lambda: frozen(frozen(np.zeros((2, 3), np.float32)).T), "not C-contiguous"),
        (lambda: frozen(frozen(np.zeros(6, np.float32))[::2]), "not C-contiguous"),
        (lambda: frozen(np.zeros(3, ">f4")), "byte order"),
        (lambda: frozen(np.zeros(3, ml_dtypes.int4)), "elements of 4 bits"),
        (lambda: frozen(np.zeros(3, ml_dtypes.float6_e2m3fn)), "elements of 6 bits"),
        (lambda: frozen(np.array(["a"], object)), "strings"),
        (lambda: frozen(np.array(["a"])), "strings"),
        (lambda: frozen(np.zeros(3, "M8[s]")), "no tensor holds"),
    ],
)
def test_arrays_that_cannot_be_adopted(make: Callable[[], np.ndarray[Any, Any]], why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        numpy_helper.from_array(make(), copy=False)


def test_only_arrays_are_adopted() -> None:
    with pytest.raises(TypeError, match="only an array"):
        numpy_helper.from_array(np.float32(3), copy=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"data_type": 1, "dims": [1], "float_data": [1]}, "not in raw_data"),
        ({"data_type": 8, "dims": [1], "string_data": [b"a"]}, "not in raw_data"),
        ({"data_type": 22, "dims": [2], "raw_data": b"a"}, "4 bits"),
        ({"data_type": 27, "dims": [4], "raw_data": b"abc"}, "6 bits"),
        ({"data_type": 1, "dims": [2], "data_location": 1}, "in a file"),
    ],
)
def test_tensors_without_an_array_of_their_own(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        numpy_helper.to_array(TensorProto(**fields), copy=False)


def test_a_tensor_of_bytes_at_any_address() -> None:
    """A payload from a file lies where it lies."""
    payload = b"x" + np.arange(3, dtype=np.float32).tobytes()
    view = np.frombuffer(payload, np.uint8)[1:]
    tensor = numpy_helper.from_array(view, copy=False)
    tensor.data_type, tensor.dims[0] = TensorProto.FLOAT, 3
    array = numpy_helper.to_array(tensor, copy=False)
    assert address(array) == address(view)
    np.testing.assert_array_equal(array, [0, 1, 2])
