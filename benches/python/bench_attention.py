"""Attention over a cache beside onnxruntime, torch (where installed) and NumPy: decode steps and causal prefill.

A decode step appends one row of keys and values to the cache and attends over all of it. refeed runs one ONNX
`Attention` node whose caches a state keeps; the others are given their best form: onnxruntime's `Attention` with its
outputs fed back, its `GroupQueryAttention` over one buffer that is past and present, torch's
`scaled_dot_product_attention` over slices of one buffer (`enable_gqa`, and the heads of a group folded into the
queries), NumPy with the heads folded. Every candidate must give the numbers of the formula in double precision. Rounds
alternate, in turning order; nothing about time is asserted. Rows "outputs kept" compare refeed with itself: steps whose
outputs, caches included, all stay alive, with steps whose outputs are dropped.

Each number of threads is measured in a process of its own that is bound to as many processors, because a pool is sized
once. GB/s are bytes of keys and values read; the rate of the memory is measured in the same process.
"""

import argparse
import concurrent.futures
import importlib.util
import json
import os
import subprocess
import sys
import time

from attention_candidates import (
    KEPT,
    NARROW,
    PREFILL,
    Case,
    decode_candidates,
    has_torch,
    kept_candidates,
    prefill_candidates,
)

DECODE = ((1, 1, 64), (8, 1, 64), (14, 2, 64), (32, 8, 128), (32, 32, 128))


# Threads of whoever ran before look for work for a while before they sleep, and take a processor from the next one.
REST = 0.05


def alternate(candidates, rounds, repeats, clock, threads):
    """Return the seconds of one call of each candidate, one entry a round."""
    names = list(candidates)
    samples = {name: [] for name in names}
    for number in range(rounds + 1):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            run = candidates[name]
            if threads > 1:
                time.sleep(REST)
            run()  # wakes its threads
            start = clock()
            for _ in range(repeats):
                run()
            if number:  # the first round warms up
                samples[name].append((clock() - start) / repeats)
    return samples


def row(samples, amount):
    """Sum up one row: seconds, the rate, and the ratio to the fastest other."""
    import numpy as np
    from measure import bootstrap

    medians = {name: float(np.median(times)) for name, times in samples.items()}
    best = min((name for name in medians if name != "refeed"), key=medians.get)
    ratios = [a / b for a, b in zip(samples["refeed"], samples[best], strict=True)]
    return {
        "seconds": medians,
        "per second": {name: amount / seconds for name, seconds in medians.items()},
        "best other": best,
        "ratio": bootstrap(ratios),
        "load average": os.getloadavg()[0],
    }


def read_rate(threads):
    """Return the bytes a second that threads read together from one GiB."""
    import numpy as np

    data = np.ones(1 << 28, np.float32)
    parts = np.array_split(data, threads)
    best = float("inf")
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            start = time.perf_counter()
            list(pool.map(np.max, parts))
            best = min(best, time.perf_counter() - start)
    return data.nbytes / best


def measure_here(options):
    """Measure everything in this process; print a line of JSON a row."""
    import numpy as np

    threads = options.here
    clock = time.process_time if options.clock == "processor" else time.perf_counter
    if has_torch():
        import torch

        torch.set_num_threads(threads)
    print(json.dumps({"threads": threads, "read rate": read_rate(threads)}), flush=True)
    for heads, kv_heads, size in DECODE:
        for past in options.past:
            for kind in options.kinds if size == 128 else options.kinds[:1]:
                steps = (options.rounds + 1) * (options.repeats + 1) + 1
                case = Case(heads, kv_heads, size, past, kind, steps)
                candidates = decode_candidates(case, threads)
                want, slack = case.expected(), {"f32": 1e-4, "f16": 5e-3, "bf16": 4e-2}[kind]
                for name, run in candidates.items():
                    got = run()
                    got = got.float().numpy() if hasattr(got, "float") else got.astype(np.float64)
                    assert np.allclose(got, want, atol=slack), f"{name}: {np.abs(got - want).max()} from the formula"
                amount = 2 * kv_heads * (past + steps / 2) * size * case.dtype.itemsize
                samples = alternate(candidates, options.rounds, options.repeats, clock, threads)
                name = f"decode ({heads},{kv_heads},{size}) past {past} {kind}"
                print(json.dumps({"threads": threads, "row": name, **row(samples, amount)}), flush=True)
    for past in options.kept:
        case = Case(*KEPT, past, "f32", 2 * (options.rounds + 1) * (options.repeats + 1))
        candidates = kept_candidates(case)
        amount = 2 * KEPT[1] * past * KEPT[2] * case.dtype.itemsize
        samples = alternate(candidates, options.rounds, options.repeats, clock, threads)
        name = f"outputs kept {KEPT} past {past} f32"
        print(json.dumps({"threads": threads, "row": name, **row(samples, amount)}), flush=True)
    for length in options.prefill:
        candidates = prefill_candidates(length, threads)
        samples = alternate(candidates, options.rounds, 1, clock, threads)
        flops = 2 * PREFILL[0] * length * (length + 1) * PREFILL[2]
        name = f"prefill {PREFILL} length {length} f32"
        print(json.dumps({"threads": threads, "row": name, **row(samples, flops)}), flush=True)


def gains(rows):
    """Yield, for each row measured with one thread and with more, how many times faster refeed is with more."""
    alone = {entry["row"]: entry["seconds"]["refeed"] for entry in rows if entry["threads"] == 1}
    for entry in rows:
        if entry["threads"] > 1 and entry["row"] in alone:
            yield entry["row"], entry["threads"], alone[entry["row"]] / entry["seconds"]["refeed"]


def picture(rows, path):
    """Draw how long the best other takes for every row, refeed's time being one."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = [f"{entry['row']}, {entry['threads']} thread{'s' * (entry['threads'] > 1)}" for entry in rows]
    factors = [1 / entry["ratio"]["median"] for entry in rows]
    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.24 * len(rows)), layout="constrained")
    bars = axes.barh(names[::-1], factors[::-1], color="#3b6ea5")
    labels = [f"{x:.2f} ({entry['best other']})" for x, entry in zip(factors, rows, strict=True)]
    axes.bar_label(bars, labels[::-1], padding=3, fontsize=7)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlim(0, max(factors) * 1.35)
    axes.tick_params(axis="y", labelsize=7)
    axes.set_xlabel("time of the fastest other over refeed's (more than 1: refeed is faster)")
    figure.savefig(path, dpi=110)


def count(least):
    """Return a reader of whole numbers from `least` on."""

    def read(text):
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is None or not least <= number < 2**31:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least} to {2**31 - 1}, got `{text}`")
        return number

    return read


def main():
    """Measure each number of threads in a process of its own, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--past", type=count(0), nargs="*", default=[128, 1024, 4096, 16384, 32768], help="cached rows")
    parser.add_argument(
        "--kept", type=count(0), nargs="*", default=[8192], help="cached rows of steps whose outputs all stay alive"
    )
    parser.add_argument("--prefill", type=count(1), nargs="*", default=[512, 2048], help="lengths")
    parser.add_argument("--kinds", nargs="+", choices=NARROW, default=list(NARROW), help="element types at size 128")
    parser.add_argument("--threads", type=count(1), nargs="+", default=[1, 2], help="numbers of threads (1 2)")
    parser.add_argument("--rounds", type=count(1), default=15, help="alternated rounds (15)")
    parser.add_argument("--repeats", type=count(1), default=4, help="steps a round (4)")
    parser.add_argument(
        "--clock",
        choices=("wall", "processor"),
        default="wall",
        help="processor: time of this process alone, for one thread on a machine that others use too (wall)",
    )
    parser.add_argument("--picture", metavar="PNG", help="write bars; needs matplotlib")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--here", type=count(1), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        measure_here(options)
        return
    processors, rows = sorted(os.sched_getaffinity(0)), []
    if max(options.threads) > len(processors):
        most = max(options.threads)
        parser.error(f"--threads: expected at most {len(processors)}, the processors of this process, got {most}")
    if options.clock == "processor" and options.threads != [1]:
        parser.error("--clock processor: expected --threads 1, as the time of all threads is added up")
    if options.picture:
        folder = os.path.dirname(options.picture) or "."
        if not os.path.isdir(folder):
            parser.error(f"--picture: expected a path in a folder that exists, got {options.picture}")
        if importlib.util.find_spec("matplotlib") is None:
            parser.error("--picture: needs matplotlib, which is not installed")
        if not (options.past or options.kept or options.prefill):
            parser.error("--picture: expected a row to draw, got none")
    for threads in options.threads:
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
        child = subprocess.Popen(  # noqa: S603 - this file
            [sys.executable, __file__, *sys.argv[1:], "--here", str(threads)],
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            preexec_fn=lambda count=threads: os.sched_setaffinity(0, processors[:count]),
        )
        for line in child.stdout:
            entry = json.loads(line)
            if options.json:
                print(line, end="")
            elif "row" not in entry:
                print(f"{threads} threads: one GiB is read at {entry['read rate'] / 1e9:.1f} GB/s")
            else:
                ratio, best = entry["ratio"], entry["best other"]
                times = ", ".join(f"{name} {seconds * 1e6:.0f}" for name, seconds in entry["seconds"].items())
                bounds = f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"
                rate, load = entry["per second"]["refeed"] / 1e9, entry["load average"]
                print(
                    f"{entry['row']:38} {rate:6.1f} G/s  {bounds} of {best}; load {load:.1f}; us: {times}", flush=True
                )
            if "row" in entry:
                rows.append(entry)
        if child.wait():
            sys.exit(child.returncode)
    for name, threads, factor in gains(rows):
        if options.json:
            print(json.dumps({"threads": threads, "gain": name, "factor": factor}))
        else:
            print(f"{name:38} {threads} threads take 1/{factor:.2f} of the time of one")
    if options.picture:
        picture(rows, options.picture)


if __name__ == "__main__":
    main()
