"""The figures of the study of RoPE bases: B_m over the distance, and the bounds over the context."""

from collections.abc import Sequence

import numpy as np

from experiments.publish.figures import Drawing, Points, b_m, base_curves, bases_by_length
from experiments.record import StoredRecord, read_arrays
from experiments.studies.published_bases import HEAD_DIM, MEN, PUBLISHED
from experiments.studies.rope_base import LARGEST_FAILING, SMALLEST, Case, growth, length_name, plain_cases, published_entries

# The context at which published bases, the infimum and the bases between differ most within the study.
_SHOWN = 4096


def rope_base_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """Those that the records allow."""
    return [*_curves(stored), *_growth(stored)]


def _curves(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """B_m at a context of 4k: of RoPE's default base, of the published ones and of one in the first island."""
    found = [case for case in plain_cases([entry.record for entry in stored], HEAD_DIM) if case.length == _SHOWN]
    if not found:
        return []
    bases = {"base 10000, RoPE's default": 10000.0}
    for source, entry in published_entries(found[0].record):
        value = entry.get("value")
        if isinstance(value, int | float) and float(value) not in bases.values():
            bases[f"base {value:g}, {source}"] = float(value)
    folder = next(entry.folder for entry in stored if entry.record is found[0].record)
    islands = read_arrays(folder).get("islands")
    if islands is not None and len(islands):
        # The middle of the first island: its lower edge is the infimum, where rounding decides.
        middle = float(np.mean(islands[0]))
        bases[f"base {middle:.0f}, amid the first island of bases that meet the condition"] = middle
    curves = {label: b_m(base, HEAD_DIM, _SHOWN) for label, base in bases.items()}
    caption = f"B_m at every distance below {_SHOWN}, head dim {HEAD_DIM}; red: distances at which it is negative."
    return [base_curves("base_curves", caption, curves)]


def _points(found: Sequence[Case], quantity: str, label: str) -> Points:
    kept = [(case.length, base) for case in found if (base := case.base(quantity))]
    return Points(label, np.array([length for length, _ in kept], float), np.array([base for _, base in kept], float))


def _growth(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """The smallest and the largest failing base over the context, the power law of the first, and what was printed."""
    of_head = plain_cases([entry.record for entry in stored], HEAD_DIM)
    found = [case for case in of_head if case.length in MEN.bases]
    law = growth(found, SMALLEST)
    if law is None:
        return []
    lengths = [case.length for case in found]
    bounds = (_points(found, SMALLEST, "smallest base"), _points(found, LARGEST_FAILING, "largest failing base"))
    printed = []
    for table in PUBLISHED:
        own = {length: base for length, base in table.bases.items() if length in lengths}
        if own:
            printed.append(Points(table.source, np.array(list(own), float), np.array(list(own.values()), float)))
    line = Points(
        f"{law.factor:.3g} $N^{{{law.exponent:.2f} \\pm {law.error:.2f}}}$",
        np.array(lengths, float),
        law.factor * np.array(lengths, float) ** law.exponent,
    )
    caption = (
        f"Bounds of the RoPE base against the context N, head dim {HEAD_DIM}: between the two lines some bases meet the "
        "condition and others do not; the power law is that of the smallest base."
    )
    names = {float(length): length_name(length) for length in lengths}
    return [bases_by_length("base_growth", caption, bounds, printed, line, names)]
