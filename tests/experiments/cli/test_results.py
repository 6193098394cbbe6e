"""The commands about records, as far as they say what is not there."""

from pathlib import Path

from leadline.experiments.records.store import write_study
from tests.experiments.called import Called
from tests.experiments.committed import CONFIGS
from tests.experiments.configured import SINKS, write_config
from tests.experiments.synthetic_records import entry, measured, study, write_records


def test_studies_of_one_name_are_not_locked_over_each_other(called: Called, tmp_path: Path) -> None:
    first, second = (write_config(tmp_path, SINKS, name) for name in ("a.toml", "b.toml"))
    suite = write_config(tmp_path, 'studies = ["b.toml"]', "suite.toml")
    for other in (second, suite):
        line = called.mistake("lock", first, other, "--lock", tmp_path / "ledger.lock")
        assert line.endswith(f"{first} and {second} are both called 'sinks': give each a name of its own\n")
    assert not (tmp_path / "ledger.lock").exists()


def test_a_study_without_seeds_is_not_said_to_be_locked(called: Called, tmp_path: Path) -> None:
    said = "leadline: rope_base: nothing to lock; it has no claims, or none that seeds decide\n"
    assert called("lock", CONFIGS / "rope_base.toml", "--lock", tmp_path / "ledger.lock") == (0, "", said)


def test_a_text_that_cannot_be_filled_is_said_before_the_page_is_made(called: Called, tmp_path: Path) -> None:
    write_study(tmp_path, study("mine", {"softmax": {}}))
    write_records(tmp_path, entry("mine", "softmax", 0, measured("loss", 2.0)))
    text = tmp_path / "latin.md"
    text.write_bytes("caf\xe9".encode("latin-1"))
    for words in (("report", tmp_path, "--into", text), ("publish", tmp_path, "--into", tmp_path / "into", "--text", text)):
        assert f"{text}: not UTF-8 at byte 3; convert it to UTF-8" in called.mistake(*words)
    assert not (tmp_path / "index.html").exists() and not (tmp_path / "into").exists()


def test_what_has_no_description_is_not_published(called: Called, tmp_path: Path) -> None:
    write_records(tmp_path, entry("mine", "softmax", 0, measured("loss", 2.0)))
    line = called.mistake("publish", tmp_path, "--into", tmp_path / "into")
    assert line == "leadline: mine: study.json is missing, so it is not packed; run the study again\n"


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
