"""TransformerEngine's attention, by cuDNN where the environment sets NVTE_FUSED_ATTN."""

from typing import Any

import jax.numpy as jnp
from transformer_engine.jax.flax import DotProductAttention

from leadline.experiments.bench.contestants.ours.attention import gradient
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.attention import HEAD, compared


def prepare(texts: int, tokens: int, heads: int, compute: str) -> Prepared:
    """Its layer, which has no weights."""
    layer = DotProductAttention(HEAD, heads, attn_mask_type="causal", transpose_batch_sequence=False, dtype=jnp.dtype(compute))

    def attend(q: Any, k: Any, v: Any) -> Any:
        return layer.apply({}, q, k, v, deterministic=True).reshape(q.shape)

    return compared(gradient(attend, texts, tokens, heads, compute))
