"""`refeed generate` with an encoder beside the decoder, against the formula of the whole model."""

import json
import pathlib
from typing import Any

import numpy as np
import onnx
import pytest
import whisper_like
from onnx import helper
from refeed.__main__ import main
from whisper_like import HIDDEN, Whisper

Capture = pytest.CaptureFixture[str]
BOUND = ("--bind", "known", "--uses", "any")
START = 1


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def made(capsys: Capture, *arguments: object) -> dict[str, Any]:
    code, out, err = run(capsys, "generate", *arguments, "--max-new-tokens", 6, "--json")
    assert code == 0, err
    result: dict[str, Any] = json.loads(out)
    return result


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder as exporters leave it: an encoder of tokens, a merged decoder, settings."""
    onnx.save(Whisper(seed=7).model(), tmp_path / "decoder_model_merged.onnx")
    onnx.save(whisper_like.text_encoder(seed=8)[0], tmp_path / "encoder_model.onnx")
    (tmp_path / "generation_config.json").write_text(json.dumps({"decoder_start_token_id": START}))
    return tmp_path


def states(ids: list[int]) -> np.ndarray[Any, Any]:
    table = whisper_like.text_encoder(seed=8)[1]
    return np.take(table, [ids], axis=0)


def test_an_encoder_is_found_by_its_name(capsys: Capture, folder: pathlib.Path) -> None:
    want = Whisper(seed=7).tokens(states([4, 2, 9]), [START], 6)
    for model in (folder, folder / "decoder_model_merged.onnx"):
        result = made(capsys, model, "--prompt-ids", "4,2,9", *BOUND)
        assert result["tokens"] == want
        assert result["prompt_tokens"] == [4, 2, 9]
        assert result["decoder_prompt_tokens"] == [START]
    # Another prompt, another answer: the encoder matters.
    assert Whisper(seed=7).tokens(states([5]), [START], 6) != want
    assert made(capsys, folder, "--prompt-ids", "5", *BOUND)["tokens"] != want


def test_an_encoder_is_named(capsys: Capture, folder: pathlib.Path) -> None:
    other = (folder / "encoder_model.onnx").rename(folder / "other.onnx")
    want = Whisper(seed=7).tokens(states([4, 2]), [START], 6)
    assert made(capsys, folder, "--encoder", other, "--prompt-ids", "4,2", *BOUND)["tokens"] == want
    code, _, err = run(capsys, "generate", folder, "--prompt-ids", "4,2", *BOUND)
    assert code == 1
    assert "encoder_hidden_states: expected encoder_model.onnx or encoder.onnx in" in err


def test_features_of_speech(capsys: Capture, folder: pathlib.Path) -> None:
    onnx.save(whisper_like.encoder(), folder / "encoder_model.onnx")
    features = np.random.default_rng(5).standard_normal((1, 4, HIDDEN)).astype(np.float32)
    np.save(folder / "speech.npy", features)
    feed = ("--encoder-feed", f"input_features={folder / 'speech.npy'}", *BOUND)
    heard = np.tanh(features.astype(np.float64))
    assert made(capsys, folder, *feed)["tokens"] == Whisper(seed=7).tokens(heard, [START], 6)
    # A prompt is then the decoder's own.
    want = Whisper(seed=7).tokens(heard, [2, 3], 6)
    assert made(capsys, folder, *feed, "--prompt-ids", "2,3")["tokens"] == want


def test_a_decoder_with_past_gets_its_cross_caches_from_the_first_one(capsys: Capture, folder: pathlib.Path) -> None:
    """Two files as the exports before merging: one computes the caches of the encoder's keys and values."""
    whisper = Whisper(seed=7)
    merged = whisper.model()
    constants = {tensor.name: tensor for tensor in merged.graph.initializer}
    nodes = []
    for part in ("key", "value"):
        nodes.append(helper.make_node("MatMul", ["encoder_hidden_states", f"cross.{part}"], [f"flat.{part}"]))
        nodes.append(helper.make_node("Reshape", [f"flat.{part}", "heads"], [f"split.{part}"]))
        present = f"present.0.encoder.{part}"
        nodes.append(helper.make_node("Transpose", [f"split.{part}"], [present], perm=[0, 2, 1, 3]))
    outputs = [value for value in merged.graph.output if ".encoder." in value.name]
    inputs = [value for value in merged.graph.input if value.name in ("input_ids", "encoder_hidden_states")]
    used = [constants[name] for name in ("cross.key", "cross.value", "heads")]
    graph = helper.make_graph(nodes, "first", inputs, outputs, used)
    first = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    onnx.save(first, folder / "decoder_model.onnx")
    later = whisper.model()
    rest = list(later.graph.node[2:])
    for node in rest:
        for at, name in enumerate(node.input):
            if name.startswith("cross.used."):
                node.input[at] = f"past_key_values.0.encoder.{name.rpartition('.')[2]}"
    graph = helper.make_graph(
        rest,
        "later",
        [value for value in later.graph.input if value.name not in ("use_cache_branch", "encoder_hidden_states")],
        [value for value in later.graph.output if ".encoder." not in value.name],
        list(later.graph.initializer),
    )
    (folder / "decoder_model_merged.onnx").unlink()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    onnx.save(model, folder / "decoder_with_past_model.onnx")
    encoder = ("--encoder", folder / "encoder_model.onnx")
    bind = ("--bind", "past_key_values.{i}.decoder.{kv} -> present.{i}.decoder.{kv}", "--uses", "any")
    want = whisper.tokens(states([4, 2, 9]), [START], 6)
    assert made(capsys, folder, *encoder, "--prompt-ids", "4,2,9", *bind)["tokens"] == want
    (folder / "decoder_model.onnx").unlink()
    code, _, err = run(capsys, "generate", folder, *encoder, "--prompt-ids", "4", *bind)
    assert code == 1
    assert "past_key_values.0.encoder.key: expected a binding (--bind), or decoder_model.onnx beside the model" in err


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("--encoder-feed", "input_ids={folder}/none.npy"), "none.npy"),
        (("--encoder-feed", "input_ids={folder}/generation_config.json"), "expected a .npy array, got"),
        (("--encoder-feed", "other={folder}/ids.npy"), "input attention_mask: expected --encoder-feed, got none"),
        (("--prompt-ids", "4", "--encoder", "{folder}/nowhere.onnx"), "nowhere.onnx"),
        (("--prompt-ids", "4", "--encoder", "{folder}"), "{folder}"),
    ],
)
def test_misuse(capsys: Capture, folder: pathlib.Path, arguments: tuple[str, ...], match: str) -> None:
    np.save(folder / "ids.npy", np.array([[4]]))
    given = [argument.format(folder=folder) for argument in arguments]
    code, _, err = run(capsys, "generate", folder, *given, *BOUND)
    assert code == 1
    assert match.format(folder=folder) in err.splitlines()[-1]


def test_an_encoder_without_a_start(capsys: Capture, folder: pathlib.Path) -> None:
    (folder / "generation_config.json").unlink()
    code, _, err = run(capsys, "generate", folder, "--prompt-ids", "4", *BOUND)
    assert code == 1
    assert "decoder_start_token_id: expected one in generation_config.json" in err


def test_wrong_command_lines(capsys: Capture, folder: pathlib.Path, root: pathlib.Path) -> None:
    for arguments in ((folder,), (folder, "--encoder-feed", "speech.npy")):
        with pytest.raises(SystemExit) as ended:
            run(capsys, "generate", *arguments)
        assert ended.value.code == 2
    capsys.readouterr()
    shipped = root / "python" / "refeed" / "data" / "demo"
    code, _, err = run(capsys, "generate", shipped, "Once", "--encoder-feed", "x=y.npy")
    assert code == 1
    assert "--encoder-feed: expected a decoder that takes encoder_hidden_states" in err
