"""The rules of paged caches, one test a rule, and caches with one fault each."""

import collections
import os
from typing import Any

import cache_faults
import numpy as np
import pages as p
import pytest
import refeed
import structured as s
from refeed import onnx
from refeed.onnx.verify import verify_model
from refeed.runtime import RuntimeContext

#: Faulty caches of a run; `make caches` sets 20,000.
CACHES = int(os.environ.get("REFEED_CACHES", "1500"))


def initializer(cache: Any) -> Any:
    """A model with the cache as the default of its one input."""
    named = onnx.PagedCacheProto()
    named.CopyFrom(cache)
    named.name = "past"
    return s.keep(s.any_cache(), paged_cache_initializer=[named])


def taken(cache: Any) -> Any:
    context = RuntimeContext()
    context.put_value("cache", cache)
    return context.get_value("cache")


def test_6_2_caches_with_one_fault_each_are_refused_and_name_it() -> None:
    """Rules 6.2.2, 6.2.3, 6.2.4, 6.2.5, 6.2.6, 6.2.9; S230, S271."""
    rng = np.random.default_rng(20261130)
    told: collections.Counter[str] = collections.Counter()
    tries = 0
    while sum(told.values()) < CACHES:
        fault = cache_faults.FAULTS[tries % len(cache_faults.FAULTS)]
        tries += 1
        small = fault is cache_faults.storage_is_ambiguous
        extents = {"batch": 1, "heads": 1, "capacity": 1, "key_width": 1, "value_width": 1} if small else {}
        cache = p.random_cache(rng, None, list(p.CODES) if rng.random() < 0.5 else None, **extents)
        if tries % 16 == 0:
            taken(cache)
        part = cache_faults.PARTS[int(rng.integers(2))]
        place = fault(cache_faults.Spot(rng, cache, int(rng.integers(len(cache.blocks))), part))
        if place is None:
            continue
        with pytest.raises(refeed.ValueTypeError, match=place):
            taken(cache)
        if tries % 8 == 0:
            model = initializer(cache)
            with pytest.raises(refeed.ModelError, match=r"blocks\["):
                verify_model(model)
            with pytest.raises(refeed.ModelError):
                refeed.load(model)
        told[fault.__name__] += 1
    assert set(told) == {fault.__name__ for fault in cache_faults.FAULTS}


def cache_of(*pages: tuple[int, int, Any, Any]) -> dict[str, Any]:
    return {"blocks": [s.page(*page) for page in pages]}


def ones(*shape: int, dtype: Any = np.float32) -> Any:
    return np.ones(shape, dtype)


def test_6_2_a_cache_is_recognised_by_its_structure_alone() -> None:
    """Rules 6.2.1, 6.2.11; S207, S208."""
    value = cache_of((0, 2, ones(1, 2, 3, 4), ones(1, 2, 3, 5)))
    assert isinstance(taken(value), onnx.PagedCacheProto)
    assert isinstance(taken({"blocks": []}), onnx.PagedCacheProto)
    assert taken({"blocks": []}) == onnx.PagedCacheProto()
    page = value["blocks"][0]
    others: list[dict[str, Any]] = [
        {**value, "more": ones(1)},
        {"pages": value["blocks"]},
        {"blocks": [{**page, "more": ones(1)}]},
        {"blocks": [{name: field for name, field in page.items() if name != "length"}]},
        {"blocks": [{**page, "start": np.array(0, np.int32)}]},
        {"blocks": [{**page, "start": np.array([0])}]},
        {"blocks": [{**page, "length": np.array(2.0)}]},
        {"blocks": [{**page, "key": [ones(1)]}]},
        {"blocks": [page, ones(2)]},
    ]
    for other in others:
        assert isinstance(taken(other), dict)
        # Where a cache is declared, they are refused.
        with pytest.raises(refeed.ValueTypeError):
            s.state(s.keep(s.any_cache()), {"past": other})


RULES: dict[str, tuple[Any, str]] = {
    "first start is 0": (
        cache_of((1, 1, ones(1, 1, 2, 3), ones(1, 1, 2, 3))),
        r"blocks\[0\]\.start`?: expected 0, got 1",
    ),
    "contiguous, no gap": (
        cache_of((0, 1, ones(1, 1, 2, 3), ones(1, 1, 2, 3)), (2, 1, ones(1, 1, 2, 3), ones(1, 1, 2, 3))),
        r"blocks\[1\]\.start`?: expected 1, got 2",
    ),
    "contiguous, no overlap": (
        cache_of((0, 2, ones(1, 1, 2, 3), ones(1, 1, 2, 3)), (1, 1, ones(1, 1, 2, 3), ones(1, 1, 2, 3))),
        r"blocks\[1\]\.start`?: expected 2, got 1",
    ),
    "length is positive": (
        cache_of((0, 0, ones(1, 1, 2, 3), ones(1, 1, 2, 3))),
        r"blocks\[0\]\.length`?: expected 1 or more, got 0",
    ),
    "length is at most the capacity": (
        cache_of((0, 3, ones(1, 1, 2, 3), ones(1, 1, 2, 3))),
        r"blocks\[0\]\.length`?: expected at most 2, the capacity of the page, got 3",
    ),
    "capacities of keys and values are equal": (
        cache_of((0, 1, ones(1, 1, 2, 3), ones(1, 1, 3, 3))),
        r'blocks\[0\]\.value\.axis\["capacity"\]`?: expected 2, as the key has, got 3',
    ),
    "batch of keys and values is equal": (
        cache_of((0, 1, ones(2, 1, 2, 3), ones(1, 1, 2, 3))),
        r'blocks\[0\]\.value\.axis\["batch"\]`?: expected 2, as the key has, got 1',
    ),
    "heads of keys and values are equal": (
        cache_of((0, 1, ones(1, 2, 2, 3), ones(1, 4, 2, 3))),
        r'blocks\[0\]\.value\.axis\["heads"\]`?: expected 2, as the key has, got 4',
    ),
    "batch is equal across pages": (
        cache_of((0, 2, ones(1, 1, 2, 3), ones(1, 1, 2, 3)), (2, 1, ones(2, 1, 2, 3), ones(2, 1, 2, 3))),
        r'blocks\[1\]\.key\.axis\["batch"\]`?: expected 1, as the first page has, got 2',
    ),
    "heads are equal across pages": (
        cache_of((0, 2, ones(1, 1, 2, 3), ones(1, 1, 2, 3)), (2, 1, ones(1, 2, 2, 3), ones(1, 2, 2, 3))),
        r'blocks\[1\]\.key\.axis\["heads"\]`?: expected 1, as the first page has, got 2',
    ),
    "width of keys is equal across pages": (
        cache_of((0, 2, ones(1, 1, 2, 3), ones(1, 1, 2, 3)), (2, 1, ones(1, 1, 2, 4), ones(1, 1, 2, 3))),
        r'blocks\[1\]\.key\.axis\["width"\]`?: expected 3, as the first page has, got 4',
    ),
    "width of values is equal across pages": (
        cache_of((0, 2, ones(1, 1, 2, 3), ones(1, 1, 2, 3)), (2, 1, ones(1, 1, 2, 3), ones(1, 1, 2, 4))),
        r'blocks\[1\]\.value\.axis\["width"\]`?: expected 3, as the first page has, got 4',
    ),
    "extents are positive": (
        cache_of((0, 1, ones(0, 1, 2, 3), ones(0, 1, 2, 3))),
        r'blocks\[0\]\.key\.axis\["batch"\]`?: expected 1 or more, got 0',
    ),
    "payloads have four axes": (
        cache_of((0, 1, ones(1, 2, 3), ones(1, 1, 2, 3))),
        r"blocks\[0\]\.key`?: expected four axes",
    ),
    "payloads are FLOAT, FLOAT16 or BFLOAT16": (
        cache_of((0, 1, ones(1, 1, 2, 3, dtype=np.float64), ones(1, 1, 2, 3))),
        r"blocks\[0\]\.key`?: expected FLOAT, FLOAT16 or BFLOAT16",
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_6_2_pages_keep_each_rule(rule: str) -> None:
    """Rules 6.2.2, 6.2.3, 6.2.4; S226, S304."""
    value, expected = RULES[rule]
    with pytest.raises(refeed.ValueTypeError, match=expected):
        s.state(s.keep(s.any_cache()), {"past": value})
    # A context takes any structure; what is no valid cache does not leave it.
    with pytest.raises(ValueError, match=expected):
        taken(value)


def test_6_2_several_batch_rows_and_heads_of_different_widths_are_taken() -> None:
    """Rule 6.2.3; S304."""
    value = cache_of(
        (0, 2, ones(3, 2, 2, 5), ones(3, 2, 2, 7)),
        (2, 1, ones(3, 2, 4, 5, dtype=np.float16), ones(3, 2, 4, 7)),
    )
    assert [block.length for block in taken(value).blocks] == [2, 1]


def test_6_2_typed_fields_hold_numbers_and_16_bit_patterns() -> None:
    """Rule 6.2.4; S190."""
    rng = np.random.default_rng(0)
    for name in p.DENSE:
        cache = onnx.PagedCacheProto()
        array = rng.normal(size=(2, 1, 3, 5)).astype(p.NUMPY[name])
        block = p.add_page(cache, 2)
        p.set_dense(block, "key", array, name, typed=True)
        p.set_dense(block, "value", array, name)
        assert not block.key.HasField("raw_data")
        again = taken(cache)
        assert again.blocks[0].key.raw_data == block.value.raw_data
        assert again.blocks[0].key.data_type == p.DENSE[name]
        # Only the field of its own type counts.
        wrong = onnx.PagedCacheProto()
        wrong.CopyFrom(cache)
        held = wrong.blocks[0].key
        field = held.float_data if name == "FLOAT" else held.int32_data
        del field[:]
        (held.int32_data if name == "FLOAT" else held.float_data).extend([1] * array.size)
        with pytest.raises(refeed.ValueTypeError, match=r"blocks\[0\]\.key"):
            taken(wrong)


def test_6_2_an_omitted_storage_type_follows_from_sign_and_size() -> None:
    """Rule 6.2.6; S254."""
    for storage in p.CODES:
        cache = onnx.PagedCacheProto()
        block = p.add_page(cache, 1)
        low, high = p.code_range(storage)
        codes = np.arange(8).reshape(1, 2, 1, 4) % (high - low + 1) + low
        p.set_codes(block, "key", codes, storage, 0.5, inferred=True)
        p.set_codes(block, "value", codes, storage, 0.5)
        assert not block.encoded_key.affine.HasField("storage_type")
        again = taken(cache)
        assert again == cache
        decoded = refeed.runtime.dequantize_tensor(again.blocks[0].encoded_key).numpy()
        np.testing.assert_array_equal(decoded, codes * 0.5)
    ambiguous = onnx.PagedCacheProto()
    block = p.add_page(ambiguous, 1)
    p.set_codes(block, "key", np.ones((1, 1, 1, 1)), "INT8", 0.5, inferred=True)
    p.set_dense(block, "value", ones(1, 1, 1, 1))
    with pytest.raises(refeed.ValueTypeError, match=r"blocks\[0\]\.encoded_key.*INT8 and INT4 and INT2"):
        taken(ambiguous)


def test_6_2_typed_zero_points_pack_several_codes_an_entry() -> None:
    """Rule 6.2.6."""
    cache = onnx.PagedCacheProto()
    block = p.add_page(cache, 2)
    p.set_codes(block, "key", np.array([1, 2, 3, 4]).reshape(1, 1, 2, 2), "INT4", [0.25, 0.5], layout=p.Layout(-1))
    assert block.encoded_key.raw_data == bytes([0x21, 0x43])
    zero = block.encoded_key.affine.zero_point
    zero.data_type = onnx.TensorProto.INT4
    zero.dims.append(2)
    zero.int32_data.append(0x2F)
    p.set_dense(block, "value", ones(1, 1, 2, 2))
    decoded = refeed.runtime.dequantize_tensor(taken(cache).blocks[0].encoded_key).numpy()
    np.testing.assert_array_equal(decoded.ravel(), [0.5, 0, 1, 1])


def test_6_2_scales_of_every_layout_decode_by_the_definition() -> None:
    """Rules 6.2.5, 6.2.6; S223, S225."""
    rng = np.random.default_rng(1)
    for storage in p.CODES:
        for layout in p.LAYOUTS:
            cache = onnx.PagedCacheProto()
            block = p.add_page(cache, 3)
            for part in ("key", "value"):
                p.fill(rng, block, part, (2, 3, 5, 7), storage, layout=layout)
            back = taken(cache)
            assert back == cache
            got = refeed.runtime.dequantize_tensor(back.blocks[0].encoded_key).numpy()
            np.testing.assert_array_equal(got[:, :, :3], p.decoded(block, "key").astype(np.float32))


def test_6_2_declarations_name_the_fields_or_leave_all_open() -> None:
    """Rule 6.2.7; S187, S189."""

    def declared(key: Any, start: Any = None) -> Any:
        page = s.struct(
            start=start or s.tensor([], s.INT64),
            length=s.tensor([], s.INT64),
            key=key,
            value=s.tensor(["b", "h", "c", 5]),
        )
        return s.struct(blocks=s.sequence(page))

    value = s.cache(2)
    for key in (s.tensor([1, 2, 2, 3]), s.tensor(["b", "h", "c", "d"]), s.tensor(None)):
        s.state(s.keep(declared(key)), {"past": value})
    with pytest.raises(refeed.ValueTypeError, match=r"past\.blocks\[0\]\.key"):
        s.state(s.keep(declared(s.tensor([1, 2, 4, 3]))), {"past": value})
    # Physical formats other than FLOAT are no declarations; pages of them are taken where FLOAT is declared.
    half = {"blocks": [{**page, "key": page["key"].astype(np.float16)} for page in value["blocks"]]}
    s.state(s.keep(declared(s.tensor([1, 2, 2, 3]))), {"past": half})
    other = s.keep(declared(s.tensor([1, 2, 2, 3], s.FLOAT16)), paged_cache_initializer=[s.cache_message(1, "past")])
    with pytest.raises(refeed.ModelError, match="past"):
        verify_model(other)


def test_6_2_arrays_and_bit_packings_declare_no_cache() -> None:
    """Rule 6.2.7; S188."""
    array = onnx.TypeProto()
    array.struct_type.array.element_type.CopyFrom(s.tensor([2]))
    array.struct_type.array.dimension = 2
    packing = onnx.TypeProto()
    packing.struct_type.bit_packing.component.add(name="x", bit_width=8)
    packing.struct_type.bit_packing.dimension = 1
    for declared in (array, packing):
        with pytest.raises(ValueError):  # noqa: PT011 - of the declaration or of the value
            s.state(s.keep(declared), {"past": s.cache(1)})


def test_7_1_pages_share_their_payloads_both_ways() -> None:
    """Rule 7.1.6; S190, S227."""

    def address(message: Any) -> int:
        return int(np.frombuffer(message.raw_data_view(), np.uint8).__array_interface__["data"][0])

    cache = p.random_cache(np.random.default_rng(2), 5, typed=0)
    state = s.state(s.keep(s.any_cache()), {"past": cache})
    for back in (taken(cache), state.values["past"], state.run({"tick": ones(1)})["present"]):
        for old, new in zip(cache.blocks, back.blocks, strict=True):
            for part in ("key", "value"):
                held = address(p.payload(old, part))
                # FLOAT pages whose bytes are not aligned for FLOAT are moved.
                if p.format_of(old, part) in p.CODES or held % 4 == 0:
                    assert address(p.payload(new, part)) == held


def test_7_1_a_cache_is_never_one_encoded_value() -> None:
    """Rule 6.2.11; S221."""
    model = s.keep(s.any_cache())
    with pytest.raises(refeed.ValueTypeError, match="past"):
        s.state(model, {"past": s.affine([1, 2], [2])})
