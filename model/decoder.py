"""A decoder: embedding, stacked blocks under `lax.scan`, final norm, unembedding."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from leadline.model.attention import attention
from leadline.model.attention.scores import capped
from leadline.model.block import Block, BlockConfig, LayerTrace, init_block, initial_sink_logit
from leadline.model.checks import check_context, check_length
from leadline.model.context import Context, Positions, document_numbers, grid_positions, text_positions
from leadline.model.embedding import embed, logits
from leadline.model.layer import apply_block
from leadline.model.linear import draw, matrix, plus_bias, zeros
from leadline.model.mesh import TEXT, axis_size, first_position, gather_tokens
from leadline.model.norm import Norm, init_norm, normalise
from leadline.model.positions.absolute import add_positions, sinusoidal
from leadline.model.positions.rotation import layer_rotations
from leadline.model.positions.tables import PositionTables

# Up to this depth layers are unrolled: a loop's stacks of weights, gradients and what the backward pass needs cost a CPU 10 to
# 20 % of a step. Deeper models compile in the time of one layer.
UNROLLED = 8
# Saved for the backward pass of a layer: the products with weights, and attention's output. The rest is cheaper to recompute.
SAVED = jax.checkpoint_policies.save_from_both_policies(
    jax.checkpoint_policies.dots_with_no_batch_dims_saveable, jax.checkpoint_policies.save_only_these_names(attention.SAVED)
)

Compute = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class DecoderConfig:
    """The structure of a decoder.

    Attributes:
        vocabulary: V.
        layers: L.
        block: the structure of every block.
        tied: whether the unembedding is the embedding.
        scaled_embedding: whether embeddings are multiplied by sqrt(D).
        embedding_norm: whether the embeddings are normalised (BLOOM, arXiv:2211.05100).
        embedding_init_scale: standard deviation, or bound, of embeddings, learned positions and unembeddings at the start of
            training; None is 1/sqrt(D).
        uniform_embedding_init: whether these are drawn uniformly within ± the scale, and not from a normal distribution.
        zero_id: id whose embedding is 0 whatever its row holds, and whose look-ups train nothing, as `padding_idx` of
            torch.nn.Embedding; None is none.
        learned_positions: length of a learned absolute table, 0 for none.
        sinusoidal: whether sinusoidal positions are added to the embeddings.
        grid: sizes of all axes but the first of a raster of tokens (model.positions.sections); () is a text, where every
            coordinate of a position is the index of the token.
        final_norm: whether a norm stands after the last layer.
        final_cap: c of c · tanh(logit / c) (Gemma 2, arXiv:2408.00118); None is none.
        unembedding_bias: whether the unembedding has a bias.
        document_end: id of the token that ends a document, across which attention does not reach; None is none. Positions
            go on through the row.
        shared_bias: whether all layers have one position bias.
        compute: type of activations.

    Raises:
        ValueError: for numbers out of range, an unknown type, and a shared bias where there is none.
    """

    vocabulary: int
    layers: int
    block: BlockConfig
    tied: bool = True
    scaled_embedding: bool = False
    embedding_norm: bool = False
    embedding_init_scale: float | None = None
    uniform_embedding_init: bool = False
    zero_id: int | None = None
    learned_positions: int = 0
    sinusoidal: bool = False
    grid: tuple[int, ...] = ()
    final_norm: bool = True
    final_cap: float | None = None
    unembedding_bias: bool = False
    document_end: int | None = None
    shared_bias: bool = False
    compute: Compute = "float32"

    def __post_init__(self) -> None:
        if self.final_cap is not None and self.final_cap <= 0:
            raise ValueError(f"final_cap = {self.final_cap}: logits are capped at a number above 0")
        if self.zero_id is not None and not 0 <= self.zero_id < self.vocabulary:
            raise ValueError(f"zero_id = {self.zero_id}: ids are from 0 to {self.vocabulary - 1}")
        if self.learned_positions < 0:
            raise ValueError(f"learned_positions = {self.learned_positions}: give a length, or 0 for none")
        if self.shared_bias and self.block.position_bias is None:
            raise ValueError("shared_bias says that all layers have one position bias: set position_bias too")
        if self.compute not in get_args(Compute):
            raise ValueError(f"unknown compute {self.compute!r}: choose one of {', '.join(get_args(Compute))}")


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class Decoder:
    """Weights, float32. `unembedding` is None if it is tied, and what the structure does not have is None."""

    embedding: Float[Array, "V D"]
    positions: Float[Array, "C D"] | None
    blocks: Block
    final_norm: Norm | None
    unembedding: Float[Array, "V D"] | None
    unembedding_bias: Float[Array, " V"] | None = None
    embedding_norm: Norm | None = None
    position_bias: Any = None  # that all layers share


def init_decoder(key: Array, cfg: DecoderConfig, *, sink_logit: float | Float[Array, "*#L"] | None = None) -> Decoder:
    """Weights of a decoder, drawn by `model.linear.draw`: embeddings at 1/sqrt(D) unless cfg says otherwise, so that logits of
    tied ones start at unit scale.

    Blocks are drawn as by `init_block`.

    Args:
        key: of the random numbers.
        cfg: the structure.
        sink_logit: initial values of the sink logits, one for all layers or one each; None as in `init_block`.
    """
    sink_logit = initial_sink_logit(cfg.block) if sink_logit is None else sink_logit
    outside, inside = jax.random.split(key)
    V, D = cfg.vocabulary, cfg.block.width
    scale = D**-0.5 if cfg.embedding_init_scale is None else cfg.embedding_init_scale
    # Whole: a sharded look-up table costs a rematerialisation and these are small.
    table = partial(matrix, spec=P(None, None), fan_in=1, gain=scale, uniform=cfg.uniform_embedding_init)
    init = jax.vmap(lambda k, logit: init_block(k, cfg.block, sink_logit=logit, depth=cfg.layers))
    sink_logits = jnp.broadcast_to(jnp.asarray(sink_logit, jnp.float32), (cfg.layers,))
    norm = partial(init_norm, D, bias=cfg.block.layer_norm, epsilon=cfg.block.norm_epsilon, offset=cfg.block.norm_offset)
    blocks, bias = init(jax.random.split(inside, cfg.layers), sink_logits), None
    if cfg.shared_bias:
        bias, blocks = jax.tree.map(lambda leaf: leaf[0], blocks.position_bias), replace(blocks, position_bias=None)
    decoder = Decoder(
        embedding=table((V, D)),
        positions=table((cfg.learned_positions, D)) if cfg.learned_positions else None,
        blocks=blocks,
        final_norm=norm() if cfg.final_norm else None,
        unembedding=None if cfg.tied else table((V, D)),
        unembedding_bias=zeros((V,), P(None)) if cfg.unembedding_bias else None,
        embedding_norm=norm() if cfg.embedding_norm else None,
        position_bias=bias,
    )
    return draw(outside, decoder)


def blocks_of(p: Decoder) -> Block:
    """The blocks, stacked over layers, each with the position bias that all of them may share."""
    if p.position_bias is None:
        return p.blocks
    layers = p.blocks.sink_logit.shape[0]
    shared = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (layers, *leaf.shape)), p.position_bias)
    return replace(p.blocks, position_bias=shared)


def apply_decoder(
    p: Decoder,
    tokens: Int[Array, "B T"],
    tables: PositionTables,
    cfg: DecoderConfig,
    *,
    context: Context = Context(),
    measure: Callable[[LayerTrace], Any] | None = None,
) -> tuple[Float[Array, "B T V"], Any]:
    """A decoder-only transformer: embedding, L blocks, final norm, unembedding.

    Args:
        p: weights.
        tokens: ids.
        tables: one row per layer.
        cfg: the structure.
        context: positions, padding, interventions and memory (one row per layer); it has no cache.
        measure: what is measured of each layer.

    Returns:
        Logits, float32, and what `measure` returns, stacked over L; None without it.
    """
    x, measured = apply_layers(p, tokens, tables, cfg, context=context, measure=measure)
    return unembed(p, x, cfg), measured


def apply_layers(
    p: Decoder,
    tokens: Int[Array, "B T"],
    tables: PositionTables,
    cfg: DecoderConfig,
    *,
    context: Context = Context(),
    measure: Callable[[LayerTrace], Any] | None = None,
) -> tuple[Float[Array, "B T D"], Any]:
    """`apply_decoder` up to the residual stream after the last layer, of which `unembed` gives the logits.

    Raises:
        ValueError: as `check_length` and `check_context` (model.checks).
    """
    T, parts = tokens.shape[1], axis_size(TEXT) if context.context_parallel else 1
    check_length(T * parts, tables, cfg.block, cfg.learned_positions, parts=parts)
    check_context(context, cfg.block, cfg.document_end)
    if cfg.document_end is not None:
        context = replace(context, documents=_documents(tokens, cfg.document_end, context))
    i = jnp.arange(T) + (first_position(T) if context.context_parallel else 0)
    positions = positions_of(tables, cfg) if context.positions is None else context.positions
    rotations = None
    if cfg.block.table_per == "sequence" and not cfg.block.polar:
        rotations = layer_rotations(tables, i, positions(i))

    def layer(x: Float[Array, "B T D"], row: Any) -> tuple[Float[Array, "B T D"], Any]:
        block, table, intervention, rotation, memory = row
        changed = replace(context, positions=positions, intervention=intervention, rotations=rotation, memory=memory)
        x, trace, _ = apply_block(block, x, table, cfg.block, changed)
        return x, None if measure is None else measure(trace)

    x = embed_tokens(p, tokens, i, cfg, context.starts)
    layer = jax.checkpoint(layer, policy=SAVED, prevent_cse=False)
    rows = (blocks_of(p), tables, context.intervention, rotations, context.memory)
    return jax.lax.scan(layer, x, rows, unroll=cfg.layers <= UNROLLED)


def _documents(tokens: Int[Array, "B T"], end: int, context: Context) -> Int[Array, "B T"]:
    """The numbers of the tokens' documents; those of one device of the mesh axis "text" count on from the devices before it."""
    if not context.context_parallel:
        return document_numbers(tokens, end)
    T = tokens.shape[1]
    return jax.lax.dynamic_slice_in_dim(document_numbers(gather_tokens(tokens, 1), end), first_position(T), T, 1)


def positions_of(tables: PositionTables, cfg: DecoderConfig) -> Positions:
    """The positions of the tokens of a text or of a grid."""
    return partial(grid_positions, shape=cfg.grid) if cfg.grid else partial(text_positions, tables=tables)


def embed_tokens(
    p: Decoder, tokens: Int[Array, "B T"], i: Int[Array, " T"], cfg: DecoderConfig, starts: Int[Array, " B"] | None = None
) -> Float[Array, "B T D"]:
    """The input of the first layer, of tokens at places i of their row, in which the text begins at `starts`."""
    x = embed(p.embedding, tokens, scaled=cfg.scaled_embedding, zero_id=cfg.zero_id).astype(cfg.compute)
    if p.positions is not None:
        x = add_positions(x, p.positions, i, starts)
    if cfg.sinusoidal:
        x = x + sinusoidal(i, x.shape[-1])[None].astype(x.dtype)
    return x if p.embedding_norm is None else normalise(p.embedding_norm, x)


def apply_final_norm(p: Decoder, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
    """The residual stream after the final norm, if there is one."""
    return x if p.final_norm is None else normalise(p.final_norm, x)


def unembed(p: Decoder, x: Float[Array, "B T D"], cfg: DecoderConfig) -> Float[Array, "B T V"]:
    """Logits of a residual stream, float32; before the last layer they are its logit lens."""
    scores = logits(apply_final_norm(p, x), p.embedding if p.unembedding is None else p.unembedding)
    scores = plus_bias(scores, p.unembedding_bias)
    return capped(scores, cfg.final_cap)
