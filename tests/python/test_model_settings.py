"""What is read from the files beside a model, and what is refused."""

import json
import pathlib
from typing import Any

import pytest
import refeed
from refeed.text import ModelSettings

GENAI: dict[str, Any] = {
    "model": {
        "bos_token_id": 1,
        "context_length": 128,
        "eos_token_id": [5, 7],
        "pad_token_id": 9,
        "decoder": {
            "num_hidden_layers": 2,
            "inputs": {
                "input_ids": "tokens",
                "attention_mask": "mask",
                "past_key_names": "past.%d.key",
                "past_value_names": "past.%d.value",
            },
            "outputs": {
                "logits": "scores",
                "present_key_names": "present.%d.key",
                "present_value_names": "present.%d.value",
            },
        },
    },
    "search": {"max_length": 64},
}


def write(folder: pathlib.Path, **files: Any) -> pathlib.Path:
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{name}.json").write_text(text)
    return folder / "model.onnx"


def changed(path: str, value: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(GENAI))
    *parents, last = path.split(".")
    place = made
    for parent in parents:
        place = place[parent]
    place[last] = value
    return made


def test_nothing_is_there(tmp_path: pathlib.Path) -> None:
    assert ModelSettings.beside(tmp_path) == ModelSettings()
    assert ModelSettings().option_fields() == {}


def test_generation_config(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, generation_config={"eos_token_id": 3, "decoder_start_token_id": 0, "temperature": 0.7})
    settings = ModelSettings.beside(path)
    assert settings.eos_token_ids == (3,)
    assert settings.decoder_start_token_id == 0
    assert settings.sources == ("generation_config.json",)
    assert settings.option_fields() == {"eos_token_id": 3, "stop_token_ids": []}


def test_genai_config(tmp_path: pathlib.Path) -> None:
    settings = ModelSettings.beside(write(tmp_path, genai_config=GENAI))
    assert settings.names == {"input_ids": "tokens", "attention_mask": "mask", "logits": "scores"}
    assert settings.pairs == (
        ("past.0.key", "present.0.key"),
        ("past.1.key", "present.1.key"),
        ("past.0.value", "present.0.value"),
        ("past.1.value", "present.1.value"),
    )
    assert (settings.bos_token_id, settings.context_length) == (1, 128)
    assert settings.option_fields() == {
        "input_ids_name": "tokens",
        "attention_mask_name": "mask",
        "logits_name": "scores",
        "eos_token_id": 5,
        "stop_token_ids": [7],
        "pad_token_id": 9,
        "max_length": 128,
    }


def test_the_file_about_this_model_counts(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, genai_config=GENAI, generation_config={"eos_token_id": 4, "decoder_start_token_id": 2})
    settings = ModelSettings.beside(path)
    assert settings.eos_token_ids == (5, 7)
    assert settings.decoder_start_token_id == 2
    assert settings.sources == ("generation_config.json", "genai_config.json")


def test_token_ids_may_be_zero(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, generation_config={"eos_token_id": 0, "pad_token_id": 0})
    assert ModelSettings.beside(path).option_fields() == {"eos_token_id": 0, "stop_token_ids": [], "pad_token_id": 0}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{", "expected JSON"),
        ("[" * 100_000, "expected JSON"),
        ("[1]", "a JSON object, got list"),
        (changed("model", 3), "model: expected an object"),
        (changed("model.eos_token_id", "x"), "eos_token_id: expected a number of at least 0, or a list"),
        (changed("model.eos_token_id", [1, -1]), "eos_token_id"),
        (changed("model.eos_token_id", True), "eos_token_id"),
        (changed("model.context_length", -1), "context_length: expected a number of at least 0"),
        (changed("model.decoder.inputs.input_ids", 1), "input_ids: expected a string"),
        (changed("model.decoder.inputs.past_key_names", "past.key"), "a name with one %d"),
        (changed("model.decoder.inputs.past_key_names", None), "as there is present_key_names"),
        (changed("model.decoder.outputs.present_value_names", None), "as there is past_value_names"),
        (changed("model.decoder.inputs.past_key_names", "past.%d.value"), "two caches have one name"),
        (changed("model.decoder.num_hidden_layers", 10**9), "num_hidden_layers"),
        (changed("model.decoder.num_hidden_layers", None), "num_hidden_layers"),
    ],
)
def test_settings_that_are_wrong(content: Any, text: str, tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, genai_config=content)
    with pytest.raises(refeed.ValueTypeError, match=text) as caught:
        ModelSettings.beside(path)
    assert "genai_config.json" in str(caught.value)
