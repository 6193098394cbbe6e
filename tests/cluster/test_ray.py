"""A Ray cluster of two nodes, whose workers are killed while they train."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports]  # of an extra

from leadline.experiments.records.record import Record
from leadline.experiments.runs.status import groups_at
from tests.cluster.equal import assert_equal_numbers
from tests.experiments.executors.commands import SAVED, records_of, result_of, running, until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes of one core each."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes.add_node(num_cpus=1)
    yield nodes
    nodes.shutdown()


def test_the_group_of_a_killed_worker_goes_on_elsewhere(
    cluster: Cluster, config: Path, alone: dict[tuple[str, int], Record], tmp_path: Path
) -> None:
    words = (
        "run",
        config,
        *SAVED,
        "--results",
        tmp_path,
        "--executor",
        "ray",
        "--address",
        str(cluster.address),
        "--cpus",
        "1",
    )
    with running(*words, "--expiry", "10", "--json") as driver:
        until(driver, lambda: list(tmp_path.glob("mine/.group-*/manifest-*.json")))
        killed = until(
            driver, lambda: [group for group in groups_at(tmp_path) if group["state"] == "running" and group["step"]]
        )
        os.kill(killed[0]["pid"], signal.SIGKILL)
        outcome, _ = result_of(driver)
    records = records_of(tmp_path)
    assert_equal_numbers(records, alone)
    assert killed[0]["pid"] != driver.pid and outcome["trained"] <= len(alone)
    for arm in killed[0]["arms"]:
        pids = [worker.pid for worker in records[arm, 0].workers]
        assert pids[0] == killed[0]["pid"] and len(set(pids)) == 2
        assert records[arm, 0].workers[1].first_step > 0
    assert {group["state"] for group in groups_at(tmp_path)} == {"finished"}


def test_what_no_node_has_is_refused(cluster: Cluster, config: Path, tmp_path: Path) -> None:
    words = ("run", config, "--results", tmp_path, "--executor", "ray", "--address", str(cluster.address), "--cpus", "64")
    with running(*words) as driver:
        _, said = driver.communicate()
    assert driver.returncode == 2
    assert said.splitlines()[-1].startswith("leadline: --cpus 64 --gpus 0: no node of Ray has as many (")
