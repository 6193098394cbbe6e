from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from tests.experiments.data.corpora import write_corpus


@pytest.fixture(scope="module", autouse=True)
def quick_to_compile() -> Iterator[None]:
    """These programs need not be fast."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))
