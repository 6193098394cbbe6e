"""What contestants attend to: the same queries, keys and values for all, without JAX, which torch's process does without."""

from collections.abc import Iterable
from typing import Any

import numpy as np

HEAD = 64


def arrays(texts: int, tokens: int, heads: int) -> np.ndarray:
    """Queries, keys, values and what their output is weighed by in the loss, standard normal [4, B, T, N, H]."""
    return np.random.default_rng(0).standard_normal((4, texts, tokens, heads, HEAD), np.float32)


def value(gradients: Iterable[Any]) -> float:
    """Of those of queries, keys and values, by which contestants are seen to compute the same: their squares, added."""
    return float(sum((np.asarray(gradient, np.float64) ** 2).sum() for gradient in gradients))


def flops(texts: int, tokens: int, heads: int) -> float:
    """Of two matrix products forward and four backward, over visible keys only."""
    return 6 * 2.0 * HEAD * texts * heads * tokens * (tokens + 1) / 2
