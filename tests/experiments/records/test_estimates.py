"""The standard error of a mean over seeds and documents, and how often its interval is wrong."""

import math
import re

import numpy as np
import pytest
from scipy import stats

from leadline.experiments.records.decisions import decide
from leadline.experiments.records.estimates import estimate
from leadline.experiments.records.sequential import LEVEL
from tests.experiments.records.simulation import (
    DOCUMENTS,
    TRIALS,
    highest_share,
    margins_of_windows,
    margins_without,
    share_decided,
)

# Of three seeds: on all documents, then without each of four groups of them.
CROSSED = np.array([[0.5, 0.2, 0.6, 0.5, 0.7], [0.3, 0.3, 0.1, 0.4, 0.5], [0.6, 0.5, 0.8, 0.6, 0.4]])


def test_the_error_of_a_mean_is_that_over_seeds_and_the_jackknife_over_groups_of_documents() -> None:
    mean, without = estimate(CROSSED), CROSSED[:, 1:].mean(axis=0)
    variances = np.array([np.var(CROSSED[:, 0], ddof=1) / 3, 3 / 4 * np.sum((without - without.mean()) ** 2)])
    np.testing.assert_allclose(mean.variances, variances)
    assert mean.freedoms == (2, 3)
    assert mean.half(0.025) == pytest.approx(stats.t.isf(0.025, [2, 3]) @ variances / math.sqrt(variances.sum()))


@pytest.mark.parametrize("bound", [0.2, 0.4, 0.5, 1.0])
def test_p_values_over_documents_are_the_tails_of_the_interval_that_ends_at_the_bound(bound: float) -> None:
    mean = estimate(CROSSED)
    assert mean.half(mean.above(bound)) == pytest.approx(mean.mean - bound)
    assert mean.above(bound) + mean.below(bound) == pytest.approx(1)


@pytest.mark.parametrize(("seeds", "spread"), [(2, 1.0), (5, 0.3), (5, 5.0), (10, 1.0)])
def test_a_margin_of_zero_is_decided_in_at_most_one_of_twenty_cases(seeds: int, spread: float) -> None:
    draws = margins_without(seeds, 300, spread)
    assert share_decided(lambda draw: decide(draw).outcome, draws) < highest_share(LEVEL, 300)


def test_seeds_alone_would_decide_more_often() -> None:
    assert share_decided(lambda draw: decide(draw[:, :1]).outcome, margins_without(5, 300, 5.0)) > 0.1


def test_a_bootstrap_over_seeds_and_documents_would_decide_more_often() -> None:
    margins, windows = margins_of_windows(5, TRIALS)
    sums = np.stack([margins[..., windows == number].sum(axis=-1) for number in range(DOCUMENTS)], axis=-1)
    rng, draws = np.random.default_rng(0), 400
    seeds = rng.multinomial(5, np.full(5, 1 / 5), draws)
    documents = rng.multinomial(DOCUMENTS, np.full(DOCUMENTS, 1 / DOCUMENTS), draws)
    counts = 5 * documents @ np.bincount(windows, minlength=DOCUMENTS)
    means = np.einsum("bs,tsd,bd->tb", seeds, sums, documents) / counts
    low, high = np.quantile(means, [LEVEL / 2, 1 - LEVEL / 2], axis=1)
    decided = share_decided(lambda draw: decide(draw).outcome, margins_without(5, TRIALS))
    assert decided < highest_share(LEVEL) < np.mean((low > 0) | (high < 0)) < 0.2


def test_where_documents_leave_it_open_no_seed_is_asked_for() -> None:
    rng = np.random.default_rng(0)
    differing = 0.1 + 0.01 * rng.normal(size=(5, 1)) + rng.normal(size=17)
    differing += 1 - estimate(differing).mean
    reason = decide(differing).reason
    (times,) = re.findall(r"no number of seeds would decide on these documents, many seeds would on about (\d+) times", reason)
    mean = estimate(differing)
    error = math.sqrt(mean.variances[1] / int(times))
    assert stats.t.isf(0.025, 15) * error < 1 < stats.t.isf(0.025, 15) * error * math.sqrt(1 + 1 / (int(times) - 1))
    assert "about 6 seeds" in decide(np.array([0.5, -0.1, 0.6, 0.3])[:, None] + np.zeros(17)).reason


def test_seeds_that_agree_are_judged_over_documents_and_by_their_number() -> None:
    groups = 0.1 * np.random.default_rng(0).normal(size=16)
    assert decide(np.tile([0.01, *(0.01 + groups)], (6, 1))).outcome == "undecided"
    sure = np.tile([0.01, *(0.01 + 1e-6 * groups)], (6, 1))
    assert decide(sure).outcome == "holds"
    assert decide(sure[:5]).outcome == "undecided"


def test_one_model_is_judged_over_documents() -> None:
    draws = margins_without(1, 300, 50.0)  # whose own effect is small beside that of documents
    assert 0.01 < share_decided(lambda draw: decide(draw).outcome, draws) < highest_share(LEVEL, 300)
