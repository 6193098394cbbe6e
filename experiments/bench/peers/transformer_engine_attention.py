"""Attention by TransformerEngine, through cuDNN where the environment says so (NVTE_FUSED_ATTN)."""

from typing import Any

import jax.numpy as jnp
from transformer_engine.jax.flax import DotProductAttention

from experiments.bench.heads import HEAD, compared
from experiments.bench.ours_attention import gradient
from experiments.bench.worker import Prepared


def prepare(texts: int, tokens: int, heads: int, compute: str) -> Prepared:
    """A layer without weights."""
    layer = DotProductAttention(HEAD, heads, attn_mask_type="causal", transpose_batch_sequence=False, dtype=jnp.dtype(compute))

    def attend(q: Any, k: Any, v: Any) -> Any:
        return layer.apply({}, q, k, v, deterministic=True).reshape(q.shape)

    return compared(gradient(attend, texts, tokens, heads, compute))
