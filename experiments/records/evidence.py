"""What speaks for or against a statement, and the rules by which it is decided."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy import stats

from leadline.experiments.config.claim import Claim, Term
from leadline.experiments.config.report import TrainingLength
from leadline.experiments.records.arms import RecordedArm, differing
from leadline.experiments.records.measurement import select
from leadline.experiments.records.over_seeds import statistic
from leadline.experiments.records.quantities import QUANTITIES

Outcome = Literal["holds", "fails", "equivalent", "undecided", "not testable here", "not measured"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
CONFIDENCE = 0.95
Choice = Mapping[str, RecordedArm]  # the arm of each selector
MOST_SEEDS = 1000  # up to which the number that would decide is looked for


@dataclass(frozen=True)
class Evidence:
    """What the records say of one statement."""

    measured: str  # the measured figures, for readers
    margins: tuple[float, ...]  # one number per seed, or a case where `exact`; positive where it supports the statement
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
    reason = f"mean margin {np.mean(margins):.4g}, {interval_text(interval)}"
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
    return Decision(outcome, f"mean {np.mean(values):.4g}, {interval_text(interval)}; bounds {low:.4g} to {high:.4g}", interval)


def decide_share(margins: Sequence[float], share: float) -> Decision:
    """Whether the margin is positive in more than a share of all seeds, by the exact interval of Clopper and Pearson (1934)."""
    if reason := _undecidable(margins):
        return Decision("undecided", reason)
    count, n = sum(margin > 0 for margin in margins), len(margins)
    ci = stats.binomtest(count, n).proportion_ci(CONFIDENCE, method="exact")
    low, high = interval = float(ci.low), float(ci.high)
    outcome = "holds" if low > share else "fails" if high < share else "undecided"
    return Decision(outcome, f"{count} of {n} seeds, {interval_text(interval)} of the share, compared with {share:g}", interval)


def _exactly(against: Sequence[bool], how: str) -> Decision:
    """The decision where nothing is random: every case counts."""
    cases = f"{len(against)} case{'s' if len(against) != 1 else ''}"
    return Decision("fails", f"{how} in {sum(against)} of {cases}") if any(against) else Decision("holds", cases)


def _undecidable(values: Sequence[float]) -> str:
    if not all(math.isfinite(value) for value in values):
        return "a value is not finite"
    return f"{len(values)} seed: an interval needs two or more" if len(values) < 2 else ""


def interval_text(interval: tuple[float, float]) -> str:
    """An interval with as many digits as margins of perplexities and of shares need, which differ by magnitudes."""
    return "95 % interval [{:.4g}, {:.4g}]".format(*interval)


@dataclass(frozen=True)
class Comparison:
    """The values of the terms of a claim for one choice of arms, of the seeds that have all of them."""

    arms: Choice  # by selector
    values: tuple[tuple[float, ...], ...]  # of each term that is compared, one a seed


def related(claim: Claim, choices: Sequence[Choice], *, exact: bool) -> tuple[str, int, Decision]:
    """The measured figures of both sides, the number of seeds or cases, and the decision."""
    comparisons = []
    for choice in choices:
        columns = [term_values(term, choice) for term in claim.compared()]
        seeds = sorted(set.intersection(*(set(column) for column in columns)))
        if seeds:
            comparisons.append(Comparison(choice, tuple(tuple(column[seed] for seed in seeds) for column in columns)))
    if not comparisons:
        lacking = [term for term in claim.compared() if not any(term_values(term, choice) for choice in choices)]
        return "", 0, Decision("not measured", stated(lacking[0], ()) if lacking else "no seed has both sides")
    cases = [len(comparison.values[0]) for comparison in comparisons]
    return _figures(claim, comparisons), sum(cases) if exact else min(cases), _decide(claim, comparisons, exact=exact)


def term_values(term: Term, choice: Choice) -> dict[int, float]:
    """Seed -> value of a term; seeds without a finite value are left out."""
    measured = select(choice[term.arm].records, term.quantity, **term.at)
    values = {record.seed: value for record, value in measured}
    if term.over is None:
        return values
    divisors = term_values(term.over, choice)
    return {seed: value / divisors[seed] if divisors[seed] else math.nan for seed, value in values.items() if seed in divisors}


def _decide(claim: Claim, comparisons: Sequence[Comparison], *, exact: bool) -> Decision:
    """The decision on a claim: on all cases at once where they are exact, otherwise the least favourable of its cases."""
    if exact:
        values = [[value for case in comparisons for value in case.values[side]] for side, _ in enumerate(claim.compared())]
        decision = _decided(claim, values, exact=True)
        if decision.outcome == "holds" or len(comparisons) == 1:
            return decision
        labels = differing([case.arms[claim.compared()[0].arm] for case in comparisons])
        fails = [_decided(claim, case.values, exact=True).outcome == "fails" for case in comparisons]
        return decision._replace(reason=f"{decision.reason} ({'; '.join(itertools.compress(labels, fails))})")
    decisions = [_decided(claim, case.values, exact=False) for case in comparisons]
    order = ("fails", "undecided", "equivalent", "holds")
    worst = min(decisions, key=lambda decision: order.index(decision.outcome))
    if len(decisions) == 1:
        return worst
    held = sum(decision.outcome == "holds" for decision in decisions)
    return worst._replace(reason=f"holds in {held} of {len(decisions)} comparisons; least favourable: {worst.reason}")


def _figures(claim: Claim, comparisons: Sequence[Comparison]) -> str:
    """The measured figures of each side: mean and deviation over seeds, or the range over the cases."""
    texts = []
    for side, term in enumerate(claim.compared()):
        values = [case.values[side] for case in comparisons]
        means = [float(np.mean(column)) for column in values]
        low, high = (_figure(term, [pick(means)]) for pick in (min, max))
        several = f"{_text_of(term)} {low} to {high} in {len(means)} cases"
        texts.append(several if len(values) > 1 else stated(term, values[0]))
    return "; ".join(texts)


def stated(term: Term, values: Sequence[float]) -> str:
    """A term and its figure, as `rope: perplexity (extension yarn, length 8 ×) 12.34 ± 0.56`."""
    return f"{_text_of(term)} {_figure(term, values) if values else 'is not on record'}"


def _figure(term: Term, values: Sequence[float]) -> str:
    """Mean and sample deviation, with the digits of the quantity; ratios have three, large numbers four significant ones."""
    quantity = QUANTITIES.get(term.quantity)
    digits = 3 if quantity is None or term.over is not None else quantity.digits
    large = max(abs(value) for value in values) >= 10**5
    return f"{np.mean(values):.5g}" if large else str(statistic(values, digits))


def _text_of(term: Term) -> str:
    quantity = QUANTITIES.get(term.quantity)
    heading = quantity.heading if quantity else term.quantity.replace("_", " ")
    values = {n: f"{value.multiple:g} ×" if isinstance(value, TrainingLength) else value for n, value in term.at.items()}
    dims = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items())
    text = f"{term.arm.replace('_', ' ')}: {heading}{f' ({dims})' if dims else ''}"
    return text if term.over is None else f"[{text}] / [{_text_of(term.over)}]"


def _decided(claim: Claim, values: Sequence[Sequence[float]], *, exact: bool) -> Decision:
    left = _scaled(claim, values[0])
    if claim.bounds is not None:
        low, high = _scaled(claim, claim.bounds)
        if claim.share is None:
            return decide_within(left, (low, high), exact=exact)
        return decide_share([min(value - low, high - value) for value in left], claim.share)
    right = values[1] if isinstance(claim.right, Term) else [claim.right or 0.0] * len(left)
    scaled = _scaled(claim, [claim.factor * value for value in right])
    margins = [other - value for value, other in zip(left, scaled, strict=True)]
    if claim.relation == "equivalent":
        delta = claim.delta or 0.0
        return decide_within(margins, (-delta, delta), exact=exact)
    if claim.relation == "above":
        margins = [-margin for margin in margins]
    if claim.share is not None:
        return decide_share(margins, claim.share)
    return decide(Evidence("", tuple(margins), exact=exact), claim.delta)


def _scaled(claim: Claim, values: Sequence[float]) -> list[float]:
    if not claim.log:
        return list(values)
    return [math.log(value) if value > 0 else math.nan for value in values]
