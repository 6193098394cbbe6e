"""What the groups of a run have in common, and what a results folder is told of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leadline.experiments.records.provenance import Provenance, provenance
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interruption
from leadline.experiments.runtime.worker import Worker
from leadline.experiments.runtime.worker_files import EXPIRY
from leadline.experiments.training.group import RunGroup
from leadline.experiments.training.memory import Room
from leadline.experiments.training.saving import group_folder


class Board:
    """The groups of this process with their state, as `leadline status` reads them.

    A group is a row: `id`, `study`, `arms`, `models`, `state` (waiting, running, stopped, finished or failed), `step`, `steps`,
    `error`, and while it runs what `Progress.now` says.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress, self._rows = progress, dict[str, dict[str, Any]]()

    def plan(self, study: str, groups: Sequence[RunGroup]) -> None:
        """These groups of a study are not recorded yet. Others of it that were to be are now."""
        planned = {_id(group): _row(group) for group in groups}
        for key, row in self._rows.items():
            if row["study"] == study and key not in planned:
                row["state"] = "finished"
        self._rows = {**self._rows, **planned}

    def set(self, group: RunGroup, state: str, error: str = "", step: int | None = None) -> None:
        """Sets the state of a group and its steps so far; None keeps the steps that it had when it was planned."""
        step = group.first_step if step is None else step
        self._rows = {**self._rows, _id(group): _row(group) | {"state": state, "error": error, "step": step}}

    def rows(self) -> list[dict[str, Any]]:
        """The rows now; may be called by another thread."""
        now = self._progress.now
        return [row | (now if row["state"] == "running" else {}) for row in self._rows.values()]


def _id(group: RunGroup) -> str:
    return f"{group.study}/{group_folder(group).name}"


def _row(group: RunGroup) -> dict[str, Any]:
    arms = list(dict.fromkeys(member.arm.name for member in group.members))
    facts = {"steps": group.structure.train.steps, "step": group.first_step}
    return {"id": _id(group), "study": group.study, "arms": arms, "models": len(group.members), "state": "waiting", **facts}


@dataclass(frozen=True)
class Session:
    """A process that trains groups of a results folder."""

    worker: Worker
    progress: Progress
    interruption: Interruption
    board: Board
    room: Room = field(default_factory=Room)  # for a new group
    origin: Provenance = field(default_factory=provenance)
    programs: list[str] = field(default_factory=list)  # names of those that were compiled

    @property
    def results(self) -> Path:
        return self.worker.results


@contextmanager
def opened(
    results: Path, progress: Progress, interruption: Interruption, expiry: float = EXPIRY, room: Room | None = None
) -> Iterator[Session]:
    """A session whose heartbeat beats until it is left.

    Args:
        results: the folder of the records.
        progress: hears of every step.
        interruption: is asked between steps.
        expiry: seconds without a heartbeat after which another process counts as dead.
        room: for a new group; None: what the devices of this process hold.

    Raises:
        UserError: if the folder cannot be written.
    """
    worker, board = Worker(results, expiry), Board(progress)
    worker.groups = board.rows
    with worker:
        yield Session(worker, progress, interruption, board, room or Room())
