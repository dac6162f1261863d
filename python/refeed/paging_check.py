"""Whether a model with caches in pages gives what it gave before: both run the same steps, from the same tokens."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refeed._native import Model, PersistentValueState, RuntimeContext, empty_caches, register_paged_attention
from refeed.errors import ModelError
from refeed.onnx import PagedCacheProto, numpy_helper

__all__ = ["Check", "check_of"]


@dataclasses.dataclass(frozen=True)
class Check:
    """What both models run.

    Attributes
    ----------
    steps : list of feeds
        At least one.
    initial : mapping or None
        Initial values of the model as it was.
    tolerance : float
        Largest distance of an output, relative to its largest number when that is above 1.
    """

    steps: list[Mapping[str, Any]]
    initial: Mapping[str, Any] | None
    tolerance: float

    def largest_difference(
        self, dense: Model, paged: Model, held: Mapping[str, tuple[str, str, str, str]], block_size: int
    ) -> float:
        """Run both models and compare what they give.

        Parameters
        ----------
        dense, paged : Model
        held : mapping
            By each input of pages: past keys and values, present keys and values of the model as it was.
        block_size : int
            Most rows of a page.

        Raises
        ------
        ModelError
            When an output differs by more than the tolerance.
        """
        start = _empty(dense, self.steps[0], held) if self.initial is None else dict(self.initial)
        context = RuntimeContext()
        register_paged_attention(context)
        gone = {name for names in held.values() for name in names}
        largest = 0.0
        with PersistentValueState(dense, start) as one:
            others = {name: value for name, value in start.items() if name not in gone}
            for name, (keys, values, _, _) in held.items():
                others[name] = _pages((keys, start[keys]), (values, start[values]), block_size)
            with PersistentValueState(paged, others, context=context) as two:
                for number, feeds in enumerate(self.steps):
                    expected, got = one.run(context, feeds), two.run(context, feeds)
                    for name, value in expected.items():
                        if name not in gone:
                            largest = max(largest, self.distance(number, name, value, got[name]))
        return largest

    def distance(self, number: int, name: str, value: Any, other: Any) -> float:
        """Return how far two outputs of a step are apart, when that is allowed."""
        a, b = (np.asarray(side, np.float64) for side in (value, other))
        distance = float(np.abs(a - b).max(initial=0.0)) if a.shape == b.shape else math.inf
        allowed = self.tolerance * max(1.0, float(np.abs(a).max(initial=0.0)))
        if not distance <= allowed:
            raise ModelError(
                f"page: step {number}: output `{name}` is off by {distance:.3g}, "
                f"expected at most {allowed:.3g} with tolerance {self.tolerance:.3g}"
            )
        return distance


def check_of(
    steps: Sequence[Mapping[str, Any]] | None, initial: Mapping[str, Any] | None, tolerance: float
) -> Check | None:
    """Return what is to be compared; None without steps.

    Raises
    ------
    TypeError
        When the steps are no feeds.
    ValueError
        When there is no step, or the tolerance is no finite number of 0 or more.
    """
    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise ValueError(f"tolerance: expected a finite number of 0 or more, got {tolerance}")
    if steps is None:
        if initial is not None:
            raise ValueError("initial: expected steps to check beside it, got check=None")
        return None
    if isinstance(steps, Mapping):
        raise TypeError(f"check: expected a sequence of feeds, got one {type(steps).__name__}")
    made = list(steps)
    for number, feeds in enumerate(made):
        if not isinstance(feeds, Mapping):
            raise TypeError(f"check[{number}]: expected feeds by name, got {type(feeds).__name__}")
    if not made:
        raise ValueError("check: expected one step or more, got none")
    return Check(made, initial, tolerance)


def _pages(keys: tuple[str, Any], values: tuple[str, Any], block_size: int) -> PagedCacheProto:
    """Return the tokens of a dense cache in pages."""
    arrays = []
    for name, given in (keys, values):
        array = np.asarray(given)
        if array.ndim != 4:
            raise ModelError(
                f"page: initial: expected [batch, heads, tokens, width] of `{name}`, got {list(array.shape)}"
            )
        arrays.append(array)
    if arrays[0].shape[:3] != arrays[1].shape[:3]:
        raise ModelError(
            f"page: initial: expected as many tokens of `{values[0]}` as of `{keys[0]}`, "
            f"{list(arrays[0].shape[:3])}, got {list(arrays[1].shape[:3])}"
        )
    cache = PagedCacheProto()
    for start in range(0, arrays[0].shape[2], block_size):
        rows = [np.ascontiguousarray(array[:, :, start : start + block_size]) for array in arrays]
        block = cache.blocks.add(start=start, length=rows[0].shape[2])
        block.key.CopyFrom(numpy_helper.from_array(rows[0]))
        block.value.CopyFrom(numpy_helper.from_array(rows[1]))
    return cache


def _empty(model: Model, feeds: Mapping[str, Any], held: Mapping[str, tuple[str, str, str, str]]) -> dict[str, Any]:
    """Return values of the bound inputs without a token: as they are declared, with the extents that feeds have."""
    symbols: dict[str, int] = {}
    for info in model.inputs:
        if info.name in feeds and info.shape is not None:
            given = np.shape(feeds[info.name])
            symbols |= {dim: extent for dim, extent in zip(info.shape, given, strict=False) if isinstance(dim, str)}
    shapes = {info.name: info.shape or () for info in model.inputs}
    caches = {name for names in held.values() for name in names[:2]}
    first = next((dim for name in sorted(caches) for dim in shapes[name][:1]), None)
    batch = first if isinstance(first, int) else symbols.get(first or "")
    try:
        made: dict[str, Any] = dict(empty_caches(model, batch))
    except ModelError:
        raise
    except ValueError as error:
        raise ModelError(f"page: initial: expected values of the bound inputs: {error}") from error
    for name in sorted(caches & made.keys()):
        zeros = np.asarray(made[name])
        dims = list(zeros.shape)
        for axis, dim in enumerate(shapes[name]):
            # Caches are [batch, heads, length, width]; the length starts at 0.
            if isinstance(dim, str) and axis != 2:
                dims[axis] = symbols.get(dim, dims[axis])
                if dims[axis] == 0:
                    raise ModelError(
                        f"page: initial: expected a value of `{name}`, whose extent `{dim}` "
                        "neither the feeds of the first step nor the operators tell"
                    )
        made[name] = np.zeros(dims, zeros.dtype)
    return made
