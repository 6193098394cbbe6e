"""Arms that start from the weights of other arms: in order, resumed exactly, and what is said where they cannot."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console

from experiments import checkpoint
from experiments.arms import Outcome, check_starts, run_arms
from experiments.config.data import BackcopyData
from experiments.config.measure import SinksMeasure
from experiments.config.model import Gate, ModelConfig
from experiments.config.position import Alibi, Rope
from experiments.config.scaling import Yarn
from experiments.config.scores import FixedSink
from experiments.config.study import Arm, Start
from experiments.config.train import TrainConfig
from experiments.errors import UserError
from experiments.identity import arm_hash, provenance
from experiments.interrupt import Interrupted, Interruption
from experiments.position_tables import tables
from experiments.progress import Progress
from experiments.record import read_curves, read_record, read_records
from experiments.studies.sinks_measure import SinksMeasurer

pytestmark = pytest.mark.usefixtures("in_use")

ROPE = Arm(
    name="rope",
    model=ModelConfig(layers=1, width=8, heads=2, hidden=8, feedforward="relu", position=Rope(base=100.0)),
    data=BackcopyData(vocabulary=8, triggers=2, length=16),
    train=TrainConfig(steps=3, batch=3, learning_rate=1e-2, warmup=2),
    measure=SinksMeasure(every=2, sequences=6),
)


def _tuned(name: str, start: str = "rope", steps_before: int = 3, **changes: Any) -> Arm:
    model = ROPE.model.model_copy(update=changes)
    train = ROPE.train.model_copy(update={"steps": 4, "learning_rate": 1e-3})
    data = ROPE.data.model_copy(update={"length": 32})
    begin = Start(arm=start, length=16, steps=steps_before)
    return ROPE.model_copy(update={"name": name, "model": model, "train": train, "data": data, "start": begin})


YARN = _tuned("yarn", position=Rope(base=100.0, scaling=Yarn(factor=2.0)))
ALIBI = _tuned("alibi", position=Alibi())
AGAIN = _tuned("again", start="yarn", steps_before=7)


class _Watched(Progress):
    def __init__(self, stop_at: int | None = None) -> None:
        super().__init__(Console(quiet=True))
        self.interruption, self.notes, self._stop_at = Interruption(), [], stop_at

    def step(self, done: int, losses: np.ndarray, tokens_a_step: int, flops_a_token: float) -> None:  # noqa: ARG002
        if done == self._stop_at and tokens_a_step == 2 * 3 * 32:  # while the two tuned ones train
            self.interruption.requested = True

    def note(self, line: str) -> None:
        self.notes.append(line)


def _run(results: Path, arms: Sequence[Arm], seeds: Sequence[int] = (0,), progress: _Watched | None = None) -> Outcome:
    watched = progress or _Watched()
    return run_arms("sinks", arms, seeds, results, SinksMeasurer(), watched, watched.interruption, provenance())


def _folder(results: Path, arm: str) -> Path:
    (folder,) = results.glob(f"sinks/{arm}-*/s0")
    return folder


def _kept(results: Path) -> dict[str, Any]:
    stored = read_records(results)
    without = {"seconds", "created", "commit", "dirty"}
    return {s.record.arm: (s.record.model_dump(exclude=without), read_curves(s.folder)) for s in stored}


@pytest.fixture(scope="module")
def whole(in_use: None, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001
    """Named before what they start from: the order is found."""
    results = tmp_path_factory.mktemp("whole") / "results"
    outcome = _run(results, [AGAIN, YARN, ALIBI, ROPE])
    assert (outcome.trained, outcome.found) == (4, 0)
    # The arms of one length and depth share their programs.
    assert outcome.programs == ("initialise", "train", "measure") * 3
    return results


def _weights(results: Path, arm: str, step: int) -> Any:
    folder = _folder(results, arm) / "checkpoint"
    manager = checkpoint._manager(folder)
    with manager:
        return manager.restore(step)["params"]


def test_training_goes_on_with_the_weights_of_the_other(whole: Path) -> None:
    """Measured before the first step, the tuned arm is the other one with its own table: nothing else was drawn."""
    curves = {arm: read_curves(_folder(whole, arm)) for arm in ("rope", "yarn", "alibi", "again")}
    assert [point["step"] for point in curves["yarn"]] == [0, 2, 4]
    assert curves["again"][0]["loss"] != curves["yarn"][0]["loss"]
    before, after = _weights(whole, "rope", 3), _weights(whole, "yarn", 4)
    moved = [float(np.abs(before[name] - after[name]).max()) for name in ("embedding",)]
    # Four steps of Adam at 1e-3 move a weight by about 4e-3 at most; another seed's weights lie at a distance of about 1.
    assert 0 < max(moved) < 1e-2


def test_one_step_of_rate_zero_changes_nothing(whole: Path, tmp_path: Path) -> None:
    """With the same data, table and (almost) no learning rate the loss is that of the arm that it starts from."""
    results = tmp_path / "results"
    shutil.copytree(whole, results)
    train = ROPE.train.model_copy(update={"steps": 1, "learning_rate": 1e-12})
    start = Start(arm="rope", length=16, steps=3)
    _run(results, [ROPE, ROPE.model_copy(update={"name": "same", "train": train, "start": start})])
    same, rope = (read_record(_folder(results, arm)).measurements for arm in ("same", "rope"))
    for name, entry in rope.items():
        assert same[name].value == pytest.approx(entry.value, rel=1e-5, abs=1e-7), name


def test_data_go_on_where_they_stopped(tmp_path: Path) -> None:
    """Without a learning rate to speak of, steps 4 and 5 of five have the losses of steps 1 and 2 behind a run of three."""
    still = ROPE.train.model_copy(update={"learning_rate": 1e-12})
    every = {"measure": ROPE.measure.model_copy(update={"every": 1})}
    arms = [
        ROPE.model_copy(update={"name": name, "train": still.model_copy(update={"steps": steps}), "start": start, **every})
        for name, steps, start in (("five", 5, None), ("three", 3, None), ("two", 2, Start(arm="three", length=16, steps=3)))
    ]
    _run(tmp_path, arms)
    losses = {arm: [point["train_loss"] for point in read_curves(_folder(tmp_path, arm))][1:] for arm in ("five", "two")}
    np.testing.assert_allclose(losses["two"], losses["five"][3:], rtol=1e-6)
    assert len(set(losses["five"])) == 5


def test_scalings_are_relative_to_the_first_length() -> None:
    assert (ROPE.original_length, YARN.original_length, YARN.data.length) == (16, 16, 32)
    wide = YARN.model.model_copy(update={"head_dim": 64})
    own, other = (jax.tree.leaves(jax.device_get(tables(wide, length).frequencies)) for length in (16, 32))
    assert any(not np.array_equal(a, b) for a, b in zip(own, other, strict=True))


def test_what_is_recorded_is_not_tuned_again(whole: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    outcome = _run(whole, [ROPE, YARN, ALIBI, AGAIN])
    assert (outcome.trained, outcome.found, outcome.programs) == (0, 4, ())
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*")} == before


def test_tuning_resumes_exactly(whole: Path, tmp_path: Path) -> None:
    arms = [ROPE, YARN, ALIBI, AGAIN]
    with pytest.raises(Interrupted, match="stopped at step 3 of 4"):
        _run(tmp_path, arms, progress=_Watched(stop_at=1))
    assert set(_kept(tmp_path)) == {"rope"}
    assert _run(tmp_path, arms).trained == 3
    assert _kept(tmp_path) == _kept(whole)


def test_the_hash_covers_the_start() -> None:
    plain = YARN.model_copy(update={"start": None})
    assert arm_hash("sinks", YARN, None) == arm_hash("sinks", plain, None)
    hashes = {arm_hash("sinks", YARN, None, start) for start in (None, "0" * 12, "1" * 12)}
    assert len(hashes) == 3


def test_weights_that_are_gone_are_said_before_training(whole: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(whole, results)
    shutil.rmtree(_folder(results, "rope") / "checkpoint")
    longer = YARN.model_copy(update={"name": "longer", "train": YARN.train.model_copy(update={"steps": 1})})
    with pytest.raises(UserError, match=r"the weights of step 3, .*remove .*rope-.* to train 'rope' again") as raised:
        _run(results, [ROPE, longer])
    assert "\n" not in str(raised.value)
    assert _run(results, [ROPE, YARN]).trained == 0  # who needs them no more does not miss them


def test_nothing_starts_from_what_diverged(tmp_path: Path) -> None:
    wild = ROPE.model_copy(update={"name": "wild", "train": ROPE.train.model_copy(update={"learning_rate": 1e6})})
    tuned = _tuned("tuned", start="wild")
    further = _tuned("further", start="rope")
    watched = _Watched()
    outcome = _run(tmp_path, [ROPE, wild, tuned, further], progress=watched)
    assert outcome.trained == 3
    assert {arm: record["status"] for arm, (record, _) in _kept(tmp_path).items()} == {
        "rope": "finished",
        "wild": "diverged",
        "further": "finished",
    }
    assert "sinks: tuned, seed 0: not trained, because wild diverged" in watched.notes


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"gate": Gate(kind="output", per="head")}, "gate"),
        ({"layers": 2}, "layers"),
        ({"sink": FixedSink(logit=0.0)}, "sink"),
    ],
)
def test_another_structure_is_one_line(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError, match=f"arm 'odd' starts from 'rope', which has another {named}: ") as raised:
        check_starts([ROPE, _tuned("odd", **changes)])
    assert "\n" not in str(raised.value)
    check_starts([ROPE, YARN, ALIBI])
