"""Greedy tokens of the exported decoders against their stored references, whichever way they are generated.

A decoder joins by its entry in the manifest of `tests/data/models`.
"""

import json
import pathlib
from typing import Any

import numpy as np
import pytest
import refeed
from refeed import runtime

Array = np.ndarray[Any, Any]
DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "models"
CASES: list[dict[str, Any]] = json.loads((DATA / "manifest.json").read_text())["cases"]
DECODERS = [(case, ref) for case in CASES for ref in case["refs"] if "tokens" in ref]
pytestmark = pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")


def bound(case: dict[str, Any]) -> refeed.Model:
    model, _ = refeed.bind(DATA / case["dir"] / case["model"], pairs=list(map(tuple, case["pairs"])), uses="any")
    return model


def stored(case: dict[str, Any], ref: dict[str, Any]) -> tuple[Array, Array, Array]:
    """Return the prompt, its mask, and the tokens that follow greedily.

    Where the runtime that made a reference rounds the inputs of products to 8 bits, another file has the logits without
    that; the tokens end with the first one that differs then from what was fed.
    """
    arrays: dict[str, Array] = {}
    for name in ("file", "exact"):
        if name in ref:
            with np.load(DATA / case["dir"] / ref[name]) as file:
                arrays |= {key: file[key] for key in file.files}
    fed = [arrays[f"step{step}/in/input_ids"] for step in range(ref["steps"])]
    # A prompt in pieces is fed by steps of more than one token.
    pieces = next((at for at, step in enumerate(fed) if at and step.shape[1] == 1), len(fed))
    prompt = np.concatenate(fed[:pieces], 1)
    mask = np.ones_like(prompt)
    if "step0/in/attention_mask" in arrays and pieces == 1:
        mask = arrays["step0/in/attention_mask"].astype(np.int64)
    tokens: list[Array] = []
    for step in range(pieces - 1, ref["steps"]):
        logits = arrays[f"step{step}/out/logits"]
        tokens.append((logits[:, -1] if logits.ndim == 3 else logits).argmax(-1)[:, None])
        if step + 1 < ref["steps"] and (tokens[-1] != fed[step + 1]).any():
            assert "exact" in ref
            break
    return prompt.astype(np.int64), mask, np.concatenate(tokens, 1).astype(np.int64)


@pytest.mark.parametrize(("case", "ref"), DECODERS, ids=[f"{case['name']}-{ref['file']}" for case, ref in DECODERS])
class TestStoredReferences:
    """Batch 1, a prompt in pieces, a batch of 2, which is padded where the reference is."""

    def test_native_call_with_and_without_bindings(self, case: dict[str, Any], ref: dict[str, Any]) -> None:
        prompt, mask, want = stored(case, ref)
        model = bound(case)
        names = [value.name for value in model.inputs]
        feeds: dict[str, Any] = {"input_ids": prompt, **runtime.empty_caches(model, len(prompt))}
        if "attention_mask" in names:
            feeds["attention_mask"] = mask
        options = runtime.GenerationOptions(max_new_tokens=want.shape[1])
        made = runtime.generate(model, runtime.RuntimeContext(), feeds, options).numpy()
        np.testing.assert_array_equal(made[:, prompt.shape[1] :], want)
        # Without bindings the caches stay empty and the whole prefix is evaluated at every step.
        plain = refeed.load(DATA / case["dir"] / case["model"])
        again = runtime.generate(plain, runtime.RuntimeContext(), feeds, options).numpy()
        np.testing.assert_array_equal(again, made)

    @pytest.mark.parametrize("chunk", [None, 1, 3])
    def test_generator_in_pieces(self, case: dict[str, Any], ref: dict[str, Any], chunk: int | None) -> None:
        prompt, mask, want = stored(case, ref)
        rows = [row[seen.astype(bool)].tolist() for row, seen in zip(prompt, mask, strict=True)]
        made = refeed.generate(bound(case), rows, max_new_tokens=want.shape[1], prefill_chunk=chunk)
        assert made.tokens == want.tolist()
        assert made.finish_reasons == ["length"] * len(rows)


ALONE = [(case, ref) for case, ref in DECODERS if ref["file"] == "ref_b1.npz"]


@pytest.mark.parametrize(("case", "ref"), ALONE, ids=[case["name"] for case, _ in ALONE])
class TestUnequalPrompts:
    """Prompts of one batch that are not equally long, beside each alone; the longest one is the reference's."""

    def prompts(self, case: dict[str, Any], ref: dict[str, Any]) -> tuple[list[list[int]], list[int]]:
        prompt, _, want = stored(case, ref)
        whole = prompt[0].tolist()
        return [whole[:2], whole, whole[1:]], want[0].tolist()

    def test_as_each_alone(self, case: dict[str, Any], ref: dict[str, Any]) -> None:
        prompts, want = self.prompts(case, ref)
        model = bound(case)
        made = refeed.generate(model, prompts, max_new_tokens=len(want))
        assert made.rows == [0, 1, 2]
        assert made.tokens[1] == want
        assert made.tokens == [refeed.generate(model, row, max_new_tokens=len(want)).tokens[0] for row in prompts]

    def test_padded_for_the_native_call(self, case: dict[str, Any], ref: dict[str, Any]) -> None:
        prompts, want = self.prompts(case, ref)
        model = bound(case)
        if "attention_mask" not in [value.name for value in model.inputs]:
            pytest.skip("the model has no mask")
        width = max(map(len, prompts))
        feeds = {
            "input_ids": np.array([[0] * (width - len(row)) + row for row in prompts]),
            "attention_mask": np.array([[0] * (width - len(row)) + [1] * len(row) for row in prompts]),
            **runtime.empty_caches(model, len(prompts)),
        }
        options = runtime.GenerationOptions(max_new_tokens=len(want))
        alone = [refeed.generate(model, row, options).tokens[0] for row in prompts]
        assert alone[1] == want
        plain = refeed.load(DATA / case["dir"] / case["model"])
        for given in (model, plain):
            made = runtime.generate(given, runtime.RuntimeContext(), feeds, options).numpy()
            np.testing.assert_array_equal(made[:, :width], feeds["input_ids"])
            assert made[:, width:].tolist() == alone

    def test_rows_that_end_wait_and_go_on(self, case: dict[str, Any], ref: dict[str, Any]) -> None:
        """A row that ends before the others is not evaluated again, and goes on as it would have alone."""
        prompts, want = self.prompts(case, ref)
        model = bound(case)
        for batch in (prompts, [prompts[1], prompts[1][::-1]]):
            alone = [refeed.generate(model, row, max_new_tokens=len(want) + 2).tokens[0] for row in batch]
            end = alone[1][1]
            cut = [row[: row.index(end) + 1] if end in row[: len(want)] else row[: len(want)] for row in alone]
            generator = runtime.Generator(model)
            generator.append(batch)
            first = generator.generate(max_new_tokens=len(want), eos_token_id=end, drop_finished=False)
            assert first.tokens == cut
            second = generator.generate(max_new_tokens=2, drop_finished=False)
            assert second.rows == list(range(len(batch)))
            assert second.tokens == [row[len(one) :][:2] for row, one in zip(alone, cut, strict=True)]


def test_a_recurrent_model_in_steps_of_one_token() -> None:
    """Mamba as it is exported takes a token at a time."""
    case = next(case for case in CASES if case["name"] == "ts17_mamba")
    with np.load(DATA / case["dir"] / "ref_b1.npz") as file:
        fed = [int(file[f"step{step}/in/input_ids"][0, 0]) for step in range(8)]
        want = [int(file[f"step{step}/out/logits"][0, -1].argmax()) for step in range(2, 8)]
    assert fed[3:] == want[:-1]
    for chunk in (None, 1):
        assert refeed.generate(bound(case), fed[:3], max_new_tokens=6, prefill_chunk=chunk).tokens == [want]
