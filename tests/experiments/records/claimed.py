"""Synthetic records in which a claim holds or fails, made from the terms of the claim itself. Nothing here was measured."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from leadline.experiments.config.claim import Claim, Term
from leadline.experiments.config.load import arms_of, load_studies
from leadline.experiments.config.study import Study
from leadline.experiments.records.arms import RecordedArm, combinations, recorded_arms
from leadline.experiments.records.measurement import Measurement, Reading, reading, resolve
from leadline.experiments.records.record import Record
from leadline.experiments.records.verdict import Verdict, judge
from tests.experiments.synthetic_records import made

CONFIGS = Path(__file__).parents[3] / "configs"
SEEDS = 6  # the fewest of which all speak for more than half of all
LARGE = 10**10  # steps, tokens and parameters: no claim needs more
Choices = Sequence[Mapping[str, RecordedArm]]
Values = dict[tuple[str, Reading], float]  # (hash of an arm, reading) -> value


class Row(NamedTuple):
    """A claim and the file and study that it is written in."""

    path: Path
    study: Study
    claim: Claim

    def arms(self) -> Sequence[RecordedArm]:
        """Those of its study, or of an exact study those that its selectors describe."""
        return trained_arms(self.path)[1] if self.study.exact is None else computed_arms(self.study, self.claim)

    def records(self, *, holds: bool) -> list[Record]:
        return synthetic(self.study, self.arms(), self.claim, holds=holds)

    def verdict(self, records: Sequence[Record]) -> Verdict:
        return judge(self.claim, self.study, recorded_arms(self.study, records))


def rows() -> Iterator[Row]:
    """Every claim that a file of configs/ writes itself."""
    for path in sorted(CONFIGS.rglob("*.toml")):
        if "[[claims]]" in path.read_text(encoding="utf-8"):
            for study in load_studies(path):
                yield from (Row(path, study, claim) for claim in study.claims)


def record(study: str, arm: str, number: int, seed: int, config: Mapping[str, Any], **changes: object) -> Record:
    """A record with nothing measured; `number` becomes its hash."""
    scale = {"steps": LARGE, "tokens": LARGE, "parameters": LARGE}
    return made(**{"study": study, "arm": arm, "arm_hash": f"{number:012x}", "seed": seed, "config": config, **scale} | changes)


@cache
def trained_arms(path: Path, words: tuple[str, ...] = ()) -> tuple[Study, tuple[RecordedArm, ...]]:
    """The study of a file and all of its arms, each with one record in which nothing is measured."""
    (study,) = load_studies(path, words)
    records = [
        record(study.study, arm.name, number, 0, arm.model_dump(exclude={"name", "label", "published"}))
        for number, arm in enumerate(arms_of(study, path))
    ]
    return study, tuple(recorded_arms(study, records))


def computed_arms(study: Study, claim: Claim) -> list[RecordedArm]:
    """Arms of an exact study as the selectors of a claim describe them."""
    cases = range(2 if claim.cases == "arms" else 1)
    configs = [{"case": case, **study.selectors[name]} for name in claim.selectors() for case in cases]
    nothing = {"steps": 0, "tokens": 0, "parameters": 0}
    return recorded_arms(study, [record(study.study, f"arm{i}", i, 0, config, **nothing) for i, config in enumerate(configs)])


def synthetic(study: Study, arms: Sequence[RecordedArm], claim: Claim, *, holds: bool) -> list[Record]:
    """Records of the arms that a claim compares, in which its preconditions are met and its relation holds, or fails."""
    choices, _ = combinations(study, claim.selectors(), arms)
    assert len(choices) == 1 or (choices and claim.cases == "arms")
    values: Values = {}
    for condition in claim.when:
        _assign(values, condition.term, choices, condition.value * (1.2 if condition.relation == "above" else 0.8))
    left, *others = claim.compared()
    for term in others:
        _assign(values, term, choices, 1.0)
    for choice in choices:
        right = _value(values, others[0], choice) if others else claim.right
        _put(values, left, choice, _left(claim, right, holds=holds))
    seeds = range(SEEDS if study.exact is None else 1)
    chosen = {id(arm): arm.members[0] for choice in choices for arm in choice.values()}
    return [_with_values(entry, seed, values, left.quantity) for entry in chosen.values() for seed in seeds]


def changed(records: Sequence[Record], change: Callable[[dict[str, Any]], object]) -> list[Record]:
    """The records after a change to a copy of each configuration."""
    copies = []
    for entry in records:
        copy = entry.model_copy(deep=True)
        change(copy.config)
        copies.append(copy)
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


def _assign(values: Values, term: Term, choices: Choices, value: float) -> None:
    """Gives a term a value in the arms where it has none."""
    for choice in choices:
        if _key(term, choice) not in values:
            _put(values, term, choice, value)


def _put(values: Values, term: Term, choice: Mapping[str, RecordedArm], value: float) -> None:
    divisor = 1.0 if term.over is None else _value(values, term.over, choice)
    values[_key(term, choice)] = value * divisor


def _value(values: Values, term: Term, choice: Mapping[str, RecordedArm]) -> float:
    """The value of a term, 1 where none was given."""
    divisor = 1.0 if term.over is None else _value(values, term.over, choice)
    return values.setdefault(_key(term, choice), 1.0) / divisor


def _key(term: Term, choice: Mapping[str, RecordedArm]) -> tuple[str, Reading]:
    arm = choice[term.arm].members[0]
    return arm.arm_hash, reading(term.quantity, **(resolve(arm, term.at) or {}))


def _with_values(entry: Record, seed: int, values: Values, varied: str) -> Record:
    """The record of a seed with its values; one quantity of trained arms differs a little from seed to seed."""
    numbers = []
    for (arm_hash, (quantity, dims)), value in values.items():
        if arm_hash == entry.arm_hash:
            factor = 1 + 1e-4 * (seed - SEEDS / 2) if quantity == varied and entry.steps else 1.0
            numbers.append(Measurement(quantity, value * factor, "1", **dict(dims)))
    return entry.model_copy(update={"seed": seed, "measurements": tuple(numbers)})
