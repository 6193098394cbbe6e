"""The whole path on a small suite, run once: from its files to records, page and verdicts, and what commands make of them."""

import json
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import pytest
from rich.console import Console

from leadline.experiments.data.source import CACHE
from leadline.experiments.publish.export import pack
from leadline.experiments.records.measurement import value_of
from leadline.experiments.records.record import Record
from leadline.experiments.records.store import RECORD, read_record, read_records, read_studies
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.log import LOG
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interrupted
from leadline.experiments.studies.dry_run import estimated, planned_looks, remarks
from leadline.experiments.studies.run import Ran, planned, run
from leadline.experiments.training.memory import Room
from tests.experiments.called import Called
from tests.experiments.suite import suite
from tests.experiments.training.runs import kept

pytestmark = pytest.mark.usefixtures("in_use", "unrendered")
ARMS = ["learned 0", "learned 1", "softmax 0", "softmax 1"]


class Run(NamedTuple):
    """The suite's file, its results, its outcome and the tables that were shown."""

    config: Path
    results: Path
    outcome: Ran
    shown: list[str]


class Stopping(Progress):
    """Stops the process, as Ctrl-C does, after a step."""

    def step(self, done: int, *arguments: Any, **keywords: Any) -> None:
        super().step(done, *arguments, **keywords)
        if done == 2:
            signal.raise_signal(signal.SIGINT)


def run_quietly(
    config: Path, results: Path, *words: str, progress: type[Progress] = Progress, show: Callable[[str], Any] = len
) -> Ran:
    return run(planned(config, words), results, progress(Console(quiet=True)), show)


def records_of(results: Path, study: str = "mine") -> list[Record]:
    records, notes = read_records(results, study)
    assert notes == []
    return [stored.record for stored in records]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The first run; tests that write copy its results first."""
    folder, shown = tmp_path_factory.mktemp("recorded"), []
    config = suite(folder)
    return Run(config, folder / "results", run_quietly(config, folder / "results", show=shown.append), shown)


@pytest.fixture
def results(recorded: Run, tmp_path: Path) -> Path:
    """A copy of the results, without weights."""
    return shutil.copytree(recorded.results, tmp_path / "results", ignore=shutil.ignore_patterns("checkpoint"))


def test_a_run_trains_records_and_publishes(recorded: Run) -> None:
    outcome, published = recorded.outcome, recorded.outcome.published
    assert (outcome.trained, outcome.recorded) == (4, 0)
    assert outcome.programs.count("train") == 1  # the arms of a study are of one structure
    assert published.page == recorded.results / "index.html"
    drawn = re.findall('<figure class="drawing" id="([^"]*)"', published.page.read_text(encoding="utf-8"))
    assert drawn == ["figure-ledger_forest_small_language_model", "figure-mine_over_training"]
    assert all(path.stat().st_size > 0 for path in (*published.tables, *published.figures))
    assert {path.name for path in published.tables} >= {f"{table}.md" for table in ("mine", "bases", "claims")}
    assert len(recorded.shown) == 2 and "smallest base" in recorded.shown[1].lower()


def test_a_study_needs_a_file_and_no_code(recorded: Run) -> None:
    assert [f"{record.arm} {record.seed}" for record in records_of(recorded.results)] == ARMS
    assert "learned sink logit" in recorded.shown[0]
    assert (recorded.results / "figures" / "mine_over_training.png").is_file()
    page = recorded.outcome.published.page.read_text(encoding="utf-8")
    for text in ("Two sinks of my own", "Does a learned sink logit change the loss?", "My losses over training."):
        assert text in page
    outcomes = {verdict.id: verdict.outcome for verdict in recorded.outcome.published.verdicts}
    assert outcomes == {"mine-loss": "holds"}


def test_the_arm_of_an_undecided_claim_alone_is_trained_with_more_seeds(recorded: Run, results: Path) -> None:
    """It compares the loss of the learned sink logit with the mean of that loss over seeds."""
    ((study, arms),) = planned(recorded.config.with_name("mine.toml"), ())
    losses = [value_of(record, "loss") or 0.0 for record in records_of(results) if record.arm == "learned"]
    claim = study.claims[0].model_copy(update={"right": sum(losses) / len(losses)})
    plan = [(study.model_copy(update={"claims": (claim,), "most_seeds": 3}), arms)]
    ran = run(plan, results, Progress(Console(quiet=True)), [].append, decide=True)
    assert (ran.recorded, ran.trained) == (4, 1)
    assert [f"{record.arm} {record.seed}" for record in records_of(results)] == [*ARMS[:2], "learned 2", *ARMS[2:]]


def test_perplexities_are_told_apart_by_length_and_extension(recorded: Run) -> None:
    for record in records_of(recorded.results):
        entries = [entry for entry in record.measurements if entry.quantity == "perplexity"]
        ways = {(entry.dims["length"], entry.dims.get("extension")) for entry in entries if "last" not in entry.dims}
        assert ways == {(32, None), (32, "pi"), (32, "yarn")}
        assert all(entry.value is not None and entry.value > 1 for entry in entries)


def test_nothing_that_is_kept_or_packed_says_where_the_corpus_lies(recorded: Run, tmp_path: Path) -> None:
    pack(recorded.results, "mine", tmp_path, ())
    (packed, _), study = read_records(tmp_path), read_studies(tmp_path)["mine"].model_dump()
    written = [*recorded.results.glob("mine/**/*.json"), *tmp_path.rglob("*.json")]
    assert not any(str(recorded.config.parent) in path.read_text() for path in written)
    (corpus,) = study["data"]["corpus"]
    assert re.fullmatch("corpus sha256:[0-9a-f]{64}", corpus)
    for record in (stored.record.model_dump() for stored in packed):
        assert record["data"]["name"] == record["config"]["data"]["corpus"] == [corpus]


@pytest.mark.slow
def test_an_interrupted_run_goes_on_to_the_same_records(recorded: Run, tmp_path: Path) -> None:
    mine = recorded.config.with_name("mine.toml")
    with pytest.raises(Interrupted, match="mine: stopped at step"):
        run_quietly(mine, tmp_path, progress=Stopping)
    assert records_of(tmp_path) == []
    assert run_quietly(mine, tmp_path).trained == 4
    assert kept(tmp_path) == {name: record for name, record in kept(recorded.results).items() if f"{name[0]} {name[1]}" in ARMS}


def test_a_damaged_record_is_named_and_its_arm_run_again(called: Called, recorded: Run, results: Path) -> None:
    path = next(results.glob(f"bases/d32-64-*/s0/{RECORD}"))
    whole = read_record(path.parent)
    path.write_bytes(path.read_bytes()[:-9])
    copy = shutil.copytree(next(results.glob("mine/learned-*/s0")), path.parents[1] / "s7")
    for words in (("report", results), ("claims", results, "--json"), ("run", recorded.config, "--results", results, "--json")):
        code, out, err = called(*words)
        notes = [line.split("left out: ")[1] for line in err.splitlines() if "left out: " in line]
        assert code == 0 and len(notes) == 2
        assert (f"page: {results / 'index.html'}" if words[0] == "report" else '"claims": [') in out
        assert [note.split(": ")[0] for note in notes] == [str(path), str(copy / RECORD)]
        assert notes[0].endswith(f"; delete {path.parent} and run the study again")
    assert '"trained": 0, "recorded": 5' in out
    assert (results / "index.html").read_text(encoding="utf-8").count("left out: ") == 1
    assert read_record(path.parent).measurements == whole.measurements


@pytest.mark.parametrize(
    ("word", "message"),
    [("data.length=4000", r"data\.length = 4000"), ("measure.perplexity.lengths=[9999]", "held-out")],
)
def test_what_cannot_be_run_is_said_before_training(recorded: Run, tmp_path: Path, word: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        run_quietly(recorded.config.with_name("mine.toml"), tmp_path / "results", word)
    assert not [*tmp_path.rglob(RECORD), *tmp_path.rglob("manifest-*")]


def test_a_damaged_description_of_another_study_stops_a_run_before_training(recorded: Run, tmp_path: Path) -> None:
    other = tmp_path / "other" / "study.json"
    other.parent.mkdir()
    other.write_text("{")
    with pytest.raises(UserError, match=r"other/study.json: .*; delete this file"):
        run_quietly(recorded.config, tmp_path)
    assert not list(tmp_path.glob(f"*/*/*/{RECORD}"))


def test_a_dry_run_says_what_a_run_will_cost(recorded: Run, results: Path, tmp_path: Path) -> None:
    plan = planned(recorded.config, ())
    estimate = estimated(plan, tmp_path / "nowhere", Progress(Console(quiet=True)), Room())
    rows = {row["arm"]: row for row in estimate.arms}
    assert {arm: row.get("programs") for arm, row in rows.items()} == {
        "softmax": [1],
        "learned": [1],
        "d32-64": None,
        "d32-256": None,
    }
    for record in records_of(recorded.results):
        row = rows[record.arm]
        assert (row["models"], row["parameters"], row["tokens"]) == (2, record.parameters, 2 * record.tokens)
        assert row["flops"] == pytest.approx(2 * record.flops)
        assert 0 < row["minutes"] < 10
    (group,) = estimate.groups
    assert group["compiled"] and 0 < group["memory"] < 0.1 < estimate.available
    assert group["minutes"] == pytest.approx(sum(row.get("minutes", 0.0) for row in estimate.arms))
    assert not (tmp_path / "nowhere").exists()
    shutil.rmtree(next(results.glob("mine/softmax-*/s0")))
    rows = estimated(plan, results, Progress(Console(quiet=True)), Room()).arms
    assert [(row["models"], row["of"]) for row in rows] == [(1, 2), (0, 2), (0, 1), (0, 1)]
    shutil.rmtree(results / CACHE)
    without = estimated(plan, results, Progress(Console(quiet=True)), Room()).arms
    assert [row["models"] for row in without] == [row["models"] for row in rows]
    assert not (results / CACHE).exists()


def test_a_dry_run_says_what_more_seeds_will_cost(called: Called, recorded: Run, results: Path) -> None:
    """The looks at two seeds are three and four: each line counts the models that are not on record."""
    mine = recorded.config.with_name("mine.toml")
    _, out, _ = called("run", mine, "--results", results, "--dry-run", "--decide", "--limit", "4")
    assert [line.partition(", about")[0] for line in out.splitlines()[-2:]] == [
        "mine: undecided: mine-loss; 1 arm with 3 seeds: 1 model to train",
        "mine: undecided: mine-loss; 1 arm with 4 seeds: 2 models to train",
    ]
    ((study, arms),) = planned(mine, ())
    nothing = study.model_copy(update={"claims": (), "most_seeds": 4})
    assert list(planned_looks([(nothing, arms)], results)) == ["mine: no claim on record is undecided for want of seeds"]


@pytest.mark.slow
def test_a_dry_run_takes_the_groups_and_the_device_of_the_workers(called: Called, recorded: Run, tmp_path: Path) -> None:
    words = ("run", recorded.config, "--dry-run", "--results", tmp_path / "nowhere", "--executor", "slurm", "--models", "3")

    def estimate_of(*more: str) -> dict[str, Any]:
        return json.loads(called(*words, *more, "--json")[1])

    estimate = estimate_of("--device", "h100", "--gpus", "2")
    assert [row["models"] for row in estimate["groups"]] == [3, 1]
    assert {row["arm"]: row.get("programs") for row in estimate["arms"] if row["models"]} == {"softmax": [1], "learned": [1, 2]}
    assert estimate["available"] == 60.0 and "NVIDIA H100 datasheet" in estimate["assumptions"]
    assert [row["compiled"] for row in estimate["groups"]] == [False, False]
    here = estimate_of()
    assert here["available"] != 60.0
    assert sum(row["flops"] for row in here["arms"] if row["models"]) == sum(
        row["flops"] for row in estimate["arms"] if row["models"]
    )
    assert "choose from a100-40gb" in called.mistake(*words, "--device", "abacus")


def test_a_dry_run_remarks_on_what_is_hardly_meant(recorded: Run) -> None:
    mine = recorded.config.with_name("mine.toml")
    assert list(remarks(planned(mine, ["train.warmup=3"]))) == []
    lines = list(remarks(planned(mine, ["arms.twin.label=Twin", "arms.softmax.train.warmup=3", "arms.twin.train.warmup=3"])))
    assert lines == [
        "mine: train.warmup does not end within train.steps of learned; lower it or train longer",
        "mine: softmax and twin are the same configuration",
    ]


def test_quantities_that_there_are_not_are_named_before_anything_runs(recorded: Run) -> None:
    words = ["tables=[{ title = 'T', columns = ['sink_rat', 'loss', 'seconds'] }]", "claims=[]"]
    words += ["figures=[{ kind = 'step', name = 'f', caption = 'C.', quantities = ['los'] }]"]
    with pytest.raises(UserError) as raised:
        planned(recorded.config.with_name("mine.toml"), words)
    assert str(raised.value).splitlines() == [
        "mine: figures.0.quantities: no quantity is called 'los'; did you mean 'loss'?",
        "mine: tables.0.columns: no quantity is called 'sink_rat'; did you mean 'sink_rate'?",
    ]


def test_a_dry_run_refuses_what_cannot_fit(recorded: Run, tmp_path: Path) -> None:
    plan = planned(recorded.config.with_name("mine.toml"), ["model.width=1000000"])
    with pytest.raises(UserError, match=r"needs [\d,.]+ GB per device \(a lower bound\).* make model.width"):
        estimated(plan, tmp_path, Progress(Console(quiet=True)), Room())
    assert sum(leaf.nbytes for leaf in jax.live_arrays()) < 1e9


def test_report_and_claims_of_records(called: Called, results: Path) -> None:
    published = called.json("report", results)
    assert Path(published["page"]).is_file()
    assert published["tables"] and all(Path(path).is_file() for path in published["tables"] + published["figures"])
    claims = called.json("claims", results)["claims"]
    assert {claim["id"]: claim["outcome"] for claim in claims} == {"mine-loss": "holds"}
    assert {"statement", "published", "measured", "reason", "n", "interval", "scale", "column", "windows"} <= set(claims[0])
    assert "mine-loss" in called.text("claims", results)


def test_publish_packs_records_and_fills_a_text(called: Called, results: Path, tmp_path: Path) -> None:
    text, into = tmp_path / "README.md", tmp_path / "published"
    text.write_text("<!-- leadline table mine -->\n<!-- leadline end -->\n", encoding="utf-8")
    words = ("publish", results, "--into", into, "--text", text)
    exported = called.json(*words)
    assert (exported["studies"], exported["notes"]) == (["bases", "mine"], [])
    assert exported["files"] == len([path for path in into.rglob("*") if path.is_file()])
    assert "learned sink logit" in text.read_text(encoding="utf-8")
    assert called.json("claims", into) == called.json("claims", results)
    assert "bases, mine: " in called.text(*words)


def test_a_run_of_what_is_on_record_changes_nothing(called: Called, recorded: Run, results: Path) -> None:
    words = ("run", recorded.config, "--results", results)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in results.rglob(RECORD)}
    page = (results / "index.html").read_bytes()
    ran = called.json(*words)
    assert (results / "index.html").read_bytes() == page
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in results.rglob(RECORD)} == before
    assert ran["studies"] == recorded.outcome.published.summary
    assert (ran["results"], ran["page"]) == (str(results), str(results / "index.html"))
    assert (ran["programs"], ran["trained"], ran["recorded"]) == (0, 0, 6)
    assert set(ran["studies"][0]) == {"study", "arm", "quantity", "dims", "unit", "mean", "std", "n"}
    assert [claim["id"] for claim in ran["claims"]] == ["mine-loss"]
    out = called(*words)[1]
    assert out.index("Losses of my own") < out.index("Bounds") < out.index("mine-loss")
    assert "0 models trained, 6 on record before, 0 programs compiled" in out
    assert out.rstrip().endswith(f"page: {results / 'index.html'}")


def test_a_command_is_logged_and_its_trackers_checked_first(called: Called, recorded: Run, results: Path) -> None:
    words = ("run", recorded.config, "--results", results)
    assert "choose from tensorboard, wandb, trackio" in called.mistake(*words, "--tracker", "nothing")
    assert not (results / LOG).exists()
    called.json(*words)
    command, versions, total = (line.split("] ", 1)[1] for line in (results / LOG).read_text().splitlines())
    assert command == f"leadline run {recorded.config} --results {results} --json"
    assert versions.startswith("mine, bases: commit ") and f"jax {jax.__version__}" in versions
    assert total.startswith("0 models trained, 6 on record before, 0 programs, ")


def test_generate_writes_text_with_a_trained_model(called: Called, recorded: Run) -> None:
    [softmax] = recorded.results.glob("mine/softmax-*/s0")
    words = ("generate", softmax, "--prompt", "Line 7 of ", "--tokens", "4", "--temperature", "0")
    written = called.json(*words)
    (text,) = written["texts"]
    assert (text["prompt"], len(text["ids"])) == ("Line 7 of ", 4)
    assert called.text(*words).rstrip("\n") == text["text"].rstrip("\n")
    assert "--initial-tokens" in called.mistake(*words, "--initial-tokens", "2")


def test_measure_gives_the_numbers_of_the_record_and_of_other_texts(called: Called, recorded: Run, tmp_path: Path) -> None:
    [run_folder] = recorded.results.glob("mine/softmax-*/s0")
    corpus = f"data.corpus=['{recorded.config.with_name('corpus')}']"
    entries = json.loads(called("measure", run_folder, corpus, "--layers", "--json")[1])["measurements"]
    values = {(entry["quantity"], *entry["dims"].items()): entry["value"] for entry in entries}
    recorded_values = {(e.quantity, *e.dims.items()): e.value for e in read_record(run_folder).measurements}
    assert values == {key: pytest.approx(value, rel=1e-5) for key, value in recorded_values.items() if key in values}
    assert {key[0] for key in recorded_values} == {key[0] for key in values}
    text = tmp_path / "other.txt"
    text.write_text("Line after line of another text.\n" * 90, encoding="utf-8")
    entries = json.loads(called("measure", run_folder, "--corpus", text, "--lengths", "24,48", "--json")[1])["measurements"]
    assert {entry["dims"].get("length") for entry in entries if entry["quantity"] == "perplexity"} == {24, 48}
    for words, message in (
        (("model.width=9",), "only keys of data and measure"),
        (("--lengths", "x"), "--lengths x: numbers"),
        (("--corpus", tmp_path / "no"), "no such file"),
        ((), "a record names its text without its place"),
    ):
        assert message in called.mistake("measure", run_folder, *words)
