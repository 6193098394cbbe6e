"""What holds for every claim of configs/: contracts over the whole ledger, without a list of its rows."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from leadline.experiments.config.claim import Claim
from leadline.experiments.config.load import load_studies
from leadline.experiments.config.report import TrainingLength
from leadline.experiments.records.arms import matches, recorded_arms
from leadline.experiments.records.quantities import QUANTITIES
from leadline.experiments.records.record import Record
from leadline.experiments.records.references import references
from leadline.experiments.records.verdict import judge, predicate
from tests.experiments.records.claimed import CONFIGS, Row, changed, rows, synthetic, trained_arms

ROWS = list(rows())
RELATIONS = [row for row in ROWS if row.claim.function is None]
TRAINED = [row for row in RELATIONS if row.study.exact is None]
FILES = sorted(path for path in CONFIGS.rglob("*.toml") if "[selectors]" in path.read_text(encoding="utf-8"))


def each(chosen: list[Row]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", chosen, ids=[row.claim.id for row in chosen])


@pytest.fixture(scope="module")
def held() -> dict[str, list[Record]]:
    """Records in which each relation holds, by claim."""
    return {row.claim.id: row.records(holds=True) for row in RELATIONS}


@each(RELATIONS)
def test_every_relation_can_hold_and_can_fail_whatever_arms_are_called(row: Row, held: dict[str, list[Record]]) -> None:
    verdict = row.verdict(held[row.claim.id])
    assert verdict.outcome == "holds", verdict
    assert verdict.n > 0 and verdict.measured and verdict.scale
    assert verdict == row.verdict([entry.model_copy(update={"arm": f"x{entry.arm_hash}"}) for entry in held[row.claim.id]])
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
    def sigmoid(config: dict[str, Any]) -> None:
        config["model"]["normalizer"] = {"kind": "sigmoid", "normalised": True}

    assert row.verdict(changed(held[row.claim.id], sigmoid)).outcome == "not measured"


def speaks_of_multiples(claim: Claim) -> bool:
    terms = [part for side in claim.compared() for part in side.parts()]
    return any(isinstance(value, TrainingLength) for term in terms for value in term.at.values())


@each([row for row in TRAINED if speaks_of_multiples(row.claim)])
def test_a_longer_training_length_unmeasures_what_speaks_of_multiples(row: Row, held: dict[str, list[Record]]) -> None:
    def double(config: dict[str, Any]) -> None:
        for table in (config["data"], config["start"]):
            if table is not None:
                table["length"] *= 2

    assert row.verdict(changed(held[row.claim.id], double)).outcome == "not measured"


@pytest.mark.parametrize("name", ["extrapolation", "retrieval"])
def test_multiples_are_resolved_against_another_training_length(name: str) -> None:
    (before,) = load_studies(CONFIGS / f"{name}.toml")
    assert before.data is not None
    study, arms = trained_arms(CONFIGS / f"{name}.toml", (f"data.length={2 * before.data.length}",))
    for claim in study.claims:
        records = synthetic(study, arms, claim, holds=True)
        assert judge(claim, study, recorded_arms(study, records)).outcome == "holds"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CONFIGS)))
def test_every_selector_is_there_and_matches_an_arm(path: Path) -> None:
    for study in load_studies(path):
        used = {name for claim in study.claims for name in claim.selectors()}
        assert used <= set(study.selectors)
        if used and study.exact is None:
            arms = trained_arms(path)[1]
            assert [name for name in used if not any(matches(study.selectors[name], arm) for arm in arms)] == []


DEPENDENT = re.compile(r"(it|its|they|their|this|these|that|those|so|nor|such|likewise|also|and|but|or|the same)\b")
REFERRING = re.compile(r"\b(the same (with|as|holds)|as above|does too|so does|so do|the latter|the former)\b")


@each(ROWS)
def test_every_statement_can_be_read_alone(row: Row) -> None:
    statement = row.claim.statement
    assert statement[0].isupper() and statement.endswith(".") and len(statement.split()) > 5
    assert not re.search(r"[?;]|\.\.\.", statement) and len(re.findall(r"\. [A-Z]", statement.replace("et al. ", ""))) == 0
    assert not DEPENDENT.match(statement.lower()) and not REFERRING.search(statement.lower())
    assert not any(re.search(rf"\b{re.escape(other.claim.id)}\b", statement) for other in ROWS)


@each(ROWS)
def test_sources_quantities_and_functions_exist(row: Row) -> None:
    claim = row.claim
    if claim.own:
        assert not (claim.where or claim.published or claim.shown_at)
    else:
        assert claim.source in references() and claim.published
    terms = [part for side in (*claim.compared(), *(each.term for each in claim.when)) for part in side.parts()]
    assert [term.quantity for term in terms if term.quantity not in QUANTITIES] == []
    assert claim.function is None or callable(predicate(claim.function))


def test_identifiers_are_unique_over_all_files() -> None:
    assert [name for name, count in Counter(row.claim.id for row in ROWS).items() if count > 1] == []


def test_a_smoke_run_judges_nothing() -> None:
    for path in (CONFIGS / "smoke").glob("*.toml"):
        assert all(study.claims == () for study in load_studies(path))
