"""A state that always copies: what `PersistentValueState` must be indistinguishable from, in NumPy and lists.

The model keeps keys and values that grow on axis 2; one form of it also a running sum, another also a sequence of the
frames seen.
"""

from __future__ import annotations

from typing import Any

import graphs
import numpy as np
import onnx
from graphs import FLOAT, Array, info
from onnx import TensorProto, helper

HEADS, KEY, VALUE = 3, 5, 2
BINDINGS = [("past_key", "key"), ("past_value", "value"), ("sum", "next_sum"), ("frames", "next_frames")]
# What the forms of the model retain: as many of the bindings.
FORMS = {"caches": 2, "sum": 3, "frames": 4}
GROWING = ("past_key", "past_value")


def model(form: str) -> onnx.ModelProto:
    """Make the model: only "caches" can be truncated, and all but "frames" reordered."""
    nodes = [
        helper.make_node("Concat", ["past_key", "new_key"], ["key"], axis=2),
        helper.make_node("Concat", ["past_value", "new_value"], ["value"], axis=2),
        helper.make_node("Gather", ["key", "pick"], ["picked"], axis=2),
    ]
    inputs = [
        info("new_key", FLOAT, ["b", HEADS, "n", KEY]),
        info("new_value", FLOAT, ["b", HEADS, "n", VALUE]),
        info("pick", TensorProto.INT64, []),
        info("past_key", FLOAT, ["b", HEADS, "p", KEY]),
        info("past_value", FLOAT, ["b", HEADS, "p", VALUE]),
    ]
    outputs = [
        info("key", FLOAT, ["b", HEADS, "t", KEY]),
        info("value", FLOAT, ["b", HEADS, "t", VALUE]),
        info("picked", FLOAT, ["b", HEADS, KEY]),
    ]
    if form != "caches":
        nodes.append(helper.make_node("Add", ["sum", "frame"], ["next_sum"]))
        inputs += [info("frame", FLOAT, ["b", 4]), info("sum", FLOAT, ["b", 4])]
        outputs.append(info("next_sum", FLOAT, ["b", 4]))
    if form == "frames":
        nodes.append(helper.make_node("SequenceInsert", ["frames", "frame"], ["next_frames"]))
        kind = helper.make_tensor_sequence_value_info
        inputs.append(kind("frames", FLOAT, None))
        outputs.append(kind("next_frames", FLOAT, None))
    return graphs.model(nodes, inputs, outputs, opset=18)


class NaiveState:
    """The values of a state, copied whenever anybody touches them."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values: dict[str, Any] | None = copied(values)

    def step(self, feeds: dict[str, Array]) -> dict[str, Any]:
        """Compute all outputs of one call, and keep what the bindings feed back."""
        held = self.held()
        key = np.concatenate([held["past_key"], feeds["new_key"]], axis=2)
        if not -key.shape[2] <= int(feeds["pick"]) < key.shape[2]:
            raise IndexError("pick")
        outputs: dict[str, Any] = {
            "key": key,
            "value": np.concatenate([held["past_value"], feeds["new_value"]], axis=2),
            "picked": np.take(key, int(feeds["pick"]), axis=2),
        }
        if "sum" in held:
            outputs["next_sum"] = held["sum"] + feeds["frame"]
        if "frames" in held:
            outputs["next_frames"] = [*held["frames"], feeds["frame"]]
        outputs = copied(outputs)
        self.values = {source: copied(outputs)[target] for source, target in BINDINGS if source in held}
        return outputs

    def fork(self) -> NaiveState:
        """Copy the state."""
        return NaiveState(self.held())

    def truncate(self, length: int) -> None:
        """Keep the first rows of what grows."""
        held = self.held()
        for name in GROWING:
            held[name] = held[name][:, :, :length].copy()

    def select(self, rows: list[int]) -> None:
        """Keep these batch rows, in this order."""
        held = self.held()
        for name in held:
            held[name] = held[name][rows].copy()

    def close(self) -> None:
        """Forget everything."""
        self.values = None

    def held(self) -> dict[str, Any]:
        """Give the values themselves."""
        assert self.values is not None, "closed"
        return self.values


def copied(value: Any) -> Any:
    """Copy arrays inside dictionaries and lists."""
    if isinstance(value, dict):
        return {name: copied(item) for name, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return np.array(value, copy=True)


def equal(ours: Any, naive: Any) -> bool:
    """Compare two values bit by bit, where ours are runtime tensors."""
    if isinstance(naive, dict):
        return ours.keys() == naive.keys() and all(equal(ours[name], naive[name]) for name in naive)
    if isinstance(naive, list):
        return len(ours) == len(naive) and all(map(equal, ours, naive))
    array = ours.numpy()
    return bool(array.shape == naive.shape and array.tobytes() == naive.tobytes())
