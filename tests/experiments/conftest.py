from pathlib import Path

import pytest

from tests.experiments.synthetic_records import synthetic_results


@pytest.fixture(scope="session")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder of synthetic records; tests that write copy it first."""
    return synthetic_results(tmp_path_factory.mktemp("synthetic") / "results")
