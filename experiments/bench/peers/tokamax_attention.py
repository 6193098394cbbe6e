"""Attention by tokamax, which chooses between kernels and XLA."""

from functools import partial

import tokamax

from experiments.bench.heads import compared
from experiments.bench.ours_attention import gradient
from experiments.bench.worker import Prepared


def prepare(texts: int, tokens: int, heads: int, compute: str) -> Prepared:
    """By what it takes for the fastest here."""
    return compared(gradient(partial(tokamax.dot_product_attention, is_causal=True), texts, tokens, heads, compute))
