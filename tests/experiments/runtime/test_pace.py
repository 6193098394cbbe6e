"""How long training will take, from what it took so far."""

import math

from leadline.experiments.runtime.pace import Pace


class Clock:
    """Stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def _timed(clock: Clock, pace: Pace, compiling: float, steps: int, a_second: float) -> None:
    """Steps after the first one, of which `a_second` are made in a second."""
    clock.now += compiling
    pace.reach(1)
    clock.now += (steps - 1) / a_second
    pace.reach(steps)


def test_nothing_is_known_before_two_reports() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.expect("mine", [1e6])
    pace.begin(100, 0, 1e3)
    for _ in range(2):
        assert math.isnan(pace.left) and math.isnan(pace.left_in_all) and math.isnan(pace.steps_a_second)
        clock.now += 5.0
        pace.reach(1)


def test_the_rate_is_that_of_steps_since_the_first_report() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.begin(101, 40, 1e3)
    clock.now += 60.0
    pace.reach(41)
    clock.now += 10.0
    pace.reach(61)
    assert (pace.steps_a_second, pace.left) == (2.0, 20.0)


def test_groups_to_come_take_their_flops_and_what_this_one_took_besides() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.expect("mine", [3e5, 1e5])
    pace.begin(101, 0, 1e3)
    _timed(clock, pace, compiling=7.0, steps=51, a_second=10.0)
    assert pace.left == 5.0
    assert math.isclose(pace.left_in_all, 5.0 + (4e5 / 1e3) / 10.0 + 2 * 7.0)


def test_a_group_that_compiles_is_estimated_from_those_before() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.begin(101, 0, 1e3)
    _timed(clock, pace, compiling=6.0, steps=101, a_second=10.0)
    clock.now += 2.0  # to measure
    assert pace.end() == 18.0
    pace.begin(50, 0, 2e3)
    clock.now += 3.0
    assert math.isnan(pace.left)
    assert math.isclose(pace.left_in_all, 5.0 + 50 * 2e3 / 1e4)


def test_one_group_alone_has_no_other_total() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.begin(101, 0, 1e3)
    _timed(clock, pace, compiling=6.0, steps=11, a_second=10.0)
    assert pace.left == 9.0 and math.isnan(pace.left_in_all)


def test_work_of_unknown_length_makes_the_total_unknown() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.expect("computed", [math.nan])
    pace.begin(101, 0, 1e3)
    _timed(clock, pace, compiling=6.0, steps=11, a_second=10.0)
    assert math.isnan(pace.left_in_all)
    pace.expect("computed", ())
    pace.expect("mine", [1e3])
    assert not math.isnan(pace.left_in_all)


def test_work_that_trains_nothing_has_no_part_in_the_rate_of_flops() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.expect("mine", [1e3])
    pace.begin(10, 0)
    _timed(clock, pace, compiling=1.0, steps=5, a_second=1.0)
    assert (pace.left, pace.end()) == (5.0, 5.0)
    assert math.isnan(pace.left_in_all)
