"""What trackers hear of a run, and how much there is to train."""

import io
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.console import Console

from leadline.experiments.config.attention import Gate
from leadline.experiments.config.study import Start
from leadline.experiments.records.measurement import reading
from leadline.experiments.records.record import StoredRecord
from leadline.experiments.records.store import read_records
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interrupted, Interruption
from leadline.experiments.runtime.tracking import Run
from leadline.experiments.training.claimed import train_claimed
from leadline.experiments.training.plan import run_arms
from leadline.experiments.training.reporting import flops_expected
from leadline.experiments.training.session import opened
from tests.experiments.training.runs import SOFTMAX, STEPS, Watched, changed, kept, run

pytestmark = pytest.mark.usefixtures("in_use")
WILD = changed("wild", train={"learning_rate": 1e6})


class Kept:
    """A tracker's run that keeps what it gets."""

    shown_by = "look here"

    def __init__(self, run: Run) -> None:
        self.config, self.points, self.final = run.config(), dict[int, Mapping[str, float]](), dict[str, float]()

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.points[step] = values

    def finish(self, values: Mapping[str, float], *, whole: bool) -> None:
        assert whole
        self.final = dict(values)


def _broken(run: Run) -> Kept:
    raise RuntimeError(f"no room for {run.arm}")


def _tracked(results: Path, *arms: str) -> tuple[dict[str, Kept], str]:
    """The tracked runs of seed 0 of these arms by name, and what is said on standard error."""
    runs, text = dict[str, Kept](), io.StringIO()

    def begin(run: Run) -> Kept:
        return runs.setdefault(run.name, Kept(run))

    trackers = {"broken": _broken, "toy": begin}
    chosen = [arm for arm in (SOFTMAX, WILD) if arm.name in arms]
    with Progress(Console(file=text), trackers=trackers) as progress, opened(results, progress, Interruption()) as session:
        run_arms("sinks", chosen, (0,), session, train_claimed)
    return runs, text.getvalue()


def test_a_tracker_gets_the_whole_curve_of_a_resumed_run_and_its_record(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        run(tmp_path / "tracked", [SOFTMAX], seeds=(0,), progress=Watched(stop_at=3))
    runs, said = _tracked(tmp_path / "tracked", "softmax")
    (stored,), _ = read_records(tmp_path / "tracked")
    ((name, tracked),) = runs.items()
    assert name == f"sinks/softmax-{stored.record.arm_hash}/s0"
    assert tracked.config == stored.record.config
    losses = stored.curve().values[reading("loss")]
    # A file of curves has seven digits.
    points = {step: point["loss"] for step, point in tracked.points.items()}
    assert points == pytest.approx(dict(zip((0, 3, 6), losses, strict=True)), rel=1e-6)
    of_layers = {entry.value for entry in stored.record.measurements if entry.reading == reading("sink_rate", layer=1)}
    assert {tracked.final["sink_rate/layer_1"]} == of_layers
    assert len(tracked.final) == sum(entry.value is not None for entry in stored.record.measurements)
    # The other tracker fails, and changes nothing.
    assert said.count("--tracker broken: RuntimeError: no room for softmax; training goes on without it\n") == 1
    run(tmp_path / "untracked", [SOFTMAX], seeds=(0,))
    assert kept(tmp_path / "tracked") == kept(tmp_path / "untracked")


def test_an_arm_that_diverges_is_named_and_its_curve_ends(tmp_path: Path) -> None:
    runs, said = _tracked(tmp_path, "softmax", "wild")
    (wild,) = [stored.record for stored in read_records(tmp_path)[0] if stored.record.arm == "wild"]
    assert f"sinks: wild, seed 0, diverged: {wild.message}\n" in said
    (ended,) = [line for line in said.splitlines() if " models on " in line]
    assert ", loss softmax " in ended and ", diverged: wild" in ended
    points = {name.split("/")[1].split("-")[0]: list(tracked.points) for name, tracked in runs.items()}
    assert points["softmax"] == [0, 3, STEPS]
    assert max(points["wild"]) <= wild.steps


def test_flops_are_expected_by_structure_and_of_what_is_not_recorded(tmp_path: Path) -> None:
    gated = changed("gated", model={"gate": Gate(kind="output", per="head")})
    tuned = changed("tuned").model_copy(update={"start": Start(arm="softmax", length=16, steps=STEPS)})
    arms, seeds = (SOFTMAX, changed("fast", train={"learning_rate": 1e-1}), gated, tuned), (0, 1)
    same, other, second = flops_expected(arms, seeds, ())
    assert same == 2 * second and other > second
    run(tmp_path, [SOFTMAX], seeds)
    records: list[StoredRecord] = read_records(tmp_path)[0]
    assert flops_expected(arms, seeds, records) == [second, other, second]
    assert flops_expected(arms[:1], seeds, records) == []
    assert flops_expected(arms[:1], (0, 1, 2), records) == [second / 2]
    assert sum(stored.record.flops for stored in records) == pytest.approx(second)
