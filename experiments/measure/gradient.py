"""How large the gradients of each layer are."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from leadline.experiments.measure.perplexity import mean_loss
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder
from leadline.model.embedding import token_losses
from leadline.model.positions.tables import PositionTables


def gradient_norms(blocks: Any) -> Float[Array, " L"]:
    """The norm of each layer's gradient, sqrt(Σ g²) over its weights; float32.

    Args:
        blocks: a tree of stacked gradients [L, …], such as those of a decoder's blocks.

    Raises:
        ValueError: if the tree is empty or its leaves do not agree on L.
    """
    leaves = jax.tree.leaves(blocks)
    depths = {leaf.shape[:1] for leaf in leaves}
    if len(depths) != 1 or () in depths:
        raise ValueError(f"gradients of stacked layers have one leading axis in common, not {sorted(depths)}")
    squares = [jnp.sum(jnp.square(leaf.astype(jnp.float32)), axis=tuple(range(1, leaf.ndim))) for leaf in leaves]
    return jnp.sqrt(jnp.sum(jnp.stack(squares), axis=0))


def loss_gradient_norms(
    params: Decoder, tables: PositionTables, tokens: Int[Array, "B T_and_1"], cfg: DecoderConfig
) -> Float[Array, " L"]:
    """`gradient_norms` of the mean loss of one batch."""

    def loss(weights: Decoder) -> Float[Array, ""]:
        scores, _ = apply_decoder(weights, tokens[:, :-1], tables, cfg)
        return mean_loss(token_losses(scores, tokens[:, 1:]))

    return gradient_norms(jax.grad(loss)(params).blocks)
