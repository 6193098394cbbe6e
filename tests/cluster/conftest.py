"""A study that is run on clusters of this machine (make cluster-tests), and the records of one process to compare with."""

from pathlib import Path

import pytest

from leadline.experiments.records.record import Record
from tests.experiments.executors.commands import STEPS, records_of, result_of, running, two_groups

SEEDS_OF_ARM = [(arm, seed) for arm in ("gated", "learned", "softmax") for seed in (0, 1)]


@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two groups of models."""
    return two_groups(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="session")
def alone(config: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Record]:
    """The records of a run in one process."""
    results = tmp_path_factory.mktemp("alone") / "results"
    with running("run", config, f"train.steps={STEPS}", "--results", results, "--json") as process:
        assert result_of(process)[0]["trained"] == len(SEEDS_OF_ARM)
    return records_of(results)
