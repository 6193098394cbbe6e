"""What speaks for the claims about base and length: margins that compare bases of one length, seed by seed."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from experiments.evidence import Evidence
from experiments.record import Record
from experiments.studies.base_vs_length import chance, place, predicted

# (training length, seed) -> base -> record
Cells = dict[tuple[int, int], dict[float, Record]]
FLAT = 1.05


def perplexity_is_flat(records: Sequence[Record]) -> Evidence | None:
    """The highest perplexity of a length's bases is at most 5 % above the lowest; a margin a seed, the mean over lengths."""

    def margin(bases: dict[float, Record], length: int) -> tuple[float, float]:
        found = [_value(record, f"perplexity.{length}") for record in bases.values()]
        ratio = max(found) / min(found)
        return FLAT - ratio, ratio

    return _over_lengths(records, margin, "highest / lowest perplexity over bases {:.3f}")


def recall_is_not_flat(records: Sequence[Record]) -> Evidence | None:
    """Recall above chance is at most half as good under the worst base as under the best."""

    def margin(bases: dict[float, Record], length: int) -> tuple[float, float]:
        found = [_value(record, f"recall_accuracy.{length}") - chance(record) for record in bases.values()]
        ratio = max(min(found), 0.0) / max(found) if max(found) > 0 else 1.0
        return 0.5 - ratio, ratio

    return _over_lengths(records, margin, "worst / best recall above chance over bases {:.3f}")


def beyond_is_below_within(records: Sequence[Record]) -> Evidence | None:
    """Recall beyond the predicted reach is below that within it; the mean over all arms whose reach lies within the length."""
    margins: dict[int, list[float]] = defaultdict(list)
    for length, record in _short(records):
        difference = _value(record, f"accuracy_within.{length}") - _value(record, f"accuracy_beyond.{length}")
        margins[record.seed].append(difference)
    return _evidence(margins, "recall within less recall beyond the predicted reach {:.3f}")


def reach_is_bounded(records: Sequence[Record]) -> Evidence | None:
    """The measured reach is at most twice the predicted one where that lies within the length; margins in octaves.

    A model that learned no recall has no reach to compare.
    """
    margins: dict[int, list[float]] = defaultdict(list)
    for length, record in _short(records):
        reach, bound = _value(record, f"reach.{length}"), predicted(record)
        if reach > 0 and bound is not None:
            margins[record.seed].append(1 - math.log2(reach / bound))
    octaves = [1 - float(np.mean(found)) for found in margins.values()]
    text = f"measured / predicted reach {2 ** float(np.mean(octaves)):.2f} (geometric mean)" if octaves else ""
    return _evidence(margins, text)


def superficial(records: Sequence[Record]) -> Evidence | None:
    """Some base has its predicted reach within the length and a perplexity at most 5 % above the lowest of the length's
    bases, while its recall above chance, beyond that reach, is at most half of the best base's over the whole row.

    The lesser of the two margins, of the arm for which its mean over seeds is largest.
    """
    margins: dict[tuple[int, float], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    shown: dict[tuple[int, float], list[tuple[float, float]]] = defaultdict(list)
    for (length, seed), bases in _cells(records).items():
        least = min(_value(record, f"perplexity.{length}") for record in bases.values())
        best = max(_value(record, f"recall_accuracy.{length}") - chance(record) for record in bases.values())
        for base, record in bases.items():
            if f"accuracy_beyond.{length}" not in record.measurements or best <= 0:
                continue
            ratio = _value(record, f"perplexity.{length}") / least
            left = (_value(record, f"accuracy_beyond.{length}") - chance(record)) / best
            margins[length, base][seed].append(min(FLAT - ratio, 0.5 - left))
            shown[length, base].append((ratio, left))
    if not margins:
        return None
    arm = max(margins, key=lambda key: float(np.mean([values[0] for values in margins[key].values()])))
    ratio, left = np.mean(shown[arm], axis=0)
    text = f"length {arm[0]}, base {arm[1]:g}: perplexity {ratio:.3f} of the lowest, recall beyond reach {left:.3f} of the best"
    return _evidence(margins[arm], text)


def base_100_forgets(records: Sequence[Record]) -> Evidence | None:
    """Under base 100, at the longest training length, recall above chance from more than half of the length away is at most
    half of that within the predicted reach."""
    cells = {key: bases[100.0] for key, bases in _cells(records).items() if 100.0 in bases}
    longest = max((length for length, _ in cells), default=0)
    margins: dict[int, list[float]] = {}
    lefts = []
    for (length, seed), record in cells.items():
        if length != longest or f"accuracy_beyond.{length}" not in record.measurements:
            continue
        near = _value(record, f"accuracy_within.{length}") - chance(record)
        left = (_far(record, length) - chance(record)) / near if near > 0 else 1.0
        margins[seed] = [0.5 - left]
        lefts.append(left)
    if not margins:
        return None
    text = f"length {longest}: recall above chance beyond {longest // 2} tokens is {np.mean(lefts):.3f} of that within reach"
    return _evidence(margins, text)


def _far(record: Record, length: int) -> float:
    """Accuracy over the distances of more than half the length."""
    prefix = f"answers.{length}."
    edges = sorted(int(name.removeprefix(prefix)) for name in record.measurements if name.startswith(prefix))
    far = [edge for edge, lower in zip(edges, [0, *edges], strict=False) if 2 * lower >= length]
    counts = np.array([_value(record, f"answers.{length}.{edge}") for edge in far])
    shares = np.array([_value(record, f"accuracy.{length}.{edge}") for edge in far])
    return float(counts @ shares / counts.sum())


def _cells(records: Sequence[Record]) -> Cells:
    """Finished records by training length, seed and base; only seeds that every base of the length finished."""
    cells: Cells = defaultdict(dict)
    bases: dict[int, set[float]] = defaultdict(set)
    for record in records:
        where = place(record)
        bases[where.length].add(where.base)
        if record.status == "finished":
            cells[where.length, record.seed][where.base] = record
    return {key: found for key, found in sorted(cells.items()) if set(found) == bases[key[0]]}


def _short(records: Sequence[Record]) -> Iterator[tuple[int, Record]]:
    """The finished records of arms whose predicted reach lies within the training length, with that length."""
    for record in records:
        length = place(record).length
        if record.status == "finished" and f"accuracy_beyond.{length}" in record.measurements:
            yield length, record


def _over_lengths(
    records: Sequence[Record], margin: Callable[[dict[float, Record], int], tuple[float, float]], text: str
) -> Evidence | None:
    margins: dict[int, list[float]] = defaultdict(list)
    shown: dict[int, list[float]] = defaultdict(list)
    for (length, seed), bases in _cells(records).items():
        if len(bases) > 1:
            found, figure = margin(bases, length)
            margins[seed].append(found)
            shown[length].append(figure)
    figures = "; ".join(f"length {length}: {text.format(float(np.mean(found)))}" for length, found in shown.items())
    return _evidence(margins, figures) if margins else None


def _evidence(margins: dict[int, list[float]], text: str) -> Evidence | None:
    """One margin a seed, the mean of its own; `text` may print their mean."""
    if not margins:
        return None
    means = tuple(float(np.mean(margins[seed])) for seed in sorted(margins))
    return Evidence(text.format(float(np.mean(means))), means, exact=False)


def _value(record: Record, name: str) -> float:
    """A measurement; NaN where it is null, so that no margin of it is finite."""
    found = record.measurements[name].value
    return math.nan if found is None else found
