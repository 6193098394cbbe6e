"""What holds for every claim of configs/: contracts over the whole ledger, without a list of its rows."""

import re
from dataclasses import replace

import pytest

from leadline.experiments.config.load import arms_of
from leadline.experiments.measure.kinds.plugin import quantities_of
from leadline.experiments.records.arms import matches, recorded_arms
from leadline.experiments.records.record import Record
from leadline.experiments.records.references import references
from leadline.experiments.records.store import read_studies
from leadline.experiments.records.verdict import judge, predicate
from tests.experiments.committed import COMMITTED, CONFIGS
from tests.experiments.records.claimed import ROWS, Row, changed, synthetic, trained_arms

RELATIONS = [row for row in ROWS if row.claim.function is None]
TRAINED = [row for row in RELATIONS if row.study.exact is None]
OF_LENGTH = [
    row for row in TRAINED if row.study.data and "length" in type(row.study.data).model_fields
]  # generated tasks may have none

SAID = "said without a source"


def each(rows: list[Row]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=[row.claim.id for row in rows])


@pytest.fixture(scope="module")
def held() -> dict[str, list[Record]]:
    """Records in which each relation holds, by claim."""
    return {row.claim.id: row.records(holds=True) for row in RELATIONS}


@each(RELATIONS)
def test_every_relation_can_hold_and_can_fail_whatever_arms_are_called(row: Row, held: dict[str, list[Record]]) -> None:
    verdict = row.verdict(held[row.claim.id])
    assert verdict.outcome == "holds", verdict
    assert verdict.n > 0 and verdict.measured and verdict.scale
    renamed = row.verdict([entry.model_copy(update={"arm": f"x{entry.arm_hash}"}) for entry in held[row.claim.id]])
    assert replace(verdict, arms=()) == replace(renamed, arms=())
    assert row.verdict(row.records(holds=False)).outcome == "fails"


@each([row for row in RELATIONS if row.claim.when])
def test_a_precondition_that_is_not_met_makes_a_claim_untestable(row: Row, held: dict[str, list[Record]]) -> None:
    arms = recorded_arms(row.study, held[row.claim.id])
    for condition in row.claim.when:
        opposite = condition.model_copy(update={"relation": "below" if condition.relation == "above" else "above"})
        verdict = judge(row.claim.model_copy(update={"when": (opposite,)}), row.study, arms)
        assert verdict.outcome == "not testable here" and verdict.measured and condition.reason in verdict.reason


@each(TRAINED)
def test_another_normalizer_under_the_same_names_is_not_what_a_claim_speaks_of(row: Row, held: dict[str, list[Record]]) -> None:
    sigmoid = {"normalizer": {"kind": "sigmoid", "normalised": True}}
    others = changed(held[row.claim.id], lambda config: config["model"].update(sigmoid))
    assert row.verdict(others).outcome == "not measured"


@each(OF_LENGTH)
def test_a_claim_does_not_speak_of_models_of_a_longer_training_length(row: Row, held: dict[str, list[Record]]) -> None:
    tables = ("data", "start")
    longer = changed(held[row.claim.id], lambda c: [c[name].update(length=2 * c[name]["length"]) for name in tables if c[name]])
    assert row.verdict(longer).outcome == "not measured"


@pytest.mark.parametrize("name", ["extrapolation", "retrieval"])
def test_multiples_are_resolved_against_another_training_length(name: str) -> None:
    (length,) = {study.data.length for path, study in COMMITTED if path == CONFIGS / f"{name}.toml" and study.data is not None}
    study, arms = trained_arms(CONFIGS / f"{name}.toml", (f"data.length={2 * length}",))
    for claim in study.claims:
        records = synthetic(study, arms, claim, holds=True)
        assert judge(claim, study, recorded_arms(study, records)).outcome == "holds"


def test_every_selector_is_there_and_matches_an_arm() -> None:
    for path, study in COMMITTED:
        used = {name for claim in study.claims for name in claim.selectors()}
        assert used <= set(study.selectors), path
        if used and study.exact is None and "[selectors]" in path.read_text(encoding="utf-8"):
            arms = trained_arms(path)[1]
            assert [name for name in used if not any(matches(study.selectors[name], arm) for arm in arms)] == [], path


DEPENDENT = re.compile(r"(it|its|they|their|this|these|that|those|so|nor|such|likewise|also|and|but|or|the same)\b")
REFERRING = re.compile(r"\b(the same (with|as|holds)|as above|does too|so does|so do|the latter|the former)\b")


def test_every_statement_can_be_read_alone() -> None:
    for statement in (said for row in ROWS for said in (row.claim.statement, row.claim.erratum) if said):
        assert statement[0].isupper() and statement.endswith(".") and len(statement.split()) > 5, statement
        assert not re.search(r"[?;]|\.\.\.|\. [A-Z]", statement.replace("et al. ", "")), statement
        assert not DEPENDENT.match(statement.lower()) and not REFERRING.search(statement.lower()), statement
        assert not any(re.search(rf"\b{re.escape(other.claim.id)}\b", statement) for other in ROWS), statement


def test_sources_quantities_and_functions_exist_and_identifiers_are_unique() -> None:
    assert len({row.claim.id for row in ROWS}) == len(ROWS)
    for claim, study in ((row.claim, row.study) for row in ROWS):
        if claim.own:
            assert not (claim.where or claim.shown_at) and claim.published in ("", SAID), claim.id
        else:
            assert claim.source in references() and claim.published, claim.id
        terms = [part for side in (*claim.compared(), *(when.term for when in claim.when)) for part in side.parts()]
        assert {term.quantity for term in terms} <= quantities_of(study.measure.functions).keys(), claim.id
        assert claim.function is None or callable(predicate(claim.function)), claim.id


def test_studies_with_the_recipe_that_was_chosen_for_a_sink_are_counted_apart() -> None:
    text = [study for _, study in COMMITTED if study.data and study.data.kind == "text" and study.train]
    recipe = {s.study for s in text if s.train and (s.train.learning_rate, s.train.weight_decay) == (1e-2, 0.5)}
    assert recipe == {study.study for study in text if study.sink_recipe} and recipe
    published = read_studies(CONFIGS.parent / "docs" / "results").values()
    assert {study.study for study in published if study.sink_recipe} == recipe & {study.study for study in published}


def test_claims_ask_for_no_more_steps_than_their_study_trains() -> None:
    for path, study in COMMITTED:
        if study.exact is None and study.claims:
            assert study.needs.get("steps", 0) <= max(arm.train.steps for arm in arms_of(study, path)), path


def test_a_smoke_run_judges_nothing() -> None:
    assert [path for path, study in COMMITTED if path.parent.name == "smoke" and study.claims] == []
