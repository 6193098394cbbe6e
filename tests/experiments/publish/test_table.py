import csv
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.publish.summary import current, statistic, summary, trained_notes, values
from experiments.publish.table import Statistic, Table, cell_text, comma_separated, latex, latex_text, markdown
from experiments.record import StoredRecord
from tests.experiments.synthetic_records import measured, record

HOSTILE = r"50_% & #1 $x$ {a}\b ~^"
TABLE = Table(
    title="A | title",
    name="sample",
    columns=("arm", "loss", "source"),
    rows=(("plain", Statistic(1.23456, 0.0123, 3), "Someone 2024"), (HOSTILE, "–", 'a, "b"\nc')),
    notes=("n = 3",),
)


def test_cells_print_mean_and_spread() -> None:
    assert cell_text(Statistic(0.92, 0.0314, 3)) == "0.920 ± 0.031"
    assert cell_text(Statistic(83763.94, None, 1, digits=1)) == "83763.9"
    assert cell_text("–") == "–"


def test_rows_must_fit_the_columns() -> None:
    with pytest.raises(ValueError, match="1 cells in a row of 2 columns"):
        Table("t", "t", ("a", "b"), (("x",),))


def test_markdown_has_one_line_a_row_and_escapes_bars() -> None:
    lines = [line for line in markdown(TABLE).splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(TABLE.rows)
    assert lines[1] == "| --- | ---: | --- |"
    assert "1.235 ± 0.012" in lines[2]
    assert markdown(TABLE).startswith("**A \\| title**")
    assert "- n = 3" in markdown(TABLE)


def test_csv_round_trip_is_exact() -> None:
    rows = list(csv.reader(io.StringIO(comma_separated(TABLE), newline="")))
    assert rows[0] == ["arm", "loss mean", "loss std", "loss n", "source"]
    assert (float(rows[1][1]), float(rows[1][2]), int(rows[1][3])) == (1.23456, 0.0123, 3)
    assert rows[2] == [HOSTILE, "", "", "", 'a, "b"\nc']


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=20))
def test_csv_keeps_any_text(text: str) -> None:
    table = Table("t", "t", ("arm", "x"), ((text, "1"),))
    assert list(csv.reader(io.StringIO(comma_separated(table), newline="")))[1] == [text, "1"]


def test_latex_uses_booktabs_and_escapes() -> None:
    text = latex(TABLE)
    for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"\begin{tabular}{lrl}", r"\label{tab:sample}"):
        assert rule in text
    assert r"1.235 $\pm$ 0.012" in text
    assert r"50\_\% \& \#1 \$x\$ \{a\}\textbackslash{}b \textasciitilde{}\textasciicircum{}" in text


def test_long_texts_wrap_in_latex() -> None:
    table = Table("t", "t", ("arm", "x", "source"), (("a", Statistic(1.0, None, 1), "w " * 40),))
    assert r"\begin{tabular}{lrp{0.60\linewidth}}" in latex(table)


@given(st.text(alphabet="_%&#$ab ", max_size=30))
def test_latex_leaves_no_bare_special(text: str) -> None:
    escaped = latex_text(text)
    for index, character in enumerate(escaped):
        if character in "_%&#$":
            assert escaped[index - 1] == "\\"


def test_statistics_agree_with_numpy() -> None:
    numbers = [0.5, 0.25, 0.75, 0.125]
    records = [
        record("sinks", "softmax", seed, measurements=measured({"loss": value}, "nats"), created="2026-01-02T03:04:05Z")
        for seed, value in enumerate(numbers)
    ]
    found = summary(records)["sinks"]["softmax"]["loss"]
    assert found == {"mean": np.mean(numbers), "std": np.std(numbers, ddof=1), "n": 4, "unit": "nats"}


def test_one_seed_has_no_spread_and_null_is_skipped() -> None:
    records = [
        record("sinks", "softmax", 0, measurements=measured({"loss": 1.0, "gone": None})),
        record("sinks", "softmax", 1, measurements=measured({"loss": None, "gone": None})),
    ]
    arm = summary(records)["sinks"]["softmax"]
    assert arm["loss"] == {"mean": 1.0, "std": None, "n": 1, "unit": "share"}
    assert arm["gone"] == {"mean": None, "std": None, "n": 0, "unit": "share"}
    assert statistic([]) is None


def test_diverged_seeds_are_counted_and_in_no_mean() -> None:
    records = [record("sinks", "softmax", seed, measurements=measured({"loss": 1.0})) for seed in range(2)]
    records.append(record("sinks", "softmax", 2, status="diverged", measurements=measured({"loss": 1e9})))
    records.append(record("sinks", "other", 0, status="diverged"))
    assert values(records, "softmax", "loss") == [1.0, 1.0]
    assert summary(records)["sinks"]["other"] == {}
    notes = " ".join(trained_notes(records))
    assert "softmax: 1 diverged (seed 2)" in notes
    assert "other: 1 diverged (seed 0)" in notes


def test_notes_state_seeds_commit_date_and_device() -> None:
    records = [record("sinks", "softmax", seed, commit="abcdef0123456789", dirty=True) for seed in range(3)]
    notes = " ".join(trained_notes(records))
    for part in ("n = 3 seeds", "abcdef012345 (modified)", "2026-01-02", "1 × synthetic (cpu)"):
        assert part in notes


def test_one_configuration_of_an_arm_is_shown(tmp_path: Path) -> None:
    old = record("sinks", "softmax", 0, arm_hash="a" * 12, created="2026-01-01T00:00:00Z")
    new = record("sinks", "softmax", 0, arm_hash="b" * 12, created="2026-02-01T00:00:00+00:00")
    stored = [StoredRecord(tmp_path, old), StoredRecord(tmp_path, new)]
    kept, notes = current(stored)
    assert [entry.record for entry in kept] == [new]
    assert "left out: aaaaaaaaaaaa" in notes[0]
    kept, _ = current(stored, {("sinks", "softmax"): "a" * 12})
    assert [entry.record for entry in kept] == [old]
