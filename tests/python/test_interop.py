"""Values at the border: zero copy, hostile arrays, DLPack in and out."""

import array
import ctypes
import gc
import pathlib
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import graphs
import ml_dtypes
import numpy as np
import pytest
import refeed
from graphs import Array
from handmade import Handmade
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from refeed import runtime
from refeed.runtime import Tensor

MakeState = Callable[..., runtime.PersistentValueState]

DTYPES = {
    "float32": TensorProto.FLOAT,
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "uint16": TensorProto.UINT16,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
    "float16": TensorProto.FLOAT16,
    "float64": TensorProto.DOUBLE,
    "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64,
    "complex64": TensorProto.COMPLEX64,
    "complex128": TensorProto.COMPLEX128,
    "longlong": TensorProto.INT64,
    "ulonglong": TensorProto.UINT64,
}
NARROW = {
    "bfloat16": TensorProto.BFLOAT16,
    "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8_e4m3fnuz": TensorProto.FLOAT8E4M3FNUZ,
    "float8_e5m2": TensorProto.FLOAT8E5M2,
    "float8_e5m2fnuz": TensorProto.FLOAT8E5M2FNUZ,
    "float8_e8m0fnu": TensorProto.FLOAT8E8M0,
}


# ------------------------------------------------------------------------------------------------- NumPy


@pytest.mark.parametrize("name", sorted(DTYPES))
@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0, 3)], ids=str)
def test_arrays_come_in_and_go_out_by_pointer(name: str, shape: tuple[int, ...]) -> None:
    """Rule 4.4.3; S063."""
    given_array = np.ones(shape, name)
    tensor = Tensor(given_array)
    assert (tensor.data_type, tensor.shape, tensor.nbytes) == (DTYPES[name], shape, given_array.nbytes)
    for out in (tensor.numpy(), np.from_dlpack(tensor), np.asarray(tensor)):
        assert (out.shape, out.dtype) == (shape, given_array.dtype)
        np.testing.assert_array_equal(out, given_array)
        if given_array.size:
            # Without elements DLPack passes no address, so NumPy makes an array of its own.
            assert graphs.address(out) == graphs.address(given_array)
            assert not out.flags.writeable
    assert tensor.dtype == given_array.dtype


@pytest.mark.parametrize("name", sorted(NARROW))
def test_narrow_floats_go_through_ml_dtypes(name: str) -> None:
    given_array = np.ones((2, 3), getattr(ml_dtypes, name))
    tensor = Tensor(given_array)
    assert tensor.data_type == NARROW[name]
    out = tensor.numpy()
    assert out.dtype == given_array.dtype
    assert graphs.address(out) == graphs.address(given_array)
    assert not out.flags.writeable
    np.testing.assert_array_equal(out.view(np.uint8), given_array.view(np.uint8))


def test_read_only_arrays_are_accepted(make_state: MakeState) -> None:
    delta = np.ones(2, np.float32)
    delta.flags.writeable = False
    assert make_state().run({"delta": delta})["present"].numpy().tolist() == [1, 1]


def test_exported_views_cannot_be_written(make_state: MakeState) -> None:
    """Rule 4.4.7; S027."""
    state = make_state()
    out = state.run({"delta": np.ones(2, np.float32)})["present"]
    for view in (np.from_dlpack(out), out.numpy(), np.asarray(out)):
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 7
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.flags.writeable = True
    assert state.run({"delta": np.ones(2, np.float32)})["present"].numpy().tolist() == [2, 2]


def _swapped(value: Array) -> Array:
    return value.astype(value.dtype.newbyteorder(">" if sys.byteorder == "little" else "<"))


def _misaligned() -> Array:
    raw = np.zeros(9, np.uint8)
    return raw[1:].view(np.float32)


HOSTILE: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "strided": (lambda: np.zeros(4, np.float32)[::2], TypeError, "C-contiguous"),
    "negative": (lambda: np.zeros(2, np.float32)[::-1], TypeError, "C-contiguous"),
    "fortran": (lambda: np.zeros((3, 2), np.float32, order="F"), TypeError, "C-contiguous"),
    "broadcast": (lambda: np.broadcast_to(np.float32(1), (2,)), TypeError, "C-contiguous"),
    "byteswapped": (lambda: _swapped(np.zeros(2, np.float32)), ValueError, "byte order"),
    "misaligned": (_misaligned, ValueError, "aligned"),
    "object": (lambda: np.array([1, "a"], object), TypeError, "Python objects"),
    "text": (lambda: np.array(["a", "b"]), ValueError, "expected FLOAT, got STRING"),
    "dates": (lambda: np.zeros(2, "datetime64[s]"), ValueError, "not supported"),
    "longdouble": (lambda: np.zeros(2, np.longdouble), ValueError, "not supported"),
    "records": (lambda: np.zeros(2, [("a", "f4"), ("b", "f4")]), ValueError, "not supported"),
    "unpacked int4": (lambda: np.zeros(2, ml_dtypes.int4), ValueError, "not supported"),
    "list": (lambda: [1.0, 2.0], TypeError, "expected a tensor"),
    "float": (lambda: 1.0, TypeError, "expected a tensor"),
    "none": (lambda: None, TypeError, "expected a tensor"),
    "str": (lambda: "abc", TypeError, "expected a tensor"),
    "wrong dtype": (lambda: np.zeros(2, np.float64), ValueError, "dtype mismatch"),
    "wrong shape": (lambda: np.zeros(3, np.float32), ValueError, "shape mismatch"),
    "wrong rank": (lambda: np.zeros((2, 1), np.float32), ValueError, "rank mismatch"),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_what_is_refused_names_the_value_and_leaves_the_state(name: str, make_state: MakeState) -> None:
    """Rule 4.4.9; S065, S066, S067."""
    make, kind, text = HOSTILE[name]
    state = make_state()
    before = state.run({"delta": np.ones(2, np.float32)})["present"].numpy()
    for attempt in (
        lambda: state.run({"delta": make()}),
        lambda: state.reset({"past": make()}),
        lambda: make_state().reset({"past": make()}),
    ):
        with pytest.raises(kind, match=text) as caught:
            attempt()
        assert "delta" in str(caught.value) or "past" in str(caught.value)
    assert before.tolist() == [1, 1]
    assert state.run({"delta": np.ones(2, np.float32)})["present"].numpy().tolist() == [2, 2]


def test_buffers_are_arrays(make_state: MakeState) -> None:
    state = make_state()
    assert state.run({"delta": array.array("f", [1, 2])})["present"].numpy().tolist() == [1, 2]
    assert state.run({"delta": np.ones(2, np.float32).data})["present"].numpy().tolist() == [2, 3]
    assert Tensor(np.float32(3)).shape == ()


def test_the_same_array_and_overlapping_slices_as_several_inputs() -> None:
    node = helper.make_node("Add", ["a", "b"], ["sum"])
    second = helper.make_node("Identity", ["past"], ["present"])
    proto = graphs.model(
        [node, second],
        [graphs.info(name, graphs.FLOAT, [3]) for name in ("a", "b", "past")],
        [graphs.info(name, graphs.FLOAT, [3]) for name in ("sum", "present")],
    )
    model, _ = refeed.bind(proto, [("past", "present")])
    base = np.arange(4, dtype=np.float32)
    state = runtime.PersistentValueState(model, {"past": base[:3]})
    for a, b in ((base[:3], base[:3]), (base[:3], base[1:])):
        np.testing.assert_array_equal(state.run({"a": a, "b": b})["sum"].numpy(), a + b)
    np.testing.assert_array_equal(base, np.arange(4, dtype=np.float32))


def test_owners_outlive_their_names_and_die_with_the_last_view(accumulate: refeed.Model) -> None:
    """Rule 4.4.3; S063, S064."""

    class Held(np.ndarray[Any, Any]):
        """An array that can be watched."""

    def fresh() -> tuple[Any, "weakref.ref[Any]"]:
        made = np.ones(2, np.float32).view(Held)
        return made, weakref.ref(made)

    past, past_gone = fresh()
    state = runtime.PersistentValueState(accumulate, {"past": past})
    del past
    gc.collect()
    assert past_gone() is not None
    view = state.values["past"].numpy()
    noise = [np.full(1 << 16, 7, np.float32) for _ in range(32)]
    assert view.tolist() == [1, 1]
    state.run({"delta": np.ones(2, np.float32)})
    del noise
    gc.collect()
    assert past_gone() is not None, "the exported view must keep it"
    del view
    state.close()
    del state
    gc.collect()
    assert past_gone() is None
    feed, feed_gone = fresh()
    model = refeed.load(graphs.accumulate())
    out = model.run({"delta": feed, "past": np.zeros(2, np.float32)})["present"]
    del feed
    gc.collect()
    assert feed_gone() is None, "a call must not keep its feeds"
    assert out.numpy().tolist() == [1, 1]


def test_temporaries_may_die_right_after_the_call(make_state: MakeState) -> None:
    state = make_state()
    views = []
    for step in range(20):
        out = state.run({"delta": np.full(4, step, np.float64)[:2].astype(np.float32)})["present"]
        views.append((np.from_dlpack(out), state.values["past"].numpy()))
        del out
        gc.collect()
        junk = np.full(1 << 14, -1, np.float32)
    state.close()
    del state, junk
    gc.collect()
    for step, (out_view, value) in enumerate(views):
        total = sum(range(step + 1))
        assert out_view.tolist() == value.tolist() == [total, total]


# --------------------------------------------------------------------------------- memory of ours coming back


def _cache(rows: int) -> tuple[runtime.PersistentValueState, dict[str, Tensor]]:
    model, _ = refeed.bind(graphs.concat(2, 3, 5), [("past", "present")])
    state = runtime.PersistentValueState(model, {"past": np.zeros((2, 3, 0, 5), np.float32)})
    out: dict[str, Tensor] = {}
    for row in range(rows):
        out = state.run({"new": np.full((2, 3, 1, 5), row, np.float32)})
    return state, out


def test_exports_carry_strides() -> None:
    _, out = _cache(4)
    tensor = out["present"]
    capacity_row = tensor.strides[1] // 5
    assert capacity_row > 4
    for view in (tensor.numpy(), np.from_dlpack(tensor)):
        assert view.strides == tuple(4 * stride for stride in tensor.strides)
        assert not view.flags.c_contiguous
        np.testing.assert_array_equal(view[1, 2, :, 0], [0, 1, 2, 3])


@pytest.mark.parametrize("how", ["numpy", "dlpack", "slice", "transpose"])
def test_arrays_over_our_memory_are_taken_with_any_strides(how: str) -> None:
    state, out = _cache(4)
    view = out["present"].numpy() if how != "dlpack" else np.from_dlpack(out["present"])
    if how == "slice":
        view = view[:, 1:, 1:]
    if how == "transpose":
        view = view.transpose(1, 0, 2, 3)
    tensor = Tensor(view)
    assert tensor.shape == view.shape
    assert tensor.strides == tuple(stride // 4 for stride in view.strides)
    assert graphs.address(tensor.numpy()) == graphs.address(view)
    del view
    np.testing.assert_array_equal(tensor.numpy().ravel()[0], 1 if how == "slice" else 0)
    state.close()


def test_a_cache_view_goes_back_into_reset_without_a_copy() -> None:
    """Rule 4.4.3; S062."""
    state, out = _cache(4)
    view = np.from_dlpack(out["present"])
    state.reset({"past": view[:, :, :3]})
    held = state.values["past"]
    assert held.shape == (2, 3, 3, 5)
    assert graphs.address(held.numpy()) == graphs.address(view)
    grown = state.run({"new": np.full((2, 3, 1, 5), 9, np.float32)})["present"].numpy()
    np.testing.assert_array_equal(grown[1, 2, :, 4], [0, 1, 2, 9])
    np.testing.assert_array_equal(view[1, 2, :, 4], [0, 1, 2, 3])


def test_our_memory_is_foreign_again_once_its_export_is_gone() -> None:
    _, out = _cache(2)
    dense = np.ascontiguousarray(out["present"].numpy())
    del out
    gc.collect()
    with pytest.raises(TypeError, match="C-contiguous"):
        Tensor(dense[:, ::2])


# ----------------------------------------------------------------------------------------------- DLPack out


def test_dlpack_device() -> None:
    assert Tensor(np.zeros(2, np.float32)).__dlpack_device__() == (1, 0)


class _LegacyConsumer:
    """Passes a tensor on as producers of before version 1 do."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **_keywords: Any) -> Any:
        return self.tensor.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


def test_old_consumers_get_a_copy_and_one_warning_a_state(make_state: MakeState) -> None:
    state = make_state()
    out = state.run({"delta": np.ones(2, np.float32)})["present"]
    with pytest.warns(refeed.CopyWarning, match="copy"):
        copied: Array = np.from_dlpack(_LegacyConsumer(out))
    # NumPy marks what comes from an old producer read only; others do not, and write.
    ctypes.memset(graphs.address(copied), 0, copied.nbytes)
    assert graphs.address(copied) != graphs.address(out.numpy())
    assert out.numpy().tolist() == [1, 1]
    # The suite makes warnings errors: a second one would raise.
    np.from_dlpack(_LegacyConsumer(out))
    np.from_dlpack(_LegacyConsumer(state.values["past"]))
    with pytest.raises(BufferError, match="only DLPack"):
        out.__dlpack__(copy=False)
    with pytest.raises(BufferError, match="only DLPack"):
        out.__dlpack__(max_version=(0, 8), copy=False)
    with pytest.warns(refeed.CopyWarning):
        make_state().run({"delta": np.ones(2, np.float32)})["present"].__dlpack__()


def test_asked_for_copies_are_the_consumers_own(make_state: MakeState) -> None:
    out = make_state().run({"delta": np.ones(2, np.float32)})["present"]
    copied = np.from_dlpack(out, copy=True)
    assert graphs.address(copied) != graphs.address(out.numpy())
    assert np.from_dlpack(out, copy=False) is not None
    array_copy = np.array(out, copy=True)
    array_copy[0] = 5
    assert out.numpy().tolist() == [1, 1]
    with pytest.raises(ValueError, match="copy"):
        out.__array__(np.dtype(np.float64), copy=False)
    assert np.asarray(out, np.float64).tolist() == [1, 1]


def test_other_devices_and_streams_are_refused() -> None:
    tensor: Any = Tensor(np.zeros(2, np.float32))
    for keywords in ({"dl_device": (2, 0)}, {"dl_device": (1, 1)}, {"stream": 1}):
        with pytest.raises(BufferError):
            tensor.__dlpack__(max_version=(1, 0), **keywords)
    with pytest.raises(TypeError):
        tensor.__dlpack__(None)


def test_an_unused_capsule_frees_what_it_holds() -> None:
    source = np.ones(1 << 10, np.float32)
    tensor = Tensor(source)
    before = sys.getrefcount(source)
    for version in ((1, 0), (1, 1), (2, 0)):
        capsule = tensor.__dlpack__(max_version=version)
        assert "dltensor_versioned" in repr(capsule)
        del capsule
    del tensor
    gc.collect()
    assert sys.getrefcount(source) == before - 1


def test_exports_may_die_on_another_thread() -> None:
    source = np.ones(4, np.float32)
    before = sys.getrefcount(source)
    views = [np.from_dlpack(Tensor(source)) for _ in range(8)]
    thread = threading.Thread(target=views.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert sys.getrefcount(source) == before


# ------------------------------------------------------------------------------------------------ DLPack in


@pytest.mark.parametrize("version", [None, (1, 0), (1, 9)], ids=["legacy", "1.0", "1.9"])
def test_handmade_headers_that_are_right(version: tuple[int, int] | None) -> None:
    for producer, first, shape in (
        (Handmade([3, 4], None, version=version), 0, (3, 4)),
        (Handmade([3, 4], [4, 1], version=version), 0, (3, 4)),
        (Handmade([1, 77], [1, 1], version=version), 0, (1, 77)),
        (Handmade([77, 1], [1, 999], version=version), 0, (77, 1)),
        (Handmade([4], None, offset=8, version=version), 2, (4,)),
        (Handmade([], None, version=version), 0, ()),
        (Handmade([], None, no_shape=True, version=version), 0, ()),
    ):
        tensor = Tensor(producer)
        assert tensor.shape == shape
        out = tensor.numpy()
        assert graphs.address(out) == graphs.address(producer.memory) + 4 * first
        assert out.ravel()[0] == first
        assert producer.deleted == 0
        del tensor
        gc.collect()
        assert producer.deleted == 0, "a view is still alive"
        del out
        gc.collect()
        assert producer.deleted == 1


def test_empty_headers_need_no_memory() -> None:
    producer = Handmade([0, 3], None, null=True)
    assert Tensor(producer).shape == (0, 3)


HEADERS: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "lanes": ({"lanes": 2}, ValueError),
    "no lanes": ({"lanes": 0}, ValueError),
    "device": ({"device": 2}, TypeError),
    "strided": ({"strides": [8, 1]}, TypeError),
    "negative strides": ({"strides": [-4, 1]}, TypeError),
    "zero strides": ({"strides": [0, 0]}, TypeError),
    "huge strides": ({"strides": [2**62, 2**62]}, TypeError),
    "no memory": ({"null": True}, ValueError),
    "misaligned": ({"offset": 2}, ValueError),
    "offset beyond memory": ({"offset": 2**64 - 1}, OverflowError),
    "no shape": ({"no_shape": True}, ValueError),
    "negative rank": ({"ndim": -1}, ValueError),
    "huge rank": ({"ndim": 2**30}, ValueError),
    "unknown code": ({"code": 99}, ValueError),
    "opaque": ({"code": 3, "bits": 64}, ValueError),
    "odd width": ({"bits": 24}, ValueError),
    "float4 that is padded": ({"code": 17, "bits": 4, "flags": 4}, ValueError),
    "major version": ({"version": (2, 0)}, ValueError),
    "major version 0": ({"version": (0, 9)}, ValueError),
}


@pytest.mark.parametrize("name", sorted(HEADERS))
def test_handmade_headers_that_are_wrong(name: str) -> None:
    keywords, kind = HEADERS[name]
    producer = Handmade([3, 4], **keywords)
    with pytest.raises(kind):
        Tensor(producer)
    gc.collect()
    assert producer.deleted == 1


@pytest.mark.parametrize("shape", [[-1, 2], [2**62, 2**62], [2**63 - 1, 4], [0, -1]], ids=str)
def test_impossible_shapes_are_refused(shape: list[int]) -> None:
    producer = Handmade(shape)
    with pytest.raises((ValueError, OverflowError)):
        Tensor(producer)
    gc.collect()
    assert producer.deleted == 1


def test_capsules_of_other_names_and_used_ones_are_refused() -> None:
    with pytest.raises(ValueError, match="capsule"):
        Tensor(Handmade([2], name=b"used_dltensor_versioned"))
    tensor = Tensor(np.zeros(2, np.float32))
    capsule = tensor.__dlpack__(max_version=(1, 0))

    class Again:
        def __dlpack__(self, **_keywords: Any) -> Any:
            return capsule

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    assert Tensor(Again()).shape == (2,)
    with pytest.raises(ValueError, match="used"):
        Tensor(Again())

    class NoCapsule(Again):
        def __dlpack__(self, **_keywords: Any) -> Any:
            return 7

    with pytest.raises(TypeError, match="no capsule"):
        Tensor(NoCapsule())


def test_other_devices_are_refused_before_the_export() -> None:
    producer = Handmade([2], told_device=2)
    with pytest.raises(TypeError, match="CPU"):
        Tensor(producer)
    assert producer.deleted == 0


def test_errors_of_producers_pass_through() -> None:
    class NeedsGradient(Handmade):
        def __dlpack__(self, **_keywords: Any) -> Any:
            raise BufferError("detach first")

    with pytest.raises(BufferError, match="detach first"):
        Tensor(NeedsGradient([2]))


def test_old_producers_without_arguments_work() -> None:
    class Old(Handmade):
        def __dlpack__(self) -> Any:  # type: ignore[override]
            return super().__dlpack__()

    producer = Old([3], version=None)
    assert Tensor(producer).numpy().tolist() == [0, 1, 2]


def test_packed_integers_come_in_packed() -> None:
    tensor = Tensor(Handmade([5], code=1, bits=4))
    assert (tensor.data_type, tensor.shape, tensor.nbytes) == (TensorProto.UINT4, (5,), 3)
    with pytest.raises(refeed.ValueTypeError, match="no NumPy type"):
        tensor.numpy()


# ------------------------------------------------------------------------------------------------- property


@st.composite
def _views(draw: st.DrawFn) -> Array:
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    base = np.arange(int(np.prod(shape, dtype=int)), dtype=np.float32).reshape(shape)
    for axis in range(base.ndim):
        step = draw(st.sampled_from([1, 1, 1, 2, -1]))
        base = base[(slice(None),) * axis + (slice(None, None, step),)]
    return base.transpose(draw(st.permutations(range(base.ndim))))


@given(view=_views())
def test_an_array_is_taken_exactly_when_it_is_contiguous(view: Array) -> None:
    if view.flags.c_contiguous:
        tensor = Tensor(view)
        np.testing.assert_array_equal(tensor.numpy(), view)
        np.testing.assert_array_equal(np.from_dlpack(tensor), view)
    else:
        with pytest.raises(TypeError, match="C-contiguous"):
            Tensor(view)


@pytest.mark.parametrize("mapped", [True, False])
def test_an_output_that_lies_in_the_model_keeps_its_memory(mapped: bool, tmp_path: pathlib.Path) -> None:
    """Rule 4.4.5; S072, S088: the model, its file's name, session and state are gone before the output is read."""
    weight = helper.make_tensor("w", graphs.FLOAT, [3], np.array([5, 6, 7], np.float32).tobytes(), raw=True)
    proto = graphs.model(
        [helper.make_node("Add", ["past", "x"], ["present"])],
        [graphs.info("x", graphs.FLOAT, [2]), graphs.info("past", graphs.FLOAT, [2])],
        [graphs.info("present", graphs.FLOAT, [2]), graphs.info("w", graphs.FLOAT, [3])],
        initializers=[weight],
    )
    path = tmp_path / "weights.onnx"
    path.write_bytes(proto.SerializeToString())
    model, _ = refeed.bind(refeed.load(path, mmap=mapped), [("past", "present")])
    state = runtime.PersistentValueState(model, {"past": np.zeros(2, np.float32)})
    first = state.run({"x": np.ones(2, np.float32)})["w"].numpy()
    second = state.run({"x": np.ones(2, np.float32)})["w"].numpy()
    assert graphs.address(first) == graphs.address(second), "the weight itself, not copies of it"
    path.unlink()
    del model, state, proto, second
    gc.collect()
    assert first.tolist() == [5, 6, 7]
