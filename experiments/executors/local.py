"""Groups trained in this process, one after the other."""

from leadline.experiments.runtime.worker_files import EXPIRY
from leadline.experiments.training.claimed import train_claimed
from leadline.experiments.training.group import RunGroup
from leadline.experiments.training.memory import Room
from leadline.experiments.training.session import Session


class Local:
    """What another process is at work on is left to it, and done here if that one dies."""

    def __init__(self, expiry: float = EXPIRY, room: Room | None = None) -> None:
        self.expiry, self.room = expiry, room or Room()
        self._left: list[RunGroup] = []

    def train(self, group: RunGroup, part: str, session: Session) -> int:
        trained = train_claimed(group, part, session)
        self._left += [] if trained else [group]
        return trained

    def wait(self, session: Session) -> int:
        worker, reason = session.worker, "stopped while waiting for another run; what is recorded is kept"
        for group in self._left:
            holder = worker.holder(group.claims)
            session.progress.note(f"{group.study}: waiting for {holder}, to finish {group.names}")
        worker.pause(session.interruption, reason)
        while self._left and not any(worker.is_free(group.claims) for group in self._left):
            worker.pause(session.interruption, reason)
        self._left.clear()
        return 0
