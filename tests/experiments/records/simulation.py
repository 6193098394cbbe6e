"""Simulations of verdicts on data without any effect."""

from collections.abc import Callable

import numpy as np
from scipy import stats

from leadline.experiments.data.text.held_out import Documents
from leadline.experiments.measure.perplexity import means_without

TRIALS = 1000
DOCUMENTS = 54


def share_decided(judge: Callable[[np.ndarray], str], draws: np.ndarray) -> float:
    """The share of draws that are decided."""
    return sum(judge(draw) in ("holds", "fails", "equivalent") for draw in draws) / len(draws)


def highest_share(level: float, trials: int = TRIALS) -> float:
    """What a share may come to whose mean is `level`, but for one run in 10,000."""
    return float(stats.binom.isf(1e-4, trials, level)) / trials


def margins_of_windows(seeds: int, trials: int, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Margins [trials, seeds, windows] whose true mean is 0, and the document of each window.

    All seeds are measured on the same documents, which differ by `spread` times as much as seeds do.
    """
    rng = np.random.default_rng(seeds)
    windows = rng.integers(0, DOCUMENTS, 256)
    of_seeds, noise = rng.normal(size=(trials, seeds, 1)), rng.normal(size=(trials, seeds, 256))
    of_documents = spread * rng.normal(size=(trials, 1, DOCUMENTS))
    return of_seeds + of_documents[..., windows] + noise, windows


def margins_without(seeds: int, trials: int, spread: float = 1.0) -> np.ndarray:
    """The mean margins [trials, seeds, 1 + G] of these windows, on all documents and without each group of them."""
    margins, windows = margins_of_windows(seeds, trials, spread)
    sizes = np.bincount(windows, minlength=DOCUMENTS)
    groups = Documents(np.zeros(0, np.uint8), np.zeros(DOCUMENTS, int), sizes, np.zeros(DOCUMENTS, bool)).groups()
    return np.moveaxis(means_without(np.moveaxis(margins, 2, 0), groups[windows]), 0, 2)
