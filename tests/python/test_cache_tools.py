"""What is told of caches, and how scales for them are chosen."""

import subprocess
import sys
from typing import Any

import cache_faults
import numpy as np
import pages as p
import pytest
from refeed import onnx
from refeed.runtime import cache_report, calibrate_cache


def dense(rng: Any, capacity: int = 5, pages: int = 4, **extents: int) -> Any:
    return p.random_cache(rng, pages, ["FLOAT"], capacity=capacity, **extents)


def whole(cache: Any, part: str) -> Any:
    return np.concatenate([p.decoded(block, part) for block in cache.blocks], axis=2)


def test_a_report_tells_formats_bytes_and_errors_of_each_page() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        cache = p.random_cache(rng)
        reference = p.random_cache(
            rng,
            sum(block.length for block in cache.blocks),
            ["FLOAT"],
            capacity=1,
            batch=p.dims_of(cache.blocks[0], "key")[0],
            heads=p.dims_of(cache.blocks[0], "key")[1],
            key_width=p.dims_of(cache.blocks[0], "key")[3],
            value_width=p.dims_of(cache.blocks[0], "value")[3],
        )
        report = cache_report(cache, reference)
        assert report.tokens == sum(block.length for block in cache.blocks)
        for page, block in zip(report.pages, cache.blocks, strict=True):
            assert (page.start, page.length) == (block.start, block.length)
            for part in ("key", "value"):
                assert getattr(page, f"{part}_format") == p.format_of(block, part)
                dims = p.dims_of(block, part)
                assert page.capacity == dims[2]
                name = p.format_of(block, part)
                bits = p.bits(name) if name in p.CODES else np.dtype(p.NUMPY[name]).itemsize * 8
                parameters = 0
                if name in p.CODES:
                    affine = p.payload(block, part).affine
                    parameters = 4 * len(affine.scale.float_data) + len(affine.zero_point.raw_data)
                assert getattr(page, f"{part}_bytes") == -(-int(np.prod(dims)) * bits // 8) + parameters
                rows = whole(reference, part)[:, :, block.start : block.start + block.length]
                assert getattr(page, f"{part}_error") == pytest.approx(
                    np.abs(p.decoded(block, part) - rows).max(), 1e-6
                )
        table = str(report).splitlines()
        assert len(table) == len(cache.blocks) + 2
        assert len({len(line) for line in table}) == 1
        assert str(report.nbytes) in table[-1]


def test_a_report_without_a_reference_decodes_nothing() -> None:
    cache = p.random_cache(np.random.default_rng(1), 3, ["FLOAT16", "UINT2"])
    report = cache_report(cache)
    assert [page.key_error for page in report.pages] == [None] * 3
    assert "error" not in str(report)
    assert cache_report(onnx.PagedCacheProto()).pages == []
    assert str(cache_report(onnx.PagedCacheProto())).splitlines()[1].split() == ["all", "0", "0", "0"]


def test_references_of_other_tokens_or_extents_are_refused() -> None:
    rng = np.random.default_rng(2)
    cache = dense(rng, heads=2, key_width=3, pages=2)
    longer = onnx.PagedCacheProto()
    longer.CopyFrom(cache)
    block = p.add_page(longer, 1)
    for part in ("key", "value"):
        p.fill(rng, block, part, p.dims_of(cache.blocks[0], part), "FLOAT")
    with pytest.raises(ValueError, match="reference: expected"):
        cache_report(cache, longer)
    with pytest.raises(ValueError, match="reference: expected"):
        cache_report(longer, cache)
    with pytest.raises(ValueError, match="reference: expected keys of shape"):
        cache_report(cache, dense(rng, heads=3, key_width=3, pages=2))
    with pytest.raises(TypeError, match="expected a PagedCacheProto, got dict"):
        cache_report({})  # type: ignore[arg-type]
    broken = onnx.PagedCacheProto()
    broken.blocks.add(start=0, length=1)
    for arguments in ((broken,), (cache, broken)):
        with pytest.raises(ValueError, match=r"^(cache|reference): .*blocks\[0\]"):
            cache_report(*arguments)


@pytest.mark.parametrize("fault", cache_faults.FAULTS, ids=lambda fault: fault.__name__)
def test_caches_with_a_fault_are_refused_by_page_and_field(fault: cache_faults.Fault) -> None:
    rng = np.random.default_rng(11)
    told = 0
    for attempt in range(200):
        small = dict.fromkeys(("batch", "heads", "capacity", "key_width", "value_width"), 1)
        cache = p.random_cache(rng, None, list(p.CODES) if attempt % 2 else None, **(small if attempt % 3 else {}))
        part = cache_faults.PARTS[attempt % 2]
        place = fault(cache_faults.Spot(rng, cache, int(rng.integers(len(cache.blocks))), part))
        if place is None:
            continue
        before = cache.SerializeToString()
        for tool in (cache_report, calibrate_cache):
            with pytest.raises(ValueError, match=f"^cache: .*{place}"):
                tool(cache)
        assert cache.SerializeToString() == before
        told += 1
        if told == 5:
            return
    raise AssertionError(fault.__name__)


@pytest.mark.parametrize(("start", "length"), [(0, 0), (0, -1), (0, 5), (0, 2**62), (-1, 3), (5, 3), (2**63 - 1, 3)])
def test_tokens_that_a_page_cannot_hold_are_refused(start: int, length: int) -> None:
    cache = dense(np.random.default_rng(12), capacity=4, pages=1)
    cache.blocks[0].start, cache.blocks[0].length = start, length
    field = "start" if start else "length"
    for tool in (cache_report, calibrate_cache):
        with pytest.raises(ValueError, match=rf"cache: .*blocks\[0\]\.{field}: expected"):
            tool(cache)


def test_a_report_is_drawn_with_matplotlib_alone_on_demand() -> None:
    code = "import refeed, sys; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own code
    rng = np.random.default_rng(3)
    cache = dense(rng)
    coded = calibrate_cache(cache, "INT4", "UINT8").cache
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    figure = cache_report(coded, cache).plot()
    assert len(figure.axes) == 2
    bars = figure.axes[0].patches
    assert len(bars) == 2 * len(cache.blocks)
    assert {text.get_text() for text in figure.axes[0].get_legend().get_texts()} == {"INT4", "UINT8"}
    for line in figure.axes[1].get_lines():
        # The last page has its whole width.
        last = coded.blocks[-1]
        assert line.get_xdata()[-1] == last.start + last.length
        assert len(line.get_ydata()) == len(cache.blocks) + 1
    assert len(cache_report(coded).plot().axes) == 1
    with pytest.raises(ValueError, match="axes: expected 2, got 1"):
        cache_report(coded, cache).plot([pyplot.figure().gca()])
    pyplot.close("all")


def test_a_picture_without_matplotlib_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"refeed\[plot\]"):
        cache_report(dense(np.random.default_rng(4))).plot()


@pytest.mark.parametrize("storage", p.CODES)
@pytest.mark.parametrize("layout", [p.Layout(), *(p.Layout(axis) for axis in range(4)), p.Layout(3, 2), p.Layout(2, 3)])
def test_scales_reach_the_largest_number(storage: str, layout: p.Layout) -> None:
    rng = np.random.default_rng(5)
    cache = dense(rng, batch=2, heads=3, key_width=5, value_width=4)
    found = calibrate_cache(cache, storage, "INT8", axis=layout.axis, block_size=layout.block_size)
    for index, (old, new) in enumerate(zip(cache.blocks, found.cache.blocks, strict=True)):
        assert p.format_of(new, "key") == storage
        dims = p.dims_of(new, "key")
        scale = layout.spread(found.key.scales[index], dims)[:, :, : old.length]
        assert found.key.scales[index].shape == layout.shape(dims)
        # Half a scale; the ends of an unsigned range may lie off by the rounding of the zero point.
        most = 0.5 if not storage.startswith("U") else 1.0
        off = np.abs(p.decoded(old, "key") - p.decoded(new, "key"))
        assert (off <= scale * (most + 1e-5)).all()
    assert found.key.largest_error == pytest.approx(np.abs(whole(cache, "key") - whole(found.cache, "key")).max(), 1e-5)


def test_searched_scales_are_never_worse_and_clip_what_lies_far_out() -> None:
    rng = np.random.default_rng(6)
    cache = dense(rng, 40, batch=1, heads=1, key_width=16, value_width=16)
    block = cache.blocks[0]
    rows = p.decoded(block, "key")
    rows[0, 0, 0, 0] = 12
    array = np.zeros(p.dims_of(block, "key"), np.float32)
    array[:, :, : block.length] = rows
    p.set_dense(block, "key", array)
    for storage in p.CODES:
        plain, searched = (calibrate_cache(cache, storage, "INT4", method=method) for method in ("range", "search"))
        assert searched.key.mean_square_error <= plain.key.mean_square_error * (1 + 1e-9)
    assert searched.value.mean_square_error <= plain.value.mean_square_error * (1 + 1e-9)
    clipped = calibrate_cache(cache, "INT4", "INT8", method="search")
    assert clipped.key.saturated > 0


def attention(queries: Any, keys: Any, values: Any) -> Any:
    """One query after the other, from the formula."""
    out = np.zeros((*queries.shape[:3], values.shape[3]))
    groups = queries.shape[1] // keys.shape[1]
    for b, h, row in np.ndindex(queries.shape[:3]):
        k, v = keys[b, h // groups], values[b, h // groups]
        scores = np.array([queries[b, h, row] @ one for one in k]) / np.sqrt(keys.shape[3])
        weights = np.exp(scores - scores.max())
        out[b, h, row] = (weights[:, None] * v).sum(axis=0) / weights.sum()
    return out


def test_the_error_of_attention_is_that_of_the_formula() -> None:
    rng = np.random.default_rng(7)
    cache = dense(rng, batch=2, heads=2, key_width=6, value_width=3)
    queries = rng.normal(size=(2, 6, 5, 6))
    found = calibrate_cache(cache, "INT4", "UINT2", axis=3, queries=queries)
    expected = attention(queries, whole(cache, "key"), whole(cache, "value"))
    got = attention(queries, whole(found.cache, "key"), whole(found.cache, "value"))
    assert found.attention.largest == pytest.approx(np.abs(got - expected).max(), 1e-4)
    root = np.sqrt(((got - expected) ** 2).mean())
    assert found.attention.mean_square == pytest.approx(root, 1e-4)
    assert found.attention.relative == pytest.approx(root / np.sqrt((expected**2).mean()), 1e-4)
    finer = calibrate_cache(cache, "INT8", "INT8", axis=3, queries=queries)
    assert finer.attention.mean_square < found.attention.mean_square
    assert calibrate_cache(cache).attention.largest > 0


def test_one_scale_serves_all_pages() -> None:
    found = calibrate_cache(dense(np.random.default_rng(8)), "INT8", "UINT4")
    assert {float(scale) for scale in found.key.scales} == {found.key.scale}
    assert 0 <= found.value.zero_point <= 15
    with pytest.raises(ValueError, match="scale: expected one a tensor, got scales along axis 1: see `scales`"):
        _ = calibrate_cache(dense(np.random.default_rng(8)), axis=-3).key.scale


def test_what_cannot_be_calibrated_is_refused() -> None:
    cache: Any = dense(np.random.default_rng(9), batch=1, heads=2, key_width=4)
    nan: Any = dense(np.random.default_rng(9), batch=1)
    array = np.full(p.dims_of(nan.blocks[0], "value"), np.nan, np.float32)
    p.set_dense(nan.blocks[0], "value", array)
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (onnx.PagedCacheProto(), {}, "cache: expected one page or more, got none"),
        (cache, {"key": "FLOAT16"}, "key: expected one of INT8.*, got 'FLOAT16'"),
        (cache, {"value": 3}, "value: expected one of INT8.*, got 3"),
        (cache, {"axis": 4}, "axis: expected -4 to 3, got 4"),
        (cache, {"block_size": 2}, "block_size: expected 1 or more beside an axis, got 2 beside None"),
        (cache, {"axis": 1, "block_size": 0}, "block_size: expected 1 or more beside an axis, got 0 beside 1"),
        (cache, {"method": "best"}, "method: expected 'range' or 'search', got 'best'"),
        (cache, {"queries": np.zeros((1, 3, 1, 4))}, r"queries: expected \[1, a multiple of 2, rows, 4\]"),
        (cache, {"queries": np.zeros((1, 2, 1, 5))}, r"queries: expected \[1, a multiple of 2, rows, 4\]"),
        (cache, {"queries": np.full((1, 2, 1, 4), np.nan)}, "queries: expected finite numbers, got nan"),
        (cache, {"queries": np.full((1, 2, 1, 4), -np.inf)}, "queries: expected finite numbers, got -inf"),
        (nan, {}, r"cache: paged_cache.blocks\[0\].value: expected finite numbers, got nan at \[0, 0, 0, 0\]"),
    ]
    for given, options, expected in cases:
        with pytest.raises(ValueError, match=expected):
            calibrate_cache(given, **options)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"axis": 1.5}, "axis: expected an integer, got float"),
        ({"axis": True}, "axis: expected an integer, got bool"),
        ({"axis": 3, "block_size": "2"}, "block_size: expected an integer, got str"),
        ({"queries": "a"}, "queries: expected an array of numbers, got str"),
    ]
    for options, expected in wrong:
        with pytest.raises(TypeError, match=expected):
            calibrate_cache(cache, **options)
