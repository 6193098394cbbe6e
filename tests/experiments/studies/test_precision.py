"""The study of phase errors, from its configuration to its table and claims, at lengths that take no time."""

from pathlib import Path

import pytest
from rich.console import Console

from experiments.config.study import PrecisionStudy
from experiments.identity import provenance
from experiments.interrupt import Interruption
from experiments.progress import Progress
from experiments.record import read_records
from experiments.studies.precision import LABELS, PRECISION, run_precision, table

STUDY = PrecisionStudy(lengths=(256, 64))


def ran(results: Path) -> int:
    with Interruption() as interruption, Progress(Console(quiet=True)) as progress:
        return run_precision(STUDY, results, provenance(), progress, interruption)[1]


def test_what_is_recorded_is_not_run_again(tmp_path: Path) -> None:
    assert [ran(tmp_path), ran(tmp_path)] == [0, len(LABELS)]


def test_the_table_has_a_row_an_arithmetic_and_a_column_a_length(tmp_path: Path) -> None:
    ran(tmp_path)
    found = table([entry.record for entry in read_records(tmp_path)])
    assert [row[0] for row in found.rows] == list(LABELS.values())
    assert found.columns[1:] == ("64 tokens", "256 tokens")
    errors = [[float(str(cell)) for cell in row[1:]] for row in found.rows]
    assert all(near <= far for near, far in errors)
    assert errors[0][1] < errors[1][1] < errors[2][1]


def test_claims_of_lengths_that_were_not_measured_have_no_evidence(tmp_path: Path) -> None:
    ran(tmp_path)
    records = [entry.record for entry in read_records(tmp_path)]
    assert [claim.evidence(records) for claim in PRECISION] == [None] * len(PRECISION)


@pytest.mark.parametrize(("error", "holds"), [(4e-7, True), (2e-3, False)])
def test_the_margin_of_the_default_is_what_is_left_of_the_bar(tmp_path: Path, error: float, holds: bool) -> None:
    ran(tmp_path)
    (record,) = [entry.record for entry in read_records(tmp_path) if entry.record.arm == "fixed_point"]
    measured = record.measurements["phase_error.64"]
    other = record.model_copy(update={"measurements": {"phase_error.1048576": measured.model_copy(update={"value": error})}})
    evidence = PRECISION[0].evidence([other])
    assert evidence is not None
    assert (evidence.margins[0] > 0) == holds
