"""Toy runs of models that are taken apart, from the configuration to tables and figures."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from experiments.errors import UserError
from experiments.load import load_studies
from experiments.measure.layers import ARRAYS
from experiments.progress import Progress
from experiments.record import StoredRecord, read_arrays, read_curves, read_records
from experiments.studies import depth, sinks_backcopy, sinks_lm
from experiments.studies.anatomy_drawings import (
    backcopy_drawings,
    depth_drawings,
    gate_drawings,
    sinks_lm_drawings,
    stability_drawings,
)
from experiments.studies.run import Ran, planned, run
from tests.experiments.synthetic_records import measured, record

pytestmark = pytest.mark.usefixtures("in_use")

LANGUAGE = """
study = "sinks_lm"
seeds = [0, 1]
[model]
layers = 1
width = 8
heads = 2
kv_heads = 1
hidden = 8
position = { kind = "rope", base = 100.0 }
[data]
kind = "text"
corpus = ["CORPUS"]
length = 24
held_out = 0.4
bos = "fixed"
[train]
steps = 4
batch = 2
learning_rate = 1e-2
[measure]
every = 2
sequences = 4
tokens = 96
hidden = [2]
map = 8
sink.length = 16
[arms.softmax]
[arms.learned_logit]
model.sink = { kind = "learned" }
"""
BACKCOPY = """
study = "sinks_backcopy"
seeds = [0]
[model]
layers = 1
width = 8
heads = 1
hidden = 8
position = { kind = "learned" }
[data]
kind = "backcopy"
vocabulary = 8
triggers = 2
length = 16
[train]
steps = 4
batch = 2
learning_rate = 1e-2
[measure]
every = 2
sequences = 6
sink.length = 16
[sweep]
"data.bos" = ["fixed", "absent"]
[arms.softmax]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both configurations and a corpus of code and prose."""
    made = tmp_path_factory.mktemp("anatomy")
    corpus = made / "corpus"
    corpus.mkdir()
    for i in range(20):
        (corpus / f"{i}.py").write_text(f"value_{i} = {i}  # its square is {i * i}\n" * 4)
        (corpus / f"{i}.txt").write_text(f"Line {i} of a short book.\n" * 6)
    (made / "language.toml").write_text(LANGUAGE.replace("CORPUS", str(corpus)))
    (made / "backcopy.toml").write_text(BACKCOPY)
    return made


@pytest.fixture(scope="module")
def ran(in_use: None, folder: Path) -> list[Ran]:  # noqa: ARG001
    quiet = Progress(Console(quiet=True))
    return [run(planned(folder / f"{name}.toml", ()), folder / "results", quiet) for name in ("language", "backcopy")]


def of_study(folder: Path, study: str) -> list[StoredRecord]:
    return [entry for entry in read_records(folder / "results") if entry.record.study == study]


def test_one_program_serves_a_logit_and_none_and_bos_and_none(ran: list[Ran]) -> None:
    assert [one.programs for one in ran] == [("initialise", "train", "measure", "anatomy")] * 2
    assert [one.trained for one in ran] == [4, 2]


def test_records_hold_the_anatomy_as_numbers_and_by_head(ran: list[Ran], folder: Path) -> None:  # noqa: ARG001
    for entry in of_study(folder, "sinks_lm"):
        found = entry.record.measurements
        assert {
            "entropy",
            "key_outside",
            "change_forced.loss",
            "change_hidden2.loss",
            "early_divergence",
            "dormant_in_one",
        } <= set(found)
        assert found["kurtosis.layer1"].value == pytest.approx(float(read_arrays(entry.folder)["kurtosis"][0]), rel=1e-5)
        assert found["sink_rate.24"].unit == "share"
        assert not set(found) & ARRAYS
        arrays = read_arrays(entry.folder)
        assert arrays["attention_map"].shape == (1, 2, 8, 8)
        assert arrays["head_removed.loss"].shape == (1, 2)
        assert arrays["domain_mass"].shape == (2, 1, 2)
        assert {"value_norm_ratio", "residual_norm_ratio"} <= set(read_curves(entry.folder)[-1])


def test_texts_with_bos_and_without_are_measured_apart(ran: list[Ran], folder: Path) -> None:  # noqa: ARG001
    """In one program; the first point of the curves, before training, sees the same weights and other texts."""
    first = {entry.record.arm: read_curves(entry.folder)[0] for entry in of_study(folder, "sinks_backcopy")}
    assert first["softmax_bos=fixed"]["loss"] != first["softmax_bos=absent"]["loss"]
    for entry in of_study(folder, "sinks_backcopy"):
        assert {"change_forced.bigram_loss", "logit_gap", "bos_mass"} <= set(entry.record.measurements)


def test_tables_and_figures_have_every_arm(ran: list[Ran], folder: Path) -> None:  # noqa: ARG001
    language, backcopy = of_study(folder, "sinks_lm"), of_study(folder, "sinks_backcopy")
    records = [entry.record for entry in language]
    assert [row[0] for row in sinks_lm.table(records).rows] == ["softmax, BOS first", "learned logit"]
    assert not any("–" in row[:-2] for row in sinks_lm.table(records).rows)
    shown = sinks_lm.anatomy_table(records)
    missing = {heading for row in shown.rows for heading, cell in zip(shown.columns, row, strict=True) if cell == "–"}
    assert missing == {"first hidden", "first 4 hidden"}  # this one hid two
    assert depth.layers(records) == [1]
    names = {drawing.name for drawing in sinks_lm_drawings(language)}
    assert names == {"sinks_lm_over_training", "sinks_lm_maps", "sinks_lm_by_head", "sinks_lm_values"}
    assert {drawing.name for drawing in depth_drawings(language)} == {"depth_by_layer", "depth_by_head"}
    assert {drawing.name for drawing in gate_drawings(language)} == {"gate_position_by_head", "gate_position_values"}
    records = [entry.record for entry in backcopy]
    for table in (sinks_backcopy.table, sinks_backcopy.without_table, sinks_backcopy.changes_table):
        assert [row[0] for row in table(records).rows] == ["softmax"]
    assert not sinks_backcopy.layers_table(records).rows
    names = {drawing.name for drawing in backcopy_drawings(backcopy)}
    assert names == {"sinks_backcopy_over_training", "sinks_backcopy_maps", "sinks_backcopy_values"}


def test_losses_are_drawn_over_the_rates_at_which_every_seed_finished(tmp_path: Path) -> None:
    stored = [
        StoredRecord(tmp_path, record("stability", f"plain_learning_rate={rate}", seed, measurements=measured({"loss": 2.0})))
        for rate in ("0.01", "0.02")
        for seed in (0, 1)
    ]
    stored.append(StoredRecord(tmp_path, record("stability", "plain_learning_rate=0.04", 0, status="diverged")))
    (drawing,) = stability_drawings(stored)
    assert drawing.name == "stability_by_rate"
    assert stability_drawings([]) == []


def test_masses_of_even_attention_do_not_depend_on_bos(ran: list[Ran], folder: Path) -> None:  # noqa: ARG001
    """At the start every score is near 0, so that 16 tokens give the first one about H_16 / 16."""
    even = np.mean(1 / np.arange(1, 17))
    for entry in of_study(folder, "sinks_backcopy"):
        assert read_curves(entry.folder)[0]["first_token_mass"] == pytest.approx(even, rel=0.5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["measure.hidden=[16]"], "measure.hidden = 16 leaves nothing of the 16 tokens"),
        (["measure.map=40"], "measure.map = 40 leaves nothing"),
        (["model.position={kind='learned'}", "measure.sink.length=64"], "nothing is measured at 64"),
    ],
)
def test_what_cannot_be_measured_is_said_at_once(folder: Path, words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_studies(folder / "language.toml", words)
