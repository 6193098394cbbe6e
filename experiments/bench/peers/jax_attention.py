"""Attention as JAX has it."""

from functools import partial

import jax

from experiments.bench.heads import compared
from experiments.bench.ours_attention import gradient
from experiments.bench.worker import Prepared


def prepare(texts: int, tokens: int, heads: int, compute: str) -> Prepared:
    """By cuDNN on a GPU, else as XLA compiles it."""
    implementation = "cudnn" if jax.default_backend() == "gpu" else "xla"
    attend = partial(jax.nn.dot_product_attention, is_causal=True, implementation=implementation)
    return compared(gradient(attend, texts, tokens, heads, compute))
