"""A table's printed forms, and statistics over seeds."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from leadline.experiments.publish.table import Table, comma_separated, latex, latex_text, markdown, plain
from leadline.experiments.records.captions import notes_of
from leadline.experiments.records.over_seeds import Statistic, current, statistic, summary
from tests.experiments.synthetic_records import entry, measured, record

HOSTILE = r"50_% & #1 $x$ {a}\b ~^"
TABLE = Table(
    title="A | title",
    name="sample",
    columns=("arm", "loss", "source"),
    rows=(("plain", Statistic(1.23456, 0.0123, 3), "Someone 2024"), (HOSTILE, "–", 'a, "b"\nc')),
    notes=("n = 3",),
)


@pytest.mark.parametrize(
    ("statistic", "text"),
    [
        (Statistic(0.92, 0.0314, 3), "0.920 ± 0.031"),
        (Statistic(83763.94, None, 1, digits=1), "83,763.9"),
        (Statistic(4.2e-7, None, 1, digits=1, scientific=True), "4.2e-07"),
        (Statistic(2.5, 0.1, 2, digits=1, diverged=1), "2.5 ± 0.1, 1 diverged"),
    ],
)
def test_cells_print_mean_spread_and_what_diverged(statistic: Statistic, text: str) -> None:
    assert str(statistic) == text


def test_rows_must_fit_the_columns() -> None:
    with pytest.raises(ValueError, match="1 cells in a row of 2 columns"):
        Table("t", "t", ("a", "b"), (("x",),))


def test_markdown_has_one_line_a_row_and_escapes_bars() -> None:
    lines = [line for line in markdown(TABLE).splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(TABLE.rows)
    assert lines[1] == "| --- | ---: | --- |"
    assert "1.235 ± 0.012" in lines[2]
    for table in (TABLE, replace(TABLE, notes=())):
        assert markdown(table).startswith("**A \\| title**")
    assert "- n = 3" in markdown(TABLE)


def test_plain_text_aligns_columns() -> None:
    title, head, first, *_ = plain(TABLE).splitlines()
    assert title == TABLE.title
    assert head.index("source") == first.index("Someone 2024")


def test_csv_round_trip_is_exact() -> None:
    rows = list(csv.reader(io.StringIO(comma_separated(TABLE), newline="")))
    assert rows[0] == ["arm", "loss mean", "loss std", "loss n", "source"]
    assert (float(rows[1][1]), float(rows[1][2]), int(rows[1][3])) == (1.23456, 0.0123, 3)
    assert rows[2] == [HOSTILE, "", "", "", 'a, "b"\nc']


def test_latex_uses_booktabs_wraps_and_escapes() -> None:
    long = Table("t", "sample", TABLE.columns, (*TABLE.rows, ("a", "–", "w " * 40)))
    for part in (r"\toprule", r"\midrule", r"\bottomrule", r"\begin{tabular}{lrp{0.60\linewidth}}", r"\label{tab:sample}"):
        assert part in latex(long)
    assert r"1.235 $\pm$ 0.012" in latex(TABLE)
    assert r"50\_\% \& \#1 \$x\$ \{a\}\textbackslash{}b \textasciitilde{}\textasciicircum{}" in latex(TABLE)


def test_latex_writes_letters_that_its_fonts_lack_as_commands() -> None:
    assert latex_text("Σ cos(θ) … Nguyễn") == r"$\Sigma$ cos($\theta$) $\ldots$ Nguy\~{\^{e}}n"


def test_summary_agrees_with_numpy_and_skips_what_is_not_finite() -> None:
    numbers = [0.5, 0.25, 0.75, 0.125]
    records = [record("sinks", "softmax", seed, measured("loss", value, length=128)) for seed, value in enumerate(numbers)]
    records.append(record("sinks", "softmax", 4, measured("loss", None, length=128)))
    records.append(record("sinks", "softmax", 5, status="diverged"))
    (row,) = summary(records)
    expected = {"mean": np.mean(numbers), "std": np.std(numbers, ddof=1), "n": 4, "unit": "nats"}
    assert row == {"study": "sinks", "arm": "softmax", "quantity": "loss", "dims": {"length": 128}, **expected}
    assert statistic([]) is None
    assert statistic([1.0]) == Statistic(1.0, None, 1)


def test_notes_state_seeds_what_diverged_held_out_data_commit_date_and_device() -> None:
    numbers = measured("windows", 256), measured("documents", 34)
    records = [record("sinks", "softmax", seed, *numbers, commit="abcdef0123456789", dirty=True) for seed in range(3)]
    gates = [record("sinks", "gate", seed, *numbers, status=status) for seed, status in enumerate(("diverged", "finished"))]
    notes = " ".join(notes_of([*records, *gates, record("sinks", "sigmoid", 0, status="diverged")]))
    for part in (
        *(
            "softmax 3, gate 2, sigmoid 1",
            "diverged and left out of the means: gate (seed 0); sigmoid (all)",
            "256 windows from 34 documents",
        ),
        *("abcdef012345 (modified)", "2026-01-02", "1 × synthetic (cpu)"),
    ):
        assert part in notes


def test_notes_name_the_edition_of_parallel_texts() -> None:
    about = {"source": "a declaration", "edition": "2", "normalization": "lines stripped"}
    notes = notes_of([record("tokens", "bytes", 0, steps=0, data={"name": "parallel texts", "digest": "00", **about})])
    assert notes[0] == "texts: a declaration, 2; lines stripped"


def test_one_configuration_of_an_arm_is_shown() -> None:
    old, new = (
        entry("sinks", "softmax", 0, arm_hash=letter * 12, created=f"2026-{month}-01T00:00:00Z")
        for letter, month in (("a", "01"), ("b", "02"))
    )
    kept, notes = current([old, new])
    assert kept == [new]
    assert "left out: aaaaaaaaaaaa" in notes[0]
    assert current([old, new], {("sinks", "softmax"): "a" * 12})[0] == [old]
