"""Who trains the groups of a study: this process, or the workers of a cluster."""

from typing import Protocol, runtime_checkable

from leadline.experiments.training.group import RunGroup
from leadline.experiments.training.memory import Room
from leadline.experiments.training.session import Session


@runtime_checkable
class Executor(Protocol):
    """Schedules groups. Whoever trains one claims it first, so that no two executors train the same.

    Attributes:
        expiry: seconds without a heartbeat after which a process counts as dead.
        room: for a new group.
    """

    expiry: float
    room: Room

    def train(self, group: RunGroup, part: str, session: Session) -> int:
        """Trains and records a group, or hands it to a worker (leadline.experiments.training.plan.Train)."""
        ...

    def wait(self, session: Session) -> int:
        """Waits until groups that others train may be recorded. The number of models that workers have recorded meanwhile.

        Raises:
            UserError: where a group has failed.
            Interrupted: when asked to stop, with everything kept.
        """
        ...
