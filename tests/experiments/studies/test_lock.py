"""Claims that are frozen before they are run."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from leadline.experiments.config.load import arms_of, load_studies
from leadline.experiments.config.study import Study
from leadline.experiments.records.arms import judged_seeds
from leadline.experiments.records.record import Record
from leadline.experiments.records.store import read_records, read_studies
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.studies.lock import digests, locked_since, problems, read_lock, repeated, write_lock
from tests.experiments.committed import COMMITTED, CONFIGS, ROOT
from tests.experiments.records.claimed import record

SINKS = CONFIGS / "sinks.toml"
START = datetime(2026, 1, 1, tzinfo=UTC)
CLAIM = "sinks/guo-sink"
RELOCKED: frozenset[str] = frozenset()  # published studies whose new lock has not been run yet


def _study(*words: str) -> Study:
    (study,) = load_studies(SINKS, words)
    return study


def _changed(study: Study, **fields: object) -> Study:
    """The study with another first claim."""
    first, *others = study.claims
    return study.model_copy(update={"claims": (first.model_copy(update=fields), *others)})


CHANGES: dict[str, tuple[Callable[[Study], Study], bool]] = {
    "a threshold": (lambda study: _changed(study, right=0.4), True),
    "a statement": (lambda study: _changed(study, statement="Another one."), True),
    "an erratum": (lambda study: _changed(study, erratum="What it says."), False),
    "where it was published": (lambda study: _changed(study, where="Table 9"), False),
    "a seed": (lambda study: study.model_copy(update={"seeds": (*study.seeds, 99)}), True),
    "most seeds": (lambda study: study.model_copy(update={"most_seeds": 30}), True),
    "the recipe": (lambda _: _study("train.learning_rate=1e-3"), True),
    "an arm that it does not compare": (lambda _: _study("arms.headwise_gate.model.hidden=512"), False),
    "the arms that are run": (lambda study: study.model_copy(update={"only": ("headwise_gate",)}), False),
    "a table": (lambda study: study.model_copy(update={"tables": ()}), False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_verdict_depends_on_changes_the_digest_of_its_claim(name: str) -> None:
    change, changes = CHANGES[name]
    study = _study()
    assert (digests([change(study)])[CLAIM] != digests([study])[CLAIM]) == changes


def test_what_is_published_of_a_locked_study_is_as_it_was_locked() -> None:
    """Whether it was locked before it was run is a question to the history, which `leadline claims --check-lock` asks.

    What is published of a study of `RELOCKED` is its earlier form.
    """
    locked, results = read_lock(ROOT / "ledger.lock"), ROOT / "docs" / "results"
    names = {key.partition("/")[0] for key in locked}
    # Not the smaller forms of studies that suites name.
    files = ((path, study) for path, study in COMMITTED if path.parent == CONFIGS and path.stem == study.study)
    assert locked == digests(study for _, study in files if study.study in names)
    published = [study for study in read_studies(results).values() if study.exact is None and study.claims]
    confirmed = [study for study in published if study.study not in RELOCKED]
    assert len(published) == len(confirmed) + len(RELOCKED)
    records = [stored.record for study in confirmed for stored in read_records(results, study.study)[0]]
    assert list(problems(locked, confirmed, records, lambda _: datetime.min.replace(tzinfo=UTC))) == []
    assert {record.seed for record in records} <= {seed for study in confirmed for seed in judged_seeds(study)}


def _run(study: Study, created: datetime, seed: int = 30) -> list[Record]:
    arm, *_ = arms_of(study, Path())
    return [record(study.study, arm.name, 0, seed, arm.model_dump()).model_copy(update={"created": created.isoformat()})]


@pytest.mark.parametrize(
    ("locked", "study", "began", "seed", "said"),
    [
        ({}, _study(), 1, 30, []),
        ({CLAIM: "0" * 16}, _study(), 1, 30, [f"{CLAIM}: changed since it was locked"]),
        ({CLAIM: None}, _study(), 1, 30, [f"{CLAIM}: not locked"]),
        ({"sinks/gone": "0" * 16}, _study(), 1, 30, ["sinks/gone: locked, and the study has no such claim"]),
        ({}, _study(), -1, 30, ["run on 2025-12-31 00:00, before it was locked on 2026-01-01 00:00"] * len(_study().claims)),
        ({}, _study(), 1, 3, ["sinks: seed 3 is one that the recipe was chosen on"]),
    ],
)
def test_what_was_not_frozen_is_named(
    locked: dict[str, str | None], study: Study, began: int, seed: int, said: list[str]
) -> None:
    lock = {key: digest for key, digest in (digests([study]) | locked).items() if digest is not None}
    records = _run(study, START + timedelta(days=began), seed)
    complaints = list(problems(lock, [study], records, lambda _: START))
    assert len(complaints) == len(said) and all(text in line for text, line in zip(said, complaints, strict=True))


@pytest.mark.parametrize(
    ("other", "words", "seed", "said"),
    [
        ("streaming", ("measure.windows=7",), 50, ["sinks: softmax: streaming has these models on record, with the seeds 50"]),
        ("streaming", ("train.steps=7",), 50, []),
        ("streaming", (), 30, []),
        ("sinks", (), 50, []),
    ],
)
def test_models_that_another_study_has_trained_are_named(
    other: str, words: tuple[str, ...], seed: int, said: list[str]
) -> None:
    arm, *_ = arms_of(_study(*words), Path())
    trained = record(other, "another_name", 0, seed, arm.model_dump())
    assert list(repeated(_study(), [trained])) == said


def test_models_of_seeds_that_a_plan_may_add_are_named() -> None:
    study = _study().model_copy(update={"most_seeds": 12})
    arm, *_ = arms_of(study, Path())
    seeds = judged_seeds(study)
    trained = [record("streaming", "another_name", 0, seed, arm.model_dump()) for seed in (seeds[-1], seeds[-1] + 1)]
    assert list(repeated(study, trained)) == [
        f"sinks: softmax: streaming has these models on record, with the seeds {seeds[-1]}"
    ]


def test_a_lock_that_is_not_committed_freezes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.lock"
    study = _study()
    write_lock(path, digests([study]))
    assert read_lock(path) == digests([study])
    assert locked_since(path, digests([study])[CLAIM]) is None
    assert len(list(problems(read_lock(path), [study], [], lambda _: None))) == len(study.claims)


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (None, "there is .*; write one with"),
        *((content, "this is .*; restore it") for content in ("[]", "no JSON", '{"sinks/guo-sink": 3}')),
    ],
)
def test_a_file_that_is_no_lock_is_named(tmp_path: Path, content: str | None, remedy: str) -> None:
    path = tmp_path / "ledger.lock"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=rf"ledger\.lock: {remedy}"):
        read_lock(path)
