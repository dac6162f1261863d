"""The models of the official package's node tests, as bytes."""

import functools
import warnings


@functools.cache
def node_models() -> list[tuple[str, bytes]]:
    """Name and serialised model of every node test: 1,884 of them in onnx 1.23."""
    with warnings.catch_warnings():
        # Some cases compute overflows and logarithms of zero on purpose.
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    return [(case.name, case.model.SerializeToString()) for case in cases if case.model is not None]
