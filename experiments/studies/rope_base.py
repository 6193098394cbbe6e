"""Which RoPE bases keep B_m = sum_i cos(m b^(-2i/H)) non-negative at every distance m < N?

The condition is that of Men et al. 2024 (arXiv:2405.14591, equations 10 and 11).
"""

from collections.abc import Mapping, Sequence

from experiments.publish.summary import arms, cell, provenance
from experiments.publish.table import MISSING, Cell, Statistic, Table
from experiments.record import Record

STUDY = "rope_base"
QUESTION = "Which RoPE bases keep B_m non-negative at every distance below the context length?"

ARMS = ("1k", "2k", "4k", "8k")


def published_entries(record: Record) -> list[tuple[str, Mapping[str, object]]]:
    """(source, entry) of the published bases that a record of this study checked."""
    published = record.data.get("published")
    if not isinstance(published, dict):
        return []
    return [(source, entry) for source, entry in published.items() if isinstance(entry, dict)]


def _number(value: object, digits: int) -> Cell:
    """A number that is exact: it has no spread to state."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return MISSING
    return Statistic(float(value), None, 1, digits)


def _row(records: Sequence[Record], arm: str, source: str, entry: Mapping[str, object]) -> tuple[Cell, ...]:
    value = entry.get("value")
    return (
        arm,
        cell(records, arm, "infimum", 1),
        cell(records, arm, "largest_infeasible", 1),
        cell(records, arm, "islands", 0),
        f"{value:g}" if isinstance(value, int | float) else MISSING,
        source,
        "yes" if entry.get("feasible") is True else "no" if entry.get("feasible") is False else MISSING,
        _number(entry.get("first_violation"), 0),
        _number(entry.get("violations"), 0),
        _number(entry.get("minimum"), 3),
    )


def table(records: Sequence[Record]) -> Table:
    """The exact bounds by context length, and whether each published base meets its condition."""
    rows: list[tuple[Cell, ...]] = []
    for arm in arms(records, ARMS):
        for record in (r for r in records if r.arm == arm and r.status == "finished"):
            entries = published_entries(record) or [(MISSING, {})]
            rows += [_row(records, arm, source, entry) for source, entry in entries]
    columns = (
        "context",
        "smallest base",
        "largest failing base",
        "islands",
        "published",
        "source",
        "B ≥ 0 at every m",
        "first failing m",
        "failing m",
        "least B",
    )
    meaning = (
        "exact: float64, every integer distance m below the context (1k = 1024); smallest base: infimum of the bases "
        "that meet the condition; every base above the largest failing one meets it; islands: intervals of such bases"
    )
    return Table("Lower bounds of the RoPE base", STUDY, columns, tuple(rows), (*provenance(records), meaning))
