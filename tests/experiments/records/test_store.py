"""Records are read as they were written, or named and left out."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from leadline.experiments.config.report import TrainingLength
from leadline.experiments.config.study import Study
from leadline.experiments.records.json_file import seal
from leadline.experiments.records.measurement import Measurement, Point, measurements_of, reading, select, value_of
from leadline.experiments.records.record import NO_CURVE, SCHEMA_FILE, SCHEMA_VERSION, Curve, Record, StoredRecord
from leadline.experiments.records.store import (
    is_recorded,
    read_record,
    read_records,
    read_stored,
    read_studies,
    record_folder,
    write_record,
    write_study,
)
from leadline.experiments.runtime.errors import UserError
from tests.experiments.committed import COMMITTED
from tests.experiments.synthetic_records import bits, flipped, made, measured

FILES = ("record.json", "curves.jsonl", "arrays.npz")
ARRAYS: Point = {
    reading("sink_rate"): np.arange(6, dtype=np.float32).reshape(2, 3) / 7,
    reading("loss_by_position", length=128): np.linspace(3, 1, 5),
    reading("loss_by_position", length=256, extension="yarn"): np.linspace(4, 1, 7),
}
POINT: Point = {reading("loss"): np.asarray(1.25), **ARRAYS}
CURVE: Curve = NO_CURVE.extended(0, {reading("loss"): 4.5}).extended(50, {reading("loss"): 2.0, reading("train_loss"): 2.5})
MEASURED = (*measurements_of(POINT), Measurement("perplexity", np.nan, "1", length=128))
STUDY = Study.model_validate(
    {
        "study": "sinks",
        "question": "Does it – what?",
        "model": {"position": {"kind": "rope", "base": 100.0}, "sink": {"kind": "fixed", "logit": float("-inf")}},
        "data": {"kind": "backcopy"},
        "train": {"steps": 3, "batch": 2, "learning_rate": 1e-3},
        "arms": {"base": {}, "gated": {"model": {"sink": {"kind": "fixed", "logit": float("inf") * -1}}}},
        "sweep": {"model.position.base": [1e2, 1e4]},
    }
)


def record(**changes: Any) -> Record:
    return made(**{"config": {"model": {"logit": -np.inf}, "data": {"length": 64}}, "measurements": MEASURED} | changes)


def written(results: Path, study: str = "sinks", arm: str = "softmax", seed: int = 0) -> Path:
    folder = record_folder(results, study, arm, "0123456789ab", seed)
    write_record(folder, record(study=study, arm=arm, seed=seed), CURVE, POINT)
    return folder


def curve_bits(curve: Curve) -> dict[Any, object]:
    return bits({"steps": curve.steps, **curve.values})


def content_of(records: Sequence[StoredRecord]) -> list[object]:
    return [(stored.record, bits(stored.arrays()), curve_bits(stored.curve())) for stored in records]


def test_committed_schema_is_the_models() -> None:
    assert json.loads(SCHEMA_FILE.read_text()) == Record.model_json_schema()


def test_a_round_trip_keeps_everything(tmp_path: Path) -> None:
    folder, again = written(tmp_path), written(tmp_path / "again")
    assert all((folder / name).read_bytes() == (again / name).read_bytes() for name in FILES)
    (stored,), notes = read_records(tmp_path)
    assert notes == []
    assert read_record(folder) == stored.record
    added = {"arrays", "sums", "sum"}
    assert stored.record.model_dump(exclude=added) == record().model_dump(exclude=added)
    assert content_of([stored]) == [(stored.record, bits(ARRAYS), curve_bits(CURVE))]
    assert np.isnan(stored.curve().values[reading("train_loss")][0])
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert value_of(stored.record, "sink_rate", layer=2) == pytest.approx(4 / 7)


def test_numbers_that_are_not_finite_are_no_bare_constants(tmp_path: Path) -> None:
    content = json.loads((written(tmp_path) / "record.json").read_text(), parse_constant=pytest.fail)
    assert content["config"]["model"] == {"logit": "-inf"}
    assert {"quantity": "perplexity", "value": None, "unit": "1", "dims": {"length": 128}} in content["measurements"]


def test_a_multiple_is_that_of_the_training_length_of_each_record() -> None:
    def trained(length: int, **values: float | None) -> Record:
        numbers = [measured("perplexity", value, length=int(name[1:])) for name, value in values.items()]
        return made(config={"data": {"length": length}}, measurements=(*numbers, extended))

    extended = measured("perplexity", 5.0, length=128, extension="yarn")
    short, long = trained(64, _64=3.0, _128=4.0), trained(128, _128=6.0, _256=None)
    assert list(select([short, long], "perplexity", length=TrainingLength(multiple=1))) == [(short, 3.0), (long, 6.0)]
    assert list(select([short, long], "perplexity", length=TrainingLength(multiple=2))) == [(short, 4.0)]
    assert list(select([short], "perplexity", length=128, extension="yarn")) == [(short, 5.0)]
    assert list(select([short, long], "perplexity")) == []


def test_a_record_is_written_last_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, seed=1)
    before = content_of(read_records(tmp_path)[0])
    replace = Path.replace

    def refuse(self: Path, target: Path) -> Path:
        if Path(target).name == "record.json":
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refuse)
    for seed in (0, 1):
        with pytest.raises(UserError, match=r"No space left.*--results"):
            written(tmp_path, seed=seed)
    assert {path.name for path in record_folder(tmp_path, "sinks", "softmax", "0123456789ab", 0).iterdir()} == set(FILES[1:])
    assert content_of(read_records(tmp_path)[0]) == before


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_is_noticed_and_stops_no_other_record(tmp_path: Path, name: str) -> None:
    folder, other = written(tmp_path), written(tmp_path, seed=1)
    for _ in flipped(folder / name):
        (stored,), (note,) = read_records(tmp_path)
        assert stored.record == read_record(other)
        assert f"left out: {folder / name}: " in note
        assert note.endswith(f"; delete {folder} and run the study again")
        assert "\n" not in note


def test_a_file_that_changes_after_the_record_was_read_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (stored,), _ = read_records(tmp_path)
    for name, read in (("arrays.npz", stored.arrays), ("curves.jsonl", stored.curve)):
        (folder / name).write_bytes(b"PK")
        with pytest.raises(UserError, match=f"{name}: it is not the file that was written; delete "):
            read()
        (folder / name).unlink()
        with pytest.raises(UserError, match=f"{name}: No such file"):
            read()


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"schema_version": 1}', '{"seconds": NaN}', "\x00", "[" * 100_000, seal({"a": 1}).decode()]
)
def test_what_is_no_record_is_one_line(tmp_path: Path, text: str) -> None:
    path = written(tmp_path) / "record.json"
    path.write_text(text)
    records, (note,) = read_records(tmp_path)
    assert not records
    assert note.startswith(f"left out: {path}: ")
    assert "\n" not in note


def test_a_newer_schema_says_what_to_do(tmp_path: Path) -> None:
    folder = written(tmp_path)
    content = json.loads((folder / "record.json").read_text()) | {"schema_version": SCHEMA_VERSION + 1, "a_new_field": 1}
    (folder / "record.json").write_bytes(seal(content))
    with pytest.raises(UserError, match=rf"version {SCHEMA_VERSION + 1} is newer than {SCHEMA_VERSION}, .*; upgrade leadline$"):
        read_record(folder)
    assert is_recorded(folder)  # and is not run again


@pytest.mark.parametrize("copy", ["softmax-0123456789ab/s1", "softmax-0123456789ab/s00", "gated-0123456789ab/s0"])
def test_a_copied_folder_does_not_count_twice(tmp_path: Path, copy: str) -> None:
    other = shutil.copytree(written(tmp_path), tmp_path / "sinks" / copy)
    (stored,), (note,) = read_records(tmp_path)
    assert stored.record.seed == 0 and not is_recorded(other)
    assert note.endswith(f"it is the record of sinks/softmax-0123456789ab/s0; delete {other}")


def test_a_run_that_did_not_end_is_no_record(tmp_path: Path) -> None:
    folder = written(tmp_path)
    assert is_recorded(folder)
    (folder / "record.json").unlink()
    assert read_records(tmp_path) == read_records(tmp_path / "nothing here") == ([], [])
    assert not is_recorded(folder)


def test_records_come_sorted_and_by_study(tmp_path: Path) -> None:
    names = [("a", "z", 0), ("b", "w", 0), ("b", "x", 2), ("b", "x", 10)]
    for name in reversed(names):
        written(tmp_path, *name)
    assert [(s.record.study, s.record.arm, s.record.seed) for s in read_records(tmp_path)[0]] == names
    assert [s.record.arm for s in read_records(tmp_path, "a")[0]] == ["z"]


def test_arrays_of_another_form_are_refused(tmp_path: Path) -> None:
    for array, message in ((np.zeros(3), "an array of 1 axes"), (np.array([[{}]], dtype=object), r"[Oo]bject")):
        with pytest.raises(ValueError, match=message):
            write_record(tmp_path / "run", record(), CURVE, {reading("sink_rate"): array})
    assert not (tmp_path / "run").exists()


def test_a_check_that_fails_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    class TakenOver(Exception):  # noqa: N818  # nobody made a mistake
        pass

    def taken_over() -> None:
        """Another process records in the moment in which this one stands still."""
        write_record(tmp_path / "run", record(seconds=2.0), CURVE, POINT)
        raise TakenOver

    with pytest.raises(TakenOver):
        write_record(tmp_path / "run", record(seconds=1.0), NO_CURVE, {}, check=taken_over)
    assert read_stored(tmp_path / "run").record.seconds == 2.0
    assert not list((tmp_path / "run").glob(".*"))


@pytest.mark.parametrize("arm", ["", "../up", "a/b", "a\\b", ".hidden"])
def test_names_that_are_no_folder_are_refused(tmp_path: Path, arm: str) -> None:
    with pytest.raises(UserError, match="cannot name a folder"):
        record_folder(tmp_path, "sinks", arm, "0123456789ab", 0)


def test_invalid_fields_are_refused() -> None:
    fields = {"arm_hash": "XYZ", "created": "2026-01-02 03:04", "status": "lost", "unknown": 1, "seconds": np.inf, "seed": -1}
    for name, value in (fields | {"measurements": [{"quantity": "loss"}]}).items():
        with pytest.raises(ValidationError, match=name):
            made(**{name: value})


def test_every_study_is_described_beside_its_records_without_loss(tmp_path: Path) -> None:
    for number, (_, study) in enumerate(COMMITTED):
        write_study(tmp_path / str(number), study)
        assert read_studies(tmp_path / str(number)) == {study.study: study}
    write_study(tmp_path, STUDY)
    described = read_studies(tmp_path)["sinks"]
    assert (described.model, described.sweep) == (STUDY.model, STUDY.sweep)
    assert read_studies(tmp_path / "nothing here") == {}


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes().replace(b"what", b"whit")),
        lambda path: path.write_bytes(seal({})),
        lambda path: path.write_bytes(seal({"study": {"study": "sinks", "colour": 1}})),
        lambda path: path.parent.rename(path.parent.with_name("other")),
    ],
)
def test_a_damaged_description_is_one_line(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    write_study(tmp_path, STUDY)
    damage(tmp_path / "sinks" / "study.json")
    with pytest.raises(UserError, match=r"study.json: .*; delete this file and run the study again") as raised:
        read_studies(tmp_path)
    assert "\n" not in str(raised.value)
