"""Statistics over seeds, and which of the stored records a page is about."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leadline.experiments.records.measurement import Reading
from leadline.experiments.records.record import Record, StoredRecord, created_at


@dataclass(frozen=True)
class Statistic:
    """A mean over seeds with its sample standard deviation (ddof = 1)."""

    mean: float  # over the seeds that finished
    std: float | None  # None without spread (n = 1, or exact)
    n: int  # values in the mean
    digits: int = 3  # decimals that tables show
    scientific: bool = False  # whether tables show powers of ten
    diverged: int = 0  # seeds that are not in the mean

    def __str__(self) -> str:
        style = f",.{self.digits}{'e' if self.scientific else 'f'}"
        whole = self.digits == 0 and not self.std  # a count that all seeds have in common
        spread = "" if self.std is None or whole else f" ± {self.std:{style}}"
        return f"{self.mean:{style}}{spread}{f', {self.diverged} diverged' if self.diverged else ''}"


def statistic(numbers: Sequence[float], digits: int = 3) -> Statistic | None:
    """Mean and sample standard deviation (ddof = 1); None of nothing, and no deviation of one value."""
    if not numbers:
        return None
    std = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
    return Statistic(float(np.mean(numbers)), std, len(numbers), digits)


def current(
    stored: Iterable[StoredRecord], digests: Mapping[tuple[str, str], str] | None = None
) -> tuple[list[StoredRecord], list[str]]:
    """Keeps one configuration of each arm, so that no mean mixes two; one note an arm says what is left out.

    Args:
        stored: every record.
        digests: (study, arm) -> the digest to keep, for an arm that was just run; otherwise the one recorded last is kept.
    """
    by_arm: dict[tuple[str, str], dict[str, list[StoredRecord]]] = {}
    for entry in stored:
        record = entry.record
        by_arm.setdefault((record.study, record.arm), {}).setdefault(record.arm_hash, []).append(entry)
    kept: list[StoredRecord] = []
    notes: list[str] = []
    for key, variants in sorted(by_arm.items()):
        newest = max(variants, key=lambda digest: max(created_at(entry.record) for entry in variants[digest]))
        wanted = (digests or {}).get(key, newest)
        chosen = wanted if wanted in variants else newest
        kept += variants[chosen]
        if others := sorted(set(variants) - {chosen}):
            notes.append(f"{key[0]}, {key[1]}: shown is configuration {chosen}; left out: {', '.join(others)}")
    return kept, notes


def summary(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Mean, std and n over the finished seeds, for programs: one entry a study, arm, quantity and dimensions."""
    values: dict[tuple[str, str, Reading], list[float]] = {}
    units: dict[Reading, str] = {}
    for record in records:
        for entry in record.measurements if record.status == "finished" else ():
            numbers = values.setdefault((record.study, record.arm, entry.reading), [])
            numbers += [] if entry.value is None else [entry.value]
            units[entry.reading] = entry.unit
    return [
        {"study": study, "arm": arm, "quantity": reading.quantity, "dims": dict(reading.dims), "unit": units[reading]}
        | {"mean": over and over.mean, "std": over and over.std, "n": len(numbers)}
        for (study, arm, reading), numbers in values.items()
        for over in [statistic(numbers)]
    ]
