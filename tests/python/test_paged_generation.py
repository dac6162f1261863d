"""Text from models whose caches are in pages: no mask reaches those, so padding must never be fed."""

import pathlib
from typing import Any

import numpy as np
import pytest
import refeed
from refeed import runtime
from refeed.decoding import shipped_model

MODELS = pathlib.Path(__file__).resolve().parents[1] / "data" / "models"
UNEQUAL = [[1, 2, 3, 4, 5], [6], [7, 8, 9]]
EQUAL = [[1, 2, 3], [6, 5, 4]]


def dense_model(name: str) -> Any:
    if name == "shipped":
        return refeed.load(shipped_model())
    return refeed.bind(MODELS / name / "model.onnx", patterns="known", uses="any")[0]


def steps(model: Any) -> list[dict[str, Any]]:
    made, past = [], 0
    for length in (5, 1, 3):
        feeds = {
            "input_ids": np.arange(1, length + 1)[None],
            "attention_mask": np.ones((1, past + length), np.int64),
            "position_ids": np.arange(past, past + length)[None],
        }
        made.append({info.name: feeds[info.name] for info in model.inputs if info.name in feeds})
        past += length
    return made


def paged_and_context(dense: Any, **options: Any) -> tuple[Any, runtime.RuntimeContext]:
    paged, _ = refeed.page(dense, padded=False, check=steps(dense), block_size=4)
    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context, **options)
    return paged, context


OPTIONS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.8, "seed": 3},
    {"num_beams": 3},
    {"num_return_sequences": 2, "temperature": 1.2, "seed": 5},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("prompts", [UNEQUAL, EQUAL, UNEQUAL[:1]])
@pytest.mark.parametrize("name", ["shipped", "mobius_llama", "genai_llama_fp32"])
@pytest.mark.parametrize("policy", ["sealed", "fill"])
def test_prompts_give_what_the_dense_model_gives(
    name: str, prompts: list[list[int]], options: dict[str, Any], policy: str
) -> None:
    dense = dense_model(name)
    paged, context = paged_and_context(dense, partial_blocks=policy)
    want = refeed.generate(dense, prompts, max_new_tokens=6, **options)
    got = refeed.generate(paged, prompts, max_new_tokens=6, context=context, **options)
    assert got.tokens == want.tokens


@pytest.mark.parametrize("name", ["shipped", "genai_llama_fp32"])
def test_padding_that_is_fed_is_left_out(name: str) -> None:
    """The native call takes a mask with zeros in front."""
    dense = dense_model(name)
    paged, context = paged_and_context(dense)
    ids, mask = np.zeros((3, 5), np.int64), np.zeros((3, 5), np.int64)
    for row, prompt in enumerate(UNEQUAL):
        ids[row, 5 - len(prompt) :], mask[row, 5 - len(prompt) :] = prompt, 1
    options = runtime.GenerationOptions(max_new_tokens=6)
    feeds: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
    feeds |= runtime.empty_caches(paged, 3)
    got = runtime.generate(paged, context, feeds, options).numpy()[:, 5:].tolist()
    assert got == refeed.generate(dense, UNEQUAL, max_new_tokens=6).tokens


def test_a_generator_goes_on_with_rows_of_unequal_length() -> None:
    dense = dense_model("shipped")
    paged, context = paged_and_context(dense)
    said = []
    for model, own in ((dense, None), (paged, context)):
        generator = runtime.Generator(model, context=own)
        generator.append(UNEQUAL)
        first = generator.generate(max_new_tokens=4).tokens
        second = generator.generate(max_new_tokens=3).tokens
        fork = generator.fork(1)
        fork.append([3, 4, 5])
        third = fork.generate(max_new_tokens=4).tokens
        fork.rewind(1)
        said.append((first, second, third, fork.generate(max_new_tokens=3).tokens, generator.tokens))
    assert said[0] == said[1]
