"""What a model would predict if it ended at an earlier layer."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder, decoded
from leadline.model.positions.tables import PositionTables


def early_decoding(
    residuals: Float[Array, "L B T D"], decode: Callable[[Float[Array, "B T D"]], Float[Array, "B T V"]]
) -> Float[Array, " L"]:
    """Divergence of the prediction behind each layer from the final one, a mean over tokens [nats]:

        KL(p_L || p_l) = Σ_v p_L(v) (log p_L(v) - log p_l(v)),      p_l = softmax(decode(h_l))

    The logit lens (nostalgebraist 2020), compared with the final prediction. The logits of the last and of one other layer
    exist at once. float32.

    Args:
        residuals: the residual stream behind each layer.
        decode: final norm and unembedding, to logits.

    Returns:
        One number a layer, the last of which is 0. A token that the last layer rules out (logit -inf) adds nothing; a token
        that only an earlier layer rules out makes that layer's number infinite.
    """

    def log_probabilities(residual: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        return jax.nn.log_softmax(decode(residual).astype(jnp.float32), axis=-1)

    final = log_probabilities(residuals[-1])

    def divergence(residual: Float[Array, "B T D"]) -> Float[Array, ""]:
        terms = jnp.exp(final) * (final - log_probabilities(residual))
        return jnp.mean(jnp.sum(jnp.where(final > -jnp.inf, terms, 0), axis=-1))

    return jax.lax.map(divergence, residuals)


def early_divergence(
    params: Decoder, tables: PositionTables, batches: Int[Array, "C B T_and_1"], cfg: DecoderConfig
) -> Float[Array, " L"]:
    """`early_decoding` of a model on the inputs of C batches, a mean over them."""

    def of_batch(tokens: Int[Array, "B T_and_1"]) -> Float[Array, " L"]:
        _, residuals = apply_decoder(params, tokens[:, :-1], tables, cfg, measure=lambda trace: trace.residual)
        return early_decoding(residuals, lambda residual: decoded(params, residual))

    return jnp.mean(jax.lax.map(of_batch, batches), axis=0)
