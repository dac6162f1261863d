"""Stored references of real exported models, through the state.

The references were made with onnxruntime; the manifest beside them says how, and within what tolerance they hold.
"""

import json
import pathlib
from typing import Any

import numpy as np
import pytest
import refeed
from refeed import runtime

MODELS = pathlib.Path(__file__).resolve().parents[1] / "data" / "models"
CASES: list[dict[str, Any]] = json.loads((MODELS / "manifest.json").read_text())["cases"]
REFERENCES = [(case, reference) for case in CASES for reference in case["refs"]]
# Elements of 16 bits.
HALF = {"mobius_phi3_f16"}
# Caches of codes: a difference of rounding in the last place may make another code.
CODED = {"genai_llama_fp32_kvint8"}
# The runtime that made the references rounds the inputs of these products to 8 bits.
COARSE = {"genai_qwen3_int4_qdq"}

EXPECTED = {
    "dynamo18_llama",
    "dynamo20_phi3",
    "dynamo23_llama",
    "genai_llama_fp32",
    "genai_llama_fp32_kvint8",
    "genai_llama_int4",
    "genai_llama_int4_asym16",
    "genai_mistral_int8",
    "genai_qwen35_fp32",
    "genai_qwen3_int4_qdq",
    "mobius_llama",
    "mobius_llama_static",
    "mobius_phi3_f16",
    "optimum_gpt2",
    "optimum_llama",
    "optimum_t5_merged",
    "optimum_t5_withpast",
    "real_silero_16k_op15",
    "ts13_streamenc",
    "ts15_rnnt",
    "ts16_convgru",
    "ts17_lstmlm",
    "ts17_mamba",
}


def test_the_cases_are_there() -> None:
    assert {case["name"] for case in CASES} == EXPECTED
    assert all((MODELS / case["dir"] / reference["file"]).is_file() for case, reference in REFERENCES)
    assert len(REFERENCES) == 45


def _publish(case: dict[str, Any]) -> dict[str, Any]:
    if not case.get("publish"):
        return {}
    return {"publish": {past: "always" if ".decoder." in past else "once" for past, _ in case["pairs"]}}


@pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")
@pytest.mark.parametrize(
    ("case", "reference"), REFERENCES, ids=[f"{case['name']}-{ref['file']}" for case, ref in REFERENCES]
)
def test_every_stored_output_holds(case: dict[str, Any], reference: dict[str, Any]) -> None:
    folder = MODELS / case["dir"]
    loaded = np.load(folder / reference["file"])
    stored = {key: loaded[key] for key in loaded.files}
    if "exact" in reference:
        # The same without that rounding.
        exact = np.load(folder / reference["exact"])
        stored |= {key: exact[key] for key in exact.files}
    pairs = [(past, present) for past, present in case["pairs"]]
    model, report = refeed.bind(folder / case["model"], pairs=pairs, uses="any", **_publish(case))
    assert len(report.pairs) == len(pairs)
    initial = {key.removeprefix("init/"): stored[key] for key in stored if key.startswith("init/")}
    state = runtime.PersistentValueState(model, initial)
    context = runtime.RuntimeContext()
    states = {present for _, present in pairs}
    feeds: dict[str, Any] = {}
    compared = 0
    for step in range(reference["steps"]):
        head = f"step{step}/in/"
        feeds |= {key.removeprefix(head): stored[key] for key in stored if key.startswith(head)}
        outputs = state.run(context, feeds)
        mask = feeds.get("attention_mask")
        padded = mask is not None and bool((mask == 0).any())
        for key in stored:
            if not key.startswith(f"step{step}/out/"):
                continue
            name = key.removeprefix(f"step{step}/out/")
            if padded and name in states:
                # What lies in a slot that the mask hides is the runtime's own business.
                continue
            got, want = np.from_dlpack(outputs[name]), stored[key]
            assert got.shape == want.shape, (step, name)
            assert got.dtype == want.dtype, (step, name)
            if padded and mask is not None and got.ndim == 3 and got.shape[1] == mask.shape[1]:
                rows = mask.astype(bool)
                got, want = got[rows], want[rows]
            told = f"step {step} {name}"
            if case["name"] in CODED | COARSE | HALF:
                share = 5e-3 if case["name"] in HALF else 5e-2
                limit = 1 if got.dtype == np.int8 else share * float(np.abs(want).max(initial=0))
                got, want = got.astype(np.float64), want.astype(np.float64)
                np.testing.assert_allclose(got, want, rtol=0, atol=limit, err_msg=told)
            else:
                np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4, err_msg=told)
            compared += 1
        following = f"step{step + 1}/in/input_ids"
        if (
            "tokens" in reference
            and "exact" not in reference
            and following in stored
            and stored[following].shape[1] == 1
        ):
            # Greedy: what is fed next is the most probable token of this step.
            last = outputs["logits"].numpy()[:, -1].argmax(axis=-1)
            np.testing.assert_array_equal(last, stored[following][:, 0], err_msg=f"step {step}")
    assert compared >= reference["steps"]
