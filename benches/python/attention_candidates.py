"""The candidates of `bench_attention.py`: one decode step, or one causal prefill, of refeed and of each peer."""

PREFILL = (32, 8, 128)
KEPT = (32, 8, 128)
NARROW = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def attention_model(heads, kv_heads, size, kind, *, past):
    """Make one `Attention` node of opset 24; with `past`, caches that grow by the new rows."""
    from onnx import TensorProto, helper

    element = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}[kind]

    def value(name, count, rows):
        return helper.make_tensor_value_info(name, element, [1, count, rows, size])

    inputs = [value("query", heads, "new"), value("key", kv_heads, "new"), value("value", kv_heads, "new")]
    outputs, names = [value("out", heads, "new")], ["query", "key", "value"]
    if past:
        inputs += [value(name, kv_heads, "past") for name in ("past_key", "past_value")]
        outputs += [value(name, kv_heads, "present") for name in ("present_key", "present_value")]
        names += ["", "past_key", "past_value"]
    node = helper.make_node("Attention", names, [output.name for output in outputs], is_causal=1)
    graph = helper.make_graph([node], "attention", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)


def shared_buffer_model(heads, kv_heads, size, kind):
    """Make one `GroupQueryAttention` node."""
    from onnx import TensorProto, helper

    element = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16}[kind]
    value, whole = helper.make_tensor_value_info, TensorProto.INT32
    cache = [1, kv_heads, "room", size]
    names = ["query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length"]
    inputs = [
        value("query", element, [1, "new", heads * size]),
        value("key", element, [1, "new", kv_heads * size]),
        value("value", element, [1, "new", kv_heads * size]),
        value("past_key", element, cache),
        value("past_value", element, cache),
        value("seqlens_k", whole, [1]),
        value("total_sequence_length", whole, [1]),
    ]
    outputs = [value("out", element, [1, "new", heads * size])]
    outputs += [value(name, element, cache) for name in ("present_key", "present_value")]
    node = helper.make_node(
        "GroupQueryAttention",
        names,
        [output.name for output in outputs],
        domain="com.microsoft",
        num_heads=heads,
        kv_num_heads=kv_heads,
    )
    graph = helper.make_graph([node], "attention", inputs, outputs)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


class Case:
    """Inputs of one row of the table."""

    def __init__(self, heads, kv_heads, size, past, kind, steps):
        import ml_dtypes
        import numpy as np

        self.np = np
        self.heads, self.kv_heads, self.size, self.past, self.kind = heads, kv_heads, size, past, kind
        self.dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bf16" else NARROW[kind])
        self.room = past + steps
        random = np.random.default_rng(7)

        def numbers(*shape):
            return random.standard_normal(shape, np.float32).astype(self.dtype)

        self.query = numbers(1, heads, 1, size)
        self.key, self.value = numbers(1, kv_heads, 1, size), numbers(1, kv_heads, 1, size)
        self.keys, self.values = numbers(1, kv_heads, past, size), numbers(1, kv_heads, past, size)

    def expected(self):
        """Return the formula's result of the first step, in double precision."""
        np = self.np
        groups = self.heads // self.kv_heads
        keys = np.concatenate([self.keys, self.key], 2)[0].astype(np.float64)
        values = np.concatenate([self.values, self.value], 2)[0].astype(np.float64)
        query = self.query.astype(np.float64).reshape(self.kv_heads, groups, self.size)
        scores = query @ keys.swapaxes(1, 2) / np.sqrt(self.size)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        result = weights / weights.sum(-1, keepdims=True) @ values
        return result.reshape(1, self.heads, 1, self.size)

    def room_for(self, rows):
        """Return a copy of some cached rows with room for the steps to come."""
        whole = self.np.zeros((1, self.kv_heads, self.room, self.size), self.dtype)
        whole[:, :, : self.past] = rows
        return whole


def refeed_steps(case, kept=None):
    """Return a step of a state with two bound caches; all outputs go to the list `kept`, if there is one."""
    import refeed
    from refeed import runtime

    model = attention_model(case.heads, case.kv_heads, case.size, case.kind, past=True)
    model, _ = refeed.bind(model, pairs=[("past_key", "present_key"), ("past_value", "present_value")])
    state = refeed.PersistentValueState(
        model, {"past_key": case.keys, "past_value": case.values}, max_length=case.room + 1
    )
    context = runtime.RuntimeContext()
    feeds = {"query": case.query, "key": case.key, "value": case.value}
    if kept is None:
        return lambda: state.run(context, feeds)["out"].numpy()

    def step():
        outputs = state.run(context, feeds)
        kept.append(outputs)
        return outputs["out"].numpy()

    return step


def kept_candidates(case):
    """Return a step of a state whose outputs all stay alive, and one of a state whose outputs are dropped."""
    return {"refeed": refeed_steps(case, kept=[]), "outputs dropped": refeed_steps(case)}


def onnxruntime_session(model, threads):
    """Make a session with its threads fixed."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])


def onnxruntime_attention(case, threads):
    """Return a step of the standard operator; its outputs are handed back."""
    model = attention_model(case.heads, case.kv_heads, case.size, case.kind, past=True)
    session = onnxruntime_session(model, threads)
    cache = {"past_key": case.keys, "past_value": case.values}
    new = {"query": case.query, "key": case.key, "value": case.value}

    def step():
        out, cache["past_key"], cache["past_value"] = session.run(None, {**new, **cache})
        return out

    return step


def onnxruntime_shared(case, threads):
    """Return a step of the operator of onnxruntime's own domain over one buffer."""
    import onnxruntime

    session = onnxruntime_session(shared_buffer_model(case.heads, case.kv_heads, case.size, case.kind), threads)
    binding = session.io_binding()
    for name, rows in (("key", case.keys), ("value", case.values)):
        buffer = onnxruntime.OrtValue.ortvalue_from_numpy(case.room_for(rows))
        binding.bind_ortvalue_input(f"past_{name}", buffer)
        binding.bind_ortvalue_output(f"present_{name}", buffer)
    for name in ("query", "key", "value"):
        binding.bind_cpu_input(name, getattr(case, name).reshape(1, 1, -1))
    binding.bind_output("out")
    place = 2  # outputs come in the order in which they were bound
    length = case.past

    def step():
        nonlocal length
        length += 1
        binding.bind_cpu_input("seqlens_k", case.np.array([length - 1], case.np.int32))
        binding.bind_cpu_input("total_sequence_length", case.np.array([length], case.np.int32))
        session.run_with_iobinding(binding)
        return binding.get_outputs()[place].numpy().reshape(1, case.heads, 1, case.size)

    return step


def torch_steps(case, *, folded):
    """Return a step over slices of one buffer."""
    import torch

    kind = getattr(torch, NARROW[case.kind])

    def tensor(array):
        return torch.from_numpy(array.astype(case.np.float32)).to(kind)

    keys, values = tensor(case.room_for(case.keys)), tensor(case.room_for(case.values))
    query, key, value = tensor(case.query), tensor(case.key), tensor(case.value)
    attention, length = torch.nn.functional.scaled_dot_product_attention, case.past
    rows = query.reshape(1, case.kv_heads, case.heads // case.kv_heads, case.size) if folded else query

    def step():
        nonlocal length
        keys[:, :, length : length + 1] = key
        values[:, :, length : length + 1] = value
        length += 1
        with torch.inference_mode():
            out = attention(rows, keys[:, :, :length], values[:, :, :length], enable_gqa=not folded)
        return out.reshape(1, case.heads, 1, case.size)

    return step


def numpy_steps(case):
    """Return a step with the heads of a group folded into the queries of a batched product."""
    np = case.np
    keys, values, length = case.room_for(case.keys)[0], case.room_for(case.values)[0], case.past
    query = case.query.reshape(case.kv_heads, -1, case.size) / np.sqrt(np.float32(case.size))

    def step():
        nonlocal length
        keys[:, length : length + 1] = case.key[0]
        values[:, length : length + 1] = case.value[0]
        length += 1
        scores = query @ keys[:, :length].swapaxes(1, 2)
        scores -= scores.max(-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(-1, keepdims=True)
        return (scores @ values[:, :length]).reshape(1, case.heads, 1, case.size)

    return step


def decode_candidates(case, threads):
    """Return a step of every candidate that can run the case."""
    made = {"refeed": refeed_steps(case)}
    if case.kind != "bf16":
        made["onnxruntime Attention"] = onnxruntime_attention(case, threads)
        made["onnxruntime GQA shared"] = onnxruntime_shared(case, threads)
    if case.kind == "f32":
        made["numpy folded"] = numpy_steps(case)
    if has_torch():
        made["torch"] = torch_steps(case, folded=False)
        if case.heads != case.kv_heads:
            made["torch folded"] = torch_steps(case, folded=True)
    return made


def prefill_candidates(length, threads):
    """Return a causal prefill of every candidate."""
    import numpy as np
    import refeed
    from refeed import runtime

    heads, kv_heads, size = PREFILL
    random = np.random.default_rng(8)
    query = random.standard_normal((1, heads, length, size), np.float32)
    key, value = (random.standard_normal((1, kv_heads, length, size), np.float32) for _ in range(2))
    feeds = {"query": query, "key": key, "value": value}
    empty = {name: np.zeros((1, kv_heads, 0, size), np.float32) for name in ("past_key", "past_value")}
    grown = attention_model(heads, kv_heads, size, "f32", past=True)
    model, _ = refeed.bind(grown, pairs=[("past_key", "present_key"), ("past_value", "present_value")])
    state = refeed.PersistentValueState(model, empty, max_length=length)
    context = runtime.RuntimeContext()
    session = onnxruntime_session(attention_model(heads, kv_heads, size, "f32", past=False), threads)

    def ours():
        state.reset(empty)
        return state.run(context, feeds)["out"].numpy()

    made = {"refeed": ours, "onnxruntime Attention": lambda: session.run(None, feeds)[0]}
    if has_torch():
        import torch

        rows = [torch.from_numpy(array) for array in (query, key, value)]

        def theirs():
            with torch.inference_mode():
                return torch.nn.functional.scaled_dot_product_attention(*rows, is_causal=True, enable_gqa=True)

        made["torch"] = theirs
    results = [np.asarray(run()) for run in made.values()]
    for name, result in zip(made, results, strict=True):
        assert np.allclose(result, results[0], atol=1e-4), f"{name}: another result than refeed's"
    return made


def has_torch():
    """Tell whether torch can be imported."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True
