"""The same call made of the official `onnx` package and of `refeed.onnx`, and what came of it, compared.

A call is a function of the package: `lambda o: o.helper.make_node("Relu", ["x"], ["y"])`.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.external_data_helper
import onnx.helper
import onnx.numpy_helper
import refeed.errors
import refeed.onnx
import refeed.onnx.external_data_helper
import refeed.onnx.helper
import refeed.onnx.numpy_helper

#: Takes the package; more arguments have defaults.
Call = Callable[..., Any]

#: Exceptions of the official package that are other classes here.
_COUNTERPARTS = {"ValidationError": refeed.errors.ModelError}


def observed(value: Any) -> Any:
    """Return what can be compared of a value: messages as their bytes, arrays as type, shape and bytes."""
    if hasattr(value, "SerializeToString"):
        return type(value).__name__, value.SerializeToString()
    if isinstance(value, np.ndarray):
        content = value.tolist() if value.dtype == object else value.tobytes()
        return value.dtype, value.shape, content
    if isinstance(value, dict):
        return {key: observed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [observed(item) for item in value]
    if isinstance(value, float):
        return repr(value)
    return value


def outcome(call: Call, package: Any) -> tuple[Any, BaseException | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return observed(call(package)), None
        except Exception as error:
            return None, error


def same(call: Call) -> Any:
    """Check that a call gives the same value in both packages, or an exception of the same class; return the value."""
    expected, refusal = outcome(call, onnx)
    got, error = outcome(call, refeed.onnx)
    if refusal is None:
        if error is not None:
            raise AssertionError(f"onnx gives {expected!r}, refeed raises {error!r}") from error
        assert got == expected, f"onnx gives {expected!r}, refeed {got!r}"
    else:
        assert error is not None, f"onnx raises {refusal!r}, refeed gives {got!r}"
        wanted = _COUNTERPARTS.get(type(refusal).__name__, type(refusal))
        assert type(error) is wanted or isinstance(error, wanted), f"onnx raises {refusal!r}, refeed {error!r}"
        assert str(error), "the exception says nothing"
    return expected


def refused(call: Call) -> BaseException:
    """Check that both packages refuse a call with the same class of exception; return refeed's."""
    _, refusal = outcome(call, onnx)
    assert refusal is not None, "onnx takes it"
    same(call)
    error = outcome(call, refeed.onnx)[1]
    assert error is not None
    return error
