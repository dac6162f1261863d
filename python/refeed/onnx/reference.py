"""`ReferenceEvaluator`: NumPy in, NumPy out, as in the `onnx` package."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import refeed
from refeed._native import Model, RuntimeSession, load

__all__ = ["ReferenceEvaluator"]


class ReferenceEvaluator:
    """Runs a model without any state.

    Parameters
    ----------
    proto : Model, onnx.ModelProto, bytes, str or os.PathLike
        The model.

    Raises
    ------
    refeed.ModelError
        When the model is broken or has a node that refeed cannot compute.
    TypeError
        When `proto` is no model.
    """

    def __init__(self, proto: "Model | bytes | str | os.PathLike[str] | Any") -> None:
        self._model = load(proto)
        self._session = RuntimeSession(self._model)
        self._outputs = [value.name for value in self._model.outputs]
        given = set(self._model.initializer_names)
        self._inputs = [value.name for value in self._model.inputs if value.name not in given]

    @property
    def input_names(self) -> list[str]:
        """Names of the graph inputs that must be fed."""
        return list(self._inputs)

    @property
    def output_names(self) -> list[str]:
        """Names of the graph outputs."""
        return list(self._outputs)

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Run the graph once.

        Parameters
        ----------
        output_names : sequence of str or None
            The outputs wanted, in this order; None for all, in the graph's order.
        feeds : mapping of str to array
            One array an input, a list for a sequence, a dictionary for a structured value, None for an
            empty optional value. Arrays that are not contiguous or not in native byte order are copied.

        Returns
        -------
        list of numpy.ndarray
            Read-only views of the results, BFLOAT16 and FLOAT8 as `ml_dtypes`; lists and dictionaries of such.

        Raises
        ------
        refeed.ValueTypeError
            When a feed or an output is unknown, a feed is missing, or one contradicts its declaration.
        refeed.KernelError
            When a node fails.
        """
        if isinstance(output_names, str):
            raise TypeError(f"output_names: expected a list of names or None, got the name `{output_names}`")
        if not isinstance(feeds, Mapping):
            raise TypeError(f"feeds: expected a mapping from names to arrays, got {type(feeds).__name__}")
        wanted = self._outputs if output_names is None else list(output_names)
        for name in wanted:
            if name not in self._outputs:
                known = ", ".join(self._outputs)
                raise refeed.ValueTypeError(f"unknown graph output `{name}`: expected one of {known}")
        given = {name: _plain(value) for name, value in feeds.items() if value is not None}
        results = self._session.run(given)
        return [_arrays(results[name]) for name in wanted]


def _arrays(value: Any) -> Any:
    """Show the tensors of a result as arrays."""
    if isinstance(value, list):
        return [_arrays(element) for element in value]
    if isinstance(value, dict):
        return {key: _arrays(field) for key, field in value.items()}
    return value.numpy()


def _plain(value: Any) -> Any:
    """Copy what refeed refuses only because of how it lies in memory."""
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {key: _plain(field) for key, field in value.items()}
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        if not value.dtype.isnative:
            value = value.astype(value.dtype.newbyteorder("="))
        if not value.flags.c_contiguous or not value.flags.aligned:
            value = value.copy(order="C")
    return value
