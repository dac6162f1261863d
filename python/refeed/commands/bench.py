"""`refeed bench`: what a prompt and a token cost, beside onnxruntime where it is installed."""

import argparse
import importlib.util
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import refeed
from refeed._native import Model
from refeed.commands import binding, session
from refeed.commands.decoder import open_decoder, positive
from refeed.commands.table import amount, rows
from refeed.decoding import Prompt
from refeed.runtime import GenerationOptions, Generator, empty_caches

__all__ = ["add_parser"]

SIDES = ("refeed", "onnxruntime")
# What is decoded when the model does not say how many tokens there are.
VOCABULARY = 32
Decode = Callable[[list[int], int], tuple[list[int], list[float]]]


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("bench", help="measure a decoder, beside onnxruntime where it is installed")
    parser.add_argument("model", metavar="MODEL", help="path of an exported decoder, or of its folder")
    parser.add_argument("--prompt-tokens", metavar="N", type=positive, default=64, help="tokens of the prompt (64)")
    parser.add_argument("--new-tokens", metavar="N", type=positive, default=64, help="tokens to make (64)")
    parser.add_argument("--rounds", metavar="N", type=positive, default=5, help="alternated rounds (5)")
    parser.add_argument("--threads", metavar="N", type=positive, help="onnxruntime's threads; its own choice otherwise")
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    parser.add_argument("--only", choices=SIDES, help="measure one side alone, the memory of this process included")
    binding.add_options(parser)
    session.add_options(parser)
    parser.set_defaults(run=run)


def _refeed(model: Model, options: argparse.Namespace) -> tuple[Decode, Callable[[], int | None]]:
    """Return a function that decodes by a `Generator`, and one that tells what its values take."""
    settings = GenerationOptions(max_new_tokens=options.new_tokens)
    generator = Generator(model, settings, session_options=session.session_options(options))

    def decode(prompt: list[int], count: int) -> tuple[list[int], list[float]]:
        generator.reset()
        generator.append(prompt)
        tokens, seconds, begun = [], [], time.perf_counter()
        for token in generator.stream(max_new_tokens=count):
            now = time.perf_counter()
            tokens.append(token.token)
            seconds.append(now - begun)
            begun = now
        return tokens, seconds

    return decode, lambda: generator.live_bytes


def _onnxruntime(model: Model, options: argparse.Namespace) -> tuple[Decode, Callable[[], int | None]]:
    """Return a function that decodes with `InferenceSession.run`, the outputs handed back by the model's bindings."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    if options.threads:
        settings.intra_op_num_threads = options.threads
    peer = onnxruntime.InferenceSession(options.model, settings, providers=["CPUExecutionProvider"])
    names = [output.name for output in peer.get_outputs()]
    empty = {name: np.asarray(value) for name, value in empty_caches(model).items()}

    def decode(prompt: list[int], count: int) -> tuple[list[int], list[float]]:
        feeder, caches, current = Prompt(model, prompt), empty, prompt
        tokens: list[int] = []
        seconds: list[float] = []
        begun = time.perf_counter()
        for _ in range(count):
            if not model.bindings:
                # Nothing is handed back: each step sees everything anew.
                current = [*prompt, *tokens]
                feeder = Prompt(model, current)
            outputs = dict(zip(names, peer.run(names, {**caches, **feeder.feeds(current)}), strict=True))
            caches = {binding.input: outputs[binding.output] for binding in model.bindings}
            current = [int(np.argmax(outputs["logits"][0, -1].astype(np.float32)))]
            now = time.perf_counter()
            tokens += current
            seconds.append(now - begun)
            begun = now
        return tokens, seconds

    return decode, lambda: None


MAKERS = {"refeed": _refeed, "onnxruntime": _onnxruntime}


def _prompt(model: Model, count: int) -> list[int]:
    """Return a prompt of `count` tokens, always the same."""
    shape = next((value.shape for value in model.outputs if value.name == "logits"), None)
    last = shape[-1] if shape else None
    vocabulary = last if isinstance(last, int) else VOCABULARY
    return [(7 * i + 1) % vocabulary for i in range(count)]


def _resident(field: str) -> int:
    """Return a figure of this process's resident memory, in bytes."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise refeed.ValueTypeError(f"/proc/self/status: expected a line {field}, got none")


def _memory(side: str, options: argparse.Namespace) -> int | None:
    """Return by how many bytes a process of its own grows that loads the model and decodes once with one side."""
    command = [sys.executable, "-m", "refeed", "bench", options.model, "--only", side, "--json", "--rounds", "1"]
    command += ["--prompt-tokens", str(options.prompt_tokens), "--new-tokens", str(options.new_tokens)]
    for text in options.bind or ():
        command += ["--bind", text]
    if options.uses:
        command += ["--uses", options.uses]
    for text in options.publish:
        command += ["--publish", text]
    if options.threads:
        command += ["--threads", str(options.threads)]
    if not options.recognize_attention:
        command += [session.NO_RECOGNITION]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode != 0:
        raise refeed.ModelError(f"{side}: {ended.stderr.strip().splitlines()[-1:]}")
    grown: int = json.loads(ended.stdout)["sides"][side]["memory_bytes"]
    return grown


def _measured(seconds: list[list[float]], prompt_tokens: int) -> dict[str, Any]:
    """Return the medians of a side's rounds."""
    first = statistics.median(times[0] for times in seconds)
    later = [statistics.fmean(times[1:]) for times in seconds if len(times) > 1]
    return {
        "time_to_first_token_seconds": first,
        "prefill_tokens_per_second": prompt_tokens / first,
        "decode_tokens_per_second": 1 / statistics.median(later) if later else None,
    }


def _compare(model: Model, options: argparse.Namespace, sides: list[str]) -> dict[str, Any]:
    """Let all sides decode in turns; one round before the first warms up."""
    prompt = _prompt(model, options.prompt_tokens)
    before = _resident("VmRSS")
    made: dict[str, tuple[Decode, Callable[[], int | None]]] = {}
    skipped: dict[str, str] = {}
    for side in sides:
        try:
            made[side] = MAKERS[side](model, options)
            made[side][0](prompt, 1)
        except refeed.Error:
            raise
        except Exception as error:  # onnxruntime raises classes of its own
            made.pop(side, None)
            skipped[side] = str(error).splitlines()[0][:200]
    tokens: dict[str, list[int]] = {}
    seconds: dict[str, list[list[float]]] = {side: [] for side in made}
    for _ in range(options.rounds):
        for side, (decode, _) in made.items():
            tokens[side], times = decode(prompt, options.new_tokens)
            seconds[side].append(times)
    results = {side: _measured(seconds[side], len(prompt)) for side in made}
    for side, (_, live_bytes) in made.items():
        results[side]["state_bytes"] = live_bytes()
        results[side]["memory_bytes"] = max(0, _resident("VmHWM") - before) if options.only else _memory(side, options)
    return {
        "sides": results,
        "skipped": skipped,
        "same_tokens": len({tuple(made_tokens) for made_tokens in tokens.values()}) == 1 if len(tokens) > 1 else None,
    }


LABELS: dict[str, tuple[str, Callable[[float], str]]] = {
    "time_to_first_token_seconds": ("time to first token", lambda value: f"{value * 1e3:.2f} ms"),
    "prefill_tokens_per_second": ("prefill, tokens per second", lambda value: f"{value:.0f}"),
    "decode_tokens_per_second": ("decode, tokens per second", lambda value: f"{value:.0f}"),
    "memory_bytes": ("memory of a process, beyond imports", amount),
    "state_bytes": ("of that in values of the state", amount),
}


def _table(result: dict[str, Any]) -> str:
    sides = result["sides"]
    lines = [["", *sides]]
    for field, (label, form) in LABELS.items():
        values = [sides[side][field] for side in sides]
        lines.append([label, *("-" if value is None else form(value) for value in values)])
    return rows(lines, indent="")


def run(options: argparse.Namespace) -> int:
    """Measure and print; 1 when the two sides choose other tokens."""
    opened = open_decoder(options, text=False)
    opened.check_inputs()
    sides = [options.only] if options.only else list(SIDES)
    missing = importlib.util.find_spec("onnxruntime") is None
    if missing and "onnxruntime" in sides:
        sides.remove("onnxruntime")
    compared = _compare(opened.model, options, sides)
    result = {
        "model": options.model,
        "prompt_tokens": options.prompt_tokens,
        "new_tokens": options.new_tokens,
        "rounds": options.rounds,
        "refeed": refeed.__version__,
        "python": platform.python_version(),
        "processors": len(os.sched_getaffinity(0)),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        **compared,
    }
    if missing:
        result["skipped"]["onnxruntime"] = "not installed"
    if options.json:
        print(json.dumps(result))
    else:
        print(
            f"{options.prompt_tokens} prompt tokens, {options.new_tokens} new tokens, median of {options.rounds} rounds"
        )
        print(_table(result))
        for side, reason in result["skipped"].items():
            print(f"{side}: {reason}")
        if result["same_tokens"] is not None:
            print("both chose the same tokens" if result["same_tokens"] else "THE TWO CHOSE OTHER TOKENS")
        print(f"load average {', '.join(map(str, result['load_average']))} on {result['processors']} processors")
    return 1 if result["same_tokens"] is False else 0
