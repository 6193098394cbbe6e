"""The attention of one text as a matrix, to be looked at: small ones only."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from model.kernels.kernel import Weigh


def attention_map(
    query: Float[Array, "T N H"],
    key: Float[Array, "T K H"],
    extra_logit: Float[Array, " N"],
    weigh: Weigh,
    *,
    scale: float,
    cap: Float[Array, ""] | None = None,
) -> Float[Array, "N T T"]:
    """What query i (row) gives to key j <= i, of every head: numerators over their mass (model.kernels.terms).

    Queries and keys as the scores are products of, turned and not yet scaled by 1/sqrt(H); nothing is added to the scores.
    Query head n reads key head n // (N / K). float32.
    """
    tokens, heads, _ = query.shape
    keys = jnp.repeat(key, heads // key.shape[1], axis=1, total_repeat_length=heads)
    scores = scale * jnp.einsum("TNH,SNH->NTS", query, keys, preferred_element_type=jnp.float32)
    scores = scores if cap is None else cap * jnp.tanh(scores / cap)
    causal = jnp.arange(tokens)[:, None] >= jnp.arange(tokens)[None, :]
    terms = weigh(jnp.where(causal[None], scores, -jnp.inf), extra_logit[:, None])
    return terms.numerators / terms.mass[..., None]
