"""The page of what each study found."""

from dataclasses import replace
from pathlib import Path

import pytest

from leadline.experiments.publish.contents import Section
from leadline.experiments.publish.export import export
from leadline.experiments.publish.findings_page import summary
from leadline.experiments.records.decisions import Outcome
from leadline.experiments.records.verdict import Verdict
from tests.experiments.committed import PLANNED, ROOT
from tests.experiments.synthetic_records import study

DOCS = ROOT / "docs"


def verdict(outcome: Outcome, source: str = "", statement: str = "A gate_1 helps.") -> Verdict:
    about = Verdict("gate", statement, source, "Table 1", "", "sinks", "gate: 0.1", outcome, "", 3, None, "")
    return replace(about, column="small language model")


def test_a_summary_counts_outcomes_and_quotes_published_claims_before_own_ones() -> None:
    judged = (verdict("fails"), verdict("holds"), verdict("holds", "gu2025", "A sink forms."), verdict("holds", "gu2025"))
    term = {"quantity": "bos_mass", "arm": "gate"}
    claim = {"id": "gate", "statement": "A gate helps.", "left": term, "relation": "below", "right": 0.5}
    described = study("sinks", question="Is there a sink?", claims=[claim], selectors={"gate": {}})
    assert summary(Section(described, (), (), (), judged)) == (
        "*Is there a sink?*\n\n"
        "- Of 2 published claims tested on small language models, 2 hold.\n"
        "- Of 2 claims of our own tested on small language models, 1 holds and 1 fails.\n"
        "- **Holds** (Gu et al. 2025, Table 1): A sink forms. Measured: gate: 0.1.\n"
        r"- **Fails** (our own): A gate\_1 helps. Measured: gate: 0.1."
    )
    said = summary(Section(described, (), (), (), (replace(judged[0], published="said without a source"),)))
    assert "**Fails** (said without a source): " in said


@pytest.mark.slow
def test_the_committed_page_and_tables_are_those_of_the_records(tmp_path: Path) -> None:
    """The tables of the README are compared in tests/test_readme.py."""
    text, page = tmp_path / "README.md", tmp_path / "docs" / "findings.md"
    text.write_bytes((ROOT / "README.md").read_bytes())
    results = tmp_path / "docs" / "results"
    for path in (DOCS / "results").glob("*/*"):
        if path.parent.name not in ("figures", "tables"):
            (results / path.parent.name).mkdir(parents=True, exist_ok=True)
            (results / path.parent.name / path.name).symlink_to(path)
    export(results, results, text, page, PLANNED)
    assert page.read_text(encoding="utf-8") == (DOCS / "findings.md").read_text(encoding="utf-8"), "run make publish"
    for path in (results / "tables").iterdir():
        assert path.read_bytes() == (DOCS / "results" / "tables" / path.name).read_bytes(), f"{path.name}: run make publish"
    assert {path.name for path in (results / "figures").iterdir()} == {
        path.name for path in (DOCS / "results" / "figures").iterdir()
    }
