"""Trains and records a group that this process has claimed."""

import shutil
from collections.abc import Callable
from dataclasses import replace

import jax

from leadline.experiments.records.store import read_record
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.signals import Interrupted
from leadline.experiments.runtime.worker import Lost
from leadline.experiments.training.group import RunGroup
from leadline.experiments.training.loop import train_group
from leadline.experiments.training.reporting import report_record, work_of
from leadline.experiments.training.saving import group_folder, record_group, remove, unfinished
from leadline.experiments.training.session import Session


def train_claimed(group: RunGroup, part: str, session: Session, begin: Callable[[RunGroup], None] = lambda group: None) -> int:  # noqa: ARG005
    """Trains a group and writes its records, unless another process is at work on one of its members.

    Args:
        group: as it was planned. What others have done since is looked up.
        part: of its study, as "group 2 of 6".
        session: of this process.
        begin: is called with the group before it is trained, and not at all where it is not.

    Returns:
        The number of models that this process has recorded.

    Raises:
        UserError: if the disk refuses, or weights to start from cannot be used.
        Interrupted: when asked to stop, with everything kept.
    """
    claim = session.worker.claim(group.claims)
    if claim is None:
        return 0
    with claim:
        group = replace(group, claim=claim)
        unrecorded = [member for member in group.members if not member.recorded]
        if not unrecorded:
            return 0
        begun = unfinished(group.unfinished.folder if group.unfinished else group_folder(group), session.progress.note)
        try:
            group = replace(group, unfinished=begun)
            begin(group)
            _train(group, part, session)
        except Lost as lost:
            if jax.process_count() > 1:  # the others cannot be told in the middle of a step
                raise UserError(f"{group.study}: {lost}; run it again") from lost
            if all(member.recorded for member in group.members):  # else the other process removes what this one still wrote
                shutil.rmtree(group_folder(group), ignore_errors=True)
            session.progress.note(f"{group.study}: {lost}")
            return 0
    for member in unrecorded:
        report_record(read_record(member.folder), session.progress)
    return len(unrecorded)


def _train(group: RunGroup, part: str, session: Session) -> None:
    progress, programs = session.progress, session.programs
    progress.start(work_of(group, part))
    session.board.set(group, "running")
    try:
        with jax.set_mesh(group.mesh):
            trained = train_group(group, programs, progress, session.interruption)
            record_group(group, trained, programs, session.origin, progress, session.interruption)
        remove(group)
    except (Interrupted, Lost):
        session.board.set(group, "waiting")
        raise
    except Exception as error:
        session.board.set(group, "failed", str(error))
        raise
    session.board.set(group, "finished")
    progress.end(f"{len(group.members)} models on {group.mesh.size} devices")
