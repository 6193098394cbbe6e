"""tokamax.dot_product_attention, which chooses between kernels and XLA."""

from functools import partial

import tokamax

from leadline.experiments.bench.contestants.ours.attention import gradient
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.attention import compared


def prepare(texts: int, tokens: int, heads: int, compute: str) -> Prepared:
    """By the implementation that it chooses."""
    return compared(gradient(partial(tokamax.dot_product_attention, is_causal=True), texts, tokens, heads, compute))
