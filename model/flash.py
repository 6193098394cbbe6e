"""The backward pass of softmax attention from its output and log-sum-exp, by blocks (Dao et al. 2022, arXiv:2205.14135)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from model.blocks import chunks_of, heads, merge_blocks, one_block, seen, split_blocks


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
    k: Float[Array, "B K S H"]
    v: Float[Array, "B K S Hv"]
    slopes: Float[Array, "K G"]


def softmax_gradients(
    x: Softmax, out: Float[Array, "B K G T Hv"], lse: Float[Array, "B K G T"], cotangent: Float[Array, "B K G T Hv"]
) -> tuple[Array, Array, Array, Array, Array]:
    """The cotangents of q, k, v, extra_logit and slopes for that of the output o.

        dS = P ⊙ (dO Vᵀ - δ),   δ = Σ dO ⊙ O,   P = e^(S - lse)
        dQ = dS K,   dK = dSᵀ Q,   dV = Pᵀ dO,   db = -Σ e^(b - lse) δ,   dslope = -Σ dS ⊙ (i - j)

    lse and O include the extra logit b, and so do all of these: nothing else in them knows of it. Memory is linear in T.
    """
    products = cotangent.astype(jnp.float32) * out.astype(jnp.float32)
    delta = jnp.einsum("BKGTH,H->BKGT", products, jnp.ones(products.shape[-1]))
    T = x.q.shape[3]
    dq, parts = [], []
    for start, stop in chunks_of(T):
        q, g, sums, deltas = (a[:, :, :, start:stop] for a in (x.q, cotangent, lse, delta))
        block = _Block(q, g, sums, deltas, jnp.arange(start, stop))
        found, own = _chunk(x._replace(k=x.k[:, :, :stop], v=x.v[:, :, :stop]), block)
        dq.append(found)
        parts.append(own._replace(k=_filled(own.k, T), v=_filled(own.v, T)))
    total = jax.tree.map(lambda *leaves: sum(leaves[1:], leaves[0]), *parts)
    extra = -jnp.sum(jnp.exp(x.extra_logit[None, :, :, None] - lse) * delta, axis=(0, 3))
    return jnp.concatenate(dq, axis=3), total.k.astype(x.k.dtype), total.v.astype(x.v.dtype), extra, total.slopes


def _filled(gradient: Float[Array, "B K S H"], tokens: int) -> Float[Array, "B K T H"]:
    """With zeros for the keys behind those that a chunk sees."""
    return jnp.pad(gradient, [(0, 0), (0, 0), (0, tokens - gradient.shape[2]), (0, 0)])


def _chunk(x: Softmax, rows: _Block) -> tuple[Float[Array, "B K G C H"], _Gradients]:
    """Blocks of BLOCK rows that see the same keys, one after the other."""
    count = rows.i.shape[0]
    if one_block(count):
        return _block(x, rows)
    split = _Block(
        q=split_blocks(rows.q, 3, heads(6)),
        cotangent=split_blocks(rows.cotangent, 3, heads(6)),
        lse=split_blocks(rows.lse, 3, heads(5)),
        delta=split_blocks(rows.delta, 3, heads(5)),
        i=split_blocks(rows.i, 0, P(None, None), -1),
    )
    zero = _Gradients(*(jnp.zeros_like(a, jnp.float32) for a in (x.k, x.v, x.slopes)))

    def one(sofar: _Gradients, block: _Block) -> tuple[_Gradients, Array]:
        dq, own = _block(x, block)
        return jax.tree.map(jnp.add, sofar, own), dq

    total, dq = jax.lax.scan(one, zero, split)
    return merge_blocks(dq, count), total


def _block(x: Softmax, rows: _Block) -> tuple[Float[Array, "B K G q H"], _Gradients]:
    """One block of rows; keys come before queries, so that no product has to transpose what is as large as the scores."""
    B, K, G, q, H = rows.q.shape
    queries, cotangent = (a.reshape(B, K, G * q, -1, out_sharding=heads(4)) for a in (rows.q, rows.cotangent))
    lse, delta = (a.reshape(B, K, 1, G * q, out_sharding=heads(4)) for a in (rows.lse, rows.delta))
    distance = rows.i[None, :] - jnp.arange(x.k.shape[2])[:, None]
    visible = (distance >= 0) & (distance < x.window) & (rows.i[None, :] >= 0)
    near = seen(distance, visible, x.slopes)
    near = jnp.swapaxes(near, 1, 2).reshape(1, K, -1, G * q, out_sharding=P(None, "model", None, None))
    scores = jnp.einsum("BKSH,BKqH->BKSq", x.k, queries, preferred_element_type=jnp.float32) + near
    if x.padding is not None:
        scores = jnp.where(x.padding[:, None, : scores.shape[2], None], scores, -jnp.inf)
    p = jnp.exp(scores - lse)
    dp = jnp.einsum("BKSH,BKqH->BKSq", x.v, cotangent, preferred_element_type=jnp.float32)
    ds = p * (dp - delta)
    by_group = ds.reshape(B, K, -1, G, q, out_sharding=heads(5))
    slopes = -jnp.einsum("BKSGq,Sq->KG", by_group, distance.astype(jnp.float32))
    ds, p = ds.astype(x.q.dtype), p.astype(x.v.dtype)
    dq = jnp.einsum("BKSq,BKSH->BKqH", ds, x.k, preferred_element_type=jnp.float32).astype(x.q.dtype)
    dk = jnp.einsum("BKSq,BKqH->BKSH", ds, queries, preferred_element_type=jnp.float32)
    dv = jnp.einsum("BKSq,BKqH->BKSH", p, cotangent, preferred_element_type=jnp.float32)
    return dq.reshape(B, K, G, q, H, out_sharding=heads(5)), _Gradients(dk, dv, slopes)
