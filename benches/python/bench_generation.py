"""What a token costs outside of the model's kernels: a generator's call, its stream, and the kernels' own time.

The model computes next to nothing, so that the loop shows.
"""

import argparse
import json
import statistics
import time

import refeed
from refeed import runtime
from refeed.onnx import parser

MODEL = """<ir_version: 10, opset_import: ["" : 18]>
recurrent (int64[batch, n] input_ids, int64[batch, 1] past) => (float[batch, n, 64] logits, int64[batch, 1] present)
<int64[1] depth = {64}, float[2] values = {0, 1}>
{
    sum = Add(past, input_ids)
    present = Mod(sum, depth)
    logits = OneHot(present, depth, values)
}"""


def generator(**keywords):
    """Return a generator with a prompt of one token that is evaluated."""
    model, _ = refeed.bind(parser.parse_model(MODEL), pairs=[("past", "present")])
    made = refeed.Generator(model, **keywords)
    made.append([1])
    made.prefill()
    return made


def called(tokens):
    """Return the seconds of a token in one call."""
    made = generator()
    start = time.perf_counter()
    made.generate(max_new_tokens=tokens)
    return (time.perf_counter() - start) / tokens


def streamed(tokens):
    """Return the seconds of a token in a stream."""
    made = generator()
    start = time.perf_counter()
    for _ in made.stream(max_new_tokens=tokens):
        pass
    return (time.perf_counter() - start) / tokens


def kernels(tokens):
    """Return the seconds that the nodes of one token take, by the events' clock."""
    context = runtime.RuntimeContext(events_enabled=True)
    made = generator(context=context)
    context.clear_events()
    made.generate(max_new_tokens=tokens)
    return sum(row["total_ns"] for row in context.node_table()) / tokens / 1e9


def main():
    """Measure in turns and print a table, or JSON."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tokens", type=int, default=20_000)
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--json", action="store_true")
    options = arguments.parse_args()
    ways = {"generate": called, "stream": streamed}
    times = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, way in ways.items():
            times[name].append(way(options.tokens))
    nodes = kernels(min(options.tokens, 2000))
    medians = {name: statistics.median(values) for name, values in times.items()}
    if options.json:
        print(json.dumps({"seconds_per_token": medians, "kernel_seconds_per_token": nodes}))
        return
    print(f"{options.rounds} rounds of {options.tokens} tokens, medians; load {load_average()}")
    for name, seconds in medians.items():
        print(f"{name:9} {seconds * 1e6:7.2f} us a token, {(seconds - nodes) * 1e6:7.2f} us outside of kernels")
    print(f"{'kernels':9} {nodes * 1e6:7.2f} us a token")


def load_average():
    """Return the load average, as text."""
    with open("/proc/loadavg", encoding="ascii") as file:
        return " ".join(file.read().split()[:3])


if __name__ == "__main__":
    main()
