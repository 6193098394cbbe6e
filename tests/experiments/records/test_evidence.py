import math

import numpy as np
import pytest
from scipy import stats

from leadline.experiments.records.evidence import (
    Evidence,
    decide,
    decide_share,
    decide_within,
    mean_interval,
    seeds_to_decide,
)


def test_interval_is_students() -> None:
    values = (0.1, 0.3, 0.2, 0.5)
    half = stats.t.ppf(0.975, 3) * np.std(values, ddof=1) / 2
    assert mean_interval(values) == pytest.approx((np.mean(values) - half, np.mean(values) + half))
    assert mean_interval((0.25, 0.25)) == (0.25, 0.25)


@pytest.mark.parametrize(
    ("margins", "delta", "outcome"),
    [
        ((1.0, 1.1, 0.9), None, "holds"),
        ((-1.0, -1.1, -0.9), None, "fails"),
        ((1.0, -1.1, 0.9), None, "undecided"),
        ((0.01, -0.01, 0.005), 0.1, "equivalent"),
        ((0.01, -0.01, 0.005), 0.001, "undecided"),
        ((0.0, 0.0, 0.0), None, "undecided"),
        ((1.0,), None, "undecided"),
        ((1.0, math.nan), None, "undecided"),
    ],
)
def test_the_interval_of_the_mean_margin_decides(margins: tuple[float, ...], delta: float | None, outcome: str) -> None:
    assert decide(Evidence("", margins), delta).outcome == outcome


@pytest.mark.parametrize(("margins", "outcome"), [((0.1, 0.2), "holds"), ((0.1, 0.0), "fails"), ((0.1, math.nan), "fails")])
def test_exact_evidence_is_decided_by_every_sign(margins: tuple[float, ...], outcome: str) -> None:
    assert decide(Evidence("", margins, exact=True)).outcome == outcome


@pytest.mark.parametrize(
    ("values", "exact", "outcome"),
    [
        ((1.0, 1.01, 0.99), False, "holds"),
        ((3.0, 3.01, 2.99), False, "fails"),
        ((1.9, 2.1, 2.0), False, "undecided"),
        ((2.0,), True, "holds"),
        ((2.1,), True, "fails"),
    ],
)
def test_bounds_are_met_where_the_whole_interval_is_inside(values: tuple[float, ...], exact: bool, outcome: str) -> None:
    assert decide_within(values, (0.0, 2.0), exact=exact).outcome == outcome


def test_a_share_of_seeds_has_the_exact_interval() -> None:
    five, six = (decide_share([1.0] * n, 0.5) for n in (5, 6))
    assert five.outcome == "undecided" and five.interval == pytest.approx((0.025**0.2, 1.0))
    assert six.outcome == "holds"
    assert decide_share([-1.0] * 6, 0.5).outcome == "fails"
    assert decide_share([1.0], 0.5).outcome == "undecided"


def test_as_many_seeds_as_are_named_would_decide() -> None:
    margins = (0.5, -0.2, 0.4)
    n = seeds_to_decide(margins)
    assert n is not None
    mean, spread = np.mean(margins), np.std(margins, ddof=1)
    halves = [stats.t.ppf(0.975, count - 1) * spread / math.sqrt(count) for count in (n - 1, n)]
    assert halves[1] < mean <= halves[0]
    assert str(n) in decide(Evidence("", margins)).reason
    assert seeds_to_decide((1.0, -1.0)) is None
