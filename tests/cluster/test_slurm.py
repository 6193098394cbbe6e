"""Groups as jobs: through submitit's own executor on this machine, and on a Slurm of one node that preempts them."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from leadline.experiments.executors.remote import Remote
from leadline.experiments.executors.slurm import Slurm
from leadline.experiments.executors.task import Task
from leadline.experiments.records.record import Record
from leadline.experiments.runs.status import groups_at
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.worker_files import owner_of, workers_of
from leadline.experiments.studies.run import planned, run
from leadline.experiments.training.memory import Room
from tests.cluster.equal import assert_equal_numbers
from tests.experiments.executors.commands import SAVED, TIMEOUT, records_of, result_of, running, until


class Preempted(Slurm):
    """Sends jobs the signal that Slurm sends before it preempts one, as soon as one of them has saved something."""

    results = Path()

    def submit(self, tasks: Sequence[Task]) -> None:
        super().submit(tasks)
        end = time.monotonic() + TIMEOUT
        while not list(self.results.glob("mine/.group-*/manifest-*.json")):
            assert time.monotonic() < end
            time.sleep(0.01)
        owners = set(filter(None, map(owner_of, self.results.glob("mine/.claims/*"))))
        for owner in owners:
            os.kill(workers_of(self.results)[owner]["pid"], signal.SIGUSR2)


def test_a_preempted_job_goes_on(config: Path, alone: dict[tuple[str, int], Record], tmp_path: Path) -> None:
    engine = Preempted(tmp_path, 1, 0.0, 3, {}, cluster="local")
    engine.results = tmp_path
    ran = run(
        planned(config, SAVED), tmp_path, Progress(Console(quiet=True)), print, executor=Remote(engine, room=Room(models=6))
    )
    records = records_of(tmp_path)
    assert_equal_numbers(records, alone)
    assert (ran.trained, ran.recorded) == (6, 0)
    assert any(len(record.workers) == 2 for record in records.values())


def test_a_job_that_fails_is_named(config: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / ".claims").touch()
    executor = Remote(Slurm(tmp_path, 1, 0.0, 3, {}, cluster="local"))
    with pytest.raises(UserError, match=r"^mine: gated: .*cannot be claimed \(Not a directory\)"):
        run(planned(config, ["only=['gated']"]), tmp_path, Progress(Console(quiet=True)), print, executor=executor)
    (group,) = groups_at(tmp_path)
    assert group["state"] == "failed" and "cannot be claimed" in group["error"]


@pytest.mark.skipif("SLURM_CONF" not in os.environ, reason="no Slurm: .ci/slurm says what is missing")
def test_jobs_that_slurm_preempts_are_requeued(config: Path, alone: dict[tuple[str, int], Record], tmp_path: Path) -> None:
    words = ("run", config, *SAVED, "--results", tmp_path, "--executor", "slurm", "--cpus", "1", "--slurm", "partition=low")
    with running(*words, "--expiry", "10", "--json") as driver:
        until(driver, lambda: list(tmp_path.glob("mine/.group-*/manifest-*.json")))
        urgent = ["sbatch", "--partition=high", f"--ntasks={os.cpu_count()}", "--output=/dev/null", "--wrap=true"]
        subprocess.run(urgent, check=True, capture_output=True)
        outcome, _ = result_of(driver)
    records = records_of(tmp_path)
    assert_equal_numbers(records, alone)
    assert outcome["trained"] == 6
    assert any(len(record.workers) == 2 and record.workers[1].first_step > 0 for record in records.values())
