"""What a claim is, what speaks for it, and when it holds: the rules of the ledger, apart from its rows."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy import stats

from experiments.publish.summary import statistic
from experiments.publish.table import cell_text
from experiments.record import Record

Outcome = Literal["holds", "mixed", "fails", "not measured"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
Quantity = tuple[str, str]
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Evidence:
    """What the records say of one claim.

    Attributes:
        measured: the measured figures, for readers.
        margins: one number a seed (or a case, if exact), positive where it supports the claim.
        exact: computed without chance, so that the sign alone decides; a margin of 0 then supports the claim.
    """

    measured: str
    margins: tuple[float, ...]
    exact: bool


@dataclass(frozen=True)
class Claim:
    """A published statement, made precise enough that a margin decides it."""

    id: str
    statement: str
    source: str
    published: str
    study: str
    evidence: Callable[[Sequence[Record]], Evidence | None]
    shown_at: str = ""  # the smallest scale at which it was shown, for readers of a verdict that does not hold


@dataclass(frozen=True)
class Verdict:
    """A claim with what was measured, at the scale at which it was measured."""

    id: str
    statement: str
    source: str
    published: str
    study: str
    measured: str
    verdict: Outcome
    reason: str
    n: int
    interval: tuple[float, float] | None
    scale: str


def by_seed(records: Sequence[Record], quantities: Sequence[Quantity]) -> dict[int, tuple[float, ...]]:
    """seed -> the values of (arm, measurement) pairs, for the finished seeds that have every one of them."""
    found: list[dict[int, float]] = []
    for arm, name in quantities:
        of_arm = (r for r in records if r.arm == arm and r.status == "finished" and name in r.measurements)
        found.append({r.seed: value for r in of_arm if (value := r.measurements[name].value) is not None})
    shared = set.intersection(*(set(values) for values in found)) if found else set()
    return {seed: tuple(values[seed] for values in found) for seed in sorted(shared)}


def trained(
    margin: Callable[..., float], *quantities: Quantity, digits: int = 3
) -> Callable[[Sequence[Record]], Evidence | None]:
    """Evidence from trained arms: the margin of each seed's values, arms being paired by seed.

    Args:
        margin: of the quantities' values of one seed, in their order; positive supports the claim.
        quantities: (arm, measurement) pairs.
        digits: decimals of the measured figures.
    """

    def evidence(records: Sequence[Record]) -> Evidence | None:
        paired = by_seed(records, quantities)
        if not paired:
            return None
        columns = zip(*paired.values(), strict=True)
        figures = (
            f"{arm} {name} {cell_text(found)}"
            for (arm, name), column in zip(quantities, columns, strict=True)
            if (found := statistic(column, digits))
        )
        return Evidence("; ".join(figures), tuple(margin(*row) for row in paired.values()), exact=False)

    return evidence


def mean_interval(margins: Sequence[float]) -> tuple[float, float]:
    """Student's 95 % interval of the mean: mean ± t_(0.975, n-1) s / sqrt(n); a point where the spread is zero.

    Raises:
        ValueError: for fewer than two margins, of which there is no spread.
    """
    if len(margins) < 2:
        raise ValueError(f"{len(margins)} margin: an interval needs two seeds or more")
    mean = float(np.mean(margins))
    error = float(np.std(margins, ddof=1)) / math.sqrt(len(margins))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(margins) - 1)) * error
    return mean - half, mean + half


def _outcome(evidence: Evidence) -> tuple[Outcome, str, tuple[float, float] | None]:
    margins = evidence.margins
    if evidence.exact:
        failing = sum(margin < 0 for margin in margins)
        if failing:
            return "fails", f"exact; against the claim in {failing} of {len(margins)}", None
        return "holds", "exact", None
    if not all(math.isfinite(margin) for margin in margins):
        return "mixed", "a margin is not finite", None
    if len(margins) == 1:
        return "mixed", "one seed", None
    low, high = mean_interval(margins)
    # Four digits: a margin of perplexities and one of shares differ by orders of magnitude.
    reason = f"margin {float(np.mean(margins)):.4g}, 95 % interval [{low:.4g}, {high:.4g}]"
    if low > 0:
        return "holds", reason, (low, high)
    if high < 0:
        return "fails", reason, (low, high)
    return "mixed", reason if low < high else "no difference in any seed", (low, high)


def _count(number: int) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return str(number)


def _span(numbers: Sequence[int]) -> str:
    low, high = _count(min(numbers)), _count(max(numbers))
    return low if low == high else f"{low} to {high}"


def scale(records: Sequence[Record]) -> str:
    """The size at which records were measured: parameters, layers, width, steps, tokens; or the head dim."""
    trained_ones = [record for record in records if record.steps > 0]
    if not trained_ones:
        dims = sorted({str(r.config["head_dim"]) for r in records if "head_dim" in r.config})
        return f"head dim {', '.join(dims)}, exact" if dims else "exact"
    shapes = set()
    for record in trained_ones:
        model = record.config.get("model")
        if isinstance(model, dict) and {"layers", "width"} <= set(model):
            shapes.add(f"{model['layers']} layer{'s' if model['layers'] != 1 else ''}, width {model['width']}")
    parts = [f"{_span([r.parameters for r in trained_ones])} parameters", *sorted(shapes)]
    parts += [f"{_span([r.steps for r in trained_ones])} steps", f"{_span([r.tokens for r in trained_ones])} tokens"]
    return ", ".join(parts)


def judge(claim: Claim, records: Sequence[Record]) -> Verdict:
    """The verdict on one claim over the records of all studies.

    `not measured` without the records that it needs; an exact claim holds if no margin is negative; otherwise it holds
    (fails) where the 95 % t-interval of the mean margin lies above (below) 0, and is `mixed` where it does not.
    """
    own = [record for record in records if record.study == claim.study]
    evidence = claim.evidence(own)
    if evidence is None or not evidence.margins:
        lost = sum(record.status == "diverged" for record in own)
        reason = f"{lost} of {len(own)} records diverged" if lost else "records are missing"
        measured, outcome, n, interval = "", "not measured", 0, None
    else:
        outcome, reason, interval = _outcome(evidence)
        measured, n = evidence.measured, len(evidence.margins)
        if outcome != "holds" and claim.shown_at:
            reason = f"{reason}; it was shown at {claim.shown_at}"
    return Verdict(
        id=claim.id,
        statement=claim.statement,
        source=claim.source,
        published=claim.published,
        study=claim.study,
        measured=measured,
        verdict=outcome,
        reason=reason,
        n=n,
        interval=interval,
        scale=scale(own) if n else "",
    )
