"""What a token costs: exported decoders in a state of refeed, and in onnxruntime with its outputs fed back by hand.

Both decode the same prompt greedily, one token at a time, and must choose the same tokens. A round decodes the whole
sequence with refeed, then with onnxruntime; rounds alternate. The prompt's own step is not timed. Nothing about time is
asserted.
"""

import argparse
import pathlib
import time

import numpy as np
import onnxruntime
import refeed
from measure import bootstrap, report
from refeed.decoding import Prompt, Stateful
from refeed.runtime import empty_caches

MODELS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "models"
PROMPT = [1, 17, 42, 99, 7]
DECODERS = ("dynamo18_llama", "dynamo20_phi3", "dynamo23_llama", "genai_llama_fp32", "mobius_llama", "optimum_llama")


class ByHand:
    """onnxruntime, whose caches are NumPy arrays that the caller hands back."""

    def __init__(self, session, model, initial):
        self.model = model
        self._session = session
        self._names = [value.name for value in model.outputs]
        self._pairs = [(binding.input, binding.output) for binding in model.bindings]
        self._caches = dict(initial)

    def step(self, feeds):
        """Run the model on current feeds and the caches of the last step."""
        outputs = dict(zip(self._names, self._session.run(self._names, {**self._caches, **feeds}), strict=True))
        self._caches = {name: outputs[output] for name, output in self._pairs}
        return outputs


def decode(stepper, count):
    """Decode greedily; return the tokens and the seconds that each after the first took."""
    prompt = Prompt(stepper.model, PROMPT)
    current, tokens, seconds = prompt.ids, [], []
    for _ in range(count):
        feeds = prompt.feeds(current)
        start = time.perf_counter()
        logits = np.asarray(stepper.step(feeds)["logits"])
        seconds.append(time.perf_counter() - start)
        tokens.append(int(logits[0, -1].argmax()))
        current = tokens[-1:]
    return tokens, seconds[1:]


def initial_caches(model, folder):
    """Return the caches that a case stores for its first step; empty ones by declaration where it stores none."""
    stored = folder / "ref_b1.npz"
    if not stored.exists():
        return empty_caches(model)
    with np.load(stored) as arrays:
        return {name.removeprefix("init/"): arrays[name] for name in arrays.files if name.startswith("init/")}


def compare(path, options):
    """Decode one model both ways, in turns."""
    model, _ = refeed.bind(refeed.load(path), patterns="known", uses="any")
    initial = initial_caches(model, path.parent)
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    if options.threads:
        settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    ours, theirs = [], []
    for number in range(options.rounds + 1):
        tokens, times = decode(Stateful(model, initial), options.tokens)
        others, other_times = decode(ByHand(session, model, initial), options.tokens)
        assert tokens == others, f"the runtimes chose other tokens: {tokens} and {others}"
        if number:  # the first round warms up
            ours.append(np.median(times))
            theirs.append(np.median(other_times))
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {
        "refeed tokens/s": bootstrap([1 / seconds for seconds in ours]),
        "onnxruntime tokens/s": bootstrap([1 / seconds for seconds in theirs]),
        "time, refeed / onnxruntime": bootstrap(ratios),
    }


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help="cases of tests/data/models, or paths; all decoders")
    parser.add_argument("--tokens", type=int, default=100, help="new tokens a round (100)")
    parser.add_argument("--rounds", type=int, default=15, help="alternated rounds (15)")
    parser.add_argument("--threads", type=int, default=0, help="onnxruntime's intra-op threads (0: its own choice)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.tokens < 2:
        parser.error("--tokens: expected at least 2, because the prompt's step is not timed")
    results = {"benchmark": "decode", "new tokens": options.tokens, "rounds": options.rounds}
    for name in options.models or DECODERS:
        path = MODELS / name / "model.onnx"
        measured = compare(path if path.exists() else pathlib.Path(name), options)
        results.update({f"{name}: {key}": value for key, value in measured.items()})
    report(results, as_json=options.json)


if __name__ == "__main__":
    main()
