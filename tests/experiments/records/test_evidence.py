import math

import numpy as np
import pytest
from scipy import stats

from leadline.experiments.records.evidence import (
    Decision,
    Evidence,
    decide,
    decide_share,
    decide_within,
    mean_interval,
    seeds_to_decide,
)

DECISIONS: list[tuple[Decision, str]] = [
    (decide(Evidence("", (1.0, 1.1, 0.9))), "holds"),
    (decide(Evidence("", (-1.0, -1.1, -0.9))), "fails"),
    (decide(Evidence("", (1.0, -1.1, 0.9))), "undecided"),
    (decide(Evidence("", (0.01, -0.01, 0.005)), 0.1), "equivalent"),
    (decide(Evidence("", (0.01, -0.01, 0.005)), 0.001), "undecided"),
    (decide(Evidence("", (0.0, 0.0, 0.0))), "undecided"),
    (decide(Evidence("", (1.0,))), "undecided"),
    (decide(Evidence("", (1.0, math.nan))), "undecided"),
    # Exact evidence is decided by every sign.
    (decide(Evidence("", (0.1, 0.2), exact=True)), "holds"),
    (decide(Evidence("", (0.1, 0.0), exact=True)), "fails"),
    (decide(Evidence("", (0.1, math.nan), exact=True)), "fails"),
    # Bounds are met where the whole interval is inside.
    (decide_within((1.0, 1.01, 0.99), (0.0, 2.0), exact=False), "holds"),
    (decide_within((3.0, 3.01, 2.99), (0.0, 2.0), exact=False), "fails"),
    (decide_within((1.9, 2.1, 2.0), (0.0, 2.0), exact=False), "undecided"),
    (decide_within((2.0,), (0.0, 2.0), exact=True), "holds"),
    (decide_within((2.1,), (0.0, 2.0), exact=True), "fails"),
    # Six seeds of which all speak for a statement are the fewest for more than half of all.
    (decide_share([1.0] * 5, 0.5), "undecided"),
    (decide_share([1.0] * 6, 0.5), "holds"),
    (decide_share([-1.0] * 6, 0.5), "fails"),
    (decide_share([1.0], 0.5), "undecided"),
]


@pytest.mark.parametrize(("decision", "outcome"), DECISIONS)
def test_the_interval_decides(decision: Decision, outcome: str) -> None:
    assert decision.outcome == outcome


def test_intervals_are_students_and_that_of_a_share_is_exact() -> None:
    values = (0.1, 0.3, 0.2, 0.5)
    half = stats.t.ppf(0.975, 3) * np.std(values, ddof=1) / 2
    assert mean_interval(values) == pytest.approx((np.mean(values) - half, np.mean(values) + half))
    assert mean_interval((0.25, 0.25)) == (0.25, 0.25)
    assert decide_share([1.0] * 5, 0.5).interval == pytest.approx((0.025**0.2, 1.0))


def test_as_many_seeds_as_are_named_would_decide() -> None:
    margins = (0.5, -0.2, 0.4)
    n = seeds_to_decide(margins)
    assert n is not None
    mean, spread = np.mean(margins), np.std(margins, ddof=1)
    halves = [stats.t.ppf(0.975, count - 1) * spread / math.sqrt(count) for count in (n - 1, n)]
    assert halves[1] < mean <= halves[0]
    assert str(n) in decide(Evidence("", margins)).reason
    assert seeds_to_decide((1.0, -1.0)) is None
