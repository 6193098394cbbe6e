"""What is listed of a results folder: synthetic records, packed ones, and a group that was interrupted."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leadline.experiments.publish.export import pack
from leadline.experiments.records.measurement import reading
from leadline.experiments.records.over_seeds import Statistic
from leadline.experiments.records.record import NO_CURVE, Curve
from leadline.experiments.records.store import write_study
from leadline.experiments.runs.show import Listed, listed, row
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.worker import Worker
from leadline.experiments.training import checkpoint
from leadline.experiments.training.group import claim_of
from tests.experiments.synthetic_records import entry, measured, study, write_records

TABLES = [{"title": "T", "columns": ["sink_rate", "loss"]}]


def written(results: Path) -> Path:
    """An arm with two configurations, one of which has a seed that diverged."""
    mine = study("mine", {"softmax": {"label": "Softmax"}}, tables=TABLES)
    write_study(results, mine)
    shared = mine.model_dump(mode="json", include={"model", "data", "train", "measure"})
    for digest, steps in (("a" * 12, 600), ("b" * 12, 900)):
        config = shared | {"train": {**shared["train"], "steps": steps}}
        fields = {"arm_hash": digest, "steps": steps, "label": "Softmax", "config": config}
        for seed in range(2):
            numbers = measured("sink_rate", 0.5), measured("loss", 2.0 + seed)
            write_records(results, entry("mine", "softmax", seed, *numbers, **fields))
    write_records(results, entry("mine", "softmax", 2, **fields, status="diverged", message="the loss was 99"))
    return results


def test_each_configuration_is_a_row_that_names_what_changed(tmp_path: Path) -> None:
    arms, notes = listed(written(tmp_path))
    assert notes == []
    assert [(arm.seeds, arm.loss and arm.loss.mean, arm.step) for arm in arms] == [
        ({"finished": 2, "diverged": 0}, 2.5, 600),
        ({"finished": 2, "diverged": 1}, 2.5, 900),
    ]
    loss, rate = "2.5000 ± 0.7071", "sink rate 0.500 ± 0.000"
    labels = "Softmax, train.steps = 600", "Softmax, train.steps = 900"
    assert [tuple(row(arm).values()) for arm in arms] == [
        ("mine", f"softmax-{'a' * 12}", labels[0], "2 finished", "600", loss, rate),
        ("mine", f"softmax-{'b' * 12}", labels[1], "2 finished, 1 diverged", "900", loss, f"{rate}, 1 diverged"),
    ]


def test_packed_records_are_listed_as_they_were(tmp_path: Path) -> None:
    arms, _ = listed(written(tmp_path / "results"))
    pack(tmp_path / "results", "mine", tmp_path / "packed", ())
    assert listed(tmp_path / "packed")[0] == arms
    assert listed(tmp_path / "packed" / "mine" / f"softmax-{'a' * 12}")[0] == [replace(arms[0], label="Softmax")]


def kept(members: list[str], curve: Curve) -> dict[str, Any]:
    """What a run keeps of a group after 9.5 seconds."""
    each = {"tokenizers": None, "curves": curve.rows(), "diverged": None}
    return {"members": members, **{name: [value] * len(members) for name, value in each.items()}, "seconds": 9.5}


def test_a_group_without_records_is_interrupted_or_running(tmp_path: Path) -> None:
    curve = NO_CURVE.extended(5, {reading("loss"): 3.25, reading("sink_rate"): 0.5})
    extra = kept(["gate-cccccccccccc/s0", "gate-cccccccccccc/s1"], curve)
    checkpoint.save(tmp_path / "mine" / ".group-0", 5, {"w": np.zeros(1)}, extra)
    begun = Listed("mine", "gate-cccccccccccc", "gate", {"interrupted": 2}, 5, Statistic(3.25, 0.0, 2, digits=4))
    assert listed(tmp_path) == ([begun], [])
    with Worker(tmp_path) as worker, worker.claim([claim_of(tmp_path / "mine", "gate-cccccccccccc/s1")]) or pytest.fail():
        assert listed(tmp_path) == ([replace(begun, seeds={"running": 2})], [])
    assert listed(tmp_path) == ([begun], [])


def test_a_group_that_has_no_curve_yet_has_no_loss(tmp_path: Path) -> None:
    extra = kept(["gate-cccccccccccc/s0"], NO_CURVE)
    checkpoint.save(tmp_path / "mine" / ".group-0", 5, {"w": np.zeros(1)}, extra)
    ((begun,), notes) = listed(tmp_path)
    assert (begun.step, begun.loss, notes) == (5, None, [])


@pytest.mark.parametrize(
    "change",
    [
        dict.fromkeys(("members", "tokenizers", "curves", "diverged", "seconds")),
        dict.fromkeys(("tokenizers", "diverged", "seconds")),
        {"seconds": None},
        {"seconds": "9.5"},
        {"tokenizers": []},
        {"diverged": [5]},
        {"diverged": [["5", "the loss was 99"]]},
        {"curves": []},
        {"curves": [[]]},
        {"curves": [[{"readings": []}, {"step": 2**70, "values": []}]]},
        {"members": [3]},
    ],
)
def test_a_checkpoint_that_is_not_of_a_group_is_passed_over(tmp_path: Path, change: dict[str, Any]) -> None:
    """`change` says what is written instead; None is nothing."""
    write_records(tmp_path, entry("mine", "gate", 0, measured("loss", 2.0)))
    extra = {key: value for key, value in (kept(["gate-cccccccccccc/s0"], NO_CURVE) | change).items() if value is not None}
    checkpoint.save(tmp_path / "mine" / ".group-0", 5, {"w": np.zeros(1)}, extra)
    arms, notes = listed(tmp_path)
    assert len(arms) == 1
    assert notes == [
        f"{tmp_path / 'mine' / '.group-0' / '5'}: its manifest is not that of a group of models; the checkpoint is passed over"
    ]


def test_members_of_a_group_that_are_recorded_are_not_unfinished(tmp_path: Path) -> None:
    curve, gate = NO_CURVE.extended(5, {reading("loss"): 3.25}), "gate-cccccccccccc"
    extra = kept([f"{gate}/s0", f"{gate}/s1"], curve)
    checkpoint.save(tmp_path / "mine" / ".group-0", 5, {"w": np.zeros(1)}, extra)
    write_records(tmp_path, entry("mine", "gate", 0, measured("loss", 2.0), arm_hash="c" * 12))
    assert [(arm.arm, arm.seeds) for arm in listed(tmp_path)[0]] == [
        (gate, {"finished": 1, "diverged": 0}),
        (gate, {"interrupted": 1}),
    ]


def test_a_folder_without_runs_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{tmp_path}: there are no records"):
        listed(tmp_path)
