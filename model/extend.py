"""A decoder that reads on: the next tokens of a text whose keys and values are in a cache."""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from leadline.model.cache.protocol import Cache
from leadline.model.checks import check_length
from leadline.model.context import Context
from leadline.model.cross_attention import Memory
from leadline.model.decoder import Decoder, DecoderConfig, blocks_of, embed_tokens, positions_of, unembed
from leadline.model.layer import apply_block
from leadline.model.positions.tables import PositionTables

AnyCache = TypeVar("AnyCache", bound=Cache)


def extend(
    p: Decoder,
    cache: AnyCache,
    tokens: Int[Array, "B T"],
    tables: PositionTables,
    cfg: DecoderConfig,
    *,
    memory: Memory | None = None,
) -> tuple[Float[Array, "B T V"], AnyCache]:
    """The next T tokens of a text. `apply_decoder` of the whole text gives the same logits, unless the cache forgets.

    What is in the cache is one document, whether the model was trained with a document mask or not.

    Args:
        p: weights.
        cache: of the text so far, stacked over layers.
        tokens: ids.
        tables: one row per layer.
        cfg: the structure.
        memory: that of `Context`, stacked over layers.

    Returns:
        Logits, float32, and the cache with the tokens.

    Raises:
        ValueError: if learned positions or tables end before the room of the cache, for more tokens at once than it has room
            for, or if a cache that forgets cannot serve the model.
    """
    x, cache = extend_layers(p, cache, tokens, tables, cfg, memory=memory)
    return unembed(p, x, cfg), cache


def extend_layers(
    p: Decoder,
    cache: AnyCache,
    tokens: Int[Array, "B T"],
    tables: PositionTables,
    cfg: DecoderConfig,
    *,
    memory: Memory | None = None,
) -> tuple[Float[Array, "B T D"], AnyCache]:
    """`extend` up to the residual stream after the last layer, of which `unembed` gives the logits."""
    check_cache(p, tables, cfg, cache.room)
    if cache.room is not None and tokens.shape[1] > cache.room:
        raise ValueError(f"{tokens.shape[1]} tokens at once do not fit into a cache with room for {cache.room}")
    positions = positions_of(tables, cfg)

    def layer(x: Float[Array, "B T D"], row: Any) -> tuple[Float[Array, "B T D"], Any]:
        block, table, layer_cache, source = row
        x, _, layer_cache = apply_block(block, x, table, cfg.block, Context(positions, cache=layer_cache, memory=source))
        return x, layer_cache

    starts = None if cache.starts is None else cache.starts[0]
    x = embed_tokens(p, tokens, cache.length[0] + jnp.arange(tokens.shape[1]), cfg, starts)
    return jax.lax.scan(layer, x, (blocks_of(p), tables, cache, memory))


def check_cache(p: Decoder, tables: PositionTables, cfg: DecoderConfig, room: int | None) -> None:
    """Raises ValueError for a model that a cache with so much room cannot serve.

    A cache that forgets (`room` None) re-indexes positions. That needs positions which are rotations by the position in a text,
    ALiBi, or none: what was added to an embedding is in every key for good, and the other encodings need all keys or the length
    of the text. xPos cannot either, but its decay is a value and not seen here.
    """
    if room is not None:
        check_length(room, tables, cfg.block, cfg.learned_positions)
        return
    b = cfg.block
    needs_text = {
        "learned positions": p.positions is not None,
        "sinusoidal positions": cfg.sinusoidal,
        "a grid": bool(cfg.grid),
        "a document mask": cfg.document_end is not None,
        "PoPE": b.polar,
        f"the bias {type(b.position_bias).__name__}": b.position_bias is not None,
        f"one table per {b.table_per}": b.table_per != "sequence",
    }
    if names := [name for name, needed in needs_text.items() if needed]:
        raise ValueError(f"a model with {' and '.join(names)} cannot be streamed: take rope, alibi or nope")
