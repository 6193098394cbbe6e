"""Groups trained by the workers of a cluster, which an engine schedules."""

import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import NamedTuple, Protocol, runtime_checkable

from leadline.experiments.executors.task import Task, task_of
from leadline.experiments.runs.status import groups_of
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.progress import Work
from leadline.experiments.runtime.signals import Interrupted
from leadline.experiments.runtime.worker import LOOK
from leadline.experiments.runtime.worker_files import EXPIRY, seems_dead, workers_of
from leadline.experiments.training.group import RunGroup
from leadline.experiments.training.memory import Room
from leadline.experiments.training.session import Session

LINES = 5  # of what a worker said, in an error
GRACE = 30.0  # s that workers have to keep what they have


class Ended(NamedTuple):
    """A task that has ended."""

    place: int  # among those that were submitted
    trained: int  # models that were recorded
    error: str = ""  # what went wrong


@runtime_checkable
class Engine(Protocol):
    """What schedules tasks: it finds workers, and restarts a task whose worker dies."""

    name: str
    cpus: int  # cores of a task

    def submit(self, tasks: Sequence[Task]) -> None:
        """Begins tasks. UserError where the cluster cannot have any of them."""
        ...

    def ended(self) -> list[Ended]:
        """Those that have ended since it was asked last."""
        ...

    def cancel(self) -> None:
        """Asks all workers to keep what they have and stop."""
        ...


class Remote:
    """Every group that can begin is a task. Those that start from others follow when these are recorded."""

    def __init__(self, engine: Engine, expiry: float = EXPIRY, room: Room | None = None) -> None:
        self.expiry, self.room = expiry, room or Room()
        self._engine, self._groups = engine, list[RunGroup]()

    def train(self, group: RunGroup, part: str, session: Session) -> int:  # noqa: ARG002
        self._groups.append(group)
        return 0

    def wait(self, session: Session) -> int:
        with redirect_stdout(sys.stderr):  # standard output is for results, and engines print what they meet
            return self._wait(session)

    def _wait(self, session: Session) -> int:
        groups, self._groups = self._groups, []
        stopped = f"stopped; the workers of {self._engine.name} keep what they have trained"
        session.worker.pause(session.interruption, stopped)
        if not groups:  # another run computes what is left
            return 0
        session.progress.start(Work(f"{self._engine.name}: groups", len(groups), unit="group"))
        self._engine.submit([task_of(group, session, self._engine.cpus) for group in groups])
        ended: list[Ended] = []
        try:
            while len(ended) < len(groups):
                for task in self._engine.ended():
                    group = groups[task.place]
                    state, step = ("failed", None) if task.error else ("finished", group.structure.train.steps)
                    session.board.set(group, state, task.error, step)
                    ended.append(task)
                session.progress.reach(len(ended), f"{_running(session)} running")
                session.worker.pause(session.interruption, stopped)
        except Interrupted:
            self._engine.cancel()
            until = time.monotonic() + GRACE
            while len(ended) < len(groups) and time.monotonic() < until:
                ended += self._engine.ended()
                time.sleep(LOOK)
            raise
        trained = sum(task.trained for task in ended)
        session.progress.end(f"{trained} models on {self._engine.name}")
        failed = [f"{groups[task.place].study}: {groups[task.place].names}: {task.error}" for task in ended if task.error]
        if failed:
            raise UserError("\n".join(failed))
        return trained


def _running(session: Session) -> int:
    workers = workers_of(session.results).items()
    alive = (content for owner, content in workers if not seems_dead(session.results, owner, content))
    return sum(group["state"] == "running" for content in alive for group in groups_of(content))


def last_lines(text: str) -> str:
    """What matters of a long message, on one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-LINES:])
