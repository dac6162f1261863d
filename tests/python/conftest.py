"""What all tests share."""

import pathlib
from collections.abc import Callable
from typing import Any

import graphs
import numpy as np
import pytest
import refeed
from refeed import runtime

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> pathlib.Path:
    return ROOT


@pytest.fixture(scope="session")
def cases() -> pathlib.Path:
    """Real exported models with stored references."""
    return ROOT / "tests" / "data" / "models"


@pytest.fixture
def accumulate() -> refeed.Model:
    bound, _ = refeed.bind(graphs.accumulate(), pairs=[("past", "present")])
    return bound


@pytest.fixture
def make_state(accumulate: refeed.Model) -> Callable[..., runtime.PersistentValueState]:
    def make(**keywords: Any) -> runtime.PersistentValueState:
        return runtime.PersistentValueState(accumulate, {"past": np.zeros(2, np.float32)}, **keywords)

    return make
