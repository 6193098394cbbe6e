"""The gradient of softmax attention from its output and log-sum-exp, by blocks (Dao et al. 2022, arXiv:2205.14135)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from leadline.model.attention.mask import Tiling, chunks_of, distances, masked_bias, tiles_seen
from leadline.model.attention.pallas_vjp import gradients_by_kernel
from leadline.model.attention.scores import AttentionInputs
from leadline.model.attention.tiled import filled, is_unrolled, keys_of, pad_end, placed
from leadline.model.layout import row_major
from leadline.model.mesh import ROWS_OF_GROUPS, heads_first, on_mesh


class _Block(NamedTuple):
    """Some of the query rows, with what is known of them."""

    q: Float[Array, "B K G q H"]  # scaled
    cotangent: Float[Array, "B K G q Hv"]
    lse: Float[Array, "B K G q"]
    delta: Float[Array, "B K G q"]  # Σ cotangent · output
    i: Int[Array, " q"]  # -1 where there is no query


class _Gradients(NamedTuple):
    """Of some keys; None for slopes that are not differentiated."""

    k: Float[Array, "B K S H"]
    v: Float[Array, "B K S Hv"]
    slopes: Float[Array, "K G"] | None


def softmax_gradients(
    x: AttentionInputs,
    out: Float[Array, "B K G T Hv"],
    lse: Float[Array, "B K G T"],
    cotangent: Float[Array, "B K G T Hv"],
    tiling: Tiling,
    *,
    kernel: bool,
    with_slopes: bool,
) -> tuple[Array, Array, Array, Array, Array, Array | None]:
    """The vector-Jacobian product of the output, in memory linear in T.

        dS = P ⊙ (dO Vᵀ - δ),   δ = Σ dO ⊙ O,   P = e^(S - lse)
        dQ = c dS K,   dc = Σ Q ⊙ dS K,   dK = c dSᵀ Q,   dV = Pᵀ dO,   db = -Σ e^(b - lse) δ,   dslope = -Σ dS ⊙ (i - j)

    c is the scale of the products. lse and O include the sink logit b, and so do all of these; b enters nowhere else.

    Args:
        x: the inputs.
        out: O.
        lse: the log-sum-exp.
        cotangent: dO.
        tiling: the blocks.
        kernel: whether kernels of the device compute it (model.attention.pallas_vjp).
        with_slopes: whether slopes are differentiated.

    Returns:
        The cotangents of q, scale, k, v, sink_logit and slopes, None for slopes that are not differentiated.
    """
    products = cotangent.astype(jnp.float32) * out.astype(jnp.float32)
    delta = jnp.einsum("BKGTH,H->BKGT", products, jnp.ones(products.shape[-1]), precision=jax.lax.Precision.HIGHEST)
    rows = _Block(x.scale * x.q, cotangent.astype(x.v.dtype), lse, delta, x.positions)
    if kernel:
        dq, dk, dv, slopes = gradients_by_kernel(x, rows.cotangent, lse, delta, tiling=tiling, with_slopes=with_slopes)
        total = _Gradients(dk, dv, slopes)
    elif is_unrolled(x.q.shape[3], x.k.shape[2], tiling):
        dq, total = _by_chunks(x, rows, tiling, with_slopes=with_slopes)
    else:
        dq, total = _by_tiles(x, rows, tiling.tile, with_slopes=with_slopes)
    scale = jnp.sum(dq * x.q.astype(jnp.float32)).astype(x.scale.dtype)
    dq = dq * x.scale.astype(jnp.float32)
    sink_logit = -jnp.sum(jnp.exp(x.sink_logit[None, :, :, None] - lse) * delta, axis=(0, 3))
    dq, dk, dv = (a.astype(b.dtype) for a, b in ((dq, x.q), (total.k, x.k), (total.v, x.v)))
    return dq, scale, dk, dv, sink_logit, total.slopes


def _by_chunks(
    x: AttentionInputs, rows: _Block, tiling: Tiling, *, with_slopes: bool
) -> tuple[Float[Array, "B K G T H"], _Gradients]:
    """Each chunk of rows with the keys that it sees, without a loop."""
    T = rows.i.shape[0]
    dq, parts = [], []
    for start, stop in chunks_of(T, tiling):
        of_rows, part = _block(keys_of(x, 0, stop), _rows_of(rows, start, stop - start), 0, with_slopes=with_slopes)
        dq.append(of_rows)
        parts.append(part._replace(k=pad_end(part.k, 2, T - stop), v=pad_end(part.v, 2, T - stop)))
    return jnp.concatenate(dq, axis=3), jax.tree.map(lambda *leaves: sum(leaves[1:], leaves[0]), *parts)


def _by_tiles(
    x: AttentionInputs, rows: _Block, size: int, *, with_slopes: bool
) -> tuple[Float[Array, "B K G T H"], _Gradients]:
    """Each tile of `size` rows with the tiles of as many keys that it sees, one after the other."""
    T, S, mask = rows.i.shape[0], x.k.shape[2], x.mask
    x, tiles = filled(x, size)
    surplus = tiles * size - T
    wide = {name: pad_end(a, 3, surplus) for name, a in rows._asdict().items() if name != "i"}
    rows = _Block(**wide, i=jnp.pad(rows.i, (0, surplus), constant_values=-1))

    def with_rows(number: Int[Array, ""], done: tuple[Array, _Gradients]) -> tuple[Array, _Gradients]:
        start = number * size
        block = _rows_of(rows, start, size)
        count, _, at = tiles_seen(mask.first_query + start, size, size, mask)

        def with_keys(n: Int[Array, ""], sums: tuple[Array, _Gradients]) -> tuple[Array, _Gradients]:
            dq, total = sums
            more, part = _block(keys_of(x, at(n), size), block, at(n), with_slopes=with_slopes)
            slopes = jax.tree.map(jnp.add, total.slopes, part.slopes)  # or None
            return dq + more, _Gradients(_added(total.k, part.k, at(n)), _added(total.v, part.v, at(n)), slopes)

        dq, total = jax.lax.fori_loop(0, count, with_keys, (jnp.zeros_like(block.q, jnp.float32), done[1]))
        return placed(done[0], dq, start, 3), total

    summed = _Gradients(x.k, x.v, x.slopes if with_slopes else None)
    zeros = jax.tree.map(lambda a: jnp.zeros_like(a, jnp.float32), (rows.q, summed))
    dq, total = jax.lax.fori_loop(0, tiles, with_rows, zeros)
    return dq[:, :, :, :T], total._replace(k=total.k[:, :, :S], v=total.v[:, :, :S])


def _added(whole: Float[Array, "B K S H"], part: Float[Array, "B K tile H"], at: Int[Array, ""]) -> Float[Array, "B K S H"]:
    """`part` added from `at` on."""
    return placed(whole, jax.lax.dynamic_slice_in_dim(whole, at, part.shape[2], 2) + part, at, 2)


def _rows_of(rows: _Block, start: Int[Array, ""] | int, count: int) -> _Block:
    cut = {name: jax.lax.dynamic_slice_in_dim(a, start, count, 3) for name, a in rows._asdict().items() if name != "i"}
    return _Block(**cut, i=jax.lax.dynamic_slice_in_dim(rows.i, start, count))


def _block(
    x: AttentionInputs, rows: _Block, first: Int[Array, ""] | int, *, with_slopes: bool
) -> tuple[Float[Array, "B K G q H"], _Gradients]:
    """Gradients of some rows and the keys of x, the first of which is at position `first`.

    Keys come before queries, and the transpose of dQ is computed, so that no product has to transpose an array as large as the
    scores.
    """
    B, K, G, q, H = rows.q.shape
    queries, cotangent = (a.reshape(B, K, G * q, -1, out_sharding=on_mesh(heads_first(4))) for a in (rows.q, rows.cotangent))
    lse, delta = (a.reshape(B, K, 1, G * q, out_sharding=on_mesh(heads_first(4))) for a in (rows.lse, rows.delta))
    distance, is_visible = (a.T for a in distances(rows.i, first + jnp.arange(x.k.shape[2]), x.mask))
    linear = jnp.swapaxes(masked_bias(distance, is_visible, x.slopes), 1, 2)
    linear = linear.reshape(1, K, -1, G * q, out_sharding=on_mesh(ROWS_OF_GROUPS))
    scores = jnp.einsum("BKSH,BKqH->BKSq", x.k, queries, preferred_element_type=jnp.float32) + linear
    if x.mask.padding is not None:
        scores = jnp.where(x.mask.padding[:, None, :, None], scores, -jnp.inf)
    p = jnp.exp(scores - lse)
    dp = jnp.einsum("BKSH,BKqH->BKSq", x.v, cotangent, preferred_element_type=jnp.float32)
    ds = p * (dp - delta)
    slopes = None
    if with_slopes:
        by_group = ds.reshape(B, K, -1, G, q, out_sharding=on_mesh(heads_first(5)))
        slopes = -jnp.einsum("BKSGq,Sq->KG", by_group, distance.astype(jnp.float32))
    ds, p = ds.astype(x.q.dtype), p.astype(x.v.dtype)
    dq = jnp.einsum("BKHS,BKSq->BKHq", row_major(jnp.swapaxes(x.k, 2, 3)), ds, preferred_element_type=jnp.float32)
    dq = jnp.swapaxes(row_major(dq), 2, 3)  # else XLA folds this into the factors, which undoes the line above
    dk = jnp.einsum("BKSq,BKqH->BKSH", ds, queries, preferred_element_type=jnp.float32)
    dv = jnp.einsum("BKSq,BKqH->BKSH", p, cotangent, preferred_element_type=jnp.float32)
    return dq.reshape(B, K, G, q, H, out_sharding=on_mesh(heads_first(5))), _Gradients(dk, dv, slopes)
