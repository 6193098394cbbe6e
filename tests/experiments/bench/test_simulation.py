"""The simulated cluster against closed forms: list scheduling without failures, Young's and Daly's intervals with them."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leadline.experiments.bench.simulation import HOUR, Sweep, arm_hours, daly, expected, main, simulated, table, young
from leadline.experiments.publish.table import markdown

DOCUMENT = Path(__file__).parents[3] / "docs" / "scaling.md"
SMALL = Sweep(arms=40, devices=1, hours=2.0, mtbf=1.0, checkpoint=30.0, restart=60.0)


def test_without_failures_and_savings_it_is_list_scheduling() -> None:
    sweep = Sweep(arms=300, devices=16, checkpoint=0.0)
    hours = arm_hours(sweep)
    schedule = simulated(sweep, math.inf)
    assert (schedule.failures, schedule.lost, schedule.saving) == (0, 0.0, 0.0)
    assert schedule.work == pytest.approx(hours.sum())
    # Graham 1966, doi:10.1002/j.1538-7305.1966.tb01709.x
    longest, share = hours.max(), hours.sum() / 16
    assert max(longest, share) <= schedule.makespan <= share + (1 - 1 / 16) * longest
    assert simulated(replace(sweep, devices=300), math.inf).makespan == pytest.approx(longest)


def test_one_device_takes_the_expected_time_of_the_closed_form() -> None:
    """Arms of whole intervals: the closed form is of these."""
    for interval in (120.0, 600.0, 1800.0):
        case = replace(SMALL, arms=600)
        ran = simulated(case, interval, np.full(600, 1.0))
        closed = expected(600 * HOUR, interval, 30.0, 60.0, HOUR)
        assert ran.makespan * HOUR == pytest.approx(closed, rel=0.03), interval
        assert ran.makespan == pytest.approx(ran.work + ran.lost + ran.saving + ran.restarting)


@pytest.mark.parametrize("checkpoint", [1.0, 30.0, 300.0])
def test_the_interval_of_daly_is_that_of_the_least_expected_time(checkpoint: float) -> None:
    intervals = np.geomspace(10.0, 20_000.0, 20_001)
    times = [expected(1.0, interval, checkpoint, 60.0, HOUR) for interval in intervals]
    best = intervals[int(np.argmin(times))]
    assert daly(checkpoint, HOUR) == pytest.approx(best, rel=0.01)
    assert young(checkpoint, HOUR) == math.sqrt(2 * checkpoint * HOUR) > daly(checkpoint, HOUR)
    assert daly(3 * HOUR, HOUR) == HOUR  # where a checkpoint takes longer than a device lasts


def test_the_interval_of_daly_is_better_than_shorter_and_longer_ones() -> None:
    case = replace(SMALL, arms=600)
    best = daly(30.0, HOUR)
    times = [simulated(case, factor * best).makespan for factor in (0.25, 1.0, 4.0)]
    assert min(times) == times[1]


def test_a_seed_decides_everything() -> None:
    assert simulated(SMALL, 600.0) == simulated(SMALL, 600.0) != simulated(replace(SMALL, seed=1), 600.0)


def test_the_page_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["simulation"])
    main()
    printed = capsys.readouterr().out.strip()
    assert printed == markdown(table(Sweep())).strip()
    assert printed in DOCUMENT.read_text(encoding="utf-8")
