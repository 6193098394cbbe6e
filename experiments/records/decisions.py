"""The rules by which margins over seeds decide a statement: its outcome, interval and p-value."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy import stats

from leadline.experiments.records.sequential import LEVEL

Outcome = Literal["holds", "fails", "equivalent", "undecided", "not testable here", "not measured"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
MOST_SEEDS = 1000  # up to which the number that would decide is looked for


@dataclass(frozen=True)
class Evidence:
    """What the records say of one statement."""

    measured: str  # the measured figures, for readers
    margins: tuple[float, ...]  # one number per seed, or a case where `exact`; positive where it supports the statement
    exact: bool = False  # computed without chance, so that the signs alone decide
    unmet: str = ""  # what is missing where a precondition is not met; empty where all are


class Decision(NamedTuple):
    """An outcome and why it is one. Interval and p-value are absent where nothing is random."""

    outcome: Outcome
    reason: str
    interval: tuple[float, float] | None = None  # that the outcome rests on
    level: float = LEVEL  # the interval misses the truth so often
    null: float | None = 0.0  # the value in the interval at which nothing is decided; None where bounds decide
    # the two-sided p-value of the hypothesis that the outcome rules out; of an undecided claim, of the nearest one
    p: float | None = None
    # the thresholds of the claim between which it is undecided (leadline.experiments.records.thresholds)
    turns: tuple[float, float] | None = None


class Estimate(NamedTuple):
    """A mean that Student's distribution is centred at."""

    mean: float
    error: float  # standard error
    freedom: float  # degrees of freedom

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """The interval of the mean; a point where the error is 0."""
        half = stats.t.isf(level / 2, self.freedom) * self.error
        return float(self.mean - half), float(self.mean + half)

    def above(self, bound: float) -> float:
        """The one-sided p-value of the hypothesis that the mean is at most `bound`."""
        if self.error == 0:
            return float(self.mean <= bound)
        return float(stats.t.sf((self.mean - bound) / self.error, self.freedom))

    def below(self, bound: float) -> float:
        """The one-sided p-value of the hypothesis that the mean is at least `bound`."""
        return self._replace(mean=-self.mean).above(-bound)


def estimate(values: Sequence[float] | np.ndarray) -> Estimate:
    """The mean of two values or more, one a seed."""
    return Estimate(float(np.mean(values)), float(stats.sem(values)), float(len(values) - 1))


def mean_interval(values: Sequence[float] | np.ndarray, level: float = LEVEL) -> tuple[float, float]:
    """Student's interval of the mean, from two values or more; a point where they do not differ."""
    return estimate(values).interval(level)


def seeds_to_decide(margins: Sequence[float], level: float = LEVEL) -> int | None:
    """The number of seeds whose interval would exclude 0 at the mean and the spread of these; None where it is above 1000."""
    mean, spread = abs(float(np.mean(margins))), float(np.std(margins, ddof=1))
    counts = np.arange(len(margins) + 1, MOST_SEEDS + 1)
    halves = stats.t.isf(level / 2, counts - 1) * spread / np.sqrt(counts)
    enough = counts[halves < mean]
    return int(enough[0]) if enough.size else None


def decide(evidence: Evidence, delta: float | None = None, level: float = LEVEL) -> Decision:
    """Whether the mean margin is positive, by its interval over seeds; by the signs where the evidence is exact.

    Args:
        evidence: the margins.
        delta: differences up to this size are equivalent to none: an interval that holds 0 and lies inside ±delta says so.
        level: the chance of a false decision, where the mean margin is 0.
    """
    margins = evidence.margins
    if evidence.unmet:
        return Decision("not testable here", evidence.unmet)
    if evidence.exact:
        return _exactly([not margin > 0 for margin in margins], "against the statement")  # nan is against
    if reason := _undecidable(margins):
        return Decision("undecided", reason)
    mean = estimate(margins)
    low, high = interval = mean.interval(level)
    reason = f"mean margin {mean.mean:.4g}, {interval_text(interval, level)}"
    p = _doubled(min(mean.above(0.0), mean.below(0.0)))
    if low > 0 or high < 0:
        return Decision("holds" if low > 0 else "fails", reason, interval, level, 0.0, p)
    if delta is not None and -delta < low and high < delta:
        within = _doubled(max(mean.above(-delta), mean.below(delta)))
        return Decision("equivalent", f"{reason}, within ±{delta:.4g}", interval, level, 0.0, within)
    if low == high:
        return Decision("undecided", "no difference in any seed", interval, level, 0.0, p)
    seeds = seeds_to_decide(margins, level)
    more = f"about {seeds} seeds" if seeds else f"more than {MOST_SEEDS} seeds"
    return Decision("undecided", f"{reason}; {more} would decide at this mean and spread", interval, level, 0.0, p)


def decide_within(
    values: Sequence[float], bounds: tuple[float, float], level: float = LEVEL, *, exact: bool = False
) -> Decision:
    """Whether the mean lies between the bounds: its interval lies inside them (holds), outside (fails) or across.

    Two one-sided tests at half of `level` each. Exact values decide by themselves; a value on a bound is inside.
    """
    low, high = bounds
    if exact:
        return _exactly([not low <= value <= high for value in values], "outside")
    if reason := _undecidable(values):
        return Decision("undecided", reason)
    mean = estimate(values)
    lower, upper = interval = mean.interval(level)
    inside, outside = max(mean.above(low), mean.below(high)), min(mean.above(high), mean.below(low))
    outcome = "holds" if low <= lower and upper <= high else "fails" if upper < low or lower > high else "undecided"
    p = {"holds": inside, "fails": outside, "undecided": min(inside, outside)}[outcome]
    reason = f"mean {mean.mean:.4g}, {interval_text(interval, level)}; bounds {low:.4g} to {high:.4g}"
    return Decision(outcome, reason, interval, level, None, _doubled(p))


def decide_share(margins: Sequence[float], share: float, level: float = LEVEL) -> Decision:
    """Whether the margin is positive in more than a share of all seeds, by the exact interval of Clopper and Pearson (1934)."""
    if reason := _undecidable(margins):
        return Decision("undecided", reason)
    count, n = sum(margin > 0 for margin in margins), len(margins)
    ci = stats.binomtest(count, n).proportion_ci(1 - level, method="exact")
    low, high = interval = float(ci.low), float(ci.high)
    outcome = "holds" if low > share else "fails" if high < share else "undecided"
    tails = [stats.binomtest(count, n, share, alternative=side).pvalue for side in ("greater", "less")]
    reason = f"{count} of {n} seeds, {interval_text(interval, level)} of the share, compared with {share:g}"
    return Decision(outcome, reason, interval, level, share, _doubled(float(min(tails))))


def _doubled(p: float) -> float:
    return min(1.0, 2 * p)


def _exactly(against: Sequence[bool], how: str) -> Decision:
    """The decision where nothing is random: every case counts."""
    cases = f"{len(against)} case{'s' if len(against) != 1 else ''}"
    return Decision("fails", f"{how} in {sum(against)} of {cases}") if any(against) else Decision("holds", cases)


def _undecidable(values: Sequence[float]) -> str:
    if not all(math.isfinite(value) for value in values):
        return "a value is not finite"
    return f"{len(values)} seed: an interval needs two or more" if len(values) < 2 else ""


def interval_text(interval: tuple[float, float], level: float = LEVEL) -> str:
    """An interval with as many digits as margins of perplexities and of shares need, which differ by magnitudes."""
    return "{:.4g} % interval [{:.4g}, {:.4g}]".format(100 * (1 - level), *interval)
