"""The thresholds at which verdicts turn: for every claim of configs/ that names one."""

import math

import numpy as np
import pytest

from leadline.experiments.config.claim import Claim, Term
from leadline.experiments.records.arms import recorded_arms
from leadline.experiments.records.sequential import LEVEL
from leadline.experiments.records.thresholds import ratio_interval, threshold
from leadline.experiments.records.verdict import Verdict, judge
from tests.experiments.records.claimed import ROWS, Row
from tests.experiments.records.simulation import TRIALS, highest_share

# The interval of a share is the one that decides; bounds are two numbers.
NAMED = [row for row in ROWS if row.claim.relation in ("above", "below") and row.claim.share is None]


def _with(claim: Claim, value: float) -> Claim:
    """A claim that names another number, to which no difference is too small to count."""
    number = {"factor": value} if isinstance(claim.right, Term) else {"right": value / claim.factor}
    return claim.model_copy(update={"delta": None, **number})


@pytest.mark.parametrize("row", NAMED, ids=[row.claim.id for row in NAMED])
def test_a_claim_holds_on_one_side_of_its_interval_and_fails_on_the_other(row: Row) -> None:
    records = row.records(holds=True)
    arms = recorded_arms(row.study, records)

    def judged(value: float) -> Verdict:
        return judge(_with(row.claim, value), row.study, arms)

    low, high = row.verdict(records).turns or (np.nan, np.nan)
    step = 1e-6 * max(abs(low), abs(high), 1e-3)
    (stated,) = threshold(row.claim)
    assert stated < low or stated > high
    # One of several arms fails by a wider interval, and others may be judged by another one.
    away = high - low + step if row.claim.cases == "arms" else step
    outcomes = {judged(low - away).outcome, judged(high + away).outcome}
    assert outcomes == {"holds", "fails"}
    if high - low > 4 * step and row.study.exact is None:
        assert judged((low + high) / 2).outcome == "undecided"


def test_a_ratio_that_is_the_one_named_lies_outside_of_its_interval_in_one_of_twenty_cases() -> None:
    rng = np.random.default_rng(0)
    common = rng.normal(size=(TRIALS, 6))
    left, right = (mean + 0.2 * (common + rng.normal(size=common.shape)) for mean in (1.0, 2.0))
    outside = 0
    for a, b in zip(left, right, strict=True):
        low, high = ratio_interval(a, b) or (-math.inf, math.inf)
        outside += not low <= 0.5 <= high
    assert 0.03 < outside / TRIALS < highest_share(LEVEL)
