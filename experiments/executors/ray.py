"""Groups as tasks of Ray, on a cluster of this machine or one that is there."""

import os
from collections.abc import Sequence

from leadline.experiments.executors.remote import Ended, last_lines
from leadline.experiments.executors.task import Task, work
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.packages import needed_package
from leadline.experiments.runtime.signals import SIGNALS, Interrupted, Interruption


class Ray:
    """Ray finds a node with cores and accelerators for each task, and another one if its worker or its node dies.

    Args:
        address: of a cluster, "auto" for the one that this machine is part of; None: one of this machine alone, which ends with
            the run.
        cpus: cores of a task.
        gpus: accelerators of a task.
        retries: how often a task is restarted.

    Raises:
        UserError: where Ray is not installed or there is no such cluster.
    """

    name = "Ray"

    def __init__(self, address: str | None, cpus: int, gpus: float, retries: int) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self.cpus, self._ray = cpus, needed_package("ray", "--executor ray", "ray")
        try:
            self._ray.init(address=address or "local", logging_level="ERROR", log_to_driver=False, include_dashboard=None)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise UserError(f"--address {address}: there is no Ray cluster ({last_lines(str(error))})") from error
        self._check(cpus, gpus)
        # A process trains one group: its devices are chosen before JAX starts, and it holds the memory of its accelerator.
        options = {"num_cpus": cpus, "num_gpus": gpus, "max_calls": 1, "max_retries": retries}
        self._work = self._ray.remote(**options, retry_exceptions=[Interrupted])(ray_work)
        self._tasks: dict[object, int] = {}

    def _check(self, cpus: int, gpus: float) -> None:
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
            most = ", ".join(f"{node.get('CPU', 0):g} CPU and {node.get('GPU', 0):g} GPU" for node in nodes)
            raise UserError(f"--cpus {cpus} --gpus {gpus:g}: no node of Ray has as many ({most}); ask for fewer")

    def submit(self, tasks: Sequence[Task]) -> None:
        self._tasks = {self._work.remote(task): place for place, task in enumerate(tasks)}

    def ended(self) -> list[Ended]:
        done, _ = self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=0)
        ended = []
        for reference in done:
            place = self._tasks.pop(reference)
            try:
                ended.append(Ended(place, self._ray.get(reference)))
            except self._ray.exceptions.RayError as error:
                ended.append(Ended(place, 0, last_lines(str(error))))
        return ended

    def cancel(self) -> None:
        for reference in self._tasks:
            self._ray.cancel(reference)  # as Ctrl-C: a KeyboardInterrupt of the worker


def ray_work(task: Task) -> int:
    """A task, in a worker."""
    return work(task, Interruption(print, SIGNALS, once=True))
