"""Groups that many processes train together: the first one claims and records them, the others do what it says."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import jax

from leadline.experiments.executors.base import Executor
from leadline.experiments.executors.local import Local
from leadline.experiments.executors.task import group_of, task_of
from leadline.experiments.records.provenance import provenance
from leadline.experiments.runtime.errors import Apart, UserError
from leadline.experiments.runtime.hosts import agreed
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interrupted, Interruption
from leadline.experiments.runtime.worker_files import EXPIRY
from leadline.experiments.training.checkpoint import extra_of
from leadline.experiments.training.claimed import train_claimed
from leadline.experiments.training.group import RunGroup, Unfinished
from leadline.experiments.training.loop import train_group
from leadline.experiments.training.memory import Room
from leadline.experiments.training.recording import record_group
from leadline.experiments.training.session import Session


class Hosts(Local):
    """As `Local`, in the first of many processes. Every other one is in `follow`.

    Attributes:
        training: whether the others are at work on a group.
    """

    def __init__(self, expiry: float = EXPIRY, room: Room | None = None) -> None:
        super().__init__(expiry, room)
        self.training = False

    def train(self, group: RunGroup, part: str, session: Session) -> int:
        def begin(claimed: RunGroup) -> None:
            self.training = True
            agreed([task_of(claimed, session, cpus=1), claimed.first_step])

        try:
            trained = train_claimed(group, part, session, begin)
        except Interrupted:
            self.training = False
            raise
        self.training = False
        self._left += [] if trained else [group]
        return trained


@contextmanager
def leading(executor: Executor) -> Iterator[None]:
    """Lets the other processes go at the end, if there are any.

    They cannot be reached where this one alone has failed while all were training: JAX ends them once this one is gone.

    Raises:
        Apart: for an error of this process, or of one of the others, while all were training.
    """
    try:
        with _together(training=lambda: isinstance(executor, Hosts) and executor.training):
            yield
    finally:
        if isinstance(executor, Hosts) and not executor.training:
            agreed()


@contextmanager
def _together(training: Callable[[], bool]) -> Iterator[None]:
    """Turns errors of processes that train together into Apart."""
    try:
        yield
    except (UserError, jax.errors.JaxRuntimeError) as error:
        if not training():
            raise
        if isinstance(error, UserError):
            raise Apart(str(error)) from error
        reason = str(error).split("\n")[0]
        raise Apart(f"training together failed ({reason}); if a process is gone, run the same command again") from error


def follow(progress: Progress) -> None:
    """Trains what the first process says, and writes nothing, until that one lets go.

    Raises:
        Apart: for an error of this process, or of one of the others.
        Interrupted: when asked to stop.
    """
    stopped: Interrupted | None = None
    with Interruption(progress.note) as interruption, _together(training=lambda: True):
        while (said := agreed()) is not None:
            task, step = said
            group = group_of(task, progress)
            if group.unfinished is not None:
                folder = group.unfinished.folder
                group = replace(group, unfinished=Unfinished(folder, step, extra_of(folder, step)))
            programs: list[str] = []
            try:
                with jax.set_mesh(group.mesh):
                    trained = train_group(group, programs, progress, interruption)
                    record_group(group, trained, programs, provenance(), progress, interruption)
            except Interrupted as error:  # the first process is too, and lets go
                stopped = error
    if stopped is not None:
        raise stopped
