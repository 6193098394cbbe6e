"""What a model would say if it ended at an earlier layer."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def early_decoding(
    residuals: Float[Array, "L B T D"], decode: Callable[[Float[Array, "B T D"]], Float[Array, "B T V"]]
) -> Float[Array, " L"]:
    """KL(p_L || p_l) [nats], a mean over tokens, of the predictions p_l = softmax(decode(h_l)) from behind each layer:

        KL(p_L || p_l) = Σ_v p_L(v) (log p_L(v) - log p_l(v))

    The logit lens (nostalgebraist 2020) over its final answer. `decode` is what the model does to the last residual stream,
    final norm and unembedding, to logits. The last entry is 0; a token that the last layer rules out (logit -inf) counts
    nothing, one that only an earlier layer does makes that layer's entry infinite. The logits of the last and one other layer
    exist at once. float32.
    """

    def log_probabilities(residual: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        return jax.nn.log_softmax(decode(residual).astype(jnp.float32), axis=-1)

    final = log_probabilities(residuals[-1])

    def divergence(residual: Float[Array, "B T D"]) -> Float[Array, ""]:
        terms = jnp.exp(final) * (final - log_probabilities(residual))
        return jnp.mean(jnp.sum(jnp.where(final > -jnp.inf, terms, 0), axis=-1))

    return jax.lax.map(divergence, residuals)
