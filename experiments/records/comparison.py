"""The two sides of a claim: their values by seed, how they are compared, and how they are printed."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leadline.experiments.config.claim import Claim, Term
from leadline.experiments.config.report import TrainingLength
from leadline.experiments.records.arms import RecordedArm, differing
from leadline.experiments.records.evidence import Decision, Evidence, decide, decide_share, decide_within
from leadline.experiments.records.measurement import value_of
from leadline.experiments.records.quantities import QUANTITIES

Choice = Mapping[str, RecordedArm]  # the arm of each selector


@dataclass(frozen=True)
class Comparison:
    """The values of the terms of a claim for one choice of arms, of the seeds that have all of them."""

    arms: Choice  # by selector
    values: tuple[tuple[float, ...], ...]  # of each term that is compared, one a seed


def compare(claim: Claim, choice: Choice) -> Comparison | None:
    """The values of both sides, paired by seed; None where no seed has every one of them."""
    columns = [term_values(term, choice) for term in claim.compared()]
    seeds = sorted(set.intersection(*(set(column) for column in columns)))
    return Comparison(choice, tuple(tuple(column[seed] for seed in seeds) for column in columns)) if seeds else None


def term_values(term: Term, choice: Choice) -> dict[int, float]:
    """Seed -> value of a term; seeds without a finite value are left out."""
    measured = {record.seed: value_of(record, term.quantity, **term.at) for record in choice[term.arm].records}
    values = {seed: value for seed, value in measured.items() if value is not None}
    if term.over is None:
        return values
    divisors = term_values(term.over, choice)
    return {seed: value / divisors[seed] if divisors[seed] else math.nan for seed, value in values.items() if seed in divisors}


def decide_comparisons(claim: Claim, comparisons: Sequence[Comparison], *, exact: bool) -> Decision:
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


def figures(claim: Claim, comparisons: Sequence[Comparison]) -> str:
    """The measured figures of each side: mean and deviation over seeds, or the range over the cases."""
    texts = []
    for side, term in enumerate(claim.compared()):
        values = [case.values[side] for case in comparisons]
        means = [float(np.mean(column)) for column in values]
        if len(values) == 1:
            texts.append(f"{term_text(term)} {figure(term, values[0])}")
        else:
            low, high = (figure(term, [pick(means)]) for pick in (min, max))
            texts.append(f"{term_text(term)} {low} to {high} in {len(means)} cases")
    return "; ".join(texts)


def figure(term: Term, values: Sequence[float]) -> str:
    """Mean and sample deviation, with the digits of the quantity; ratios have three, large numbers four significant ones."""
    quantity = QUANTITIES.get(term.quantity)
    digits = 3 if quantity is None or term.over is not None else quantity.digits
    if max(abs(value) for value in values) >= 10**5:
        return f"{np.mean(values):.5g}"
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


def term_text(term: Term) -> str:
    """What a term is, as `rope: perplexity (extension yarn, length 8 ×)`."""
    quantity = QUANTITIES.get(term.quantity)
    heading = quantity.heading if quantity else term.quantity.replace("_", " ")
    values = {n: f"{value.multiple:g} ×" if isinstance(value, TrainingLength) else value for n, value in term.at.items()}
    dims = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items())
    text = f"{term.arm.replace('_', ' ')}: {heading}{f' ({dims})' if dims else ''}"
    return text if term.over is None else f"[{text}] / [{term_text(term.over)}]"


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
