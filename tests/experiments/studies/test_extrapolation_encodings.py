"""The study of encodings from end to end, with arms that start from another; what its tables and figures show."""

from pathlib import Path

import pytest
from rich.console import Console

from experiments.errors import UserError
from experiments.progress import Progress
from experiments.publish.table import Statistic, markdown
from experiments.record import StoredRecord, read_arrays, read_records
from experiments.studies import extrapolation, extrapolation_encodings
from experiments.studies.extrapolation_drawings import encodings_drawings, extrapolation_drawings
from experiments.studies.plan import described
from experiments.studies.run import planned, run

pytestmark = pytest.mark.usefixtures("in_use")

TOY = """
study = "encodings"
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
steps = 3
batch = 3
learning_rate = 1e-2
[measure]
every = 3
sequences = 4
tokens = 96
stride = 8
last = 8
lengths = [16, 32]
sink.length = 16
[arms.tuned_pi]
start = "rope"
model.position.scaling = { kind = "pi", factor = 2.0 }
data.length = 32
train.steps = 2
[arms.rope]
measure.extensions = ["none", "pi", "dynamic_ntk_token"]
[arms.alibi]
model.position = { kind = "alibi" }
"""


def _config(folder: Path, text: str = TOY) -> Path:
    corpus = folder / "book.txt"
    corpus.write_text("".join(f"Line {i} of a short book, whose square is {i * i}.\n" for i in range(40)), encoding="utf-8")
    path = folder / "encodings.toml"
    path.write_text(text.replace("CORPUS", str(corpus)))
    return path


@pytest.fixture(scope="module")
def stored(in_use: None, tmp_path_factory: pytest.TempPathFactory) -> list[StoredRecord]:  # noqa: ARG001
    folder = tmp_path_factory.mktemp("encodings")
    plan = planned(_config(folder), ())
    ran = run(plan, folder / "results", Progress(Console(quiet=True)))
    assert (ran.trained, ran.found) == (3, 0)
    # RoPE and ALiBi together, though they are extended in different ways; a table a token is a structure of its own.
    names = ("initialise", "train", "measure")
    assert ran.programs == (
        *names,
        *("measure at 16", "measure at 32", "measure at 32"),
        *names,
        "measure at 16",
        "measure at 32",
    )
    return read_records(folder / "results")


def test_records_hold_the_three_conventions_and_the_positions(stored: list[StoredRecord]) -> None:
    rope = next(entry for entry in stored if entry.record.arm == "rope")
    for quantity in ("perplexity", "perplexity_windows", "perplexity_documents", "perplexity_last8"):
        ways = {name.removeprefix(f"{quantity}.") for name in rope.record.measurements if name.startswith(f"{quantity}.")}
        assert ways == {"none.16", "none.32", "pi.32", "dynamic_ntk_token.32"}
        assert rope.record.measurements[f"{quantity}.none.32"].unit == "per token"
    arrays = read_arrays(rope.folder)
    assert arrays["loss_by_position.pi.32"].shape == (len(arrays["position_edges.32"]) - 1,)
    assert not [name for name in rope.record.measurements if name.startswith(("loss_by", "position_edges"))]
    (windows, tokens) = (rope.record.measurements[f"{name}.none.32"].value for name in ("perplexity_windows", "perplexity"))
    assert windows != tokens  # the first window counts 32 tokens, the others 8


def test_a_tuned_arm_is_measured_like_any_other(stored: list[StoredRecord]) -> None:
    tuned = next(entry.record for entry in stored if entry.record.arm == "tuned_pi")
    assert tuned.config["start"] == {"arm": "rope", "length": 16, "steps": 3}
    assert (tuned.steps, tuned.tokens) == (2, 2 * 3 * 32)
    assert {"perplexity.none.16", "perplexity.none.32"} <= set(tuned.measurements)


def test_tables_part_what_was_trained_extended_and_tuned(stored: list[StoredRecord]) -> None:
    records = [entry.record for entry in stored]
    whole = extrapolation_encodings.table(records)
    assert [row[0] for row in whole.rows[:2]] == ["RoPE", "ALiBi"]
    counted = ["all", "all, mean of windows", "all, mean of documents", "last 8"]
    assert [row[1] for row in whole.rows] == [name for name in counted for _ in range(2)]
    extended = extrapolation_encodings.extensions_table(records)
    assert {row[0] for row in extended.rows} == {"RoPE", "RoPE, PI", "RoPE, dynamic NTK, by token"}
    tuned = extrapolation_encodings.tuned_table(records)
    assert {row[0] for row in tuned.rows} == {"RoPE, PI, fine-tuned at 4×"}
    for table in (whole, extended, tuned):
        text = markdown(table)
        assert "sliding windows, stride 8, every token counted once" in text
        assert "exp of the mean loss over tokens" in text
        assert any(isinstance(cell, Statistic) for row in table.rows for cell in row)
    assert any("2 steps at 32 tokens, from rope" in note for note in tuned.notes)
    assert {table.name for table in (whole, extended, tuned, extrapolation_encodings.sink_table(records))} == {
        "encodings",
        "encodings_extensions",
        "encodings_tuned",
        "encodings_sinks",
    }


def test_records_without_the_other_conventions_have_the_rows_that_they_had(stored: list[StoredRecord]) -> None:
    def older(name: str) -> bool:
        return not name.startswith(("perplexity_windows", "perplexity_documents"))

    records = [
        entry.record.model_copy(
            update={"measurements": {name: found for name, found in entry.record.measurements.items() if older(name)}}
        )
        for entry in stored
    ]
    table = extrapolation.table(records)
    assert {row[1] for row in table.rows} == {"all", "last 8"}
    assert "mean of windows" not in markdown(table)


def test_figures_have_their_names(stored: list[StoredRecord]) -> None:
    assert [drawing.name for drawing in encodings_drawings(stored)] == [
        "encodings_by_length",
        "encodings_by_position",
        "encodings_tuned",
        "encodings_by_head",
    ]
    assert [drawing.name for drawing in extrapolation_drawings(stored)] == [
        "perplexity_by_length",
        "perplexity_by_position",
        "extrapolation_by_head",
    ]


def test_the_plan_shows_where_an_arm_starts(tmp_path: Path) -> None:
    rows = {row["arm"]: row for row in described(planned(_config(tmp_path), ()))}
    assert {arm: row["start"] for arm, row in rows.items()} == {"tuned_pi": "rope", "rope": None, "alibi": None}
    assert rows["rope"]["program"] == rows["alibi"]["program"] != rows["tuned_pi"]["program"]


def test_another_structure_is_said_before_anything_runs(tmp_path: Path) -> None:
    text = TOY.replace('start = "rope"', 'start = "rope"\nmodel.gate = { kind = "output", per = "head" }')
    with pytest.raises(UserError, match="arm 'tuned_pi' starts from 'rope', which has another gate"):
        planned(_config(tmp_path, text), ())
