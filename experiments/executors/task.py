"""What a worker of a cluster is told: a group as plain values, which it trains as a run on one machine would."""

import os
from pathlib import Path
from typing import Any

from rich.console import Console
from typing_extensions import TypedDict

from leadline.experiments.config.study import Arm
from leadline.experiments.data.source import CACHE
from leadline.experiments.executors.local import Local
from leadline.experiments.records.json_file import strict_json
from leadline.experiments.runtime.log import LOG
from leadline.experiments.runtime.program_cache import start_jax
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interruption
from leadline.experiments.training.group import Member, RunGroup, Unfinished, run_group
from leadline.experiments.training.plan import members_of
from leadline.experiments.training.session import Session, opened


class Task(TypedDict):
    """A group of a study.

    Attributes:
        folder: that paths of the configuration are relative to.
        results: the folder of the records, which all workers share.
        study: its name.
        arms: the configurations of its arms and of those that they start from.
        seeds: of its members.
        members: their IDs in the order of the group.
        begun: the folder of the checkpoints that it goes on from, if it is not its own.
        cpus: cores, each of which is a device where there is no accelerator.
        expiry: seconds without a heartbeat after which another process counts as dead.
    """

    folder: str
    results: str
    study: str
    arms: list[Any]
    seeds: list[int]
    members: list[str]
    begun: str | None
    cpus: int
    expiry: float


def task_of(group: RunGroup, session: Session, cpus: int) -> Task:
    """The group as a task, for a worker that shares the file system."""
    members: list[Member] = []
    for member in group.members:
        while member is not None:
            members.append(member)
            member = member.predecessor
    arms = {member.arm.name: member.arm for member in members}
    return Task(
        folder=str(Path.cwd()),
        results=str(session.results.absolute()),
        study=group.study,
        arms=[strict_json(arm.model_dump(mode="json")) for arm in arms.values()],
        seeds=sorted({member.seed for member in members}),
        members=[member.id for member in group.members],
        begun=None if group.unfinished is None else str(group.unfinished.folder.absolute()),
        cpus=cpus,
        expiry=session.worker.expiry,
    )


def work(task: Task, interruption: Interruption) -> int:
    """Trains and records a group in a process of its own, once nobody else that lives is at work on it.

    Args:
        task: the group.
        interruption: is asked between steps.

    Returns:
        The number of models that were recorded here.

    Raises:
        UserError: for whatever a run on one machine would refuse.
        Interrupted: when asked to stop, with everything kept.
    """
    os.chdir(task["folder"])
    note = start_jax(task["cpus"])
    results, executor, trained = Path(task["results"]), Local(task["expiry"]), 0
    with (
        Progress(Console(stderr=True), results / LOG) as progress,
        interruption,
        opened(results, progress, interruption, executor.expiry) as session,
    ):
        if note is not None:
            progress.note(note)
        group = group_of(task, progress)
        session.board.plan(group.study, [group])
        while True:
            trained += executor.train(group, "", session)
            if all(member.recorded for member in group.members):
                break
            executor.wait(session)
    session.worker.forget()
    return trained


def group_of(task: Task, progress: Progress) -> RunGroup:
    """The group of a task, with its data; the checkpoint that it goes on from is not looked up yet."""
    arms = [Arm.model_validate(arm) for arm in task["arms"]]
    results = Path(task["results"])
    members = members_of(task["study"], arms, task["seeds"], results, results / CACHE, progress)
    by_id = {member.id: member for member in members}
    begun = None if task["begun"] is None else Unfinished(Path(task["begun"]), 0, {})
    return run_group(task["study"], [by_id[name] for name in task["members"]], begun)
