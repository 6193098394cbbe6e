"""Run groups, an arm with all of its seeds, as the page shows them: settings, final numbers, curves and provenance."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leadline.experiments.config.load import named_arms
from leadline.experiments.config.study import Study
from leadline.experiments.publish.contents import COUNTS, Section
from leadline.experiments.publish.names import value_name, with_unit
from leadline.experiments.records.arms import RecordedArm, recorded_arms
from leadline.experiments.records.captions import provenance, scale
from leadline.experiments.records.over_seeds import statistic
from leadline.experiments.records.packed import PACKED
from leadline.experiments.records.quantities import QUANTITIES, Quantity, quantity
from leadline.experiments.records.record import Curve, Record, StoredRecord
from leadline.experiments.records.store import RECORD, record_folder

WIDTH, HEIGHT = 560, 168  # of a curve
MOST_CURVES = 3
MOST_NUMBERS = 24


@dataclass(frozen=True)
class SmallCurve:
    """A quantity over training: a polyline for each seed, in a view box of WIDTH × HEIGHT."""

    title: str  # quantity and unit
    lines: tuple[str, ...]  # `points` of SVG
    low: str  # the value at the lower edge
    high: str  # the value at the upper edge
    steps: int  # at the right edge


@dataclass(frozen=True)
class ArmRuns:
    """One arm with all of its seeds."""

    id: str  # of its element on the page
    label: str
    seeds: str  # how many finished, and how many diverged
    scale: str  # parameters, steps and tokens
    settings: tuple[tuple[str, str], ...]  # in which it differs from what the arms of its study share
    numbers: tuple[tuple[str, str], ...]  # final ones: mean and deviation over seeds
    curves: tuple[SmallCurve, ...]
    command: str  # trains it again
    files: tuple[str, ...]  # of the records, relative to the results folder
    notes: tuple[str, ...]  # commit, date and device


def run_id(study: str, arm: str) -> str:
    """The identifier of a run group on the page."""
    return f"run-{study}-{arm}"


def command_of(study: Study, family: str | None) -> str:
    """What runs an arm of a study as its file names the arm, or the study where that is None."""
    return study.runs_with if family is None or study.exact is not None else f"{study.runs_with} 'only=[\"{family}\"]'"


def run_groups(section: Section, results: Path) -> list[ArmRuns]:
    """The run groups of a study, in the order of its file."""
    by_arm: dict[str, list[StoredRecord]] = {}
    for entry in section.stored:
        by_arm.setdefault(entry.record.arm, []).append(entry)
    named = named_arms(section.described)
    order = {arm: number for number, arm in enumerate(named)}
    configured = {
        arm.members[0].arm: arm for arm in recorded_arms(section.described, [entry.record for entry in section.stored])
    }
    wanted = _wanted(section.described)
    groups = []
    for arm in sorted(by_arm, key=lambda arm: order.get(arm, len(order))):
        records = [entry.record for entry in by_arm[arm]]
        family, label = named.get(arm, (None, records[0].label or arm.replace("_", " ")))
        groups.append(
            ArmRuns(
                run_id(section.study, arm),
                label,
                _seeds(records),
                scale(records),
                _settings(section.described, configured.get(arm)),
                _numbers(records, wanted),
                small_curves([entry.curve() for entry in by_arm[arm]], wanted),
                command_of(section.described, family),
                _files(records, results),
                provenance(records),
            )
        )
    return groups


def _seeds(records: Sequence[Record]) -> str:
    if not any(record.steps for record in records):
        return "computed"
    diverged = sum(record.status == "diverged" for record in records)
    finished = len(records) - diverged
    return f"{finished} seed{'s' if finished != 1 else ''}" + (f", {diverged} diverged" if diverged else "")


def _settings(study: Study, arm: RecordedArm | None) -> tuple[tuple[str, str], ...]:
    if arm is None:
        return ()
    keys = arm.changes if study.exact is None else arm.leaves
    return tuple((key, str(arm.leaves.get(key, "absent"))) for key in sorted(keys))


def _wanted(study: Study) -> list[str]:
    """The quantities of a study in the order in which its figures and tables show them, then all others."""
    columns = [column for spec in study.figures if spec.kind == "step" for column in spec.quantities]
    columns += [column for spec in study.tables for column in spec.columns]
    return list(dict.fromkeys([*(column.quantity for column in columns), *QUANTITIES]))


def _ordered(names: Iterable[str], wanted: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda name: (wanted.index(name) if name in wanted else len(wanted), name))


def _numbers(records: Iterable[Record], wanted: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The names and means of the numbers that a part of the page shows.

    These are the numbers of the whole model, which have no dimensions. If there are none, they are the first few numbers with
    dimensions, and numbers of single layers only if there are no others.
    """
    values: dict[tuple[str, str], list[float]] = {}
    texts: dict[tuple[str, str], Quantity] = {}
    across: list[tuple[str, str]] = []  # that are of no one layer
    for record in records:
        for entry in record.measurements:
            if entry.value is not None and entry.quantity not in COUNTS:
                key = entry.quantity, ", ".join(value_name(name, value) for name, value in entry.dims.items())
                values.setdefault(key, []).append(entry.value)
                texts[key] = quantity(entry.quantity, entry.unit)
                across += [] if "layer" in entry.dims or key in across else [key]
    whole = [(name, "") for name in _ordered((name for name, dims in values if not dims), wanted)]
    shown = whole or (across or list(values))[:MOST_NUMBERS]
    titles = {key: ", ".join(part for part in (with_unit(texts[key]), key[1]) if part) for key in shown}
    return tuple((titles[key], str(statistic(values[key], texts[key].digits))) for key in shown)


def small_curves(curves: Sequence[Curve], wanted: Sequence[str]) -> tuple[SmallCurve, ...]:
    """The quantities of the curves of one arm that are `wanted` first and change, a line for each seed."""
    names = {key.quantity for curve in curves for key in curve.values if not key.dims and key.quantity not in COUNTS}
    small = []
    for name in _ordered(names, wanted):
        of_seeds = [
            (curve.steps.astype(np.float64), values)
            for curve in curves
            for key, values in curve.values.items()
            if key.quantity == name and not key.dims and np.isfinite(values).sum() > 1
        ]
        if len({value for _, values in of_seeds for value in values[np.isfinite(values)].tolist()}) > 1:
            small.append(_small_curve(with_unit(quantity(name)), of_seeds))
    return tuple(small[:MOST_CURVES])


def _small_curve(title: str, of_seeds: Sequence[tuple[np.ndarray, np.ndarray]]) -> SmallCurve:
    values = np.concatenate([values[np.isfinite(values)] for _, values in of_seeds])
    low, high, last = float(values.min()), float(values.max()), max(float(steps[-1]) for steps, _ in of_seeds)
    lines = []
    for steps, of_seed in of_seeds:
        x = WIDTH * steps / max(last, 1.0)
        y = HEIGHT * (1.0 - (of_seed - low) / ((high - low) or 1.0))
        lines.append(" ".join(f"{a:.0f},{b:.0f}" for a, b in zip(x, y, strict=True) if np.isfinite(b)))
    return SmallCurve(title, tuple(lines), f"{low:.3g}", f"{high:.3g}", int(last))


def _files(records: Iterable[Record], results: Path) -> tuple[str, ...]:
    """Where the records lie: each in its folder, or packed with the others of its study."""
    files = []
    for record in records:
        path = record_folder(results, record.study, record.arm, record.arm_hash, record.seed) / RECORD
        path = path if path.exists() else results / record.study / PACKED
        files.append(path.relative_to(results).as_posix())
    return tuple(dict.fromkeys(files))
