"""What the exact bounds of the RoPE base say of the published ones: margins for the ledger."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from experiments.evidence import Evidence
from experiments.record import Record
from experiments.studies import men_table_4
from experiments.studies.published_bases import HEAD_DIM, MEN
from experiments.studies.rope_base import (
    LARGEST_FAILING,
    MEN_TABLE_4,
    SMALLEST,
    Case,
    growth,
    length_name,
    plain_cases,
    published_entries,
)

Judge = Callable[[Sequence[Record]], Evidence | None]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _printed(records: Sequence[Record], author: str, length: int | None) -> Iterator[tuple[Case, Mapping[str, object], float]]:
    """The cases with a base that the author printed for them, of one length or of all."""
    for case in plain_cases(records, HEAD_DIM):
        for source, entry in published_entries(case.record) if length in (None, case.length) else []:
            value = _number(entry.get("value"))
            if source.startswith(author) and value is not None:
                yield case, entry, value


def printed_base(author: str, length: int | None = None) -> Judge:
    """Evidence that an author's printed bases, of one length or of all, meet the condition: the margin is the least B_m
    over the distances."""

    def evidence(records: Sequence[Record]) -> Evidence | None:
        figures, margins = [], []
        for case, entry, value in _printed(records, author, length):
            least = _number(entry.get("minimum"))
            if least is None:
                continue
            margins.append(least)
            where = f", first at m = {entry['first_violation']}" if least < 0 else ""
            if length is not None:
                count = f"negative at {entry.get('violations')} distances"
                figures.append(f"base {value:g}: least B {least:.4g}, {count}{where}")
            elif least < 0:
                figures.append(f"{length_name(case.length)}: {value:g} fails{where}")
        if not margins:
            return None
        return Evidence("; ".join(figures) or f"all {len(margins)} hold", tuple(margins), exact=True)

    return evidence


def printed_infimum(author: str, length: int | None = None) -> Judge:
    """Evidence that an author's bases, of one length or of all, are the smallest; margin: half a unit of the second
    digit, less the distance, as a share of the printed base."""

    def evidence(records: Sequence[Record]) -> Evidence | None:
        figures, margins = [], []
        for case, _, value in _printed(records, author, length):
            infimum = case.base(SMALLEST)
            if infimum is None or not value:
                continue
            half_unit = 0.5 * 10 ** (len(str(int(value))) - 2)
            margins.append((half_unit - abs(value - infimum)) / value)
            if length is not None:
                figures.append(f"printed {value:g}, smallest base {infimum:.6g}")
            elif margins[-1] < 0:
                figures.append(f"{length_name(case.length)}: printed {value:g}, smallest {infimum:.4g}")
        if not margins:
            return None
        return Evidence("; ".join(figures) or f"all {len(margins)} hold", tuple(margins), exact=True)

    return evidence


def threshold(records: Sequence[Record]) -> Evidence | None:
    """Evidence that the bound is a threshold: at each length the smallest base, less the largest base that fails."""
    margins, figures = [], []
    for case in plain_cases(records, HEAD_DIM):
        low, high = case.base(SMALLEST), case.base(LARGEST_FAILING)
        if low is not None and high is not None:
            margins.append(low - high)
            figures.append(f"{length_name(case.length)}: from {low:.4g}, yet {high:.4g} fails")
    return Evidence("; ".join(figures), tuple(margins), exact=True) if margins else None


def exponent(stated: float) -> Judge:
    """Evidence that the smallest base grows as a power of the context with this exponent; margin: half the width of the
    fitted exponent's 95 % interval, less its distance from the one stated. Over the contexts of the printed tables, and
    not over fewer than five of them, whose interval would hold anything."""

    def evidence(records: Sequence[Record]) -> Evidence | None:
        found = [case for case in plain_cases(records, HEAD_DIM) if case.length in MEN.bases]
        law = growth(found, SMALLEST) if len(found) >= 5 else None
        if law is None:
            return None
        low, high = law.interval
        span = f"{length_name(found[0].length)} to {length_name(found[-1].length)}"
        measured = (
            f"exponent {law.exponent:.3f} ± {law.error:.3f} (standard error) from {span}, 95 % interval {low:.3f} to {high:.3f}"
        )
        return Evidence(measured, ((high - low) / 2 - abs(law.exponent - stated),), exact=True)

    return evidence


def printed_counts(records: Sequence[Record]) -> Evidence | None:
    """Evidence that Men et al.'s Table 4 counts what is negative: the margins are the differences, 0 or less."""
    figures, margins = [], []
    for record in (r for r in records if r.arm == MEN_TABLE_4 and r.status == "finished"):
        for row in men_table_4.ROWS:
            found = record.measurements.get(row.measurement)
            if found is not None and found.value is not None:
                margins.append(-abs(found.value - row.printed))
                figures.append(f"{found.value:.0f} to {length_name(row.distance)}")
    return Evidence("; ".join(figures), tuple(margins), exact=True) if margins else None
