import re
import shutil
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from experiments.errors import UserError
from experiments.publish.figures import Drawing, b_m
from experiments.record import StoredRecord, read_records, record_folder, write_record
from experiments.studies.drawings import sink_drawings
from experiments.studies.extrapolation_drawings import encodings_drawings, extrapolation_drawings
from experiments.studies.publish import publish_all, sections
from experiments.studies.rope_base_drawings import rope_base_drawings
from tests.experiments.synthetic_records import measured, record

HOSTILE = '<img src=x onerror="alert(1)">&_%'


@pytest.fixture(scope="module")
def results(synthetic: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the synthetic records with one hostile arm, published."""
    copy = tmp_path_factory.mktemp("published") / "results"
    shutil.copytree(synthetic, copy)
    made = record("sinks", HOSTILE, measurements=measured({"bos_mass": 0.5, "loss": 1.0}))
    write_record(record_folder(copy, "sinks", HOSTILE, made.arm_hash, 0), made, [], {})
    publish_all(copy)
    return copy


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


def test_page_is_one_well_formed_file_that_fetches_nothing(results: Path) -> None:
    page = (results / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"https?:|//\w+\.\w+|@import|<script", page)
    tags = _Tags()
    tags.feed(page)
    assert tags.open == []
    assert not {"script", "link", "iframe", "img", "object"} & {tag for tag, _ in tags.seen}
    assert not [attrs for _, attrs in tags.seen if "src" in attrs]
    identifiers = [attrs["id"] for _, attrs in tags.seen if "id" in attrs]
    assert len(identifiers) == len(set(identifiers))
    links = {attrs["href"] for tag, attrs in tags.seen if tag == "a"}
    for link in links:
        assert link
        assert link[1:] in identifiers if link.startswith("#") else (results / link).is_file()


def test_hostile_arm_name_is_text_everywhere(results: Path) -> None:
    page = (results / "index.html").read_text(encoding="utf-8")
    assert HOSTILE not in page
    assert "&lt;img src=x onerror=" in page
    assert r"\&\_\%" in (results / "tables" / "sinks.tex").read_text(encoding="utf-8")


def test_page_states_verdicts_seeds_commit_and_published_figures(results: Path) -> None:
    page = (results / "index.html").read_text(encoding="utf-8")
    for part in ('class="verdict holds"', 'class="verdict fails"', "qiu-headwise", "0.467 → 0.073"):
        assert part in page
    for part in ("commit 000000000000", "2026-01-02", "n = 3"):
        assert part in page


def test_everything_is_written_and_rebuilt_equal(results: Path) -> None:
    def contents() -> dict[Path, bytes]:
        folders = (results, results / "tables", results / "figures")
        return {path: path.read_bytes() for folder in folders for path in folder.iterdir() if path.is_file()}

    before = contents()
    written = publish_all(results)
    assert {written.page, *written.tables, *written.figures} == set(before)
    assert contents() == before
    assert all(len(content) > 100 for content in before.values())
    assert {path.suffix for path in written.figures} == {".png", ".svg"}
    assert {path.suffix for path in written.tables} == {".md", ".csv", ".tex"}
    assert set(written.summary) == {"sinks", "extrapolation", "encodings", "rope_base"}


def test_studies_without_records_are_left_out(tmp_path: Path) -> None:
    written = publish_all(tmp_path)
    assert written.figures == ()
    assert {verdict.verdict for verdict in written.verdicts} == {"not measured"}
    assert written.page.is_file()


def test_records_without_curves_or_measurements_still_publish(tmp_path: Path) -> None:
    for study, arm in (("sinks", "softmax"), ("extrapolation", "rope"), ("encodings", "rope"), ("rope_base", "d128-4k")):
        made = record(study, arm, status="diverged", message="loss is nan at step 3")
        write_record(record_folder(tmp_path, study, arm, made.arm_hash, 0), made, [], {})
    assert "1 diverged" in publish_all(tmp_path).page.read_text(encoding="utf-8")


def test_unwritable_folder_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write the page"):
        publish_all(tmp_path / "file" / "results")


@pytest.mark.parametrize(
    ("study", "draw"),
    [
        ("sinks", sink_drawings),
        ("extrapolation", extrapolation_drawings),
        ("encodings", encodings_drawings),
        ("rope_base", rope_base_drawings),
    ],
)
def test_figures_are_equal_bytes_twice(
    synthetic: Path, study: str, draw: Callable[[Sequence[StoredRecord]], list[Drawing]]
) -> None:
    stored = read_records(synthetic, study)
    first, second = draw(stored), draw(stored)
    assert first
    assert first == second
    for drawing in first:
        assert drawing.png.startswith(b"\x89PNG")
        assert b"<svg" in drawing.svg
        assert b"<dc:date>" not in drawing.svg


def test_sections_follow_the_studies(synthetic: Path) -> None:
    shown = sections(read_records(synthetic))
    assert [section.study for section in shown] == ["sinks", "extrapolation", "encodings", "rope_base"]
    names = [table.name for section in shown for table in section.tables]
    assert len(names) == len(set(names))
    for section in shown:
        assert {"published", "source"} <= set(section.tables[0].columns)


def test_b_m_equals_its_definition() -> None:
    base, head_dim, length = 500.0, 8, 40
    distance, value = b_m(base, head_dim, length)
    expected = [sum(np.cos(m * base ** (-2 * i / head_dim)) for i in range(head_dim // 2)) for m in range(length)]
    np.testing.assert_array_equal(distance, np.arange(length))
    np.testing.assert_allclose(value, expected, atol=1e-12)


def test_b_m_finds_the_printed_violations() -> None:
    # Men et al.'s 2.7e4 for a context of 4096 misses its own condition at two distances, the first of them 4079.
    distance, value = b_m(2.7e4, 128, 4096)
    assert distance[value < 0].tolist()[0] == 4079
    assert int((value < 0).sum()) == 2
