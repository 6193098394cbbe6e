"""What two configurations differ in, and which of their results differ beyond noise."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from leadline.experiments.records.arms import leaves_of, with_defaults
from leadline.experiments.records.decisions import ROUNDING, q_values
from leadline.experiments.records.estimates import mean_interval
from leadline.experiments.records.measurement import Reading
from leadline.experiments.records.over_seeds import current, statistic
from leadline.experiments.records.quantities import quantity
from leadline.experiments.records.record import Record
from leadline.experiments.records.sequential import LEVEL
from leadline.experiments.runs.stored import heading, records_at

Sides = tuple[Sequence[Record], Sequence[Record]]
ABSENT = "absent"


@dataclass(frozen=True)
class Difference:
    """One quantity on both sides. Interval, p and q are None where there is no spread to judge it by."""

    pair: str  # study and arm, where several are compared
    reading: Reading
    unit: str
    first: Mapping[int, float]  # A, by seed
    second: Mapping[int, float]  # B
    interval: tuple[float, float] | None  # the 95 % interval of the mean of B - A
    p: float | None  # the p-value of no difference
    q: float | None = None  # the same, adjusted by Benjamini and Hochberg (1995) over all quantities that are compared

    @property
    def change(self) -> float:
        """B - A in the mean over the seeds that `difference` compares."""
        common = self.first.keys() & self.second.keys()
        pairs = common if len(common) > 1 else None
        first, second = (np.mean([values[seed] for seed in pairs or values]) for values in (self.first, self.second))
        return float(second - first)

    @property
    def beyond_noise(self) -> bool:
        """Whether the means differ at a false discovery rate of 5 %."""
        return self.q is not None and self.q < LEVEL

    def as_json(self) -> dict[str, Any]:
        """Names and numbers; the values of both sides by seed."""
        quantity, dims = self.reading
        numbers = {"A": self.first, "B": self.second, "interval": self.interval, "p": self.p, "q": self.q}
        return {"arm": self.pair, "quantity": quantity, "dims": dict(dims), "unit": self.unit, **numbers}


@dataclass(frozen=True)
class Comparison:
    """Settings that differ, as rows; quantities on both sides; what could not be compared."""

    settings: list[dict[str, str]]
    results: list[Difference]
    notes: list[str]


def compared(first: Path, second: Path, *, layers: bool = False) -> Comparison:
    """Compares the recorded runs of two paths (`records_at`): two arms, two studies, or two results folders.

    Two configurations are compared whatever they are called; of several on a side, those of one study and arm are. Seeds that
    both sides have are compared pair by pair, since the data of equal seeds are the same.

    Args:
        first: A.
        second: B.
        layers: whether quantities are compared layer by layer too.

    Raises:
        UserError: for a path without records.
    """
    (_, left, left_notes), (_, right, right_notes) = records_at(first), records_at(second)
    notes = [*left_notes, *right_notes]
    sides = []
    for stored in (left, right):
        kept, others = current(stored)
        notes += others
        sides.append(_by_arm(entry.record for entry in kept))
    if all(len(side) == 1 for side in sides):
        pairs: dict[str, Sides] = {"": (next(iter(sides[0].values())), next(iter(sides[1].values())))}
    else:
        pairs = {
            f"{study}, {arm}": (sides[0][study, arm], sides[1][study, arm]) for study, arm in sides[0].keys() & sides[1].keys()
        }
        for path, here, there in ((first, *sides), (second, *reversed(sides))):
            notes += [f"{study}, {arm}: only in {path}" for study, arm in sorted(here.keys() - there.keys())]
    ordered = sorted(pairs.items())
    settings = [row for pair, both in ordered for row in _settings(pair, both)]
    results = [entry for pair, both in ordered for entry in _results(pair, both, layers=layers)]
    return Comparison(settings, _adjusted(results), notes)


def _by_arm(records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    by_arm: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        by_arm.setdefault((record.study, record.arm), []).append(record)
    return by_arm


def _settings(pair: str, sides: Sides) -> Iterator[dict[str, str]]:
    """A row for each setting that differs, those of the code, the data and the machine among them."""
    first, second = (_described(records[0]) for records in sides)
    for key in sorted(first.keys() | second.keys()):
        values = [str(side.get(key, ABSENT)) for side in (first, second)]
        if values[0] != values[1]:
            yield {"arm": pair, "setting": key, "A": values[0], "B": values[1]}


def _described(record: Record) -> dict[str, Any]:
    origin = {"commit": (record.commit or "unknown")[:12], "device": f"{record.device['count']} x {record.device['kind']}"}
    text = {"data.digest": record.data.get("digest", ABSENT)}
    return dict(leaves_of(with_defaults(record.config) or record.config)) | text | origin | record.versions


def _results(pair: str, sides: Sides, *, layers: bool) -> Iterator[Difference]:
    first, second = (_values(records, layers=layers) for records in sides)
    for reading, unit in first:
        if (reading, unit) in second:
            values = first[reading, unit], second[reading, unit]
            interval, p = difference(*values)
            yield Difference(pair, reading, unit, *values, interval, p)


def _values(records: Sequence[Record], *, layers: bool) -> dict[tuple[Reading, str], dict[int, float]]:
    """The finite values of every quantity by seed, over the finished records."""
    values: dict[tuple[Reading, str], dict[int, float]] = {}
    for record in records:
        for entry in record.measurements if record.status == "finished" else ():
            if entry.value is not None and (layers or "layer" not in entry.dims):
                values.setdefault((entry.reading, entry.unit), {})[record.seed] = entry.value
    return values


def difference(first: Mapping[int, float], second: Mapping[int, float]) -> tuple[tuple[float, float] | None, float | None]:
    """The 95 % interval of the mean of B - A, and the p-value of no difference.

    Of two or more common seeds by Student's t of their differences, else by Welch's t. None where a side has one seed
    only or the seeds do not differ, which says nothing of other seeds, and where squares are beyond floats; values that are
    all equal have p = 1.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        interval, p = _tested(first, second)
    return (interval, p) if np.isfinite(interval or ()).all() else (None, None)


def _tested(first: Mapping[int, float], second: Mapping[int, float]) -> tuple[tuple[float, float] | None, float | None]:
    """`difference` before overflow is checked: the interval is infinite or NaN where squares exceed float64."""
    common = sorted(first.keys() & second.keys())
    if len(common) > 1:
        margins = [second[seed] - first[seed] for seed in common]
        equal = np.ptp(margins) <= ROUNDING * np.max(np.abs([*first.values(), *second.values()]))
        if equal:
            return None, None if any(margins) else 1.0
        test: Any = stats.ttest_1samp(margins, 0.0)
        return mean_interval(margins), float(test.pvalue)
    if min(len(first), len(second)) < 2:
        return None, None
    a, b = list(first.values()), list(second.values())
    if max(np.ptp(a), np.ptp(b)) <= ROUNDING * np.max(np.abs([*a, *b])):
        return None, 1.0 if a[0] == b[0] else None
    test = stats.ttest_ind(b, a, equal_var=False)
    low, high = test.confidence_interval(1 - LEVEL)
    return (float(low), float(high)), float(test.pvalue)


def _adjusted(differences: Sequence[Difference]) -> list[Difference]:
    """The differences with their q-values, the surest first."""
    corrected = q_values([entry.p for entry in differences])
    adjusted = [replace(entry, q=q) for entry, q in zip(differences, corrected, strict=True)]
    return sorted(adjusted, key=lambda entry: math.inf if entry.q is None else entry.q)


def beyond_noise(comparison: Comparison) -> list[Difference]:
    """The quantities that differ beyond noise, and those of single seeds that are not equal."""
    return [entry for entry in comparison.results if entry.beyond_noise or (entry.q is None and entry.first != entry.second)]


def rows(differences: Sequence[Difference]) -> list[dict[str, str]]:
    """Differences as rows of a table. An arm is named where there are several."""
    named = any(entry.pair for entry in differences)
    return [({"arm": entry.pair} if named else {}) | _row(entry) for entry in differences]


def _row(entry: Difference) -> dict[str, str]:
    digits = quantity(entry.reading.quantity).digits
    sides = [statistic(list(values.values()), digits) for values in (entry.first, entry.second)]
    few = "one seed" if min(len(entry.first), len(entry.second)) < 2 else "no spread"
    low_high = few if entry.interval is None else "{:.{digits}f} to {:.{digits}f}".format(*entry.interval, digits=digits)
    return {
        "quantity": heading(entry.reading),
        "A": str(sides[0]),
        "B": str(sides[1]),
        "B - A": f"{entry.change:+.{digits}f}",
        "95 % interval": low_high,
        "q": "" if entry.q is None else f"{entry.q:.2g}",
    }
