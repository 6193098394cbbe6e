"""A decoder: embedding, stacked blocks under `lax.scan`, final norm, unembedding."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from model.attention import KEPT
from model.block import Block, BlockConfig, LayerTrace, apply_block, init_block
from model.cache import Cache
from model.embedding import embed, logits
from model.intervention import Intervention
from model.linear import draw, matrix
from model.norm import Norm, init_norm, normalise
from model.positions.absolute import add_positions
from model.positions.sections import grid_positions
from model.positions.sinusoidal import sinusoidal
from model.positions.tables import PositionTables
from model.positions.turn import Turns, layer_turns
from model.spread import AXIS, all_tokens, first_place
from model.streaming import Stream

Remembered = TypeVar("Remembered", Cache, Stream)

# Up to this depth layers are unrolled: a loop's stacks of weights, gradients and what the backward pass needs cost a CPU 10 to
# 20 % of a step. Deeper models compile in the time of one layer.
UNROLLED = 8
# What the backward pass finds of a layer: the products with weights, and attention's output. The rest is cheaper anew.
SAVED = jax.checkpoint_policies.save_from_both_policies(
    jax.checkpoint_policies.dots_with_no_batch_dims_saveable, jax.checkpoint_policies.save_only_these_names(KEPT)
)


@dataclass(frozen=True)
class DecoderConfig:
    """The structure of a decoder. `learned_positions` is the length of a learned absolute table, 0 for none; `sinusoidal` adds
    the fixed one. `grid` has the sizes of all axes but the first of a raster on which the tokens stand
    (model.positions.sections); () is a text, where every coordinate of a position is its number."""

    vocabulary: int
    layers: int
    block: BlockConfig
    tied: bool = True
    scaled_embedding: bool = False
    learned_positions: int = 0
    sinusoidal: bool = False
    grid: tuple[int, ...] = ()
    compute: Literal["float32", "bfloat16"] = "float32"


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays, norms
@struct.dataclass
class Decoder:
    """Weights, float32. `unembedding` is None if tied to `embedding`, `positions` if none are learned."""

    embedding: Float[Array, "V D"]
    positions: Float[Array, "C D"] | None
    blocks: Block
    final_norm: Norm
    unembedding: Float[Array, "V D"] | None


def init_decoder(key: Array, cfg: DecoderConfig, *, extra_logit: float | Float[Array, ""] = -jnp.inf) -> Decoder:
    """Embeddings N(0, 1/D), so that a tied unembedding starts at unit scale; blocks as `init_block`. Needs a mesh."""
    outside, inside = jax.random.split(key)
    V, D = cfg.vocabulary, cfg.block.width
    whole = P(None, None)  # a sharded look-up table costs a rematerialisation and these are small
    init = jax.vmap(lambda k: init_block(k, cfg.block, extra_logit=extra_logit, depth=cfg.layers))
    decoder = Decoder(
        embedding=matrix((V, D), whole, D),
        positions=matrix((cfg.learned_positions, D), whole, D) if cfg.learned_positions else None,
        blocks=init(jax.random.split(inside, cfg.layers)),
        final_norm=init_norm(D, bias=cfg.block.layer_norm),
        unembedding=None if cfg.tied else matrix((V, D), whole, D),
    )
    return draw(outside, decoder)


def apply_decoder(
    p: Decoder,
    tokens: Int[Array, "B T"],
    tables: PositionTables,
    cfg: DecoderConfig,
    *,
    positions: Int[Array, "T coordinates"] | None = None,
    padding: Bool[Array, "B T"] | None = None,
    intervention: Intervention | None = None,
    measure: Callable[[LayerTrace], Any] | None = None,
    parts: int = 1,
) -> tuple[Float[Array, "B T V"], Any]:
    """Logits (float32) and what `measure` returns for each layer, stacked over L (None without it).

    `tables` and `intervention` hold a row a layer; `positions` are those of the text or grid where they are not given;
    `padding` is True for real tokens. Needs a mesh (jax.set_mesh). `parts` of a text, if there are several, are on as many
    devices, of which this one has T tokens (`apply_spread`).
    """
    T, spread = tokens.shape[1], parts > 1
    places = jnp.arange(T) + (first_place(T) if spread else 0)
    positions = positions_of(T * parts, tables, cfg) if positions is None else positions
    turns = None
    if cfg.block.table_per == "sequence" and not cfg.block.polar:
        turns = layer_turns(tables, places, positions[places])

    def layer(
        x: Float[Array, "B T D"], row: tuple[Block, PositionTables, Intervention | None, Turns | None]
    ) -> tuple[Float[Array, "B T D"], Any]:
        block, table, own, turn = row
        changed = {"intervention": own, "turns": turn, "spread": spread}
        x, trace, _ = apply_block(block, x, table, positions, cfg.block, padding, **changed)
        return x, None if measure is None else measure(_of_all_parts(trace) if spread else trace)

    x = embedded(p, tokens, places, cfg)
    layer = jax.checkpoint(layer, policy=SAVED, prevent_cse=False)
    x, measured = jax.lax.scan(layer, x, (p.blocks, tables, intervention, turns), unroll=cfg.layers <= UNROLLED)
    return decoded(p, x), measured


def apply_spread(
    p: Decoder,
    tokens: Int[Array, "B S"],
    tables: PositionTables,
    cfg: DecoderConfig,
    *,
    padding: Bool[Array, "B S"] | None = None,
    measure: Callable[[LayerTrace, Int[Array, "B S"]], Any] = lambda trace, tokens: None,  # noqa: ARG005
) -> tuple[Float[Array, "B S V"], Any]:
    """`apply_decoder` of texts that are too long for one device: the n devices of the mesh axis "text" have S / n consecutive
    tokens each, and the logits of these. They give each other the keys and values of a layer, and what `measure` uses of a
    trace: it sees those of whole texts, and their tokens.

    JAX 0.10.2 cannot differentiate this from outside: take a gradient within a shard_map of your own, of `apply_decoder` with
    `parts`, and sum that of the weights. ValueError where n does not divide S, and for a model that turns all keys anew for
    each query.
    """
    parts = jax.sharding.get_abstract_mesh().shape[AXIS]
    if tokens.shape[1] % parts:
        raise ValueError(f"{tokens.shape[1]} tokens cannot be spread evenly over {parts} devices: shorten the text")
    if cfg.block.table_per == "query":
        raise ValueError("each query of this model turns all keys anew: its texts cannot be spread over devices")

    def part(p: Decoder, tokens: Array, tables: PositionTables, padding: Array | None) -> tuple[Array, Any]:
        whole = all_tokens(tokens, 1)
        return apply_decoder(p, tokens, tables, cfg, padding=padding, measure=lambda trace: measure(trace, whole), parts=parts)

    along = P(None, AXIS)
    specs = {"in_specs": (P(), along, P(), along), "out_specs": (along, P())}
    padding = None if padding is None else jax.reshard(padding, along)
    return jax.shard_map(part, **specs, axis_names={AXIS}, check_vma=False)(p, jax.reshard(tokens, along), tables, padding)


def _of_all_parts(trace: LayerTrace) -> LayerTrace:
    """Of the whole text. What nobody uses is not sent."""
    attention = jax.tree.map(lambda x: all_tokens(x, 2), trace.attention)
    rest = jax.tree.map(lambda x: all_tokens(x, 1), replace(trace, attention=None))
    return replace(rest, attention=attention)


def extend(
    p: Decoder,
    cache: Remembered,
    tokens: Int[Array, "B T"],
    tables: PositionTables,
    cfg: DecoderConfig,
    *,
    positions: Int[Array, "S coordinates"] | None = None,
) -> tuple[Float[Array, "B T V"], Remembered]:
    """Logits of T more tokens behind those that the cache remembers, and the cache with them: `apply_decoder` of the whole text
    gives the same, unless a stream has forgotten some of it. `positions` are those of all S tokens that there is room for, of a
    text where they are not given; a stream takes none. Needs a mesh.

    ValueError where learned positions end before the room does, and for a stream of a model that cannot be streamed.
    """
    capacity = cache.key.shape[2]
    if isinstance(cache, Stream):
        check_stream(p, cfg)
    elif p.positions is not None and capacity > p.positions.shape[0]:
        raise ValueError(f"learned positions end at {p.positions.shape[0]}, the cache has room for {capacity} tokens")
    positions = positions_of(capacity, tables, cfg) if positions is None else positions

    def layer(x: Float[Array, "B T D"], row: tuple[Block, PositionTables, Any]) -> tuple[Float[Array, "B T D"], Any]:
        block, table, own = row
        x, _, later = apply_block(block, x, table, positions, cfg.block, cache=own)
        return x, later

    x = embedded(p, tokens, cache.length[0] + jnp.arange(tokens.shape[1]), cfg)
    x, cache = jax.lax.scan(layer, x, (p.blocks, tables, cache))
    return decoded(p, x), cache


def check_stream(p: Decoder, cfg: DecoderConfig) -> None:
    """ValueError where positions are more than rotations by the place in a text, ALiBi, or none.

    A stream turns what it remembers anew, or counts distances anew; what was added to an embedding is in every key for
    good, and the other encodings need all keys or the length of the text. xPos is a value and not seen here: it cannot either.
    """
    b = cfg.block
    found = {
        "learned positions": p.positions is not None,
        "sinusoidal positions": cfg.sinusoidal,
        "a grid": bool(cfg.grid),
        "PoPE": b.polar,
        f"the bias {b.position_bias and b.position_bias.kind}": b.position_bias is not None,
        f"a table a {b.table_per}": b.table_per != "sequence",
    }
    if names := [name for name, there in found.items() if there]:
        raise ValueError(f"a model with {' and '.join(names)} cannot be streamed: take rope, alibi or nope")


def positions_of(tokens: int, tables: PositionTables, cfg: DecoderConfig) -> Int[Array, "T coordinates"]:
    """Of the tokens of a text, or of a grid."""
    raster = jnp.asarray(grid_positions(tokens, cfg.grid))
    coordinates = tables.frequencies.units.shape[-2]
    return raster if cfg.grid else jnp.tile(raster, (1, coordinates))


def embedded(p: Decoder, tokens: Int[Array, "B T"], places: Int[Array, " T"], cfg: DecoderConfig) -> Float[Array, "B T D"]:
    """What the first layer sees of tokens at these places of the text."""
    x = embed(p.embedding, tokens, scaled=cfg.scaled_embedding).astype(cfg.compute)
    if p.positions is not None:
        x = add_positions(x, p.positions, places)
    if cfg.sinusoidal:
        x = x + sinusoidal(places, x.shape[-1])[None].astype(x.dtype)
    return x


def decoded(p: Decoder, x: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
    """Logits of a residual stream, float32; of one before the last layer they are what it would have said so far."""
    x = normalise(p.final_norm, x)
    return logits(x, p.embedding if p.unembedding is None else p.unembedding)
