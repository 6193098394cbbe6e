"""What trackers get, and what happens to a run when one of them fails."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from leadline.experiments.runtime.tracking import Run, Tracking


@dataclass
class Kept:
    """A tracker's run that keeps what it gets."""

    run: Run
    points: list[tuple[int, Mapping[str, float]]] = field(default_factory=list)
    final: Mapping[str, float] | None = None
    whole: bool | None = None
    shown_by: str = "look here"

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.points.append((step, values))

    def finish(self, values: Mapping[str, float], *, whole: bool) -> None:
        self.final, self.whole = values, whole


class Broken(Kept):
    def log(self, step: int, values: Mapping[str, float]) -> None:
        raise RuntimeError(f"no more room\nat step {step}, {len(values)}")


def run(seed: int = 0) -> Run:
    return Run("mine", "softmax", "0" * 12, seed, dict)


def test_points_come_once_in_order_and_without_what_is_not_finite() -> None:
    kept, told = list[Kept](), list[str]()

    def begin(run: Run) -> Kept:
        kept.append(Kept(run))
        return kept[-1]

    tracking = Tracking("toy", begin, told.append)
    curve = np.array([3.0, np.nan, 1.0])
    for points in (1, 1, 3):
        tracking.curve(run(), np.array([0, 10, 20])[:points], {"loss": curve[:points], "sink_rate": np.ones(points)})
    tracking.curve(run(1), np.array([5]), {"loss": np.array([2.0])})
    tracking.final(run(), {"loss": 0.5})
    tracking.close()
    first, second = kept
    assert first.points == [
        (0, {"loss": 3.0, "sink_rate": 1.0}),
        (10, {"sink_rate": 1.0}),
        (20, {"loss": 1.0, "sink_rate": 1.0}),
    ]
    assert (first.run.name, first.final, first.whole) == ("mine/softmax-000000000000/s0", {"loss": 0.5}, True)
    assert (second.points, second.final, second.whole) == ([(5, {"loss": 2.0})], {}, False)  # it was broken off
    assert told == ["--tracker toy: look here"]


def test_whatever_a_library_raises_is_said_once() -> None:
    told = list[str]()
    tracking = Tracking("toy", Broken, told.append)
    for _ in range(3):
        tracking.curve(run(), np.array([7]), {"loss": np.array([1.0])})
    tracking.final(run(), {"loss": 0.5})
    tracking.close()
    assert told == [
        "--tracker toy: look here",
        "--tracker toy: RuntimeError: no more room at step 7, 1; training goes on without it",
    ]


@pytest.mark.parametrize("error", [ModuleNotFoundError("No module named 'toy'"), TimeoutError("no network")])
def test_a_run_that_cannot_be_opened_is_said_once(error: Exception) -> None:
    told = list[str]()

    def begin(run: Run) -> Kept:  # noqa: ARG001
        raise error

    tracking = Tracking("toy", begin, told.append)
    tracking.curve(run(), np.array([7]), {"loss": np.array([1.0])})
    tracking.close()
    assert told == [f"--tracker toy: {type(error).__name__}: {error}; training goes on without it"]


def test_a_tracker_that_hangs_delays_nothing_and_is_given_up_at_the_end() -> None:
    told, hanging = list[str](), threading.Event()

    def begin(run: Run) -> Kept:
        hanging.wait()
        return Kept(run)

    tracking = Tracking("toy", begin, told.append)
    tracking.curve(run(), np.array([7]), {"loss": np.array([1.0])})
    tracking.close(0.05)
    assert told == ["--tracker toy: not done after 0 s; what it has not written or sent is lost"]
    hanging.set()
