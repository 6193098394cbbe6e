"""Synthetic records in which a claim holds or fails, made from the terms of the claim itself. Nothing here was measured."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from leadline.experiments.config.claim import Claim, Term
from leadline.experiments.config.load import arms_of, load_studies
from leadline.experiments.config.study import Study
from leadline.experiments.records.arms import RecordedArm, combinations, recorded_arms
from leadline.experiments.records.decisions import Evidence
from leadline.experiments.records.measurement import Measurement, Reading, reading, resolve
from leadline.experiments.records.record import Record
from leadline.experiments.records.verdict import Verdict, judge
from tests.experiments.committed import COMMITTED
from tests.experiments.synthetic_records import made

ABOVE_HALF = f"{__name__}:rates_above_half"  # a predicate that is a function
LARGE = 10**10  # steps, tokens and parameters: no claim needs more
Choice = Mapping[str, RecordedArm]


class Row(NamedTuple):
    """A claim and the file and study that it is written in."""

    path: Path
    study: Study
    claim: Claim

    def records(self, *, holds: bool) -> list[Record]:
        """Of the arms of its study, or of an exact study of those that its selectors describe."""
        exact = self.study.exact is not None
        arms = computed_arms(self.study, self.claim) if exact else trained_arms(self.path)[1]
        return synthetic(self.study, arms, self.claim, holds=holds)

    def verdict(self, records: Sequence[Record]) -> Verdict:
        return judge(self.claim, self.study, recorded_arms(self.study, records))


# Every claim that a file of configs/ writes itself.
ROWS = [
    Row(path, study, claim)
    for path, study in COMMITTED
    if "[[claims]]" in path.read_text(encoding="utf-8")
    for claim in study.claims
]


def record(study: str, arm: str, number: int, seed: int, config: Mapping[str, Any], **changes: object) -> Record:
    """A record with nothing measured; `number` becomes its hash."""
    scale = {"steps": LARGE, "tokens": LARGE, "parameters": LARGE}
    return made(**{"study": study, "arm": arm, "arm_hash": f"{number:012x}", "seed": seed, "config": config, **scale} | changes)


@functools.cache
def trained_arms(path: Path, words: tuple[str, ...] = ()) -> tuple[Study, tuple[RecordedArm, ...]]:
    """The study of a file and all of its arms, each with one record in which nothing is measured.

    Those that the file leaves to an accelerator (`only`) are there too.
    """
    (study,) = load_studies(path, words)
    study = study.model_copy(update={"only": ()})
    records = [
        record(study.study, arm.name, number, study.seeds[0], arm.model_dump(exclude={"name", "label", "published"}))
        for number, arm in enumerate(arms_of(study, path))
    ]
    return study, tuple(recorded_arms(study, records))


def computed_arms(study: Study, claim: Claim) -> list[RecordedArm]:
    """Arms of an exact study as the selectors of a claim describe them."""
    cases = range(2 if claim.cases == "arms" else 1)
    configs = [{"case": case, **nested(study.selectors[name])} for name in claim.selectors() for case in cases]
    nothing = {"steps": 0, "tokens": 0, "parameters": 0}
    return recorded_arms(study, [record(study.study, f"arm{i}", i, 0, config, **nothing) for i, config in enumerate(configs)])


def nested(selector: Mapping[str, Any]) -> dict[str, Any]:
    """Tables in tables in the place of dotted keys, and a table with something in it where one has to be there."""
    tree: dict[str, Any] = {}
    for key, value in selector.items():
        *tables, name = key.split(".")
        within = functools.reduce(lambda table, part: table.setdefault(part, {}), tables, tree)
        within[name] = {"there": True} if value is True else value
    return tree


def synthetic(study: Study, arms: Sequence[RecordedArm], claim: Claim, *, holds: bool) -> list[Record]:
    """Records of the arms that a claim compares, in which its preconditions are met and its relation holds, or fails.

    They have the seeds of the study, which must be enough for either outcome. One quantity of trained arms differs a little
    from seed to seed, in each place by another step.
    """
    choices, _ = combinations(study, claim.selectors(), arms)
    assert len(choices) == 1 or (choices and claim.cases == "arms")
    values: dict[tuple[str, Reading], float] = {}  # (hash of an arm, reading) -> value

    def key(term: Term, choice: Choice) -> tuple[str, Reading]:
        arm = choice[term.arm].members[0]
        return arm.arm_hash, reading(term.quantity, **(resolve(arm, term.at) or {}))

    def get(term: Term, choice: Choice) -> float:
        """The value of a term, 1 where none was given."""
        return values.setdefault(key(term, choice), 1.0) / (1.0 if term.over is None else get(term.over, choice))

    def put(term: Term, choice: Choice, value: float) -> None:
        values[key(term, choice)] = value * (1.0 if term.over is None else get(term.over, choice))

    left, *others = claim.compared()
    met = [(when.term, when.value * (1.2 if when.relation == "above" else 0.8)) for when in claim.when]
    for term, value in (*met, *((term, 1.0) for term in others)):
        for choice in choices:
            if key(term, choice) not in values:
                put(term, choice, value)
    for choice in choices:
        put(left, choice, _left(claim, get(others[0], choice) if others else claim.right, holds=holds))
    records = []
    for arm in {id(arm): arm.members[0] for choice in choices for arm in choice.values()}.values():
        for number, seed in enumerate(study.seeds if study.exact is None else (0,)):
            numbers = []
            for place, ((arm_hash, (quantity, dims)), value) in enumerate(values.items(), start=1):
                differs = arm.steps and quantity == left.quantity
                apart = 1 + 1e-4 * place * (number - len(study.seeds) / 2) if differs else 1.0
                if arm_hash == arm.arm_hash:
                    numbers.append(Measurement(quantity, value * apart, "1", **dict(dims)))
            records.append(arm.model_copy(update={"seed": seed, "measurements": tuple(numbers)}))
    return records


def changed(records: Sequence[Record], change: Callable[[dict[str, Any]], object]) -> list[Record]:
    """The records after a change to a copy of each configuration."""
    copies = [entry.model_copy(deep=True) for entry in records]
    for copy in copies:
        change(copy.config)
    return copies


def _left(claim: Claim, right: Any, *, holds: bool) -> float:
    """A left side with which the claim holds, or fails, for a right side."""
    if claim.bounds is not None:
        low, high = claim.bounds
        return (low + high) / 2 if holds else high + (high - low) + 1
    if claim.relation == "equivalent":
        away = 0.0 if holds else 10 * (claim.delta or 0.0)
        return right * claim.factor * math.exp(away) if claim.log else right * claim.factor + away
    above = (claim.relation == "above") == holds
    if right == 0:
        return 1.0 if above else -1.0
    return right * claim.factor * (4.0 if above else 0.25)


def rates_above_half(records: Sequence[Record]) -> Evidence:
    """A predicate: the sink rate is above a half."""
    rates = [entry.value or 0.0 for record in records for entry in record.measurements if entry.quantity == "sink_rate"]
    return Evidence("rates", tuple(rate - 0.5 for rate in rates))
