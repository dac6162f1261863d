"""Tensors that break one rule each, as initializers of the model of `illegal_models`."""

import functools
from typing import Any

import numpy as np
import onnx
from illegal_models import FLOAT, INT64, Change
from onnx import TensorProto, numpy_helper

CASES: dict[str, tuple[str, Change]] = {}

# ---- tensors


def initializer(**keywords: Any) -> Change:
    def change(model: Any) -> None:
        model.graph.initializer[0].CopyFrom(TensorProto(name="w", **keywords))

    return change


TENSORS: dict[str, tuple[str, dict[str, Any]]] = {
    "a_tensor_without_a_type": ("data type 0", {"dims": [1], "float_data": [0.5]}),
    "a_tensor_of_type_undefined": ("data type 0", {"data_type": 0, "dims": [1], "float_data": [0.5]}),
    "a_tensor_of_an_unknown_type": ("data type 77", {"data_type": 77, "dims": [1], "int32_data": [1]}),
    "elements_in_two_fields": (
        "got both raw_data and float_data",
        {"data_type": FLOAT, "dims": [1], "float_data": [0.5], "raw_data": b"abcd"},
    ),
    "no_elements": ("expected 1 entries in float_data, got 0", {"data_type": FLOAT, "dims": [1]}),
    "elements_of_an_empty_tensor": (
        "expected 0 entries in float_data, got 1",
        {"data_type": FLOAT, "dims": [0], "float_data": [0.5]},
    ),
    "a_negative_dimension": ("is negative", {"data_type": FLOAT, "dims": [-1], "float_data": [0.5]}),
    "dimensions_beyond_all_numbers": (
        "does not fit in memory",
        {"data_type": FLOAT, "dims": [2**40, 2**40], "float_data": [0.5]},
    ),
    "texts_as_raw_bytes": (
        "expected STRING elements in string_data or raw_data, got raw_data",
        {"data_type": TensorProto.STRING, "dims": [1], "raw_data": b"a"},
    ),
    "too_few_raw_bytes": (
        "expected 8 bytes in raw_data, got 7",
        {"data_type": FLOAT, "dims": [2], "raw_data": b"a" * 7},
    ),
    "too_few_raw_4_bit_elements": (
        "expected 2 bytes in raw_data, got 1",
        {"data_type": TensorProto.INT4, "dims": [3], "raw_data": b"a"},
    ),
    "too_few_raw_2_bit_elements": (
        "expected 2 bytes in raw_data, got 1",
        {"data_type": TensorProto.UINT2, "dims": [5], "raw_data": b"a"},
    ),
    "too_few_raw_6_bit_elements": (
        "expected 3 bytes in raw_data, got 2",
        {"data_type": TensorProto.FLOAT6E2M3, "dims": [3], "raw_data": b"aa"},
    ),
    "bits_past_the_last_6_bit_element": (
        "expected 0 in the bits past the last element",
        {"data_type": TensorProto.FLOAT6E3M2, "dims": [3], "raw_data": b"aa\xff"},
    ),
    "a_wide_6_bit_element": (
        "int32_data[1]: 64 does not fit",
        {"data_type": TensorProto.FLOAT6E2M3, "dims": [2], "int32_data": [63, 64]},
    ),
    "elements_in_another_field": (
        "expected FLOAT elements in float_data or raw_data, got int64_data",
        {"data_type": FLOAT, "dims": [1], "int64_data": [1]},
    ),
    "too_few_floats": ("in float_data, got 1", {"data_type": FLOAT, "dims": [2], "float_data": [0.5]}),
    "too_few_complex_parts": (
        "expected 4 entries in float_data, got 3",
        {"data_type": TensorProto.COMPLEX64, "dims": [2], "float_data": [1, 2, 3]},
    ),
    "too_few_doubles": ("in double_data, got 1", {"data_type": TensorProto.DOUBLE, "dims": [2], "double_data": [1]}),
    "too_few_small_integers": ("in int32_data, got 1", {"data_type": TensorProto.INT8, "dims": [2], "int32_data": [1]}),
    "too_few_4_bit_entries": (
        "in int32_data, got 1",
        {"data_type": TensorProto.UINT4, "dims": [9], "int32_data": [1]},
    ),
    "too_few_2_bit_entries": (
        "in int32_data, got 1",
        {"data_type": TensorProto.INT2, "dims": [17], "int32_data": [1]},
    ),
    "too_few_integers": ("in int64_data, got 1", {"data_type": INT64, "dims": [2], "int64_data": [1]}),
    "too_few_unsigned_integers": (
        "in uint64_data, got 1",
        {"data_type": TensorProto.UINT32, "dims": [2], "uint64_data": [1]},
    ),
    "too_few_texts": (
        "in string_data, got 1",
        {"data_type": TensorProto.STRING, "dims": [2], "string_data": [b"a"]},
    ),
}
for _name, (_part, _keywords) in TENSORS.items():
    CASES[_name] = (_part, initializer(**_keywords))


# ---- sparse tensors


def sparse(values: Any, indices: Any, dims: list[int]) -> Any:
    found = onnx.SparseTensorProto(dims=dims)
    if values is not None:
        found.values.CopyFrom(values)
    if indices is not None:
        found.indices.CopyFrom(indices)
    return found


def floats(*dims: int) -> Any:
    return numpy_helper.from_array(np.ones(dims, np.float32), "s")


def positions(*numbers: Any) -> Any:
    return numpy_helper.from_array(np.array(numbers, np.int64), "i")


def _append(model: Any, held: Any) -> None:
    model.graph.sparse_initializer.append(held)


SPARSE: dict[str, tuple[str, Any]] = {
    "no_values": ("expected a name for an initializer", sparse(None, positions(0), [4])),
    "values_of_two_axes": ("values.dims: expected one axis", sparse(floats(1, 2), positions(0, 1), [4])),
    "no_dimensions": ("dims: expected at least one axis", sparse(floats(1), positions(0), [])),
    "an_empty_dimension": ("dims[1]: expected 1 or more, got 0", sparse(floats(1), positions(0), [4, 0])),
    "no_positions": ("indices: expected the positions of 2 values", sparse(floats(2), None, [4])),
    "positions_of_another_type": (
        "indices.data_type: expected INT64, got INT32",
        sparse(floats(1), numpy_helper.from_array(np.array([0], np.int32)), [4]),
    ),
    "positions_of_three_axes": ("indices.dims: expected [1] or [1, 1]", sparse(floats(1), positions([[0]]), [4])),
    "fewer_positions": ("indices.dims: expected [2] or [2, 1]", sparse(floats(2), positions(0), [4])),
    "a_position_outside": ("indices.position[1]: expected 0 to 3, got 4", sparse(floats(2), positions(0, 4), [4])),
    "a_negative_position": ("indices.position[0]: expected 0 to 3, got -1", sparse(floats(2), positions(-1, 2), [4])),
    "positions_out_of_order": ("indices.position[1]: expected more than 3", sparse(floats(2), positions(3, 1), [4])),
    "a_position_twice": ("indices.position[1]: expected more than 3", sparse(floats(2), positions(3, 3), [4])),
    "fewer_pairs": ("indices.dims: expected [2] or [2, 2]", sparse(floats(2), positions([0, 1]), [4, 5])),
    "triples_for_two_axes": ("indices.dims: expected [1] or [1, 2]", sparse(floats(1), positions([0, 1, 2]), [4, 5])),
    "a_pair_outside": (
        "indices.position[0].axis[1]: expected 0 to 4, got 5",
        sparse(floats(1), positions([0, 5]), [4, 5]),
    ),
    "pairs_out_of_order": (
        "indices.position[1]: expected a position after [1, 2], got [1, 1]",
        sparse(floats(2), positions([1, 2], [1, 1]), [4, 5]),
    ),
}
for _name, (_part, _sparse) in SPARSE.items():
    CASES[f"sparse_{_name}"] = (_part, functools.partial(_append, held=_sparse))


def _the_name_of_another(model: Any) -> None:
    values = floats(1)
    values.name = "w"
    model.graph.sparse_initializer.append(sparse(values, positions(0), [4]))


CASES["sparse_the_name_of_another"] = (
    "graph.sparse_initializer[0]: initializer `w` is defined more than once",
    _the_name_of_another,
)
