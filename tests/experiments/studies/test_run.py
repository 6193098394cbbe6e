"""The whole path on small studies: configuration, data, training, measurements, records, tables, page, verdicts."""

import json
import shutil
from pathlib import Path

import jax
import pytest
from rich.console import Console

from experiments.build import decoder_config
from experiments.claims import LEDGER
from experiments.data.source import TextSource, open_source
from experiments.errors import UserError
from experiments.load import load_studies
from experiments.progress import Progress
from experiments.record import RECORD, read_arrays, read_curves, read_records
from experiments.studies.plan import described, parameters
from experiments.studies.run import Ran, planned, run

pytestmark = pytest.mark.usefixtures("in_use")

SINKS = """
study = "sinks"
seeds = [0, 1]
[model]
layers = 1
width = 8
heads = 1
hidden = 8
norm = "layer"
feedforward = "relu"
position = { kind = "learned" }
[data]
kind = "backcopy"
vocabulary = 8
triggers = 2
length = 16
[train]
steps = 4
batch = 3
learning_rate = 1e-2
[measure]
every = 2
sequences = 6
sink.length = 16
[arms.softmax]
[arms.headwise_gate]
model.gate = { kind = "output", per = "head" }
"""
EXTRAPOLATION = """
study = "extrapolation"
seeds = [0]
[model]
layers = 1
width = 8
heads = 2
hidden = 8
position = { kind = "rope", base = 100.0 }
[data]
kind = "text"
corpus = ["CORPUS"]
length = 16
held_out = 0.3
[train]
steps = 4
batch = 3
learning_rate = 1e-2
[measure]
every = 2
sequences = 4
tokens = 96
last = 8
lengths = [16, 32]
extensions = ["none", "pi", "yarn"]
sink.length = 16
[arms.rope]
[arms.alibi]
model.position = { kind = "alibi" }
"""
ROPE_BASE = 'study = "rope_base"\nhead_dims = [128]\nlengths = [64, 1024]\n'


def suite(folder: Path) -> Path:
    """The three studies and their corpus in a folder."""
    corpus = folder / "book.txt"
    corpus.write_text("".join(f"Line {i} of a short book, whose square is {i * i}.\n" for i in range(40)), encoding="utf-8")
    (folder / "sinks.toml").write_text(SINKS)
    (folder / "extrapolation.toml").write_text(EXTRAPOLATION.replace("CORPUS", str(corpus)))
    (folder / "base.toml").write_text(ROPE_BASE)
    path = folder / "suite.toml"
    path.write_text('studies = ["sinks.toml", "extrapolation.toml", "base.toml"]')
    return path


def _run(config: Path, results: Path, *words: str) -> Ran:
    return run(planned(config, words), results, Progress(Console(quiet=True)))


@pytest.fixture(scope="module")
def ran(in_use: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Ran]:  # noqa: ARG001
    """Configuration, results and outcome of a first run."""
    folder = tmp_path_factory.mktemp("run")
    config = suite(folder)
    return config, folder / "results", _run(config, folder / "results")


def test_a_run_trains_records_and_publishes(ran: tuple[Path, Path, Ran]) -> None:
    _, results, first = ran
    assert (first.trained, first.found) == (6, 0)
    # Two structures of one study; of the other one structure, measured at two lengths.
    assert first.programs == ("initialise", "train", "measure") * 3 + ("measure at 16", "measure at 32")
    assert first.published.page == results / "index.html"
    page = first.published.page.read_text()
    assert page.count("<svg") == page.count("</svg>") >= 3
    for path in (*first.published.tables, *first.published.figures):
        assert path.stat().st_size > 0
    names = {path.name for path in first.published.tables}
    assert {
        f"{table}.{ending}" for table in ("sinks", "extrapolation", "rope_base", "claims") for ending in ("md", "csv", "tex")
    } <= names


def test_every_claim_has_a_verdict(ran: tuple[Path, Path, Ran]) -> None:
    verdicts = ran[2].published.verdicts
    assert [row.id for row in verdicts] == [claim.id for claim in LEDGER]
    measured = {row.id for row in verdicts if row.verdict != "not measured"}
    assert {"guo-sink", "qiu-headwise"} <= measured
    assert {row.id for row in verdicts} - measured  # the arms that were not run


def test_records_hold_every_measurement(ran: tuple[Path, Path, Ran]) -> None:
    stored = read_records(ran[1])
    assert len(stored) == 4 + 2 + 3
    rope = next(entry for entry in stored if entry.record.arm == "rope")
    measured = rope.record.measurements
    ways = [("none", 16), ("none", 32), ("pi", 32), ("yarn", 32)]  # at the training length nothing is extended
    for quantity in ("perplexity", "perplexity_last8"):
        assert {name for name in measured if name.startswith(f"{quantity}.")} == {f"{quantity}.{way}.{n}" for way, n in ways}
    assert all(entry.value is not None for entry in measured.values())
    assert measured["perplexity.none.16"].value > 1  # pyright: ignore[reportOptionalOperand]
    assert "ntk" not in json.dumps(rope.record.model_dump(mode="json")["measurements"])
    alibi = next(entry for entry in stored if entry.record.arm == "alibi")
    assert not [name for name in alibi.record.measurements if "pi" in name.split(".") or "yarn" in name.split(".")]
    assert read_arrays(rope.folder)["sink_rate.32"].shape == (1, 2)
    assert [point["step"] for point in read_curves(rope.folder)] == [0, 2, 4]
    assert rope.record.data["train_tokens"] > rope.record.data["held_out_tokens"] > 96  # pyright: ignore[reportOperatorIssue]


def test_a_second_run_only_publishes(ran: tuple[Path, Path, Ran]) -> None:
    config, results, first = ran
    page = first.published.page.read_bytes()
    before = {path: path.stat().st_mtime_ns for path in results.glob(f"*/*/s*/{RECORD}")}
    again = _run(config, results)
    assert (again.trained, again.found, again.programs) == (0, 9, ())
    assert {path: path.stat().st_mtime_ns for path in results.glob(f"*/*/s*/{RECORD}")} == before
    assert again.published.summary == first.published.summary
    assert again.published.page.read_bytes() == page
    assert again.seconds < 30
    assert set(again.as_json(results)) >= {"results", "page", "seconds", "programs", "studies", "claims"}


def test_a_corpus_that_moved_is_the_same_corpus(ran: tuple[Path, Path, Ran], tmp_path: Path) -> None:
    config, whole, _ = ran
    results = tmp_path / "results"
    shutil.copytree(whole / "extrapolation", results / "extrapolation")
    moved = tmp_path / "moved.txt"
    moved.write_bytes((config.parent / "book.txt").read_bytes())
    again = _run(config.parent / "extrapolation.toml", results, f"data.corpus=['{moved}']")
    assert (again.trained, again.found) == (0, 2)


def test_what_the_data_do_not_allow_is_said_before_training(ran: tuple[Path, Path, Ran], tmp_path: Path) -> None:
    config, _, _ = ran
    results = tmp_path / "results"
    with pytest.raises(UserError, match=r"data\.length = 4000: a window and its last target take 4001 tokens"):
        _run(config.parent / "extrapolation.toml", results, "data.length=4000")
    assert not results.exists()
    with pytest.raises(UserError, match="held-out"):
        _run(config.parent / "extrapolation.toml", results, "measure.lengths=[16, 64]", "measure.tokens=6400")
    assert not list(results.rglob(RECORD))
    assert not list(results.rglob("checkpoint"))


@pytest.mark.parametrize("below", ["file", "file/results"])
def test_a_folder_that_cannot_be_is_said_before_training(ran: tuple[Path, Path, Ran], tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match=r"cannot write results .*is no folder.*--results"):
        _run(ran[0], tmp_path / below)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_newer_record_stops_the_run_before_it_trains(ran: tuple[Path, Path, Ran], tmp_path: Path) -> None:
    folder = tmp_path / "results" / "sinks" / "other-0123456789ab" / "s0"
    folder.mkdir(parents=True)
    (folder / RECORD).write_text('{"schema_version": 99}')
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match="schema version 99 is newer"):
        _run(ran[0], tmp_path / "results")
    assert sorted(tmp_path.rglob("*")) == before


def test_the_plan_counts_parameters_and_programs(ran: tuple[Path, Path, Ran]) -> None:
    config, results, _ = ran
    plan = planned(config, ())
    rows = {row["arm"]: row for row in described(plan)}
    assert list(rows) == ["softmax", "headwise_gate", "rope", "alibi", "d128-64", "d128-1k", "men-table-4"]
    assert [rows[arm]["program"] for arm in rows] == [1, 2, 1, 1, None, None, None]
    for entry in read_records(results):
        row = rows[entry.record.arm]
        assert row["parameters"] == entry.record.parameters
        assert row["tokens"] == entry.record.tokens * row["seeds"]
        assert row["flops"] == pytest.approx(entry.record.flops * row["seeds"])


def test_parameters_are_counted_without_making_any(ran: tuple[Path, Path, Ran]) -> None:
    (study,) = load_studies(ran[0].parent / "sinks.toml", ["model.width=4096", "model.layers=96", "model.hidden=16384"])
    assert parameters(decoder_config(study.model, 50_000, 2048)) > 1.9e10
    assert sum(leaf.nbytes for leaf in jax.live_arrays()) < 1e9


def test_a_text_source_gives_windows_of_its_text(tmp_path: Path) -> None:
    config = suite(tmp_path)
    (study,) = load_studies(config.parent / "extrapolation.toml")
    source = open_source(study.data, tmp_path / "cache")
    assert isinstance(source, TextSource)
    text = (tmp_path / "book.txt").read_bytes()
    batch = source.inputs(3, 0, 5)
    assert batch.shape == (5, 17)
    assert all(bytes(row.tolist()) in text for row in batch)
    assert (source.inputs(3, 0, 5) == batch).all()
    assert not (source.inputs(4, 0, 5) == batch).all()
    assert source.held_out(16, 96).shape == (6, 17)
