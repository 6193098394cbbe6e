from dataclasses import replace
from typing import Any

import pytest

from leadline.experiments.publish.ledger import (
    by_scale,
    claims_table,
    ledger_table,
    protocols_table,
    published,
    scales_table,
    sensitivity,
    statements,
    totals_table,
)
from leadline.experiments.records.decisions import OUTCOMES
from leadline.experiments.records.verdict import Verdict

STATEMENT = "A key bias takes the sink from the first token."
CITED: dict[str, Any] = {"source": "gu2025", "where": "Table 4", "published": "18.18 % → 0.00 %"}
DECIDED: dict[str, Any] = {
    "outcome": "holds",
    "reason": "mean margin 0.1",
    "n": 3,
    "interval": (0.05, 0.15),
    "interval_of": "mean margin",
    "scale": "58k parameters",
    "column": "toy task",
}
PUBLISHED = Verdict(id="a", statement=STATEMENT, study="sinks", measured="key bias: sink rate 0.010", **CITED, **DECIDED)
OWN = replace(PUBLISHED, id="b", statement="A key bias is learned.", source="", where="", published="")
LATER = replace(
    PUBLISHED, id="c", statement="Sinks grow with depth.", study="depth", outcome="not measured", measured="", n=0, scale=""
)


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (PUBLISHED, "18.18 % → 0.00 % (Gu et al. 2025, Table 4)"),
        (replace(PUBLISHED, where=""), "18.18 % → 0.00 % (Gu et al. 2025)"),
        (OWN, "our own statement"),
        (replace(OWN, published="said without a source"), "said without a source"),
    ],
)
def test_a_published_figure_is_cited_with_its_place(verdict: Verdict, text: str) -> None:
    assert published(verdict) == text


def test_every_claim_is_listed_by_study_published_ones_first() -> None:
    rows = claims_table([OWN, LATER, PUBLISHED]).rows
    assert [(row[1], row[5]) for row in rows] == [("a", "holds"), ("b", "holds"), ("c", "not measured")]


def test_what_is_not_measured_and_our_own_statements_are_counted_apart() -> None:
    table = ledger_table([PUBLISHED, OWN, LATER])
    counts = {(row[0], row[1]): dict(zip(OUTCOMES, row[2:], strict=True)) for row in table.rows}
    assert counts["published, toy task", "all"]["holds"] == counts["published, toy task", "all"]["not measured"] == "1"
    said = ledger_table([PUBLISHED, replace(OWN, published="said without a source"), LATER])
    assert said == table
    assert counts["our own, toy task", "all"]["holds"] == "1" and ("our own, toy task", "depth") not in counts


LARGE = replace(
    PUBLISHED, id="d", study="published", outcome="fails", measured="sink rate 0.700", interval=None, n=1, column="SmolLM2-135M"
)
LARGE = replace(LARGE, scale="SmolLM2-135M, 135M parameters", windows="100 windows from 34 documents")


def test_a_threshold_stands_against_its_interval_with_the_protocols_that_disagree() -> None:
    assert sensitivity(PUBLISHED) == ""
    within = replace(PUBLISHED, threshold=(0.5,), turns=(0.1234567, 0.25))
    assert sensitivity(within) == "0.5 against 0.1235 to 0.25"
    exact = replace(PUBLISHED, threshold=(0.95, 1.05), turns=(1.0, 1.0), protocols={"tokens": "holds", "windows": "holds"})
    assert sensitivity(exact) == "0.95 to 1.05 against 1; the same by all 2 protocols"
    assert sensitivity(replace(within, protocols={"tokens": "holds", "last 64": "fails"})).endswith("0.25; last 64: fails")


def test_outcomes_by_protocol_stand_side_by_side_those_that_turn_first() -> None:
    same = replace(PUBLISHED, protocols={"tokens": "holds", "last 64": "holds"})
    turned = replace(OWN, protocols={"tokens": "holds", "documents": "holds", "last 8": "fails"})
    table = protocols_table([PUBLISHED, same, turned])
    assert table.columns == ("claim", "statement", "models", "tokens", "documents", "last positions")
    here = "toy task"
    assert table.rows == (("b", OWN.statement, here, "holds", "holds", "fails"), ("a", STATEMENT, here, "holds", "–", "holds"))
    assert table.notes[0] == "1 of 2 claims have one outcome by all protocols"
    assert "by the protocol that it names, else by tokens" in table.notes[1]


def test_a_statement_at_two_scales_is_one_row_with_a_column_each() -> None:
    judged = [LARGE, OWN, LATER, PUBLISHED]
    table = scales_table(judged)
    assert table.columns == ("claim", "published", "toy task", "SmolLM2-135M")
    ((statement, source, here, there),) = table.rows
    assert (statement, source) == (STATEMENT, "18.18 % → 0.00 % (Gu et al. 2025, Table 4)")
    assert here == "holds: key bias: sink rate 0.010 (n = 3, 95 % interval [0.05, 0.15] of the mean margin, 58k parameters)"
    assert there == "fails: sink rate 0.700 (one model, no interval, 100 windows from 34 documents)"
    assert [by_scale(row, lambda of: of.outcome) for row in statements(judged)[:2]] == [
        "toy task: holds\nSmolLM2-135M: fails",
        "holds",
    ]
    assert [row[1] for row in claims_table(judged).rows] == ["a", "d", "b", "c"]


def test_a_scale_that_was_not_measured_says_so() -> None:
    (row,) = scales_table([PUBLISHED, replace(LARGE, outcome="not measured", measured="", scale="", windows="")]).rows
    assert row[3] == "not measured"
    assert scales_table([LATER, replace(LATER, column="SmolLM2-135M")]).rows == ()


def test_a_scale_at_which_a_claim_is_not_testable_says_why() -> None:
    untested = replace(LARGE, outcome="not testable here", reason="no sink: the figure, 0.03, is not > 0.1")
    (row,) = scales_table([PUBLISHED, untested]).rows
    assert str(row[3]).startswith("not testable here: no sink: the figure, 0.03, is not > 0.1 (sink rate 0.700; one model")


def test_each_scale_is_counted_by_itself() -> None:
    kinds = {row[0]: row[1:3] for row in totals_table([LARGE, replace(OWN, column="without training"), PUBLISHED]).rows}
    assert kinds == {
        "published, toy task": ("1", "0"),
        "published, SmolLM2-135M": ("0", "1"),
        "our own, without training": ("1", "0"),
    }


def test_totals_say_which_failures_are_of_smaller_models_than_the_source_had() -> None:
    failed = replace(PUBLISHED, outcome="fails")
    smaller, own = replace(failed, shown_at="15B parameters"), replace(OWN, outcome="fails")
    said = "1 of 2 published claims that fail were shown at a larger scale, and are not shown at ours"
    assert totals_table([PUBLISHED, failed, smaller, own]).notes == (said,)
    assert totals_table([PUBLISHED, failed, own]).notes == ()
