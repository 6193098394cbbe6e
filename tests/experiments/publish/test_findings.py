from dataclasses import replace
from typing import Any

import pytest

from leadline.experiments.config.claim import Claim
from leadline.experiments.publish.findings import findings
from leadline.experiments.records.verdict import Verdict
from tests.experiments.synthetic_records import record

# The second study repeats a model of the first; the other arm is in no claim.
MODELS = (("s", "a", 0, 28_000), ("s", "a", 1, 115_000), ("t", "a", 1, 115_000), ("s", "other", 0, 9_000_000))
RECORDS = [record(study, arm, seed, parameters=size) for study, arm, seed, size in MODELS]
TERM = {"quantity": "perplexity", "arm": "rope"}


def judged(name: str, outcome: Any, interval: tuple[float, float] | None = None, source: str = "gu2025") -> Verdict:
    measured = f"{name}: 1"
    return Verdict(name, f"{name} is said.", source, "", "", "s", measured, outcome, "", 3, interval, "", ("a",), "toy task")


def said(*verdicts: Verdict, log: bool = True) -> list[str]:
    claims = {
        ("s", verdict.id): Claim.model_validate(
            {"id": verdict.id, "statement": "S", "left": TERM, "relation": "below", "right": 1.0, "log": log}
        )
        for verdict in verdicts
    }
    return [f"{finding.lead}: {finding.text}" for finding in findings(verdicts, claims, RECORDS)]


HOLDS, FAILS = judged("a", "holds", (0.1, 0.3)), judged("b", "fails", (-0.9, -0.7))
BEST = judged("c", "holds", (0.6931472, 5.0))


def test_outcomes_are_counted_and_the_strongest_of_each_kind_is_told() -> None:
    counts, support, contradiction = said(HOLDS, FAILS, BEST, judged("d", "undecided"), judged("e", "not measured"))
    assert counts == (
        ": Of 4 published claims tested on toy tasks, 2 hold, 1 fails and 1 is undecided, judged on 2 trained models of "
        "28k to 115k parameters."
    )
    assert support == "Strongest support (Gu et al. 2025): c is said: c: 1, beyond its threshold by a factor of 2.0 or more."
    assert contradiction.startswith("Strongest contradiction (Gu et al. 2025): b is said")


@pytest.mark.parametrize(("log", "verdicts"), [(False, (HOLDS, FAILS)), (True, (judged("a", "holds", (-0.1, 0.2)),))])
def test_margins_that_have_a_unit_or_hold_zero_are_not_told(log: bool, verdicts: tuple[Verdict, ...]) -> None:
    assert len(said(*verdicts, log=log)) == 1


def test_statements_of_our_own_are_counted_apart_and_quoted_where_nothing_published_was_measured() -> None:
    counts, support = said(replace(HOLDS, source=""), judged("e", "not measured"))
    assert counts.startswith(": The one claim of our own tested on toy tasks holds, ")
    assert support.startswith("Strongest support: a is said")
    published, own = said(HOLDS, replace(FAILS, source="", interval=None))[:2]
    assert published.startswith(": The one published claim tested on toy tasks holds")
    assert own.startswith(": The one claim of our own tested on toy tasks fails")


def test_published_models_are_counted_by_themselves() -> None:
    here, there = said(HOLDS, replace(FAILS, interval=None, column="SmolLM2-135M", arms=("b",)))[:2]
    assert here.startswith(": The one published claim tested on toy tasks holds, judged on 2 trained models")
    assert there == ": The one published claim tested on SmolLM2-135M fails."


def test_nothing_is_said_of_nothing() -> None:
    assert said(judged("e", "not measured")) == []
