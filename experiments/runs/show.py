"""What a results folder holds, run by run: state, step, loss and key figures."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from leadline.experiments.config.study import Study
from leadline.experiments.publish.contents import tables_of
from leadline.experiments.publish.tables import table
from leadline.experiments.records.arms import differing, recorded_arms
from leadline.experiments.records.measurement import reading, select
from leadline.experiments.records.over_seeds import Statistic, statistic
from leadline.experiments.records.record import Curve, StoredRecord
from leadline.experiments.records.store import read_studies
from leadline.experiments.runs.stored import records_at
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.lock import is_locked
from leadline.experiments.training.group import Unfinished
from leadline.experiments.training.saving import unfinished_groups

Row = dict[str, Any]
FIGURES = 3  # of the first table of a study


def listed(path: Path) -> tuple[list[Row], list[str]]:
    """One row for each configuration of an arm that is recorded or was begun, and a line for each record that is left out.

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
    rows = [row for name, entries in by_study for row in _recorded(studies.get(name), list(entries))]
    return rows + [row for group in begun for row in _unfinished(group)], [*left_out, *notes]


def _recorded(study: Study | None, stored: Sequence[StoredRecord]) -> Iterator[Row]:
    """The rows of one study; an arm with several configurations is followed by the keys in which they differ."""
    changed = {} if study is None else _changed(study, stored)
    by_arm = itertools.groupby(stored, key=lambda entry: (entry.record.arm, entry.record.arm_hash))
    for (arm, digest), entries in by_arm:
        of_arm = list(entries)
        records = [entry.record for entry in of_arm]
        finished = [record for record in records if record.status == "finished"]
        lost = len(records) - len(finished)
        states = [f"{count} {state}" for count, state in ((len(finished), "finished"), (lost, "diverged")) if count]
        losses = statistic([value for _, value in select(finished, "loss")], digits=4)
        yield {
            "study": records[0].study,
            "arm": f"{arm}-{digest}",
            "label": ", ".join(part for part in (records[0].label or arm, changed.get(digest)) if part),
            "state": ", ".join(states),
            "step": max(record.steps for record in records),
            "loss (nats)": "" if losses is None else str(losses),
            "key figures": "" if study is None else _figures(study, of_arm),
        }


def _changed(study: Study, stored: Sequence[StoredRecord]) -> Mapping[str, str]:
    """By digest, the settings in which the configurations of one arm differ; nothing for an arm that has only one."""
    arms = recorded_arms(study, [entry.record for entry in stored])
    changed: dict[str, str] = {}
    for _, group in itertools.groupby(sorted(arms, key=lambda arm: arm.members[0].arm), key=lambda arm: arm.members[0].arm):
        variants = list(group)
        if len(variants) > 1:
            changed |= {arm.members[0].arm_hash: keys for arm, keys in zip(variants, differing(variants), strict=True)}
    return changed


def _figures(study: Study, stored: Sequence[StoredRecord]) -> str:
    """The first numbers of the first table of a study, of these records alone."""
    first = table(tables_of(study, stored)[0], study, stored)
    cells = zip(first.columns, first.rows[0] if first.rows else (), strict=False)
    numbers = [f"{name} {cell}" for name, cell in cells if isinstance(cell, Statistic) and not name.startswith("loss")]
    return "; ".join(numbers[:FIGURES])


def _unfinished(group: Unfinished) -> Iterator[Row]:
    """One row for each arm of a group that has no record yet."""
    state = "running" if is_locked(group.folder.parent) else "interrupted"
    losses_of: dict[str, list[float]] = {}
    for member, rows in zip(group.extra["members"], group.extra["curves"], strict=True):
        losses_of.setdefault(Path(member).parent.name, []).append(Curve.of_rows(rows).values[reading("loss")][-1])
    for arm, losses in losses_of.items():
        yield {
            "study": group.folder.parent.name,
            "arm": arm,
            "label": arm.rpartition("-")[0],
            "state": f"{len(losses)} {state}",
            "step": group.step,
            "loss (nats)": str(statistic([loss for loss in losses if math.isfinite(loss)], digits=4) or ""),
            "key figures": "",
        }
