"""The rules by which margins over seeds decide a statement: its outcome, interval and p-value.

A margin is one number a seed, or for what is measured on text a row a seed: the margin on all documents, then without each
group of them. Seeds and documents are crossed random effects: every seed is measured on the same documents. The squared
standard error of the mean margin m over n seeds is that of the seeds and that of the documents, by the jackknife over G groups:

    s²/n  +  (G - 1)/G Σ_g (m_(g) - m_(.))²

The quantile of the interval is the mean of Student's with n - 1 and G - 1 degrees of freedom, weighted by the two terms
(Cochran and Cox 1950), which errs on the safe side. In simulations without any effect a percentile bootstrap over both decides
in 8 to 16 % of cases with five seeds, and Welch's degrees of freedom in up to 12 % with two.
"""

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float
from scipy import optimize, stats

from leadline.experiments.records.sequential import LEVEL

Outcome = Literal["holds", "fails", "equivalent", "undecided", "not testable here", "not measured"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
SMALLEST = 1e-15  # p-values below this are not told apart
MOST_SEEDS = 1000  # up to which the number that would decide is looked for


Values = Sequence[float] | Float[np.ndarray, " n"] | Float[np.ndarray, "n G_and_1"]


@dataclass(frozen=True)
class Evidence:
    """What the records say of one statement."""

    measured: str  # the measured figures, for readers
    margins: Values  # a number or a row per seed, or a case where `exact`; positive where it supports the statement
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
    documents: bool = False  # whether the interval is over documents, besides seeds
    more_seeds: bool = False  # whether it is undecided and more seeds may decide it
    # how far the less favourable end of the interval is on the claim's side of what decides; negative on the other side
    slack: float = -math.inf


class Estimate(NamedTuple):
    """A mean over seeds, and its variance from each source: seeds, and documents if they are known."""

    mean: float
    variances: tuple[float, ...]  # of the mean, by each source
    freedoms: tuple[int, ...]  # degrees of freedom of each

    def half(self, tail: float) -> float:
        """The distance from the mean that its error exceeds, on one side, with the probability `tail`."""
        error = math.sqrt(sum(self.variances))
        return float(np.dot(stats.t.isf(tail, self.freedoms), self.variances)) / error if error else 0.0

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """The interval of the mean; a point where nothing varies."""
        return self.mean - self.half(level / 2), self.mean + self.half(level / 2)

    def above(self, bound: float) -> float:
        """The one-sided p-value of the hypothesis that the mean is at most `bound`."""
        distance = self.mean - bound
        if not any(self.variances):
            return float(distance <= 0)
        if len(self.variances) == 1:
            return float(stats.t.sf(distance / math.sqrt(self.variances[0]), self.freedoms[0]))
        if distance < 0:
            return 1.0 - self._replace(mean=2 * bound - self.mean).above(bound)
        if self.half(SMALLEST) < distance:
            return SMALLEST
        root = optimize.root_scalar(lambda tail: self.half(tail) - distance, bracket=(SMALLEST, 0.5), xtol=SMALLEST)
        return float(root.root)

    def below(self, bound: float) -> float:
        """The one-sided p-value of the hypothesis that the mean is at least `bound`."""
        return self._replace(mean=-self.mean).above(-bound)


def group_count(values: Values) -> int:
    """The number of groups of documents that the values are known without."""
    return np.shape(values)[1] - 1 if np.ndim(values) == 2 else 0


def whole(values: Values) -> Float[np.ndarray, " n"]:
    """The values on all documents, one a seed."""
    return np.asarray(values, np.float64).reshape(len(values), -1)[:, 0]


def covariances(*columns: Values) -> tuple[Float[np.ndarray, "k k"], Float[np.ndarray, "k k"]]:
    """The covariances of the means of k paired columns: over seeds, and over groups of documents; 0 where there is one only."""
    arrays = [np.asarray(values, np.float64).reshape(len(values), -1) for values in columns]
    n, k = len(arrays[0]), len(arrays)
    seeds = np.atleast_2d(np.cov([array[:, 0] for array in arrays])) / n if n > 1 else np.zeros((k, k))
    means = np.stack(np.broadcast_arrays(*(array[:, 1:].mean(axis=0) for array in arrays)))
    groups = means.shape[1]
    return seeds, np.atleast_2d(np.cov(means, ddof=0)) * (groups - 1) if groups > 1 else np.zeros((k, k))


def estimate(values: Values) -> Estimate:
    """The mean of values, one a seed or a row a seed: at least two of them, or one row with groups of documents."""
    sources = zip(covariances(values), (len(values), group_count(values)), strict=True)
    variances, freedoms = zip(*((float(part[0, 0]), many - 1) for part, many in sources if many > 1), strict=True)
    return Estimate(float(np.mean(whole(values))), variances, freedoms)


def mean_interval(values: Values, level: float = LEVEL) -> tuple[float, float]:
    """Student's interval of the mean; a point where the values do not differ."""
    return estimate(values).interval(level)


def seeds_to_decide(values: Values, edges: Sequence[float] = (0.0,), level: float = LEVEL) -> int | None:
    """The number of seeds whose interval would hold none of the edges at this mean and spread, on these documents.

    Args:
        values: a number or a row a seed.
        edges: 0 of a margin, or the bounds of a mean.
        level: of the interval.

    Returns:
        The number; None above MOST_SEEDS.
    """
    now = estimate(values)
    distance = min(abs(now.mean - edge) for edge in edges)

    def decided(count: int) -> bool:
        then = now._replace(
            variances=(now.variances[0] * len(values) / count, *now.variances[1:]), freedoms=(count - 1, *now.freedoms[1:])
        )
        return then.half(level / 2) < distance

    counts = range(len(values) + 1, MOST_SEEDS + 1)
    return counts[first] if (first := bisect.bisect_left(counts, True, key=decided)) < len(counts) else None


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
        if delta is not None and np.max(np.abs(whole(margins))) < delta:
            return Decision("equivalent", f"every difference is within ±{delta:.4g}")
        return _exactly([not margin > 0 for margin in whole(margins)], "against the statement")  # nan is against
    if reason := _undecidable(margins):
        return Decision("undecided", reason)
    mean = estimate(margins)
    low, high = interval = mean.interval(level)
    reason = f"mean margin {mean.mean:.4g}, {interval_text(interval, level)}"
    if np.ptp(margins) == 0:
        return _agreeing(Decision("undecided", reason, interval, level, 0.0, slack=low), len(margins), delta or 0.0)
    p = _doubled(min(mean.above(0.0), mean.below(0.0)))
    decided = Decision("undecided", reason, interval, level, 0.0, p, slack=low)
    if low > 0 or high < 0:
        return decided._replace(outcome="holds" if low > 0 else "fails")
    if delta is not None and -delta < low and high < delta:
        within = _doubled(max(mean.above(-delta), mean.below(delta)))
        return decided._replace(outcome="equivalent", reason=f"{reason}, within ±{delta:.4g}", p=within)
    outlook, more_seeds = _outlook(margins, mean, (0.0,), level)
    return decided._replace(reason=f"{reason}; {outlook}", more_seeds=more_seeds)


def _agreeing(decision: Decision, seeds: int, delta: float) -> Decision:
    """The decision by margins that agree to the last digit, as counts may: they have no spread, and the sign test decides."""
    margin = decision.slack
    if margin == delta == 0:
        return decision._replace(reason="no difference in any seed")
    p = float(stats.binomtest(seeds, seeds).pvalue)
    decided = decision._replace(p=p, reason=f"{decision.reason}; all {seeds} seeds agree, p = {p:.2g} by their signs")
    if p >= decision.level:
        return decided._replace(more_seeds=True)
    return decided._replace(outcome="equivalent" if abs(margin) < delta else "holds" if margin > 0 else "fails")


def _outlook(values: Values, mean: Estimate, edges: tuple[float, ...], level: float) -> tuple[str, bool]:
    """What would decide an interval that holds one of the edges, and whether more seeds may."""
    low, high = _over_documents(values, mean, level)
    if any(low < edge < high for edge in edges):
        return "no number of seeds would decide on these documents", False
    return f"{_about(seeds_to_decide(values, edges, level))} would decide at this mean and spread", True


def _about(seeds: int | None) -> str:
    return f"about {seeds} seeds" if seeds else f"more than {MOST_SEEDS} seeds"


def _over_documents(values: Values, mean: Estimate, level: float) -> tuple[float, float]:
    """The interval over documents alone, which no number of seeds makes narrower; a point if documents are not known."""
    if not group_count(values):
        return mean.mean, mean.mean
    return mean._replace(variances=mean.variances[-1:], freedoms=mean.freedoms[-1:]).interval(level)


def decide_within(values: Values, bounds: tuple[float, float], level: float = LEVEL, *, exact: bool = False) -> Decision:
    """Whether the mean lies between the bounds: its interval lies inside them (holds), outside (fails) or across.

    Two one-sided tests at half of `level` each. Exact values decide by themselves; a value on a bound is inside.
    """
    low, high = bounds
    if exact:
        return _exactly([not low <= value <= high for value in whole(values)], "outside")
    if reason := _undecidable(values):
        return Decision("undecided", reason)
    mean = estimate(values)
    lower, upper = interval = mean.interval(level)
    inside, outside = max(mean.above(low), mean.below(high)), min(mean.above(high), mean.below(low))
    outcome = "holds" if low <= lower and upper <= high else "fails" if upper < low or lower > high else "undecided"
    p = {"holds": inside, "fails": outside, "undecided": min(inside, outside)}[outcome]
    reason = f"mean {mean.mean:.4g}, {interval_text(interval, level)}; bounds {low:.4g} to {high:.4g}"
    decided = Decision(outcome, reason, interval, level, None, _doubled(p), slack=min(lower - low, high - upper))
    if outcome != "undecided":
        return decided
    outlook, more_seeds = _outlook(values, mean, bounds, level)
    return decided._replace(reason=f"{reason}; {outlook}", more_seeds=more_seeds)


def decide_share(margins: Values, share: float, level: float = LEVEL) -> Decision:
    """Whether the margin is positive in more than a share of all seeds, by the exact interval of Clopper and Pearson (1934)."""
    if reason := _undecidable(margins):
        return Decision("undecided", reason)
    count, n = int(np.sum(whole(margins) > 0)), len(margins)
    low, high = interval = share_interval(count, n, level)
    outcome = "holds" if low > share else "fails" if high < share else "undecided"
    tails = [stats.binomtest(count, n, share, alternative=side).pvalue for side in ("greater", "less")]
    reason = f"{count} of {n} seeds, {interval_text(interval, level)} of the share, compared with {share:g}"
    decided = Decision(outcome, reason, interval, level, share, _doubled(float(min(tails))), slack=low - share)
    if outcome != "undecided":
        return decided
    outlook = f"{_about(seeds_to_decide_share(count, n, share, level))} would decide at this share"
    return decided._replace(reason=f"{reason}; {outlook}", more_seeds=True)


def seeds_to_decide_share(count: int, n: int, share: float, level: float = LEVEL) -> int | None:
    """The number of seeds from which on the exact interval around count / n would not hold `share`; None above MOST_SEEDS.

    The interval excludes the share where one of the binomial tails beyond the count is below half of `level`.
    """
    seeds = np.arange(n + 1, MOST_SEEDS + 1)
    counts = np.round(seeds * count / n)
    tails = np.minimum(stats.binom.sf(counts - 1, seeds, share), stats.binom.cdf(counts, seeds, share))
    last_undecided = seeds[tails >= level / 2].max(initial=n)
    return int(last_undecided) + 1 if last_undecided < MOST_SEEDS else None


def share_interval(count: int, n: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact interval of a share (Clopper and Pearson 1934), of which `count` of n draws were seen."""
    interval = stats.binomtest(count, n).proportion_ci(1 - level, method="exact")
    return float(interval.low), float(interval.high)


def _doubled(p: float) -> float:
    return min(1.0, 2 * p)


def _exactly(against: Sequence[bool], how: str) -> Decision:
    """The decision where nothing is random: every case counts."""
    cases = f"{len(against)} case{'s' if len(against) != 1 else ''}"
    return Decision("fails", f"{how} in {sum(against)} of {cases}") if any(against) else Decision("holds", cases)


def _undecidable(values: Values) -> str:
    if not np.isfinite(values).all():
        return "a value is not finite"
    return f"{len(values)} seed: an interval needs two or more" if np.size(values) < 2 else ""


def interval_text(interval: tuple[float, float], level: float = LEVEL) -> str:
    """An interval with as many digits as margins of perplexities and of shares need, which differ by magnitudes."""
    return "{:.4g} % interval [{:.4g}, {:.4g}]".format(100 * (1 - level), *interval)
