"""How many seeds, or how many times as many documents, would decide an undecided claim at the same mean and spread."""

import bisect
from collections.abc import Callable

import numpy as np
from scipy import stats

from leadline.experiments.records.estimates import Estimate, Values, estimate
from leadline.experiments.records.sequential import LEVEL

MOST_SEEDS = 1000  # up to which the number that would decide is looked for
MOST_TIMES = 100  # as many documents, likewise

OutcomeOf = Callable[[float, float], str]  # of the ends of an interval


def seeds_to_decide(values: Values, outcome: OutcomeOf, level: float = LEVEL) -> int | None:
    """The number of seeds whose interval would decide at this mean and spread, on these documents; None above MOST_SEEDS.

    Args:
        values: a number or a row a seed.
        outcome: of the ends of an interval. One that lies inside a decided one has to be decided, too.
        level: of the interval.
    """
    now = estimate(values)

    def decided(count: int) -> bool:
        then = now._replace(
            variances=(now.variances[0] * len(values) / count, *now.variances[1:]), freedoms=(count - 1, *now.freedoms[1:])
        )
        return outcome(*then.interval(level)) != "undecided"

    counts = range(len(values) + 1, MOST_SEEDS + 1)
    return counts[first] if (first := bisect.bisect_left(counts, True, key=decided)) < len(counts) else None


def documents_to_decide(of_documents: Estimate, outcome: OutcomeOf, level: float = LEVEL) -> int | None:
    """How many times as many documents would decide at this mean, if seeds added nothing to its error; None above MOST_TIMES.

    Args:
        of_documents: the mean, with its error over documents alone.
        outcome: as for `seeds_to_decide`.
        level: of the interval.
    """

    def decided(times: int) -> bool:
        then = of_documents._replace(variances=(of_documents.variances[0] / times,))
        return outcome(*then.interval(level)) != "undecided"

    factors = range(2, MOST_TIMES + 1)
    return factors[first] if (first := bisect.bisect_left(factors, True, key=decided)) < len(factors) else None


def seeds_to_decide_share(count: int, n: int, share: float, level: float = LEVEL) -> int | None:
    """The number of seeds from which on the exact interval around count / n would not hold `share`; None above MOST_SEEDS.

    The interval excludes the share where one of the binomial tails beyond the count is below half of `level`.
    """
    seeds = np.arange(n + 1, MOST_SEEDS + 1)
    counts = np.round(seeds * count / n)
    tails = np.minimum(stats.binom.sf(counts - 1, seeds, share), stats.binom.cdf(counts, seeds, share))
    last_undecided = seeds[tails >= level / 2].max(initial=n)
    return int(last_undecided) + 1 if last_undecided < MOST_SEEDS else None


def about(seeds: int | None) -> str:
    """A number of seeds, for readers."""
    return f"about {seeds} seeds" if seeds else f"more than {MOST_SEEDS} seeds"
