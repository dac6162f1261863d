"""What a token costs with a state that keeps its caches, and with a session that is handed them back: prints JSON.

The model is one `Attention` node with caches of one head, made here, so that nothing else is needed. Both sides decode
the same tokens from empty caches. At each step the run ends with an error unless

* the outputs of both sides are those of the formula, computed in double precision, and
* the state retains the very memory that it returned, and appended in place where it says so.

The stateless side knows what to hand back from the model's `persistent_bindings` alone. The two do not run the same
kernel path: a session has no room behind its caches, so each step writes them again. Nothing about time is asserted.
"""

import argparse
import hashlib
import json
import math
import os
import pathlib
import platform
import subprocess
import sys
import time

import numpy as np
import refeed
from refeed import runtime
from refeed.onnx import TensorProto, helper

WIDTH = 2
COUNTERS = {
    "kernel_allocations": "storage_allocations",
    "kernel_allocated_bytes": "storage_allocated_bytes",
    "kernel_prefix_copied_bytes": "storage_prefix_copied_bytes",
    "kernel_append_copied_bytes": "storage_append_copied_bytes",
    "kernel_reuse_count": "storage_reuse_count",
}


class CheckFailedError(Exception):
    """A step that gave wrong numbers, or copied what it must not."""


def attention_model():
    """Make the model message: one step of attention over caches of one head, with its bindings."""
    value = helper.make_tensor_value_info
    shapes = {"query": 1, "key": 1, "value": 1, "past_key": "past", "past_value": "past"}
    graph = helper.make_graph(
        [
            helper.make_node(
                "Attention",
                ["query", "key", "value", "", "past_key", "past_value"],
                ["attended", "present_key", "present_value"],
            )
        ],
        "persistent_feedback",
        [value(name, TensorProto.FLOAT, [1, 1, length, WIDTH]) for name, length in shapes.items()],
        [
            value("attended", TensorProto.FLOAT, [1, 1, 1, WIDTH]),
            value("present_key", TensorProto.FLOAT, [1, 1, "present", WIDTH]),
            value("present_value", TensorProto.FLOAT, [1, 1, "present", WIDTH]),
        ],
    )
    for name in ("key", "value"):
        binding = graph.persistent_bindings.add()
        binding.input_name, binding.output_name = f"past_{name}", f"present_{name}"
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)


def feeds(count):
    """Make the query, key and value of each token."""
    rng = np.random.default_rng(24)
    for _ in range(count):
        yield tuple(rng.standard_normal((1, 1, 1, WIDTH), np.float32) for _ in range(3))


def formula(query, keys, values):
    """Compute attention in double precision; the one query sees every key."""
    scores = keys[0, 0].astype(np.float64) @ query[0, 0, 0].astype(np.float64) / math.sqrt(WIDTH)
    weights = np.exp(scores - scores.max())
    return (weights / weights.sum() @ values[0, 0].astype(np.float64)).reshape(1, 1, 1, WIDTH)


def address(tensor):
    """Return where the elements of a tensor lie."""
    return np.from_dlpack(tensor).__array_interface__["data"][0]


class Stateful:
    """A state: it keeps the caches, and has room for `count` tokens."""

    def __init__(self, model, count):
        self.bindings = [(binding.input_name, binding.output_name) for binding in model.graph.persistent_bindings]
        self.options = runtime.RuntimeSessionOptions(persistent_tensor_initial_capacity=count)
        self.context = runtime.RuntimeContext(events_enabled=True)
        initial = {name: np.zeros((1, 1, 0, WIDTH), np.float32) for name, _ in self.bindings}
        self.state = runtime.PersistentValueState(model, initial, options=self.options)

    def step(self, fed):
        """Run one step and return all outputs."""
        return self.state.run(self.context, fed)

    def retained(self):
        """Return the retained tensors, by input name."""
        return self.state.values


class Stateless:
    """A session: the outputs that the model's bindings name are handed back as the inputs that they name."""

    def __init__(self, model):
        self.bindings = [(binding.input_name, binding.output_name) for binding in model.graph.persistent_bindings]
        self.session = runtime.RuntimeSession(model)
        self.caches = {name: np.zeros((1, 1, 0, WIDTH), np.float32) for name, _ in self.bindings}

    def step(self, fed):
        """Run one step and return all outputs."""
        outputs = self.session.run({**fed, **self.caches})
        self.caches = {name: outputs[output] for name, output in self.bindings}
        return outputs


def count_storage(events):
    """Add the counters of the storage events up."""
    storage = [event for event in events if event.action == runtime.RuntimeEventAction.kPersistentStorage]
    return {name: sum(getattr(event, field) for event in storage) for name, field in COUNTERS.items()}


def workspace_peak(events):
    """Return the most bytes that a step had in use beyond those of its results and of what is retained.

    Events report what is in use and the most that ever was. What is in use at the last one are results and caches.
    """
    first, last = events[0], events[-1]
    most = max(event.allocated_bytes for event in events)
    if last.peak_bytes > first.peak_bytes:
        most = max(most, last.peak_bytes)
    return most - last.allocated_bytes


def check_numbers(step, side, outputs, expected):
    """Fail unless each output is what the formula says."""
    for name, want in expected.items():
        got = np.from_dlpack(outputs[name])
        if got.shape != want.shape or not np.allclose(got, want, rtol=1e-5, atol=1e-6):
            raise CheckFailedError(f"token {step}: {side} output `{name}` is {got.tolist()}, expected {want.tolist()}")


def check_identity(step, bindings, outputs, retained, before, reused):
    """Fail unless the state retains what it returned, in the memory of the step before when it says so."""
    now = {}
    for name, output in bindings:
        now[name] = address(retained[name])
        if now[name] != address(outputs[output]):
            raise CheckFailedError(f"token {step}: the state retains a copy of `{output}` as `{name}`")
    if reused == len(bindings) and now != before:
        raise CheckFailedError(f"token {step}: an append is said to be in place, but the caches moved")
    return now


def timed(function, *arguments):
    """Call a function; return its result and how many nanoseconds it took."""
    begun = time.perf_counter_ns()
    result = function(*arguments)
    return result, time.perf_counter_ns() - begun


def measure(count, model, make_stateful=Stateful, make_stateless=Stateless):
    """Decode `count` tokens both ways, check every step, and return what is to be printed."""
    stateful, stateful_setup = timed(make_stateful, model, count)
    stateless, stateless_setup = timed(make_stateless, model)
    inputs = [name.name for name in model.graph.input if name.name not in dict(stateful.bindings)]
    attended = model.graph.output[0].name
    keys = values = np.zeros((1, 1, 0, WIDTH), np.float32)
    rows, addresses = [], {}
    for step, (query, key, value) in enumerate(feeds(count), start=1):
        fed = dict(zip(inputs, (query, key, value), strict=True))
        stateful.context.clear_events()
        outputs, stateful_ns = timed(stateful.step, fed)
        others, stateless_ns = timed(stateless.step, fed)
        keys, values = np.concatenate([keys, key], axis=2), np.concatenate([values, value], axis=2)
        presents = [output for _, output in stateful.bindings]
        expected = {attended: formula(query, keys, values), **dict(zip(presents, (keys, values), strict=True))}
        check_numbers(step, "stateful", outputs, expected)
        check_numbers(step, "stateless", others, expected)
        events = stateful.context.events()
        counted = count_storage(events)
        retained = stateful.retained()
        addresses = check_identity(step, stateful.bindings, outputs, retained, addresses, counted["kernel_reuse_count"])
        rows.append(
            {
                "token": step,
                "stateful_ns": stateful_ns,
                "stateless_ns": stateless_ns,
                "retained_logical_bytes": sum(np.from_dlpack(tensor).nbytes for tensor in retained.values()),
                "event_workspace_peak_bytes": workspace_peak(events),
                **counted,
                "numerically_equal": True,
                "pointers_identical": True,
            }
        )
    return {
        "setup_ns": {"stateful": stateful_setup, "stateless": stateless_setup},
        "execution_policy": policy(stateful.options),
        "tokens": rows,
    }


def policy(options):
    """Return under which settings both sides ran."""
    return {
        "persistent_tensor_initial_capacity": options.persistent_tensor_initial_capacity,
        "append_reuse": options.append_reuse,
        "stateful_events": True,
        "stateless_events": False,
        "isa": os.environ.get("REFEED_ISA", "best"),
        "processors": len(os.sched_getaffinity(0)),
    }


def identity(model):
    """Return what tells the model from others."""
    payload = model.SerializeToString()
    return {
        "name": model.graph.name,
        "sha256": hashlib.sha256(payload).hexdigest(),
        "bytes": len(payload),
        "ir_version": model.ir_version,
        "opset": {one.domain or "ai.onnx": one.version for one in model.opset_import},
        "bindings": [[one.input_name, one.output_name] for one in model.graph.persistent_bindings],
    }


def revision(name):
    """Return the commit that a name stands for in the repository of this file; None where there is none."""
    folder = pathlib.Path(__file__).resolve().parent
    command = ["git", "-C", str(folder), "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except FileNotFoundError:
        return None
    return ended.stdout.strip() or None


def main(arguments=None):
    """Measure, print JSON; 1 when a step is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=16, metavar="N", help="tokens to decode (16)")
    parser.add_argument("--target", default="origin/main", help="the other revision to record (origin/main)")
    options = parser.parse_args(arguments)
    if options.tokens < 1:
        parser.error(f"--tokens: expected at least 1, got {options.tokens}")
    model = attention_model()
    try:
        measured = measure(options.tokens, model)
    except CheckFailedError as error:
        print(f"bench_persistent_feedback: {error}", file=sys.stderr)
        return 1
    result = {
        "benchmark": "persistent_feedback",
        "source_revision": revision("HEAD"),
        "target_revision": revision(options.target),
        "refeed": refeed.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "model": identity(model),
        **measured,
    }
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
