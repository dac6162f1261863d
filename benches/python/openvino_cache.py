"""A decode step of OpenVINO over a cache of its own in 8-bit codes, for the benchmarks beside this file.

The cache is two variables that a step reads, appends one token to and assigns. OpenVINO's processor plugin makes one
node of that and of the attention behind it, and appends in place. The model is built as that node is recognised, and
one that was not taken so is refused. The cache is set once, before the first step; setting it gives the same codes as
prefilling does. Importing this module does not need `openvino`.
"""

import importlib.util

import numpy as np

#: Keys and values are kept as UINT8, one scale and zero point a token and head.
PRECISION = "u8"


def installed():
    """Return whether OpenVINO can be imported."""
    return importlib.util.find_spec("openvino") is not None


def version():
    """Return the version of OpenVINO."""
    import openvino

    return openvino.__version__.partition("-")[0]


def step(heads, kv_heads, size, past, threads, rng):
    """Return a step over `past` tokens in codes, which adds one token; its first result is held to float64."""
    import openvino

    compiled = openvino.Core().compile_model(
        model(heads, kv_heads, size),
        "CPU",
        {
            "KV_CACHE_PRECISION": PRECISION,
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
        },
    )
    hold_to_one_node(compiled)

    def rows(count, length):
        return rng.uniform(-1, 1, (1, count, length, size)).astype(np.float32)

    cache = {"k": rows(kv_heads, past), "v": rows(kv_heads, past)}
    feeds = {"q": rows(heads, 1), "k": rows(kv_heads, 1), "v": rows(kv_heads, 1)}
    request = compiled.create_infer_request()
    for variable in request.query_state():
        variable.state = openvino.Tensor(cache[variable.name])
    for name, array in {**feeds, "beam": np.zeros(1, np.int32)}.items():
        request.set_tensor(name, openvino.Tensor(array))
    request.infer()
    got = request.get_output_tensor().data
    expected = attention(feeds["q"], *(np.concatenate([cache[name], feeds[name]], axis=2) for name in "kv"))
    # Codes of 8 bits err by half a percent of the largest number here; half of the cache missing is far more.
    np.testing.assert_allclose(got, expected, rtol=0, atol=0.05 * np.abs(expected).max())

    return request.infer


def model(heads, kv_heads, size):
    """Return y = attention of q to all keys and values so far, which two variables keep."""
    import openvino
    from openvino import opset13 as op
    from openvino.op.util import Variable, VariableInfo

    def rows(name, count):
        return op.parameter([1, count, -1, size], np.float32, name=name)

    inputs = [rows("q", heads), rows("k", kv_heads), rows("v", kv_heads)]
    beam = op.parameter([-1], np.int32, name="beam")
    assigned, seen = [], []
    for new in inputs[1:]:
        info = VariableInfo()
        info.variable_id = new.get_friendly_name()
        info.data_type = openvino.Type.f32
        info.data_shape = openvino.PartialShape([1, kv_heads, -1, size])
        variable = Variable(info)
        empty = op.constant(np.zeros((1, kv_heads, 0, size), np.float32))
        # Without the choice of beams the plugin does not recognise a cache.
        before = op.gather(op.read_value(empty, variable), beam, op.constant(0, np.int64))
        cache = op.concat([before, new], 2)
        assigned.append(op.assign(cache, variable))
        # Query heads that share keys: no copy is made of them, the node knows this form.
        shared = op.unsqueeze(cache, op.constant(2, np.int64))
        group = op.constant([1, 1, heads // kv_heads, 1, 1], np.int64)
        repeated = op.broadcast(shared, group, broadcast_spec="BIDIRECTIONAL")
        seen.append(op.reshape(repeated, op.constant([0, heads, -1, size], np.int64), True))
    y = op.scaled_dot_product_attention(inputs[0], *seen, causal=False)
    return openvino.Model([op.result(y)], assigned, [*inputs, beam], "cache")


def hold_to_one_node(compiled):
    """Raise unless cache and attention became one node."""
    nodes = [node.get_rt_info()["layerType"].astype(str) for node in compiled.get_runtime_model().get_ops()]
    work = sorted(set(nodes) - {"Input", "Output", "Const", "MemoryInput", "MemoryOutput"})
    if work != ["ScaledDotProductAttention"]:
        raise RuntimeError(f"expected OpenVINO to append and attend in one node, got the nodes {work}")


def attention(query, key, value):
    """Return what the definition gives, in float64."""
    group = query.shape[1] // key.shape[1]
    key, value = (np.repeat(each.astype(np.float64), group, axis=1) for each in (key, value))
    scores = query.astype(np.float64) @ key.swapaxes(2, 3) / np.sqrt(query.shape[3])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ value
