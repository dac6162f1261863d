"""`TextGenerator` and `refeed.generate` with texts, on the shipped decoder; settings of files as defaults."""

import json
import pathlib
import shutil
from typing import Any

import pytest
import refeed
from refeed import runtime
from refeed.decoding import shipped_model
from refeed.text import GeneratedText, ModelSettings, TextGenerator, Tokenizer

BEGINNING = "Once upon a time"


def greedy(count: int) -> tuple[list[int], str]:
    """Return the tokens and the text that the shipped decoder goes on with, without any settings."""
    tokenizer = Tokenizer.beside(shipped_model())
    model = refeed.load(shipped_model())
    tokens = refeed.generate(model, tokenizer.encode(BEGINNING), max_new_tokens=count).tokens[0]
    return tokens, tokenizer.decode(tokens)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the shipped decoder, without settings."""
    source = pathlib.Path(shipped_model()).parent
    for name in ("model.onnx", "tokenizer.json"):
        shutil.copy(source / name, tmp_path / name)
    return tmp_path


def say(folder: pathlib.Path, **fields: Any) -> None:
    (folder / "generation_config.json").write_text(json.dumps(fields))


def test_texts_in_one_call(folder: pathlib.Path) -> None:
    tokens, text = greedy(20)
    for model in (folder, folder / "model.onnx", str(folder)):
        assert refeed.generate(model, BEGINNING, max_new_tokens=20) == GeneratedText(text, tokens, "length")
    loaded = refeed.load(folder / "model.onnx")
    for tokenizer in (folder, Tokenizer.beside(folder)):
        assert refeed.generate(loaded, BEGINNING, tokenizer=tokenizer, max_new_tokens=20).text == text
    with pytest.raises(refeed.ValueTypeError, match="tokenizer: expected one, or a path of a model"):
        refeed.generate(loaded, BEGINNING)
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
        refeed.generate(folder / "nowhere" / "model.onnx", BEGINNING)


def test_pieces_are_the_text(folder: pathlib.Path) -> None:
    tokens, text = greedy(30)
    generator = TextGenerator(folder, max_new_tokens=30)
    generator.append(BEGINNING)
    pieces = list(generator.stream())
    assert len(pieces) > 10
    assert "".join(pieces) == text
    assert generator.generator.tokens[0][-30:] == tokens


def test_arguments_that_are_none(folder: pathlib.Path) -> None:
    wrong: Any = 5
    with pytest.raises(TypeError, match="tokenizer: expected a Tokenizer or a path, got <class 'int'>"):
        refeed.generate(folder, BEGINNING, tokenizer=wrong)
    wrong = {"max_new_tokens": 1}
    for prompt in (BEGINNING, [1]):
        with pytest.raises(TypeError, match="options: expected GenerationOptions, got <class 'dict'>"):
            refeed.generate(folder, prompt, wrong)
    wrong = b"Once"
    with pytest.raises(TypeError, match="prompt: expected a str or token ids, got <class 'bytes'>"):
        refeed.generate(folder, wrong)


def test_log_probabilities(folder: pathlib.Path) -> None:
    made = refeed.generate(folder, BEGINNING, max_new_tokens=5, log_probabilities=True)
    ids = Tokenizer.beside(folder).encode(BEGINNING)
    want = refeed.generate(folder, ids, max_new_tokens=5, log_probabilities=True).log_probabilities
    assert want is not None
    assert made.log_probabilities == want[0]


def test_turns_go_on(folder: pathlib.Path) -> None:
    generator = TextGenerator(folder, max_new_tokens=8)
    generator.append(BEGINNING)
    first = generator.generate()
    generator.append(" and then")
    second = generator.generate()
    ids = [
        *generator.tokenizer.encode(BEGINNING),
        *first.tokens,
        *generator.tokenizer.encode(" and then", special=False),
    ]
    again = refeed.generate(refeed.load(folder / "model.onnx"), ids, max_new_tokens=8)
    assert again.tokens == [second.tokens]
    with pytest.raises(refeed.ValueTypeError, match="text: expected at least one token, got none from ''"):
        generator.append("")
    assert generator.generator.turns == [0, len(ids) - len(generator.tokenizer.encode(" and then", special=False))]


def test_stop_strings_of_the_file_end_a_text(folder: pathlib.Path) -> None:
    _, text = greedy(30)
    stop = text[12:16]
    say(folder, stop_strings=[stop, "never there"])
    made = refeed.generate(folder, BEGINNING, max_new_tokens=30)
    assert (made.text, made.finish_reason) == (text[: text.index(stop)], "stop")
    assert len(made.tokens) < 30
    generator = TextGenerator(folder, max_new_tokens=30)
    generator.append(BEGINNING)
    assert "".join(generator.stream()) == made.text
    assert refeed.generate(folder, BEGINNING, max_new_tokens=30, stop=text[3:6]).text == text[:3]
    # They can be replaced, and count for texts only.
    assert TextGenerator(folder, stop=[]).stop == ()
    ids = Tokenizer.beside(folder).encode(BEGINNING)
    assert len(refeed.generate(folder, ids, max_new_tokens=30).tokens[0]) == 30


def test_files_say_how_tokens_are_chosen(folder: pathlib.Path) -> None:
    say(folder, do_sample=True, temperature=0.9, top_k=7, top_p=0.8, max_new_tokens=5, repetition_penalty=1.3)
    ids = Tokenizer.beside(folder).encode(BEGINNING)
    model = refeed.load(folder / "model.onnx")
    options: dict[str, Any] = {"temperature": 0.9, "top_k": 7, "top_p": 0.8, "repetition_penalty": 1.3, "seed": 6}
    want = refeed.generate(model, ids, max_new_tokens=5, **options).tokens
    assert refeed.generate(folder, ids, seed=6).tokens == want
    assert refeed.generate(folder, BEGINNING, seed=6).tokens == want[0]
    assert want[0] != greedy(5)[0]
    # Fields win over the file, options replace all of it, and so do settings that say nothing.
    assert refeed.generate(folder, ids, seed=6, max_new_tokens=3).tokens == [want[0][:3]]
    plain = [greedy(20)[0]]
    assert refeed.generate(folder, ids, runtime.GenerationOptions()).tokens == plain
    assert refeed.generate(folder, ids, settings=ModelSettings()).tokens == plain
    assert refeed.generate(model, ids, settings=ModelSettings.beside(folder), seed=6).tokens == want


def test_what_a_callback_and_a_completion_stop(folder: pathlib.Path) -> None:
    generator = TextGenerator(folder)
    generator.append(BEGINNING)
    made = generator.generate(callback=lambda _token: False)
    assert (made.tokens, made.finish_reason) == (greedy(1)[0], "stop")
    cancelled = runtime.TaskCompletion()
    cancelled.cancel("no")
    made = generator.generate(completion=cancelled)
    assert (made.text, made.tokens, made.finish_reason) == ("", [], "cancelled")


@pytest.mark.parametrize("fields", [{"num_beams": 2}, {"num_return_sequences": 2, "temperature": 1.0}])
def test_a_text_is_one(folder: pathlib.Path, fields: dict[str, Any]) -> None:
    generator = TextGenerator(folder)
    generator.append(BEGINNING)
    for call in (generator.generate, generator.stream):
        with pytest.raises(refeed.ValueTypeError, match="expected 1 for a text, got 2"):
            call(**fields)
