"""The model that the package ships, and the text that it learnt from."""

import importlib.util
import itertools
import json
import pathlib
import re
from typing import Any

import numpy as np
import onnx
import pytest
import refeed
import tokenizers
from refeed.decoding import shipped_model


@pytest.fixture(scope="module")
def folder(root: pathlib.Path) -> pathlib.Path:
    return root / "python" / "refeed" / "data" / "demo"


@pytest.fixture(scope="module")
def corpus(root: pathlib.Path) -> Any:
    spec = importlib.util.spec_from_file_location("corpus", root / "training" / "corpus.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_small_and_whole(folder: pathlib.Path) -> None:
    installed = pathlib.Path(shipped_model()).parent
    for file in folder.iterdir():
        assert (installed / file.name).read_bytes() == file.read_bytes()
    assert sum(file.stat().st_size for file in folder.iterdir()) < 2_000_000
    onnx.checker.check_model(str(folder / "model.onnx"), full_check=True)
    model = refeed.load(folder / "model.onnx")
    pasts = [value.name for value in model.inputs if value.name.startswith("past")]
    assert [binding.input for binding in model.bindings] == sorted(pasts, key=lambda name: (name[-3:] != "key", name))
    assert model.binding_uses == "one"
    assert not model.warnings


def test_its_settings_agree(folder: pathlib.Path) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    end = json.loads((folder / "tokenizer_config.json").read_text())["eos_token"]
    settings = json.loads((folder / "generation_config.json").read_text())
    assert tokenizer.token_to_id(end) == settings["eos_token_id"]
    outputs = {value.name: value.shape for value in refeed.load(folder / "model.onnx").outputs}
    assert outputs["logits"] == ("batch", "length", tokenizer.get_vocab_size())


def test_it_knows_its_text(folder: pathlib.Path, corpus: Any) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    state = refeed.Generator(folder / "model.onnx")
    session = refeed.RuntimeSession(state.model)
    empty = {name: np.asarray(value) for name, value in refeed.runtime.empty_caches(state.model).items()}
    losses = []
    # Documents that training has not seen.
    for document in itertools.islice(corpus.documents(123), 12):
        ids = np.array([[0, *tokenizer.encode(document, add_special_tokens=False).ids]])[:, :384]
        length = ids.shape[1] - 1
        feeds = {"input_ids": ids[:, :-1], "attention_mask": np.ones((1, length), np.int64)}
        feeds["position_ids"] = np.arange(length)[None]
        logits = session.run({**feeds, **empty})["logits"].numpy()[0].astype(np.float64)
        logits -= logits.max(-1, keepdims=True)
        chosen = np.take_along_axis(logits, ids[0, 1:, None], -1)[:, 0]
        losses.append((np.log(np.exp(logits).sum(-1)) - chosen).mean())
    # Noise has ln 640 = 6.46.
    assert np.mean(losses) < 0.6


def test_the_text_is_the_same_each_time_and_true_to_itself(corpus: Any) -> None:
    first, second = (list(itertools.islice(corpus.documents(5), 200)) for _ in range(2))
    assert first == second
    assert first != list(itertools.islice(corpus.documents(6), 200))
    asked = 0
    for document in first:
        assert document.endswith(corpus.END)
        assert "{" not in document
        # Whom a question names has been named before.
        for name in re.findall(r"<\|user\|>Who was (\w+)\?", document):
            asked += 1
            assert name in document[: document.index(f"Who was {name}?")]
    assert asked > 10
