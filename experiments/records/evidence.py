"""What speaks for or against a statement, and the rules by which it is decided."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy import stats

Outcome = Literal["holds", "fails", "equivalent", "undecided", "not testable here", "not measured"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
CONFIDENCE = 0.95
MOST_SEEDS = 1000  # up to which the number that would decide is looked for


@dataclass(frozen=True)
class Evidence:
    """What the records say of one statement."""

    measured: str  # the measured figures, for readers
    margins: tuple[float, ...]  # one number a seed, or a case where `exact`; positive where it supports the statement
    exact: bool = False  # computed without chance, so that the signs alone decide
    unmet: str = ""  # what is missing where a precondition is not met; empty where all are


class Decision(NamedTuple):
    """An outcome, why it is one, and the 95 % interval that it rests on (None where nothing is random)."""

    outcome: Outcome
    reason: str
    interval: tuple[float, float] | None = None


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Student's 95 % interval of the mean, from two values or more; a point where they do not differ."""
    mean, error = float(np.mean(values)), float(stats.sem(values))
    if error == 0:
        return mean, mean
    low, high = stats.t.interval(CONFIDENCE, len(values) - 1, loc=mean, scale=error)
    return float(low), float(high)


def seeds_to_decide(margins: Sequence[float]) -> int | None:
    """The number of seeds whose interval would exclude 0 at the mean and the spread of these; None where it is above 1000."""
    mean, spread = abs(float(np.mean(margins))), float(np.std(margins, ddof=1))
    counts = np.arange(len(margins) + 1, MOST_SEEDS + 1)
    halves = stats.t.ppf((1 + CONFIDENCE) / 2, counts - 1) * spread / np.sqrt(counts)
    enough = counts[halves < mean]
    return int(enough[0]) if enough.size else None


def decide(evidence: Evidence, delta: float | None = None) -> Decision:
    """Whether the mean margin is positive, by its 95 % interval over seeds; by the signs where the evidence is exact.

    Args:
        evidence: the margins.
        delta: differences up to this size are equivalent to none: an interval that holds 0 and lies inside ±delta says so.
    """
    margins = evidence.margins
    if evidence.unmet:
        return Decision("not testable here", evidence.unmet)
    if evidence.exact:
        against = sum(not margin > 0 for margin in margins)  # nan is against
        if against:
            return Decision("fails", f"exact: against the statement in {against} of {_cases(len(margins))}")
        return Decision("holds", f"exact: {_cases(len(margins))}")
    if reason := _undecidable(margins):
        return Decision("undecided", reason)
    low, high = mean_interval(margins)
    reason = f"mean margin {_short(float(np.mean(margins)))}, {_interval(low, high)}"
    if low > 0:
        return Decision("holds", reason, (low, high))
    if high < 0:
        return Decision("fails", reason, (low, high))
    if delta is not None and -delta < low and high < delta:
        return Decision("equivalent", f"{reason}, within ±{_short(delta)}", (low, high))
    if low == high:
        return Decision("undecided", "no difference in any seed", (low, high))
    seeds = seeds_to_decide(margins)
    more = f"about {seeds} seeds" if seeds else f"more than {MOST_SEEDS} seeds"
    return Decision("undecided", f"{reason}; {more} would decide at this mean and spread", (low, high))


def decide_within(values: Sequence[float], bounds: tuple[float, float], *, exact: bool = False) -> Decision:
    """Whether the mean lies between the bounds: its 95 % interval lies inside them (holds), outside (fails) or across.

    Two one-sided tests at 2.5 % each. Exact values decide by themselves; a value on a bound is inside.
    """
    low, high = bounds
    if exact:
        outside = sum(not low <= value <= high for value in values)
        if outside:
            return Decision("fails", f"exact: outside in {outside} of {_cases(len(values))}")
        return Decision("holds", f"exact: {_cases(len(values))}")
    if reason := _undecidable(values):
        return Decision("undecided", reason)
    lower, upper = interval = mean_interval(values)
    reason = f"mean {_short(float(np.mean(values)))}, {_interval(*interval)}; bounds {_short(low)} to {_short(high)}"
    if low <= lower and upper <= high:
        return Decision("holds", reason, interval)
    return Decision("fails" if upper < low or lower > high else "undecided", reason, interval)


def decide_share(margins: Sequence[float], share: float) -> Decision:
    """Whether the margin is positive in more than a share of all seeds, by the exact interval of Clopper and Pearson (1934)."""
    if reason := _undecidable(margins):
        return Decision("undecided", reason)
    count, n = sum(margin > 0 for margin in margins), len(margins)
    ci = stats.binomtest(count, n).proportion_ci(CONFIDENCE, method="exact")
    interval = float(ci.low), float(ci.high)
    reason = f"{count} of {n} seeds, {_interval(*interval)} of the share, compared with {share:g}"
    if interval[0] > share:
        return Decision("holds", reason, interval)
    return Decision("fails" if interval[1] < share else "undecided", reason, interval)


def _undecidable(values: Sequence[float]) -> str:
    if not all(math.isfinite(value) for value in values):
        return "a value is not finite"
    return f"{len(values)} seed: an interval needs two or more" if len(values) < 2 else ""


def _short(value: float) -> str:
    return f"{value:.4g}"  # margins of perplexities and of shares differ by orders of magnitude


def _interval(low: float, high: float) -> str:
    return f"95 % interval [{_short(low)}, {_short(high)}]"


def _cases(count: int) -> str:
    return f"{count} case{'s' if count != 1 else ''}"
