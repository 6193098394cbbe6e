"""Arms × seeds in shared programs: recorded once, resumed exactly, diverging alone."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console

from experiments.arms import Outcome, run_arms
from experiments.config.data import BackcopyData
from experiments.config.measure import SinksMeasure
from experiments.config.model import Gate, ModelConfig
from experiments.config.position import Rope
from experiments.config.scores import LearnedSink
from experiments.config.study import Arm
from experiments.config.train import TrainConfig
from experiments.errors import UserError
from experiments.identity import arm_hash, provenance
from experiments.interrupt import Interrupted, Interruption
from experiments.progress import Progress
from experiments.record import read_arrays, read_curves, read_records
from experiments.studies.sinks_measure import SinksMeasurer

pytestmark = pytest.mark.usefixtures("in_use")

SOFTMAX = Arm(
    name="softmax",
    model=ModelConfig(layers=1, width=8, heads=2, hidden=8, feedforward="relu", position=Rope(base=100.0)),
    data=BackcopyData(vocabulary=8, triggers=2, length=16),
    train=TrainConfig(steps=6, batch=3, learning_rate=1e-2, warmup=2),
    measure=SinksMeasure(every=3, sequences=6),
)
STEPS = 6


def _changed(name: str, arm: Arm = SOFTMAX, **sections: dict[str, Any]) -> Arm:
    new = {section: getattr(arm, section).model_copy(update=changes) for section, changes in sections.items()}
    return arm.model_copy(update={"name": name, **new})


LEARNED = _changed("learned", model={"sink": LearnedSink()})
WILD = _changed("wild", train={"learning_rate": 1e6})


class _Watched(Progress):
    """Asks to stop, or fails, once a step is reported."""

    def __init__(self, stop_at: int | None = None, fail_at: int | None = None) -> None:
        super().__init__(Console(quiet=True))
        self.interruption = Interruption()
        self._stop_at, self._fail_at = stop_at, fail_at
        self.steps: list[int] = []
        self.notes: list[str] = []

    def step(self, done: int, losses: np.ndarray, tokens_a_step: int, flops_a_token: float) -> None:  # noqa: ARG002
        self.steps.append(done)
        if done == self._stop_at:
            self.interruption.requested = True
        if done == self._fail_at:
            raise RuntimeError("the power failed")

    def note(self, line: str) -> None:
        self.notes.append(line)


class _FailingAtTheEnd(SinksMeasurer):
    def final(self, arms: Any, params: Any, source: Any, model: Any, programs: Any) -> list[Any]:  # noqa: ARG002
        raise RuntimeError("the power failed")


def _run(
    results: Path,
    arms: Sequence[Arm],
    seeds: Sequence[int] = (0, 1),
    progress: _Watched | None = None,
    measurer: SinksMeasurer | None = None,
) -> Outcome:
    watched = progress or _Watched()
    return run_arms("sinks", arms, seeds, results, measurer or SinksMeasurer(), watched, watched.interruption, provenance())


def _kept(results: Path) -> dict[tuple[str, int], Any]:
    """Everything that the records say, except when and for how long."""
    found = {}
    for stored in read_records(results):
        record = stored.record.model_dump(exclude={"seconds", "created", "commit", "dirty"})
        arrays = {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in read_arrays(stored.folder).items()}
        found[record["arm"], record["seed"]] = (record, read_curves(stored.folder), arrays)
    return found


@pytest.fixture(scope="module")
def whole(in_use: None, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001
    """Two arms and two seeds, trained without a break."""
    results = tmp_path_factory.mktemp("whole") / "results"
    outcome = _run(results, [SOFTMAX, LEARNED])
    assert (outcome.trained, outcome.found) == (4, 0)
    assert outcome.programs == ("initialise", "train", "measure")
    return results


@pytest.fixture
def compilations() -> Iterator[list[str]]:
    """Names of the events that JAX reports while it compiles."""
    events: list[str] = []

    def _heard(event: str, duration_secs: float, **_: str | int) -> None:  # noqa: ARG001
        events.append(event)

    jax.monitoring.register_event_duration_secs_listener(_heard)
    yield events
    jax.monitoring.clear_event_listeners()


def test_records_say_what_was_done(whole: Path) -> None:
    kept = _kept(whole)
    assert set(kept) == {(arm, seed) for arm in ("softmax", "learned") for seed in (0, 1)}
    for record, curve, arrays in kept.values():
        assert record["status"] == "finished"
        assert (record["steps"], record["tokens"]) == (STEPS, STEPS * 3 * 16)
        assert [point["step"] for point in curve] == [0, 3, 6]
        assert curve[0]["train_loss"] is None
        assert all(point["train_loss"] > 0 for point in curve[1:])
        assert arrays["sink_rate"][:2] == ("float32", (1, 2))
        assert set(curve[0]) == {"step", "train_loss", *record["measurements"]}
        assert curve[-1]["loss"] == record["measurements"]["loss"]["value"]
        assert record["measurements"]["loss"]["unit"] == "nats"
        assert record["data"] == {"name": "backcopy", "digest": None}
    assert kept["softmax", 0][1] != kept["softmax", 1][1]
    assert kept["softmax", 0][0]["measurements"]["logit_mass"]["value"] == 0
    assert kept["learned", 0][0]["measurements"]["logit_mass"]["value"] > 0


def test_what_is_recorded_is_not_run_again(whole: Path, compilations: list[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    outcome = _run(whole, [SOFTMAX, LEARNED])
    assert (outcome.trained, outcome.found, outcome.programs) == (0, 4, ())
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*")} == before
    assert not [event for event in compilations if "backend_compile" in event]
    jax.jit(lambda x: x + 3.25)(1.0)
    assert [event for event in compilations if "backend_compile" in event]  # the events would have been heard


def test_a_new_seed_trains_only_itself(whole: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(whole, results)
    before = _kept(whole)
    outcome = _run(results, [SOFTMAX], seeds=(0, 1, 2))
    assert (outcome.trained, outcome.found) == (1, 2)
    after = _kept(results)
    assert set(after) == {*before, ("softmax", 2)}
    assert all(after[key] == before[key] for key in before)


@pytest.mark.parametrize(
    ("arms", "first", "resumed_at"),
    [
        ((SOFTMAX, LEARNED), {"progress": {"stop_at": 2}}, 4),
        ((SOFTMAX, LEARNED), {"progress": {"fail_at": 5}, "every": 2}, 4),
        ((SOFTMAX, LEARNED), {"measurer": _FailingAtTheEnd()}, 6),
    ],
    ids=["asked to stop", "killed", "killed before the record"],
)
def test_resumed_equals_uninterrupted(
    whole: Path, tmp_path: Path, arms: tuple[Arm, ...], first: dict[str, Any], resumed_at: int
) -> None:
    if every := first.get("every"):
        arms = tuple(_changed(arm.name, arm, train={"checkpoint_every": every}) for arm in arms)
    broken = _Watched(**first.get("progress", {}))
    with pytest.raises((Interrupted, RuntimeError)) as raised:
        _run(tmp_path, arms, progress=broken, measurer=first.get("measurer"))
    if "stop_at" in first.get("progress", {}):
        assert raised.match("sinks: stopped at step 4 of 6, which is kept")
    assert _kept(tmp_path) == {}
    again = _Watched()
    outcome = _run(tmp_path, arms, progress=again)
    assert (outcome.trained, outcome.found) == (4, 0)
    assert again.steps == list(range(resumed_at + 1, STEPS + 1))
    found, expected = _kept(tmp_path), _kept(whole)
    for key, (record, curve, arrays) in found.items():
        record["config"]["train"]["checkpoint_every"] = 0
        assert (record, curve, arrays) == expected[key]
    assert set(found) == set(expected)


def test_a_damaged_checkpoint_is_passed_over_with_a_note(tmp_path: Path) -> None:
    arm = _changed("softmax", train={"checkpoint_every": 2})
    with pytest.raises(RuntimeError):
        _run(tmp_path, [arm], seeds=(0,), progress=_Watched(fail_at=5))
    (newest,) = tmp_path.glob("sinks/*/s0/checkpoint/manifest-4.json")
    newest.unlink()
    again = _Watched()
    _run(tmp_path, [arm], seeds=(0,), progress=again)
    assert again.steps == [3, 4, 5, 6]
    assert [note for note in again.notes if "checkpoint" in note and "passed over" in note]


def test_one_diverges_and_the_others_go_on(whole: Path, tmp_path: Path) -> None:
    outcome = _run(tmp_path / "both", [WILD, SOFTMAX], seeds=(0,))
    assert outcome.programs == ("initialise", "train", "measure")
    together = _kept(tmp_path / "both")
    record, curve, _ = together["wild", 0]
    assert record["status"] == "diverged"
    assert f"at step {record['steps']};" in record["message"]
    assert 0 < record["steps"] < STEPS
    assert all(point["step"] <= record["steps"] for point in curve)
    assert {entry["value"] for entry in record["measurements"].values()} == {None}
    assert together["softmax", 0][0]["status"] == "finished"
    # Without the other one it ends early, with the same record.
    _run(tmp_path / "alone", [WILD], seeds=(0,))
    assert _kept(tmp_path / "alone")["wild", 0] == together["wild", 0]
    # What stays does not depend on it.
    expected = _kept(whole)["softmax", 0][0]["measurements"]
    for name, entry in together["softmax", 0][0]["measurements"].items():
        assert entry["value"] == pytest.approx(expected[name]["value"], rel=1e-5, abs=1e-7), name
    again = _run(tmp_path / "both", [WILD, SOFTMAX], seeds=(0,))
    assert (again.trained, again.found, again.programs) == (0, 2, ())


def test_arms_of_another_structure_have_a_program_of_their_own(tmp_path: Path) -> None:
    gated = _changed("gated", model={"gate": Gate(kind="output", per="head")}, train={"steps": 1})
    plain = _changed("plain", train={"steps": 1})
    outcome = _run(tmp_path, [plain, gated], seeds=(0,))
    assert outcome.programs == ("initialise", "train", "measure") * 2
    assert set(_kept(tmp_path)["gated", 0][2]) - set(_kept(tmp_path)["plain", 0][2]) == {"gate_mean", "gate_under_0.1"}


def test_a_hash_covers_what_changes_the_numbers() -> None:
    own = arm_hash("sinks", SOFTMAX, None)
    assert arm_hash("sinks", SOFTMAX.model_copy(update={"name": "other"}), None) == own
    assert arm_hash("sinks", _changed("softmax", train={"checkpoint_every": 7}), None) == own
    others = [
        arm_hash("sinks", _changed("softmax", train={"learning_rate": 2e-2}), None),
        arm_hash("sinks", _changed("softmax", data={"zipf": 0.0}), None),
        arm_hash("sinks", _changed("softmax", measure={"every": 2}), None),
        arm_hash("sinks", LEARNED, None),
        arm_hash("sinks", SOFTMAX, "0" * 64),
        arm_hash("other", SOFTMAX, None),
    ]
    assert len({own, *others}) == len(others) + 1
    assert len(own) == 12


def test_the_folder_carries_the_name_and_the_hash(whole: Path) -> None:
    code = arm_hash("sinks", SOFTMAX, None)
    stored = json.loads((whole / "sinks" / f"softmax-{code}" / "s1" / "record.json").read_text())
    assert (stored["arm"], stored["arm_hash"], stored["seed"]) == ("softmax", code, 1)


def test_a_disk_that_refuses_is_one_line(tmp_path: Path) -> None:
    code = arm_hash("sinks", SOFTMAX, None)
    folder = tmp_path / "sinks" / f"softmax-{code}" / "s0"
    folder.mkdir(parents=True)
    (folder / "checkpoint").write_text("in the way")
    with pytest.raises(UserError, match="checkpoint of step 6 cannot be written"):
        _run(tmp_path, [SOFTMAX], seeds=(0,))
