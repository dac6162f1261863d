"""What people do with a state, on values that are no dense tensors: paged caches, sequences, encoded values."""

import pathlib
from typing import Any

import numpy as np
import pytest
import refeed
from refeed import onnx, runtime
from refeed.onnx import helper, numpy_helper

FLOAT, INT8 = 1, 3
Array = np.ndarray[Any, Any]
BATCH, HEADS, CAPACITY, KEY, VALUE = 3, 2, 4, 6, 5


def passing(type_proto: onnx.TypeProto) -> onnx.ModelProto:
    """present = past, of any type, beside y = -x."""
    x, y = (helper.make_tensor_value_info(name, FLOAT, [1]) for name in "xy")
    past, present = (helper.make_value_info(name, type_proto) for name in ("past", "present"))
    nodes = [helper.make_node("Identity", ["past"], ["present"]), helper.make_node("Neg", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x, past], [y, present])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    model.graph.persistent_bindings.add(input_name="past", output_name="present")
    return model


def cache_type() -> onnx.TypeProto:
    return onnx.TypeProto(struct_type=onnx.StructTypeProto())


def page(start: int, length: int) -> dict[str, Array]:
    def payload(width: int) -> Array:
        shape = (BATCH, HEADS, CAPACITY, width)
        return (np.arange(np.prod(shape), dtype=np.float32) + 1000 * start).reshape(shape)

    return {
        "start": np.array(start, np.int64),
        "length": np.array(length, np.int64),
        "key": payload(KEY),
        "value": payload(VALUE),
    }


def cache(*lengths: int) -> dict[str, list[dict[str, Array]]]:
    starts = np.cumsum([0, *lengths])
    return {"blocks": [page(int(start), length) for start, length in zip(starts, lengths, strict=False)]}


def read(value: Any) -> dict[str, list[dict[str, Array]]]:
    """The pages of a cache as dictionaries of arrays that share the cache's memory."""
    blocks = [
        {
            "start": np.array(block.start, np.int64),
            "length": np.array(block.length, np.int64),
            "key": numpy_helper.to_array(block.key, copy=False),
            "value": numpy_helper.to_array(block.value, copy=False),
        }
        for block in value.blocks
    ]
    return {"blocks": blocks}


def flat(value: Any) -> Any:
    """A value with arrays as their bytes, to be compared."""
    if isinstance(value, onnx.PagedCacheProto):
        return flat(read(value))
    if isinstance(value, dict):
        return {name: flat(field) for name, field in value.items()}
    if isinstance(value, list):
        return [flat(element) for element in value]
    array = np.asarray(value)
    return (str(array.dtype), array.shape, array.tobytes())


def addresses(state: runtime.PersistentValueState) -> list[int]:
    blocks = read(state.values["past"])["blocks"]
    return [block["key"].__array_interface__["data"][0] for block in blocks]


def paged(*lengths: int) -> runtime.PersistentValueState:
    initial: Any = {"past": cache(*lengths)}
    return runtime.PersistentValueState(passing(cache_type()), initial)


@pytest.mark.parametrize("length", [0, 1, 4, 6, 7, 8])
def test_a_paged_cache_is_cut_with_its_pages_shared(length: int) -> None:
    state = paged(4, 3, 1)
    before = addresses(state)
    state.truncate(length)
    kept = [4, 3, 1]
    expected, left = [], length
    for rows in kept:
        if left <= 0:
            break
        expected.append(min(rows, left))
        left -= rows
    blocks = read(state.values["past"])["blocks"]
    assert [int(block["length"]) for block in blocks] == expected
    assert addresses(state) == before[: len(expected)]
    state.run({"x": np.ones(1, np.float32)})
    assert addresses(state) == before[: len(expected)]


def test_a_paged_cache_cannot_become_longer() -> None:
    state = paged(4, 3)
    with pytest.raises(refeed.ValueTypeError, match="expected at most its 7 rows, got 8"):
        state.truncate(8)
    assert flat(state.values["past"]) == flat(cache(4, 3))


def test_rows_are_chosen_page_by_page() -> None:
    state = paged(4, 2)
    state.select([2, 0, 0, 2])
    blocks = read(state.values["past"])["blocks"]
    for block, whole in zip(blocks, cache(4, 2)["blocks"], strict=True):
        for name in ("key", "value"):
            assert np.array_equal(block[name], whole[name][[2, 0, 0, 2]])
    for rows, text in (([4], "expected rows below 4"), ([], "at least one row")):
        with pytest.raises(refeed.ValueTypeError, match=text):
            state.select(rows)
    with pytest.raises(refeed.ValueTypeError, match="axis 0, got axis 1"):
        state.select([0], axes={"past": 1})
    empty = paged()
    empty.select([0])
    assert flat(empty.values["past"]) == {"blocks": []}


def test_forks_and_checkpoints_share_pages(tmp_path: pathlib.Path) -> None:
    state = paged(4, 3)
    fork, checkpoint = state.fork(), state.checkpoint()
    state.truncate(1)
    assert flat(fork.values["past"]) == flat(cache(4, 3)) == flat(checkpoint.values["past"])
    fork.save(tmp_path / "a.state")
    state.load(tmp_path / "a.state")
    assert flat(state.values["past"]) == flat(cache(4, 3))
    state.truncate(0)
    state.restore(checkpoint)
    assert addresses(state) == addresses(fork)


def affine() -> onnx.EncodedValueProto:
    value = onnx.EncodedValueProto()
    value.affine.storage_type = INT8
    value.affine.scale.CopyFrom(numpy_helper.from_array(np.array(0.5, np.float32)))
    value.logical_type.CopyFrom(helper.make_tensor_type_proto(FLOAT, [2, 3]))
    value.raw_data = bytes([1, 2, 3, 255, 254, 128])
    return value


def test_an_encoded_value_comes_back_as_it_was(tmp_path: pathlib.Path) -> None:
    tensor_type = helper.make_tensor_type_proto(FLOAT, [2, 3])
    initial: Any = {"past": affine()}
    state = runtime.PersistentValueState(passing(tensor_type), initial)
    state.save(tmp_path / "a.state")
    resumed = runtime.PersistentValueState.from_file(passing(tensor_type), tmp_path / "a.state")
    for holder in (resumed, resumed.fork()):
        value: Any = holder.values["past"]
        assert value.SerializeToString() == affine().SerializeToString()
    with pytest.raises(refeed.ValueTypeError, match="no value of this state grows"):
        state.truncate(1)
    with pytest.raises(refeed.ValueTypeError, match="expected a tensor or a paged cache, got an encoded value"):
        state.select([0])
    state.select([0], axes={"past": None})


def test_shared_parameters_are_those_of_the_model_that_reads(tmp_path: pathlib.Path) -> None:
    logical = helper.make_tensor_type_proto(FLOAT, [4])

    def made(*, scale: float, named: str = "set") -> onnx.ModelProto:
        model = passing(logical)
        storage = runtime.make_affine_quantization_type(22, 4, 4)
        runtime.add_quantization_parameters(model, named, storage, logical, scales=np.array([scale]))
        return model

    model = made(scale=0.25)
    value = runtime.quantize_tensor_shared(np.array([-0.25, 0.5, 1.75, -2.0], np.float32), model, "set")
    initial: Any = {"past": value}
    state = runtime.PersistentValueState(model, initial)
    state.save(tmp_path / "a.state")
    size = (tmp_path / "a.state").stat().st_size
    resumed = runtime.PersistentValueState.from_file(made(scale=0.25), tmp_path / "a.state")
    back: Any = resumed.values["past"]
    assert np.asarray(runtime.dequantize_tensor(back)).tolist() == [-0.25, 0.5, 1.75, -2.0]
    assert size < 2000
    for other in (made(scale=0.25, named="other"), made(scale=0.5)):
        with pytest.raises(refeed.StateFileError, match="of a model with other weights"):
            runtime.PersistentValueState.from_file(other, tmp_path / "a.state")


def test_a_sequence_comes_back(tmp_path: pathlib.Path) -> None:
    sequence = onnx.TypeProto()
    sequence.sequence_type.elem_type.CopyFrom(helper.make_tensor_type_proto(FLOAT, [None]))
    frames = [np.arange(count, dtype=np.float32) for count in (3, 0, 2)]
    initial: Any = {"past": frames}
    state = runtime.PersistentValueState(passing(sequence), initial)
    state.save(tmp_path / "a.state")
    nothing: Any = {"past": []}
    state.reset(nothing)
    assert flat(state.values["past"]) == []
    state.load(tmp_path / "a.state")
    assert flat(state.values["past"]) == flat(frames)
    with pytest.raises(refeed.ValueTypeError, match="no value of this state grows"):
        state.truncate(1)
