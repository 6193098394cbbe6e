"""Arms that start from the weights of other arms: in order, resumed exactly, and what is said where they cannot."""

import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from leadline.experiments.config.attention import FixedSink, Gate
from leadline.experiments.config.position import Rope
from leadline.experiments.config.position_bias import Alibi
from leadline.experiments.config.scaling import Yarn
from leadline.experiments.config.study import Arm, Start
from leadline.experiments.config.to_tables import tables
from leadline.experiments.records.measurement import reading, value_of
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.signals import Interrupted
from leadline.experiments.training.plan import check_starts
from tests.experiments.training.runs import SOFTMAX, Watched, changed, kept, run, stored_in

pytestmark = pytest.mark.usefixtures("in_use")

ROPE = changed("rope", train={"steps": 3}, measure={"every": 2})


def _tuned(name: str, start: str = "rope", steps_before: int = 3, **changes: Any) -> Arm:
    train = {"steps": 4, "learning_rate": 1e-3}
    tuned = changed(name, ROPE, model=changes, train=train, data={"length": 32}, measure={"sink": SINK})
    return tuned.model_copy(update={"start": Start(arm=start, length=16, steps=steps_before)})


SINK = SOFTMAX.measure.sink.model_copy(update={"length": 32})
YARN = _tuned("yarn", position=Rope(base=100.0, scaling=Yarn(factor=2.0)))
AGAIN = _tuned("again", start="yarn", steps_before=7)


def _curve(results: Path, arm: str, quantity: str) -> np.ndarray:
    return stored_in(results)[arm, 0].curve().values[reading(quantity)]


@pytest.fixture(scope="module")
def whole(in_use: None, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001
    """Named before what they start from: the order follows from the starts."""
    results = tmp_path_factory.mktemp("whole") / "results"
    watched = Watched()
    outcome = run(results, [AGAIN, YARN, ROPE], (0,), watched)
    assert (outcome.trained, outcome.recorded) == (3, 0)
    assert [title.split(": ")[2] for title in watched.titles] == ["rope x 1", "yarn x 1", "again x 1"]
    return results


def test_one_step_of_rate_zero_changes_nothing(whole: Path, tmp_path: Path) -> None:
    """With the same data, table and (almost) no learning rate everything measured is that of the arm that it starts from."""
    results = shutil.copytree(whole, tmp_path / "results")
    same = changed("same", ROPE, train={"steps": 1, "learning_rate": 1e-12})
    run(results, [ROPE, same.model_copy(update={"start": Start(arm="rope", length=16, steps=3)})], (0,))
    records = {arm: stored.record for (arm, _), stored in stored_in(results).items()}
    for entry in records["rope"].measurements:
        again = value_of(records["same"], entry.quantity, **entry.dims)
        assert again == pytest.approx(entry.value, rel=1e-5, abs=1e-7), entry


def test_data_go_on_where_they_stopped(tmp_path: Path) -> None:
    """Without a learning rate to speak of, steps 4 and 5 of five have the losses of steps 1 and 2 after a run of three."""
    starts = {"five": (5, None), "three": (3, None), "two": (2, Start(arm="three", length=16, steps=3))}
    slow = {"learning_rate": 1e-12}
    arms = [
        changed(name, ROPE, train=slow | {"steps": steps}, measure={"every": 1}).model_copy(update={"start": start})
        for name, (steps, start) in starts.items()
    ]
    run(tmp_path, arms, (0,))
    five, two = (_curve(tmp_path, arm, "train_loss")[1:] for arm in ("five", "two"))
    np.testing.assert_allclose(two, five[3:], rtol=1e-6)
    assert len(set(five)) == 5


def test_scalings_are_relative_to_the_first_length() -> None:
    assert (ROPE.original_length, YARN.original_length, YARN.data.length) == (16, 16, 32)
    wide = YARN.model.model_copy(update={"head_dim": 64})
    first, second = (jax.tree.leaves(jax.device_get(tables(wide, length).frequencies)) for length in (16, 32))
    assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_tuning_resumes_exactly_and_only_once(whole: Path, tmp_path: Path) -> None:
    arms = [ROPE, YARN, AGAIN]
    with pytest.raises(Interrupted, match="stopped at step 3 of 4"):
        run(tmp_path, arms, (0,), Watched(stop_at=1, group=2))
    assert set(stored_in(tmp_path)) == {("rope", 0)}
    assert run(tmp_path, arms, (0,)).trained == 2
    assert kept(tmp_path) == kept(whole)
    again = run(tmp_path, arms, (0,))
    assert (again.trained, again.recorded, again.programs) == (0, 3, ())


def test_weights_that_are_gone_are_said_before_training(whole: Path, tmp_path: Path) -> None:
    results = shutil.copytree(whole, tmp_path / "results")
    (checkpoints,) = results.glob("sinks/rope-*/s0/checkpoint")
    shutil.rmtree(checkpoints)
    longer = changed("longer", YARN, train={"steps": 1})
    with pytest.raises(UserError, match=r"the weights of step 3, .*delete .*rope-.* to train 'rope' again") as raised:
        run(results, [ROPE, longer], (0,))
    assert "\n" not in str(raised.value)
    assert run(results, [ROPE, YARN], (0,)).trained == 0  # who needs them no more does not miss them


def test_nothing_starts_from_what_diverged(tmp_path: Path) -> None:
    wild = changed("wild", ROPE, train={"learning_rate": 1e6})
    watched = Watched()
    outcome = run(tmp_path, [ROPE, wild, _tuned("tuned", start="wild"), _tuned("further")], (0,), watched)
    assert outcome.trained == 3
    states = {arm: stored.record.status for (arm, _), stored in stored_in(tmp_path).items()}
    assert states == {"rope": "finished", "wild": "diverged", "further": "finished"}
    assert "sinks: tuned, seed 0: not trained, because wild diverged" in watched.notes


@pytest.mark.parametrize("changes", [{"gate": Gate(kind="output", per="head")}, {"layers": 2}, {"sink": FixedSink(logit=0.0)}])
def test_another_structure_is_one_line(changes: dict[str, Any]) -> None:
    (named,) = changes
    with pytest.raises(UserError, match=f"arm 'odd' starts from 'rope', which has another {named}: ") as raised:
        check_starts([ROPE, _tuned("odd", **changes)])
    assert "\n" not in str(raised.value)
    check_starts([ROPE, YARN, _tuned("alibi", position=Alibi())])
