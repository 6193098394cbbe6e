"""The gradient of softmax attention from its output and log-sum-exp, by blocks (Dao et al. 2022, arXiv:2205.14135)."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from model.blocks import chunks_of, heads, looked_at, seen, tiles_seen
from model.flash import TILE, Softmax, behind, filled, keys_of, placed, unrolled
from model.flash_kernel_gradient import gradients_by_kernel
from model.flash_machine import Machine
from model.layout import row_major


class _Block(NamedTuple):
    """Some of the query rows, with what is known of them."""

    q: Float[Array, "B K G q H"]
    cotangent: Float[Array, "B K G q Hv"]
    lse: Float[Array, "B K G q"]
    delta: Float[Array, "B K G q"]  # Σ cotangent · output
    i: Int[Array, " q"]  # -1 where there is no query


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
    kernel_of: Machine | None,
    with_slopes: bool,
) -> tuple[Array, Array, Array, Array, Array | None]:
    """The cotangents of q, k, v, extra_logit and, where they are asked for, slopes for that of the output o.

        dS = P ⊙ (dO Vᵀ - δ),   δ = Σ dO ⊙ O,   P = e^(S - lse)
        dQ = c dS K,   dK = c dSᵀ Q,   dV = Pᵀ dO,   db = -Σ e^(b - lse) δ,   dslope = -Σ dS ⊙ (i - j)

    c is the scale of the products. lse and O include the extra logit b, and so do all of these: nothing else in them knows of
    it. Memory is linear in T. `kernel_of` is the machine whose kernels compute it, None without any.
    """
    products = cotangent.astype(jnp.float32) * out.astype(jnp.float32)
    delta = jnp.einsum("BKGTH,H->BKGT", products, jnp.ones(products.shape[-1]), precision=jax.lax.Precision.HIGHEST)
    rows = _Block(x.scale * x.q, cotangent.astype(x.v.dtype), lse, delta, x.places)
    if kernel_of is not None:
        by = functools.partial(_by_kernel, machine=kernel_of)
    else:
        by = _by_chunks if unrolled(x.q.shape[3], x.k.shape[2]) else _by_tiles
    dq, total = by(x, rows, with_slopes=with_slopes)
    dq = dq * x.scale.astype(jnp.float32)
    extra = -jnp.sum(jnp.exp(x.extra_logit[None, :, :, None] - lse) * delta, axis=(0, 3))
    dq, dk, dv = (a.astype(b.dtype) for a, b in ((dq, x.q), (total.k, x.k), (total.v, x.v)))
    return dq, dk, dv, extra, total.slopes


def _by_kernel(
    x: Softmax, rows: _Block, *, machine: Machine, with_slopes: bool
) -> tuple[Float[Array, "B K G T H"], _Gradients]:
    dq, dk, dv, slopes = gradients_by_kernel(x, rows.cotangent, rows.lse, rows.delta, machine=machine, with_slopes=with_slopes)
    return dq, _Gradients(dk, dv, slopes)


def _by_chunks(x: Softmax, rows: _Block, *, with_slopes: bool) -> tuple[Float[Array, "B K G T H"], _Gradients]:
    """Each chunk of rows with the keys that it sees, without a loop."""
    T = rows.i.shape[0]
    dq, parts = [], []
    for start, stop in chunks_of(T):
        found, own = _block(keys_of(x, 0, stop), _of_rows(rows, start, stop - start), 0, with_slopes=with_slopes)
        dq.append(found)
        parts.append(own._replace(k=behind(own.k, 2, T - stop), v=behind(own.v, 2, T - stop)))
    return jnp.concatenate(dq, axis=3), jax.tree.map(lambda *leaves: sum(leaves[1:], leaves[0]), *parts)


def _by_tiles(x: Softmax, rows: _Block, *, with_slopes: bool) -> tuple[Float[Array, "B K G T H"], _Gradients]:
    """One tile of TILE rows and as many keys after the other, of those that are seen."""
    T, S = rows.i.shape[0], x.k.shape[2]
    x, tiles = filled(x, TILE)
    surplus = tiles * TILE - T
    wide = {name: behind(a, 3, surplus) for name, a in rows._asdict().items() if name != "i"}
    rows = _Block(**wide, i=jnp.pad(rows.i, (0, surplus), constant_values=-1))

    def with_rows(number: Int[Array, ""], found: tuple[Array, _Gradients]) -> tuple[Array, _Gradients]:
        start = number * TILE
        own = _of_rows(rows, start, TILE)
        count, _, at = tiles_seen(x.first + start, TILE, TILE, x.window, x.kept)

        def with_keys(n: Int[Array, ""], found: tuple[Array, _Gradients]) -> tuple[Array, _Gradients]:
            dq, total = found
            more, part = _block(keys_of(x, at(n), TILE), own, at(n), with_slopes=with_slopes)
            slopes = jax.tree.map(jnp.add, total.slopes, part.slopes)  # or None
            return dq + more, _Gradients(_added(total.k, part.k, at(n)), _added(total.v, part.v, at(n)), slopes)

        dq, total = jax.lax.fori_loop(0, count, with_keys, (jnp.zeros_like(own.q, jnp.float32), found[1]))
        return placed(found[0], dq, start, 3), total

    summed = _Gradients(x.k, x.v, x.slopes if with_slopes else None)
    zeros = jax.tree.map(lambda a: jnp.zeros_like(a, jnp.float32), (rows.q, summed))
    dq, own = jax.lax.fori_loop(0, tiles, with_rows, zeros)
    return dq[:, :, :, :T], own._replace(k=own.k[:, :, :S], v=own.v[:, :, :S])


def _added(whole: Float[Array, "B K S H"], part: Float[Array, "B K tile H"], at: Int[Array, ""]) -> Float[Array, "B K S H"]:
    """`part` added from `at` on."""
    return placed(whole, jax.lax.dynamic_slice_in_dim(whole, at, TILE, 2) + part, at, 2)


def _of_rows(rows: _Block, start: Int[Array, ""] | int, count: int) -> _Block:
    own = {name: jax.lax.dynamic_slice_in_dim(a, start, count, 3) for name, a in rows._asdict().items() if name != "i"}
    return _Block(**own, i=jax.lax.dynamic_slice_in_dim(rows.i, start, count))


def _block(
    x: Softmax, rows: _Block, first: Int[Array, ""] | int, *, with_slopes: bool
) -> tuple[Float[Array, "B K G q H"], _Gradients]:
    """Some rows and the keys from `first` on. Keys come before queries, and of dQ its transpose is computed, so that no product
    has to transpose what is as large as the scores."""
    B, K, G, q, H = rows.q.shape
    queries, cotangent = (a.reshape(B, K, G * q, -1, out_sharding=heads(4)) for a in (rows.q, rows.cotangent))
    lse, delta = (a.reshape(B, K, 1, G * q, out_sharding=heads(4)) for a in (rows.lse, rows.delta))
    distance, visible = (a.T for a in looked_at(rows.i, first + jnp.arange(x.k.shape[2]), x.window, x.kept))
    near = jnp.swapaxes(seen(distance, visible, x.slopes), 1, 2)
    near = near.reshape(1, K, -1, G * q, out_sharding=P(None, "model", None, None))
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
    dq = jnp.einsum("BKHS,BKSq->BKHq", row_major(jnp.swapaxes(x.k, 2, 3)), ds, preferred_element_type=jnp.float32)
    dq = jnp.swapaxes(row_major(dq), 2, 3)  # else XLA folds this into the factors, which undoes the line above
    dk = jnp.einsum("BKSq,BKqH->BKSH", ds, queries, preferred_element_type=jnp.float32)
    dv = jnp.einsum("BKSq,BKqH->BKSH", p, cotangent, preferred_element_type=jnp.float32)
    return dq.reshape(B, K, G, q, H, out_sharding=heads(5)), _Gradients(dk, dv, slopes)
