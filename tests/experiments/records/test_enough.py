"""How many seeds would decide, as the reasons of undecided claims say, against the intervals of so many."""

import math
import re

import numpy as np
import pytest
from scipy import stats

from leadline.experiments.records.decisions import Decision, decide, decide_share, decide_within
from leadline.experiments.records.sequential import Levels


def _named(decision: Decision) -> int:
    """The number of seeds that would decide, as the reason says."""
    (number,) = re.findall(r"about (\d+) seeds would decide", decision.reason)
    return int(number)


@pytest.mark.parametrize(
    ("margins", "delta", "edge"), [((0.5, -0.2, 0.4), None, 0.0), ((0.1, -0.2, 0.13), 0.3, 0.3), ((0.5, -0.2, 0.4), 0.25, 0.0)]
)
def test_as_many_seeds_as_are_named_would_decide(margins: tuple[float, ...], delta: float | None, edge: float) -> None:
    """The interval of the mean would leave 0, or lie inside of ±delta, whichever comes first."""
    n, mean, spread = _named(decide(margins, delta)), np.mean(margins), np.std(margins, ddof=1)
    halves = [stats.t.ppf(0.975, count - 1) * spread / math.sqrt(count) for count in (n - 1, n)]
    assert halves[1] < abs(mean - edge) <= halves[0]


def test_as_many_seeds_as_are_named_would_place_a_mean_within_its_bounds() -> None:
    values = (0.5, -0.2, 0.4)
    n, mean, spread = _named(decide_within(values, (-1.0, 1.0))), np.mean(values), np.std(values, ddof=1)
    uppers = [mean + stats.t.ppf(0.975, count - 1) * spread / math.sqrt(count) for count in (n - 1, n)]
    assert uppers[1] < 1.0 <= uppers[0]


def test_without_a_mean_no_number_of_seeds_is_named() -> None:
    assert "more than 1000 seeds would decide" in decide((1.0, -1.0)).reason


def test_as_many_seeds_as_are_named_would_decide_a_share() -> None:
    # 3 of 3 seeds: the exact interval begins at 0.025^(1/n), which is above 0.5 from 6 seeds on.
    decision = decide_share([1.0] * 3, 0.5)
    assert decision.outcome == "undecided"
    assert "about 6 seeds would decide at this share" in decision.reason
    assert "no number of seeds would decide" in decide_share([1.0, 1.0, -1.0, -1.0], 0.5).reason


def test_what_would_decide_is_judged_at_the_largest_level_of_all_looks() -> None:
    """The documents alone have the standard error 0.1: the mean of 0.27 is beyond 2.1 of them, and within 3.2."""
    without = 0.27 + 0.1 / math.sqrt(15) * np.resize([1.0, -1.0], 16)
    margins = np.array([[0.27 + seed, *(without + seed)] for seed in (-0.1, 0.0, 0.1, 0.0)])
    first, last = decide(margins, None, Levels(0.006, 0.006)), decide(margins, None, Levels(0.006, 0.05))
    assert "no number of seeds would decide on these documents" in first.reason and not first.more_seeds
    assert last.more_seeds and _named(last) > 4
    assert last.interval == first.interval
    assert _named(decide_share([1.0] * 9, 0.7, Levels(0.01, 0.01))) > _named(decide_share([1.0] * 9, 0.7, Levels(0.01, 0.05)))
