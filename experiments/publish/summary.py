"""Statistics over seeds, and which of the stored records a page is about."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from experiments.publish.table import MISSING, Cell, Statistic
from experiments.record import Record, StoredRecord, created_at

Summary = dict[str, dict[str, dict[str, dict[str, float | int | str | None]]]]


def current(
    stored: Sequence[StoredRecord], hashes: Mapping[tuple[str, str], str] | None = None
) -> tuple[list[StoredRecord], list[str]]:
    """Keeps one configuration of each arm, so that no mean mixes two; says in one note an arm what was left out.

    Args:
        stored: every record found.
        hashes: (study, arm) -> the hash to keep, for an arm that was just run; otherwise the one recorded last is kept.
    """
    by_arm: dict[tuple[str, str], dict[str, list[StoredRecord]]] = {}
    for entry in stored:
        record = entry.record
        by_arm.setdefault((record.study, record.arm), {}).setdefault(record.arm_hash, []).append(entry)
    kept: list[StoredRecord] = []
    notes: list[str] = []
    for key, variants in sorted(by_arm.items()):
        newest = max(variants, key=lambda name: max(created_at(entry.record) for entry in variants[name]))
        wanted = hashes.get(key, newest) if hashes else newest
        chosen = wanted if wanted in variants else newest
        kept += variants[chosen]
        if others := sorted(set(variants) - {chosen}):
            notes.append(f"{key[0]}, {key[1]}: shown is configuration {chosen}; left out: {', '.join(others)}")
    return kept, notes


def values(records: Iterable[Record], arm: str, measurement: str) -> list[float]:
    """The values of a measurement over the finished seeds of an arm; null and diverged ones are left out."""
    found = (
        record.measurements[measurement].value
        for record in records
        if record.arm == arm and record.status == "finished" and measurement in record.measurements
    )
    return [value for value in found if value is not None]


def statistic(numbers: Sequence[float], digits: int = 3) -> Statistic | None:
    """Mean and sample standard deviation (ddof = 1); None of nothing, and no deviation of one value."""
    if not numbers:
        return None
    std = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
    return Statistic(float(np.mean(numbers)), std, len(numbers), digits)


def cell(records: Iterable[Record], arm: str, measurement: str, digits: int = 3) -> Cell:
    """The table cell of one arm and measurement, or a dash where there is none."""
    return statistic(values(records, arm, measurement), digits) or MISSING


def summary(records: Iterable[Record]) -> Summary:
    """study -> arm -> measurement -> mean, std, n, unit over the finished seeds; an arm that only diverged is {}."""
    listed = list(records)
    result: Summary = {}
    for record in listed:
        arm = result.setdefault(record.study, {}).setdefault(record.arm, {})
        if record.status != "finished":
            continue
        for name, measurement in record.measurements.items():
            if name not in arm:
                of_study = [other for other in listed if other.study == record.study]
                found = statistic(values(of_study, record.arm, name))
                arm[name] = {
                    "mean": found.mean if found else None,
                    "std": found.std if found else None,
                    "n": found.n if found else 0,
                    "unit": measurement.unit,
                }
    return result


def arms(records: Iterable[Record], order: Sequence[str]) -> list[str]:
    """The arms that occur, the known ones in their order and others after them by name."""
    present = {record.arm for record in records}
    return [arm for arm in order if arm in present] + sorted(present - set(order))


def _ranges(name: str, found: Iterable[str]) -> str:
    distinct = sorted(set(found))
    return f"{name} {', '.join(distinct)}"


def seeds_note(records: Sequence[Record]) -> str:
    """How many seeds the means are over, arm by arm where that differs."""
    finished: dict[str, set[int]] = {}
    for record in records:
        finished.setdefault(record.arm, set())
        if record.status == "finished":
            finished[record.arm].add(record.seed)
    counts = {len(seeds) for seeds in finished.values()}
    if len(counts) == 1:
        n = counts.pop()
        spread = "mean ± sample standard deviation" if n > 1 else "no spread can be stated"
        return f"n = {n} seed{'s' if n != 1 else ''} an arm; {spread}"
    listed = ", ".join(f"{arm} {len(seeds)}" for arm, seeds in sorted(finished.items()))
    return f"seeds an arm: {listed}; mean ± sample standard deviation"


def provenance(records: Sequence[Record]) -> tuple[str, ...]:
    """Commit, date, device and cost of the records, as notes under a table."""
    commits = {f"{(r.commit or 'unknown')[:12]}{' (modified)' if r.dirty else ''}" for r in records}
    days = sorted({f"{created_at(r):%Y-%m-%d}" for r in records})
    dates = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    devices = {f"{r.device['count']} × {r.device['kind']} ({r.device['platform']})" for r in records}
    seconds = sum(r.seconds for r in records)
    return (
        f"{_ranges('commit', commits)}; {dates} UTC",
        f"{_ranges('device', devices)}; {seconds:,.0f} s of wall time in {len(records)} records",
    )


def diverged_notes(records: Sequence[Record]) -> tuple[str, ...]:
    """One note an arm of which seeds diverged: they are in no mean, and the reader is told."""
    by_arm: dict[str, list[int]] = {}
    for record in records:
        if record.status == "diverged":
            by_arm.setdefault(record.arm, []).append(record.seed)
    return tuple(
        f"{arm}: {len(seeds)} diverged (seed {', '.join(map(str, sorted(seeds)))}), left out of the means"
        for arm, seeds in sorted(by_arm.items())
    )


def trained_notes(records: Sequence[Record]) -> tuple[str, ...]:
    """The notes under a table of trained arms: n seeds, what diverged, commit, date, device, seconds."""
    return (seeds_note(records), *diverged_notes(records), *provenance(records))
