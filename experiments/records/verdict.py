"""The verdict on a claim: its arms are found by their configuration, its preconditions checked and its values compared."""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from leadline.experiments.config.claim import Claim, Needs
from leadline.experiments.config.load import arms_of
from leadline.experiments.config.study import Arm, Study
from leadline.experiments.records.arms import RecordedArm, combinations, matches, planned_arm, recorded_arms
from leadline.experiments.records.captions import (
    NOT_RUN,
    count,
    ledger_column,
    measured_text,
    measures_text,
    parameters,
    published_model,
    scale,
)
from leadline.experiments.records.comparison import Choice, names_of, related, stated, term_values
from leadline.experiments.records.decisions import Decision, Evidence, Outcome, decide, q_values
from leadline.experiments.records.protocols import by_protocol
from leadline.experiments.records.quantities import quantity
from leadline.experiments.records.record import Record
from leadline.experiments.records.sequential import LEVEL, SeedPlan
from leadline.experiments.records.thresholds import threshold
from leadline.experiments.runtime.errors import UserError

Predicate = Callable[[Sequence[Record]], Evidence | None]


@dataclass(frozen=True)
class Verdict:
    """A claim with what was measured, at the scale at which it was measured."""

    id: str  # of the claim
    statement: str  # what is claimed
    source: str  # a key of the references; empty where the claim has none
    where: str  # table, figure or section of the source
    published: str  # the published figure, or what is said of a statement without a source
    study: str  # the name of the study that it belongs to
    measured: str  # the measured figures, for readers; empty where nothing was measured
    outcome: Outcome  # of the comparison
    reason: str  # why it is that
    n: int  # seeds, of the case that has fewest, or cases of an exact claim
    interval: tuple[float, float] | None  # that the outcome rests on
    scale: str  # what was compared: toy tasks, small language models or a published one; its parameters, steps and tokens
    arms: tuple[str, ...] = ()  # that were compared, as the study names them
    column: str = NOT_RUN  # of the ledger (captions.ledger_column)
    windows: str = ""  # how many windows and documents were measured; empty where the records do not say
    level: float = LEVEL  # 1 - coverage of the interval
    null: float | None = 0.0  # the value in the interval at which nothing is decided; None where bounds decide
    p: float | None = None  # leadline.experiments.records.decisions.Decision; None where nothing is random
    q: float | None = None  # p after Benjamini and Hochberg, over all verdicts that were made together
    threshold: tuple[float, ...] = ()  # that the statement names
    turns: tuple[float, float] | None = None  # the thresholds between which it would be undecided
    more_seeds: bool = False  # whether it is undecided and more seeds may decide it
    protocols: Mapping[str, Outcome] = field(default_factory=dict)  # of perplexity, and the outcome by each
    interval_of: str = ""  # the mean margin or a share, for readers
    command: str = ""  # runs the study
    shown_at: str = ""  # the smallest scale at which a published statement was shown

    @property
    def own(self) -> bool:
        """Whether the statement has no source."""
        return not self.source


def verdicts(studies: Mapping[str, Study], records: Sequence[Record]) -> list[Verdict]:
    """The verdict on every claim of every study, in the order of the studies and of their files.

    Records of studies that are not given are passed over. UserError for a claim that names a function that does not exist.
    """
    judged = []
    for study in studies.values():
        arms = recorded_arms(study, records)
        judged += [judge(claim, study, arms) for claim in study.claims]
    return with_q(judged)


def with_q(judged: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts with their q-values."""
    return [replace(verdict, q=q) for verdict, q in zip(judged, q_values([verdict.p for verdict in judged]), strict=True)]


def judge(claim: Claim, study: Study, arms: Sequence[RecordedArm]) -> Verdict:
    """The verdict on one claim of a study. UserError where it names a function that does not exist."""
    choices, matching = combinations(study, claim.selectors(), arms)
    compared = list({id(arm): arm for choice in choices for arm in choice.values()}.values())
    exact = study.exact is not None
    plan = SeedPlan(len(study.seeds), study.most_seeds)
    missing = _missing(claim, study, choices, matching) if arms else "no records"
    if missing := missing or _too_small(claim, study.needs, choices):
        measured, n, decision = "", 0, Decision("not measured", missing)
    else:
        measured, n, decision = _decided(claim, choices, matching, plan, exact=exact)
    if not n:
        compared = []
    records = [record for arm in compared for record in arm.records]
    return Verdict(
        **claim.model_dump(include={"id", "source", "where", "published", "shown_at"}),
        statement=claim.erratum or claim.statement,
        study=study.study,
        measured=measured,
        outcome=decision.outcome,
        reason="; ".join(_notes(claim, decision, compared, exact=exact)),
        n=n,
        interval=decision.interval,
        interval_of=decision.interval_of,
        level=decision.level,
        null=decision.null,
        p=decision.p,
        threshold=threshold(claim),
        turns=decision.turns,
        more_seeds=decision.more_seeds,
        protocols=by_protocol(claim, choices, plan, exact=exact) if decision.turns is not None else {},
        scale=scale(records),
        arms=tuple(sorted({record.arm for arm in compared for record in arm.members})),
        column=ledger_column(records or [r for arm in arms for r in arm.members], sink_recipe=study.sink_recipe),
        windows=_text(claim, choices, records) if n else "",
        command=study.runs_with,
    )


def _text(claim: Claim, choices: Sequence[Choice], records: Sequence[Record]) -> str:
    """The text, or the answers, that each number was measured on; once where several have as much of it.

    A function takes what was measured on the text of the loss.
    """
    if claim.function is not None:
        return measured_text(records, {}, "loss")
    terms = [part for side in claim.compared() for part in side.parts()]
    texts = [
        measured_text([record for choice in choices for record in choice[term.arm].records], term.at, term.quantity)
        for term in terms
        # What is predicted beside answers is measured on nothing.
        if quantity(term.quantity).counted == quantity(terms[0].quantity).counted
    ]
    return " and ".join(text for text in dict.fromkeys(texts) if text)


def _decided(
    claim: Claim, choices: Sequence[Choice], matching: Mapping[str, Sequence[RecordedArm]], plan: SeedPlan, *, exact: bool
) -> tuple[str, int, Decision]:
    """The measured figures, the number of seeds or cases, and the decision, of a claim whose arms are on record."""
    if (unmet := _unmet(claim, choices)) is not None:
        return unmet
    if claim.function is None:
        return related(claim, choices, plan, exact=exact)
    records = [record for arm in matching[claim.arms] for record in arm.members]
    evidence = predicate(claim.function)(records)
    if evidence is None or not (len(evidence.margins) or evidence.unmet):
        return "", 0, Decision("not measured", "the records lack what is compared")
    n = len(evidence.margins)
    if evidence.unmet:
        return evidence.measured, n, Decision("not testable here", evidence.unmet)
    decision = decide(evidence.margins, claim.delta, plan.levels(n), exact=exact, mean=evidence.mean)
    return evidence.measured, n, decision


def _notes(claim: Claim, decision: Decision, compared: Sequence[RecordedArm], *, exact: bool) -> Iterator[str]:
    """Why an outcome is what it is, how many models diverged, at which scale the statement was shown, and how it was locked."""
    records = [record for arm in compared for record in arm.records]
    decided = decision.outcome in ("holds", "fails", "equivalent")
    basis = "one model, no interval" if any(map(published_model, records)) else "exact"
    yield f"{basis}: {decision.reason}" if exact and decided and decision.interval is None else decision.reason
    if decision.interval is not None and any(map(measures_text, records)):
        yield f"over {'documents of one model' if exact else 'seeds and documents' if decision.documents else 'seeds alone'}"
    if lost := sum(record.status == "diverged" for arm in compared for record in arm.members):
        # A predicate that is a function decides itself what a model that diverged counts as.
        fate = "" if claim.function else f" and {'is' if lost == 1 else 'are'} left out"
        yield f"{lost} model{'s' if lost != 1 else ''} diverged{fate}"
    if decision.outcome in ("fails", "equivalent", "undecided") and claim.shown_at:
        models = [record for record in records if record.parameters]
        yield f"{f'not shown at {parameters(models)}; ' if models else ''}it was shown at {claim.shown_at}"
    if claim.erratum:
        yield f"erratum: the statement was locked as “{claim.statement}”"


def _missing(claim: Claim, study: Study, choices: Sequence[Choice], matching: Mapping[str, Sequence[RecordedArm]]) -> str:
    """Why there are no arms to compare, or no definite ones; empty where there are."""
    planned: Sequence[Arm] = ()
    if claim.cases == "arms" and study.exact is None:
        try:
            planned = arms_of(study.model_copy(update={"only": ()}), Path(study.study))
        except UserError as error:  # of an earlier version, whose other arms are read all the same
            return f"the arms of the study cannot be read: {error}"
    for name, arms in matching.items():
        title = name.replace("_", " ")
        if not arms:
            settings = ", ".join(f"{key} = {value}" for key, value in study.selectors[name].items())
            rest = " and the study's other settings" if study.exact is None else ""
            return f"no recorded arm is {title}, with {settings or 'nothing else'}{rest}"
        if not any(arm.records for arm in arms):
            return f"every seed of {title} diverged"
        if lacking := _lacking(study, name, planned, arms):
            return f"no record is of {lacking}, which is one of {title}"
        chosen = dict.fromkeys(choice[name].name for choice in choices)
        if len(chosen) > 1 and claim.cases == "seeds" and name != claim.arms:
            return f"ambiguous: {title} may be {' or '.join(chosen)}"
    return "" if choices else f"the arms that are {' and '.join(matching)} differ in other settings"


def _lacking(study: Study, selector: str, planned: Sequence[Arm], recorded: Sequence[RecordedArm]) -> str:
    """An arm of those planned that a selector matches and that has no record; empty where all have one."""
    known = [(arm.leaves, arm.started) for arm in recorded]
    for arm in planned:
        expected = planned_arm(study, arm)
        if expected is None or not matches(study.selectors[selector], expected):
            continue
        if (expected.leaves, expected.started) not in known:
            return arm.label or arm.name
    return ""


def _too_small(claim: Claim, needs: Needs, choices: Sequence[Choice]) -> str:
    """How much smaller the arm on the left side is than the statement needs; empty where it is not."""
    name = claim.arms if claim.left is None else claim.left.arm
    for size, least in (needs | claim.needs).items():
        smallest = min((getattr(record, size) for choice in choices for record in choice[name].records), default=0)
        if smallest < least:
            return f"{count(smallest)} {size}, and the statement needs {count(least)}"
    return ""


def _unmet(claim: Claim, choices: Sequence[Choice]) -> tuple[str, int, Decision] | None:
    """The first precondition that is not met in some case, with the figure that says so."""
    for condition in claim.when:
        for choice in choices:
            values = [float(value[0]) for value in term_values(condition.term, choice).values()]
            text = stated(condition.term, values, names_of([choice]))
            if not values:
                return "", 0, Decision("not measured", text)
            median = float(np.median(values))
            if not condition.met_by(median):
                sign = ">" if condition.relation == "above" else "<"
                figure = "the median over seeds" if len(values) > 1 else "the figure"
                reason = f"{condition.reason}: {figure}, {median:.3g}, is not {sign} {condition.value:g}"
                return text, len(values), Decision("not testable here", reason)
    return None


def predicate(name: str) -> Predicate:
    """The function that `module:function` names. UserError where there is none."""
    module, _, attribute = name.partition(":")
    try:
        function: Predicate = getattr(importlib.import_module(module), attribute)
        if not callable(function):
            raise TypeError(f"{attribute} is a {type(function).__name__}, no function")
        return function
    except Exception as error:  # whatever a module of somebody else's raises
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"function = {name!r}: {reason}; write it as package.module:function, and mend its module") from error
