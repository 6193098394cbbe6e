"""Attention by tokamax, which chooses between kernels and XLA."""

from functools import partial

import tokamax

from experiments.bench.heads import value
from experiments.bench.ours_attention import gradient
from experiments.bench.worker import Prepared


def prepare(texts: int, tokens: int, heads: int, compute: str) -> Prepared:
    """The value is that of the gradients."""
    work = gradient(partial(tokamax.dot_product_attention, is_causal=True), texts, tokens, heads, compute)
    return Prepared(work, {"value": value(work())})
