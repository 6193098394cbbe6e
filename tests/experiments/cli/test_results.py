"""The commands about records, as far as they say what is not there."""

from pathlib import Path

from leadline.experiments.records.store import write_study
from tests.experiments.called import Called
from tests.experiments.configured import SINKS, write_config
from tests.experiments.synthetic_records import entry, measured, study, write_records


def test_studies_of_one_name_are_not_locked_over_each_other(called: Called, tmp_path: Path) -> None:
    first, second = (write_config(tmp_path, SINKS, name) for name in ("a.toml", "b.toml"))
    line = called.mistake("lock", first, second, "--lock", tmp_path / "ledger.lock")
    assert line.endswith(f"{first} and {second} are both called 'sinks': give each a name of its own\n")
    assert not (tmp_path / "ledger.lock").exists()


def test_a_folder_without_records_is_not_as_it_was_locked(called: Called, tmp_path: Path) -> None:
    assert "there are no records" in called.mistake("claims", tmp_path, "--check-lock")


def test_records_whose_study_is_missing_are_not_as_they_were_locked(called: Called, tmp_path: Path) -> None:
    lock = tmp_path / "ledger.lock"
    lock.write_text("{}", encoding="utf-8")
    write_records(tmp_path, entry("mine", "softmax", 0, measured("loss", 2.0)))
    words = ("claims", tmp_path, "--check-lock", "--lock", lock)
    code, out, err = called(*words)
    assert (code, out) == (1, "") and "mine: its study.json is missing" in err
    write_study(tmp_path, study("mine", {"softmax": {}}))
    assert "1 studies: every claim is as it was locked" in called.text(*words)
