"""Appends: what they copy, what they never change, and what `exclusive` promises."""

import gc
from typing import Any

import graphs
import numpy as np
import pytest
import refeed
from graphs import Array
from onnx import TensorProto, helper
from refeed import runtime

BATCH, HEADS, WIDTH, GROUPS, STEPS = 2, 4, 48, 2, 200


class Appender:
    """One way to append rows to caches, with what the caches must then hold."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.random = np.random.default_rng(3)
        if kind == "Concat":
            self.proto, self.pairs = graphs.concat(BATCH, HEADS, WIDTH), [("past", "present")]
        elif kind == "Attention":
            self.proto, self.pairs = graphs.attention(BATCH, HEADS, WIDTH, GROUPS), [("pk", "ok"), ("pv", "ov")]
        else:
            self.proto = graphs.grouped_query_attention(BATCH, HEADS, WIDTH, GROUPS)
            self.pairs = [("pk", "ok"), ("pv", "ov")]
        self.model, _ = refeed.bind(self.proto, self.pairs)
        self.empty = np.zeros((BATCH, HEADS, 0, WIDTH), np.float32)
        self.want = {output: self.empty for _, output in self.pairs}
        self.length = 0

    def feeds(self, rows: int = 1) -> dict[str, Array]:
        """Feeds that append `rows` rows; `want` grows with them."""
        fresh = [self.random.standard_normal((BATCH, HEADS, rows, WIDTH), np.float32) for _ in self.pairs]
        for (_, output), row in zip(self.pairs, fresh, strict=True):
            self.want[output] = np.concatenate([self.want[output], row], axis=2)
        self.length += rows
        query = self.random.standard_normal((BATCH, GROUPS * HEADS, rows, WIDTH), np.float32)
        if self.kind == "Concat":
            return {"new": fresh[0]}
        if self.kind == "Attention":
            return {"q": query, "k": fresh[0], "v": fresh[1]}
        flat = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(BATCH, rows, -1) for x in (query, *fresh)]
        lengths = np.full(BATCH, self.length - 1, np.int32)
        return {
            "q": flat[0],
            "k": flat[1],
            "v": flat[2],
            "lengths": lengths,
            "total": np.array(self.length, np.int32),
        }

    def state(self, **keywords: Any) -> runtime.PersistentValueState:
        return runtime.PersistentValueState(self.model, {past: self.empty for past, _ in self.pairs}, **keywords)


KINDS = ["Concat", "Attention", "GroupQueryAttention"]


@pytest.mark.parametrize("kind", KINDS)
def test_kept_outputs_cost_no_prefix_copies_and_never_change(kind: str) -> None:
    """Rules 5.1.5, 5.4.1, 5.6.1; S134, S146, S147, S159, S160, S163."""
    appender = Appender(kind)
    state = appender.state()
    context = runtime.RuntimeContext(events_enabled=True)
    kept: list[tuple[dict[str, Array], dict[str, Array]]] = []
    for _ in range(STEPS):
        out = state.run(context, appender.feeds())
        kept.append(({name: np.from_dlpack(out[name]) for _, name in appender.pairs}, dict(appender.want)))
    for got, want in kept:
        for name in want:
            np.testing.assert_array_equal(got[name], want[name])
    events = context.events()
    row = BATCH * HEADS * WIDTH * 4
    caches = len(appender.pairs)
    assert sum(event.storage_prefix_copied_bytes for event in events) <= 2 * STEPS * row * caches
    assert sum(event.storage_append_copied_bytes for event in events) == STEPS * row * caches
    assert sum(event.storage_allocations for event in events) <= 8 * caches
    assert {report.outcome for report in state.explain().bindings} == {"in place"}


@pytest.mark.parametrize("kind", KINDS)
def test_reset_to_an_output_keeps_the_memory_and_the_first_append_allocates(kind: str) -> None:
    """Rule 5.1.1; S137, S157."""
    appender = Appender(kind)
    state = appender.state()
    context = runtime.RuntimeContext(events_enabled=True)
    for _ in range(3):
        out = state.run(context, appender.feeds())
    held = {past: out[output] for past, output in appender.pairs}
    state.reset(held)
    for past, tensor in state.values.items():
        assert graphs.address(tensor.numpy()) == graphs.address(held[past].numpy())
    context.clear_events()
    out = state.run(context, appender.feeds())
    assert sum(event.storage_allocations for event in context.events()) == len(appender.pairs)
    for _, output in appender.pairs:
        np.testing.assert_array_equal(out[output].numpy(), appender.want[output])


@pytest.mark.parametrize("kind", KINDS)
def test_several_rows_at_once_and_one_at_a_time_make_the_same_cache(kind: str) -> None:
    """Rule 5.2.9; S165."""
    counts = [5, 1, 1] if kind == "GroupQueryAttention" else [5, 1, 0, 37, 1]
    appender = Appender(kind)
    state = appender.state(persistent_tensor_initial_capacity=3)
    for count in counts:
        out = state.run(appender.feeds(count))
        for _, output in appender.pairs:
            np.testing.assert_array_equal(out[output].numpy(), appender.want[output])


def _single_head(
    steps: int, prefix: int, hold: bool = False, **keywords: Any
) -> tuple[list[tuple[int, int, int, int, int]], list[int]]:
    """Events summed by step, and addresses of the key cache, for [1, 1, L, 2] caches grown one row a step."""
    model, _ = refeed.bind(graphs.attention(1, 1, 2, 1), [("pk", "ok"), ("pv", "ov")])
    past = np.arange(2 * prefix, dtype=np.float32).reshape(1, 1, prefix, 2)
    state = runtime.PersistentValueState(model, {"pk": past, "pv": past + 100}, append_reuse="exclusive", **keywords)
    context = runtime.RuntimeContext(events_enabled=True)
    row = np.ones((1, 1, 1, 2), np.float32)
    table, addresses, held = [], [], []
    for _ in range(steps):
        context.clear_events()
        out = state.run(context, {"q": row, "k": row, "v": row})
        addresses.append(graphs.address(out["ok"].numpy()))
        if hold:
            held.append(out)
        del out
        gc.collect()
        events = context.events()
        table.append(
            (
                sum(event.storage_allocations for event in events),
                sum(event.storage_allocated_bytes for event in events),
                sum(event.storage_prefix_copied_bytes for event in events),
                sum(event.storage_append_copied_bytes for event in events),
                sum(event.storage_reuse_count for event in events),
            )
        )
    return table, addresses


def test_exclusive_reuse_at_capacity_four() -> None:
    """Rules 4.2.3, 5.1.6, 5.5.1, 5.5.2; S025, S158, S182. S184."""
    table, addresses = _single_head(4, 1, persistent_tensor_initial_capacity=4)
    # Capacities of 4, -, -, 8 rows; a row of both caches is 16 bytes.
    assert table == [(2, 64, 16, 16, 0), (0, 0, 0, 16, 2), (0, 0, 0, 16, 2), (2, 128, 64, 16, 0)]
    assert addresses[0] == addresses[1] == addresses[2] != addresses[3]


def test_exclusive_without_capacity_is_the_dense_fallback() -> None:
    """Rules 5.2.2, 5.4.2, 5.5.2; S025, S151."""
    table, _ = _single_head(4, 1, persistent_tensor_initial_capacity=0)
    assert table == [(2, 16 * (step + 1), 16 * step, 16, 0) for step in range(1, 5)]


def test_exclusive_totals_at_the_default_capacity() -> None:
    """Rule 5.5.2; S025, S150."""
    table, _ = _single_head(3, 1)
    totals = [sum(column) for column in zip(*table, strict=True)]
    assert totals == [2, 2 * 32 * 8, 16, 48, 4]


def test_exclusive_from_empty_caches_with_room_for_all() -> None:
    """Rules 5.5.1, 5.5.2; S025, S165."""
    table, _ = _single_head(4, 0, persistent_tensor_initial_capacity=4)
    assert table == [(2, 64, 0, 16, 0)] + [(0, 0, 0, 16, 2)] * 3


def test_exclusive_held_outputs_force_fresh_memory() -> None:
    """Rule 5.1.6."""
    table, addresses = _single_head(4, 1, hold=True, persistent_tensor_initial_capacity=16)
    assert [row[0] for row in table] == [2, 2, 2, 2]
    assert [row[2] for row in table] == [16, 32, 48, 64]
    assert len(set(addresses)) == 4


def test_exclusive_several_heads_take_the_fallback() -> None:
    """Rules 5.4.2, 5.5.3; S183."""
    batch, heads, width, prefix = 2, 3, 2, 4
    model, _ = refeed.bind(graphs.attention(batch, heads, width, 1), [("pk", "ok"), ("pv", "ov")])
    past = np.zeros((batch, heads, prefix, width), np.float32)
    state = runtime.PersistentValueState(model, {"pk": past, "pv": past}, append_reuse="exclusive")
    context = runtime.RuntimeContext(events_enabled=True)
    row = np.ones((batch, heads, 1, width), np.float32)
    state.run(context, {"q": row, "k": row, "v": row})
    events = context.events()
    unit = 4 * batch * heads * (width + width)
    assert sum(event.storage_allocations for event in events) == 2
    assert sum(event.storage_allocated_bytes for event in events) == unit * (prefix + 1)
    assert sum(event.storage_prefix_copied_bytes for event in events) == unit * prefix
    assert sum(event.storage_append_copied_bytes for event in events) == unit


# Each operator that can be a view, from `x` of [2, 3, 4] to `y`; constants by name.
VIEWS: dict[str, tuple[str, dict[str, Array], dict[str, Any]]] = {
    "Identity": ("Identity", {}, {}),
    "Transpose": ("Transpose", {}, {"perm": [2, 0, 1]}),
    "Reshape": ("Reshape", {"c": np.array([6, 4])}, {}),
    "Flatten": ("Flatten", {}, {"axis": 2}),
    "Unsqueeze": ("Unsqueeze", {"c": np.array([1])}, {}),
    "Squeeze": ("Squeeze", {"c": np.array([0])}, {}),
    "Slice": ("Slice", {"c": np.array([1]), "d": np.array([3]), "e": np.array([2])}, {}),
    "Expand": ("Expand", {"c": np.array([5, 2, 3, 4])}, {}),
    "Split": ("Split", {}, {"axis": 0, "num_outputs": 1}),
    "Cast": ("Cast", {}, {"to": TensorProto.FLOAT}),
    "Gather": ("Gather", {"c": np.array(1)}, {"axis": 1}),
}


@pytest.mark.parametrize("bound", [False, True], ids=["output", "retained"])
@pytest.mark.parametrize("name", sorted(VIEWS))
def test_refilled_feeds_change_no_output_and_no_retained_value(name: str, bound: bool) -> None:
    """Rule 4.2.10; S082, S083."""
    op_type, constants, attributes = VIEWS[name]
    shape = [1, 3, 4] if name == "Squeeze" else [2, 3, 4]
    nodes = [
        helper.make_node(op_type, ["x", *constants], ["y"], **attributes),
        helper.make_node("Identity", ["past"], ["unused"]),
    ]
    proto = graphs.model(
        nodes,
        [graphs.info("x", graphs.FLOAT, shape), graphs.info("past", graphs.FLOAT, None)],
        [graphs.info("y", graphs.FLOAT, None), graphs.info("unused", graphs.FLOAT, None)],
        initializers=[_constant(key, value) for key, value in constants.items()],
    )
    model, _ = refeed.bind(proto, [("past", "y" if bound else "unused")])
    state = runtime.PersistentValueState(model, {"past": np.zeros(1, np.float32)})
    buffer = np.empty(shape, np.float32)
    kept = []
    for step in range(3):
        buffer[...] = np.arange(buffer.size).reshape(shape) + 100 * step
        out = state.run({"x": buffer})["y"].numpy()
        kept.append((out, out.copy(), state.values["past"].numpy(), state.values["past"].numpy().copy()))
        assert float(out.max()) >= 100 * step
        buffer[...] = -1
        assert float(kept[-1][0].min()) >= 100 * step, "the output shares memory with the feed"
    for out, copy, value, value_copy in kept:
        np.testing.assert_array_equal(out, copy)
        np.testing.assert_array_equal(value, value_copy)


def _constant(name: str, value: Array) -> TensorProto:
    return helper.make_tensor(name, TensorProto.INT64, value.shape, value.ravel())


def test_a_feed_handed_straight_through_is_shared() -> None:
    """Rule 4.2.10; S083."""
    proto = graphs.accumulate()
    proto.graph.output.append(graphs.info("delta", graphs.FLOAT, [2]))
    model, _ = refeed.bind(proto, [("past", "present")])
    state = runtime.PersistentValueState(model, {"past": np.zeros(2, np.float32)})
    delta = np.ones(2, np.float32)
    assert graphs.address(state.run({"delta": delta})["delta"].numpy()) == graphs.address(delta)


def test_a_node_in_between_gives_no_permission() -> None:
    """Rule 5.3.3; S149: the graph output is that of an Identity behind the append."""
    nodes = [
        helper.make_node("Concat", ["past", "new"], ["longer"], axis=1),
        helper.make_node("Identity", ["longer"], ["present"]),
    ]
    infos = [graphs.info(name, graphs.FLOAT, [2, name[:3], 3]) for name in ("new", "past", "present")]
    model, _ = refeed.bind(graphs.model(nodes, infos[:2], infos[2:]), [("past", "present")])
    state = runtime.PersistentValueState(model, {"past": np.zeros((2, 0, 3), np.float32)})
    context = runtime.RuntimeContext(events_enabled=True)
    expected = np.zeros((2, 0, 3), np.float32)
    for step in range(4):
        row = np.full((2, 1, 3), step, np.float32)
        expected = np.concatenate([expected, row], axis=1)
        np.testing.assert_array_equal(state.run(context, {"new": row})["present"].numpy(), expected)
        assert state.explain().bindings[0].outcome == "computed by Identity"
    assert sum(event.storage_reuse_count for event in context.events()) == 0


def test_extents_and_bytes_are_those_of_visible_rows() -> None:
    """Rule 5.5.1; S148, S182: keys of width 6, values of width 5, more room than rows. S179."""
    node = helper.make_node("Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "ok", "ov"], is_causal=1)
    shapes: dict[str, graphs.Shape] = {
        "q": [1, 2, "n", 6],
        "k": [1, 1, "n", 6],
        "v": [1, 1, "n", 5],
        "pk": [1, 1, "p", 6],
        "pv": [1, 1, "p", 5],
        "y": [1, 2, "n", 5],
        "ok": [1, 1, "t", 6],
        "ov": [1, 1, "t", 5],
    }
    infos = {name: graphs.info(name, graphs.FLOAT, shape) for name, shape in shapes.items()}
    every = list(infos.values())
    proto = graphs.model([node], every[:5], every[5:])
    model, _ = refeed.bind(proto, [("pk", "ok"), ("pv", "ov")])
    empty = {"pk": np.zeros((1, 1, 0, 6), np.float32), "pv": np.zeros((1, 1, 0, 5), np.float32)}
    state = runtime.PersistentValueState(model, empty, persistent_tensor_initial_capacity=16)
    context = runtime.RuntimeContext(events_enabled=True)
    for length in range(1, 5):
        context.clear_events()
        feeds = {name: np.ones([d if isinstance(d, int) else 1 for d in shapes[name]], np.float32) for name in "qkv"}
        out = state.run(context, feeds)
        assert (out["ok"].shape, out["ov"].shape) == ((1, 1, length, 6), (1, 1, length, 5))
        assert [report.bytes for report in state.explain().bindings] == [length * 24, length * 20]
        assert [report.capacity for report in state.explain().bindings] == [16, 16]
        appended = sum(event.storage_append_copied_bytes for event in context.events())
        allocated = sum(event.storage_allocations for event in context.events())
        assert (appended, allocated) == (4 * (6 + 5), 2 if length == 1 else 0)


def test_the_capacity_means_nothing_to_a_session() -> None:
    """Rule 5.2.10; S154."""
    proto = graphs.concat(1, 2, 3)
    past, new = np.ones((1, 2, 4, 3), np.float32), np.zeros((1, 2, 1, 3), np.float32)
    counters = []
    for capacity in (0, 64):
        options = runtime.RuntimeSessionOptions(persistent_tensor_initial_capacity=capacity)
        context = runtime.RuntimeContext(events_enabled=True)
        out = runtime.RuntimeSession(proto, options).run({"past": past, "new": new}, context)["present"]
        assert out.shape == (1, 2, 5, 3)
        events = context.events()
        counters.append([(e.storage_allocated_bytes, e.storage_reuse_count) for e in events if e.action == 4])
    assert counters[0] == counters[1]
