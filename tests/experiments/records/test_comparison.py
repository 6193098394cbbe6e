"""Claims about several arms."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from leadline.experiments.config.claim import Claim
from leadline.experiments.records.comparison import TermValues, decide_cases
from leadline.experiments.records.decisions import Decision, decide
from leadline.experiments.records.sequential import LEVEL, SeedPlan
from tests.experiments.records.simulation import highest_share


def _of_arms(draws: Sequence[np.ndarray], *, exact: bool = False, **settings: object) -> Decision:
    """The decision on a claim that a loss is above 0 in each of several arms."""
    of: dict[str, object] = {"quantity": "loss", "arm": "any"}
    given = {"id": "c", "statement": "s", "left": of, "relation": "above", "right": 0.0, "cases": "arms"}
    claim = Claim.model_validate(given | settings)
    return decide_cases(claim, [TermValues({}, (values,)) for values in draws], SeedPlan(len(draws[0])), exact=exact)


@pytest.mark.parametrize("rounding", [1e-14, 1e-12])
def test_rounding_is_relative_to_what_is_compared(rounding: float) -> None:
    """Differences of 1e-6 between numbers near 50, whose floats lie 7e-15 apart, agree however their last digits differ."""
    given = {"id": "c", "statement": "s", "left": {"quantity": "loss", "arm": "a"}, "right": {"quantity": "loss", "arm": "b"}}
    claim = Claim.model_validate({**given, "relation": "above"})
    right = np.array([[50.0], [51.0], [52.0]])
    left = right + 1e-6 + rounding * np.array([[0.0], [1.0], [-1.0]])
    assert np.ptp(left - right) > 0
    decision = decide_cases(claim, [TermValues({}, (left, right))], SeedPlan(3), exact=False)
    assert decision.outcome == "undecided" and "all 3 seeds agree" in decision.reason


@pytest.mark.parametrize(
    ("settings", "exact", "outcome"),
    [
        ({}, True, "fails"),
        ({"share": 0.5}, False, "fails"),
        ({"relation": "within", "bounds": (0.0, 0.3), "right": None}, True, "holds"),
        ({"relation": "within", "bounds": (0.0, 0.3), "right": None, "share": 0.5}, False, "holds"),
    ],
)
def test_what_rounding_explains_is_no_difference(settings: dict[str, object], exact: bool, outcome: str) -> None:
    values = np.full((6, 1), 0.1 + 0.2)
    assert values[0] != 0.3
    assert _of_arms([values], exact=exact, **{"right": 0.3, **settings}).outcome == outcome


@pytest.mark.parametrize(
    ("means", "spreads", "outcome"), [((0.1, 1.0), (1e-4, 0.5), "holds"), ((0.0, -0.6), (1.0, 1.0), "undecided")]
)
def test_the_least_supported_of_several_arms_is_shown(
    means: tuple[float, float], spreads: tuple[float, float], outcome: str
) -> None:
    """The second one: its spread is larger, though its margin is, too; it nearly fails."""
    noise = stats.norm.ppf(np.arange(1, 9) / 9)[:, None]
    first, second = (mean + spread * noise for mean, spread in zip(means, spreads, strict=True))
    decision = _of_arms((first, second))
    assert (decision.outcome, decision.p) == (outcome, pytest.approx(decide(second).p))


def test_exact_arms_of_which_one_shows_no_difference_are_equivalent() -> None:
    decision = _of_arms([np.array([[margin]]) for margin in (0.5, -0.01)], exact=True, delta=0.1)
    assert decision[:2] == ("equivalent", "within ±0.1 in 1 of 2 cases")


def test_of_exact_arms_those_that_are_measured_on_documents_alone_have_an_interval() -> None:
    without = np.linspace(0.45, 0.55, 16)
    on_documents = np.array([[0.5, *without]])
    half = stats.t.isf(0.025, 15) * np.sqrt(15 * np.var(without))
    decision = _of_arms([on_documents, np.array([[0.3]])], exact=True)
    assert (decision.outcome, decision.interval) == ("holds", pytest.approx((0.5 - half, 0.5 + half)))
    assert _of_arms([on_documents, np.array([[-0.3]])], exact=True).outcome == "fails"


@pytest.mark.parametrize("sign", [1, -1])
def test_an_arm_that_is_equivalent_at_the_level_of_one_alone_is_undecided_among_several(sign: int) -> None:
    noise = stats.norm.ppf(np.arange(1, 9) / 9)[:, None]
    margins = sign * (0.012 + 0.0088 * noise / noise.std(ddof=1))
    assert _of_arms([margins], delta=0.02).outcome == "equivalent"
    decision = _of_arms([margins] * 3, delta=0.02)
    assert decision.outcome == "undecided"
    assert decision.interval is not None and decision.p is not None
    nearest, furthest = sorted(map(abs, decision.interval))
    assert np.prod(decision.interval) > 0 and nearest < 0.02 < furthest and decision.p > LEVEL
    assert decision.reason.endswith("not equivalent at the level of 3 cases")


def test_a_claim_about_six_arms_without_any_effect_fails_in_one_of_forty_cases() -> None:
    """It fails where one arm does. It holds where all do, which is rarer still."""
    trials = 300
    outcomes = [_of_arms(draw).outcome for draw in np.random.default_rng(6).standard_normal((trials, 6, 5, 1))]
    assert 0 < outcomes.count("fails") / trials < highest_share(LEVEL / 2, trials)
    assert "holds" not in outcomes


def test_of_six_arms_whose_difference_is_delta_one_is_called_equivalent_in_one_of_forty_cases() -> None:
    draws = np.random.default_rng(7).normal(0.5, 0.1, size=(300, 6, 8, 1))
    outcomes = [_of_arms(draw, delta=0.5).outcome for draw in draws]
    assert 0 < outcomes.count("equivalent") / 300 < highest_share(LEVEL / 2, 300)
