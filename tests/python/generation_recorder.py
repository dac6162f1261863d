"""What each step of a generation is fed: a kernel that hands its input on writes it down."""

from typing import Any, NamedTuple

import graphs
import numpy as np
import onnx
import refeed
from onnx import helper
from refeed import runtime

Array = np.ndarray[Any, Any]


class Fed(NamedTuple):
    """One input of one step."""

    address: int
    value: Array


def recording(model: onnx.ModelProto, skip: tuple[str, ...] = ()) -> list[str]:
    """Put a node `test.Record` between each input and what reads it, but for those to skip; return their names."""
    names = [value.name for value in model.graph.input if value.name not in skip]
    for index, name in enumerate(names):
        node = helper.make_node("Record", [name], [f"kept_{index}"], domain="test", name=name)
        model.graph.node.insert(index, node)
        for other in model.graph.node[index + 1 :]:
            other.input[:] = [f"kept_{index}" if used == name else used for used in other.input]
    model.opset_import.append(helper.make_opsetid("test", 1))
    return names


def recorded(
    model: onnx.ModelProto,
    feeds: dict[str, Any],
    pairs: tuple[tuple[str, str], ...] = (),
    context: runtime.RuntimeContext | None = None,
    **options: Any,
) -> tuple[list[list[int]], dict[str, list[Fed]]]:
    """Return the tokens, and for each input what it was at each step. With pairs the model is bound."""
    names = recording(model, tuple(name for name, _ in pairs))
    steps: dict[str, list[Fed]] = {name: [] for name in names}

    def record(node: Any, call: Any) -> Any:
        array = call.inputs[0].numpy()
        steps[node.name].append(Fed(graphs.address(array), array.copy()))
        return (call.inputs[0],)

    context = context or runtime.RuntimeContext()
    context.register_custom_kernel("test", "Record", record)
    bound: Any = model
    if pairs:
        bound, _ = refeed.bind(model, pairs=list(pairs))
    made = runtime.generate(bound, context, feeds, runtime.GenerationOptions(**options))
    return made.numpy().tolist(), steps
