"""The page and the files beside it, and the published form, from a folder of synthetic records."""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from leadline.experiments.publish.export import export
from leadline.experiments.publish.report import Published, compiled, report
from leadline.experiments.records.store import read_records, write_study
from leadline.experiments.runtime.errors import UserError
from tests.experiments.synthetic_records import SHOWN, measured, record, sinks_study, study, write_records

HOSTILE = '<img src=x onerror="alert(1)">&_%'
CLAIM = {
    "id": "gate-less",
    "statement": "An output gate lowers the sink rate",
    "left": {"quantity": "sink_rate", "arm": "gate"},
    "relation": "below",
    "right": {"quantity": "sink_rate", "arm": "softmax"},
}
SELECTORS = {"softmax": {"model.norm": "layer"}, "gate": {"model.norm": "rms"}}


@pytest.fixture(scope="module")
def published(synthetic: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Published]:
    """A copy of the synthetic records with a claim and one hostile arm, published."""
    results = tmp_path_factory.mktemp("published") / "results"
    shutil.copytree(synthetic, results)
    described, _ = sinks_study(**SHOWN, claims=[CLAIM], selectors=SELECTORS)
    write_study(results, described)
    write_records(results, [record("sinks", "hostile", 0, measured("loss", 1.0), label=HOSTILE)])
    return results, report(results)


class _Tags(HTMLParser):
    VOID = frozenset({"meta", "img", "br", "link", "input", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_is_one_well_formed_file_that_fetches_nothing(published: tuple[Path, Published]) -> None:
    results, written = published
    page = written.page.read_text(encoding="utf-8")
    assert not re.search(r"https?:|//\w+\.\w+|@import|<script", page)
    tags = _Tags()
    tags.feed(page)
    assert tags.open == []
    assert not {"script", "link", "iframe", "img", "object"} & {tag for tag, _ in tags.seen}
    assert not [attrs for _, attrs in tags.seen if "src" in attrs]
    identifiers = [attrs["id"] for _, attrs in tags.seen if "id" in attrs]
    assert len(identifiers) == len(set(identifiers))
    for link in {attrs["href"] for tag, attrs in tags.seen if tag == "a"}:
        assert link
        assert link[1:] in identifiers if link.startswith("#") else (results / link).is_file()


def test_page_shows_question_claims_notes_and_hostile_labels_as_text(published: tuple[Path, Published]) -> None:
    results, written = published
    page = written.page.read_text(encoding="utf-8")
    for part in (
        "What removes the sink?",
        CLAIM["statement"],
        'class="verdict',
        "A note.",
        "commit 000000000000",
        "2026-01-02",
    ):
        assert str(part) in page
    assert HOSTILE not in page
    assert "&lt;img src=x onerror=" in page
    assert r"\&\_\%" in (results / "tables" / "sinks.tex").read_text(encoding="utf-8")


def test_everything_is_written_and_rebuilt_equal(published: tuple[Path, Published]) -> None:
    results, written = published
    names = {path.name for path in (*written.tables, *written.figures)}
    assert {"sinks.md", "sinks_perplexity.csv", "sinks_over_training.svg", "sinks_maps.png", "claims.tex"} <= names
    before = {path: path.read_bytes() for path in (written.page, *written.tables, *written.figures)}
    assert report(results) == written
    assert all(path.read_bytes() == content for path, content in before.items())
    assert (results / "references.bib").is_file()
    assert {entry["quantity"] for entry in written.summary} >= {"loss", "perplexity"}


def test_a_study_without_tables_or_figures_gets_a_table_of_its_numbers_and_its_loss(tmp_path: Path) -> None:
    described, records = sinks_study()
    write_study(tmp_path, described)
    write_records(tmp_path, records)
    (section,) = compiled(tmp_path).sections
    assert section.tables[0].columns == ("arm", "loss (nats)", "sink rate", "first token mass")
    assert [drawing.name for drawing in section.drawings] == ["sinks_over_training"]


def test_records_without_study_curves_or_numbers_still_publish(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there are no records"):
        report(tmp_path)
    assert list(tmp_path.iterdir()) == []
    write_study(tmp_path, study("lost", {"arm": {}}))
    lost = record("lost", "arm", 0, status="diverged", message="loss is nan at step 3")
    write_records(tmp_path, [lost, record("strange", "arm")])
    made = compiled(tmp_path)
    assert "1 diverged" in str(made.sections[0].tables[0])
    assert [note for note in made.notes if note.startswith("strange: its study.json is missing")]


def test_unwritable_folder_is_the_users_mistake(published: tuple[Path, Published], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **_: file.write(b"<svg></svg>"))  # noqa: ARG005
    shutil.copytree(published[0] / "sinks", tmp_path / "sinks")
    (tmp_path / "tables").write_text("")
    with pytest.raises(UserError, match="cannot write the page"):
        report(tmp_path)


def test_the_published_form_has_packed_records_shown_figures_and_filled_tables(published, tmp_path: Path) -> None:
    text, into = tmp_path / "README.md", tmp_path / "docs"
    text.write_text(
        "<!-- leadline table sinks -->\n<!-- leadline end -->\n![](docs/figures/sinks_maps.png)\n", encoding="utf-8"
    )
    (into / "tables").mkdir(parents=True)
    (into / "tables" / "stale.md").write_text("")
    exported = export(published[0], into, text)
    files = {str(path.relative_to(into)) for path in into.rglob("*") if path.is_file()}
    assert {"sinks/records.jsonl.gz", "sinks/study.json", "tables/sinks.md", "figures/sinks_maps.png"} <= files
    assert not {"tables/stale.md", "figures/sinks_over_training.png", "index.html"} & files
    assert (exported.studies, exported.files) == (("sinks",), len(files))
    assert "output gate, headwise" in text.read_text(encoding="utf-8")
    (records, notes) = read_records(into)
    assert {key.quantity for entry in records for key in entry.arrays()} == {"attention_map"}
    assert notes == []
    with pytest.raises(UserError, match="no records to publish"):
        export(tmp_path / "none", into, text)
