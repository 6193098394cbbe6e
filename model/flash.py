"""The backward pass of softmax attention from its output and log-sum-exp, by blocks (Dao et al. 2022, arXiv:2205.14135)."""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from model.blocks import chunks_of, heads, seen

# Up to so many tokens rows are cut into chunks without a loop. Beyond, tiles of so many rows and keys, whose scores stay in the
# last cache of a CPU: a training step at 4096 tokens takes 1036 ms, where rows with all of their keys at once took 1109.
LONGEST_UNROLLED, TILE = 1024, 512


class Softmax(NamedTuple):
    """Softmax attention of grouped heads, G to a key/value head: all that its scores depend on."""

    q: Float[Array, "B K G T H"]  # scaled
    k: Float[Array, "B K S H"]
    v: Float[Array, "B K S Hv"]
    extra_logit: Float[Array, "K G"]
    slopes: Float[Array, "K G"]
    window: Int[Array, ""]
    padding: Bool[Array, "B S"] | None


class _Block(NamedTuple):
    """Some of the query rows, with what is known of them."""

    q: Float[Array, "B K G q H"]
    cotangent: Float[Array, "B K G q Hv"]
    lse: Float[Array, "B K G q"]
    delta: Float[Array, "B K G q"]  # Σ cotangent · output
    i: Int[Array, " q"]


class _Gradients(NamedTuple):
    """Of some keys; None for slopes that nobody differentiates."""

    k: Float[Array, "B K S H"]
    v: Float[Array, "B K S Hv"]
    slopes: Float[Array, "K G"] | None


def softmax_gradients(
    x: Softmax,
    out: Float[Array, "B K G T Hv"],
    lse: Float[Array, "B K G T"],
    cotangent: Float[Array, "B K G T Hv"],
    *,
    with_slopes: bool,
) -> tuple[Array, Array, Array, Array, Array | None]:
    """The cotangents of q, k, v, extra_logit and, where they are asked for, slopes for that of the output o.

        dS = P ⊙ (dO Vᵀ - δ),   δ = Σ dO ⊙ O,   P = e^(S - lse)
        dQ = dS K,   dK = dSᵀ Q,   dV = Pᵀ dO,   db = -Σ e^(b - lse) δ,   dslope = -Σ dS ⊙ (i - j)

    lse and O include the extra logit b, and so do all of these: nothing else in them knows of it. Memory is linear in T.
    """
    products = cotangent.astype(jnp.float32) * out.astype(jnp.float32)
    delta = jnp.einsum("BKGTH,H->BKGT", products, jnp.ones(products.shape[-1]))
    rows = _Block(x.q, cotangent, lse, delta, jnp.arange(x.q.shape[3]))
    by = _by_tiles if x.q.shape[3] > LONGEST_UNROLLED else _by_chunks
    dq, total = by(x, rows, with_slopes=with_slopes)
    extra = -jnp.sum(jnp.exp(x.extra_logit[None, :, :, None] - lse) * delta, axis=(0, 3))
    dq, dk, dv = (a.astype(b.dtype) for a, b in ((dq, x.q), (total.k, x.k), (total.v, x.v)))
    return dq, dk, dv, extra, total.slopes


def _by_chunks(x: Softmax, rows: _Block, *, with_slopes: bool) -> tuple[Float[Array, "B K G T H"], _Gradients]:
    """Each chunk of rows with the keys that it sees, without a loop."""
    T = rows.i.shape[0]
    dq, parts = [], []
    for start, stop in chunks_of(T):
        found, own = _block(_of_keys(x, 0, stop), _of_rows(rows, start, stop - start), 0, with_slopes=with_slopes)
        dq.append(found)
        behind = [(0, 0), (0, 0), (0, T - stop), (0, 0)]
        parts.append(own._replace(k=jnp.pad(own.k, behind), v=jnp.pad(own.v, behind)))
    return jnp.concatenate(dq, axis=3), jax.tree.map(lambda *leaves: sum(leaves[1:], leaves[0]), *parts)


def _by_tiles(x: Softmax, rows: _Block, *, with_slopes: bool) -> tuple[Float[Array, "B K G T H"], _Gradients]:
    """One tile of TILE rows and as many keys after the other. Those that the window hides are skipped."""
    T = rows.i.shape[0]
    tiles = math.ceil(T / TILE)
    surplus = tiles * TILE - T
    wide = {name: _filled(a, 3, surplus) for name, a in rows._asdict().items() if name != "i"}
    rows = _Block(**wide, i=jnp.pad(rows.i, (0, surplus), constant_values=-1))
    padding = None if x.padding is None else _filled(x.padding, 1, surplus)
    x = x._replace(k=_filled(x.k, 2, surplus), v=_filled(x.v, 2, surplus), padding=padding)
    block = functools.partial(_block, with_slopes=with_slopes)
    summed = _Gradients(x.k, x.v, x.slopes if with_slopes else None)
    zero = jax.tree.map(lambda a: jnp.zeros_like(a, jnp.float32), (rows.q, summed))

    def one(total: tuple[Array, _Gradients], tile: Int[Array, " 2"]) -> tuple[tuple[Array, _Gradients], None]:
        row, key = tile[0] * TILE, tile[1] * TILE
        given = _of_keys(x, key, TILE), _of_rows(rows, row, TILE), key
        nothing = jax.tree.map(_zeros, jax.eval_shape(block, *given))
        near = row - (key + TILE - 1) < x.window
        dq, own = jax.lax.cond(near, lambda: block(*given), lambda: nothing)
        slopes = None if own.slopes is None or total[1].slopes is None else total[1].slopes + own.slopes
        keys = _Gradients(_added(total[1].k, own.k, key, 2), _added(total[1].v, own.v, key, 2), slopes)
        return (_added(total[0], dq, row, 3), keys), None

    pairs = np.array([(row, key) for row in range(tiles) for key in range(row + 1)], np.int32)
    (dq, own), _ = jax.lax.scan(one, zero, jnp.asarray(pairs))
    return dq[:, :, :, :T], own._replace(k=own.k[:, :, :T], v=own.v[:, :, :T])


def _filled(x: Array, axis: int, surplus: int) -> Array:
    """With so many zeros behind `axis`."""
    return jnp.pad(x, [(0, surplus if a == axis else 0) for a in range(x.ndim)])


def _zeros(shape: Any) -> Array:
    return jnp.zeros(shape.shape, shape.dtype, out_sharding=shape.sharding.spec)


def _added(whole: Array, part: Array, at: Int[Array, ""], axis: int) -> Array:
    """`part` added from `at` on."""
    before = jax.lax.dynamic_slice_in_dim(whole, at, part.shape[axis], axis)
    return jax.lax.dynamic_update_slice_in_dim(whole, before + part, at, axis)


def _of_rows(rows: _Block, start: Int[Array, ""] | int, count: int) -> _Block:
    own = {name: jax.lax.dynamic_slice_in_dim(a, start, count, 3) for name, a in rows._asdict().items() if name != "i"}
    return _Block(**own, i=jax.lax.dynamic_slice_in_dim(rows.i, start, count))


def _of_keys(x: Softmax, start: Int[Array, ""] | int, count: int) -> Softmax:
    k, v = (jax.lax.dynamic_slice_in_dim(a, start, count, 2) for a in (x.k, x.v))
    padding = None if x.padding is None else jax.lax.dynamic_slice_in_dim(x.padding, start, count, 1)
    return x._replace(k=k, v=v, padding=padding)


def _block(
    x: Softmax, rows: _Block, first: Int[Array, ""] | int, *, with_slopes: bool
) -> tuple[Float[Array, "B K G q H"], _Gradients]:
    """Some rows and the keys from `first` on. Keys come before queries, and of dQ its transpose is computed, so that no product
    has to transpose what is as large as the scores."""
    B, K, G, q, H = rows.q.shape
    queries, cotangent = (a.reshape(B, K, G * q, -1, out_sharding=heads(4)) for a in (rows.q, rows.cotangent))
    lse, delta = (a.reshape(B, K, 1, G * q, out_sharding=heads(4)) for a in (rows.lse, rows.delta))
    distance = rows.i[None, :] - (first + jnp.arange(x.k.shape[2]))[:, None]
    visible = (distance >= 0) & (distance < x.window) & (rows.i[None, :] >= 0)
    near = seen(distance, visible, x.slopes)
    near = jnp.swapaxes(near, 1, 2).reshape(1, K, -1, G * q, out_sharding=P(None, "model", None, None))
    scores = jnp.einsum("BKSH,BKqH->BKSq", x.k, queries, preferred_element_type=jnp.float32) + near
    if x.padding is not None:
        scores = jnp.where(x.padding[:, None, :, None], scores, -jnp.inf)
    p = jnp.exp(scores - lse)
    dp = jnp.einsum("BKSH,BKqH->BKSq", x.v, cotangent, preferred_element_type=jnp.float32)
    ds = p * (dp - delta)
    slopes = None
    if with_slopes:
        by_group = ds.reshape(B, K, -1, G, q, out_sharding=heads(5))
        slopes = -jnp.einsum("BKSGq,Sq->KG", by_group, distance.astype(jnp.float32))
    ds, p = ds.astype(x.q.dtype), p.astype(x.v.dtype)
    dq = jnp.einsum("BKHS,BKSq->BKHq", jnp.swapaxes(x.k, 2, 3), ds, preferred_element_type=jnp.float32)
    dq = jnp.swapaxes(dq, 2, 3)
    dk = jnp.einsum("BKSq,BKqH->BKSH", ds, queries, preferred_element_type=jnp.float32)
    dv = jnp.einsum("BKSq,BKqH->BKSH", p, cotangent, preferred_element_type=jnp.float32)
    return dq.reshape(B, K, G, q, H, out_sharding=heads(5)), _Gradients(dk, dv, slopes)
