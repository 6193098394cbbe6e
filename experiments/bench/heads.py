"""What contestants attend to: the same queries, keys and values for all, without JAX, which torch's process does without."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from experiments.bench.worker import Prepared

HEAD = 64


def arrays(texts: int, tokens: int, heads: int, count: int = 4) -> np.ndarray:
    """Queries, keys, values and what their output is weighed by in the loss, or the first of these, standard normal
    [count, B, T, N, H]."""
    return np.random.default_rng(0).standard_normal((count, texts, tokens, heads, HEAD), np.float32)


def value(found: Iterable[Any]) -> float:
    """Of arrays, by which contestants are seen to compute the same: their squares, added."""
    return float(sum((np.asarray(one, np.float64) ** 2).sum() for one in found))


def compared(work: Callable[[], Iterable[Any]]) -> Prepared:
    """A contestant whose value is that of the arrays it computes."""
    return Prepared(work, {"value": value(work())})


def flops(texts: int, tokens: int, heads: int) -> float:
    """Of two matrix products forward and four backward, over visible keys only."""
    return 6 * 2.0 * HEAD * texts * heads * tokens * (tokens + 1) / 2
