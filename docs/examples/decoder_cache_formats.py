"""Decode with one exported model and caches of several formats: bytes, tokens a second, and the drift of the logits.

`refeed.page` turns the dense caches of the model into caches in pages; a format selector says, step by step, how new
keys and values are kept. All formats decode the tokens that FLOAT pages choose, so that logits are compared step by
step. The tests run this program as it stands.

Run it: ``python docs/examples/decoder_cache_formats.py [--tokens 230] [--model MODEL.onnx]``
"""

import argparse
import pathlib
import time

import numpy as np
import refeed
from refeed.onnx import TensorProto
from refeed.runtime import PageFormat, RuntimeContext, cache_report, empty_caches, register_paged_attention

MODELS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "models"
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
GROUP_QUERY = MODELS / "genai_llama_fp32" / "model.onnx"
parser.add_argument("--model", type=pathlib.Path, default=GROUP_QUERY)
parser.add_argument("--prompt", type=int, default=24, help="tokens of the prompt (24)")
parser.add_argument("--tokens", type=int, default=40, help="tokens that are decoded behind it (40)")
arguments = parser.parse_args()

# By default a decoder as onnxruntime-genai's builder writes it: GroupQueryAttention, whose caches become pages of 16
# tokens. `padded=False` promises that no row is padded; masks, which other exporters write, are taken on that promise
# together with steps that both models must agree on.
total = arguments.prompt + arguments.tokens
dense, _ = refeed.bind(arguments.model, patterns="known", uses="any")
prompt = np.random.default_rng(7).integers(0, 100, arguments.prompt)


def feeds_of(tokens, past):
    """Return what the model is fed for one row of new tokens behind `past` others."""
    made = {
        "input_ids": tokens[None],
        "attention_mask": np.ones((1, past + len(tokens)), np.int64),
        "position_ids": np.arange(past, past + len(tokens))[None],
    }
    return {value.name: made[value.name] for value in dense.inputs if value.name in made}


checked = [feeds_of(prompt, 0), feeds_of(prompt[:1], len(prompt)), feeds_of(prompt[:3], len(prompt) + 1)]
paged, report = refeed.page(dense, block_size=16, max_tokens=total + 4, padded=False, check=checked)
print(report)


def affine(storage, numbers):
    """Return a format whose largest code is the largest of these numbers."""
    largest = {TensorProto.INT8: 127, TensorProto.INT4: 7}[storage]
    return PageFormat(storage, max(float(np.abs(np.asarray(numbers)).max()), 1e-6) / largest)


def both(storage):
    """Return a selector that keeps keys and values as codes of one type."""
    return lambda k, v, _: (affine(storage, k), affine(storage, v))


def mixed(k, v, retained):
    """Keep the prompt as FLOAT16, then keys as INT8 and values as INT4: keys go through an exponential."""
    if retained == 0:
        return PageFormat(TensorProto.FLOAT16)
    return affine(TensorProto.INT8, k), affine(TensorProto.INT4, v)


SELECTORS = {"FLOAT": None, "INT8": both(TensorProto.INT8), "INT4": both(TensorProto.INT4), "mixed": mixed}


def decode(selector, tokens=None):
    """Feed the prompt, then token after token; return logits and tokens, bytes of the caches, tokens a second."""
    context = RuntimeContext()
    register_paged_attention(context, format_selector=selector)
    state = refeed.PersistentValueState(paged, empty_caches(paged), context=context)
    fed, past, logits, chosen = prompt, 0, [], []
    start = time.perf_counter()
    for step in range(arguments.tokens):
        out = state.run(context, feeds_of(fed, past))
        past += len(fed)
        logits.append(np.asarray(out["logits"])[0, -1].astype(np.float64))
        chosen.append(int(logits[-1].argmax()))
        fed = np.array([chosen[-1] if tokens is None else tokens[step]])
    seconds = time.perf_counter() - start
    stored = sum(cache_report(state.values[cache.past]).nbytes for cache in report.caches)
    return np.array(logits), chosen, stored, arguments.tokens / seconds


reference, tokens, float_bytes, _ = decode(None)
spread = np.sqrt(np.mean((reference - reference.mean(axis=1, keepdims=True)) ** 2))
print(f"\n{arguments.prompt} tokens of prompt, {arguments.tokens} decoded; drift in standard deviations of the logits")
print(f"{'cache':8} {'bytes':>10} {'of FLOAT':>9} {'tokens/s':>9} {'drift rms':>10} {'largest':>9} {'same token':>11}")
found = {}
for name, selector in SELECTORS.items():
    logits, chosen, stored, rate = decode(selector, tokens)
    drift = (logits - reference) / spread
    same = np.mean([a == b for a, b in zip(chosen, tokens, strict=True)])
    found[name] = (stored, float(np.sqrt(np.mean(drift**2))), float(np.abs(drift).max()))
    share, (_, rms, largest) = stored / float_bytes, found[name]
    print(f"{name:8} {stored:10,} {share:9.3f} {rate:9.0f} {rms:10.2e} {largest:9.2e} {same:11.0%}")

# The same arithmetic gives the same bits; fewer bits, fewer bytes and more drift.
assert found["FLOAT"] == (float_bytes, 0.0, 0.0)
assert found["INT4"][0] < found["INT8"][0] < float_bytes
assert found["INT4"][0] < found["mixed"][0] < float_bytes
assert 0 < found["INT8"][1] < found["INT4"][1]
if arguments.model == GROUP_QUERY:
    assert found["INT8"][1] < 0.02
    assert found["INT8"][1] < found["mixed"][1] < found["INT4"][1] < 0.3
    print("all figures are as documented")
