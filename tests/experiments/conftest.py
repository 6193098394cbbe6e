from collections.abc import Iterator
from pathlib import Path

import jax
import jaxtyping
import pytest

from tests.experiments.synthetic_records import synthetic_results


@pytest.fixture(scope="session")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder of synthetic records; tests that write copy it first."""
    return synthetic_results(tmp_path_factory.mktemp("synthetic") / "results")


@pytest.fixture(scope="module")
def in_use() -> Iterator[None]:
    """Weight trees also hold what is no weight: norms in an optimiser, numpy arrays on the host, shapes in a lowered program.

    The annotations of their fields are checked wherever a tree is put together, so none is while this is used. optax
    takes powers of a float by an integer, which strict promotion forbids.
    """
    jaxtyping.config.update("jaxtyping_disable", True)
    with jax.numpy_dtype_promotion("standard"):
        yield
    jaxtyping.config.update("jaxtyping_disable", False)
