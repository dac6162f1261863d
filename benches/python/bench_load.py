"""What loading costs: `refeed.load` and `onnxruntime.InferenceSession` on a model with external data.

The model is written to a temporary folder: a chain of square MatMul weights in one external file. Each measurement is
made by a fresh process; the two runtimes alternate. Time and growth of resident memory are those of the load alone,
imports excluded. refeed maps the weights and reads them when they are used, so the third figure adds what is missing:
a session and one run, which touches every weight. Nothing is asserted.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

WIDTH = 1024
MEBIBYTE = 2**20

PROBE = """
import json, sys, time
import numpy as np
kind, path, width = sys.argv[1], sys.argv[2], int(sys.argv[3])

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

feeds = {"x": np.ones((1, width), np.float32)}
if kind == "refeed":
    import refeed
    before, start = resident(), time.perf_counter()
    model = refeed.load(path)
    loaded, after = time.perf_counter(), resident()
    model.run(feeds)
else:
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    before, start = resident(), time.perf_counter()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    loaded, after = time.perf_counter(), resident()
    session.run(None, feeds)
ran = time.perf_counter()
print(json.dumps({"ms": (loaded - start) * 1e3, "mib": (after - before) / 2**20, "first": (ran - start) * 1e3}))
"""


def write_model(folder, mebibytes):
    """Write a chain of MatMuls whose weights take `mebibytes`; return the path of the model."""
    import numpy as np
    from onnx import TensorProto, helper

    each = WIDTH * WIDTH * 4
    count = max(1, mebibytes * MEBIBYTE // each)
    weights, nodes = [], []
    block = (np.random.default_rng(0).standard_normal((WIDTH, WIDTH), np.float32) / np.sqrt(WIDTH)).tobytes()
    with open(folder / "weights.bin", "wb") as file:
        for index in range(count):
            file.write(block)
            weight = TensorProto(name=f"w{index}", data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH])
            weight.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "weights.bin"), ("offset", index * each), ("length", each)):
                weight.external_data.add(key=key, value=str(value))
            weights.append(weight)
            before = "x" if index == 0 else f"x{index - 1}"
            after = "y" if index == count - 1 else f"x{index}"
            nodes.append(helper.make_node("MatMul", [before, f"w{index}"], [after]))
    info = helper.make_tensor_value_info
    shape = [1, WIDTH]
    graph = helper.make_graph(
        nodes, "chain", [info("x", TensorProto.FLOAT, shape)], [info("y", TensorProto.FLOAT, shape)], weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path, count * each // MEBIBYTE


def probe(kind, path):
    """Load in a fresh process."""
    command = [sys.executable, "-c", PROBE, kind, str(path), str(WIDTH)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603


def main():
    """Measure and print."""
    from measure import bootstrap, report

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mebibytes", type=int, default=500, help="size of the weights (500)")
    parser.add_argument("--rounds", type=int, default=15, help="alternated rounds (15)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, size = write_model(pathlib.Path(folder), options.mebibytes)
        for kind in ("refeed", "onnxruntime"):
            probe(kind, path)  # both find the file in the page cache afterwards
        rounds = [(probe("refeed", path), probe("onnxruntime", path)) for _ in range(options.rounds)]
    results = {"benchmark": "load", "MiB of weights": size, "rounds": options.rounds}
    for position, kind in enumerate(("refeed", "onnxruntime")):
        for key, label in (
            ("ms", "load, ms"),
            ("mib", "load, MiB more resident"),
            ("first", "load and first run, ms"),
        ):
            results[f"{kind}: {label}"] = bootstrap([pair[position][key] for pair in rounds])
    results["load time, refeed / onnxruntime"] = bootstrap([ours["ms"] / theirs["ms"] for ours, theirs in rounds])
    report(results, as_json=options.json)


if __name__ == "__main__":
    main()
