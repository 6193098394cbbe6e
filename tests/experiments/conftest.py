from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from tests.experiments.synthetic_records import synthetic_results


@pytest.fixture(scope="session")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder of synthetic records; tests that write copy it first."""
    return synthetic_results(tmp_path_factory.mktemp("synthetic") / "results")


@pytest.fixture(scope="module", autouse=True)
def _toy_programs(quick_to_compile: None) -> None:
    """All programs here are of toy size."""


@pytest.fixture(scope="module")
def in_use() -> Iterator[None]:
    """optax raises a float to the power of an integer, which strict promotion forbids."""
    with jax.numpy_dtype_promotion("standard"):
        yield
