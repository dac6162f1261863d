"""`com.microsoft.MatMulNBits` beside onnxruntime's, which at accuracy level 4 rounds the inputs to 8 bits.

Several products, each with weights of its own, stand in one model, so that together they do not fit the caches: what a
decode step does. Rounds alternate; what is printed is microseconds of a run, and refeed's as a multiple of those of
onnxruntime. Nothing about time is asserted.
"""

import argparse
import time

import numpy as np
import onnxruntime
from measure import bootstrap, report
from onnx import TensorProto, helper, numpy_helper
from refeed import runtime


def model(rows, k, n, bits, block, count, level):
    """Return `count` products of one input, summed."""
    rng = np.random.default_rng(0)
    blocks = -(-k // block)
    nodes, held, names = [], [], []
    for i in range(count):
        codes = rng.integers(0, 256, (n, blocks, block * bits // 8), dtype=np.uint8)
        scales = rng.uniform(0.01, 0.02, (n, blocks)).astype(np.float32)
        held += [numpy_helper.from_array(codes, f"B{i}"), numpy_helper.from_array(scales, f"scales{i}")]
        names.append(f"Y{i}")
        nodes.append(
            helper.make_node(
                "MatMulNBits",
                ["A", f"B{i}", f"scales{i}"],
                [names[-1]],
                domain="com.microsoft",
                K=k,
                N=n,
                bits=bits,
                block_size=block,
                accuracy_level=level,
            )
        )
    nodes.append(helper.make_node("Sum", names, ["Y"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("A", TensorProto.FLOAT, [rows, k])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [rows, n])],
        held,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def timed(call, *arguments):
    """Return the microseconds of a call."""
    start = time.perf_counter_ns()
    call(*arguments)
    return (time.perf_counter_ns() - start) / 1000


def main():
    """Print medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--depth", type=int, default=2048)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--bits", type=int, default=4, choices=[2, 4, 8])
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--products", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--levels", type=int, nargs="+", default=[0, 4])
    parser.add_argument("--threads", type=int, default=0, help="of onnxruntime; 0: as many as it likes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.log_severity_level = 3
    sizes = (options.rows, options.depth, options.columns, options.bits, options.block, options.products)
    feeds = {"A": np.random.default_rng(1).standard_normal((options.rows, options.depth), dtype=np.float32)}
    ours = runtime.RuntimeSession(model(*sizes, 0))
    calls = {"refeed": (ours.run, (feeds,))}
    for level in options.levels:
        session = onnxruntime.InferenceSession(model(*sizes, level), settings, providers=["CPUExecutionProvider"])
        calls[f"onnxruntime, level {level}"] = (session.run, (None, feeds))
    samples = {name: [] for name in calls}
    for round_ in range(options.rounds + 2):
        for name, (call, arguments) in calls.items():
            taken = timed(call, *arguments)
            if round_ >= 2:
                samples[name].append(taken)
    own = np.asarray(samples["refeed"])
    results = {name: bootstrap(taken) for name, taken in samples.items()}
    for name, taken in samples.items():
        if name != "refeed":
            results[f"refeed / {name}"] = bootstrap(own / np.asarray(taken))
    read = options.depth * options.columns * options.bits / 8 * options.products
    results["bytes of codes a run"] = int(read)
    results["refeed, GB of codes a second"] = bootstrap(read / own / 1000)
    report(results, as_json=options.json)


if __name__ == "__main__":
    main()
