"""jax.nn.dot_product_attention."""

from functools import partial

import jax

from leadline.experiments.bench.contestants.ours.attention import gradient
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.attention import compared


def prepare(texts: int, tokens: int, heads: int, compute: str) -> Prepared:
    """By cuDNN on a GPU, otherwise by XLA."""
    implementation = "cudnn" if jax.default_backend() == "gpu" else "xla"
    attend = partial(jax.nn.dot_product_attention, is_causal=True, implementation=implementation)
    return compared(gradient(attend, texts, tokens, heads, compute))
