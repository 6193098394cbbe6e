"""How attention is cut into blocks of query rows, and what a block sees."""

import math
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int, Num

# Rows of scores that exist at once. 128 keeps a block of scores in the cache of a CPU core at contexts of a few thousand.
BLOCK = 128
# Query chunks that see a static number of keys each: with 8 of them 1/16 of all T² scores are computed only to be masked.
CHUNKS = 8


def heads(rank: int) -> P:
    """Batch and (grouped or single) heads sharded, the rest not."""
    return P("data", "model", *([None] * (rank - 2)))


def chunks_of(tokens: int) -> Iterator[tuple[int, int]]:
    """The first query of each chunk and the one behind its last, which is also the number of keys that it sees."""
    chunk = BLOCK * math.ceil(tokens / (BLOCK * CHUNKS))
    return ((start, min(start + chunk, tokens)) for start in range(0, tokens, chunk))


def one_block(rows: int) -> bool:
    """Whether so many rows need no loop over blocks."""
    return rows <= BLOCK


def split_blocks(x: Array, axis: int, spec: P, fill: int = 0) -> Array:
    """Blocks of BLOCK along `axis`, in front; the last is filled up. `spec` is that of x with the axis in two."""
    blocks = math.ceil(x.shape[axis] / BLOCK)
    surplus = blocks * BLOCK - x.shape[axis]
    x = jnp.pad(x, [(0, surplus if a == axis else 0) for a in range(x.ndim)], constant_values=fill)
    x = x.reshape(*x.shape[:axis], blocks, BLOCK, *x.shape[axis + 1 :], out_sharding=spec)
    return jnp.moveaxis(x, axis, 0)


def merge_blocks(x: Array, count: int) -> Array:
    """What `split_blocks` made of axis 3, [blocks, B, K, G, BLOCK, …], as one axis of `count` rows again."""
    x = jnp.moveaxis(x, 0, 3)
    x = x.reshape(*x.shape[:3], x.shape[3] * BLOCK, *x.shape[5:], out_sharding=heads(x.ndim - 1))
    return jax.lax.slice_in_dim(x, 0, count, axis=3)


# From the first of some tiles to before the last, as a loop has it.
Between = tuple[Int[Array, ""], Int[Array, ""]]


def tiles_seen(
    start: Int[Array, ""], rows: int, size: int, window: Int[Array, ""], kept: Int[Array, ""]
) -> tuple[Int[Array, ""], Between, Callable[[Int[Array, ""]], Int[Array, ""]]]:
    """How many tiles of `size` keys are seen by so many rows at `start` and behind it, which of them every row sees whole, and
    where the n-th begins: first those of the kept keys, then those of the window up to the rows' own."""
    first = jnp.maximum(start - window + 1, 0) // size
    before = jnp.minimum((kept + size - 1) // size, first)
    inside = jnp.maximum((start + rows - 1 - window) // size + 1, first)
    whole = before + inside - first, before + jnp.maximum((start + 1) // size, inside) - first
    count = before + (start + rows - 1) // size + 1 - first
    return count, whole, lambda n: size * jnp.where(n < before, n, n - before + first)


def tiles_seeing(
    key: Int[Array, ""], keys: int, size: int, rows: int, window: Int[Array, ""], kept: Int[Array, ""], first: Int[Array, ""]
) -> tuple[Between, Between]:
    """Which tiles of `size` rows, of `rows` in all from `first` on, see some of so many keys at `key`, and which see all of
    them with every row."""
    window = jnp.minimum(window, first + rows)  # farther than any row sees, and no sum below overflows
    last = jnp.where(key < kept, rows, jnp.clip(key + keys - 1 + window - first, 0, rows))
    start, stop = jnp.maximum(key - first, 0) // size, (last + size - 1) // size
    inside = jnp.where(key + keys <= kept, rows, jnp.clip(key + window - first, 0, rows)) // size
    behind = jnp.clip((key + keys - 1 - first + size - 1) // size, start, jnp.maximum(start, stop))
    return (start, stop), (behind, jnp.maximum(inside, behind))


def looked_at(
    i: Int[Array, " q"], j: Int[Array, " S"], window: Int[Array, ""], kept: Int[Array, ""] | int
) -> tuple[Int[Array, "q S"], Bool[Array, "q S"]]:
    """How far queries at i are behind keys at j, and which of these they see: i - window < j <= i, and any j < kept up to i."""
    distance = i[:, None] - j[None, :]
    return distance, sees(distance, j[None, :], window, kept)


def sees(
    distance: Num[Array, "q S"], j: Int[Array, "#q #S"], window: Num[Array, ""], kept: Int[Array, ""] | int
) -> Bool[Array, "q S"]:
    """Whether a query sees the key at j, which is so far behind it."""
    return (distance >= 0) & ((distance < window) | (j < kept))


def seen(distance: Int[Array, "q S"], visible: Bool[Array, "q S"], slopes: Float[Array, "K G"]) -> Float[Array, "K G q S"]:
    """ALiBi, and -inf where nothing is seen."""
    return jnp.where(visible[None, None], -slopes[:, :, None, None] * distance.astype(jnp.float32)[None, None], -jnp.inf)
