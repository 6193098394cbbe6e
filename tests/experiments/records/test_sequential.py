"""Seeds that are added until a claim is decided."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from leadline.experiments.records.decisions import Decision, decide, decide_share
from leadline.experiments.records.sequential import LEVEL, Levels, SeedPlan
from tests.experiments.records.simulation import highest_share, margins_without, share_decided

PLAN = SeedPlan(first=10, most=30)


def test_looks_grow_by_half_up_to_the_limit() -> None:
    assert PLAN.looks() == [10, 15, 23, 30]
    assert SeedPlan(10).looks() == SeedPlan(10, 10).looks() == [10]
    assert SeedPlan(10).level(10) == pytest.approx(LEVEL)


@pytest.mark.parametrize("first", range(2, 23))
def test_no_look_has_a_smaller_error_than_the_one_before(first: int) -> None:
    """A claim that is decided could be undecided again at a look with a smaller error."""
    plan = SeedPlan(first, 30)
    levels = [plan.level(seeds) for seeds in plan.looks()]
    assert levels == sorted(levels)
    assert plan.levels(first, cases=2) == Levels(levels[0] / 2, max(levels) / 2)


def test_all_looks_together_spend_the_error() -> None:
    levels = [PLAN.level(seeds) for seeds in PLAN.looks()]
    assert sum(levels) == pytest.approx(LEVEL)
    assert levels == sorted(levels)
    # The first look, at a third of all seeds: 2 (1 - Φ(1.96 · √3)).
    assert levels[0] == pytest.approx(2 * stats.norm.sf(1.959964 * math.sqrt(3)), rel=1e-5)
    assert PLAN.level(9) == PLAN.level(14) == levels[0]


def _share_of_some_look(
    draws: np.ndarray, decide_at: Callable[[np.ndarray, float], Decision], level: Callable[[int], float]
) -> float:
    """The share of draws [trials, seeds, …] without an effect that some look decides."""

    def judge(draw: np.ndarray) -> str:
        outcomes = [decide_at(draw[:n], level(n)).outcome for n in PLAN.looks()]
        return next((outcome for outcome in outcomes if outcome != "undecided"), "undecided")

    return share_decided(judge, draws)


@pytest.mark.parametrize("kind", ["margins", "margins on documents", "shares"])
def test_no_effect_is_decided_in_at_most_one_of_twenty_cases_and_would_be_more_often_without_a_plan(kind: str) -> None:
    def of_mean(margins: np.ndarray, level: float) -> Decision:
        return decide(margins, None, Levels(level))

    def of_share(margins: np.ndarray, level: float) -> Decision:
        return decide_share(margins, 0.5, Levels(level))

    normal = np.random.default_rng(0).normal(size=(300, PLAN.looks()[-1]))
    draws, decide_at = {
        "margins": (normal, of_mean),
        "margins on documents": (margins_without(normal.shape[1], 300, 0.3), of_mean),
        "shares": (np.sign(normal), of_share),
    }[kind]
    decided = _share_of_some_look(draws, decide_at, PLAN.level)
    assert 0 < decided < highest_share(LEVEL, 300)
    assert _share_of_some_look(draws, decide_at, lambda _: LEVEL) > decided


def test_a_difference_of_delta_is_called_equivalent_in_at_most_one_of_twenty_cases() -> None:
    def at_look(margins: np.ndarray, level: float) -> Decision:
        decision = decide(margins, 1.0, Levels(level))
        return decision if decision.outcome == "equivalent" else decision._replace(outcome="undecided")

    draws = np.random.default_rng(1).normal(1.0, 0.3, size=(300, PLAN.looks()[-1]))
    assert 0 < _share_of_some_look(draws, at_look, PLAN.level) < highest_share(LEVEL, 300)
