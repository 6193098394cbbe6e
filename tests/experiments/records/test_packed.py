"""Studies packed into one file: what is kept of them, and what is said of damage."""

import json
import lzma
import shutil
from pathlib import Path

import numpy as np
import pytest

from leadline.experiments.config.claim import Term
from leadline.experiments.publish.export import pack
from leadline.experiments.records import packed
from leadline.experiments.records.json_file import sha256
from leadline.experiments.records.left_out import left_out_of, values_without, without
from leadline.experiments.records.measurement import measurements_of, reading
from leadline.experiments.records.packed import PACKED
from leadline.experiments.records.record import Worked, begun_at
from leadline.experiments.records.store import read_records, read_studies, record_folder, write_record, write_study
from leadline.experiments.runtime.errors import UserError
from tests.experiments.records.test_store import STUDY, content_of, curve_bits, record, written
from tests.experiments.synthetic_records import bits, flipped


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for seed in range(3):
        written(tmp_path / "results", seed=seed)
    write_study(tmp_path / "results", STUDY)
    return tmp_path / "results"


def test_it_keeps_records_curves_and_the_arrays_that_figures_read(results: Path, tmp_path: Path) -> None:
    assert pack(results, "sinks", tmp_path / "docs", {"loss_by_position"}) == []
    assert len(list((tmp_path / "docs").rglob("*.*"))) == 3
    packed, notes = read_records(tmp_path / "docs")
    assert notes == []
    for ours, theirs in zip(packed, read_records(results)[0], strict=True):
        assert ours.record == theirs.record.model_copy(update={"sum": ""})  # the header has a sum of all records
        assert curve_bits(ours.curve()) == curve_bits(theirs.curve())
        assert bits(ours.arrays()) == bits({k: a for k, a in theirs.arrays().items() if k.quantity == "loss_by_position"})
    assert read_studies(tmp_path / "docs") == read_studies(results)


def test_it_keeps_when_a_run_began_and_not_where(tmp_path: Path) -> None:
    worked = Worked(host="node", pid=7, began="2026-01-02T03:04:05+00:00", first_step=0)
    folder = record_folder(tmp_path / "results", "sinks", "softmax", "0123456789ab", 0)
    write_record(folder, record(arm_hash="0123456789ab", workers=(worked,)), None, {})
    pack(tmp_path / "results", "sinks", tmp_path / "docs", ())
    (stored,), _ = read_records(tmp_path / "docs")
    assert [(worker.host, worker.pid) for worker in stored.record.workers] == [("", 0)]
    assert begun_at(stored.record).isoformat() == worked.began


def test_it_keeps_the_attention_map_of_the_first_finished_seed_of_each_arm(tmp_path: Path) -> None:
    """An arm that was run again with other settings has two: its name is the same, and its hash is not."""
    attention = {reading("attention_map"): np.zeros((1, 1, 2, 2))}
    runs = (("a", 0, 0, True), ("a", 0, 1, True), ("b", 0, 0, False), ("b", 0, 1, True), ("a", 1, 2, True), ("a", 1, 3, True))
    for arm, settings, seed, finished in runs:
        of_seed = record(arm=arm, arm_hash=f"{settings:012x}", seed=seed, status="finished" if finished else "diverged")
        folder = record_folder(tmp_path / "results", "sinks", arm, of_seed.arm_hash, seed)
        write_record(folder, of_seed, None, attention if finished else {})
    pack(tmp_path / "results", "sinks", tmp_path / "docs", {"attention_map"})
    packed, _ = read_records(tmp_path / "docs")
    kept = {(stored.record.arm, stored.record.arm_hash[-1], stored.record.seed) for stored in packed if stored.arrays()}
    assert kept == {("a", "0", 0), ("a", "1", 2), ("b", "0", 1)}


def test_it_keeps_what_claims_read_of_the_measurements_without_documents(tmp_path: Path) -> None:
    point = {
        key: np.arange(3.0) + number for number, key in enumerate((without(reading("loss")), without(reading("sink_rate"))))
    }
    point |= {reading("loss"): np.asarray(1.0), reading("sink_rate"): np.asarray(2.0)}
    left_out = left_out_of(point)
    assert {entry.quantity: entry.values for entry in left_out} == {"loss": (0.0, 1.0, 2.0), "sink_rate": (1.0, 2.0, 3.0)}
    whole = record(arm_hash="0123456789ab", measurements=tuple(measurements_of(point)), left_out=left_out)
    write_record(record_folder(tmp_path / "results", "sinks", "softmax", "0123456789ab", 0), whole, None, point)
    np.testing.assert_array_equal(values_without(whole, "loss"), [1.0, 0.0, 1.0, 2.0])
    assert pack(tmp_path / "results", "sinks", tmp_path / "docs", (), [Term(quantity="loss", arm="any")]) == []
    (packed,), _ = read_records(tmp_path / "docs")
    np.testing.assert_array_equal(values_without(packed.record, "loss"), [1.0, 0.0, 1.0, 2.0])
    np.testing.assert_array_equal(values_without(packed.record, "sink_rate"), [2.0])
    assert values_without(packed.record, "loss", length=3) is None


def test_it_gives_the_same_bytes_again_from_either_form(results: Path, tmp_path: Path) -> None:
    pack(results, "sinks", tmp_path / "once", {"sink_rate", "loss_by_position"})
    pack(tmp_path / "once", "sinks", tmp_path / "again", {"sink_rate", "loss_by_position"})
    for path in (tmp_path / "once" / "sinks").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / "sinks" / path.name).read_bytes()


def test_a_file_that_unpacks_to_more_than_any_study_has_is_named(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(results, "sinks", tmp_path / "docs", ())
    monkeypatch.setattr(packed, "LARGEST", 1000)
    records, (note,) = read_records(tmp_path / "docs")
    assert not records
    assert f"{PACKED}: it is cut off, or unpacks to more than 1000 bytes; restore this file" in note


@pytest.mark.parametrize("name", ["records.jsonl.xz", "arrays.npz"])
def test_no_flipped_bit_changes_what_is_read(results: Path, tmp_path: Path, name: str) -> None:
    pack(results, "sinks", tmp_path / "docs", {"sink_rate"})
    path, content = tmp_path / "docs" / "sinks" / name, content_of(read_records(tmp_path / "docs")[0])
    unnoticed = 0
    for _ in flipped(path):
        records, notes = read_records(tmp_path / "docs")
        assert notes == [] or str(path) in notes[0]
        assert content_of(records) == ([] if notes else content)
        unnoticed += not notes
    assert unnoticed <= 1  # a bit of a header may mean nothing


def test_it_has_without_arrays_one_file_less(results: Path, tmp_path: Path) -> None:
    for quantities in ({"sink_rate"}, ()):
        pack(results, "sinks", tmp_path / "docs", quantities)
    assert [stored.arrays() for stored in read_records(tmp_path / "docs")[0]] == [{}] * 3
    assert {path.name for path in (tmp_path / "docs" / "sinks").iterdir()} == {"records.jsonl.xz", "study.json"}


def test_no_record_that_is_packed_is_lost_without_a_word(results: Path, tmp_path: Path) -> None:
    pack(results, "sinks", tmp_path / "docs", ())
    before = (tmp_path / "docs" / "sinks" / PACKED).read_bytes()
    shutil.rmtree(next((results / "sinks").glob("*/s*")))
    with pytest.raises(
        UserError, match=r"1 of its records are not in .*, such as that of \S+, seed \d+; copy records.jsonl.xz and"
    ):
        pack(results, "sinks", tmp_path / "docs", ())
    assert (tmp_path / "docs" / "sinks" / PACKED).read_bytes() == before


@pytest.mark.parametrize("line", [b"{}", b"[]", b'{"record": 5}'])
def test_a_line_that_is_no_record_is_left_out(results: Path, tmp_path: Path, line: bytes) -> None:
    pack(results, "sinks", tmp_path / "docs", ())
    path = tmp_path / "docs" / "sinks" / PACKED
    header, *lines = lzma.decompress(path.read_bytes()).splitlines()
    body = b"\n".join([*lines[1:], line]) + b"\n"
    sums = json.loads(header) | {"records": sha256(body)}
    path.write_bytes(lzma.compress(json.dumps(sums).encode() + b"\n" + body))
    records, notes = read_records(tmp_path / "docs")
    assert len(records) == 2
    assert len(notes) == 1 and "line 4: " in notes[0]


def test_it_may_lie_beside_a_folder_of_the_same_record(results: Path, tmp_path: Path) -> None:
    pack(results, "sinks", tmp_path / "docs", ())
    shutil.copytree(results / "sinks", tmp_path / "docs" / "sinks", dirs_exist_ok=True)
    records, notes = read_records(tmp_path / "docs")
    assert len(records) == len(notes) == 3
    assert "delete one of them" in notes[0]


@pytest.mark.parametrize(
    ("study", "into", "message"), [("sinks", "results", "into another folder"), ("other", "docs", "no records")]
)
def test_mistakes_are_one_line(results: Path, tmp_path: Path, study: str, into: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        pack(results, study, tmp_path / into, ())
