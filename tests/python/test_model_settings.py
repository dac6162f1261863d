"""What is read from the files beside a model, and what is refused."""

import json
import pathlib
import re
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
        "max_length": 64,
    }
    # A number of new tokens takes the place of a length, but not of what the model can see.
    assert settings.options(max_new_tokens=99).max_length == 128
    assert settings.options().max_length == 64
    assert settings.options(eos_token_id=3).stop_token_ids == []
    assert settings.options(max_length=7).max_length == 7


def test_the_file_about_this_model_counts(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, genai_config=GENAI, generation_config={"eos_token_id": 4, "decoder_start_token_id": 2})
    settings = ModelSettings.beside(path)
    assert settings.eos_token_ids == (5, 7)
    assert settings.decoder_start_token_id == 2
    assert settings.sources == ("generation_config.json", "genai_config.json")


def test_how_tokens_are_chosen(tmp_path: pathlib.Path) -> None:
    said = {
        "do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0, "repetition_penalty": 1.1,
        "max_length": 40, "max_new_tokens": 30, "stop_strings": "###", "bad_words_ids": [[4, 5]],
        "suppress_tokens": [6], "num_beams": 4, "no_repeat_ngram_size": 0, "min_length": 3, "transformers_version": "4",
    }  # fmt: skip
    settings = ModelSettings.beside(write(tmp_path, generation_config=said))
    assert settings.option_fields() == {
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 0.95,
        "min_p": 0.0,
        "repetition_penalty": 1.1,
        "max_new_tokens": 30,
        "bad_words": [[4, 5], [6]],
    }
    assert settings.stop_strings == ("###",)
    assert settings.notes() == [
        "from generation_config.json: max_length 40, max_new_tokens 30, do_sample true, temperature 0.6, top_k 20, "
        'top_p 0.95, min_p 0, repetition_penalty 1.1, stop_strings "###", bad_words [4, 5] [6]',
        "not used: num_beams of generation_config.json, min_length of generation_config.json",
    ]
    left = settings.notes("max_new_tokens", "temperature", "do_sample", "top_k", "stop_strings")[0]
    assert left == "from generation_config.json: top_p 0.95, min_p 0, repetition_penalty 1.1, bad_words [4, 5] [6]"


@pytest.mark.parametrize(
    ("said", "temperature"),
    [
        ({"do_sample": True}, 1.0),
        ({"do_sample": False, "temperature": 0.6}, 0.0),
        ({"temperature": 0.6, "top_k": 0}, None),
        ({"do_sample": True, "temperature": 0}, 0.0),
    ],
)
def test_only_do_sample_makes_draws(said: dict[str, Any], temperature: float | None, tmp_path: pathlib.Path) -> None:
    settings = ModelSettings.beside(write(tmp_path, generation_config=said))
    want = {} if temperature is None else {"temperature": temperature}
    assert settings.option_fields() == want
    ignored = "temperature of generation_config.json (do_sample is not true)"
    assert (ignored in settings.unused) == ("temperature" in said and not said.get("do_sample"))


def test_a_search_of_the_second_file_counts(tmp_path: pathlib.Path) -> None:
    genai = {**GENAI, "search": {"do_sample": True, "temperature": 0.5, "num_beams": 1, "top_k": 3}}
    path = write(tmp_path, genai_config=genai, generation_config={"temperature": 0.9, "top_p": 0.5})
    settings = ModelSettings.beside(path)
    fields = settings.option_fields()
    assert {name: fields[name] for name in ("temperature", "top_k", "top_p")} == {
        "temperature": 0.5,
        "top_k": 3,
        "top_p": 0.5,
    }
    assert settings.notes()[0] == "from generation_config.json: top_p 0.5"
    assert settings.notes()[1].startswith(
        "from genai_config.json: eos_token_id 5 7, pad_token_id 9, context_length 128"
    )


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ('{"temperature": NaN}', "temperature: expected a number of at least 0, got 'nan'"),
        ('{"temperature": Infinity}', "temperature: expected"),
        ({"temperature": -1}, "temperature: expected"),
        ({"temperature": "hot"}, "temperature: expected"),
        ({"temperature": True}, "temperature: expected"),
        ({"top_p": 1.5}, "top_p: expected a number from 0 to 1, got '1.5'"),
        ({"top_p": 0}, "top_p: expected a number above 0"),
        ({"min_p": 2}, "min_p: expected"),
        ({"top_k": 2**63}, "top_k: expected a whole number"),
        ({"top_k": 1.5}, "top_k: expected a whole number"),
        ({"do_sample": 1}, "do_sample: expected true or false"),
        ({"repetition_penalty": 0}, "repetition_penalty: expected a number above 0"),
        ({"stop_strings": [""]}, "stop_strings: expected a text"),
        ({"stop_strings": [1]}, "stop_strings: expected a text"),
        ({"bad_words_ids": [[]]}, "bad_words_ids: expected a list of lists"),
        ({"bad_words_ids": [3]}, "bad_words_ids: expected a list of lists"),
        ({"suppress_tokens": [-2]}, "suppress_tokens: expected a whole number"),
        ({"max_new_tokens": -1}, "max_new_tokens: expected a whole number"),
        ({"eos_token_id": 10**30}, "eos_token_id: expected a whole number"),
    ],
)
def test_choices_that_mean_nothing(said: Any, text: str, tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, generation_config=said)
    with pytest.raises(refeed.ValueTypeError, match=re.escape(text)) as caught:
        ModelSettings.beside(path)
    assert "generation_config.json" in str(caught.value)


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
        (changed("model.eos_token_id", "x"), "eos_token_id: expected a whole number of at least 0, or a list"),
        (changed("model.eos_token_id", [1, -1]), "eos_token_id"),
        (changed("model.eos_token_id", True), "eos_token_id"),
        (changed("model.context_length", -1), "context_length: expected a whole number of at least 0"),
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
