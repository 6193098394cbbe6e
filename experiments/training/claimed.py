"""Trains and records a group that this process has claimed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import jax

from leadline.experiments.records.store import read_record
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interrupted
from leadline.experiments.runtime.worker import Lost
from leadline.experiments.training import checkpoint
from leadline.experiments.training.group import Member, RunGroup, Unfinished, run_group
from leadline.experiments.training.loop import train_group
from leadline.experiments.training.recording import record_group
from leadline.experiments.training.reporting import report_record, work_of
from leadline.experiments.training.saving import group_folder, remove, remove_recorded, unfinished
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
    planned, claim = group, session.worker.claim(group.claims)
    if claim is None:
        return 0
    with claim:
        unrecorded = [member for member in group.members if not member.recorded]
        if not unrecorded:
            return 0
        try:
            group = replace(_continued(group, unrecorded, session.progress), claim=claim)
            begin(group)
            _train(group, part, session)
        except Lost as lost:
            if jax.process_count() > 1:  # the others cannot be told in the middle of a step
                raise UserError(f"{group.study}: {lost}; run it again") from lost
            if all(member.recorded for member in group.members):  # else the other process removes what this one still wrote
                remove(group_folder(group))
                for member in group.members:
                    checkpoint.tidy(member.checkpoints)
            session.progress.note(f"{group.study}: {lost}")
            unrecorded = []
    if unrecorded and len(group.members) < len(planned.members):
        session.board.set(planned, "finished", step=planned.structure.train.steps)
    remove_recorded(group.members[0].folder.parents[1], session.worker)
    for member in unrecorded:
        report_record(read_record(member.folder), session.progress)
    return len(unrecorded)


def _continued(group: RunGroup, unrecorded: Sequence[Member], progress: Progress) -> RunGroup:
    """The group with the last checkpoint of its members. Without one it is of those alone that nobody has recorded since."""
    planned = [] if group.unfinished is None else [group.unfinished.folder]
    begun = _last([group_folder(group), *planned], progress)
    if begun is None and len(unrecorded) < len(group.members):
        group = run_group(group.study, unrecorded)
        begun = _last([group_folder(group)], progress)
    return replace(group, unfinished=begun)


def _last(folders: Iterable[Path], progress: Progress) -> Unfinished | None:
    """The checkpoint of the highest step in any of these folders."""
    checkpoints = [unfinished(folder, progress.note) for folder in dict.fromkeys(folders)]
    return max(filter(None, checkpoints), key=lambda last: last.step, default=None)


def _train(group: RunGroup, part: str, session: Session) -> None:
    progress, programs = session.progress, session.programs
    progress.start(work_of(group, part))
    session.board.set(group, "running")
    try:
        with jax.set_mesh(group.mesh):
            trained = train_group(group, programs, progress, session.interruption)
            record_group(group, trained, programs, session.origin, progress, session.interruption)
        group.check_claim()
        remove(group_folder(group))
    except Lost:
        session.board.set(group, "waiting")
        raise
    except Interrupted:
        session.board.set(group, "stopped", step=progress.pace.done)
        raise
    except Exception as error:
        session.board.set(group, "failed", str(error), progress.pace.done)
        raise
    session.board.set(group, "finished", step=progress.pace.done)
    progress.end(f"{len(group.members)} models on {group.mesh.size} devices")
