"""The rules by which margins are decided, and how often they are wrong where there is nothing to find."""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leadline.experiments.config.claim import Claim
from leadline.experiments.data.text.held_out import Documents
from leadline.experiments.measure.perplexity import means_without
from leadline.experiments.records.comparison import TermValues, decide_cases
from leadline.experiments.records.decisions import Decision, decide, decide_share, decide_within, q_values
from leadline.experiments.records.estimates import estimate, mean_interval
from leadline.experiments.records.sequential import LEVEL, SeedPlan
from leadline.experiments.records.thresholds import ratio_interval

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
    decision = decide((0.2,) * seeds, None, level)
    assert (decision.outcome, decision.p) == (outcome, pytest.approx(min(1.0, 2 * 0.5**seeds * LEVEL / level)))
    assert decision.more_seeds == (outcome == "undecided")
    assert decide((-0.2,) * seeds, None, level).outcome == outcome.replace("holds", "fails")
    assert decide((0.2,) * seeds, 0.3, level).outcome == outcome.replace("holds", "equivalent")
    assert decide_within((0.2,) * seeds, (-0.3, 0.3), level).outcome == outcome
    assert decide_within((0.2,) * seeds, (-0.1, 0.1), level).outcome == outcome.replace("holds", "fails")


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
    first, last = decide(margins, None, 0.01), decide(margins)
    assert (first.outcome, last.outcome) == ("undecided", "holds")
    assert last.p is not None
    assert last.p < LEVEL
    assert first.p == pytest.approx(5 * last.p)


def _of_arms(draws: Sequence[np.ndarray], **settings: object) -> Decision:
    """The decision on a claim that a loss is above 0 in each of several arms."""
    of: dict[str, object] = {"quantity": "loss", "arm": "any"}
    given = {"id": "c", "statement": "s", "left": of, "relation": "above", "right": 0.0, "cases": "arms"}
    claim = Claim.model_validate(given | settings)
    return decide_cases(claim, [TermValues({}, (values,)) for values in draws], SeedPlan(len(draws[0])), exact=False)


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


TRIALS = 1000
Judge = Callable[[np.ndarray], str]


def _false(judge: Judge, draws: np.ndarray) -> float:
    """The share of draws that are decided."""
    return sum(judge(draw) in ("holds", "fails", "equivalent") for draw in draws) / len(draws)


def _most(level: float, trials: int = TRIALS) -> float:
    """What a share may come to whose mean is `level`, but for one run in 10,000."""
    return float(stats.binom.isf(1e-4, trials, level)) / trials


@pytest.mark.parametrize("seeds", [3, 6, 10])
def test_a_margin_of_zero_is_decided_in_one_of_twenty_cases(seeds: int) -> None:
    draws = np.random.default_rng(seeds).normal(size=(TRIALS, seeds))
    share = _false(lambda draw: decide(tuple(draw)).outcome, draws)
    assert 0.03 < share < _most(LEVEL)


def test_a_difference_of_delta_is_called_equivalent_in_one_of_forty_cases() -> None:
    draws = np.random.default_rng(0).normal(1.0, 0.3, size=(TRIALS, 5))
    share = _false(lambda draw: decide_within(tuple(draw), (-1.0, 1.0)).outcome.replace("fails", "undecided"), draws)
    assert 0.01 < share < _most(LEVEL / 2)


@pytest.mark.parametrize(("seeds", "share"), [(6, 0.5), (10, 0.5), (32, 0.2)])
def test_a_share_that_is_the_one_named_is_decided_in_at_most_one_of_twenty_cases(seeds: int, share: float) -> None:
    draws = np.where(np.random.default_rng(seeds).random((TRIALS, seeds)) < share, 1.0, -1.0)
    assert _false(lambda draw: decide_share(tuple(draw), share).outcome, draws) < _most(LEVEL)


def test_a_claim_about_six_arms_without_any_effect_fails_in_one_of_forty_cases() -> None:
    """It fails where one arm does. It holds where all do, which is rarer still."""
    trials = 300
    outcomes = [_of_arms(draw).outcome for draw in np.random.default_rng(6).standard_normal((trials, 6, 5, 1))]
    assert 0 < outcomes.count("fails") / trials < _most(LEVEL / 2, trials)
    assert "holds" not in outcomes


def test_of_six_arms_whose_difference_is_delta_one_is_called_equivalent_in_one_of_forty_cases() -> None:
    draws = np.random.default_rng(7).normal(0.5, 0.1, size=(300, 6, 8, 1))
    outcomes = [_of_arms(draw, delta=0.5).outcome for draw in draws]
    assert 0 < outcomes.count("equivalent") / 300 < _most(LEVEL / 2, 300)


def test_exact_arms_of_which_one_shows_no_difference_are_equivalent() -> None:
    of = {"quantity": "loss", "arm": "any"}
    given = {"id": "c", "statement": "s", "left": of, "relation": "above", "right": 0.0, "delta": 0.1, "cases": "arms"}
    cases = [TermValues({}, (np.array([[margin]]),)) for margin in (0.5, -0.01)]
    decision = decide_cases(Claim.model_validate(given), cases, SeedPlan(1), exact=True)
    assert decision[:2] == ("equivalent", "within ±0.1 in 1 of 2 cases")


def test_of_claims_with_a_small_q_one_in_twenty_is_false() -> None:
    """Four fifths of 100 claims are without an effect, and some have no p-value; in the mean of 200 ledgers."""
    rng, shares = np.random.default_rng(8), []
    for _ in range(200):
        z = rng.normal(size=100) + np.where(np.arange(100) < 80, 0.0, 3.0)
        q = q_values([*(2 * stats.norm.sf(np.abs(z))), None])
        assert q[-1] is None
        small = np.array([value is not None and value < LEVEL for value in q[:-1]])
        shares.append(small[:80].sum() / max(1, small.sum()))
    assert 0.02 < np.mean(shares) < LEVEL


def test_a_ratio_that_is_the_one_named_lies_outside_of_its_interval_in_one_of_twenty_cases() -> None:
    rng = np.random.default_rng(0)
    common = rng.normal(size=(TRIALS, 6))
    left, right = (mean + 0.2 * (common + rng.normal(size=common.shape)) for mean in (1.0, 2.0))
    outside = 0
    for a, b in zip(left, right, strict=True):
        low, high = ratio_interval(a, b) or (-math.inf, math.inf)
        outside += not low <= 0.5 <= high
    assert 0.03 < outside / TRIALS < _most(LEVEL)


class TestDocuments:
    """Margins of seeds that are all measured on the same documents, which differ more than seeds do."""

    DOCUMENTS = 54

    def margins(self, seeds: int, trials: int, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Margins [trials, seeds, windows] whose true mean is 0, and the document of each window."""
        rng = np.random.default_rng(seeds)
        windows = rng.integers(0, self.DOCUMENTS, 256)
        of_seeds, noise = rng.normal(size=(trials, seeds, 1)), rng.normal(size=(trials, seeds, 256))
        of_documents = spread * rng.normal(size=(trials, 1, self.DOCUMENTS))
        return of_seeds + of_documents[..., windows] + noise, windows

    def rows(self, seeds: int, trials: int, spread: float = 1.0) -> np.ndarray:
        """The mean margins [trials, seeds, 1 + G], on all documents and without each group."""
        margins, windows = self.margins(seeds, trials, spread)
        sizes = np.bincount(windows, minlength=self.DOCUMENTS)
        groups = Documents(np.zeros(0, np.uint8), np.zeros(self.DOCUMENTS, int), sizes, np.zeros(self.DOCUMENTS, bool)).groups()
        return np.moveaxis(means_without(np.moveaxis(margins, 2, 0), groups[windows]), 0, 2)

    @pytest.mark.parametrize(("seeds", "spread"), [(2, 1.0), (5, 0.3), (5, 5.0), (10, 1.0)])
    def test_a_margin_of_zero_is_decided_in_at_most_one_of_twenty_cases(self, seeds: int, spread: float) -> None:
        draws = self.rows(seeds, 300, spread)
        assert _false(lambda draw: decide(draw).outcome, draws) < _most(LEVEL, 300)

    def test_seeds_alone_would_decide_more_often(self) -> None:
        assert _false(lambda draw: decide(draw[:, :1]).outcome, self.rows(5, 300, 5.0)) > 0.1

    def test_a_bootstrap_over_seeds_and_documents_would_decide_more_often(self) -> None:
        margins, windows = self.margins(5, TRIALS)
        sums = np.stack([margins[..., windows == number].sum(axis=-1) for number in range(self.DOCUMENTS)], axis=-1)
        rng, draws = np.random.default_rng(0), 400
        seeds = rng.multinomial(5, np.full(5, 1 / 5), draws)
        documents = rng.multinomial(self.DOCUMENTS, np.full(self.DOCUMENTS, 1 / self.DOCUMENTS), draws)
        counts = 5 * documents @ np.bincount(windows, minlength=self.DOCUMENTS)
        means = np.einsum("bs,tsd,bd->tb", seeds, sums, documents) / counts
        low, high = np.quantile(means, [LEVEL / 2, 1 - LEVEL / 2], axis=1)
        decided = _false(lambda draw: decide(draw).outcome, self.rows(5, TRIALS))
        assert decided < _most(LEVEL) < np.mean((low > 0) | (high < 0)) < 0.2

    def test_welchs_degrees_of_freedom_would_decide_more_often_with_two_seeds(self) -> None:
        decided = 0
        for draw in self.rows(2, 1000):
            mean = estimate(draw)
            total, squares = sum(mean.variances), np.square(mean.variances)
            half = stats.t.isf(LEVEL / 2, total**2 / np.sum(squares / mean.freedoms)) * math.sqrt(total)
            decided += abs(mean.mean) > half
        assert 0.08 < decided / 1000 < 0.16

    def test_where_documents_leave_it_open_no_seed_is_asked_for(self) -> None:
        rng = np.random.default_rng(0)
        differing = 0.1 + 0.01 * rng.normal(size=(5, 1)) + rng.normal(size=17)
        differing += 1 - estimate(differing).mean
        reason = decide(differing).reason
        (times,) = re.findall(
            r"no number of seeds would decide on these documents, many seeds would on about (\d+) times", reason
        )
        mean = estimate(differing)
        error = math.sqrt(mean.variances[1] / int(times))
        assert stats.t.isf(0.025, 15) * error < 1 < stats.t.isf(0.025, 15) * error * math.sqrt(1 + 1 / (int(times) - 1))
        assert "about 6 seeds" in decide(np.array([0.5, -0.1, 0.6, 0.3])[:, None] + np.zeros(17)).reason

    def test_one_model_is_judged_over_documents(self) -> None:
        draws = self.rows(1, 300, 50.0)  # whose own effect is small beside that of documents
        assert 0.01 < _false(lambda draw: decide(draw).outcome, draws) < _most(LEVEL, 300)


class TestSeedsThatAreAdded:
    PLAN = SeedPlan(first=10, most=30)

    def test_looks_grow_by_half_up_to_the_limit(self) -> None:
        assert self.PLAN.looks() == [10, 15, 23, 30]
        assert SeedPlan(10).looks() == SeedPlan(10, 10).looks() == [10]
        assert SeedPlan(10).level(10) == pytest.approx(LEVEL)

    def test_all_looks_together_spend_the_error(self) -> None:
        levels = [self.PLAN.level(seeds) for seeds in self.PLAN.looks()]
        assert sum(levels) == pytest.approx(LEVEL)
        assert levels == sorted(levels)
        # The first look, at a third of all seeds: 2 (1 - Φ(1.96 · √3)).
        assert levels[0] == pytest.approx(2 * stats.norm.sf(1.959964 * math.sqrt(3)), rel=1e-5)
        assert self.PLAN.level(9) == self.PLAN.level(14) == levels[0]

    def decided(
        self, draws: np.ndarray, decide_at: Callable[[np.ndarray, float], Decision], level: Callable[[int], float]
    ) -> float:
        """The share of draws [trials, seeds, …] without an effect that some look decides."""

        def judge(draw: np.ndarray) -> str:
            outcomes = [decide_at(draw[:n], level(n)).outcome for n in self.PLAN.looks()]
            return next((outcome for outcome in outcomes if outcome != "undecided"), "undecided")

        return _false(judge, draws)

    @pytest.mark.parametrize("kind", ["margins", "margins on documents", "shares"])
    def test_no_effect_is_decided_in_at_most_one_of_twenty_cases_and_would_be_more_often_without_a_plan(
        self, kind: str
    ) -> None:
        def of_mean(margins: np.ndarray, level: float) -> Decision:
            return decide(margins, None, level)

        def of_share(margins: np.ndarray, level: float) -> Decision:
            return decide_share(margins, 0.5, level)

        normal = np.random.default_rng(0).normal(size=(300, self.PLAN.looks()[-1]))
        draws, decide_at = {
            "margins": (normal, of_mean),
            "margins on documents": (TestDocuments().rows(normal.shape[1], 300, 0.3), of_mean),
            "shares": (np.sign(normal), of_share),
        }[kind]
        decided = self.decided(draws, decide_at, self.PLAN.level)
        assert 0 < decided < _most(LEVEL, 300)
        assert self.decided(draws, decide_at, lambda _: LEVEL) > decided

    def test_a_difference_of_delta_is_called_equivalent_in_at_most_one_of_twenty_cases(self) -> None:
        def at_look(margins: np.ndarray, level: float) -> Decision:
            decision = decide(margins, 1.0, level)
            return decision if decision.outcome == "equivalent" else decision._replace(outcome="undecided")

        draws = np.random.default_rng(1).normal(1.0, 0.3, size=(300, self.PLAN.looks()[-1]))
        assert 0 < self.decided(draws, at_look, self.PLAN.level) < _most(LEVEL, 300)
