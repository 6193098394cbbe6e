"""The study of retrieval: its questions, what is kept of the answers, and the whole path at toy size."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest
from rich.console import Console

from experiments.config.data import RetrievalData
from experiments.config.measure import RetrievalMeasure
from experiments.config.study import RetrievalStudy
from experiments.data.retrieval.mixture import largest_size
from experiments.data.retrieval.source import RetrievalSource, sizes_asked
from experiments.data.retrieval.vocabulary import AT_A_DEPTH, OF_A_SIZE, TASKS, Task
from experiments.data.source import open_source, vocabulary_size
from experiments.errors import UserError
from experiments.load import load_studies
from experiments.measure.layers import UNITS
from experiments.population import over_arms, stack
from experiments.progress import Progress
from experiments.publish.table import Statistic
from experiments.record import read_arrays, read_curves, read_records
from experiments.studies.plan import described
from experiments.studies.retrieval import depth_table, table
from experiments.studies.retrieval_measure import accuracies
from experiments.studies.run import Ran, planned, run
from model.mesh import make_mesh

STUDY = """
study = "retrieval"
seeds = [0, 1]
[model]
layers = 1
width = 8
heads = 2
hidden = 8
position = { kind = "rope", base = 100.0 }
[data]
kind = "retrieval"
length = 36
keys = 40
values = 10
[train]
steps = 4
batch = 4
learning_rate = 1e-2
[measure]
every = 2
sequences = 8
lengths = [36, 72]
depths = 8
rows = 2
[arms.rope]
[arms.nope]
model.position = { kind = "nope" }
"""
DATA = RetrievalData(length=36, keys=40, values=10)
# One at a depth, one with several needles, one of a size: every task of a run is a program for every length.
FEW: tuple[Task, ...] = ("key_value", "multi_value", "copy")


def _config(folder: Path) -> Path:
    path = folder / "retrieval.toml"
    path.write_text(STUDY, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def ran(in_use: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:  # noqa: ARG001
    folder = tmp_path_factory.mktemp("retrieval")
    plan = planned(_config(folder), [f"data.tasks={list(FEW)}"])
    return folder / "results", run(plan, folder / "results", Progress(Console(quiet=True)))


def test_a_run_records_every_task_at_every_length(ran: tuple[Path, Ran]) -> None:
    results, outcome = ran
    assert outcome.programs == ("initialise", "train", "measure", "measure at 36", "measure at 72")
    stored = read_records(results)
    assert len(stored) == 4
    for entry in stored:
        measured, arrays = entry.record.measurements, read_arrays(entry.folder)
        for task in FEW:
            by = "accuracy_by_size" if task in OF_A_SIZE else "accuracy_by_depth"
            by = by if task in AT_A_DEPTH + OF_A_SIZE else "token_accuracy_by_depth"
            for length in (36, 72):
                for name in ("accuracy", "token_accuracy"):
                    value = measured[f"{name}.{task}.{length}"].value
                    assert value is not None
                    assert 0 <= value <= 1
                assert measured[f"count.{task}.{length}"].value == 16
                assert arrays[f"{by}.{task}.{length}"].shape == (8,)
        assert [point["step"] for point in read_curves(entry.folder)] == [0, 2, 4]
        assert {"loss", "accuracy"} <= read_curves(entry.folder)[0].keys()
        assert {name.split(".")[0] for name in measured} <= UNITS.keys()


def test_the_page_shows_tables_and_figures(ran: tuple[Path, Ran]) -> None:
    results, outcome = ran
    figures = {path.stem for path in outcome.published.figures}
    assert figures == {"retrieval_over_training", "retrieval_by_depth", "retrieval_by_size"}
    records = [entry.record for entry in read_records(results)]
    shown = table(records)
    assert len(shown.rows) == 2 * len(FEW)
    assert all(isinstance(cell, Statistic) and cell.n == 2 for row in shown.rows for cell in row[2:6])
    assert any("interval (Wilson)" in note for note in shown.notes)
    deep = depth_table(records)
    assert [row[2] for row in deep.rows] == ["36 tokens"] * 2 + ["72 tokens"] * 2


def test_the_plan_knows_the_vocabulary(tmp_path: Path) -> None:
    rows = described(planned(_config(tmp_path), ()))
    assert [row["program"] for row in rows] == [1, 1]  # position encodings of no weights are values of one program
    assert vocabulary_size(DATA) == open_source(DATA, tmp_path).vocabulary == 13 + 8 + 40 + 10


@pytest.mark.parametrize("task", TASKS)
def test_a_step_of_training_draws_every_task(task: Task) -> None:
    """Traced, where the axes of the mesh have names: members on one, their batches and weights on another."""
    source, mesh = RetrievalSource(DATA.model_copy(update={"tasks": (task,)})), make_mesh(arm=4, data=2)
    with jax.set_mesh(mesh):
        inputs = stack([source.inputs(seed, 0, 4) for seed in range(4)], mesh)
        draw = over_arms(lambda inputs, own, shared: source.sample(inputs, shared, 4))  # noqa: ARG005
        assert jax.eval_shape(draw, inputs, inputs, None).tokens.shape == (4, 4, 37)


def test_training_and_questions_do_not_meet() -> None:
    source = RetrievalSource(DATA.model_copy(update={"tasks": FEW}))
    sample = jax.jit(source.sample, static_argnums=(1, 2))
    first, again, later = (sample(source.inputs(3, step, 5), None, 5) for step in (7, 7, 8))
    np.testing.assert_array_equal(first.tokens, again.tokens)
    assert not np.array_equal(first.tokens, later.tokens)
    assert first.tokens.shape == (5, 37)
    assert not np.array_equal(source.held_out(5).tokens, sample(source.inputs(0, 0, 5), None, 5).tokens)


@pytest.mark.parametrize("task", OF_A_SIZE)
def test_beyond_the_training_length_all_sizes_are_new(task: Task) -> None:
    source, more = RetrievalSource(DATA), 1 if task == "copy" else 2
    trained = largest_size(task, 36)
    assert trained is not None
    for length, smallest in ((36, 1), (72, trained + 1)):
        sizes = np.asarray(source.questions(task, length, 8, 2).weights).sum(axis=1) - more
        assert sizes.min() == smallest
        np.testing.assert_array_equal(sizes, np.repeat(sizes_asked(task, 36, length, 8), 2))
    with pytest.raises(ValueError, match="passkey has no sizes"):
        sizes_asked("passkey", 36, 36, 8)


@pytest.mark.parametrize("task", TASKS)
def test_what_is_kept_follows_the_hits(task: Task) -> None:
    """A model that hits what lies in the first half of the context, or is of the smaller sizes, and nothing else."""
    measure = RetrievalMeasure(lengths=(36,), depths=8, rows=2)
    sample = jax.device_get(RetrievalSource(DATA).questions(task, 36, 8, 2))
    early = (np.arange(16) < 8)[:, None] if task in AT_A_DEPTH + OF_A_SIZE else sample.evidence / 36 < 0.5
    found = accuracies(task, np.broadcast_to(early, sample.weights.shape) & (sample.weights > 0), sample, measure)
    assert found["count"] == 16
    if task in AT_A_DEPTH + OF_A_SIZE:
        assert found["accuracy"] == 0.5
        kept = "accuracy_by_size" if task in OF_A_SIZE else "accuracy_by_depth"
        np.testing.assert_array_equal(found[kept], [1] * 4 + [0] * 4)
    else:
        shares = found["token_accuracy_by_depth"]
        np.testing.assert_array_equal(shares[np.isfinite(shares)][:2], 1)
        assert not shares[4:][np.isfinite(shares[4:])].any()
        assert found["token_count_by_depth"].sum() == (sample.weights > 0).sum()
    if task in AT_A_DEPTH:
        assert (found["accuracy_first"], found["accuracy_middle"], found["accuracy_last"]) == (1.0, 0.5, 0.0)
    assert ("accuracy_by_distance" in found) == (task != "addition")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("data.length=20", "multi_query does not fit into a length of 20: the smallest is 33"),
        ("measure.lengths=[36, 2000]", "key_value needs 998 different keys, and there are 40: set data.keys = 998 or more"),
        ("data.shares=[1.0]", "1 shares for 8 tasks"),
        ("data.tasks=['copy', 'copy']", "each is there once"),
        ("data.tasks=['copi']", "data.tasks"),
        ("model.position={kind='learned'}", "learned positions end at 36 tokens: nothing is measured at 72"),
    ],
)
def test_mistakes_are_said_before_training(tmp_path: Path, word: str, message: str) -> None:
    results = tmp_path / "results"
    with pytest.raises(UserError, match=re.escape(message)):
        run(planned(_config(tmp_path), [word]), results, Progress(Console(quiet=True)))
    assert not list(results.rglob("checkpoint"))


def test_the_committed_configurations_measure_to_four_times_the_training_length() -> None:
    for path in sorted(Path(__file__).parents[3].joinpath("configs").rglob("*retrieval.toml")):
        (study,) = load_studies(path)
        assert isinstance(study, RetrievalStudy)
        if path.parent.name != "smoke":
            assert study.measure.lengths == tuple(factor * study.data.length for factor in (1, 2, 4))
