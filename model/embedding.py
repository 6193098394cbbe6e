"""Tokens to vectors and back."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from leadline.model.linear import project
from leadline.model.mesh import RESIDUAL, on_mesh


def embed(
    table: Float[Array, "V D"], tokens: Int[Array, "B T"], *, scaled: bool, zero_id: int | None = None
) -> Float[Array, "B T D"]:
    """table[tokens], times sqrt(D) if `scaled` (Vaswani et al. 2017). Tokens outside 0 … V - 1 are clipped.

    Args:
        table: embeddings.
        tokens: ids.
        scaled: whether they are multiplied by sqrt(D).
        zero_id: id whose embedding is 0, through which no gradient goes; None is none.
    """
    x = table.at[tokens].get(mode="clip", wrap_negative_indices=False, out_sharding=on_mesh(RESIDUAL))
    x = x if zero_id is None else jnp.where((tokens == zero_id)[..., None], 0, x)
    return x * table.shape[1] ** 0.5 if scaled else x


def logits(x: Float[Array, "B T D"], unembedding: Float[Array, "V D"]) -> Float[Array, "B T V"]:
    """x · unembeddingᵀ in float32; a tied model passes its embedding table."""
    return project(x, unembedding.T, out_sharding=RESIDUAL, dtype="float32")


def token_losses(scores: Float[Array, "B T V"], targets: Int[Array, "B T"], smoothing: float = 0.0) -> Float[Array, "B T"]:
    """-Σ_v q_v ln softmax(scores)_v of every position [nats], float32, q_v = (1 - ε) [v = target] + ε / V.

    Args:
        scores: logits.
        targets: ids.
        smoothing: ε of label smoothing (Szegedy et al. 2016, arXiv:1512.00567, section 7); 0 is the cross-entropy.
    """
    scores = scores.astype(jnp.float32)
    chosen = jnp.take_along_axis(scores, targets[..., None], axis=-1)[..., 0]
    if smoothing:
        chosen = (1 - smoothing) * chosen + smoothing * jnp.mean(scores, axis=-1)
    return jax.nn.logsumexp(scores, axis=-1) - chosen
