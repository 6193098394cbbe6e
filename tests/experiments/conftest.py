from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import pytest

if TYPE_CHECKING:
    from tests.experiments.suite import Run


@pytest.fixture(scope="session")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder of synthetic records; tests that write copy it first."""
    from tests.experiments.synthetic_records import synthetic_results

    return synthetic_results(tmp_path_factory.mktemp("synthetic") / "results")


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> "Run":
    """The first run of a suite; tests that write copy its results first."""
    from tests.experiments.suite import first_run

    jax.config.update("jax_disable_most_optimizations", True)
    with jax.numpy_dtype_promotion("standard"):
        return first_run(tmp_path_factory.mktemp("recorded"))


@pytest.fixture(scope="module", autouse=True)
def _toy_programs(quick_to_compile: None) -> None:
    """All programs here are of toy size."""


@pytest.fixture(scope="module")
def in_use() -> Iterator[None]:
    """optax raises a float to the power of an integer, which strict promotion forbids."""
    with jax.numpy_dtype_promotion("standard"):
        yield
