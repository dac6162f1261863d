"""A decode step over a long cache in pages of FLOAT, INT8, INT4 and INT2, beside a dense cache and other runtimes.

The dense cache is that of refeed's own `Attention`, in one piece. onnxruntime's GroupQueryAttention updates FLOAT,
INT8 and INT4 caches in place; OpenVINO, where it is installed, appends to one of 8-bit codes. All get one new token
and a cache of the same length; a whole `state.run` is timed of refeed, a run with bound memory of the others. Rounds
alternate between all of them, so that what else the machine does hits each alike; what is printed is microseconds,
each beside refeed's FLOAT pages of 16, and the codes beside the fastest cache of codes of the others (more than 1:
refeed is faster). `--clock processor` counts the time of this process alone: for one thread on a machine that others
use too. Nothing about time is asserted.
"""

import argparse
import os
import sys
import time

import numpy as np
import onnx
import onnxruntime
import openvino_cache
from measure import bootstrap, report
from onnx import TensorProto, helper
from refeed import runtime
from refeed.onnx import PagedCacheProto

# Threads of whoever ran before look for work for a while before they sleep, and take a processor from the next one.
REST = 0.05
FORMATS = {
    "FLOAT": runtime.PageFormat(),
    "INT8": runtime.PageFormat(TensorProto.INT8, 1 / 127),
    "INT4": runtime.PageFormat(TensorProto.INT4, 1 / 7),
    "INT2": runtime.PageFormat(TensorProto.INT2, 1.0),
}


def paged(heads, kv_heads, size, past, page_format, block_size, query_precision, rng):
    """Return a step over `past` tokens in pages, whose first fill is exact."""
    kernel = runtime.PagedAttention(format_selector=lambda *_: page_format)
    options = {"block_size": block_size, "max_tokens": past + 1}

    def rows(count, length):
        return rng.uniform(-1, 1, (1, count, length, size)).astype(np.float32)

    first = [rows(count, past) for count in (heads, kv_heads, kv_heads)]
    first[0] = np.zeros_like(first[0])
    _, cache, _ = kernel(*first, PagedCacheProto(), left_window_size=0, **options)
    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context, format_selector=lambda *_: page_format, query_precision=query_precision)
    state = runtime.PersistentValueState(model(past + 1000), {"past": cache})
    feeds = {"Q": rows(heads, 1), "K": rows(kv_heads, 1), "V": rows(kv_heads, 1)}

    return lambda: state.run(context, feeds)


def dense(heads, kv_heads, size, past, rng):
    """Return a step over `past` tokens in one piece."""
    import refeed
    from refeed.onnx import helper as make

    def info(name, count, length):
        return make.make_tensor_value_info(name, TensorProto.FLOAT, [1, count, length, size])

    def rows(count, length):
        return rng.uniform(-1, 1, (1, count, length, size)).astype(np.float32)

    inputs = [info("q", heads, "new"), *(info(name, kv_heads, "new") for name in "kv")]
    inputs += [info(name, kv_heads, "past") for name in ("past.key", "past.value")]
    outputs = [info("y", heads, "new"), *(info(name, kv_heads, "total") for name in ("present.key", "present.value"))]
    names = ["q", "k", "v", "", "past.key", "past.value"]
    node = make.make_node("Attention", names, ["y", "present.key", "present.value"], is_causal=1)
    graph = make.make_graph([node], "g", inputs, outputs)
    made = make.make_model(graph, opset_imports=[make.make_opsetid("", 24)], ir_version=10)
    made, _ = refeed.bind(made, [("past.key", "present.key"), ("past.value", "present.value")])
    state = runtime.PersistentValueState(made, {name: rows(kv_heads, past) for name in ("past.key", "past.value")})
    context = runtime.RuntimeContext()
    feeds = {"q": rows(heads, 1), "k": rows(kv_heads, 1), "v": rows(kv_heads, 1)}
    return lambda: state.run(context, feeds)


def model(max_tokens, **attributes):
    """Y, present = PagedAttention(Q, K, V, past)."""
    from refeed import onnx as own
    from refeed.onnx import helper as make

    cache = own.TypeProto(struct_type=own.StructTypeProto())
    tensors = [make.make_tensor_value_info(name, TensorProto.FLOAT, ["b", f"h{name}", "l", "d"]) for name in "QKVY"]
    past, present = (make.make_value_info(name, cache) for name in ("past", "present"))
    node = make.make_node(
        "PagedAttention",
        ["Q", "K", "V", "past"],
        ["Y", "present"],
        domain="ai.rt",
        block_size=64,
        max_tokens=max_tokens,
        **attributes,
    )
    graph = make.make_graph([node], "g", [*tensors[:3], past], [tensors[3], present])
    opsets = [make.make_opsetid("", 18), make.make_opsetid("ai.rt", 1)]
    made = make.make_model(graph, opset_imports=opsets, ir_version=10)
    made.graph.persistent_bindings.add(input_name="past", output_name="present")
    return made


def group_query(heads, kv_heads, size, past, bits, threads, rng):
    """Return a step of onnxruntime over a cache with room for one more token."""
    kind, dtype = {
        32: (TensorProto.FLOAT, np.float32),
        8: (TensorProto.INT8, np.int8),
        4: (TensorProto.UINT8, np.uint8),
    }[bits]
    width, room = size // 2 if bits == 4 else size, past + 1
    sizes = {"q": heads, "k": kv_heads, "v": kv_heads}
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, count * size]) for name, count in sizes.items()
    ]
    inputs += [helper.make_tensor_value_info(name, kind, [1, kv_heads, room, width]) for name in ("pk", "pv")]
    inputs += [helper.make_tensor_value_info(name, TensorProto.INT32, [1]) for name in ("s", "t")]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, heads * size])]
    outputs += [helper.make_tensor_value_info(name, kind, [1, kv_heads, room, width]) for name in ("ok", "ov")]
    names, attributes, initializers = ["q", "k", "v", "pk", "pv", "s", "t"], {}, []
    if bits < 32:
        names += ["", "", "", "", "", "ks", "vs"]
        attributes = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": bits}
        scale = 1 / 127 if bits == 8 else 1 / 7
        initializers = [helper.make_tensor(name, TensorProto.FLOAT, [1], [scale]) for name in ("ks", "vs")]
    node = helper.make_node(
        "GroupQueryAttention",
        names,
        ["y", "ok", "ov"],
        domain="com.microsoft",
        num_heads=heads,
        kv_num_heads=kv_heads,
        **attributes,
    )
    graph = helper.make_graph([node], "g", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(made, check_custom_domain=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, count in sizes.items():
        binding.bind_cpu_input(name, rng.uniform(-1, 1, (1, 1, count * size)).astype(np.float32))
    for name, out in (("pk", "ok"), ("pv", "ov")):
        cache = rng.integers(0, 100, (1, kv_heads, room, width)).astype(dtype)
        held = onnxruntime.OrtValue.ortvalue_from_numpy(cache)
        binding.bind_ortvalue_input(name, held)
        binding.bind_ortvalue_output(out, held)
    binding.bind_cpu_input("s", np.array([past], np.int32))
    binding.bind_cpu_input("t", np.array([past + 1], np.int32))
    binding.bind_output("y")

    return lambda: session.run_with_iobinding(binding)


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--past", type=int, nargs="+", default=[4096])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="processors that all may use")
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall")
    parser.add_argument(
        "--query-precision", choices=("full", "int8"), default="full", help="of refeed's steps over pages of codes"
    )
    parser.add_argument("--refeed-only", action="store_true", help="leave the other runtimes out")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    # Before the first computation: a pool is sized once.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])
    clock = time.process_time if arguments.clock == "processor" else time.perf_counter
    rng = np.random.default_rng(0)
    results = {"query precision": arguments.query_precision}
    with_openvino = not arguments.refeed_only and openvino_cache.installed()
    if with_openvino:
        results["openvino"] = openvino_cache.version()
    elif not arguments.refeed_only:
        print("OpenVINO is not installed: its cache is left out", file=sys.stderr)
    for shape in ((32, 8, 128), (14, 2, 64)):
        for past in arguments.past:
            how = (arguments.query_precision, rng)
            steps = {f"{name} in pages of 16": paged(*shape, past, kept, 16, *how) for name, kept in FORMATS.items()}
            steps["FLOAT in pages of 64"] = paged(*shape, past, FORMATS["FLOAT"], 64, *how)
            steps["FLOAT in one piece"] = dense(*shape, past, rng)
            for name in ("FLOAT", "INT8", "INT4"):
                steps[f"{name} in pages of 1"] = paged(*shape, past, FORMATS[name], 1, *how)
            if not arguments.refeed_only:
                for bits, name in ((32, "FLOAT"), (8, "INT8"), (4, "INT4")):
                    steps[f"onnxruntime {name}"] = group_query(*shape, past, bits, arguments.threads, rng)
            if with_openvino:
                steps["OpenVINO u8"] = openvino_cache.step(*shape, past, arguments.threads, rng)
            times = {name: [] for name in steps}
            for round_number in range(arguments.rounds + 2):
                for name, step in steps.items():
                    if arguments.threads > 1:
                        time.sleep(REST)
                        step()  # wakes its threads
                    start = clock()
                    step()
                    if round_number >= 2:
                        times[name].append(1e6 * (clock() - start))
            results |= rows_of(f"{shape} past {past}", {name: np.asarray(samples) for name, samples in times.items()})
    report(results, as_json=arguments.json)


def rows_of(case, times):
    """Return the times of one case and what they are compared with."""
    results = {f"{case}: {name}, us": bootstrap(samples) for name, samples in times.items()}
    for name, samples in times.items():
        if not name.startswith(("onnxruntime", "OpenVINO")):
            results[f"{case}: {name} / FLOAT in pages of 16"] = bootstrap(samples / times["FLOAT in pages of 16"])
    for block in (16, 64):
        name = f"FLOAT in pages of {block}"
        results[f"{case}: {name} / FLOAT in one piece"] = bootstrap(times[name] / times["FLOAT in one piece"])
    results[f"{case}: INT4 / INT8"] = bootstrap(times["INT4 in pages of 16"] / times["INT8 in pages of 16"])
    others = [name for name in ("onnxruntime INT8", "onnxruntime INT4", "OpenVINO u8") if name in times]
    if others:
        best = min(others, key=lambda name: np.median(times[name]))
        for name in ("INT8", "INT4"):
            factor = times[best] / times[f"{name} in pages of 16"]
            results[f"{case}: {best} / refeed {name}"] = bootstrap(factor)
    return results


if __name__ == "__main__":
    main()
