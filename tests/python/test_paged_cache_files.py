"""Caches of every mix of formats, written, read in another process, and carried on: the same bits."""

import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pages as p
import pytest
import refeed
import structured as s
from refeed import onnx
from refeed.onnx import helper

NAMES = ["indices", "key_scale", "key_zero", "value_scale", "value_zero"]
FORMATS = [(key, value) for at, key in enumerate(p.FORMATS) for value in (p.FORMATS[at - 1], p.FORMATS[at - 4])]

CARRY_ON = """
import sys, pathlib
import numpy as np
import refeed
from refeed import onnx

model, given, kind, out = sys.argv[1:]
if kind == "state":
    state = refeed.PersistentValueState.from_file(refeed.load(model), given)
else:
    cache = onnx.PagedCacheProto()
    cache.ParseFromFile(given)
    state = refeed.PersistentValueState(refeed.load(model), {"past": cache})
for index in (1, 2):
    result = state.run({"indices": np.array([index])})
pathlib.Path(out).write_bytes(result["present"].SerializeToString())
"""


def model() -> Any:
    """Each step converts the pages that are chosen, keys to UINT4 and values to FLOAT16."""
    node = helper.make_node("QuantizePagedCache", ["past", *NAMES], ["present"], domain="ai.rt")
    graph = helper.make_graph(
        [node],
        "test",
        [helper.make_value_info("past", s.any_cache()), helper.make_tensor_value_info("indices", 7, ["n"])],
        [helper.make_value_info("present", s.any_cache())],
        initializer=[
            helper.make_tensor("key_scale", 1, [], [0.07]),
            helper.make_tensor("key_zero", p.CODES["UINT4"], [], [9]),
            helper.make_tensor("value_scale", 1, [], [1]),
            helper.make_tensor("value_zero", p.FLOAT16, [], [0]),
        ],
    )
    binding = graph.persistent_bindings.add()
    binding.input_name, binding.output_name = "past", "present"
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("ai.rt", 1)], ir_version=10
    )


def mixed() -> Any:
    """Every pair of formats, in every layout, on pages of different capacities."""
    rng = np.random.default_rng(0)
    cache = onnx.PagedCacheProto()
    for at, formats in enumerate(FORMATS):
        capacity = 1 + at % 5
        block = p.add_page(cache, 1 + at % capacity)
        for part, name, width in zip(("key", "value"), formats, (5, 3), strict=True):
            layout = p.LAYOUTS[at % len(p.LAYOUTS)]
            how = {"layout": layout, "zero": at % 2 == 0, "inferred": at % 3 == 0}
            p.fill(rng, block, part, (1, 3, capacity, width), name, **how)
    return cache


@pytest.mark.parametrize("kind", ["state", "cache"])
def test_a_cache_of_every_mix_carries_on_in_another_process(kind: str, tmp_path: pathlib.Path) -> None:
    """Rule 6.2.10."""
    made, cache = model(), mixed()
    state = refeed.PersistentValueState(made, {"past": cache})
    first = state.run({"indices": np.array([0, 4])})["present"]
    given, model_file, out = (tmp_path / name for name in ("given", "model.onnx", "out"))
    refeed.load(made).save(model_file)
    if kind == "state":
        state.save(given)
    else:
        first.SerializeToFile(str(given))
    for index in (1, 2):
        expected = state.run({"indices": np.array([index])})["present"]
    subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", CARRY_ON, str(model_file), str(given), kind, str(out)], check=True
    )
    got = onnx.PagedCacheProto()
    got.ParseFromString(out.read_bytes())
    assert len(got.blocks) == len(expected.blocks) == len(FORMATS)
    for one, other in zip(got.blocks, expected.blocks, strict=True):
        for part in ("key", "value"):
            assert p.format_of(one, part) == p.format_of(other, part)
            assert p.payload(one, part).raw_data == p.payload(other, part).raw_data
            np.testing.assert_array_equal(p.decoded(one, part), p.decoded(other, part))
        assert (one.start, one.length) == (other.start, other.length)


def test_serialised_caches_keep_each_payloads_format() -> None:
    """Rule 6.2.10; S225, S228, S287."""
    cache = mixed()
    again = onnx.PagedCacheProto()
    again.ParseFromString(cache.SerializeToString())
    assert again == cache
    del cache
    state = refeed.PersistentValueState(model(), {"past": again})
    back = state.values["past"]
    assert [(p.format_of(b, "key"), p.format_of(b, "value")) for b in back.blocks] == FORMATS


def test_a_returned_cache_is_the_default_of_a_new_model() -> None:
    """Rule 6.2.10; S238."""
    state = refeed.PersistentValueState(model(), {"past": mixed()})
    first = state.run({"indices": np.array([3])})["present"]
    expected = state.run({"indices": np.array([5])})["present"]
    state.close()
    first.name = "past"
    again = model()
    again.graph.paged_cache_initializer.append(first)
    assert refeed.PersistentValueState(again, {}).run({"indices": np.array([5])})["present"] == expected
