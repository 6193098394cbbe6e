"""The rules by which margins over seeds decide a statement: its outcome, interval and p-value.

The intervals are those of leadline.experiments.records.estimates.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy import stats

from leadline.experiments.records.enough import MOST_TIMES, about, documents_to_decide, seeds_to_decide, seeds_to_decide_share
from leadline.experiments.records.estimates import Estimate, Values, estimate, group_count, share_interval, whole
from leadline.experiments.records.sequential import LEVEL, ONE_LOOK, Levels

Outcome = Literal["holds", "fails", "equivalent", "undecided", "not testable here", "not measured"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
AGAINST = "against the statement"  # a NaN is, too
ROUNDING = 1e-12  # differences that are below this, relative to what is compared, are none


@dataclass(frozen=True)
class Evidence:
    """What the records say of one statement."""

    measured: str  # the measured figures, for readers
    margins: Values  # a number or a row per seed, or a case of an exact study; positive where it supports the statement
    mean: str = "mean margin"  # what the mean of the margins is called
    unmet: str = ""  # what is missing where a precondition is not met; empty where all are


def q_values(p: Sequence[float | None]) -> list[float | None]:
    """The share of false ones among those of so small a p (Benjamini and Hochberg 1995); None where there is no p."""
    known = [value for value in p if value is not None]
    corrected = iter(stats.false_discovery_control(known) if known else ())
    return [None if value is None else float(next(corrected)) for value in p]


class Decision(NamedTuple):
    """An outcome and why it is one. Interval and p-value are absent where nothing is random."""

    outcome: Outcome
    reason: str
    interval: tuple[float, float] | None = None  # that the outcome rests on
    level: float = LEVEL  # 1 - coverage of the interval
    null: float | None = 0.0  # the value in the interval at which nothing is decided; None where bounds decide
    # The two-sided p-value of the hypothesis that the outcome rules out; of an undecided claim, that of no difference. It is
    # multiplied by LEVEL / level, so that a claim is decided where it is below LEVEL, also at one of several looks.
    p: float | None = None
    unsupported: float = 1.0  # the one-sided p-value of the hypothesis that the statement does not hold
    # the thresholds of the claim between which it is undecided (leadline.experiments.records.thresholds)
    turns: tuple[float, float] | None = None
    documents: bool = False  # whether the interval is over documents, besides seeds
    more_seeds: bool = False  # whether it is undecided and more seeds may decide it
    interval_of: str = ""  # what the interval is of, for readers


class _Rule(NamedTuple):
    """How the interval of a mean decides."""

    mean: str  # its name, for readers
    outcome: Callable[[float, float], Outcome]  # of the ends of an interval
    p: Callable[[Estimate, Outcome], float]  # one-sided, of the hypothesis that this outcome rules out
    note: str  # for readers
    null: float | None


def decide(
    margins: Values,
    delta: float | None = None,
    levels: Levels = ONE_LOOK,
    *,
    exact: bool = False,
    mean: str = "mean margin",
    rounding: float = 0.0,
) -> Decision:
    """Whether the mean margin is positive, by its interval over seeds; by the signs where nothing is random.

    Args:
        margins: a number or a row a seed, or a case where `exact`.
        delta: a difference up to this size counts as none: an interval that lies inside ±delta is equivalent to none.
        levels: the chances of a false decision, where the mean margin is 0.
        exact: whether nothing is random.
        mean: what readers see for the mean of the margins.
        rounding: seeds whose margins differ by no more agree.
    """
    none = 0.0 if delta is None else delta
    if exact:
        small = np.abs(whole(margins)) < none
        decision = _exactly([not (near or margin > 0) for near, margin in zip(small, whole(margins), strict=True)], AGAINST)
        if decision.outcome == "fails" or not small.any():
            return decision
        return Decision("equivalent", f"within ±{none:.4g} in {sum(small)} of {_cases(len(small))}")

    def outcome(low: float, high: float) -> Outcome:
        if -none < low and high < none:
            return "equivalent"
        return "holds" if low > 0 else "fails" if high < 0 else "undecided"

    def p(estimated: Estimate, outcome: Outcome) -> float:
        if outcome == "equivalent":
            return max(estimated.above(-none), estimated.below(none))
        above, below = estimated.above(0.0), estimated.below(0.0)
        return above if outcome == "holds" else below if outcome == "fails" else min(above, below)

    note = "" if delta is None else f"; an interval within ±{delta:.4g} counts as no difference"
    return _by_interval(margins, _Rule(mean, outcome, p, note, 0.0), levels, rounding)


def decide_within(
    values: Values,
    bounds: tuple[float, float],
    levels: Levels = ONE_LOOK,
    *,
    exact: bool = False,
    mean: str = "mean",
    rounding: float = 0.0,
) -> Decision:
    """Whether the mean lies between the bounds: its interval lies inside them (holds), outside (fails) or across.

    Two one-sided tests at half of the level each. Exact values decide by themselves; a value on a bound is inside. Values that
    differ by no more than `rounding` are one.
    """
    low, high = bounds
    if exact:
        return _exactly([not low - rounding <= value <= high + rounding for value in whole(values)], "outside")

    def outcome(lower: float, upper: float) -> Outcome:
        return "holds" if low <= lower and upper <= high else "fails" if upper < low or lower > high else "undecided"

    def p(mean: Estimate, outcome: Outcome) -> float:
        inside, outside = max(mean.above(low), mean.below(high)), min(mean.above(high), mean.below(low))
        return inside if outcome == "holds" else outside if outcome == "fails" else min(inside, outside)

    return _by_interval(values, _Rule(mean, outcome, p, f"; bounds {low:.4g} to {high:.4g}", None), levels, rounding)


def _by_interval(values: Values, rule: _Rule, levels: Levels, rounding: float) -> Decision:
    """The decision by the interval of the mean, and what would decide at the largest level of a look."""
    level, largest = levels
    if undecidable := _undecidable(values):
        return undecidable
    mean, seeds = estimate(values), whole(values)
    agree = len(seeds) > 1 and np.ptp(seeds) <= rounding
    if agree:
        of_all = 0.0 if abs(seeds[0]) <= rounding else float(seeds[0])
        mean = mean._replace(mean=of_all, variances=(0.0, *mean.variances[1:]))
    interval = mean.interval(level)
    outcome = rule.outcome(*interval)
    reason = f"{rule.mean} {mean.mean:.4g}, {interval_text(interval, level)}{rule.note}"
    decision = Decision(outcome, reason, interval, level, rule.null, interval_of=rule.mean)
    if agree and not any(mean.variances) and outcome == "undecided":
        return decision._replace(reason=f"{reason}; no difference in any seed")
    decision = decision._replace(p=_two_sided(rule.p(mean, outcome), level), unsupported=rule.p(mean, "holds"))
    if outcome != "undecided":
        return _by_signs(decision, len(seeds), largest) if agree else decision
    of_documents = mean._replace(variances=mean.variances[-1:], freedoms=mean.freedoms[-1:])
    if group_count(values) and rule.outcome(*of_documents.interval(largest)) == "undecided":
        times = documents_to_decide(of_documents, rule.outcome, largest)
        if len(seeds) == 1:  # of a published model
            many = f"about {times}" if times else f"more than {MOST_TIMES}"
            return decision._replace(reason=f"{reason}; {many} times as many documents would decide")
        more = f"many seeds would on about {times} times as many" if times else f"nor on {MOST_TIMES} times as many"
        return decision._replace(reason=f"{reason}; no number of seeds would decide on these documents, {more}")
    outlook = f"{about(seeds_to_decide(values, rule.outcome, largest))} would decide at this mean and spread"
    return decision._replace(reason=f"{reason}; {outlook}", more_seeds=True)


def _by_signs(decision: Decision, seeds: int, largest: float) -> Decision:
    """A decided case where all seeds agree, as counts may: without a spread over seeds the sign test has to decide it, too."""
    sided = 0.5**seeds
    reason = f"{decision.reason}; all {seeds} seeds agree, p = {2 * sided:.2g} by a sign test"
    p = max(_two_sided(sided, decision.level), decision.p or 0.0)
    decided = decision._replace(reason=reason, p=p, unsupported=max(sided, decision.unsupported))
    if 2 * sided < decision.level:
        return decided
    enough = math.floor(math.log2(2 / largest)) + 1
    return decided._replace(outcome="undecided", reason=f"{reason}; {enough} seeds that agree would decide", more_seeds=True)


def decide_share(margins: Values, share: float, levels: Levels = ONE_LOOK) -> Decision:
    """Whether the margin is positive in more than a share of all seeds, by the exact interval of Clopper and Pearson (1934)."""
    seeds, (level, largest) = whole(margins), levels
    if undecidable := _undecidable(seeds):
        return undecidable
    count, n = int(np.sum(seeds > 0)), len(seeds)
    low, high = interval = share_interval(count, n, level)
    outcome = "holds" if low > share else "fails" if high < share else "undecided"
    more, fewer = (float(stats.binomtest(count, n, share, alternative=side).pvalue) for side in ("greater", "less"))
    reason = f"{count} of {n} seeds, {interval_text(interval, level)} of the share, compared with {share:g}"
    p = _two_sided(min(more, fewer), level)
    decided = Decision(outcome, reason, interval, level, share, p, more, interval_of="share of seeds")
    if outcome != "undecided":
        return decided
    number = "no number of seeds" if count == share * n else about(seeds_to_decide_share(count, n, share, largest))
    return decided._replace(reason=f"{reason}; {number} would decide at this share", more_seeds=True)


def _two_sided(p: float, level: float) -> float:
    """A one-sided p-value as that of `Decision`."""
    return min(1.0, 2 * p * LEVEL / level)


def _exactly(against: Sequence[bool], how: str) -> Decision:
    """The decision where nothing is random: every case counts."""
    cases = _cases(len(against))
    if any(against):
        return Decision("fails", f"{how} in {sum(against)} of {cases}")
    return Decision("holds", cases, unsupported=0.0)


def _cases(count: int) -> str:
    return f"{count} case{'s' * (count != 1)}"


def _undecidable(values: Values) -> Decision | None:
    if not np.isfinite(values).all():
        return Decision("undecided", "a value is not finite")
    if np.size(values) < 2:
        return Decision("undecided", f"{len(values)} seed: an interval needs two or more", more_seeds=True)
    return None


def interval_text(interval: tuple[float, float], level: float = LEVEL) -> str:
    """An interval with as many digits as margins of perplexities and of shares need, which differ by magnitudes."""
    coverage = 100 * (1 - float(f"{level:.3g}"))  # 95, 98.75, 99.512, 99.9997
    return f"{coverage:.10g} % interval [{interval[0]:.4g}, {interval[1]:.4g}]"
