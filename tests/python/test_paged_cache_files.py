"""Caches of every mix of formats, written, read in another process, and carried on: the same bits."""

import itertools
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import paged_reference
import pages as p
import pytest
import refeed
import structured as s
from refeed import onnx, runtime
from refeed.onnx import helper

NAMES = ["indices", "key_scale", "key_zero", "value_scale", "value_zero"]
#: Every pair of formats, twice, so that each format meets each layout as keys and as values.
FORMATS = [pair for pair in itertools.product(p.FORMATS, repeat=2) for _ in range(2)]
HEADS, KEY_WIDTH, VALUE_WIDTH = 3, 5, 3
OPERATORS = ("QuantizePagedCache", "PagedAttention")
KINDS = ("state", "cache")
#: Steps before the cache is written, and in all.
WRITTEN, STEPS = 3, 14


def quantizing() -> Any:
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
        # The format of the other side counts up within that of the keys, and the other way round.
        turns = [2 * p.FORMATS.index(other) + at % 2 for other in reversed(formats)]
        for part, name, width, turn in zip(("key", "value"), formats, (KEY_WIDTH, VALUE_WIDTH), turns, strict=True):
            layout = p.LAYOUTS[turn % len(p.LAYOUTS)]
            how = {"layout": layout, "zero": at % 4 < 2, "inferred": at % 3 == 0}
            p.fill(rng, block, part, (1, HEADS, capacity, width), name, **how)
    return cache


def test_the_mixed_cache_has_every_pair_of_formats_and_every_layout() -> None:
    blocks = mixed().blocks
    pairs = {(p.format_of(block, "key"), p.format_of(block, "value")) for block in blocks}
    assert pairs == set(itertools.product(p.FORMATS, repeat=2))
    assert len(p.FORMATS) == 9
    for part in ("key", "value"):
        found = set()
        for block in blocks:
            name = p.format_of(block, part)
            if name in p.CODES:
                affine = p.payload(block, part).affine
                axis, size = (getattr(affine, f) if affine.HasField(f) else None for f in ("axis", "block_size"))
                found.add((name, p.Layout(axis, size)))
        assert found == set(itertools.product(p.CODES, p.LAYOUTS))


def attending() -> Any:
    """Each step attends to all pages and adds one or two."""
    return paged_reference.model(block_size=5, max_tokens=10_000)


MODELS = {"QuantizePagedCache": quantizing, "PagedAttention": attending}


def selected(_key: Any, _value: Any, retained: int) -> Any:
    """Formats of new pages that follow from the number of tokens alone."""
    forms = [runtime.PageFormat(storage, 0.01) for storage in p.CODES.values()]
    forms += [runtime.PageFormat(storage) for storage in p.DENSE.values()]
    return forms[retained % 9], forms[retained // 2 % 9]


def feeds(operator: str, index: int) -> dict[str, Any]:
    if operator == "QuantizePagedCache":
        return {"indices": np.array([index, 7 * index + 14])}
    rng = np.random.default_rng(index)
    length = 1 + 6 * (index % 3 == 1)

    def rows(heads: int, width: int) -> Any:
        return rng.uniform(-1, 1, (1, heads, length, width)).astype(np.float32)

    return {"Q": rows(2 * HEADS, KEY_WIDTH), "K": rows(HEADS, KEY_WIDTH), "V": rows(HEADS, VALUE_WIDTH)}


def steps(state: Any, operator: str, first: int, last: int) -> tuple[bytes, bytes]:
    """What steps from `first` on give: the numbers of each, and the cache of the last."""
    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context, format_selector=selected)
    numbers = b""
    for index in range(first, last):
        result = state.run(context, feeds(operator, index))
        if "Y" in result:
            numbers += result["Y"].numpy().tobytes()
    return numbers, result["present"].SerializeToString()


def carry_on(folder: str) -> None:
    """What the other process does: goes on from each file."""
    for operator, kind in itertools.product(OPERATORS, KINDS):
        case = pathlib.Path(folder) / operator
        model = refeed.load(case / "model.onnx")
        if kind == "state":
            state = refeed.PersistentValueState.from_file(model, case / kind)
        else:
            cache = onnx.PagedCacheProto()
            cache.ParseFromFile(str(case / kind))
            state = refeed.PersistentValueState(model, {"past": cache})
        numbers, present = steps(state, operator, WRITTEN, STEPS)
        (case / f"{kind}.numbers").write_bytes(numbers)
        (case / f"{kind}.present").write_bytes(present)


@pytest.fixture(scope="module")
def carried(tmp_path_factory: Any) -> Any:
    """Files of the other process, and what the uninterrupted states gave."""
    folder, expected = tmp_path_factory.mktemp("carried"), {}
    for operator in OPERATORS:
        case = folder / operator
        case.mkdir()
        made = MODELS[operator]()
        refeed.load(made).save(case / "model.onnx")
        state = refeed.PersistentValueState(made, {"past": mixed()})
        _, written = steps(state, operator, 0, WRITTEN)
        state.save(case / "state")
        (case / "cache").write_bytes(written)
        expected[operator] = steps(state, operator, WRITTEN, STEPS)
    code = "import sys, test_paged_cache_files as other; other.carry_on(sys.argv[1])"
    here = pathlib.Path(__file__).parent
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, cwd=here)  # noqa: S603 - our own code
    return folder, expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_cache_of_every_mix_carries_on_in_another_process(carried: Any, operator: str, kind: str) -> None:
    """Rule 6.2.10."""
    folder, expected = carried
    numbers, present = ((folder / operator / f"{kind}.{part}").read_bytes() for part in ("numbers", "present"))
    assert numbers == expected[operator][0]
    assert bool(numbers) == (operator == "PagedAttention")
    got, wanted = onnx.PagedCacheProto(), onnx.PagedCacheProto()
    got.ParseFromString(present)
    wanted.ParseFromString(expected[operator][1])
    # Steps of several tokens make two pages.
    added = 0 if operator == "QuantizePagedCache" else STEPS + sum(index % 3 == 1 for index in range(STEPS))
    assert len(got.blocks) == len(wanted.blocks) == len(FORMATS) + added
    for one, other in zip(got.blocks, wanted.blocks, strict=True):
        for part in ("key", "value"):
            assert p.format_of(one, part) == p.format_of(other, part)
            assert p.payload(one, part).raw_data == p.payload(other, part).raw_data
            np.testing.assert_array_equal(p.decoded(one, part), p.decoded(other, part))
        assert (one.start, one.length) == (other.start, other.length)
    assert present == expected[operator][1]


def test_serialised_caches_keep_each_payloads_format() -> None:
    """Rule 6.2.10; S225, S228, S287."""
    cache = mixed()
    again = onnx.PagedCacheProto()
    again.ParseFromString(cache.SerializeToString())
    assert again == cache
    del cache
    state = refeed.PersistentValueState(quantizing(), {"past": again})
    back = state.values["past"]
    assert [(p.format_of(b, "key"), p.format_of(b, "value")) for b in back.blocks] == FORMATS


def test_a_returned_cache_is_the_default_of_a_new_model() -> None:
    """Rule 6.2.10; S238."""
    state = refeed.PersistentValueState(quantizing(), {"past": mixed()})
    first = state.run({"indices": np.array([3])})["present"]
    expected = state.run({"indices": np.array([5])})["present"]
    state.close()
    first.name = "past"
    again = quantizing()
    again.graph.paged_cache_initializer.append(first)
    assert refeed.PersistentValueState(again, {}).run({"indices": np.array([5])})["present"] == expected
