"""The study of RoPE bases: its runs, tables, fit and the counts of a published table."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from experiments.config.study import RopeBaseStudy
from experiments.identity import Origin
from experiments.interrupt import Interrupted, Interruption
from experiments.progress import Progress
from experiments.publish.table import Statistic, cell_text
from experiments.record import RECORD, Record, read_arrays, read_records
from experiments.studies import men_table_4
from experiments.studies.power_law import fitted
from experiments.studies.published_bases import BLOG, HEAD_DIM, MEN, PUBLISHED
from experiments.studies.rope_base import (
    MEN_TABLE_4,
    arm_name,
    cases,
    growth_table,
    heads_table,
    men_table,
    plain_cases,
    published_entries,
    table,
)
from experiments.studies.rope_base_run import arms_of, run_rope_base

ORIGIN = Origin(commit="0" * 40, dirty=False, versions={"jax": "0.0.0"}, device={"platform": "cpu", "kind": "none", "count": 1})
STUDY = RopeBaseStudy(head_dims=(32, 128), lengths=(512, 64, 4096))


def ran(study: RopeBaseStudy, results: Path) -> int:
    """Runs it and says how many records were found."""
    with Progress(Console(quiet=True)) as progress, Interruption() as interruption:
        return run_rope_base(study, results, ORIGIN, progress, interruption)[1]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bases")
    assert ran(STUDY, folder) == 0
    return folder


@pytest.fixture(scope="module")
def records(results: Path) -> list[Record]:
    return [entry.record for entry in read_records(results)]


def test_arms_tell_head_dim_length_and_convention_apart() -> None:
    assert [arm.name for arm in arms_of(STUDY)] == [
        *("d32-64", "d32-512", "d32-4k", "d128-64", "d128-512", "d128-4k", MEN_TABLE_4),
    ]
    assert arm_name(64, 1024, inclusive=True, every=8) == "d64-1k-inclusive-every8"
    other = RopeBaseStudy(head_dims=(32,), lengths=(64,), inclusive=True, every=2)
    assert [arm.name for arm in arms_of(other)] == ["d32-64-inclusive-every2"]


def test_what_is_on_record_is_not_computed_again(results: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in results.rglob(RECORD)}
    assert ran(STUDY, results) == len(before) == 7
    assert {path: path.stat().st_mtime_ns for path in results.rglob(RECORD)} == before


def test_a_longer_length_goes_on_from_the_record(results: Path, tmp_path: Path) -> None:
    """The same bases as without the shorter lengths, to the resolution of the search."""
    alone = RopeBaseStudy(head_dims=(32,), lengths=(5000,))
    ran(alone, tmp_path / "alone")
    further = RopeBaseStudy(head_dims=(32,), lengths=(4096, 5000))
    assert ran(further, results) == 1
    bounds = []
    for folder in (tmp_path / "alone", results):
        (entry,) = [entry for entry in read_records(folder) if entry.record.arm == "d32-5000"]
        values = [entry.record.measurements[name].value for name in ("infimum", "largest_infeasible", "islands")]
        bounds.append((values, read_arrays(entry.folder)["islands"]))
    assert bounds[0][0] == pytest.approx(bounds[1][0], rel=1e-8)
    np.testing.assert_allclose(bounds[0][1], bounds[1][1], rtol=1e-8)
    (entry,) = [entry for entry in read_records(results) if entry.record.arm == "d32-5000"]
    for path in entry.folder.iterdir():
        path.unlink()  # for the tests that count the records of the fixture
    entry.folder.rmdir()


def test_a_stop_keeps_the_lengths_before_it(tmp_path: Path) -> None:
    study = RopeBaseStudy(head_dims=(32,), lengths=(64, 4096))
    with Progress(Console(quiet=True)) as progress, Interruption() as interruption:
        tell = progress.start

        def start(description: str, steps: int, first: int) -> None:
            interruption.requested = steps == 4096
            tell(description, steps, first)

        progress.start = start
        with pytest.raises(Interrupted, match="stopped within d32-4k"):
            run_rope_base(study, tmp_path, ORIGIN, progress, interruption)
    assert [entry.record.arm for entry in read_records(tmp_path)] == ["d32-64"]
    assert ran(study, tmp_path) == 1
    assert {entry.record.arm for entry in read_records(tmp_path)} == {"d32-64", "d32-4k"}


def test_another_convention_is_another_record(tmp_path: Path) -> None:
    for inclusive, every in ((False, 1), (True, 1), (False, 4)):
        assert ran(RopeBaseStudy(head_dims=(32,), lengths=(256,), inclusive=inclusive, every=every), tmp_path) == 0
    found = cases([entry.record for entry in read_records(tmp_path)])
    assert [(case.inclusive, case.every) for case in found] == [(False, 1), (False, 4), (True, 1)]
    assert len({case.record.arm_hash for case in found}) == 3
    assert len(plain_cases([case.record for case in found], 32)) == 1
    contexts = [row[1] for row in table([case.record for case in found]).rows]
    assert contexts == ["256", "256, every 4 m", "256, m = N too"]


def test_the_table_shows_each_printed_base(records: list[Record]) -> None:
    made = table(records)
    rows = [dict(zip(made.columns, map(cell_text, row), strict=True)) for row in made.rows]
    assert [(row["head dim"], row["context"]) for row in rows[:5]] == [
        *(("32", "64"), ("32", "512"), ("32", "4k"), ("128", "64"), ("128", "512")),
    ]
    of_4k = {row["source"]: row for row in rows if (row["head dim"], row["context"]) == ("128", "4k")}
    assert set(of_4k) == {printed.source for printed in PUBLISHED}
    men, blog = of_4k[MEN.source], of_4k[BLOG.source]
    assert (men["published"], men["B ≥ 0 at every m"], men["first failing m"], men["failing m"]) == ("27000", "no", "4079", "2")
    assert (blog["published"], blog["first failing m"], blog["failing m"]) == ("45000", "3679", "1")
    assert any("source was not found" in note for note in made.notes)


def test_head_dims_stand_side_by_side(records: list[Record]) -> None:
    """The figures of an independent search on a grid, at 512 tokens."""
    made = heads_table(records)
    assert made.columns[1:] == tuple(f"d = {d}: {name}" for d in (32, 128) for name in ("smallest base", "largest failing"))
    (row,) = [row for row in made.rows if row[0] == "512"]
    means = [cell.mean for cell in row if isinstance(cell, Statistic)]
    assert means == pytest.approx([1.25e4, 1.88e4, 2066, 2934], rel=5e-3)
    assert heads_table([record for record in records if record.config["head_dim"] == 32]).rows == ()


def test_growth_is_fitted_beside_the_published_laws(records: list[Record]) -> None:
    rows = {(row[0], row[1], row[-1]): row for row in growth_table(records).rows}
    here = rows["smallest base", "128", "here"]
    bases = [case.base("infimum") for case in plain_cases(records, 128)]
    slope = np.polyfit(np.log([64, 512, 4096]), np.log(bases), 1)[0]  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert isinstance(here[3], Statistic)
    assert here[3].mean == pytest.approx(slope)
    assert here[2] == "64 to 4k"
    assert growth_table([]).rows == ()


def test_the_printed_law_is_that_of_the_printed_bases() -> None:
    """Men et al. print 0.0424 x^1.628 in Figure 1: the least-squares line through their Table 2 with 1k = 1024."""
    law = fitted(MEN.bases)
    assert law.exponent == pytest.approx(1.628, abs=5e-4)
    assert law.factor == pytest.approx(0.0424, rel=5e-3)
    assert law.interval[0] < law.exponent < law.interval[1]


def test_a_power_law_is_found_again() -> None:
    law = fitted({1: 3.0, 2: 6.0, 4: 12.0, 8: 24.0})
    assert (law.factor, law.exponent) == pytest.approx((3, 1))
    assert law.error == pytest.approx(0, abs=1e-12)
    with pytest.raises(ValueError, match="2 points"):
        fitted({1: 1.0, 2: 2.0})


def test_counts_of_men_table_4(records: list[Record]) -> None:
    assert [count for count, _ in men_table_4.counts().values()] == [row.printed for row in men_table_4.ROWS]
    made = men_table(records)
    assert [cell_text(row[2]) for row in made.rows] == [cell_text(row[3]) for row in made.rows] == ["0", "0", "97", "2554"]
    assert [cell_text(row[4]) for row in made.rows] == ["–", "–", "10264", "10264"]
    assert men_table([]).rows == ()


def test_records_hold_the_verdict_on_what_is_printed(records: list[Record]) -> None:
    (record,) = [record for record in records if record.arm == f"d{HEAD_DIM}-4k"]
    assert [source for source, _ in published_entries(record)] == [printed.source for printed in PUBLISHED]
    assert record.measurements["infimum"].value == pytest.approx(26952.34, rel=1e-6)
