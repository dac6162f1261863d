"""What a paged cache holds, page by page: formats, bytes, and how far it is from a reference."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from refeed.cache_pages import PARTS, CachePart, cache_parts, refuse_faults
from refeed.onnx import PagedCacheProto

__all__ = ["CacheReport", "PageReport", "cache_report"]

_COLUMNS = ("page", "tokens", "capacity", "key", "value", "bytes", "FLOAT bytes")
_ERRORS = ("key error", "value error")
_FIELDS = ("key_error", "value_error")


@dataclasses.dataclass(frozen=True)
class PageReport:
    """One page of a cache.

    Attributes
    ----------
    index, start, length, capacity : int
        Position of the page, of its first token; tokens, and rows that there is room for.
    key_format, value_format : str
        Names of element types: `"FLOAT"`, `"INT4"`, ...
    key_bytes, value_bytes : int
        Bytes of the whole capacity, with scales and zero points.
    float_bytes : int
        What keys and values of the capacity would take as FLOAT.
    key_error, value_error : float or None
        Largest distance of a valid element from the reference; None without one.
    """

    index: int
    start: int
    length: int
    capacity: int
    key_format: str
    value_format: str
    key_bytes: int
    value_bytes: int
    float_bytes: int
    key_error: float | None = None
    value_error: float | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values together."""
        return self.key_bytes + self.value_bytes


@dataclasses.dataclass(frozen=True)
class CacheReport:
    """The pages of a cache. `str(report)` is a table.

    Attributes
    ----------
    pages : list of PageReport
        In order.
    """

    pages: list[PageReport]

    @property
    def tokens(self) -> int:
        """Tokens of all pages."""
        return sum(page.length for page in self.pages)

    @property
    def nbytes(self) -> int:
        """Bytes of all pages, parameters included."""
        return sum(page.nbytes for page in self.pages)

    @property
    def float_bytes(self) -> int:
        """What all pages would take as FLOAT."""
        return sum(page.float_bytes for page in self.pages)

    def table(self) -> str:
        """Return the pages as text, one a line, with totals below."""
        errors = any(page.key_error is not None for page in self.pages)
        rows: list[tuple[str, ...]] = [_COLUMNS + (_ERRORS if errors else ())]
        for page in self.pages:
            tokens = f"{page.start}..{page.start + page.length - 1}"
            row = (tokens, page.capacity, page.key_format, page.value_format, page.nbytes, page.float_bytes)
            told = [f"{error:.3g}" for error in (page.key_error, page.value_error) if error is not None]
            rows.append((str(page.index), *map(str, row), *told))
        worst = [f"{max(getattr(page, field) for page in self.pages):.3g}" for field in _FIELDS] if errors else []
        rows.append(("all", str(self.tokens), "", "", "", str(self.nbytes), str(self.float_bytes), *worst))
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        lines = ("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def plot(self, axes: Any = None) -> Any:
        """Draw the pages over the tokens: their bytes a token and formats, and below them their errors.

        Parameters
        ----------
        axes : sequence of matplotlib axes, optional
            One, or two when there are errors to show. A figure is made when they are not given.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ImportError
            Without matplotlib (`pip install "refeed[plot]"`).
        ValueError
            When there are fewer axes than there is to show.
        """
        try:
            from matplotlib import pyplot
            from matplotlib.patches import Patch
        except ImportError as error:
            raise ImportError('a picture needs matplotlib: pip install "refeed[plot]"') from error
        errors = any(page.key_error is not None for page in self.pages)
        panels = 2 if errors else 1
        if axes is None:
            _, axes = pyplot.subplots(panels, 1, figsize=(8, 2.6 * panels), sharex=True, squeeze=False)
        drawn = np.ravel(np.asarray(axes, object))
        if len(drawn) < panels:
            raise ValueError(f"axes: expected {panels}, got {len(drawn)}")
        formats = sorted({name for page in self.pages for name in (page.key_format, page.value_format)})
        colours = {name: f"C{at % 10}" for at, name in enumerate(formats)}
        for page in self.pages:
            bottom = 0.0
            for name, nbytes in ((page.key_format, page.key_bytes), (page.value_format, page.value_bytes)):
                height = nbytes / page.capacity
                drawn[0].bar(
                    page.start, height, page.length, bottom, align="edge", color=colours[name], edgecolor="white"
                )
                bottom += height
        drawn[0].set_ylabel("bytes a token\n(keys below, values above)")
        drawn[0].legend(handles=[Patch(color=colours[name], label=name) for name in formats], loc="upper right")
        if errors:
            # A step holds up to the next start; the last page has its end.
            edges = [page.start for page in self.pages] + [self.tokens]
            for part in PARTS:
                heights = [getattr(page, f"{part}_error") for page in self.pages]
                drawn[1].step(edges, heights + heights[-1:], where="post", label=part)
            drawn[1].set_ylabel("largest error")
            drawn[1].legend(loc="upper right")
        drawn[panels - 1].set_xlabel("token")
        figure = drawn[0].figure
        figure.tight_layout()
        return figure


def cache_report(cache: PagedCacheProto, reference: PagedCacheProto | None = None, *, model: Any = None) -> CacheReport:
    """Tell what the pages of a cache are.

    Parameters
    ----------
    cache : PagedCacheProto
        As states return it.
    reference : PagedCacheProto, optional
        A cache of the same tokens, in pages of any kind, that errors are measured against: usually the one before a
        quantisation. Only then is anything decoded.
    model : model-like, optional
        Where shared quantisation parameters are looked up.

    Returns
    -------
    CacheReport

    Raises
    ------
    ValueError
        When a page breaks a rule, with its number and the field; when the reference has other tokens, batch rows, heads
        or widths.

    Examples
    --------
    >>> import numpy as np
    >>> from refeed.onnx import PagedCacheProto, numpy_helper
    >>> from refeed.runtime import cache_report
    >>> cache = PagedCacheProto()
    >>> block = cache.blocks.add(start=0, length=3)
    >>> block.key.CopyFrom(numpy_helper.from_array(np.zeros((1, 2, 4, 8), np.float16)))
    >>> block.value.CopyFrom(numpy_helper.from_array(np.zeros((1, 2, 4, 8), np.float32)))
    >>> print(cache_report(cache))
    page  tokens  capacity      key  value  bytes  FLOAT bytes
       0    0..2         4  FLOAT16  FLOAT    384          512
     all       3                              384          512
    """
    refuse_faults("cache", cache, model)
    if reference is not None:
        refuse_faults("reference", reference, model)
    held = list(cache_parts(cache))
    whole = {} if reference is None else _whole(reference, model)
    pages = []
    for key, value in zip(held[::2], held[1::2], strict=True):
        block = cache.blocks[key.page]
        errors = {f"{part.part}_error": _error(part, block.start, whole, model) for part in (key, value)}
        pages.append(
            PageReport(
                index=key.page,
                start=block.start,
                length=block.length,
                capacity=key.shape[2],
                key_format=key.format,
                value_format=value.format,
                key_bytes=key.nbytes,
                value_bytes=value.nbytes,
                float_bytes=4 * int(np.prod(key.shape) + np.prod(value.shape)),
                **errors,
            )
        )
    if reference is not None and sum(page.length for page in pages) != whole["key"].shape[2]:
        tokens = sum(page.length for page in pages)
        raise ValueError(f"reference: expected {tokens} tokens, got {whole['key'].shape[2]}")
    return CacheReport(pages)


def _whole(cache: PagedCacheProto, model: Any) -> dict[str, Any]:
    """Return all keys and values of a cache, one array each."""

    def joined(parts: Iterable[CachePart]) -> Any:
        rows = [part.rows(model) for part in parts]
        return np.concatenate(rows, axis=2) if rows else np.zeros((0, 0, 0, 0))

    held = list(cache_parts(cache))
    return {name: joined(part for part in held if part.part == name) for name in PARTS}


def _error(part: CachePart, start: int, whole: dict[str, Any], model: Any) -> float | None:
    """Return the largest distance of a page from the reference."""
    if not whole:
        return None
    rows = part.rows(model)
    expected = whole[part.part][:, :, start : start + part.length]
    if expected.shape != rows.shape:
        raise ValueError(
            f"reference: expected {part.part}s of shape {list(rows.shape)} from token {start} on, "
            f"got {list(expected.shape)}"
        )
    return float(np.abs(rows - expected).max(initial=0.0))
