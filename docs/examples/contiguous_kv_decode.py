"""Decode with KV caches that stay in one buffer, and count what each token costs.

The model is one `Attention` node of ONNX opset 24. Its two caches are graph inputs and graph outputs; `refeed.bind`
says which output feeds which input. The same tokens are then decoded under several settings. Each table is made from
the events that the runtime records, and is held to the documented figures.

Run it: ``python docs/examples/contiguous_kv_decode.py``
"""

import argparse

import numpy as np
import refeed
from onnx import TensorProto, helper
from refeed import runtime

QUERY_HEADS, DK, DV = 6, 5, 7
COUNTERS = ("allocations", "allocated_bytes", "prefix_copied_bytes", "append_copied_bytes", "reuse_count")


def attention_model(heads):
    """Make a decode step: `heads` cached heads, queries in groups over them, keys of DK and values of DV numbers."""
    value = helper.make_tensor_value_info
    query = value("query", TensorProto.FLOAT, [1, QUERY_HEADS, "new", DK])
    key, val = (value(name, TensorProto.FLOAT, [1, heads, "new", d]) for name, d in (("key", DK), ("value", DV)))
    past_key = value("past_key", TensorProto.FLOAT, [1, heads, "past", DK])
    past_value = value("past_value", TensorProto.FLOAT, [1, heads, "past", DV])
    outputs = [
        value("out", TensorProto.FLOAT, [1, QUERY_HEADS, "new", DV]),
        value("present_key", TensorProto.FLOAT, [1, heads, "present", DK]),
        value("present_value", TensorProto.FLOAT, [1, heads, "present", DV]),
    ]
    node = helper.make_node(
        "Attention",
        ["query", "key", "value", "", "past_key", "past_value"],
        ["out", "present_key", "present_value"],
        is_causal=1,
    )
    graph = helper.make_graph([node], "decode_step", [query, key, val, past_key, past_value], outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)


def numbers(shape, seed):
    """Make numbers in [-1, 1) by a linear congruence, so that the Rust twin can make the same."""
    made, x = np.empty(int(np.prod(shape)), np.float32), seed
    for i in range(made.size):
        x = (1664525 * x + 1013904223) % 2**32
        made[i] = (x >> 8) / 2**23 - 1.0
    return made.reshape(shape)


def tokens(heads, count):
    """Make the feeds of `count` steps of one token each."""
    for step in range(count):
        yield {
            "query": numbers((1, QUERY_HEADS, 1, DK), 3 * step),
            "key": numbers((1, heads, 1, DK), 3 * step + 1),
            "value": numbers((1, heads, 1, DV), 3 * step + 2),
        }


def expected(query, keys, values):
    """Compute attention from its formula in double precision; the newest query sees every key."""
    groups = QUERY_HEADS // keys.shape[1]
    query, keys, values = (np.asarray(x, np.float64) for x in (query, keys, values))
    keys, values = (np.repeat(x, groups, axis=1) for x in (keys, values))
    scores = query @ keys.swapaxes(-1, -2) / np.sqrt(DK)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ values


def decode(title, heads, count, *, hold, **options):
    """Decode `count` tokens, print one line a token, and return the five counters of each step."""
    model, _ = refeed.bind(attention_model(heads), pairs=[("past_key", "present_key"), ("past_value", "present_value")])
    initial = {
        "past_key": np.zeros((1, heads, 0, DK), np.float32),
        "past_value": np.zeros((1, heads, 0, DV), np.float32),
    }
    context = runtime.RuntimeContext(runtime.KernelContext(runtime.default_opset(24)), events_enabled=True)
    keys, values = initial["past_key"], initial["past_value"]
    steps, held = [], []
    print(f"{title}; cached heads: {heads}; outputs {'held' if hold else 'released'}")
    print("token  buffers  bytes requested  prefix copied  appended  reused")
    with runtime.PersistentValueState(model, initial, **options) as state:
        for feeds in tokens(heads, count):
            context.clear_events()
            outputs = state.run(context, feeds)
            events = [e for e in context.events() if e.action == runtime.RuntimeEventAction.kPersistentStorage]
            step = [sum(getattr(event, f"storage_{counter}") for event in events) for counter in COUNTERS]
            steps.append(step)
            print("{:5}  {:7}  {:15}  {:13}  {:8}  {:6}".format(len(steps), *step))
            keys, values = np.concatenate([keys, feeds["key"]], 2), np.concatenate([values, feeds["value"]], 2)
            np.testing.assert_allclose(
                np.from_dlpack(outputs["out"]), expected(feeds["query"], keys, values), rtol=1e-5, atol=1e-6
            )
            if hold:
                held.append((outputs, keys, values))
            del outputs  # the last handle to this step's result, unless it is held
        print(state.explain())
        # Whatever was appended since, an output that somebody holds is what it was.
        for outputs, keys, values in held:
            np.testing.assert_array_equal(np.from_dlpack(outputs["present_key"]), keys)
            np.testing.assert_array_equal(np.from_dlpack(outputs["present_value"]), values)
    return steps


def growing(count, heads, capacity, alone=True):
    """Say what each token must cost when caches grow by doubling; unless `alone`, no buffer serves twice."""
    row, room = 4 * heads * (DK + DV), 0
    for length in range(count):
        if alone and length < room:
            yield [0, 0, 0, row, 2]
        else:
            room = room if length < room else max(capacity, 2 * room)
            yield [2, room * row, length * row, row, 0]


def dense(count, heads):
    """Say what each token must cost when both caches are written anew."""
    row = 4 * heads * (DK + DV)
    for length in range(count):
        yield [2, (length + 1) * row, length * row, row, 0]


def main():
    """Decode under each setting and hold the counters to the documented figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=10, help="tokens to decode (10)")
    count = parser.parse_args().tokens

    # Any number of heads, every output still held: no prefix is copied but when the buffer is full.
    steps = decode("in place, capacity 4", 3, count, hold=True, persistent_tensor_initial_capacity=4)
    assert steps == list(growing(count, 3, 4)), steps

    # The longest length is known: one buffer for each cache, and no prefix is ever copied.
    steps = decode(f"in place, max_length {count}", 3, count, hold=True, max_length=count)
    assert steps == list(growing(count, 3, count)), steps

    # No capacity: each step writes both caches again.
    steps = decode("capacity 0", 3, count, hold=True, persistent_tensor_initial_capacity=0)
    assert steps == list(dense(count, 3)), steps

    # The stricter rule reuses a buffer only for one head, and only while nobody else holds the value.
    exclusive = {"append_reuse": "exclusive", "persistent_tensor_initial_capacity": 4}
    steps = decode("exclusive", 3, count, hold=False, **exclusive)
    assert steps == list(dense(count, 3)), steps
    steps = decode("exclusive", 1, count, hold=False, **exclusive)
    assert steps == list(growing(count, 1, 4)), steps
    steps = decode("exclusive", 1, count, hold=True, **exclusive)
    assert steps == list(growing(count, 1, 4, alone=False)), steps
    print("all figures are as documented")


if __name__ == "__main__":
    main()
