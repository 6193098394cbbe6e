"""What a block knows of its tokens besides the residual stream."""

from collections.abc import Callable, Sequence
from typing import no_type_check

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Int

from leadline.model.cache.protocol import Cache
from leadline.model.cross_attention import Memory
from leadline.model.intervention import Intervention
from leadline.model.positions.rotation import Rotations
from leadline.model.positions.tables import PositionTables

# The positions of tokens from their places in the row.
Positions = Callable[[Int[Array, " T"]], Int[Array, "T coordinates"]]


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class Context:
    """By default, the tokens are a whole text from its first token on.

    Attributes:
        positions: maps indices i [T] of tokens to their positions [T, coordinates]; None is i in every coordinate. Under jit, a
            jax.tree_util.Partial. The decay of xPos and the temperatures of queries go by the index.
        padding: [B, T], True for real tokens.
        documents: [B, T], the number of each token's document, outside which it attends to nothing; None for one document.
        cache: one layer's cache; the tokens follow those that it holds.
        intervention: one layer's row; of texts of one document, on one device.
        rotations: those of the tokens, where they are computed already (model.positions.rotation.layer_rotations).
        starts: [B], place in its row of each text's first token, after padding on the left; None is 0. Learned
            positions alone read it: RoPE, ALiBi and windows depend on distances.
        memory: what a layer with cross-attention sees of the source.
        bidirectional: whether a token sees those after it too, as in an encoder. ALiBi, windows, chunks and all biases but
            T5's are causal and must not be used with it.
        context_parallel: whether the tokens are those of one device of the mesh axis "text" (model.context_parallel).
    """

    positions: Positions | None = None
    padding: Bool[Array, "B T"] | None = None
    documents: Int[Array, "B T"] | None = None
    cache: Cache | None = None
    intervention: Intervention | None = None
    rotations: Rotations | None = None
    starts: Int[Array, " B"] | None = None
    memory: Memory | None = None
    bidirectional: bool = struct.field(pytree_node=False, default=False)
    context_parallel: bool = struct.field(pytree_node=False, default=False)


def document_numbers(tokens: Int[Array, "B T"], end: int) -> Int[Array, "B T"]:
    """The number of each token's document in its row, from 0; the token `end` closes a document and belongs to it."""
    ends = (tokens == end).astype(jnp.int32)
    return jnp.cumsum(ends, axis=1) - ends


def text_positions(i: Int[Array, " T"], tables: PositionTables) -> Int[Array, "T coordinates"]:
    """The positions of tokens i of a text: i in every coordinate of the tables."""
    return jnp.tile(i[:, None], (1, tables.frequencies.units.shape[-2]))


def grid_positions(i: Int[Array, " T"], shape: Sequence[int] = ()) -> Int[Array, "T coordinates"]:
    """The coordinates of tokens i of a raster, the last axis fastest.

    Args:
        i: indices of the tokens.
        shape: sizes of all axes but the first. () is a text, (width,) gives row and column, (height, width) frame, row and
            column.

    Raises:
        ValueError: for an axis below 1.
    """
    if any(size < 1 for size in shape):
        raise ValueError(f"a raster needs axes of at least 1, got {list(shape)}")
    coordinates = []
    for size in reversed(shape):
        coordinates.append(i % size)
        i = i // size
    return jnp.stack([i, *reversed(coordinates)], axis=1)
