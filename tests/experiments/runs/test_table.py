"""Records as rows and as frames."""

import shutil
from pathlib import Path

import pytest

from leadline.experiments.records.packed import write_packed
from leadline.experiments.records.store import read_records
from leadline.experiments.runs.table import COLUMNS, records
from leadline.experiments.runtime.errors import UserError
from tests.experiments.synthetic_records import entry, measured, write_records

ENTRIES = (
    entry("sinks", "gate", 0, measured("loss", 2.5), measured("perplexity", None, length=256, extension="yarn")),
    entry("sinks", "softmax", 1, measured("loss", 2.25), measured("sink_rate", 0.75, layer=2), label="plain softmax"),
)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write_records(tmp_path / "results", *ENTRIES)
    return tmp_path / "results"


def test_a_row_is_a_measurement(results: Path) -> None:
    rows = records(results)
    assert all(tuple(row) == (*COLUMNS, "extension", "layer", "length") for row in rows)
    assert rows[-1] == {
        "study": "sinks",
        "arm": "softmax",
        "label": "plain softmax",
        "arm_hash": "0123456789ab",
        "seed": 1,
        "status": "finished",
        "quantity": "sink_rate",
        "unit": "share",
        "value": 0.75,
        "extension": None,
        "layer": 2,
        "length": None,
    }
    assert [row["value"] for row in rows] == [2.5, None, 2.25, 0.75]


def test_a_study_an_arm_and_a_run_are_read_by_their_folders(results: Path) -> None:
    write_records(results, entry("other", "rope", 0, measured("loss", 1.0)))
    write_packed(results / "packed" / "sinks", read_records(results, "sinks")[0], ())
    assert {row["study"] for row in records(results)} == {"sinks", "other"}
    assert {row["study"] for row in records(results / "sinks")} == {"sinks"}
    [arm] = results.glob("sinks/gate-*")
    assert [row["value"] for row in records(arm)] == [row["value"] for row in records(arm / "s0")] == [2.5, None]
    assert records(results / "packed") == records(results / "packed" / "sinks") == records(results / "sinks")


def test_pandas_has_whole_numbers_and_missing_ones(results: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = records(results, as_="pandas")
    assert list(frame) == [*COLUMNS, "extension", "layer", "length"]
    assert frame["value"].dtype == float
    assert frame["layer"].dtype == pandas.Int64Dtype()
    assert frame["value"].isna().tolist() == [False, True, False, False]
    assert frame["layer"].isna().tolist() == [True, True, True, False]


def test_polars_has_whole_numbers_and_missing_ones(results: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = records(results, as_="polars")
    assert frame.columns == [*COLUMNS, "extension", "layer", "length"]
    assert frame.schema["value"] == polars.Float64
    assert frame["layer"].to_list() == [None, None, None, 2]


def test_what_is_left_out_is_warned_of(results: Path) -> None:
    path = next(results.glob("*/softmax-*/s1/record.json"))
    path.write_text(path.read_text(encoding="utf-8").replace("2.25", "1.25"), encoding="utf-8")
    with pytest.warns(UserWarning, match="left out: .*record.json"):
        assert {row["arm"] for row in records(results)} == {"gate"}


def test_folders_without_records_are_named(results: Path, tmp_path: Path) -> None:
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(UserError, match="there are no records; name a results folder"):
            records(folder)
    shutil.rmtree(results)
    with pytest.raises(UserError, match="as_ = 'excel': choose one of"):
        records(results, as_="excel")  # pyright: ignore[reportArgumentType, reportCallIssue]
