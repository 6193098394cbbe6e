"""Which RoPE bases keep B_m = sum_i cos(m b^(-2i/H)) non-negative at every distance m < N?

The condition is that of Men et al. 2024 (arXiv:2405.14591, equations 10 and 11).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from experiments.publish.summary import cell, provenance
from experiments.publish.table import MISSING, Cell, Statistic, Table
from experiments.record import Record
from experiments.studies import men_table_4
from experiments.studies.power_law import PowerLaw, fitted
from experiments.studies.published_bases import BLOG, MEN, SU
from experiments.studies.published_bases import HEAD_DIM as PUBLISHED_HEAD_DIM

STUDY = "rope_base"
QUESTION = "Which RoPE bases keep B_m non-negative at every distance below the context length?"
MEN_TABLE_4 = "men-table-4"
SMALLEST, LARGEST_FAILING = "infimum", "largest_infeasible"


def length_name(length: int) -> str:
    return f"{length // 1024}k" if length % 1024 == 0 else str(length)


def arm_name(head_dim: int, length: int, *, inclusive: bool = False, every: int = 1) -> str:
    """d128-4k; with -inclusive where m = N is tested, and -everyN where every N-th m is."""
    return f"d{head_dim}-{length_name(length)}{'-inclusive' * inclusive}{f'-every{every}' * (every > 1)}"


class Case(NamedTuple):
    """A finished record of this study, and what it is of."""

    head_dim: int
    length: int
    inclusive: bool
    every: int
    record: Record

    def base(self, quantity: str) -> float | None:
        found = self.record.measurements.get(quantity)
        return found.value if found else None


def cases(records: Sequence[Record]) -> list[Case]:
    """The bounds among the records, by head dim, convention and length."""
    found = []
    for record in records:
        head_dim, length = record.config.get("head_dim"), record.config.get("length")
        if record.status == "finished" and isinstance(head_dim, int) and isinstance(length, int):
            every = record.config.get("every", 1)
            inclusive = record.config.get("inclusive") is True
            found.append(Case(head_dim, length, inclusive, every if isinstance(every, int) else 1, record))
    return sorted(found, key=lambda case: (case.head_dim, case.inclusive, case.every, case.length))


def plain_cases(records: Sequence[Record], head_dim: int) -> list[Case]:
    """The cases of one head dim that test every distance m < N."""
    return [case for case in cases(records) if case.head_dim == head_dim and case.every == 1 and not case.inclusive]


def growth(found: Sequence[Case], quantity: str) -> PowerLaw | None:
    """The power law of a bound over the context length; None for fewer than three lengths with a bound."""
    points = {case.length: base for case in found if (base := case.base(quantity))}
    return fitted(points) if len(points) >= 3 else None


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


def _context(case: Case) -> str:
    every = f", every {case.every} m" if case.every > 1 else ""
    return f"{length_name(case.length)}{', m = N too' if case.inclusive else ''}{every}"


def _row(case: Case, source: str, entry: Mapping[str, object]) -> tuple[Cell, ...]:
    value = entry.get("value")
    return (
        str(case.head_dim),
        _context(case),
        _number(case.base(SMALLEST), 1),
        _number(case.base(LARGEST_FAILING), 1),
        _number(case.base("islands"), 0),
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
    for case in cases(records):
        entries = published_entries(case.record) or [(MISSING, {})]
        rows += [_row(case, source, entry) for source, entry in entries]
    columns = (
        "head dim",
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
        "exact: certified over every interval of bases and every integer distance m below the context (1k = 1024); "
        "smallest base: infimum of the bases that meet the condition; every base above the largest failing one meets "
        "it; islands: intervals of such bases below that"
    )
    sources = f"{BLOG.source}: a table that goes round, whose source was not found"
    return Table("Lower bounds of the RoPE base", STUDY, columns, tuple(rows), (*provenance(records), meaning, sources))


def heads_table(records: Sequence[Record]) -> Table:
    """The bounds by head dim, side by side; no rows where only one head dim is on record."""
    every_case = cases(records)
    heads = sorted({case.head_dim for case in every_case if case.every == 1 and not case.inclusive})
    by_head = {head: {case.length: case.record for case in plain_cases(records, head)} for head in heads}
    lengths = sorted({length for of_head in by_head.values() for length in of_head}) if len(heads) > 1 else []
    rows = tuple(
        (
            length_name(length),
            *(
                cell([of_head[length]] if length in of_head else [], arm_name(head, length), quantity, 0)
                for head, of_head in by_head.items()
                for quantity in (SMALLEST, LARGEST_FAILING)
            ),
        )
        for length in lengths
    )
    columns = ("context", *(f"d = {head}: {name}" for head in heads for name in ("smallest base", "largest failing")))
    meaning = "d: head dim; every integer distance below the context is tested; a dash: not computed"
    return Table("The RoPE base that a context needs, by head dim", f"{STUDY}_heads", columns, rows, (meaning,))


def _fit_row(name: str, head_dim: str, law: PowerLaw | None, lengths: Sequence[int], source: str) -> tuple[Cell, ...]:
    span = f"{length_name(min(lengths))} to {length_name(max(lengths))}" if lengths else MISSING
    if law is None:
        return (name, head_dim, span, MISSING, MISSING, MISSING, MISSING, source)
    interval = f"{law.interval[0]:.3f} to {law.interval[1]:.3f}"
    numbers = (_number(law.exponent, 3), _number(law.error, 3))
    return (name, head_dim, span, *numbers, interval, f"{law.factor:.3g}", source)


def growth_table(records: Sequence[Record]) -> Table:
    """How fast the bounds grow with the context, beside the laws that were published; no rows without a fit."""
    rows: list[tuple[Cell, ...]] = []
    for head_dim in sorted({case.head_dim for case in cases(records)}):
        found = plain_cases(records, head_dim)
        for quantity, name in ((SMALLEST, "smallest base"), (LARGEST_FAILING, "largest failing base")):
            if law := growth(found, quantity):
                rows.append(_fit_row(name, str(head_dim), law, [case.length for case in found], "here"))
    if rows:
        head = str(PUBLISHED_HEAD_DIM)
        for printed in (MEN, SU):
            law = fitted(printed.bases)
            rows.append(_fit_row("printed bases", head, law, list(printed.bases), f"fitted here to {printed.source}"))
        men = Statistic(1.628, None, 1, 3)
        rows.append(("lower bound", head, MISSING, men, MISSING, MISSING, "0.0424", "Men et al. 2024, Figure 1"))
        su = Statistic(1.0, None, 1, 3)
        rows.append(("b ≥ N / 0.6165", "∞", MISSING, su, MISSING, MISSING, "1.62", SU.source))
    columns = ("base", "head dim", "contexts", "exponent", "standard error", "95 % interval", "factor", "source")
    meaning = (
        "base = factor × context^exponent by least squares on logarithms; standard error and t-interval speak of the "
        "scatter about that line, since nothing is random here"
    )
    return Table("Growth of the RoPE base with the context", f"{STUDY}_growth", columns, tuple(rows), (meaning,))


def men_table(records: Sequence[Record]) -> Table:
    """Men et al.'s Table 4 counted anew; no rows where it is not on record."""
    own = [record for record in records if record.arm == MEN_TABLE_4 and record.status == "finished"]
    rows = []
    for record in own:
        firsts = record.data.get("first_violation")
        for row in men_table_4.ROWS:
            first = firsts.get(row.measurement) if isinstance(firsts, dict) else None
            counted = cell([record], MEN_TABLE_4, row.measurement, 0)
            frequencies = "base 5e6" if row.frequencies == "base_5e6" else "base 1e4, slow pairs slowed by 8"
            rows.append((frequencies, f"{row.distance // 1024}k", counted, _number(row.printed, 0), _number(first, 0)))
    columns = ("frequencies", "m up to", "B < 0 at", "printed", "first failing m")
    note = f"{men_table_4.SOURCE}, head dim 128, 1k = 1024, the last m included; it prints these counts under 'B ≥ 0'"
    return Table("Distances at which B is negative", f"{STUDY}_men_table_4", columns, tuple(rows), (note,))
