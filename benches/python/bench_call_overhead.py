"""What one call costs: an accumulating state beside `onnxruntime.InferenceSession.run` on the same model.

The model adds two floats to two floats, so nearly all of the time is the call. A round times refeed, then onnxruntime;
rounds alternate, so that a machine that changes its speed changes both. Nothing is asserted.
"""

import argparse
import time

import numpy as np
import onnxruntime
import refeed
from measure import bootstrap, report
from onnx import TensorProto, helper
from refeed import runtime


def accumulate():
    """Make `present = delta + past` on FLOAT[2]."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["delta", "past"], ["present"])],
        "accumulate",
        [value("delta", TensorProto.FLOAT, [2]), value("past", TensorProto.FLOAT, [2])],
        [value("present", TensorProto.FLOAT, [2])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40, help="alternated rounds (40)")
    parser.add_argument("--calls", type=int, default=1000, help="calls a round (1000)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()

    model, _ = refeed.bind(accumulate(), pairs=[("past", "present")])
    state = refeed.PersistentValueState(model, {"past": np.zeros(2, np.float32)})
    context = runtime.RuntimeContext()
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        accumulate().SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    delta = np.ones(2, np.float32)

    def ours(count):
        for _ in range(count):
            present = np.from_dlpack(state.run(context, {"delta": delta})["present"])
        return present

    def theirs(count):
        past = np.zeros(2, np.float32)
        for _ in range(count):
            past = session.run(None, {"delta": delta, "past": past})[0]
        return past

    assert ours(7)[0] == theirs(7)[0] == 7.0
    ours(options.calls)
    theirs(options.calls)
    our_us, their_us = [], []
    for _ in range(options.rounds):
        start = time.perf_counter()
        ours(options.calls)
        middle = time.perf_counter()
        theirs(options.calls)
        end = time.perf_counter()
        our_us.append((middle - start) / options.calls * 1e6)
        their_us.append((end - middle) / options.calls * 1e6)
    ratios = [a / b for a, b in zip(our_us, their_us, strict=True)]
    report(
        {
            "benchmark": "call_overhead",
            "rounds": options.rounds,
            "calls per round": options.calls,
            "refeed us per call": bootstrap(our_us),
            "onnxruntime us per call": bootstrap(their_us),
            "refeed / onnxruntime": bootstrap(ratios),
        },
        as_json=options.json,
    )


if __name__ == "__main__":
    main()
