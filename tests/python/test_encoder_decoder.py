"""Decoders of encoder-decoders, against the stored references of T5 and a Whisper-like model in NumPy."""

import json
import pathlib
from typing import Any, Literal

import numpy as np
import onnx
import pytest
import refeed
from onnx import TensorProto, helper, numpy_helper
from refeed import runtime

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


HIDDEN, HEADS, WIDTH, VOCABULARY = 6, 2, 3, 11


class Whisper:
    """A decoder as merged Whisper exports are: `If` computes the cross caches, or passes empty ones on.

    One layer: self-attention over a growing cache, cross-attention over the encoder's states, greedy over the sum.
    """

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        width = HEADS * WIDTH
        self.embedding = rng.standard_normal((VOCABULARY, width)).astype(np.float32)
        self.cross = {part: rng.standard_normal((HIDDEN, width)).astype(np.float32) for part in ("key", "value")}

    def tokens(self, states: np.ndarray[Any, Any], prompt: list[int], count: int) -> list[int]:
        """Decode greedily in double precision, everything computed anew each time."""

        def attend(
            query: np.ndarray[Any, Any], key: np.ndarray[Any, Any], value: np.ndarray[Any, Any]
        ) -> np.ndarray[Any, Any]:
            out = np.empty_like(query)
            for head in range(HEADS):
                part = slice(head * WIDTH, (head + 1) * WIDTH)
                scores = query[part] @ key[:, part].T / np.sqrt(WIDTH)
                weights = np.exp(scores - scores.max())
                out[part] = weights / weights.sum() @ value[:, part]
            return out

        table = self.embedding.astype(np.float64)
        key, value = (states[0].astype(np.float64) @ self.cross[part] for part in ("key", "value"))
        tokens = list(prompt)
        for _ in range(count):
            seen = table[tokens]
            tokens.append(int((table @ (attend(seen[-1], seen, seen) + attend(seen[-1], key, value))).argmax()))
        return tokens[len(prompt) :]

    def model(self) -> onnx.ModelProto:
        value, node = helper.make_tensor_value_info, helper.make_node
        f, dims = TensorProto.FLOAT, [HEADS, WIDTH]
        constants: dict[str, np.ndarray[Any, Any]] = {
            "embedding": self.embedding,
            "turned": self.embedding.T.copy(),
            "heads": np.array([0, 0, HEADS, WIDTH], np.int64),
            "none": np.zeros((0, HEADS, 1, WIDTH), np.float32),
            **{f"cross.{part}": weight for part, weight in self.cross.items()},
        }

        def branch(cached: bool) -> onnx.GraphProto:
            nodes, outputs = [], []
            for part in ("key", "value"):
                past, present, used = (
                    f"past_key_values.0.encoder.{part}",
                    f"out.{part}.{cached}",
                    f"used.{part}.{cached}",
                )
                if cached:
                    nodes += [node("Identity", ["none"], [present]), node("Identity", [past], [used])]
                else:
                    flat, split = f"flat.{part}", f"split.{part}"
                    nodes.append(node("MatMul", ["encoder_hidden_states", f"cross.{part}"], [flat]))
                    nodes.append(node("Reshape", [flat, "heads"], [split]))
                    nodes.append(node("Transpose", [split], [present], perm=[0, 2, 1, 3]))
                    nodes.append(node("Identity", [present], [used]))
                outputs += [value(name, f, [None, dims[0], None, dims[1]]) for name in (present, used)]
            return helper.make_graph(nodes, f"cached.{cached}", [], outputs)

        cross = [f"present.0.encoder.{part}" for part in ("key", "value")]
        nodes = [
            node("Squeeze", ["use_cache_branch"], ["switch"]),
            node(
                "If",
                ["switch"],
                [cross[0], "cross.used.key", cross[1], "cross.used.value"],
                then_branch=branch(True),
                else_branch=branch(False),
            ),
            node("Gather", ["embedding", "input_ids"], ["x"]),
            node("Reshape", ["x", "heads"], ["x.split"]),
            node("Transpose", ["x.split"], ["x.heads"], perm=[0, 2, 1, 3]),
        ]
        for part in ("key", "value"):
            past, present = f"past_key_values.0.decoder.{part}", f"present.0.decoder.{part}"
            nodes.append(node("Concat", [past, "x.heads"], [present], axis=2))
        nodes += [
            node(
                "Attention",
                ["x.heads", "present.0.decoder.key", "present.0.decoder.value"],
                ["self"],
            ),
            node("Attention", ["x.heads", "cross.used.key", "cross.used.value"], ["crossed"]),
            node("Add", ["self", "crossed"], ["both"]),
            node("Transpose", ["both"], ["both.turned"], perm=[0, 2, 1, 3]),
            node("Flatten", ["both.turned"], ["flat"], axis=2),
            node("MatMul", ["flat", "turned"], ["scores"]),
            node("Unsqueeze", ["scores", "zero"], ["logits"]),
        ]
        constants["zero"] = np.array([0], np.int64)
        inputs = [
            value("input_ids", TensorProto.INT64, ["batch", "length"]),
            value("encoder_hidden_states", f, ["batch", "frames", HIDDEN]),
            value("use_cache_branch", TensorProto.BOOL, [1]),
        ]
        outputs = [value("logits", f, [1, "length", VOCABULARY])]
        for side in ("decoder", "encoder"):
            for part in ("key", "value"):
                inputs.append(value(f"past_key_values.0.{side}.{part}", f, ["batch", HEADS, f"past.{side}", WIDTH]))
                outputs.append(value(f"present.0.{side}.{part}", f, [None, HEADS, None, WIDTH]))
        made = helper.make_graph(
            nodes,
            "whisper",
            inputs,
            outputs,
            [numpy_helper.from_array(array, name) for name, array in constants.items()],
        )
        return helper.make_model(made, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


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
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Tanh", ["input_features"], ["last_hidden_state"])],
        "encoder",
        [value("input_features", TensorProto.FLOAT, [1, None, HIDDEN])],
        [value("last_hidden_state", TensorProto.FLOAT, [1, None, HIDDEN])],
    )
    encoder = runtime.RuntimeSession(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    states = encoder.run({"input_features": features})["last_hidden_state"]
    model, _ = refeed.bind(whisper.model(), patterns="encoder_decoder", uses="any")
    # The encoder's output is fed as it is, without a copy.
    feeds = {"encoder_hidden_states": states, **SWITCH}
    generation = refeed.generate(model, [2], feeds=feeds, later_feeds=LATER, max_new_tokens=5)
    assert generation.tokens == [whisper.tokens(np.tanh(features.astype(np.float64)), [2], 5)]
