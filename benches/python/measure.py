"""Medians with their bounds, and one way of printing them, for the benchmarks beside this file."""

import json
import os
import platform

import numpy as np
import onnxruntime
import refeed


def bootstrap(samples, draws=10_000):
    """Return the median of samples and the bounds of its 95 % bootstrap interval."""
    samples = np.asarray(samples, np.float64)
    picks = np.random.default_rng(0).integers(0, samples.size, (draws, samples.size))
    low, high = np.percentile(np.median(samples[picks], axis=1), [2.5, 97.5])
    return {"median": float(np.median(samples)), "low": float(low), "high": float(high)}


def report(results, *, as_json):
    """Print results with what is needed to judge them: versions, processors, and the load of the machine."""
    results = {
        **results,
        "refeed": refeed.__version__,
        "onnxruntime": onnxruntime.__version__,
        "python": platform.python_version(),
        "processors": len(os.sched_getaffinity(0)),
        "load average": [round(load, 2) for load in os.getloadavg()],
    }
    if as_json:
        print(json.dumps(results))
        return
    width = max(map(len, results))
    for name, value in results.items():
        if isinstance(value, dict):
            text = f"{value['median']:.4g}  (95 %: {value['low']:.4g} to {value['high']:.4g})"
        else:
            text = ", ".join(map(str, value)) if isinstance(value, list) else value
        print(f"{name:{width}}  {text}")
