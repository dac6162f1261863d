"""Models over values of every kind, made with `refeed.onnx`, and what tests say of values."""

from typing import Any

import numpy as np
import refeed
from refeed import onnx
from refeed.onnx import helper

FLOAT, FLOAT16, INT8, INT64 = 1, 10, 3, 7
Dims = list[int | str | None]


def tensor(dims: Dims | None, elements: int = FLOAT) -> Any:
    return helper.make_tensor_type_proto(elements, dims)


def sequence(element: Any) -> Any:
    return helper.make_sequence_type_proto(element)


def layout(**fields: Any) -> Any:
    """A struct type of named fields."""
    declared = onnx.StructTypeProto()
    for name, field in fields.items():
        declared.structure.field.add(name=name).type.CopyFrom(field)
    return declared


def struct(**fields: Any) -> Any:
    declared = onnx.TypeProto()
    declared.struct_type.CopyFrom(layout(**fields))
    return declared


def reference(entry: int) -> Any:
    declared = onnx.TypeProto()
    declared.struct_type.type_ref = entry
    return declared


def any_cache() -> Any:
    declared = onnx.TypeProto()
    declared.struct_type.CopyFrom(onnx.StructTypeProto())
    return declared


def model(
    nodes: list[Any],
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    bindings: dict[str, str] | None = None,
    entries: dict[int, Any] | None = None,
    **more: Any,
) -> Any:
    """A model; `bindings` pairs inputs with outputs, `entries` are struct types by identity."""

    def infos(types: dict[str, Any]) -> list[Any]:
        return [helper.make_value_info(name, ty) for name, ty in types.items()]

    graph = helper.make_graph(nodes, "test", infos(inputs), infos(outputs), initializer=more.pop("initializer", []))
    for name, output in (bindings or {}).items():
        binding = graph.persistent_bindings.add()
        binding.input_name, binding.output_name = name, output
    for kind, values in more.items():
        getattr(graph, kind).extend(values)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    for entry, declared in (entries or {}).items():
        made.struct_types.append(declared)
        made.struct_types[-1].type_id = entry
    return made


def forward(ty: Any, **more: Any) -> Any:
    """`y` is `x`, of any type, beside a state that adds; neither is the other's business."""
    return model(
        [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Add", ["past", "d"], ["present"])],
        {"x": ty, "past": tensor([2]), "d": tensor([2])},
        {"y": ty, "present": tensor([2])},
        {"past": "present"},
        **more,
    )


def keep(ty: Any, **more: Any) -> Any:
    """A state that is handed on as it is; `tick` is the one thing that is fed."""
    return model(
        [helper.make_node("Identity", ["past"], ["present"]), helper.make_node("Neg", ["tick"], ["tock"])],
        {"past": ty, "tick": tensor([1])},
        {"present": ty, "tock": tensor([1])},
        {"past": "present"},
        **more,
    )


def page(start: int, rows: int, key: Any, value: Any) -> dict[str, Any]:
    return {"start": np.array(start), "length": np.array(rows), "key": key, "value": value}


def cache(pages: int, capacity: int = 2, heads: int = 2) -> Any:
    """A cache of full pages as a dictionary; no two elements are equal."""
    key, value = (1, heads, capacity, 3), (1, heads, capacity, 5)

    def payload(shape: tuple[int, ...], start: int) -> Any:
        return (np.arange(np.prod(shape), dtype=np.float32) + start).reshape(shape)

    blocks = [page(at * capacity, capacity, payload(key, at * 100), payload(value, at * 1000)) for at in range(pages)]
    return {"blocks": blocks}


def cache_message(pages: int, name: str = "") -> Any:
    message = onnx.PagedCacheProto()
    if name:
        message.name = name
    for block in cache(pages)["blocks"]:
        added = message.blocks.add()
        added.start, added.length = int(block["start"]), int(block["length"])
        for part in ("key", "value"):
            payload = getattr(added, part)
            payload.data_type = FLOAT
            payload.dims.extend(block[part].shape)
            payload.raw_data = block[part].tobytes()
    return message


def affine(codes: list[int], dims: list[int], scale: float = 0.5, name: str = "") -> Any:
    message = onnx.EncodedValueProto()
    if name:
        message.name = name
    message.affine.storage_type = INT8
    message.affine.scale.data_type = FLOAT
    message.affine.scale.float_data.append(scale)
    message.logical_type.CopyFrom(tensor(list(dims)))
    message.raw_data = bytes(code & 255 for code in codes)
    return message


def leaves(value: Any) -> list[Any]:
    """The tensors in a value, in order."""
    if isinstance(value, dict):
        return [leaf for field in value.values() for leaf in leaves(field)]
    if isinstance(value, list):
        return [leaf for element in value for leaf in leaves(element)]
    return [value]


def array(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else np.from_dlpack(value)


def addresses(value: Any) -> list[int]:
    return [array(leaf).__array_interface__["data"][0] for leaf in leaves(value)]


def plain(value: Any) -> Any:
    """A value with lists in place of tensors."""
    if isinstance(value, dict):
        return {name: plain(field) for name, field in value.items()}
    if isinstance(value, list):
        return [plain(element) for element in value]
    return array(value).tolist()


def state(model: Any, initial: Any, **options: Any) -> refeed.PersistentValueState:
    return refeed.PersistentValueState(model, initial, **options)
