"""What a results folder holds, run by run: state, step, loss and key figures."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leadline.experiments.config.load import named_arms
from leadline.experiments.config.study import Study
from leadline.experiments.publish.contents import tables_of
from leadline.experiments.publish.shown import Named
from leadline.experiments.publish.tables import table
from leadline.experiments.records.arms import distinguishing_settings, recorded_arms
from leadline.experiments.records.measurement import reading, select
from leadline.experiments.records.over_seeds import Statistic, statistic
from leadline.experiments.records.record import Curve, StoredRecord
from leadline.experiments.records.store import is_recorded, read_studies
from leadline.experiments.runs.stored import records_at
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.worker_files import is_at_work
from leadline.experiments.training.group import Unfinished, claim_of
from leadline.experiments.training.saving import unfinished_groups

FIGURES = 3  # of the first table of a study


@dataclass(frozen=True)
class Listed:
    """One configuration of an arm that is recorded or was begun."""

    study: str
    arm: str  # ARM-HASH
    label: str  # for readers; with the settings that differ, where an arm has several configurations
    seeds: Mapping[str, int]  # how many are finished, diverged, running or interrupted
    step: int  # that the models have come to
    loss: Statistic | None  # [nats], over the seeds that have a finite one
    figures: Mapping[str, Statistic] = field(default_factory=dict)  # the first numbers of the first table of the study


def row(entry: Listed) -> dict[str, str]:
    """An entry as a row of a table."""
    return {
        "study": entry.study,
        "arm": entry.arm,
        "label": entry.label,
        "state": ", ".join(f"{count} {state}" for state, count in entry.seeds.items() if count),
        "step": str(entry.step),
        "loss (nats)": str(entry.loss or ""),
        "key figures": "; ".join(f"{name} {number}" for name, number in entry.figures.items()),
    }


def listed(path: Path) -> tuple[list[Listed], list[str]]:
    """One entry for each configuration of an arm that is recorded or was begun, and a line for each record that is left out.

    Args:
        path: a results folder, or a study or arm in it.

    Raises:
        UserError: where there is neither a record nor a group that was begun.
    """
    notes: list[str] = []
    begun = [group for folder in (path, *path.glob("*/")) for group in unfinished_groups(folder, notes.append)]
    try:
        results, stored, left_out = records_at(path)
    except UserError:
        if not begun:
            raise
        results, stored, left_out = path, [], []
    studies = read_studies(results)
    by_study = itertools.groupby(stored, key=lambda entry: entry.record.study)
    recorded = [arm for name, entries in by_study for arm in _recorded(studies.get(name), list(entries))]
    return recorded + [arm for group in begun for arm in _unfinished(group)], [*left_out, *notes]


def _recorded(study: Study | None, stored: Sequence[StoredRecord]) -> Iterator[Listed]:
    """Yields the configurations of the arms of one study."""
    changed, named = ({}, {}) if study is None else (_changed(study, stored), named_arms(study))
    by_arm = itertools.groupby(stored, key=lambda entry: (entry.record.arm, entry.record.arm_hash))
    for (arm, digest), entries in by_arm:
        of_arm = list(entries)
        records = [entry.record for entry in of_arm]
        finished = [record for record in records if record.status == "finished"]
        yield Listed(
            study=records[0].study,
            arm=f"{arm}-{digest}",
            label=", ".join(part for part in (records[0].label or arm, changed.get(digest)) if part),
            seeds={"finished": len(finished), "diverged": len(records) - len(finished)},
            step=max(record.steps for record in records),
            loss=statistic([value for _, value in select(finished, "loss")], digits=4),
            figures={} if study is None else _figures(study, of_arm, named),
        )


def _changed(study: Study, stored: Sequence[StoredRecord]) -> Mapping[str, str]:
    """By digest, the settings in which the configurations of one arm differ; nothing for an arm that has only one."""
    arms = recorded_arms(study, [entry.record for entry in stored])
    changed: dict[str, str] = {}
    for _, group in itertools.groupby(sorted(arms, key=lambda arm: arm.members[0].arm), key=lambda arm: arm.members[0].arm):
        variants = list(group)
        if len(variants) > 1:
            changed |= {
                arm.members[0].arm_hash: keys for arm, keys in zip(variants, distinguishing_settings(variants), strict=True)
            }
    return changed


def _figures(study: Study, stored: Sequence[StoredRecord], named: Named) -> dict[str, Statistic]:
    """The first numbers of the first table of a study, of these records alone."""
    first = table(tables_of(study, stored)[0], study, stored, named)
    cells = zip(first.columns, first.rows[0] if first.rows else (), strict=False)
    numbers = ((name, cell) for name, cell in cells if isinstance(cell, Statistic) and not name.startswith("loss"))
    return dict(itertools.islice(numbers, FIGURES))


def _unfinished(group: Unfinished) -> Iterator[Listed]:
    """Yields each arm of a group that has members without a record."""
    study, members = group.folder.parent, group.extra["members"]
    state = "running" if any(is_at_work(study.parent, claim_of(study, member)) for member in members) else "interrupted"
    losses_of: dict[str, list[float]] = {}
    for member, rows in zip(members, group.extra["curves"], strict=True):
        if not is_recorded(study / member):
            last = [math.nan, *Curve.of_rows(rows).values.get(reading("loss"), ())][-1]
            losses_of.setdefault(Path(member).parent.name, []).append(last)
    for arm, losses in losses_of.items():
        finite = [loss for loss in losses if math.isfinite(loss)]
        label, seeds = arm.rpartition("-")[0], {state: len(losses)}
        yield Listed(study.name, arm, label, seeds, group.step, statistic(finite, digits=4))
