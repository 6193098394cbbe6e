from dataclasses import replace
from typing import Any

import pytest

from leadline.experiments.publish.ledger import claims_table, ledger_table, published, verdicts_table
from leadline.experiments.records.evidence import OUTCOMES
from leadline.experiments.records.verdict import Verdict

STATEMENT = "A key bias takes the sink from the first token."
CITED: dict[str, Any] = {"source": "gu2025", "where": "Table 4", "published": "18.18 % → 0.00 %"}
DECIDED: dict[str, Any] = {
    "outcome": "holds",
    "reason": "mean margin 0.1",
    "n": 3,
    "interval": (0.05, 0.15),
    "scale": "58k parameters",
}
PUBLISHED = Verdict(id="a", statement=STATEMENT, study="sinks", measured="key bias: sink rate 0.010", **CITED, **DECIDED)
OWN = replace(PUBLISHED, id="b", source="", where="", published="")
LATER = replace(PUBLISHED, id="c", study="depth", outcome="not measured", measured="", n=0, scale="")


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (PUBLISHED, "18.18 % → 0.00 % (Gu et al. 2025, Table 4)"),
        (replace(PUBLISHED, where=""), "18.18 % → 0.00 % (Gu et al. 2025)"),
        (OWN, "our own statement"),
    ],
)
def test_a_published_figure_is_cited_with_its_place(verdict: Verdict, text: str) -> None:
    assert published(verdict) == text


def test_every_claim_is_listed_by_study_published_ones_first() -> None:
    rows = claims_table([OWN, LATER, PUBLISHED]).rows
    assert [(row[1], row[5]) for row in rows] == [("a", "holds"), ("b", "holds"), ("c", "not measured")]


def test_what_is_not_measured_and_our_own_statements_are_counted_apart() -> None:
    table = verdicts_table([PUBLISHED, OWN, LATER])
    assert len(table.rows) == 2 and table.notes == ("1 more claim not measured here",)
    table = ledger_table([PUBLISHED, OWN, LATER])
    counts = {(row[0], row[1]): dict(zip(OUTCOMES, row[2:], strict=True)) for row in table.rows}
    assert counts["published", "all"]["holds"] == counts["published", "all"]["not measured"] == "1"
    assert counts["our own", "all"]["holds"] == "1" and ("our own", "depth") not in counts
