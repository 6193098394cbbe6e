"""A model measured on held-out batches, in memory that does not grow with their number."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from model.block import LayerTrace
from model.decoder import Decoder, DecoderConfig, apply_decoder
from model.embedding import token_losses
from model.positions.tables import PositionTables

Statistics = dict[str, Float[Array, "..."]]


def evaluate(
    params: Decoder,
    tables: PositionTables,
    batches: Int[Array, "C B T"],
    cfg: DecoderConfig,
    *,
    of_layer: Callable[[LayerTrace, Int[Array, "B T"]], Statistics],
    of_losses: Callable[[Float[Array, "B T"], Int[Array, "B T"]], Statistics],
) -> Statistics:
    """`of_layer` for each layer, stacked to [L, …], and `of_losses` (token losses and the T + 1 ids), as means over C batches."""

    def one(tokens: Int[Array, "B T"]) -> Statistics:
        scores, layers = apply_decoder(
            params, tokens[:, :-1], tables, cfg, measure=lambda trace: of_layer(trace, tokens[:, :-1])
        )
        return layers | of_losses(token_losses(scores, tokens[:, 1:]), tokens)

    return jax.tree.map(lambda found: jnp.mean(found, axis=0), jax.lax.map(one, batches))
