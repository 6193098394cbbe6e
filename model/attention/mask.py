"""Which keys a query sees, and how attention is cut into blocks of queries and keys."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int, Num

from leadline.model.mesh import heads_first, on_mesh

# Wider than any context, and int32 without overflow: a window of this width hides nothing.
NO_WINDOW = 2**30


class Mask(NamedTuple):
    """A query at position i sees the key at position j <= i where i - j < w_i or j < initial_tokens.

        w_i = min(window, i mod chunk + 1)

    Keys are at 0 … S - 1. With chunks and a wide window a query sees the keys of its own chunk (Llama 4, Meta 2025). All fields
    are values: changing them never recompiles, and every layer may have its own.

    Attributes:
        window: number of newest keys that a query sees, itself included.
        initial_tokens: number of first keys that every query sees besides (StreamingLLM, arXiv:2309.17453).
        first_query: position of the first query; the others follow.
        padding: [B, S], True for real tokens; None where all are.
        documents: [B, S], the number of each key's document. A query sees the keys of its own document alone, as in packed
            training with a document mask (Llama 3, arXiv:2407.21783, section 3.2). None where all keys are of one.
        chunk: tokens of a chunk, before which no query of the chunk sees any but the initial tokens.
    """

    window: Int[Array, ""] | int = NO_WINDOW
    initial_tokens: Int[Array, ""] | int = 0
    first_query: Int[Array, ""] | int = 0
    padding: Bool[Array, "B S"] | None = None
    documents: Int[Array, "B S"] | None = None
    chunk: Int[Array, ""] | int = NO_WINDOW


class Tiling(NamedTuple):
    """How attention is cut into blocks: static, and chosen by measurement (docs/performance.md).

    Attributes:
        rows: most queries whose scores exist at once. 128 keeps a block of scores in the cache of a CPU core at contexts of a
            few thousand tokens. Texts of fewer than 4 · rows tokens are cut into chunks of rows / 2, so that fewer masked
            scores are computed.
        chunks: query chunks that see a static number of keys each. With 8, 1/16 of all T² scores are computed to be masked;
            short texts have fewer.
        unrolled: longest text whose chunks are cut without a loop.
        tile: queries and keys of a tile, whose scores stay in the last cache of a CPU.
        statistics_rows: most rows of a block of statistics.
        statistics_chunks: chunks of the statistics: with 16, 1/32 of all T² scores are computed to be masked.
        statistics_scores: scores of a head in a block of statistics: 4 MiB stay within the last cache of a CPU.
        platform: the platform to compute for; None is that of the mesh. "interpreter" runs the kernels of a GPU on a CPU.
        kernel: (queries, keys) of a tile of a kernel, and as a third the warps of a GPU; None is that of the machine.
    """

    rows: int = 128
    chunks: int = 8
    unrolled: int = 1024
    tile: int = 512
    statistics_rows: int = 128
    statistics_chunks: int = 16
    statistics_scores: int = 2**20
    platform: str | None = None
    kernel: tuple[int, ...] | None = None


def chunks_of(tokens: int, tiling: Tiling) -> Iterator[tuple[int, int]]:
    """The first query of each chunk and the one after its last, which is also the number of keys that it sees."""
    rows = tiling.rows if tokens >= 4 * tiling.rows else tiling.rows // 2
    chunk = rows * math.ceil(tokens / (rows * tiling.chunks))
    return ((start, min(start + chunk, tokens)) for start in range(0, tokens, chunk))


def split_blocks(x: Array, axis: int, size: int, fill: int = 0) -> Array:
    """Blocks of `size` along an unsharded axis, in front; the last is filled up."""
    blocks, spec = math.ceil(x.shape[axis] / size), jax.typeof(x).sharding.spec
    surplus = blocks * size - x.shape[axis]
    x = jnp.pad(x, [(0, surplus if a == axis else 0) for a in range(x.ndim)], constant_values=fill)
    split = on_mesh(P(*spec[: axis + 1], None, *spec[axis + 1 :]))
    return jnp.moveaxis(x.reshape(*x.shape[:axis], blocks, size, *x.shape[axis + 1 :], out_sharding=split), axis, 0)


def merge_blocks(x: Array, count: int) -> Array:
    """The inverse of `split_blocks` of axis 3: [blocks, B, K, G, size, …] with `count` rows in one axis again."""
    x = jnp.moveaxis(x, 0, 3)
    x = x.reshape(*x.shape[:3], x.shape[3] * x.shape[4], *x.shape[5:], out_sharding=on_mesh(heads_first(x.ndim - 1)))
    return jax.lax.slice_in_dim(x, 0, count, axis=3)


# The first tile and the one after the last, as the bounds of a loop.
Between = tuple[Int[Array, ""], Int[Array, ""]]


def tiles_seen(
    start: Int[Array, ""], rows: int, size: int, mask: Mask
) -> tuple[Int[Array, ""], Between, Callable[[Int[Array, ""]], Int[Array, ""]]]:
    """The tiles of `size` keys that `rows` queries from position `start` on see.

    Returns:
        Their number; which of them every query sees whole; and the position at which the n-th begins. The tiles of the initial
        tokens come first, then those of the window up to the queries' own.
    """

    def oldest(i: Int[Array, ""]) -> Int[Array, ""]:
        """The first key that query i sees after the initial tokens."""
        return jnp.maximum(i - mask.window + 1, i // mask.chunk * mask.chunk)

    first = oldest(start) // size
    before = jnp.minimum((mask.initial_tokens + size - 1) // size, first)
    inside = jnp.maximum((oldest(start + rows - 1) - 1) // size + 1, first)
    whole = before + inside - first, before + jnp.maximum((start + 1) // size, inside) - first
    count = before + (start + rows - 1) // size + 1 - first
    return count, whole, lambda n: size * jnp.where(n < before, n, n - before + first)


def tiles_seeing(key: Int[Array, ""], keys: int, size: int, rows: int, mask: Mask) -> tuple[Between, Between]:
    """The tiles of `size` queries that see some of `keys` keys from position `key` on, and those whose every query sees all.

    Args:
        key: position of the first key.
        keys: number of keys.
        size: queries of a tile.
        rows: number of all queries, which begin at `mask.first_query`.
        mask: its window, chunk, initial tokens and first query.
    """
    first, initial_tokens = mask.first_query, mask.initial_tokens
    window = jnp.minimum(mask.window, first + rows)  # farther than any query sees, and no sum below overflows

    def after_last(j: Int[Array, ""]) -> Int[Array, ""]:
        """The row after the last one that sees the key j, which is no initial token."""
        return jnp.clip(jnp.minimum(j + window, (j // mask.chunk + 1) * mask.chunk) - first, 0, rows)

    last = jnp.where(key < initial_tokens, rows, after_last(key + keys - 1))
    start, stop = jnp.maximum(key - first, 0) // size, (last + size - 1) // size
    inside = jnp.where(key + keys <= initial_tokens, rows, after_last(key)) // size
    begin = jnp.clip((key + keys - 1 - first + size - 1) // size, start, jnp.maximum(start, stop))
    return (start, stop), (begin, jnp.maximum(inside, begin))


def distances(i: Int[Array, " q"], j: Int[Array, " S"], mask: Mask) -> tuple[Int[Array, "q S"], Bool[Array, "q S"]]:
    """i - j of queries at positions i and keys at positions j, and which keys each query sees, but for padding."""
    distance = i[:, None] - j[None, :]
    window = jnp.minimum(mask.window, i % mask.chunk + 1)
    return distance, visible(distance, j[None, :], window[:, None], mask.initial_tokens)


def visible(
    distance: Num[Array, "q S"], j: Int[Array, "#q #S"], window: Num[Array, "#q #S"], initial_tokens: Int[Array, ""] | int
) -> Bool[Array, "q S"]:
    """Whether a query sees the key at position j, `distance` = i - j tokens before it: the rule of `Mask` for windows w_i."""
    return (distance >= 0) & ((distance < window) | (j < initial_tokens))


def masked_bias(
    distance: Int[Array, "q S"], is_visible: Bool[Array, "q S"], slopes: Float[Array, "K G"]
) -> Float[Array, "K G q S"]:
    """ALiBi's -slope · distance, and -inf where a key is not visible."""
    linear = -slopes[:, :, None, None] * distance.astype(jnp.float32)[None, None]
    return jnp.where(is_visible[None, None], linear, -jnp.inf)
