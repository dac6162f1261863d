"""Tokenizers beside models: those that the `tokenizers` package trains here, held to its own answers."""

import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import pytest
import refeed
import tokenizers
from refeed.decoding import shipped_model
from refeed.text import ChatTemplate, TextStream, Tokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXTS = ["Once upon a time there was an otter.", "Zażółć gęślą jaźń", "naïve 🦦 otter, 3 €", " two  spaces\n", ""]


def byte_level() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=alphabet, special_tokens=["<s>", "</s>"], show_progress=False
    )
    made.train_from_iterator(TEXTS * 3, trainer)
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return made


def pieces() -> tokenizers.Tokenizer:
    """As of sentence pieces: the first word's space is not written."""
    made = tokenizers.Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))  # noqa: S106
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=340, special_tokens=["<unk>", *fallback], limit_alphabet=30, show_progress=False
    )
    made.train_from_iterator(TEXTS[:1] * 3, trainer)
    # The bytes are ordinary tokens, not special ones.
    parsed = json.loads(made.to_str())
    parsed["added_tokens"] = parsed["added_tokens"][:1]
    return tokenizers.Tokenizer.from_str(json.dumps(parsed))


@pytest.fixture(params=[byte_level, pieces], ids=lambda make: str(make.__name__))
def official(request: pytest.FixtureRequest) -> tokenizers.Tokenizer:
    made: tokenizers.Tokenizer = request.param()
    return made


def beside(folder: pathlib.Path, official: tokenizers.Tokenizer) -> Tokenizer:
    official.save(str(folder / "tokenizer.json"))
    return Tokenizer.beside(folder / "model.onnx")


@pytest.mark.parametrize("text", TEXTS)
def test_ids_and_texts_are_the_packages(text: str, official: tokenizers.Tokenizer, tmp_path: pathlib.Path) -> None:
    ours = beside(tmp_path, official)
    assert ours.vocabulary_size == official.get_vocab_size()
    for special in (True, False):
        ids = official.encode(text, add_special_tokens=special).ids
        assert ours.encode(text, special=special) == ids
        assert ours.decode(ids) == official.decode(ids)
        assert ours.decode(ids, special=True) == official.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("text", TEXTS)
def test_a_stream_of_tokens_is_the_text(text: str, official: tokenizers.Tokenizer, tmp_path: pathlib.Path) -> None:
    ours = beside(tmp_path, official)
    ids = ours.encode(text, special=False)
    whole = ours.decode(ids)
    for begin in range(len(ids) + 1):
        stream = TextStream(ours, prompt=ids[:begin])
        shown = "".join(stream.push(token) for token in ids[begin:]) + stream.finish()
        head = ours.decode(ids[:begin])
        if not head.endswith("\N{REPLACEMENT CHARACTER}"):
            assert head + shown == whole


def test_tokens_by_name(tmp_path: pathlib.Path) -> None:
    ours = beside(tmp_path, byte_level())
    assert ours.token_id("</s>") == 1
    assert ours.token_id("nothing like this") is None
    assert ours.encode("a</s>")[-1] == 1


def test_a_conversation_is_encoded_as_its_template_writes_it(tmp_path: pathlib.Path) -> None:
    settings = {
        "chat_template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}",
        "bos_token": "<s>",
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    ours = beside(tmp_path, byte_level())
    ids = ours.encode_chat([{"role": "user", "content": "an otter"}])
    # The template has written the first token; it is not added again.
    assert ids == [0, *ours.encode("an otter", special=False)]


def test_files_that_hold_no_tokenizer(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
        Tokenizer.beside(tmp_path)
    for content in (b"", b"{}", b"\xff\x00", b'{"model": {"type": "BPE"}}'):
        (tmp_path / "tokenizer.json").write_bytes(content)
        with pytest.raises(refeed.ValueTypeError, match="expected a tokenizer"):
            Tokenizer.beside(tmp_path)


def test_what_cannot_be_encoded_or_decoded(tmp_path: pathlib.Path) -> None:
    ours = beside(tmp_path, byte_level())
    with pytest.raises(refeed.ValueTypeError, match="text"):
        ours.encode("\ud800")
    for ids in ([-1], [1 << 40], ["a"]):
        with pytest.raises(refeed.ValueTypeError, match="ids"):
            ours.decode(ids)  # type: ignore[arg-type]
    # A model may have more outputs than its tokenizer has tokens.
    assert ours.decode([10_000]) == ""


@pytest.mark.parametrize(("package", "make"), [("tokenizers", Tokenizer), ("jinja2", ChatTemplate)])
def test_a_package_that_is_not_installed_is_named(
    package: str, make: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [*sys.modules]:
        if name.partition(".")[0] == package:
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"`{package}`.*refeed\[text\]"):
        make("x")


def test_texts_that_are_none() -> None:
    wrong: Any
    for wrong in (5, None, b"bytes"):
        with pytest.raises(TypeError, match="text: expected a str, got <class"):
            Tokenizer.beside(shipped_model()).encode(wrong)
    with pytest.raises(refeed.ValueTypeError, match=r"expected Unicode, got .* at place 2"):
        Tokenizer.beside(shipped_model()).encode("ab\ud800")
    stream = TextStream(Tokenizer.beside(shipped_model()))
    wrong = "a"
    with pytest.raises(TypeError):
        stream.push(wrong)
    # Nothing of it stays.
    assert stream.push(490) + stream.finish() == Tokenizer.beside(shipped_model()).decode([490])
