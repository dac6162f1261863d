"""Tensors, sequences, maps and element types of `refeed.onnx.helper` against `onnx.helper`."""

# Calls take the package, whether they use it or not.

import itertools
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import refeed.onnx
from differential import Call, refused, same
from hypothesis import given
from hypothesis import strategies as st

ELEMENT_TYPES = sorted(onnx.helper.get_all_tensor_dtypes())


LISTS: list[Any] = [
    [1, 0, 2], [1.5, -2.5, 0.25], [300, -300, 70000], [1, 2, 3, 4, 5], [2**40, -(2**40), 2**63], [2**64, 1, 1],
    [float("nan"), float("inf"), -float("inf"), 1e30], [], [1], 1, 3.5, ["a", b"b"], ["é", ""], [True, False],
    [1 + 2j, 3], [[1], [2]],
    [[1, 2], [3, 0]], [[1, 2], [3]], [None, 1], [-1, -2, -3], b"ab", "ab", None, [1, 0, 3, 2], range(4),
    (1, 2), ["1.5"], [10**400], [0.1] * 7, [2**31 - 1, -(2**31)], [255, 128], [7, -8], [1, -2], {1, 2},
]  # fmt: skip
ARRAYS = [
    np.array([1, 2]), np.array([1.5, -2.7]), np.array([1, 2], np.uint16), np.array([1, 2], np.float16),
    np.array([1, 2], ml_dtypes.bfloat16), np.array([1, 2], ml_dtypes.float8_e4m3fn), np.array([1, 2], np.uint8),
    np.array([1, 2], ">f4"), np.array([[1, 2], [3, 0]]), np.array([[1, 2], [3, 0]], np.uint8).T, np.array(3),
    np.array([1 + 2j, 3]), np.array([True, False]), np.float32(3), np.array([1], object), np.zeros((2, 0, 3)),
]  # fmt: skip


def fits(vals: Any) -> list[int]:
    """A shape for these values; one that does not fit where they have none."""
    try:
        return list(np.shape(vals))
    except ValueError:
        return [2]


@pytest.mark.parametrize("data_type", ELEMENT_TYPES, ids=onnx.helper.tensor_dtype_to_string)
def test_tensor_of_every_type(data_type: int) -> None:
    for vals in [*LISTS, *ARRAYS]:
        if data_type == onnx.TensorProto.STRING and isinstance(vals, np.ndarray) and vals.dtype.kind == "V":
            continue  # Arrays of ml_dtypes: onnx writes numbers as text, or trips over a name.
        if data_type == onnx.TensorProto.FLOAT8E8M0 and np.ndim(np.array(vals, object)) == 0:
            continue  # onnx cannot convert a number that is not in a list.
        for shape in [fits(vals), [1], [3]]:
            same(lambda o, v=vals, s=shape: o.helper.make_tensor("t", data_type, s, v))


@pytest.mark.parametrize("data_type", ELEMENT_TYPES, ids=onnx.helper.tensor_dtype_to_string)
def test_raw_tensor_of_every_type(data_type: int) -> None:
    for size, count in itertools.product([0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 32, 40, 80], [0, 1, 2, 5]):
        same(lambda o, s=size, c=count: o.helper.make_tensor("t", data_type, [c], bytes(range(1, s + 1)), raw=True))
    packed = data_type not in (8, 21, 22, 23, 25, 26, 27, 28)
    for array in ARRAYS:
        # Packed elements are a byte each in an array; onnx packs the bytes of wider elements.
        if isinstance(array, np.ndarray) and (packed or array.dtype.itemsize == 1):
            for shape in [list(array.shape), [2], [4]]:
                same(lambda o, a=array, s=shape: o.helper.make_tensor("t", data_type, s, a, raw=True))
    for vals in [bytearray(b"abcd"), memoryview(b"abcd"), [1], "abcd", None, 1]:
        same(lambda o, v=vals: o.helper.make_tensor("t", data_type, [1], v, raw=True))


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"])
@given(st.lists(st.integers(0, 63), max_size=23))
def test_packed_tensors(name: str, codes: list[int]) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    bits = int("".join(filter(str.isdigit, name))[0])
    array = (np.array(codes, np.uint8) & ((1 << bits) - 1)).view(dtype)
    data_type = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    for raw in (False, True):

        def make(o: Any, raw: bool = raw) -> Any:
            return o.helper.make_tensor("t", data_type, [len(codes)], array, raw=raw)

        same(make)
        same(lambda o, make=make: o.numpy_helper.to_array(make(o)))


@pytest.mark.parametrize(
    "call",
    [
        *(
            (lambda o, name=name: o.helper.make_tensor(name, 1, [1], [1]))
            for name in ["", b"t", None, 3]
        ),
        *(
            (lambda o, data_type=data_type, raw=raw: o.helper.make_tensor("t", data_type, [0], b"" if raw else [], raw))
            for data_type in [0, 99, -1, None, "1", 1.0, True]
            for raw in (False, True)
        ),
        *(
            (lambda o, dims=dims: o.helper.make_tensor("t", 1, dims, [1, 2]))
            for dims in [
                [2], (2,), np.array([2]), [np.int64(2)], 1, None, ["N"], [1.5], [2.0], [True], "2", [1, 1, 2], [3],
            ]
        ),
        lambda o: o.helper.make_tensor("t", 1, [2**40, 0], []),
        lambda o: o.helper.make_tensor("t", 1, [2**31, 2**33], [1]),
        lambda o: o.helper.make_tensor("t", 1, [-1], [1]),
        lambda o: o.helper.make_tensor("t", 1, [2], iter([1, 2])),
        lambda o: o.helper.make_tensor("t", 1, [2], (x for x in [1, 2])),
        lambda o: o.helper.make_tensor("t", 8, [2], [b"\xff", b"aa"]),
        lambda o: o.helper.make_tensor("t", 8, [2], np.array(["a", "bb"], object)),
        lambda o: o.helper.make_tensor("t", 8, [2], np.array([b"a", b"bb"])),
        lambda o: o.helper.make_tensor("t", 8, [2], np.array(["a", "bb"])),
        lambda o: o.helper.make_tensor("t", 8, [2], np.array(["a", "b"], np.dtypes.StringDType())),
        lambda o: o.helper.make_tensor("t", 8, [2], [["a"], ["b"]]),
        lambda o: o.helper.make_tensor("t", 8, [2], [["a"], "b"]),
        lambda o: o.helper.make_tensor("t", 8, [2], ["\ud800", "a"]),
        lambda o: o.helper.make_tensor("t", 8, [], "ab"),
        *(
            (lambda o, dims=dims: o.helper.make_sparse_tensor(
                o.helper.make_tensor("v", 1, [1], [1]), o.helper.make_tensor("i", 7, [1], [1]), dims
            ))
            for dims in [[3], [], (3, 4), np.array([2, 3]), 3, None, ["x"], [1.5], [True], [-1]]
        ),
        lambda o: o.helper.make_sparse_tensor(o.NodeProto(), o.TensorProto(), []),
        lambda o: o.helper.make_sparse_tensor(o.TensorProto(), None, []),
    ],
)  # fmt: skip
def test_tensors(call: Call) -> None:
    same(call)


def test_tensors_where_we_differ() -> None:
    o: Any = refeed.onnx
    # The official function drops zero bytes at the ends of strings, and writes what is no string as text.
    assert o.helper.make_tensor("t", 8, [2], ["a\0", b"b\0\0"]).string_data == [b"a\0", b"b\0\0"]
    with pytest.raises(TypeError, match="str or bytes, got None"):
        o.helper.make_tensor("t", 8, [2], ["a", None])
    # It takes negative sizes whose product fits, and packs the bytes of elements that are wider than one.
    with pytest.raises(ValueError, match="sizes are at least 0"):
        o.helper.make_tensor("t", 1, [-1, -2], [1, 2])
    with pytest.raises(ValueError, match="1 byte an element, got float32"):
        o.helper.make_tensor("t", o.TensorProto.UINT2, [2], np.array([1, 2], np.float32), raw=True)
    assert o.helper.make_tensor("t", o.TensorProto.FLOAT8E8M0, [], 2).int32_data == [128]


# Containers


@pytest.mark.parametrize("elem_type", [*onnx.SequenceProto.DataType.values(), 6, 99, -1, None, "TENSOR", 1.0, True])
def test_sequences_and_optional_values(elem_type: Any) -> None:
    messages = ["TensorProto", "SparseTensorProto", "SequenceProto", "MapProto", "OptionalProto", "NodeProto"]
    for name, message in itertools.product(["s", "", None], messages):
        same(lambda o, n=name, m=message: o.helper.make_sequence(n, elem_type, [getattr(o, m)(), getattr(o, m)()]))
        same(lambda o, n=name, m=message: o.helper.make_optional(n, elem_type, getattr(o, m)()))
    none: list[Any] = [[], (), None, 3]
    for values in none:
        same(lambda o, v=values: o.helper.make_sequence("s", elem_type, v))
    for value in [None, 3, "", 0]:
        same(lambda o, v=value: o.helper.make_optional("s", elem_type, v))
    same(lambda o: o.helper.make_sequence("s", elem_type, o.TensorProto()))


@pytest.mark.parametrize("key_type", [*onnx.TensorProto.DataType.values(), 99, None, 7.0, "7"])
def test_maps(key_type: Any) -> None:
    keys: list[Any] = [
        [1, 2], [], ["a"], [b"a"], "ab", None, 3, [1.5], [300], [-5], [2**40], [2**63], [True], np.array([1, 2]),
    ]  # fmt: skip
    for chosen in keys:
        same(lambda o, k=chosen: o.helper.make_map("m", key_type, k, o.SequenceProto(elem_type=1)))
    for values in ["TensorProto", "MapProto"]:
        same(lambda o, v=values: o.helper.make_map("m", key_type, [], getattr(o, v)()))
    same(lambda o: o.helper.make_map("m", key_type, [], None))
    same(lambda o: o.helper.make_map(None, key_type, [], o.SequenceProto()))


# Element types


def test_element_types() -> None:
    functions = [
        "tensor_dtype_to_np_dtype", "tensor_dtype_to_storage_tensor_dtype", "tensor_dtype_to_string",
        "tensor_dtype_to_field",
    ]  # fmt: skip
    for number, name in itertools.product(
        [*ELEMENT_TYPES, 0, 29, -1, "1", None, 1.0, np.int64(1), True, [1]], functions
    ):
        same(lambda o, n=number, f=name: getattr(o.helper, f)(n))
    assert set(refeed.onnx.helper.get_all_tensor_dtypes()) == set(ELEMENT_TYPES)
    dtypes: list[Any] = [
        *(onnx.helper.tensor_dtype_to_np_dtype(number) for number in ELEMENT_TYPES),
        *(np.dtype(name) for name in ["U3", "U", "S3", ">f4", ">i2", "M8[s]", "V4", "g", "G", "q", "l", "L", "O"]),
        np.dtype([("a", "f4")]),
        np.dtype(ml_dtypes.float8_e4m3), np.dtype(ml_dtypes.float8_e3m4), np.dtypes.StringDType(),
        np.float32, "float32", float, int, bool, object, str, bytes, complex, None, 3, ml_dtypes.bfloat16, np.str_,
    ]  # fmt: skip
    for dtype in dtypes:
        same(lambda o, d=dtype: o.helper.np_dtype_to_tensor_dtype(d))
    error = refused(lambda o: o.helper.np_dtype_to_tensor_dtype(np.dtype(">f4")))
    assert "byte order" in str(error)


def test_without_ml_dtypes_the_error_says_what_to_install() -> None:
    program = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np
from refeed.onnx import TensorProto, helper, numpy_helper
bfloat16 = TensorProto(data_type=TensorProto.BFLOAT16, dims=[1], raw_data=b"\\0\\0")
for call in (
    lambda: helper.tensor_dtype_to_np_dtype(TensorProto.INT4),
    lambda: helper.make_tensor("t", TensorProto.BFLOAT16, [1], [1.5]),
    lambda: numpy_helper.to_array(bfloat16),
    lambda: numpy_helper.to_float8e8m0([1.0]),
):
    try:
        call()
    except ImportError as error:
        assert "pip install refeed[ml]" in str(error), error
        assert error.name == "ml_dtypes"
    else:
        raise AssertionError
assert helper.make_tensor("t", TensorProto.INT4, [3], b"\\x21\\x03", raw=True).raw_data == b"\\x21\\x03"
assert helper.np_dtype_to_tensor_dtype(np.dtype(np.float16)) == TensorProto.FLOAT16
"""
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603
