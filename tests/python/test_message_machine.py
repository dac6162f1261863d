"""The same random edits on official messages and on ours: every answer and every byte must agree.

The number of steps is 4,000, always the same ones, or as many random ones as ``REFEED_MESSAGE_STEPS`` says
(``make message-machine`` runs 100,000).
"""

from __future__ import annotations

import copy
import math
import os
import pickle
from dataclasses import dataclass
from typing import Any

import onnx
import refeed.onnx
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

STEPS_A_RUN = 50
STEPS = int(os.environ.get("REFEED_MESSAGE_STEPS", "4000"))

# Roots to start from; everything else is reached from them.
ROOTS = [
    "ModelProto",
    "GraphProto",
    "NodeProto",
    "AttributeProto",
    "TensorProto",
    "SparseTensorProto",
    "TypeProto",
    "ValueInfoProto",
    "FunctionProto",
    "TrainingInfoProto",
    "TensorShapeProto",
    "NodeDeviceConfigurationProto",
    "ShardingSpecProto",
    "OperatorSetIdProto",
]
# More references than this make each step slow and teach nothing new.
POOL = 7

integers = st.one_of(
    st.integers(-3, 40),
    st.sampled_from([2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 2**64]),
)
floats = st.one_of(st.floats(width=32), st.integers(-5, 5), st.sampled_from([1e39, -1e39, 0.1, -0.0]))
texts = st.one_of(st.text(max_size=6), st.sampled_from(["a", "b", "X", "ü", '"\n\\', b"bytes", b"\xff", ""]))
payloads = st.one_of(st.binary(max_size=12), st.sampled_from([b"", b"\x00\xff'\"\\\n", "text"]))
wrong: st.SearchStrategy[Any] = st.sampled_from([None, "text", b"bytes", 1.5, True, [], {}, 3])


@dataclass
class Pair:
    """One official message and ours, that were made by the same steps."""

    official: Any
    ours: Any

    @property
    def fields(self) -> list[Any]:
        return list(self.official.DESCRIPTOR.fields)

    def apart(self) -> Pair:
        """The same content elsewhere: official messages crash when one is merged into its own parent or child."""
        return Pair(copy.deepcopy(self.official), copy.deepcopy(self.ours))


def outcome(call: Any) -> tuple[str, Any]:
    """What a call gave: its value, or the class of the exception that users can catch."""
    try:
        return "value", call()
    except Exception as error:
        for kind in (TypeError, AttributeError, IndexError, KeyError, OverflowError, ValueError):
            if isinstance(error, kind):
                return "error", kind.__name__
        raise


def plain(value: Any) -> Any:
    """A value that can be compared between the two: NaN is equal to itself, messages count by their bytes."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    if hasattr(value, "SerializeToString"):
        return type(value).__name__, value.SerializeToString(deterministic=True)
    if isinstance(value, (str, bytes, int, bool)) or value is None:
        return type(value).__name__, value
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    return [plain(item) for item in value]


def same(official: Any, ours: Any) -> None:
    """Both calls give the same value or the same class of error."""
    expected, got = outcome(official), outcome(ours)
    assert expected[0] == got[0], f"expected {expected}, got {got}"
    if expected[0] == "error":
        assert expected[1] == got[1], f"expected {expected[1]}, got {got[1]}"
    else:
        assert plain(expected[1]) == plain(got[1])


def is_message(field: Any) -> bool:
    return field.message_type is not None


def scalar(data: st.DataObject, field: Any, *, valid: bool = False) -> Any:
    """A value for a field; one in a while of a kind that does not fit."""
    if not valid and data.draw(st.integers(0, 7), label="wrong kind") == 0:
        return data.draw(wrong, label="wrong value")
    kind = field.type
    if field.enum_type is not None:
        names = [value.name for value in field.enum_type.values]
        numbers = [value.number for value in field.enum_type.values]
        good = st.one_of(st.sampled_from(names), st.sampled_from(numbers))
        return data.draw(good if valid else st.one_of(good, st.sampled_from(["NOPE", 99, -1])), label="enum")
    if kind in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return data.draw(floats, label="float")
    if kind == field.TYPE_STRING:
        return data.draw(st.text(max_size=6) if valid else texts, label="text")
    if kind == field.TYPE_BYTES:
        return data.draw(st.binary(max_size=12) if valid else payloads, label="bytes")
    return data.draw(st.integers(-3, 40) if valid else integers, label="integer")


class Messages(RuleBasedStateMachine):
    """Edits of a pool of messages that may lie in each other."""

    @initialize(name=st.sampled_from(ROOTS))
    def start(self, name: str) -> None:
        self.pool: list[Pair] = [Pair(getattr(onnx, name)(), getattr(refeed.onnx, name)())]

    def keep(self, pair: Pair) -> None:
        self.pool.append(pair)
        if len(self.pool) > POOL:
            del self.pool[1]

    def pick(self, data: st.DataObject) -> Pair:
        return self.pool[data.draw(st.integers(0, len(self.pool) - 1), label="message")]

    def pick_field(self, data: st.DataObject, wanted: Any) -> tuple[Pair, Any] | None:
        pair = self.pick(data)
        fields = [field for field in pair.fields if wanted(field)]
        if not fields:
            return None
        return pair, data.draw(st.sampled_from(fields), label="field")

    # ------------------------------------------------------------------------------------------ singular fields

    @rule(name=st.sampled_from(ROOTS))
    def new(self, name: str) -> None:
        self.keep(Pair(getattr(onnx, name)(), getattr(refeed.onnx, name)()))

    @rule(data=st.data())
    def construct(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        values = {}
        for field in pair.fields:
            if is_message(field) or data.draw(st.booleans(), label=field.name):
                continue
            items = data.draw(st.integers(0, 3), label="items")
            many = [scalar(data, field, valid=True) for _ in range(items)]
            values[field.name] = many if field.is_repeated else scalar(data, field)
        made: list[Any] = []

        def make(kind: type) -> Any:
            made.append(kind(**values))
            return made[-1]

        same(lambda: make(type(pair.official)), lambda: make(type(pair.ours)))
        if len(made) == 2:
            self.keep(Pair(*made))

    @rule(data=st.data())
    def set_scalar(self, data: st.DataObject) -> None:
        picked = self.pick_field(data, lambda field: not field.is_repeated)
        if picked is None:
            return
        pair, field = picked
        value = 3 if is_message(field) else scalar(data, field)
        same(lambda: setattr(pair.official, field.name, value), lambda: setattr(pair.ours, field.name, value))

    @rule(data=st.data())
    def read_field(self, data: st.DataObject) -> None:
        picked = self.pick_field(data, lambda _: True)
        if picked is None:
            return
        pair, field = picked
        same(lambda: getattr(pair.official, field.name), lambda: getattr(pair.ours, field.name))

    @rule(data=st.data())
    def child(self, data: st.DataObject) -> None:
        picked = self.pick_field(data, lambda field: is_message(field) and not field.is_repeated)
        if picked is not None:
            pair, field = picked
            self.keep(Pair(getattr(pair.official, field.name), getattr(pair.ours, field.name)))

    @rule(data=st.data())
    def presence(self, data: st.DataObject) -> None:
        picked = self.pick_field(data, lambda _: True)
        if picked is None:
            return
        pair, field = picked
        same(lambda: pair.official.HasField(field.name), lambda: pair.ours.HasField(field.name))
        same(lambda: pair.official.HasField("nope"), lambda: pair.ours.HasField("nope"))

    @rule(data=st.data())
    def clear_field(self, data: st.DataObject) -> None:
        picked = self.pick_field(data, lambda _: True)
        if picked is not None:
            pair, field = picked
            oneof = field.containing_oneof
            # Clearing an absent member that somebody holds clears the present one in official messages, not in ours.
            if oneof is None or pair.official.WhichOneof(oneof.name) in (None, field.name):
                same(lambda: pair.official.ClearField(field.name), lambda: pair.ours.ClearField(field.name))

    @rule(data=st.data())
    def oneofs(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        for oneof in pair.official.DESCRIPTOR.oneofs:
            same(lambda o=oneof: pair.official.WhichOneof(o.name), lambda o=oneof: pair.ours.WhichOneof(o.name))
        same(lambda: pair.official.WhichOneof("nope"), lambda: pair.ours.WhichOneof("nope"))

    # ------------------------------------------------------------------------------------------- whole messages

    @rule(data=st.data())
    def clear(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        same(pair.official.Clear, pair.ours.Clear)

    @rule(data=st.data())
    def set_in_parent(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        same(pair.official.SetInParent, pair.ours.SetInParent)

    @rule(data=st.data(), merge=st.booleans())
    def copy_or_merge(self, data: st.DataObject, merge: bool) -> None:
        to, source = self.pick(data), self.pick(data).apart()
        if merge:
            same(lambda: to.official.MergeFrom(source.official), lambda: to.ours.MergeFrom(source.ours))
        else:
            same(lambda: to.official.CopyFrom(source.official), lambda: to.ours.CopyFrom(source.ours))

    @rule(data=st.data(), merge=st.booleans())
    def parse(self, data: st.DataObject, merge: bool) -> None:
        to, source = self.pick(data), self.pick(data)
        wire = source.official.SerializeToString(deterministic=True)
        if type(to.official) is not type(source.official):
            return
        if merge:
            same(lambda: to.official.MergeFromString(wire), lambda: to.ours.MergeFromString(wire))
        else:
            same(lambda: to.official.ParseFromString(wire), lambda: to.ours.ParseFromString(wire))

    @rule(data=st.data(), how=st.sampled_from(["copy", "deepcopy", "pickle"]))
    def duplicate(self, data: st.DataObject, how: str) -> None:
        pair = self.pick(data)

        def twin(message: Any) -> Any:
            if how == "pickle":
                return pickle.loads(pickle.dumps(message))  # noqa: S301
            return copy.copy(message) if how == "copy" else copy.deepcopy(message)

        self.keep(Pair(twin(pair.official), twin(pair.ours)))

    @rule(data=st.data())
    def compare(self, data: st.DataObject) -> None:
        left, right = self.pick(data), self.pick(data)
        same(lambda: left.official == right.official, lambda: left.ours == right.ours)
        same(lambda: left.official != right.official, lambda: left.ours != right.ours)

    @rule(data=st.data())
    def describe(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        same(lambda: str(pair.official), lambda: str(pair.ours))
        same(pair.official.ByteSize, pair.ours.ByteSize)
        names = [field.name for field, _ in pair.official.ListFields()]
        assert names == [field.name for field, _ in pair.ours.ListFields()]

    # ---------------------------------------------------------------------------------------------------- lists

    @rule(data=st.data())
    def grow_scalars(self, data: st.DataObject) -> None:
        picked = self.pick_field(data, lambda field: field.is_repeated and not is_message(field))
        if picked is None:
            return
        pair, field = picked
        left, right = getattr(pair.official, field.name), getattr(pair.ours, field.name)
        how = data.draw(st.sampled_from(["append", "extend", "insert", "set", "slice"]), label="how")
        value = scalar(data, field)
        if how == "append":
            same(lambda: left.append(value), lambda: right.append(value))
            return
        if how == "insert":
            at = data.draw(st.integers(-5, 5), label="at")
            same(lambda: left.insert(at, value), lambda: right.insert(at, value))
            return
        if how == "set":
            at = data.draw(st.integers(-5, 5), label="at")
            same(lambda: left.__setitem__(at, value), lambda: right.__setitem__(at, value))
            return
        values = [scalar(data, field, valid=True) for _ in range(data.draw(st.integers(0, 4), label="items"))]
        if how == "extend":
            same(lambda: left.extend(values), lambda: right.extend(values))
            return
        cut = slice(*data.draw(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), label="slice"))
        same(lambda: left.__setitem__(cut, values), lambda: right.__setitem__(cut, values))

    @rule(data=st.data())
    def grow_messages(self, data: st.DataObject) -> None:
        picked = self.pick_field(data, lambda field: field.is_repeated and is_message(field))
        if picked is None:
            return
        pair, field = picked
        left, right = getattr(pair.official, field.name), getattr(pair.ours, field.name)
        how = data.draw(st.sampled_from(["add", "append", "extend", "insert"]), label="how")
        if how == "add":
            self.keep(Pair(left.add(), right.add()))
            return
        item = self.pick(data)
        if field.message_type.full_name != item.official.DESCRIPTOR.full_name:
            # Official lists raise and keep an empty message; ours raise and keep nothing. The error is the same.
            pair = pair.apart()
            left, right = getattr(pair.official, field.name), getattr(pair.ours, field.name)
        if how == "append":
            same(lambda: left.append(item.official), lambda: right.append(item.ours))
        elif how == "extend":
            same(lambda: left.extend([item.official]), lambda: right.extend([item.ours]))
        else:
            at = data.draw(st.integers(-5, 5), label="at")
            same(lambda: left.insert(at, item.official), lambda: right.insert(at, item.ours))

    @rule(data=st.data())
    def take_item(self, data: st.DataObject) -> None:
        picked = self.pick_field(data, lambda field: field.is_repeated and is_message(field))
        if picked is None:
            return
        pair, field = picked
        left, right = getattr(pair.official, field.name), getattr(pair.ours, field.name)
        at = data.draw(st.integers(-3, 3), label="at")
        same(lambda: left[at], lambda: right[at])
        if -len(left) <= at < len(left):
            self.keep(Pair(left[at], right[at]))

    @rule(data=st.data())
    def shrink_list(self, data: st.DataObject) -> None:
        picked = self.pick_field(data, lambda field: field.is_repeated)
        if picked is None:
            return
        pair, field = picked
        left, right = getattr(pair.official, field.name), getattr(pair.ours, field.name)
        how = data.draw(st.sampled_from(["pop", "del", "slice", "clear", "remove", "reverse", "sort"]), label="how")
        at = data.draw(st.integers(-4, 4), label="at")
        if how == "pop":
            # Beyond the end the official lists warn and take the last item; ours refuse, as lists do.
            if -len(left) <= at < len(left):
                same(lambda: left.pop(at), lambda: right.pop(at))
        elif how == "del":
            same(lambda: left.__delitem__(at), lambda: right.__delitem__(at))
        elif how == "slice":
            step = data.draw(st.sampled_from([None, 1, 2, -1, -2]), label="step")
            cut = slice(at, data.draw(st.integers(-4, 4), label="end"), step)
            same(lambda: left[cut], lambda: right[cut])
            # The official lists crash when a slice with a negative step takes nothing.
            if left[cut]:
                same(lambda: left.__delitem__(cut), lambda: right.__delitem__(cut))
        elif how == "remove":
            if len(left):
                item = at % len(left)
                same(lambda: left.remove(left[item]), lambda: right.remove(right[item]))
        elif how == "sort":
            flip = data.draw(st.booleans(), label="flip")
            key = (lambda item: item.ByteSize()) if is_message(field) else (lambda item: repr(item))
            same(lambda: left.sort(key=key, reverse=flip), lambda: right.sort(key=key, reverse=flip))
        else:
            same(getattr(left, how), getattr(right, how))

    @rule(data=st.data())
    def compare_lists(self, data: st.DataObject) -> None:
        picked = self.pick_field(data, lambda field: field.is_repeated)
        if picked is None:
            return
        pair, field = picked
        left, right = getattr(pair.official, field.name), getattr(pair.ours, field.name)
        assert len(left) == len(right)
        assert bool(left) == bool(right)
        if not is_message(field):
            same(lambda: left == list(left), lambda: right == list(right))
            same(lambda: str(left), lambda: str(right))

    # ------------------------------------------------------------------------------------------------ agreement

    @precondition(lambda self: hasattr(self, "pool"))
    @invariant()
    def bytes_agree(self) -> None:
        for pair in self.pool:
            expected = pair.official.SerializeToString(deterministic=True)
            assert pair.ours.SerializeToString(deterministic=True) == expected


Messages.TestCase.settings = settings(
    max_examples=max(1, STEPS // STEPS_A_RUN),
    stateful_step_count=STEPS_A_RUN,
    deadline=None,
    derandomize="REFEED_MESSAGE_STEPS" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
TestMessages = Messages.TestCase
