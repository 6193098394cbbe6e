"""Queries, keys and values that every contestant attends with. Without JAX, so that a process of torch does not load it."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from leadline.experiments.bench.worker import Prepared

HEAD = 64


def arrays(texts: int, tokens: int, heads: int, count: int = 4, channels: int = HEAD) -> np.ndarray:
    """Standard normal arrays [count, B, T, N, H]: queries, keys, values and the weights of the output in the loss."""
    return np.random.default_rng(0).standard_normal((count, texts, tokens, heads, channels), np.float32)


def value(results: Iterable[Any]) -> float:
    """The sum of squares of arrays, which shows that contestants compute the same."""
    return float(sum((np.asarray(array, np.float64) ** 2).sum() for array in results))


def compared(work: Callable[[], Iterable[Any]]) -> Prepared:
    """A contestant whose value is the sum of squares of its results."""
    return Prepared(work, {"value": value(work())})


def flops(texts: int, tokens: int, heads: int, channels: int = HEAD) -> float:
    """FLOPs of two matrix products forward and four backward, over visible keys only."""
    return 6 * 2.0 * channels * texts * heads * tokens * (tokens + 1) / 2
