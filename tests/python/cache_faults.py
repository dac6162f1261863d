"""Caches that break one rule, and what is told of each: the page, the field."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pages as p
from refeed.onnx import TensorProto, helper, numpy_helper

Refusal = str
PARTS = ("key", "value")


class Spot(NamedTuple):
    """Where a cache is to be broken."""

    rng: Any
    cache: Any
    page: int
    part: str

    @property
    def block(self) -> Any:
        return self.cache.blocks[self.page]

    @property
    def field(self) -> str:
        return str(self.block.WhichOneof(f"{self.part}_payload"))

    @property
    def coded(self) -> bool:
        return self.field == f"encoded_{self.part}"

    @property
    def payload(self) -> Any:
        return p.payload(self.block, self.part)

    @property
    def dims(self) -> tuple[int, ...]:
        return p.dims_of(self.block, self.part)

    def at(self, field: str = "") -> Refusal:
        """A pattern of the place that is told."""
        return re.escape(f"blocks[{self.page}]{'.' if field else ''}{field}")


#: Breaks a cache in one place and says what must be told; None where that fault cannot be.
Fault = Callable[[Spot], Refusal | None]


def start_moves(spot: Spot) -> Refusal:
    step = int(spot.rng.choice([-1, 1, 2**40, -(2**62)]))
    spot.block.start += step
    return spot.at("start")


def start_is_missing(spot: Spot) -> Refusal:
    spot.block.ClearField("start")
    return spot.at("start")


def length_is_missing(spot: Spot) -> Refusal:
    spot.block.ClearField("length")
    return spot.at("length")


def length_is_not_positive(spot: Spot) -> Refusal:
    spot.block.length = int(spot.rng.choice([0, -1, -(2**63)]))
    return spot.at("length")


def length_exceeds_the_capacity(spot: Spot) -> Refusal:
    capacity = p.dims_of(spot.block, "key")[2]
    spot.block.length = int(spot.rng.choice([capacity + 1, 2**40, 2**63 - 1]))
    return spot.at("length")


def payload_is_missing(spot: Spot) -> Refusal:
    spot.block.ClearField(spot.field)
    return spot.at()


def page_is_left_out(spot: Spot) -> Refusal | None:
    if spot.page == len(spot.cache.blocks) - 1:
        return None
    del spot.cache.blocks[spot.page]
    return spot.at("start")


def extent_differs(spot: Spot) -> Refusal | None:
    """One extent of one payload is another, with the bytes to it."""
    axis = int(spot.rng.integers(4))
    # Width may differ between keys and values, not between pages; the first page says it.
    if axis == 3 and (spot.page == 0 or len(spot.cache.blocks) == 1):
        return None
    dims = list(spot.dims)
    dims[axis] += 1
    name = str(spot.rng.choice(p.FORMATS))
    length = spot.block.length
    if spot.part == "key" and axis == 2 and dims[2] < length:
        return None
    spot.block.ClearField(spot.field)
    p.fill(spot.rng, spot.block, spot.part, tuple(dims), name)
    return spot.at()


def extent_is_zero(spot: Spot) -> Refusal:
    dims = list(spot.dims)
    dims[int(spot.rng.integers(4))] = 0
    spot.block.ClearField(spot.field)
    getattr(spot.block, spot.part).CopyFrom(numpy_helper.from_array(np.zeros(dims, np.float32)))
    return spot.at()


def extent_is_negative(spot: Spot) -> Refusal | None:
    if spot.coded:
        dims = spot.payload.logical_type.tensor_type.shape.dim
        dims[int(spot.rng.integers(4))].dim_value = int(spot.rng.choice([-1, -(2**63)]))
    else:
        payload = spot.payload
        payload.dims[int(spot.rng.integers(4))] = int(spot.rng.choice([-1, -(2**63)]))
    return spot.at()


def extent_is_huge(spot: Spot) -> Refusal:
    huge = int(spot.rng.choice([2**62, 2**63 - 1, 2**32]))
    if spot.coded:
        spot.payload.logical_type.tensor_type.shape.dim[int(spot.rng.integers(4))].dim_value = huge
    else:
        spot.payload.dims[int(spot.rng.integers(4))] = huge
    return spot.at()


def rank_is_another(spot: Spot) -> Refusal:
    dims = spot.dims
    shape = [(*dims, 1), dims[1:], (int(np.prod(dims)),), ()][int(spot.rng.integers(4))]
    spot.block.ClearField(spot.field)
    getattr(spot.block, spot.part).CopyFrom(numpy_helper.from_array(np.ones(shape, np.float32)))
    return spot.at()


def dense_type_is_another(spot: Spot) -> Refusal:
    dims = spot.dims
    kind = [np.float64, np.int64, np.int8, np.uint8, np.bool_, np.int32][int(spot.rng.integers(6))]
    spot.block.ClearField(spot.field)
    getattr(spot.block, spot.part).CopyFrom(numpy_helper.from_array(np.ones(dims).astype(kind)))
    return spot.at()


def bytes_are_too_few_or_many(spot: Spot) -> Refusal | None:
    payload = spot.payload
    more = bool(spot.rng.random() < 0.5)
    if not payload.HasField("raw_data"):
        field = payload.float_data if len(payload.float_data) else payload.int32_data
        if more:
            field.append(field[0])
        else:
            del field[-1]
        return spot.at()
    data = payload.raw_data
    payload.raw_data = data + b"\0" if more else data[:-1]
    return spot.at()


def payload_is_in_a_file(spot: Spot) -> Refusal:
    payload = spot.payload
    payload.ClearField("raw_data")
    payload.external_data.add(key="location", value="weights.bin")
    payload.data_location = TensorProto.EXTERNAL
    return spot.at()


def logical_type_is_another(spot: Spot) -> Refusal | None:
    if not spot.coded:
        return None
    payload = spot.payload
    payload.logical_type.tensor_type.elem_type = int(spot.rng.choice([0, TensorProto.FLOAT16, TensorProto.DOUBLE, 99]))
    return spot.at()


def logical_type_is_missing(spot: Spot) -> Refusal | None:
    if not spot.coded:
        return None
    spot.payload.ClearField("logical_type")
    return spot.at()


def logical_extent_has_a_name(spot: Spot) -> Refusal | None:
    if not spot.coded:
        return None
    spot.payload.logical_type.tensor_type.shape.dim[int(spot.rng.integers(4))].dim_param = "n"
    return spot.at()


def storage_is_no_code(spot: Spot) -> Refusal | None:
    if not spot.coded:
        return None
    affine = spot.payload.affine
    affine.storage_type = int(spot.rng.choice([TensorProto.INT16, TensorProto.FLOAT, TensorProto.BOOL]))
    return spot.at()


def storage_is_not_told(spot: Spot) -> Refusal | None:
    if not spot.coded:
        return None
    spot.payload.affine.ClearField("storage_type")
    return spot.at()


def storage_is_ambiguous(spot: Spot) -> Refusal | None:
    """One element takes one byte in every width."""
    if not spot.coded or spot.dims != (1, 1, 1, 1):
        return None
    affine = spot.payload.affine
    affine.signed_storage = not p.NAMES[affine.storage_type].startswith("U")
    affine.ClearField("storage_type")
    return spot.at()


def storage_contradicts_the_bytes(spot: Spot) -> Refusal | None:
    if not spot.coded:
        return None
    payload = spot.payload
    count = int(np.prod(spot.dims))
    bits = {"INT8": 8, "INT4": 4, "INT2": 2}
    others = [name for name, width in bits.items() if -(-count * width // 8) != len(payload.raw_data)]
    if not others:
        return None
    payload.affine.storage_type = p.CODES[str(spot.rng.choice(others))]
    payload.affine.ClearField("zero_point")
    return spot.at()


def scale_is_missing(spot: Spot) -> Refusal | None:
    if not spot.coded:
        return None
    spot.payload.affine.ClearField("scale")
    return spot.at()


def scale_is_no_step(spot: Spot) -> Refusal | None:
    if not spot.coded:
        return None
    scale = spot.payload.affine.scale
    values = list(scale.float_data)
    values[int(spot.rng.integers(len(values)))] = float(spot.rng.choice([0.0, -1.0, np.nan, np.inf, -np.inf, -0.0]))
    del scale.float_data[:]
    scale.float_data.extend(values)
    return spot.at()


def parameter_has_another_shape(spot: Spot) -> Refusal | None:
    if not spot.coded:
        return None
    affine = spot.payload.affine
    shape = numpy_helper.to_array(affine.scale).shape
    if spot.rng.random() < 0.5 or not affine.HasField("zero_point"):
        affine.scale.CopyFrom(numpy_helper.from_array(np.ones((*shape, 2), np.float32)))
    else:
        affine.zero_point.dims.append(1)
    return spot.at()


def zero_point_has_another_type(spot: Spot) -> Refusal | None:
    if not spot.coded:
        return None
    affine = spot.payload.affine
    zeros = np.zeros(numpy_helper.to_array(affine.scale).shape, np.int32)
    affine.zero_point.CopyFrom(numpy_helper.from_array(zeros))
    return spot.at()


def axis_is_not_there(spot: Spot) -> Refusal | None:
    if not spot.coded:
        return None
    affine = spot.payload.affine
    affine.axis = int(spot.rng.choice([4, -5, 2**40, -(2**63)]))
    return spot.at()


def block_size_is_out_of_place(spot: Spot) -> Refusal | None:
    if not spot.coded:
        return None
    affine = spot.payload.affine
    if affine.HasField("axis"):
        affine.block_size = 0
    else:
        affine.block_size = 2
    return spot.at()


def bits_stand_past_the_last_code(spot: Spot) -> Refusal | None:
    if not spot.coded:
        return None
    payload = spot.payload
    width = p.bits(p.NAMES[payload.affine.storage_type])
    used = int(np.prod(spot.dims)) * width % 8
    if used == 0:
        return None
    data = bytearray(payload.raw_data)
    data[-1] |= 1 << int(spot.rng.integers(used, 8))
    payload.raw_data = bytes(data)
    return spot.at()


def layout_is_a_struct_without_a_size(spot: Spot) -> Refusal | None:
    if not spot.coded:
        return None
    payload = spot.payload
    field = payload.struct_type.structure.field.add(name="x")
    field.type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    field.type.tensor_type.shape.dim.add(dim_param="n")
    return spot.at()


def reference_leads_nowhere(spot: Spot) -> Refusal | None:
    if not spot.coded:
        return None
    payload = spot.payload
    if spot.rng.random() < 0.5:
        payload.struct_type.type_ref = 77
    else:
        payload.parameter_ref = "nobody"
    return spot.at()


FAULTS: list[Fault] = [
    start_moves,
    start_is_missing,
    length_is_missing,
    length_is_not_positive,
    length_exceeds_the_capacity,
    payload_is_missing,
    page_is_left_out,
    extent_differs,
    extent_is_zero,
    extent_is_negative,
    extent_is_huge,
    rank_is_another,
    dense_type_is_another,
    bytes_are_too_few_or_many,
    payload_is_in_a_file,
    logical_type_is_another,
    logical_type_is_missing,
    logical_extent_has_a_name,
    storage_is_no_code,
    storage_is_not_told,
    storage_is_ambiguous,
    storage_contradicts_the_bytes,
    scale_is_missing,
    scale_is_no_step,
    parameter_has_another_shape,
    zero_point_has_another_type,
    axis_is_not_there,
    block_size_is_out_of_place,
    bits_stand_past_the_last_code,
    layout_is_a_struct_without_a_size,
    reference_leads_nowhere,
]
