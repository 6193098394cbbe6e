"""Softmax attention of long texts by tiles, in memory linear in their length (Dao et al. 2022, arXiv:2205.14135)."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from leadline.model.attention.mask import Tiling, distances, masked_bias, tiles_seen
from leadline.model.attention.normalizers import finite, nonzero
from leadline.model.attention.scores import AttentionInputs
from leadline.model.mesh import ROWS_OF_GROUPS, heads_first, on_mesh


class OnlineSoftmax(NamedTuple):
    """Sums over the keys that rows have seen so far: the largest score m, l = Σ e^(s - m), acc = Σ e^(s - m) v."""

    m: Float[Array, "*B R 1"]
    l: Float[Array, "*B R 1"]  # noqa: E741
    acc: Float[Array, "*B R Hv"]


def is_unrolled(queries: int, keys: int, tiling: Tiling) -> bool:
    """Whether chunks of queries are cut without a loop: those of a whole text that is not long."""
    return queries <= tiling.unrolled and queries == keys


def softmax_by_tiles(x: AttentionInputs, tiling: Tiling) -> tuple[Float[Array, "B K G T Hv"], Float[Array, "B K G T"]]:
    """The output and the log-sum-exp, which includes the sink logit b, by `online_softmax` from m = b, l = 1, acc = 0.

    Tiles of which nothing is visible are skipped: with a window, time is linear in T. A row that sees nothing has the output
    0, and the log-sum-exp 0 if b = -inf.
    """
    (B, K, G, T, _), Hv, dtype, size = x.q.shape, x.v.shape[-1], x.v.dtype, tiling.tile
    x, tiles = filled(x, size)

    def rows(number: Int[Array, ""], done: tuple[Array, Array]) -> tuple[Array, Array]:
        start = number * size
        row = start + jnp.arange(size)
        q, i = rows_of(x, start, size), jnp.where(row < T, x.mask.first_query + row, -1)
        count, _, at = tiles_seen(x.mask.first_query + start, size, size, x.mask)

        def with_keys(n: Int[Array, ""], sums: OnlineSoftmax) -> OnlineSoftmax:
            tile = keys_of(x, at(n), size)

            def weigh(p: Array) -> Array:
                return jnp.einsum("BKqS,BKSH->BKqH", p.astype(dtype), tile.v, preferred_element_type=jnp.float32)

            return online_softmax(sums, scores_of(tile, q, i, at(n)), weigh)

        sums = jax.lax.fori_loop(0, count, with_keys, _of_sink_logit(x, size, B, Hv))
        total = nonzero(sums.l)
        out = (sums.acc / total).astype(dtype).reshape(B, K, G, size, Hv, out_sharding=on_mesh(heads_first(5)))
        lse = (finite(sums.m) + jnp.log(total)).reshape(B, K, G, size, out_sharding=on_mesh(heads_first(4)))
        return tuple(placed(whole, part, start, 3) for whole, part in zip(done, (out, lse), strict=True))  # pyright: ignore[reportReturnType]

    shape = (B, K, G, tiles * size)
    empty = (
        jnp.zeros((*shape, Hv), dtype, out_sharding=on_mesh(heads_first(5))),
        jnp.zeros(shape, jnp.float32, out_sharding=on_mesh(heads_first(4))),
    )
    out, lse = jax.lax.fori_loop(0, tiles, rows, empty)
    return out[:, :, :, :T], lse[:, :, :, :T]


def online_softmax(
    sums: OnlineSoftmax,
    s: Float[Array, "*B R S"],
    weigh: Callable[[Float[Array, "*B R S"]], Float[Array, "*B R Hv"]],
    exp: Callable[[Array], Array] = jnp.exp,
) -> OnlineSoftmax:
    """The sums with a tile of keys more (Milakov and Gimelshein 2018, arXiv:1805.02867).

        m' = max(m, max_j s_j),   l' = l e^(m - m') + Σ_j e^(s_j - m'),   acc' = acc e^(m - m') + Σ_j e^(s_j - m') v_j

    Args:
        sums: those of the keys before.
        s: scores of the tile.
        weigh: Σ_j p_j v_j of the tile's values, for weights p.
        exp: e^x.
    """
    m = jnp.maximum(sums.m, jnp.max(s, axis=-1, keepdims=True))
    base = finite(m)
    p, shrunk = exp(s - base), exp(sums.m - base)
    return OnlineSoftmax(m, sums.l * shrunk + jnp.sum(p, axis=-1, keepdims=True), sums.acc * shrunk + weigh(p))


def _of_sink_logit(x: AttentionInputs, size: int, batch: int, channels: int) -> OnlineSoftmax:
    """The sums of `size` rows before the first key."""
    logits = jnp.repeat(x.sink_logit, size, axis=1, total_repeat_length=x.sink_logit.shape[1] * size)
    m = jnp.zeros((batch, *logits.shape, 1), jnp.float32, out_sharding=on_mesh(heads_first(4))) + logits[None, ..., None]
    acc = jnp.zeros((*m.shape[:3], channels), jnp.float32, out_sharding=on_mesh(heads_first(4)))
    return OnlineSoftmax(m, jnp.isfinite(m).astype(jnp.float32), acc)


def filled(x: AttentionInputs, size: int) -> tuple[AttentionInputs, int]:
    """x with zeros after queries and keys up to whole tiles, and the number of tiles of queries.

    The surplus keys lie after every query, so that none sees them.
    """
    tiles, keys = (math.ceil(tokens / size) for tokens in (x.q.shape[3], x.k.shape[2]))
    surplus = keys * size - x.k.shape[2]
    padding = None if x.mask.padding is None else pad_end(x.mask.padding, 1, surplus)
    k, v = (pad_end(a, 2, surplus) for a in (x.k, x.v))
    q = pad_end(x.q, 3, tiles * size - x.q.shape[3])
    return x._replace(q=q, k=k, v=v, mask=x.mask._replace(padding=padding)), tiles


def pad_end(x: Array, axis: int, surplus: int) -> Array:
    """x with `surplus` zeros appended along `axis`."""
    return jnp.pad(x, [(0, surplus if a == axis else 0) for a in range(x.ndim)])


def rows_of(x: AttentionInputs, start: Int[Array, ""], count: int) -> Float[Array, "B K R H"]:
    """`count` scaled queries from `start` on, the G heads of a group one after the other."""
    B, K, G = x.q.shape[:3]
    q = jax.lax.dynamic_slice_in_dim(x.q, start, count, 3)
    return x.scale * q.reshape(B, K, G * count, -1, out_sharding=on_mesh(heads_first(4)))


def scores_of(
    x: AttentionInputs, q: Float[Array, "B K R H"], i: Int[Array, " q"], at: Int[Array, ""] | int
) -> Float[Array, "B K R S"]:
    """The scores of queries at positions i, those of `rows_of`, with all keys of x, the first of which is at position `at`."""
    S = x.k.shape[2]
    distance, is_visible = distances(i, at + jnp.arange(S), x.mask)
    linear = masked_bias(distance, is_visible, x.slopes)
    linear = linear.reshape(1, q.shape[1], q.shape[2], S, out_sharding=on_mesh(ROWS_OF_GROUPS))
    scores = jnp.einsum("BKqH,BKSH->BKqS", q, x.k, preferred_element_type=jnp.float32) + linear
    return scores if x.mask.padding is None else jnp.where(x.mask.padding[:, None, None], scores, -jnp.inf)


def keys_of(x: AttentionInputs, start: Int[Array, ""] | int, count: int) -> AttentionInputs:
    """x with `count` of its keys from `start` on."""
    k, v = (jax.lax.dynamic_slice_in_dim(a, start, count, 2) for a in (x.k, x.v))
    padding = None if x.mask.padding is None else jax.lax.dynamic_slice_in_dim(x.mask.padding, start, count, 1)
    return x._replace(k=k, v=v, mask=x.mask._replace(padding=padding))


def placed(whole: Array, part: Array, at: Int[Array, ""] | int, axis: int) -> Array:
    """`whole` with `part` written from `at` on along `axis`."""
    return jax.lax.dynamic_update_slice_in_dim(whole, part, at, axis)
