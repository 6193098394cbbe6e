"""The loss of a decoder by chunks of tokens, without the logits of all of them in memory."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from leadline.model.attention.mask import split_blocks
from leadline.model.decoder import Decoder, DecoderConfig, unembed
from leadline.model.embedding import token_losses
from leadline.model.mesh import AXES, axis_size, platform

# Logits of this size and less are computed at once [bytes].
WHOLE = 16 * 2**20
# Tokens of a chunk. With fewer, to add up the gradients of chunks takes longer: on a CPU a step with 50304 ids took a fourth
# longer with chunks of 82 tokens than with all tokens at once, and as long with chunks of 512.
CPU_TOKENS, ACCELERATOR_TOKENS = 512, 4096

Summed = Callable[[Any, Array, Any], Float[Array, ""]]


def decoder_loss(
    p: Decoder,
    x: Float[Array, "B T D"],
    targets: Int[Array, "B T"],
    weights: Float[Array, "B T"] | None,
    cfg: DecoderConfig,
    smoothing: float = 0.0,
    chunk: int | None = None,
) -> Float[Array, ""]:
    """Σ w loss / Σ w of the losses that `model.embedding.token_losses` gives of the logits of all tokens [nats].

    The gradient of a chunk of tokens is computed with its value, so that its logits are computed once and not kept. Value and
    gradient are those of the whole, to rounding.

    Args:
        p: weights, of which only those after the last layer are read.
        x: the residual stream after the last layer (`model.decoder.apply_layers`).
        targets: ids.
        weights: w of each target, through which no gradient goes; None is 1.
        cfg: the structure.
        smoothing: ε of label smoothing.
        chunk: tokens of each text whose logits exist at once; None chooses by the size of the logits (`chunk_tokens`), and
            takes all where a mesh divides texts, tokens or weights.
    """
    B, T, _ = x.shape
    weights = None if weights is None else jax.lax.stop_gradient(weights)
    total = jnp.float32(B * T) if weights is None else jnp.sum(weights)
    table = p.embedding if p.unembedding is None else p.unembedding
    # Transposed, as the product has it: so is the gradient, which is summed over the chunks.
    # Of the other weights only those after the last layer, whose gradients are summed over the chunks too.
    head = Decoder(None, None, None, p.final_norm, None, p.unembedding_bias)  # pyright: ignore[reportArgumentType]

    def summed(shared: tuple[Decoder, Array], x: Array, given: tuple[Array, Array | None]) -> Float[Array, ""]:
        scores = unembed(replace(shared[0], embedding=shared[1].T), x, cfg)
        losses = token_losses(scores, given[0], smoothing)
        return jnp.sum(losses if given[1] is None else losses * given[1].astype(losses.dtype))

    shared, given = (head, table.T), (targets, weights)
    rows = chunk or chunk_tokens(B, T, cfg.vocabulary)
    if rows >= T:
        return summed(shared, x, given) / total
    if weights is None and T % rows:
        given = (targets, jnp.ones(targets.shape, jnp.float32))  # what fills the last chunk has weight 0
    x, given = (jax.tree.map(lambda a: split_blocks(a, 1, rows), part) for part in (x, given))
    return jnp.divide(_over_chunks(summed, shared, x, given), total)


def chunk_tokens(texts: int, tokens: int, vocabulary: int) -> int:
    """Tokens of each text in a chunk, by the platform of the mesh; all where each sum over chunks would be a collective."""
    if any(axis_size(axis) > 1 for axis in AXES if axis != "arm"):
        return tokens
    if 4 * texts * tokens * vocabulary <= WHOLE:
        return tokens
    return min(tokens, math.ceil((CPU_TOKENS if platform() == "cpu" else ACCELERATOR_TOKENS) / texts))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _over_chunks(function: Summed, shared: Any, x: Float[Array, "C *_"], given: Any) -> Float[Array, ""]:
    """Σ_c function(shared, x[c], given[c]), differentiable in `shared` and x."""
    return jnp.sum(jax.lax.map(lambda part: function(shared, *part), (x, given)))


def _forward(function: Summed, shared: Any, x: Array, given: Any) -> tuple[Float[Array, ""], tuple[Any, Array]]:
    def with_chunk(sums: Any, part: tuple[Array, Any]) -> tuple[Any, tuple[Array, Array]]:
        value, (of_shared, of_x) = jax.value_and_grad(function, argnums=(0, 1))(shared, *part)
        return jax.tree.map(jnp.add, sums, of_shared), (value, of_x)

    gradient, (values, of_x) = jax.lax.scan(with_chunk, jax.tree.map(jnp.zeros_like, shared), (x, given))
    return jnp.sum(values), (gradient, of_x)


def _backward(function: Summed, saved: tuple[Any, Array], cotangent: Float[Array, ""]) -> tuple[Any, Array, None]:  # noqa: ARG001
    gradient, of_x = jax.tree.map(lambda leaf: (leaf.astype(jnp.float32) * cotangent).astype(leaf.dtype), saved)
    return gradient, of_x, None


_over_chunks.defvjp(_forward, _backward)
