"""The two sides of a claim in the records, and the decision between them."""

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from leadline.experiments.config.claim import Claim, Term
from leadline.experiments.config.report import TrainingLength
from leadline.experiments.records.arms import RecordedArm, distinguishing_settings
from leadline.experiments.records.decisions import Decision, decide, decide_share, decide_within
from leadline.experiments.records.estimates import Values, group_count, whole
from leadline.experiments.records.left_out import values_without
from leadline.experiments.records.margins import margins_of, rounding_of, scaled
from leadline.experiments.records.over_seeds import statistic
from leadline.experiments.records.quantities import quantity
from leadline.experiments.records.sequential import Levels, SeedPlan
from leadline.experiments.records.thresholds import turning

Choice = Mapping[str, RecordedArm]  # the arm of each selector


@dataclass(frozen=True)
class TermValues:
    """The values of the terms of a claim for one choice of arms, of the seeds that have all of them."""

    arms: Choice  # by selector
    # of each term that is compared, a row a seed: the value, then without each group of documents if all seeds have that
    values: tuple[Float[np.ndarray, "n G_and_1"], ...]

    @property
    def on_documents(self) -> bool:
        """Whether the values are known without groups of documents, so that they have an interval also of one model."""
        return group_count(self.values[0]) > 0


def related(claim: Claim, choices: Sequence[Choice], plan: SeedPlan, *, exact: bool) -> tuple[str, int, Decision]:
    """The measured figures of both sides, the number of seeds or cases, and the decision."""
    read = [(choice, *_case(claim, choice, exact=exact)) for choice in choices]
    comparisons, notes = [case for _, case, _ in read if case is not None], [note for *_, told in read for note in told]
    lacking = [(choice, told) for choice, case, told in read if case is None]
    if lacking and (claim.cases == "arms" or not comparisons):
        return "", 0, Decision("not measured", _unmeasured(claim, choices, *lacking[0]))
    cases = [len(comparison.values[0]) for comparison in comparisons]
    n = min(cases) if not exact or any(comparison.on_documents for comparison in comparisons) else sum(cases)
    decision = decide_cases(claim, comparisons, plan, exact=exact)
    return _figures(claim, comparisons), n, decision._replace(reason="; ".join((decision.reason, *notes)))


def _unmeasured(claim: Claim, choices: Sequence[Choice], lacking: Choice, notes: Sequence[str]) -> str:
    """Why no seed of a choice of arms has all that is compared."""
    nowhere = [term for term in claim.compared() if not any(term_values(term, choice) for choice in choices)]
    if nowhere:
        return stated(nowhere[0], (), names_of(choices))
    compared = [lacking[term.arm].members[0] for term in claim.compared()]
    arms = " and ".join(dict.fromkeys(record.label or record.arm for record in compared))
    return f"{arms}: {'; '.join(notes) or 'no seed has all that is compared'}"


def _case(claim: Claim, choice: Choice, *, exact: bool) -> tuple[TermValues | None, list[str]]:
    """The values of both sides of one choice of arms, None where no seed has them, and why seeds are left out."""
    columns = [term_values(term, choice) for term in claim.compared()]
    measured = set.intersection(*(set(column) for column in columns))
    finished = set.intersection(*({record.seed for record in choice[term.arm].records} for term in claim.compared()))
    unmet, notes = _seeds_unmet(claim, choice, measured), []
    if measured < finished and not exact:
        notes.append(f"{len(finished - measured)} of {len(finished)} seeds left out: a compared value is missing or not finite")
    if unmet:
        name = names_of([choice])[claim.compared()[0].arm]
        notes.append(f"{len(unmet)} of {len(measured)} seeds of {name} left out: {unmet[min(unmet)]}")
    seeds = sorted(measured - unmet.keys())
    if not seeds:
        return None, notes
    rows = _of_one_width([column[seed] for column in columns for seed in seeds])
    if len(seeds) == 1 and not exact:  # documents say nothing of other seeds
        rows = [row[:1] for row in rows]
    return TermValues(choice, tuple(np.split(np.stack(rows), len(columns)))), notes


def _seeds_unmet(claim: Claim, choice: Choice, seeds: Collection[int]) -> dict[int, str]:
    """The seeds that do not meet a precondition that is asked of each, with what they lack."""
    unmet: dict[int, str] = {}
    for condition in claim.when:
        if condition.each:
            values = term_values(condition.term, choice)
            met = {seed for seed, value in values.items() if condition.met_by(float(value[0]))}
            unmet |= dict.fromkeys(set(seeds) - met, condition.reason)
    return unmet


def term_values(term: Term, choice: Choice) -> dict[int, Float[np.ndarray, " G_and_1"]]:
    """Seed -> value of a term, and without each group of documents if that was measured.

    Seeds without a finite value are left out.
    """
    measured = {record.seed: values_without(record, term.quantity, **term.at) for record in choice[term.arm].records}
    values = {seed: column for seed, column in measured.items() if column is not None}
    if term.over is None:
        return values
    divisors = term_values(term.over, choice)
    pairs = {seed: _of_one_width([column, divisors[seed]]) for seed, column in values.items() if seed in divisors}
    with np.errstate(divide="ignore", invalid="ignore"):  # what is divided by 0 is not finite, and decides nothing
        return {seed: column / divisor for seed, (column, divisor) in pairs.items()}


def _of_one_width(rows: Sequence[Float[np.ndarray, " _"]]) -> list[Float[np.ndarray, " _"]]:
    """The rows, without the values of groups of documents if not all of them have the same groups."""
    return list(rows) if len({len(row) for row in rows}) == 1 else [row[:1] for row in rows]


def decide_cases(claim: Claim, comparisons: Sequence[TermValues], plan: SeedPlan, *, exact: bool) -> Decision:
    """The decision on a claim: on all cases at once where they are exact, otherwise the least favourable of its cases.

    A claim holds where each of k cases holds, which takes no correction. One case is enough for it to fail, or to be equivalent
    where no other fails or is undecided, so that each may do so with a k-th of the chance of an error (Bonferroni).
    """
    if exact and not any(case.on_documents for case in comparisons):
        values = [np.concatenate([whole(case.values[side]) for case in comparisons]) for side, _ in enumerate(claim.compared())]
        decision = _decided(claim, values, plan, exact=True)
        if decision.outcome != "fails" or len(comparisons) == 1:
            return decision
        arms = [case.arms[claim.compared()[0].arm] for case in comparisons]
        settings = zip(distinguishing_settings(arms), arms, strict=True)
        labels = [setting or arm.members[0].label or arm.name for setting, arm in settings]
        fails = [_decided(claim, case.values, plan, exact=True).outcome == "fails" for case in comparisons]
        return decision._replace(reason=f"{decision.reason} ({'; '.join(itertools.compress(labels, fails))})")
    decisions = [_one_of(len(comparisons), claim, case, plan, exact=exact and not case.on_documents) for case in comparisons]
    worst = min(decisions, key=_favour)
    if len(decisions) == 1:
        return worst
    held = sum(decision.outcome == "holds" for decision in decisions)
    return worst._replace(reason=f"holds in {held} of {len(decisions)} comparisons; least favourable: {worst.reason}")


def _favour(decision: Decision) -> tuple[int, float, float]:
    """Orders cases from the least favourable one: of those that fail the surest, of the others the least supported."""
    order = ("fails", "undecided", "equivalent", "holds").index(decision.outcome)
    surest = decision.p if decision.outcome == "fails" and decision.p is not None else -decision.unsupported
    return order, surest, -math.inf if decision.interval is None else decision.interval[0]


def _one_of(k: int, claim: Claim, case: TermValues, plan: SeedPlan, *, exact: bool) -> Decision:
    """The decision on one of k cases: what one case is enough for is decided again, at a k-th of the level (Bonferroni).

    A difference that is equivalent to none at the level of one case alone is at most undecided, also where the wider interval
    excludes 0.
    """
    decision = _decided(claim, case.values, plan, exact=exact)
    if exact or decision.outcome not in ("fails", "equivalent"):
        return decision
    again = _decided(claim, case.values, plan, exact=exact, cases=k)
    if decision.outcome != "equivalent" or again.outcome not in ("holds", "fails"):
        return again
    reason = f"{again.reason}; not equivalent at the level of {k} cases"
    return again._replace(outcome="undecided", reason=reason, p=min(1.0, k * (decision.p or 0.0)), more_seeds=True)


def _figures(claim: Claim, comparisons: Sequence[TermValues]) -> str:
    """The measured figures of each side: mean and deviation over seeds, or the range over the cases."""
    texts, names = [], names_of([comparison.arms for comparison in comparisons])
    for side, term in enumerate(claim.compared()):
        values = [case.values[side] for case in comparisons]
        means = [float(np.mean(whole(column))) for column in values]
        ends = dict.fromkeys(_figure(term, [pick(means)]) for pick in (min, max))
        several = f"{_text_of(term, names)} {' to '.join(ends)} in {len(means)} cases"
        texts.append(several if len(values) > 1 else stated(term, values[0], names))
    return "; ".join(texts)


def names_of(choices: Sequence[Choice]) -> dict[str, str]:
    """What readers see for each selector: the label of its arm, or the selector where it has several arms or no label."""
    labels = {name: {choice[name].members[0].label for choice in choices} for name in choices[0]}
    return {
        name: next(iter(found)) if len(found) == 1 and all(found) else name.replace("_", " ") for name, found in labels.items()
    }


def stated(term: Term, values: Values, names: Mapping[str, str]) -> str:
    """A term and its figure, as `RoPE: perplexity (extension yarn, length 8 ×) 12.34 ± 0.56`, by names of `names_of`."""
    return f"{_text_of(term, names)} {_figure(term, whole(values).tolist()) if len(values) else 'is not on record'}"


def _figure(term: Term, values: Sequence[float]) -> str:
    """Mean and sample deviation, with the digits of the quantity; ratios have three, large numbers but counts five in all."""
    digits = 3 if term.over is not None else quantity(term.quantity).digits
    large = digits > 0 and max(abs(value) for value in values) >= 10**5
    return f"{np.mean(values):.5g}" if large else str(statistic(values, digits))


def _text_of(term: Term, names: Mapping[str, str]) -> str:
    values = {n: f"{value.multiple:g} ×" if isinstance(value, TrainingLength) else value for n, value in term.at.items()}
    dims = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items())
    text = f"{names[term.arm]}: {quantity(term.quantity).heading}{f' ({dims})' if dims else ''}"
    return text if term.over is None else f"[{text}] / [{_text_of(term.over, names)}]"


def _decided(claim: Claim, values: Sequence[Values], plan: SeedPlan, *, exact: bool, cases: int = 1) -> Decision:
    """The decision on one case. Its interval misses the truth with a `cases`-th of the plan's chance."""
    decision = _compared(claim, values, plan.levels(len(values[0]), cases), exact=exact)
    if not exact and decision.interval is None:  # a single seed, or a value that is not finite
        return decision
    documents = claim.share is None and any(map(group_count, values))
    return decision._replace(turns=turning(claim, values, decision.interval, decision.level), documents=documents)


def _compared(claim: Claim, values: Sequence[Values], levels: Levels, *, exact: bool) -> Decision:
    """The decision by the rule of a claim. What rounding explains is no difference, and on a bound is inside."""
    rounding = rounding_of(claim, values)
    if claim.bounds is not None:
        left, (low, high) = scaled(claim, values[0]), scaled(claim, claim.bounds).tolist()
        if claim.share is None:
            return decide_within(left, (low, high), levels, exact=exact, rounding=rounding)
        inside = np.where((low - rounding <= left) & (left <= high + rounding), 1.0, -1.0)
        return decide_share(np.where(np.isfinite(left), inside, left), claim.share, levels)
    margins = margins_of(claim, values)
    margins = np.where(np.abs(margins) <= rounding, 0.0, margins)
    if claim.share is not None:
        return decide_share(margins, claim.share, levels)
    mean = "mean log margin" if claim.log else "mean margin"
    if claim.relation == "equivalent":
        delta = claim.delta or 0.0
        return decide_within(margins, (-delta, delta), levels, exact=exact, mean=mean, rounding=rounding)
    return decide(margins, claim.delta, levels, exact=exact, mean=mean, rounding=rounding)
