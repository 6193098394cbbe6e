"""Groups as the jobs of an array of Slurm, which submitit submits."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leadline.experiments.executors.remote import Ended, last_lines
from leadline.experiments.executors.task import Task, work
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.packages import needed_package
from leadline.experiments.runtime.signals import SIGNALS, Interrupted, Interruption

FOLDER = ".slurm"  # in a results folder: what jobs are told and what they say
# Sent before a time limit and, where the cluster says so, before a preemption; submitit requeues a job that gets it.
SOON = signal.SIGUSR2
MINUTES = 24 * 60  # of a job, unless the user gives `time`
QUEUE_LOOK = 30.0  # s between two looks at the queue


class Slurm:
    """Slurm finds a node for each job. One that is preempted or comes to its time limit is requeued.

    Args:
        results: the folder of the records.
        cpus: cores of a job.
        gpus: accelerators of a job.
        retries: how often a job goes on that came to its time limit.
        options: of sbatch, as submitit names them, such as `partition`, and `time` in minutes.
        cluster: "slurm"; "local": processes of this machine, which tests take.

    Raises:
        UserError: where submitit is not installed, there is no Slurm, an option is none, or an accelerator is not whole.
    """

    name = "Slurm"

    def __init__(
        self, results: Path, cpus: int, gpus: float, retries: int, options: Mapping[str, Any], cluster: str = "slurm"
    ) -> None:
        if not float(gpus).is_integer():
            raise UserError(f"--gpus {gpus:g}: Slurm lends whole accelerators; give a whole number")
        submitit = needed_package("submitit", "--executor slurm", "slurm")
        self.cpus, self._queued = cpus, cluster == "slurm"
        self._jobs, self._missing, self._looked = dict[int, Any](), set[str](), time.monotonic()
        parameters = {f"slurm_{key}": value for key, value in ({"time": MINUTES} | dict(options)).items()}
        if gpus:
            parameters["gpus_per_node"] = int(gpus)
        try:
            self._executor = submitit.AutoExecutor(results.absolute() / FOLDER, cluster=cluster, slurm_max_num_timeout=retries)
            self._executor.update_parameters(name="leadline", cpus_per_task=cpus, **parameters)
        except (RuntimeError, TypeError, ValueError, NameError) as error:
            raise UserError(f"--executor slurm: {last_lines(str(error))}") from error

    def submit(self, tasks: Sequence[Task]) -> None:
        try:
            self._jobs = dict(enumerate(self._executor.map_array(SlurmWork(), tasks)))
        except Exception as error:  # what submitit makes of the answer of sbatch
            raise UserError(f"--executor slurm: sbatch refused the jobs ({last_lines(str(error))})") from error

    def ended(self) -> list[Ended]:
        gone = self._gone()
        ended = []
        for place, job in list(self._jobs.items()):
            # submitit would ask the accounting, which some clusters have not.
            if job.paths.result_pickle.exists() if self._queued else job.done():
                ended.append(Ended(place, *_outcome(job)))
            elif job.job_id in gone:
                ended.append(Ended(place, 0, f"its job ended without a result; {job.paths.stderr} has what it said"))
        for task in ended:
            del self._jobs[task.place]
        return ended

    def _gone(self) -> set[str]:
        """The jobs that were not in the queue at two looks, between which a shared folder shows what they have written."""
        if not self._queued or time.monotonic() - self._looked < QUEUE_LOOK:
            return set()
        self._looked = time.monotonic()
        listed = subprocess.run(["squeue", "--noheader", "--array", "--format=%i"], capture_output=True, text=True, check=False)
        if listed.returncode:
            return set()
        before, self._missing = self._missing, {job.job_id for job in self._jobs.values()} - set(listed.stdout.split())
        return before & self._missing

    def cancel(self) -> None:
        for job in self._jobs.values():
            job.cancel(check=False)


def _outcome(job: Any) -> tuple[int, str]:
    try:
        return job.result(), ""
    except Exception as error:  # the worker's, or what submitit says of a job without a result
        return 0, last_lines(str(error))


class SlurmWork:
    """A task, in a job. submitit knows by `checkpoint` that it may be requeued."""

    def __call__(self, task: Task) -> int:
        interruption = Interruption(print, (*SIGNALS, SOON), once=True)
        try:
            return work(task, interruption)
        except Interrupted:
            if interruption.received == SOON or _is_wanted():
                signal.raise_signal(SOON)  # submitit's handler is in place again: it requeues the job and ends
            raise

    def checkpoint(self, task: Task) -> Any:
        """What the requeued job does: the same, from the checkpoint of the group."""
        return needed_package("submitit.helpers", "--executor slurm", "slurm").DelayedSubmission(self, task)


def _is_wanted() -> bool:
    """Whether this job was preempted, not cancelled: both come with the same signal, and Slurm calls only the first running."""
    if "SLURM_JOB_ID" not in os.environ:
        return False
    job = os.environ["SLURM_JOB_ID"]
    if "SLURM_ARRAY_TASK_ID" in os.environ:  # the number of one job of an array may stand for all of it
        job = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    listed = subprocess.run(
        ["squeue", "--noheader", f"--jobs={job}", "--format=%T"], capture_output=True, text=True, check=False
    )
    return listed.stdout.strip() in ("RUNNING", "PREEMPTED")
