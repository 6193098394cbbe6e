"""What the exact bounds of the RoPE base say of the published ones: margins for the ledger."""

from collections.abc import Callable, Sequence

from experiments.evidence import Evidence
from experiments.record import Record
from experiments.studies.rope_base import ARMS, published_entries


def _exact_record(records: Sequence[Record], arm: str) -> Record | None:
    found = [record for record in records if record.arm == arm and record.status == "finished"]
    return found[0] if found else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def printed_base(arm: str, author: str) -> Callable[[Sequence[Record]], Evidence | None]:
    """Evidence that an author's printed base meets the condition: the margin is the least B_m over the distances."""

    def evidence(records: Sequence[Record]) -> Evidence | None:
        record = _exact_record(records, arm)
        for source, entry in published_entries(record) if record else []:
            least, value = _number(entry.get("minimum")), _number(entry.get("value"))
            if source.startswith(author) and least is not None and value is not None:
                where = f", first at m = {entry['first_violation']}" if least < 0 else ""
                measured = f"base {value:g}: least B {least:.4g}, negative at {entry.get('violations')} distances{where}"
                return Evidence(measured, (least,), exact=True)
        return None

    return evidence


def printed_infimum(arm: str, author: str) -> Callable[[Sequence[Record]], Evidence | None]:
    """Evidence that an author's base is the smallest; margin: half a unit of its second digit, less the distance."""

    def evidence(records: Sequence[Record]) -> Evidence | None:
        record = _exact_record(records, arm)
        infimum = record.measurements["infimum"].value if record and "infimum" in record.measurements else None
        for source, entry in published_entries(record) if record else []:
            value = _number(entry.get("value"))
            if source.startswith(author) and value and infimum is not None:
                half_unit = 0.5 * 10 ** (len(str(int(value))) - 2)
                measured = f"printed {value:g}, smallest base {infimum:.6g}"
                return Evidence(measured, (half_unit - abs(value - infimum),), exact=True)
        return None

    return evidence


def threshold(records: Sequence[Record]) -> Evidence | None:
    """Evidence that the bound is a threshold: at each length the smallest base, less the largest base that fails."""
    margins, figures = [], []
    for arm in ARMS:
        record = _exact_record(records, arm)
        if record is None or not {"infimum", "largest_infeasible"} <= set(record.measurements):
            continue
        low, high = record.measurements["infimum"].value, record.measurements["largest_infeasible"].value
        if low is not None and high is not None:
            margins.append(low - high)
            figures.append(f"{arm}: from {low:.4g}, yet {high:.4g} fails")
    return Evidence("; ".join(figures), tuple(margins), exact=True) if margins else None
