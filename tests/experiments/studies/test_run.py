"""The whole path on small studies: configuration, data, training, measurements, records, tables, page, verdicts."""

import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import jax
import pytest
from rich.console import Console

from leadline.experiments.config.load import load_studies
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.publish.export import pack
from leadline.experiments.records.record import Record
from leadline.experiments.records.store import RECORD, read_record, read_records, read_studies
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interrupted
from leadline.experiments.studies.run import described, parameters, planned
from tests.experiments.suite import Run, run_suite
from tests.experiments.training.runs import kept

pytestmark = pytest.mark.usefixtures("in_use")


class Stopping(Progress):
    """Stops the process, as Ctrl-C does, after a step."""

    def step(self, done: int, *arguments: Any, **keywords: Any) -> None:
        super().step(done, *arguments, **keywords)
        if done == 2:
            signal.raise_signal(signal.SIGINT)


def records_of(results: Path, study: str) -> list[Record]:
    records, notes = read_records(results, study)
    assert notes == []
    return [stored.record for stored in records]


def test_a_run_trains_records_and_publishes(recorded: Run) -> None:
    outcome, published = recorded.outcome, recorded.outcome.published
    assert (outcome.trained, outcome.recorded) == (4 + 2, 0)
    assert outcome.programs.count("train") == 2  # the arms of a study are of one structure
    assert published.page == recorded.results / "index.html"
    assert published.page.read_text(encoding="utf-8").count("<svg") == 2
    assert all(path.stat().st_size > 0 for path in (*published.tables, *published.figures))
    assert {path.name for path in published.tables} >= {f"{table}.md" for table in ("mine", "text", "bases", "verdicts")}
    assert len(recorded.shown) == 3 and "smallest base" in recorded.shown[2].lower()


def test_a_study_needs_a_file_and_no_code(recorded: Run) -> None:
    arms = [f"{record.arm} {record.seed}" for record in records_of(recorded.results, "mine")]
    assert arms == ["learned 0", "learned 1", "softmax 0", "softmax 1"]
    assert "learned sink logit" in recorded.shown[0]
    assert (recorded.results / "figures" / "mine_over_training.png").is_file()
    page = recorded.outcome.published.page.read_text(encoding="utf-8")
    for text in ("Two sinks of my own", "Does a learned sink logit change the loss?", "My losses over training."):
        assert text in page
    outcomes = {verdict.id: verdict.outcome for verdict in recorded.outcome.published.verdicts}
    assert outcomes == {"mine-loss": "holds", "mine-sigmoid": "not measured"}


def test_perplexities_are_told_apart_by_length_and_extension(recorded: Run) -> None:
    for record in records_of(recorded.results, "text"):
        entries = [entry for entry in record.measurements if entry.quantity == "perplexity"]
        ways = {(entry.dims["length"], entry.dims.get("extension")) for entry in entries if "last" not in entry.dims}
        assert ways == ({(32, None), (32, "pi"), (32, "yarn")} if record.arm == "rope" else {(32, None)})
        assert all(entry.value is not None and entry.value > 1 for entry in entries)


def test_nothing_that_is_kept_or_packed_says_where_the_corpus_lies(recorded: Run, tmp_path: Path) -> None:
    pack(recorded.results, "text", tmp_path, ())
    (packed, _), described = read_records(tmp_path), read_studies(tmp_path)["text"].model_dump()
    written = [*recorded.results.glob("text/**/*.json"), *tmp_path.rglob("*.json")]
    assert not any(str(recorded.config.parent) in path.read_text() for path in written)
    (corpus,) = described["data"]["corpus"]
    assert re.fullmatch("corpus sha256:[0-9a-f]{64}", corpus)
    for record in (stored.record.model_dump() for stored in packed):
        assert record["data"]["name"] == record["config"]["data"]["corpus"] == [corpus]


@pytest.mark.slow
def test_an_interrupted_run_goes_on_to_the_same_records(recorded: Run, tmp_path: Path) -> None:
    with pytest.raises(Interrupted, match="mine: stopped at step"):
        run_suite(recorded.file("mine"), tmp_path, progress=Stopping)
    assert records_of(tmp_path, "mine") == []
    assert run_suite(recorded.file("mine"), tmp_path).trained == 4
    assert kept(tmp_path) == {
        name: record for name, record in kept(recorded.results).items() if name[0] in ("softmax", "learned")
    }


def test_a_damaged_record_is_named_and_its_arm_run_again(
    recorded: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(recorded.results / "mine", tmp_path / "mine")
    path = next(tmp_path.glob(f"mine/learned-*/s1/{RECORD}"))
    whole = read_record(path.parent)
    path.write_bytes(path.read_bytes()[:-9])
    shutil.copytree(path.parents[1] / "s0", path.parents[1] / "s7")
    ran = run_suite(recorded.file("mine"), tmp_path, console=Console(file=sys.stderr, width=20))
    assert (ran.trained, ran.recorded, ran.published.page.read_text(encoding="utf-8").count("left out: ")) == (1, 3, 1)
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("left out: ")]
    assert [note.split(": ")[1] for note in notes] == [str(path), str(path.parents[1] / "s7" / RECORD)]
    assert all("; delete " in note for note in notes)
    assert (read_record(path.parent).arm_hash, read_record(path.parent).seed) == (whole.arm_hash, 1)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("data.length=4000", r"data\.length = 4000"),
        ("measure.perplexity.lengths=[9999]", "held-out"),
    ],
)
def test_what_cannot_be_run_is_said_before_training(recorded: Run, tmp_path: Path, word: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        run_suite(recorded.file("text"), tmp_path / "results", word)
    assert not [*tmp_path.rglob(RECORD), *tmp_path.rglob("manifest-*")]


@pytest.mark.parametrize("below", ["file", "file/results"])
def test_a_folder_that_cannot_be_is_said_before_training(recorded: Run, tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match=r"cannot write results .*is no folder.*--results"):
        run_suite(recorded.config, tmp_path / below)
    assert (tmp_path / "file").read_text() == "mine"


def test_the_plan_counts_parameters_and_programs(recorded: Run) -> None:
    rows = {row["arm"]: row for row in described(planned(recorded.config, ()))}
    assert list(rows) == ["softmax", "learned", "rope", "alibi", "d32-64", "d32-256"]
    assert [row["program"] for row in rows.values()] == [1] * 4 + [0] * 2
    for study in ("mine", "text"):
        for record in records_of(recorded.results, study):
            row = rows[record.arm]
            assert row["parameters"] == record.parameters
            assert row["tokens"] == record.tokens * row["seeds"]
            assert row["flops"] == pytest.approx(record.flops * row["seeds"])


def test_parameters_are_counted_without_making_any(recorded: Run) -> None:
    (study,) = load_studies(recorded.file("mine"), ["model.width=4096", "model.layers=96", "model.hidden=16384"])
    assert study.model is not None
    assert parameters(decoder_config(study.model, 50_000, 2048)) > 1.9e10
    assert sum(leaf.nbytes for leaf in jax.live_arrays()) < 1e9
