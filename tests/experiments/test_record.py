import json
import math
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from experiments.errors import UserError
from experiments.record import (
    SCHEMA_FILE,
    SCHEMA_VERSION,
    Record,
    read_arrays,
    read_curves,
    read_record,
    read_records,
    record_folder,
    write_record,
)
from tests.experiments.synthetic_records import measured, record


def _strict(text: str) -> object:
    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_committed_schema_is_the_models() -> None:
    assert json.loads(SCHEMA_FILE.read_text()) == Record.model_json_schema()


def test_round_trip_keeps_everything(tmp_path: Path) -> None:
    made = record("sinks", "softmax", measurements=measured({"loss": 1.25}, "nats"))
    curves = [{"step": 0, "loss": np.float32(4.5)}, {"step": 50, "loss": 2.0}]
    arrays = {"mass": np.arange(6, dtype=np.float32).reshape(2, 3)}
    write_record(tmp_path / "run", made, curves, arrays)
    assert read_record(tmp_path / "run") == made
    assert read_curves(tmp_path / "run") == curves
    np.testing.assert_array_equal(read_arrays(tmp_path / "run")["mass"], arrays["mass"])
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["arrays.npz", "curves.jsonl", "record.json"]


def test_numbers_that_are_not_finite_never_reach_the_file_bare(tmp_path: Path) -> None:
    values = {"nan": math.nan, "inf": math.inf, "fine": 1.0}
    made = record("sinks", "softmax", measurements=measured(values), config={"logit": -math.inf, "deep": [math.nan]})
    write_record(tmp_path, made, [{"step": 1, "loss": math.nan}], {})
    stored = _strict((tmp_path / "record.json").read_text())
    assert isinstance(stored, dict)
    assert stored["measurements"]["nan"]["value"] is None
    assert stored["measurements"]["fine"]["value"] == 1.0
    assert stored["config"] == {"logit": "-inf", "deep": ["nan"]}
    assert _strict((tmp_path / "curves.jsonl").read_text()) == {"step": 1, "loss": None}
    assert read_record(tmp_path) == made


def test_record_is_written_last_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    replace = Path.replace

    def watched(self: Path, target: Path) -> Path:
        order.append(Path(target).name)
        if Path(target).name == "record.json":
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    with pytest.raises(UserError, match="No space left"):
        write_record(tmp_path, record("sinks", "softmax"), [], {})
    assert order[-1] == "record.json"
    assert {path.name for path in tmp_path.iterdir()} == {"curves.jsonl", "arrays.npz"}  # no record, no litter


def test_failed_rewrite_leaves_the_old_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = record("sinks", "softmax", seconds=1.0)
    write_record(tmp_path, first, [], {})

    def fail(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(UserError):
        write_record(tmp_path, record("sinks", "softmax", seconds=2.0), [], {})
    assert read_record(tmp_path) == first


def test_newer_schema_names_file_and_versions(tmp_path: Path) -> None:
    write_record(tmp_path, record("sinks", "softmax"), [], {})
    path = tmp_path / "record.json"
    content = json.loads(path.read_text()) | {"schema_version": SCHEMA_VERSION + 1, "a_new_field": 1}
    path.write_text(json.dumps(content))
    with pytest.raises(UserError) as caught:
        read_record(tmp_path)
    message = str(caught.value)
    assert str(path) in message
    assert f"version {SCHEMA_VERSION + 1} is newer than {SCHEMA_VERSION}" in message
    assert "upgrade leadline" in message
    assert "\n" not in message


@pytest.mark.parametrize("text", ["{", "[]", '{"schema_version": 1}', '{"seconds": NaN}', "\x00"])
def test_damaged_record_names_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(UserError, match=r"record\.json: not a record") as caught:
        read_record(tmp_path)
    assert "\n" not in str(caught.value)


def test_damaged_curve_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "curves.jsonl").write_text('{"step": 0}\n{"step": NaN}\n')
    with pytest.raises(UserError, match=r"curves\.jsonl, line 2"):
        read_curves(tmp_path)


def test_arrays_of_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"[Oo]bject"):
        write_record(tmp_path, record("sinks", "softmax"), [], {"bad": np.array([{}], dtype=object)})
    assert not (tmp_path / "record.json").exists()
    (tmp_path / "arrays.npz").write_bytes(b"PK no archive")
    with pytest.raises(UserError, match=r"arrays\.npz"):
        read_arrays(tmp_path)


def test_unwritable_results_folder_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--results"):
        write_record(tmp_path / "file" / "run", record("sinks", "softmax"), [], {})


@pytest.mark.parametrize("arm", ["", "../up", "a/b", "a\\b", ".hidden"])
def test_names_that_are_no_folder_are_refused(tmp_path: Path, arm: str) -> None:
    with pytest.raises(UserError, match="cannot name a folder"):
        record_folder(tmp_path, "sinks", arm, "0123456789ab", 0)


def test_records_come_sorted_and_by_study(tmp_path: Path) -> None:
    for study, arm, seed in [("b", "x", 10), ("b", "x", 2), ("a", "z", 0), ("b", "w", 0)]:
        write_record(
            record_folder(tmp_path, study, arm, "0123456789ab", seed),
            record(study, arm, seed, created="2026-01-02T03:04:05Z"),
            [],
            {},
        )
    found = [(s.record.study, s.record.arm, s.record.seed) for s in read_records(tmp_path)]
    assert found == [("a", "z", 0), ("b", "w", 0), ("b", "x", 2), ("b", "x", 10)]
    assert [s.record.arm for s in read_records(tmp_path, "a")] == ["z"]
    assert read_records(tmp_path / "nothing here") == []


@pytest.mark.parametrize(
    "change",
    [
        {"arm_hash": "XYZ"},
        {"created": "2026-01-02 03:04"},
        {"status": "lost"},
        {"unknown": 1},
        {"seconds": math.inf},
        {"seed": -1},
    ],
)
def test_invalid_fields_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Record.model_validate(record("sinks", "softmax").model_dump() | change)
