"""Digests of arms: what changes them, and what never does."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel, create_model
from rich.console import Console

from leadline.experiments.config.exact import Tokens
from leadline.experiments.config.load import arms_of, load_studies
from leadline.experiments.config.study import Arm, Start
from leadline.experiments.measure.exact.job import Job
from leadline.experiments.measure.exact.registry import jobs_of
from leadline.experiments.publish.export import pack
from leadline.experiments.records.packed import PACKED, read_packed
from leadline.experiments.records.provenance import arm_digest, differing, provenance
from leadline.experiments.records.record import Record
from leadline.experiments.records.store import read_records, record_folder, write_record
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interruption
from leadline.experiments.studies.run import run_exact

ROOT = Path(__file__).parents[3]
TREE: dict[str, Any] = {
    "name": "softmax",
    "model": {"position": {"kind": "rope", "base": 100.0}, "sink": {"kind": "fixed", "logit": 0.0}},
    "data": {"kind": "text", "length": 64, "tokenizer": {"kind": "bpe", "vocabulary": 300}},
    "train": {"steps": 6, "batch": 3, "learning_rate": 1e-2, "optimizer": {"kind": "muon"}},
    "measure": {"ablation": {"hidden": [2]}, "perplexity": {"lengths": [64], "last": 8, "extensions": ["yarn"]}},
}
ARM = Arm.model_validate(TREE)
DIGEST = arm_digest(ARM, None)


def _changed(**sections: dict[str, Any]) -> Arm:
    return Arm.model_validate(TREE | {name: TREE[name] | changes for name, changes in sections.items()})


def test_only_what_differs_from_the_defaults_counts() -> None:
    assert differing(ARM)["model"] == {
        "position": {"kind": "rope", "base": 100.0},
        "sink": {"kind": "fixed", "logit": 0.0},
    }
    assert differing(ARM)["measure"] == {
        "ablation": {"hidden": [2]},
        "perplexity": {"lengths": [64], "last": 8, "extensions": ["yarn"]},
    }
    assert Arm.model_validate(differing(ARM)) == ARM


def _with_a_later_setting(value: Any, classes: dict[type, type[BaseModel]]) -> Any:
    """The same configuration in classes that have one more setting, their defaults included."""
    if isinstance(value, tuple):
        return tuple(_with_a_later_setting(entry, classes) for entry in value)
    if not isinstance(value, BaseModel):
        return value
    kind, fields = type(value), type(value).model_fields
    if kind not in classes:
        optional = {name: field for name, field in fields.items() if not field.is_required()}
        defaults: dict[str, Any] = {
            name: (Any, _with_a_later_setting(field.get_default(call_default_factory=True), classes))
            for name, field in optional.items()
        }
        classes[kind] = create_model(f"Later{kind.__name__}", __base__=kind, later_setting=(int, 0), **defaults)
    values = {name: _with_a_later_setting(getattr(value, name), classes) for name in fields}
    return classes[kind].model_construct(**values, later_setting=0)


def test_a_later_setting_leaves_every_digest_as_it_is() -> None:
    later = _with_a_later_setting(ARM, {})
    assert later.train.optimizer.later_setting == 0
    assert arm_digest(later, None) == DIGEST
    chosen = later.model_copy(update={"train": later.train.model_copy(update={"later_setting": 1})})
    assert arm_digest(chosen, None) != DIGEST


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"label": "Softmax"},
        {"published": [{"text": "0.9", "source": "gu2025"}]},
        {"train": TREE["train"] | {"checkpoint_every": 7}},
        {"data": TREE["data"] | {"corpus": ["elsewhere.txt"]}},
    ],
    ids=str,
)
def test_what_no_number_depends_on_leaves_the_digest(changes: dict[str, Any]) -> None:
    assert arm_digest(Arm.model_validate(TREE | changes), None) == DIGEST


def test_all_that_can_change_the_numbers_changes_the_digest() -> None:
    others = [
        arm_digest(_changed(train={"learning_rate": 2e-2}), None),
        arm_digest(_changed(train={"optimizer": {"kind": "sgd"}}), None),
        arm_digest(_changed(model={"sink": {"kind": "learned"}}), None),
        arm_digest(_changed(model={"sink": {"kind": "none"}}), None),
        arm_digest(_changed(data={"length": 48}, measure={"perplexity": None}), None),
        arm_digest(_changed(measure={"every": 2}), None),
        arm_digest(_changed(measure={"ablation": {}}), None),
        arm_digest(_changed(measure={"ablation": None}), None),
        arm_digest(ARM, "0" * 64),
        arm_digest(ARM, None, "0" * 12),
        arm_digest(ARM, None, "1" * 12),
    ]
    assert len({DIGEST, *others}) == len(others) + 1
    assert len(DIGEST) == 12
    started = ARM.model_copy(update={"start": Start(arm="rope", length=16, steps=3)})
    assert arm_digest(started, None) == DIGEST  # the digest of that arm says it, not its name


def _digests(configured: Sequence[Arm | Job], record: Record, records: list[Record]) -> set[str]:
    """What a configuration gives to a record; `records` are those of its study."""
    digests, data = set(), cast("str | None", record.data.get("digest"))
    for arm in configured:
        if arm.name != record.arm:
            continue
        if isinstance(arm, Job):
            digests.add(arm_digest(arm.settings, data))
            continue
        first = None if arm.start is None else arm.start.arm
        starts = {other.arm_hash for other in records if other.arm == first} if first else {None}
        digests |= {arm_digest(arm, data, start) for start in starts}
    return digests


def _orphans(results: Path) -> list[str]:
    """The packed records that no configuration gives.

    Those of tokenizers are not looked at: their digests depend on rank files that are not in the repository.
    """
    studies = [(study, path) for path in sorted((ROOT / "configs").rglob("*.toml")) for study in load_studies(path)]
    orphans: list[str] = []
    for folder in sorted(path.parent for path in results.glob(f"*/{PACKED}")):
        packed, notes = read_packed(folder)
        records = [stored.record for stored in packed]
        forms = [(study, path) for study, path in studies if study.study == folder.name]
        if any(isinstance(study.exact, Tokens) for study, _ in forms):
            continue
        arms = [jobs_of(study.exact) if study.exact else arms_of(study, path) for study, path in forms]
        lost = [record for record in records if not any(record.arm_hash in _digests(form, record, records) for form in arms)]
        orphans += notes + [f"{record.study}, {record.arm}, seed {record.seed}" for record in lost]
    return orphans


def test_every_committed_record_is_found_by_its_configuration() -> None:
    assert _orphans(ROOT / "docs" / "results") == []


def test_a_record_of_another_configuration_is_an_orphan(tmp_path: Path) -> None:
    (study,) = load_studies(ROOT / "configs" / "smoke" / "rope_base.toml")
    run_exact(study, tmp_path / "results", provenance(), Progress(Console(quiet=True)), Interruption())
    pack(tmp_path / "results", study.study, tmp_path / "docs", ())
    assert _orphans(tmp_path / "docs") == []
    stored, _ = read_records(tmp_path / "results")
    other = stored[0].record.model_copy(update={"arm_hash": "0" * 12})
    folder = record_folder(tmp_path / "results", other.study, other.arm, other.arm_hash, other.seed)
    write_record(folder, other, None, {})
    pack(tmp_path / "results", study.study, tmp_path / "docs", ())
    assert _orphans(tmp_path / "docs") == [f"{study.study}, {other.arm}, seed {other.seed}"]
