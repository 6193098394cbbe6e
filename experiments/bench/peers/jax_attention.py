"""Attention as JAX users write it, or take it from libraries for JAX."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from leadline.experiments.bench.cases.attention import compiled, gradient
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.attention import HEAD, arrays, compared


def prepare(texts: int, tokens: int, heads: int, compute: str) -> Prepared:
    """jax.nn.dot_product_attention, by cuDNN on a GPU, otherwise by XLA."""
    implementation = "cudnn" if jax.default_backend() == "gpu" else "xla"
    attend = partial(jax.nn.dot_product_attention, is_causal=True, implementation=implementation)
    return compared(gradient(attend, texts, tokens, heads, compute))


def prepare_tokamax(texts: int, tokens: int, heads: int, compute: str) -> Prepared:
    """tokamax.dot_product_attention, which chooses between kernels and XLA."""
    import tokamax

    return compared(gradient(partial(tokamax.dot_product_attention, is_causal=True), texts, tokens, heads, compute))


def prepare_transformer_engine(texts: int, tokens: int, heads: int, compute: str) -> Prepared:
    """TransformerEngine's layer, which has no weights, by cuDNN where the environment sets NVTE_FUSED_ATTN."""
    from transformer_engine.jax.flax import DotProductAttention

    layer = DotProductAttention(HEAD, heads, attn_mask_type="causal", transpose_batch_sequence=False, dtype=jnp.dtype(compute))

    def attend(q: Any, k: Any, v: Any) -> Any:
        return layer.apply({}, q, k, v, deterministic=True).reshape(q.shape)

    return compared(gradient(attend, texts, tokens, heads, compute))


def prepare_received(tokens: int, heads: int) -> Prepared:
    """The softmax of all scores, summed over queries by a product: for a mean over an axis XLA takes 100 times as long."""
    q, k = (jnp.asarray(x[0]) for x in arrays(1, tokens, heads, 2))
    ones = jnp.ones((heads, tokens))  # an argument, one row a head: else XLA transposes the matrix, or sums over its axis

    def received(q: Array, k: Array, ones: Array) -> Array:
        scores = jnp.einsum("inh,jnh->nij", q, k) * HEAD**-0.5
        visible = jnp.tril(jnp.ones((tokens, tokens), bool))
        return jnp.einsum("nij,ni->nj", jax.nn.softmax(jnp.where(visible, scores, -jnp.inf), axis=-1), ones)

    return compiled(received, heads, q, k, ones)
