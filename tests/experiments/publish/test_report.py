"""The files of a report, and the published form, from a folder of synthetic records."""

from pathlib import Path

import pytest

from leadline.experiments.publish.contents import contents_of
from leadline.experiments.publish.export import export
from leadline.experiments.publish.report import Report, report
from leadline.experiments.records.store import read_records, read_studies, write_study
from leadline.experiments.runtime.errors import UserError
from tests.experiments.publish.page_of_records import publish
from tests.experiments.synthetic_records import entry, sinks_study, study, write_records


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    results = tmp_path_factory.mktemp("published") / "results"
    return results, publish(results)


def test_everything_is_written_and_rebuilt_equal(published: tuple[Path, Report]) -> None:
    results, written = published
    names = {path.name for path in (*written.tables, *written.figures)}
    assert {
        "sinks.md",
        "sinks_perplexity.csv",
        "sinks_over_training.svg",
        "sinks_maps.png",
        "sinks_maps.pdf",
        "claims.tex",
    } <= names
    before = {path: path.read_bytes() for path in (written.page, *written.tables, *written.figures)}
    assert report(results) == written
    assert all(path.read_bytes() == content for path, content in before.items())
    assert (results / "references.bib").is_file()
    assert {row["quantity"] for row in written.summary} >= {"loss", "perplexity"}


def test_a_study_without_tables_or_figures_gets_a_table_of_its_numbers_and_its_loss(tmp_path: Path) -> None:
    described, records = sinks_study()
    write_study(tmp_path, described)
    write_records(tmp_path, *records)
    (section,) = contents_of(tmp_path).sections
    assert section.tables[0].columns == ("arm", "loss (nats)", "sink rate", "first token mass")
    assert [drawing.name for drawing in section.drawings] == ["sinks_over_training"]


def test_records_without_study_curves_or_numbers_still_publish(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there are no records"):
        report(tmp_path)
    assert list(tmp_path.iterdir()) == []
    write_records(tmp_path, entry("strange", "arm"))
    with pytest.raises(UserError, match=r"strange: its study\.json is missing"):
        report(tmp_path)
    write_study(tmp_path, study("lost", {"arm": {}}))
    lost = entry("lost", "arm", 0, status="diverged", message="loss is nan at step 3")
    write_records(tmp_path, lost)
    contents = contents_of(tmp_path)
    assert "1 diverged" in str(contents.sections[0].tables[0])
    assert [note for note in contents.notes if note.startswith("strange: its study.json is missing")]
    packed = export(tmp_path, tmp_path.with_name("published"))
    assert packed.studies == ("lost",)
    assert [note for note in packed.notes if note.startswith("strange: study.json is missing, so it is not packed")]
    (tmp_path / "tables").write_text("")
    with pytest.raises(UserError, match="cannot write the page"):
        report(tmp_path)


def test_claims_of_a_study_that_was_not_run_are_not_measured(published: tuple[Path, Report]) -> None:
    described = read_studies(published[0])["sinks"]
    changed, later = (described.model_copy(update=fields) for fields in ({"claims": ()}, {"study": "later"}))
    before, contents = (contents_of(published[0], drawn=(), planned=planned) for planned in ((), (changed, later)))
    outcomes = {(v.study, v.column, v.outcome) for v in contents.verdicts if v not in before.verdicts}
    assert ("later", "not run", "not measured") in outcomes
    assert [v.outcome for v in contents.verdicts if v.study == "sinks"] == [v.outcome for v in before.verdicts]
    assert [section.study for section in contents.sections] == ["sinks"]
    assert "scales" not in {table.name for table in contents.ledger}  # what was not run is no other scale


def test_the_published_form_has_packed_records_shown_figures_and_filled_tables(published, tmp_path: Path) -> None:
    text, into = tmp_path / "README.md", tmp_path / "docs"
    text.write_text(
        "<!-- leadline table sinks -->\n<!-- leadline end -->\n![](docs/figures/sinks_maps.png)\n", encoding="utf-8"
    )
    (into / "tables").mkdir(parents=True)
    (into / "tables" / "sinks_stale.md").write_text("")
    (into / "tables" / "of_somebody_else.md").write_text("")
    exported = export(published[0], into, text, tmp_path / "findings.md")
    files = {str(path.relative_to(into)) for path in into.rglob("*") if path.is_file()}
    assert {"sinks/records.jsonl.xz", "sinks/study.json", "tables/sinks.md", "figures/sinks_maps.png"} <= files
    assert "tables/of_somebody_else.md" in files
    assert not {"tables/sinks_stale.md", "figures/sinks_over_training.png", "index.html"} & files
    assert (exported.studies, exported.files) == (("sinks",), len(files))
    assert "output gate, headwise" in text.read_text(encoding="utf-8")
    records, notes = read_records(into)
    assert {key.quantity for stored in records for key in stored.arrays()} == {"attention_map"}
    assert notes == []
    with pytest.raises(UserError, match="none: there are no records; run a study first"):
        export(tmp_path / "none", into, text, tmp_path / "findings.md")
