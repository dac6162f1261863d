"""Decoders of encoder-decoders, against the stored references of T5 and a Whisper-like model in NumPy."""

import json
import pathlib
from typing import Any, Literal

import numpy as np
import pytest
import refeed
import whisper_like
from refeed import runtime
from whisper_like import HIDDEN, Whisper

SWITCH: dict[str, Any] = {"use_cache_branch": np.array([False])}
LATER: dict[str, Any] = {"use_cache_branch": np.array([True])}


def stored(cases: pathlib.Path, name: str) -> tuple[pathlib.Path, dict[str, np.ndarray[Any, Any]], list[int]]:
    """Return the model, the arrays, and the greedy tokens of a case: those that were fed, and the last step's."""
    manifest = json.loads((cases / "manifest.json").read_text())["cases"]
    entry = next(entry for entry in manifest if entry["name"] == name)
    with np.load(cases / name / "ref_b1.npz") as file:
        arrays = {key: file[key] for key in file.files}
    steps = entry["refs"][0]["steps"]
    tokens = [int(arrays[f"step{step}/out/logits"][0, -1].argmax()) for step in range(steps)]
    assert [int(arrays[f"step{step}/in/input_ids"][0, 0]) for step in range(1, steps)] == tokens[:-1]
    return cases / name / entry["model"], arrays, tokens


def fed(arrays: dict[str, np.ndarray[Any, Any]], *without: str) -> dict[str, Any]:
    head = "step0/in/"
    names = [key.removeprefix(head) for key in arrays if key.startswith(head)]
    return {name: arrays[head + name] for name in names if name not in ("input_ids", *without)}


def test_a_merged_decoder_computes_its_cross_caches_once(cases: pathlib.Path) -> None:
    path, arrays, want = stored(cases, "optimum_t5_merged")
    model, report = refeed.bind(path, patterns="encoder_decoder", uses="any")
    published = {pair.input: pair.publish for pair in report.pairs}
    assert {policy for name, policy in published.items() if ".encoder." in name} == {"once"}
    assert {policy for name, policy in published.items() if ".decoder." in name} == {"always"}
    feeds = fed(arrays, "use_cache_branch") | SWITCH
    generator = refeed.Generator(model, feeds=feeds, later_feeds=LATER)
    for _ in range(2):
        generator.reset()
        generator.append(arrays["step0/in/input_ids"][0].tolist())
        crossed: dict[str, tuple[int, np.ndarray[Any, Any]]] = {}
        tokens = []
        for token in generator.stream(max_new_tokens=len(want)):
            tokens.append(token.token)
            for name, value in generator.values.items():
                if ".encoder." in name:
                    array = np.from_dlpack(value)
                    np.testing.assert_allclose(array, arrays[f"step0/out/{name.replace('past_key_values', 'present')}"])
                    place = array.__array_interface__["data"][0]
                    # It is the value of the first step, in the memory of the first step.
                    assert crossed.setdefault(name, (place, array))[0] == place
        assert tokens == want
        assert len(crossed) == 4


def test_a_decoder_with_past_continues_what_another_file_began(cases: pathlib.Path) -> None:
    path, arrays, want = stored(cases, "optimum_t5_withpast")
    pairs = {
        f"past_key_values.{i}.decoder.{kv}": f"present.{i}.decoder.{kv}" for i in (0, 1) for kv in ("key", "value")
    }
    model, _ = refeed.bind(path, pairs=pairs, uses="any")
    initial = {key.removeprefix("init/"): value for key, value in arrays.items() if key.startswith("init/")}
    assert all(value.shape[2] == 1 for value in initial.values())
    generator = refeed.Generator(model, initial=initial, feeds=fed(arrays))
    generator.append(arrays["step0/in/input_ids"][0].tolist())
    assert generator.generate(max_new_tokens=len(want)).tokens == [want]
    # The cross caches are feeds that stay: the state keeps the decoder's own alone.
    assert set(generator.values) == set(pairs)


@pytest.mark.parametrize("publish", ["once", "if_present"])
@pytest.mark.parametrize("frames", [1, 4, 9])
def test_a_whisper_like_decoder(frames: int, publish: Literal["once", "if_present"]) -> None:
    whisper = Whisper(seed=frames)
    policy: dict[str, Literal["always", "once", "if_present"]] = {"past_key_values.{i}.encoder.{kv}": publish}
    model, _ = refeed.bind(whisper.model(), patterns="encoder_decoder", uses="any", publish=policy)
    states = np.random.default_rng(frames + 100).standard_normal((1, frames, HIDDEN)).astype(np.float32)
    feeds = {"encoder_hidden_states": states, **SWITCH}
    want = whisper.tokens(states, [1], 9)
    generation = refeed.generate(model, [1], feeds=feeds, later_feeds=LATER, max_new_tokens=9)
    assert generation.tokens == [want]


def test_the_encoder_may_be_a_model_too() -> None:
    whisper = Whisper(seed=3)
    features = np.random.default_rng(5).standard_normal((1, 4, HIDDEN)).astype(np.float32)
    encoder = runtime.RuntimeSession(whisper_like.encoder())
    states = encoder.run({"input_features": features})["last_hidden_state"]
    model, _ = refeed.bind(whisper.model(), patterns="encoder_decoder", uses="any")
    # The encoder's output is fed as it is, without a copy.
    feeds = {"encoder_hidden_states": states, **SWITCH}
    generation = refeed.generate(model, [2], feeds=feeds, later_feeds=LATER, max_new_tokens=5)
    assert generation.tokens == [whisper.tokens(np.tanh(features.astype(np.float64)), [2], 5)]
