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
        return _exactly([not margin > 0 for margin in margins], "against the statement")  # nan is against
    if reason := _undecidable(margins):
        return Decision("undecided", reason)
    low, high = interval = mean_interval(margins)
    reason = f"mean margin {np.mean(margins):.4g}, {_text(interval)}"
    if low > 0 or high < 0:
        return Decision("holds" if low > 0 else "fails", reason, interval)
    if delta is not None and -delta < low and high < delta:
        return Decision("equivalent", f"{reason}, within ±{delta:.4g}", interval)
    if low == high:
        return Decision("undecided", "no difference in any seed", interval)
    seeds = seeds_to_decide(margins)
    more = f"about {seeds} seeds" if seeds else f"more than {MOST_SEEDS} seeds"
    return Decision("undecided", f"{reason}; {more} would decide at this mean and spread", interval)


def decide_within(values: Sequence[float], bounds: tuple[float, float], *, exact: bool = False) -> Decision:
    """Whether the mean lies between the bounds: its 95 % interval lies inside them (holds), outside (fails) or across.

    Two one-sided tests at 2.5 % each. Exact values decide by themselves; a value on a bound is inside.
    """
    low, high = bounds
    if exact:
        return _exactly([not low <= value <= high for value in values], "outside")
    if reason := _undecidable(values):
        return Decision("undecided", reason)
    lower, upper = interval = mean_interval(values)
    outcome = "holds" if low <= lower and upper <= high else "fails" if upper < low or lower > high else "undecided"
    return Decision(outcome, f"mean {np.mean(values):.4g}, {_text(interval)}; bounds {low:.4g} to {high:.4g}", interval)


def decide_share(margins: Sequence[float], share: float) -> Decision:
    """Whether the margin is positive in more than a share of all seeds, by the exact interval of Clopper and Pearson (1934)."""
    if reason := _undecidable(margins):
        return Decision("undecided", reason)
    count, n = sum(margin > 0 for margin in margins), len(margins)
    ci = stats.binomtest(count, n).proportion_ci(CONFIDENCE, method="exact")
    low, high = interval = float(ci.low), float(ci.high)
    outcome = "holds" if low > share else "fails" if high < share else "undecided"
    return Decision(outcome, f"{count} of {n} seeds, {_text(interval)} of the share, compared with {share:g}", interval)


def _exactly(against: Sequence[bool], how: str) -> Decision:
    """The decision where nothing is random: every case counts."""
    cases = f"{len(against)} case{'s' if len(against) != 1 else ''}"
    if any(against):
        return Decision("fails", f"exact: {how} in {sum(against)} of {cases}")
    return Decision("holds", f"exact: {cases}")


def _undecidable(values: Sequence[float]) -> str:
    if not all(math.isfinite(value) for value in values):
        return "a value is not finite"
    return f"{len(values)} seed: an interval needs two or more" if len(values) < 2 else ""


def _text(interval: tuple[float, float]) -> str:
    return "95 % interval [{:.4g}, {:.4g}]".format(*interval)  # margins of perplexities and of shares differ by magnitudes
