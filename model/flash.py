"""Softmax attention of long texts by tiles, in memory linear in their length (Dao et al. 2022, arXiv:2205.14135)."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from model.blocks import heads, looked_at, seen, tiles_seen

# Up to so many tokens rows are cut into chunks without a loop, which see a static number of keys (model.attention).
LONGEST_UNROLLED = 1024
# Rows and keys of a tile, whose scores stay in the last cache of a CPU: docs/performance.md.
TILE = 512


class Softmax(NamedTuple):
    """Softmax attention of grouped heads, G to a key/value head: all that its scores depend on."""

    q: Float[Array, "B K G T H"]
    scale: Float[Array, ""]  # of the products
    k: Float[Array, "B K S H"]
    v: Float[Array, "B K S Hv"]
    extra_logit: Float[Array, "K G"]
    slopes: Float[Array, "K G"]
    window: Int[Array, ""]
    kept: Int[Array, ""]
    first: Int[Array, ""]  # place of the first query among the keys: 0 unless there are fewer queries than keys
    padding: Bool[Array, "B S"] | None

    @property
    def places(self) -> Int[Array, " T"]:
        """Of the queries among the keys."""
        return self.first + jnp.arange(self.q.shape[3])

    @property
    def real(self) -> Bool[Array, "#B #T"]:
        """Which queries are no padding."""
        if self.padding is None:
            return jnp.ones((1, 1), bool)
        return jax.lax.dynamic_slice_in_dim(self.padding, self.first, self.q.shape[3], 1)


def unrolled(queries: int, keys: int) -> bool:
    """Whether chunks of rows can be cut without a loop: of a whole text that is not long."""
    return queries <= LONGEST_UNROLLED and queries == keys


class _Sums(NamedTuple):
    """Of the keys that rows have seen so far: the largest score m, Σ e^(s - m), Σ e^(s - m) v."""

    largest: Float[Array, "B K R"]
    total: Float[Array, "B K R"]
    mixed: Float[Array, "B K R Hv"]


def softmax_by_tiles(x: Softmax) -> tuple[Float[Array, "B K G T Hv"], Float[Array, "B K G T"]]:
    """The output and the log-sum-exp, which has the extra logit b in it; zeros and 0 of a row that sees nothing if b = -inf.

        m' = max(m, max_j s_j),   l' = l e^(m - m') + Σ_j e^(s_j - m'),   o' = o e^(m - m') + Σ_j e^(s_j - m') v_j

    from m = b, l = 1, o = 0, a tile of keys after the other (Milakov and Gimelshein 2018, arXiv:1805.02867). Tiles of which
    nothing is seen are skipped: behind a window, time is linear in T.
    """
    (B, K, G, T, _), Hv, dtype = x.q.shape, x.v.shape[-1], x.v.dtype
    x, tiles = filled(x, TILE)

    def rows(number: Int[Array, ""], done: tuple[Array, Array]) -> tuple[Array, Array]:
        start = number * TILE
        row = start + jnp.arange(TILE)
        q, i = rows_of(x, start, TILE), jnp.where(row < T, x.first + row, -1)
        count, _, at = tiles_seen(x.first + start, TILE, TILE, x.window, x.kept)

        def with_keys(n: Int[Array, ""], sums: _Sums) -> _Sums:
            own = keys_of(x, at(n), TILE)
            return _added(sums, scores_of(own, q, i, at(n)), own.v)

        sums = jax.lax.fori_loop(0, count, with_keys, _of_extra_logit(x, B, Hv))
        total = jnp.where(sums.total == 0, 1, sums.total)
        out = (sums.mixed / total[..., None]).astype(dtype).reshape(B, K, G, TILE, Hv, out_sharding=heads(5))
        lse = (finite(sums.largest) + jnp.log(total)).reshape(B, K, G, TILE, out_sharding=heads(4))
        return tuple(placed(whole, part, start, 3) for whole, part in zip(done, (out, lse), strict=True))  # pyright: ignore[reportReturnType]

    shape = (B, K, G, tiles * TILE)
    empty = jnp.zeros((*shape, Hv), dtype, out_sharding=heads(5)), jnp.zeros(shape, jnp.float32, out_sharding=heads(4))
    out, lse = jax.lax.fori_loop(0, tiles, rows, empty)
    return out[:, :, :, :T], lse[:, :, :, :T]


def _of_extra_logit(x: Softmax, batch: int, channels: int) -> _Sums:
    """The sums of TILE rows before the first key."""
    logits = jnp.repeat(x.extra_logit, TILE, axis=1, total_repeat_length=x.extra_logit.shape[1] * TILE)
    largest = jnp.zeros((batch, *logits.shape), jnp.float32, out_sharding=heads(3)) + logits[None]
    mixed = jnp.zeros((*largest.shape, channels), jnp.float32, out_sharding=heads(4))
    return _Sums(largest, jnp.isfinite(largest).astype(jnp.float32), mixed)


def _added(sums: _Sums, scores: Float[Array, "B K R S"], v: Float[Array, "B K S Hv"]) -> _Sums:
    largest = jnp.maximum(sums.largest, jnp.max(scores, axis=-1))
    base = finite(largest)
    p, shrunk = jnp.exp(scores - base[..., None]), jnp.exp(sums.largest - base)
    mixed = jnp.einsum("BKqS,BKSH->BKqH", p.astype(v.dtype), v, preferred_element_type=jnp.float32)
    return _Sums(largest, sums.total * shrunk + jnp.sum(p, axis=-1), sums.mixed * shrunk[..., None] + mixed)


def finite(largest: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """0 for a row that has seen nothing."""
    return jnp.where(jnp.isfinite(largest), largest, 0)


def filled(x: Softmax, size: int) -> tuple[Softmax, int]:
    """Zeros behind queries and keys up to whole tiles, and how many those of the queries are. Nothing sees what is last."""
    tiles, keys = (math.ceil(tokens / size) for tokens in (x.q.shape[3], x.k.shape[2]))
    surplus = keys * size - x.k.shape[2]
    padding = None if x.padding is None else behind(x.padding, 1, surplus)
    k, v = (behind(a, 2, surplus) for a in (x.k, x.v))
    return x._replace(q=behind(x.q, 3, tiles * size - x.q.shape[3]), k=k, v=v, padding=padding), tiles


def behind(x: Array, axis: int, surplus: int) -> Array:
    """With so many zeros behind `axis`."""
    return jnp.pad(x, [(0, surplus if a == axis else 0) for a in range(x.ndim)])


def rows_of(x: Softmax, start: Int[Array, ""], count: int) -> Float[Array, "B K R H"]:
    """So many scaled queries from `start` on, the G heads of a group one after the other."""
    B, K, G = x.q.shape[:3]
    q = jax.lax.dynamic_slice_in_dim(x.q, start, count, 3)
    return x.scale * q.reshape(B, K, G * count, -1, out_sharding=heads(4))


def scores_of(x: Softmax, q: Float[Array, "B K R H"], i: Int[Array, " q"], at: Int[Array, ""] | int) -> Float[Array, "B K R S"]:
    """The scores of queries at i, those of `rows_of`, with all keys of x, which begin at `at`; -inf where a key is not seen."""
    S = x.k.shape[2]
    distance, visible = looked_at(i, at + jnp.arange(S), x.window, x.kept)
    near = seen(distance, visible, x.slopes).reshape(1, q.shape[1], q.shape[2], S, out_sharding=P(None, "model", None, None))
    scores = jnp.einsum("BKqH,BKSH->BKqS", q, x.k, preferred_element_type=jnp.float32) + near
    return scores if x.padding is None else jnp.where(x.padding[:, None, None], scores, -jnp.inf)


def keys_of(x: Softmax, start: Int[Array, ""] | int, count: int) -> Softmax:
    """With so many keys from `start` on."""
    k, v = (jax.lax.dynamic_slice_in_dim(a, start, count, 2) for a in (x.k, x.v))
    padding = None if x.padding is None else jax.lax.dynamic_slice_in_dim(x.padding, start, count, 1)
    return x._replace(k=k, v=v, padding=padding)


def placed(whole: Array, part: Array, at: Int[Array, ""] | int, axis: int) -> Array:
    """`part` in the place of what is there from `at` on."""
    return jax.lax.dynamic_update_slice_in_dim(whole, part, at, axis)
