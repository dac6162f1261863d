"""`tensor_from_proto`, `tensor_to_proto`, `tensor_to_numpy`, `tensor_from_numpy`, `run_model`: rules 2.3 and 2.10."""

import numpy as np
import pytest
import refeed
from refeed import onnx, runtime
from refeed.onnx import helper, numpy_helper, parser

VALUES = np.array([[1.5, -2.0, 3.25]], np.float32)


def tensor(values: np.ndarray, name: str = "t") -> runtime.Tensor:
    return runtime.Tensor(values, name=name)


def test_a_message_becomes_a_tensor_that_owns_its_elements() -> None:
    proto = numpy_helper.from_array(VALUES, "weights")
    made = runtime.tensor_from_proto(proto)
    proto.raw_data = b"\0" * 12
    del proto
    assert (made.name, made.shape, made.data_type) == ("weights", (1, 3), onnx.TensorProto.FLOAT)
    np.testing.assert_array_equal(made.numpy(), VALUES)


def test_typed_fields_are_converted() -> None:
    made = runtime.tensor_from_proto(helper.make_tensor("n", onnx.TensorProto.FLOAT16, [2], [0.5, -3.0]))
    np.testing.assert_array_equal(made.numpy(), np.array([0.5, -3.0], np.float16))


def test_official_messages_are_taken() -> None:
    official = pytest.importorskip("onnx")
    made = runtime.tensor_from_proto(official.numpy_helper.from_array(VALUES, "weights"))
    np.testing.assert_array_equal(made.numpy(), VALUES)


@pytest.mark.parametrize("values", [VALUES, np.zeros((0, 2), np.int64), np.array(7, np.uint8)])
def test_there_and_back(values: np.ndarray) -> None:
    proto = runtime.tensor_to_proto(tensor(values, "kept"))
    assert (proto.name, list(proto.dims)) == ("kept", list(values.shape))
    np.testing.assert_array_equal(numpy_helper.to_array(proto), values)
    np.testing.assert_array_equal(runtime.tensor_from_proto(proto).numpy(), values)


def test_a_message_of_a_tensor_shares_its_memory() -> None:
    first = runtime.tensor_from_proto(numpy_helper.from_array(VALUES, "a"))
    second = runtime.tensor_from_proto(runtime.tensor_to_proto(first))
    assert first.numpy().ctypes.data == second.numpy().ctypes.data


@pytest.mark.parametrize(
    ("proto", "error"),
    [
        (onnx.TensorProto(data_type=onnx.TensorProto.FLOAT, dims=[2], raw_data=b"1234"), refeed.ModelError),
        (onnx.NodeProto(), TypeError),
        (VALUES, TypeError),
    ],
)
def test_what_is_no_tensor_is_refused(proto: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        runtime.tensor_from_proto(proto)


def test_bytes_of_a_tensor() -> None:
    held = tensor(VALUES)
    raw = runtime.tensor_to_numpy(held)
    assert (raw.dtype, raw.ndim, raw.flags.writeable) == (np.uint8, 1, False)
    assert raw.tobytes() == VALUES.tobytes()
    assert raw.ctypes.data == VALUES.ctypes.data
    stolen = runtime.tensor_to_numpy(held, steal=True)
    assert stolen.tobytes() == VALUES.tobytes()
    assert held.shape == (0,)


def test_a_tensor_of_bytes() -> None:
    raw = np.frombuffer(VALUES.tobytes(), np.uint8).copy()
    copied = runtime.tensor_from_numpy("c", onnx.TensorProto.FLOAT, [3, 1], raw)
    shared = runtime.tensor_from_numpy("s", onnx.TensorProto.FLOAT, [1, 3], raw, copy=False)
    assert shared.numpy().ctypes.data == raw.ctypes.data != copied.numpy().ctypes.data
    raw[:] = 0
    np.testing.assert_array_equal(copied.numpy(), VALUES.reshape(3, 1))
    np.testing.assert_array_equal(shared.numpy(), np.zeros((1, 3)))


def test_packed_elements_take_whole_bytes() -> None:
    made = runtime.tensor_from_numpy("p", onnx.TensorProto.INT4, [3], np.array([0x21, 0x03], np.uint8))
    assert (made.data_type, made.shape) == (onnx.TensorProto.INT4, (3,))
    np.testing.assert_array_equal(numpy_helper.to_array(runtime.tensor_to_proto(made)).astype(int), [1, 2, 3])


@pytest.mark.parametrize(
    ("data_type", "shape", "raw", "text"),
    [
        (99, [1], np.zeros(4, np.uint8), "data type 99"),
        (8, [1], np.zeros(4, np.uint8), "STRING"),
        (1, [2], np.zeros(4, np.uint8), "take 8 bytes, got 4"),
        (1, [-1], np.zeros(4, np.uint8), "-1"),
        (1, [1], np.zeros((2, 2), np.uint8), "one axis"),
        (1, [1], np.zeros(1, np.float32), "uint8"),
    ],
)
def test_bytes_that_do_not_fit_are_refused(data_type: int, shape: list[int], raw: np.ndarray, text: str) -> None:
    with pytest.raises(refeed.ValueTypeError, match=text):
        runtime.tensor_from_numpy("t", data_type, shape, raw)


def test_shared_bytes_must_be_aligned() -> None:
    raw = np.zeros(13, np.uint8)
    odd = raw[1:] if raw.ctypes.data % 2 == 0 else raw[:12]
    with pytest.raises(refeed.ValueTypeError, match="aligned to 4 bytes"):
        runtime.tensor_from_numpy("t", 1, [3], odd, copy=False)
    assert runtime.tensor_from_numpy("t", 1, [3], odd).shape == (3,)


def test_run_model_matches_tensors_by_name() -> None:
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[2] a, float[2] b) => (float[2] d, float[2] s)'
        "{ d = Sub(a, b) s = Add(a, b) }"
    )
    a, b = np.array([5, 7], np.float32), np.array([1, 2], np.float32)
    difference, total = runtime.run_model(model, [tensor(b, "b"), tensor(a, "a")])
    assert (difference.name, total.name) == ("d", "s")
    np.testing.assert_array_equal(difference.numpy(), a - b)
    np.testing.assert_array_equal(total.numpy(), a + b)
    with pytest.raises(refeed.ValueTypeError, match="two tensors are named `a`"):
        runtime.run_model(model, [tensor(a, "a"), tensor(a, "a")])
    with pytest.raises(refeed.ValueTypeError, match="unknown graph input `c`"):
        runtime.run_model(model, [tensor(a, "c")])
    with pytest.raises(refeed.ValueTypeError, match="missing current input `b`"):
        runtime.run_model(model, [tensor(a, "a")])
    with pytest.raises(TypeError, match="ndarray"):
        runtime.run_model(model, [a])  # type: ignore[list-item]
