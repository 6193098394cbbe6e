"""The rules by which margins are decided, and how often they are wrong where there is nothing to find."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leadline.experiments.records.decisions import Decision, decide, decide_share, decide_within
from leadline.experiments.records.estimates import mean_interval
from leadline.experiments.records.sequential import LEVEL, Levels
from tests.experiments.records.simulation import TRIALS, highest_share, share_decided

DECISIONS: list[tuple[Decision, str]] = [
    (decide((1.0, 1.1, 0.9)), "holds"),
    (decide((-1.0, -1.1, -0.9)), "fails"),
    (decide((1.0, -1.1, 0.9)), "undecided"),
    (decide((0.01, -0.01, 0.005), 0.1), "equivalent"),
    (decide((0.01, -0.01, 0.005), 0.001), "undecided"),
    (decide((0.0, 0.0, 0.0)), "undecided"),
    (decide((1.0,)), "undecided"),
    (decide((1.0, math.nan)), "undecided"),
    # Exact evidence is decided by every sign.
    (decide((0.1, 0.2), exact=True), "holds"),
    (decide((0.1, 0.0), exact=True), "fails"),
    (decide((0.1, math.nan), exact=True), "fails"),
    # One that is small counts as none.
    (decide((0.1, -0.1), 0.2, exact=True), "equivalent"),
    (decide((0.3, 0.1), 0.2, exact=True), "equivalent"),
    (decide((0.3, 0.2), 0.2, exact=True), "holds"),
    (decide((0.3, -0.2), 0.2, exact=True), "fails"),
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


@pytest.mark.parametrize(
    ("decision", "text"),
    [
        (decide((1.0, 2.0), mean="mean log margin"), "mean log margin"),
        (decide_within((1.0, 2.0), (0.0, 3.0)), "mean"),
        (decide_share([1.0, -1.0], 0.5), "share of seeds"),
        (decide((1.0,)), ""),
    ],
)
def test_a_decision_says_what_its_interval_is_of(decision: Decision, text: str) -> None:
    assert decision.interval_of == text


def test_intervals_are_students_and_that_of_a_share_is_exact() -> None:
    values = (0.1, 0.3, 0.2, 0.5)
    half = stats.t.ppf(0.975, 3) * np.std(values, ddof=1) / 2
    assert mean_interval(values) == pytest.approx((np.mean(values) - half, np.mean(values) + half))
    assert mean_interval((0.25, 0.25)) == (0.25, 0.25)
    assert decide_share([1.0] * 5, 0.5).interval == pytest.approx((0.025**0.2, 1.0))


def _p(values: tuple[float, ...], mean: float, alternative: str = "two-sided") -> float:
    tested: Any = stats.ttest_1samp(values, mean, alternative=alternative)
    return float(tested.pvalue)


SMALL = (0.01, -0.01, 0.005)


@pytest.mark.parametrize(
    ("decision", "p"),
    [
        (decide((0.1, 0.3, 0.2, 0.5)), _p((0.1, 0.3, 0.2, 0.5), 0)),
        (decide((0.1, -0.3, 0.2, 0.5)), _p((0.1, -0.3, 0.2, 0.5), 0)),
        (decide(SMALL, 0.1), 2 * max(_p(SMALL, -0.1, alternative="greater"), _p(SMALL, 0.1, alternative="less"))),
        (decide_within((1.0, 1.2, 0.9), (0.0, 2.0)), 2 * _p((1.0, 1.2, 0.9), 2.0, alternative="less")),
        (decide_within((3.0, 3.2, 2.9), (0.0, 2.0)), 2 * _p((3.0, 3.2, 2.9), 2.0, alternative="greater")),
        (decide_share([1.0] * 7 + [-1.0], 0.5), stats.binomtest(7, 8, 0.5).pvalue),
    ],
)
def test_p_values_are_those_of_scipy(decision: Decision, p: float) -> None:
    assert decision.p == pytest.approx(p)
    assert (decision.outcome != "undecided") == (p < LEVEL)


@pytest.mark.parametrize(
    ("seeds", "level", "outcome"), [(2, 0.05, "undecided"), (5, 0.05, "undecided"), (6, 0.05, "holds"), (6, 0.01, "undecided")]
)
def test_seeds_without_spread_are_decided_by_their_signs(seeds: int, level: float, outcome: str) -> None:
    decision = decide((0.2,) * seeds, None, Levels(level))
    assert (decision.outcome, decision.p) == (outcome, pytest.approx(min(1.0, 2 * 0.5**seeds * LEVEL / level)))
    assert decision.more_seeds == (outcome == "undecided")
    assert decide((-0.2,) * seeds, None, Levels(level)).outcome == outcome.replace("holds", "fails")
    assert decide((0.2,) * seeds, 0.3, Levels(level)).outcome == outcome.replace("holds", "equivalent")
    assert decide_within((0.2,) * seeds, (-0.3, 0.3), Levels(level)).outcome == outcome
    assert decide_within((0.2,) * seeds, (-0.1, 0.1), Levels(level)).outcome == outcome.replace("holds", "fails")


def test_seeds_that_differ_by_rounding_alone_have_no_spread() -> None:
    margins = np.array([0.3, 0.4]) - np.array([0.1, 0.2])
    assert np.ptp(margins) > 0
    decision = decide(margins, rounding=1e-15)
    assert decision.outcome == "undecided"
    assert decision.reason.endswith("all 2 seeds agree, p = 0.5 by a sign test; 6 seeds that agree would decide")


def test_seeds_that_differ_from_zero_by_rounding_alone_have_no_difference() -> None:
    decision = decide((0.1 + 0.2 - 0.3, 0.0, 0.3 - 0.1 - 0.2), rounding=1e-15)
    assert (decision.outcome, decision.more_seeds) == ("undecided", False)
    assert decision.reason.endswith("no difference in any seed")


def test_a_share_does_not_depend_on_groups_of_documents() -> None:
    margins = np.array([[1.0, np.inf, 1.0]] * 6)
    assert decide_share(margins, 0.5) == decide_share(margins[:, 0], 0.5)


def test_seeds_without_any_difference_decide_nothing_however_many() -> None:
    decision = decide((0.0,) * 20)
    assert (decision.outcome, decision.more_seeds) == ("undecided", False)
    assert decision.reason.endswith("no difference in any seed")


@pytest.mark.parametrize("exact", [True, False])
def test_a_difference_below_delta_counts_as_none_whatever_its_sign(exact: bool) -> None:
    margins = (0.1, 0.11, 0.09, 0.1, 0.1, 0.1)
    assert decide(margins, exact=exact).outcome == "holds"
    assert decide(margins, 0.2, exact=exact).outcome == "equivalent"
    assert decide([-margin for margin in margins], 0.2, exact=exact).outcome == "equivalent"
    assert decide(margins, 0.05, exact=exact).outcome == "holds"


def test_a_claim_is_decided_where_its_p_is_below_the_level_of_all_looks() -> None:
    margins = (0.1, 0.3, 0.2, 0.5)
    first, last = decide(margins, None, Levels(0.01)), decide(margins)
    assert (first.outcome, last.outcome) == ("undecided", "holds")
    assert last.p is not None
    assert last.p < LEVEL
    assert first.p == pytest.approx(5 * last.p)


@pytest.mark.parametrize("seeds", [3, 6, 10])
def test_a_margin_of_zero_is_decided_in_one_of_twenty_cases(seeds: int) -> None:
    draws = np.random.default_rng(seeds).normal(size=(TRIALS, seeds))
    share = share_decided(lambda draw: decide(tuple(draw)).outcome, draws)
    assert 0.03 < share < highest_share(LEVEL)


def test_a_difference_of_delta_is_called_equivalent_in_one_of_forty_cases() -> None:
    draws = np.random.default_rng(0).normal(1.0, 0.3, size=(TRIALS, 5))
    share = share_decided(lambda draw: decide_within(tuple(draw), (-1.0, 1.0)).outcome.replace("fails", "undecided"), draws)
    assert 0.01 < share < highest_share(LEVEL / 2)


@pytest.mark.parametrize(("seeds", "share"), [(6, 0.5), (10, 0.5), (32, 0.2)])
def test_a_share_that_is_the_one_named_is_decided_in_at_most_one_of_twenty_cases(seeds: int, share: float) -> None:
    draws = np.where(np.random.default_rng(seeds).random((TRIALS, seeds)) < share, 1.0, -1.0)
    assert share_decided(lambda draw: decide_share(tuple(draw), share).outcome, draws) < highest_share(LEVEL)


@pytest.mark.parametrize("seeds", [3, 5, 6, 10])
def test_counts_that_are_as_often_against_a_claim_are_decided_in_at_most_one_of_twenty_cases(seeds: int) -> None:
    """A quarter of the cases of three seeds have no spread: without the sign test they would be decided."""
    draws = np.where(np.random.default_rng(seeds).random((TRIALS, seeds)) < 0.5, 1.0, -1.0)
    assert share_decided(lambda draw: decide(tuple(draw)).outcome, draws) < highest_share(LEVEL)
