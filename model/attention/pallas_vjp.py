"""The gradient of softmax attention as Pallas kernels.

That of queries is computed by tiles of queries, that of keys and values by tiles of keys. Both compute the scores again.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from leadline.model.attention.mask import Tiling, tiles_seeing, tiles_seen
from leadline.model.attention.pallas import (
    Operands,
    blocks_of,
    exponential,
    operands_of,
    padding_of,
    product,
    through,
    tile_at,
    tile_scores,
    values_of,
)
from leadline.model.attention.pallas_backend import (
    Launch,
    Machine,
    Tile,
    block,
    launch_of,
    launched,
    on_each_device,
    tile_number,
)
from leadline.model.attention.scores import AttentionInputs
from leadline.model.attention.tiled import pad_end
from leadline.model.mesh import heads_first


def gradients_by_kernel(
    x: AttentionInputs,
    cotangent: Float[Array, "B K G T Hv"],
    lse: Float[Array, "B K G T"],
    delta: Float[Array, "B K G T"],
    *,
    tiling: Tiling,
    with_slopes: bool,
) -> tuple[Array, Array, Array, Array | None]:
    """`softmax_gradients` of q (before its scale), k, v and, if `with_slopes`, slopes, in float32.

    Each device has its own heads and texts.
    """
    launch = launch_of(x, tiling, gradient=True)
    of_device = functools.partial(_gradients_of_device, launch=launch, with_slopes=with_slopes)
    out_specs = heads_first(5), heads_first(4), heads_first(4), heads_first(4) if with_slopes else None
    dq, dk, dv, slopes = on_each_device(of_device, out_specs, x, cotangent, lse, delta)
    return dq, dk, dv, None if slopes is None else jnp.sum(slopes, axis=(0, 3))


def _gradients_of_device(
    x: AttentionInputs, cotangent: Array, lse: Array, delta: Array, *, launch: Launch, with_slopes: bool
) -> tuple[Array, Array, Array, Array | None]:
    (B, K, G, T, H), (S, Hv), (machine, tile, _) = x.q.shape, x.v.shape[2:], launch
    operands = _operands_of(x, cotangent, lse, delta, launch)
    N, rows, keys = K * G, operands.x.q.shape[2], operands.x.k.shape[2]

    def output(tokens: int, channels: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((B, N, tokens, channels), jnp.float32)

    of_rows = [output(rows, operands.x.q.shape[3]), *([output(rows, 1)] if with_slopes else [])]
    specs = [block(machine, a, tile.block_q) for a in of_rows]
    blocks = _blocks_of(operands, machine, tile.block_q, None)
    dq, *slopes = launched(_query_kernel, launch, operands, blocks, of_rows, specs, tiles=rows // tile.block_q)
    of_keys = [output(keys, operands.x.k.shape[3]), output(keys, operands.x.v.shape[3])]
    specs = [block(machine, a, tile.block_k) for a in of_keys]
    blocks = _blocks_of(operands, machine, None, tile.block_k)
    dk, dv = launched(_key_kernel, launch, operands, blocks, of_keys, specs, tiles=keys // tile.block_k)
    dk, dv = (jnp.sum(a.reshape(B, K, G, keys, -1), axis=2)[:, :, :S, :n] for a, n in ((dk, H), (dv, Hv)))
    dq = dq[:, :, :T, :H].reshape(B, K, G, T, H)
    return dq, dk, dv, slopes[0][:, :, :T, 0].reshape(B, K, G, T) if with_slopes else None


class _GradientOperands(NamedTuple):
    """What the kernels read. Surplus rows have lse = inf, so that they add nothing to any key."""

    x: Operands
    cotangent: Float[Array, "B N T Hv"]
    lse: Float[Array, "B N 1 T"]
    delta: Float[Array, "B N 1 T"]


def _operands_of(x: AttentionInputs, cotangent: Array, lse: Array, delta: Array, launch: Launch) -> _GradientOperands:
    (B, K, G, T, _), Hv = x.q.shape, x.v.shape[-1]
    operands = operands_of(x, launch)
    surplus = operands.q.shape[2] - T
    lse = jnp.pad(lse.reshape(B, K * G, 1, T), ((0, 0),) * 3 + ((0, surplus),), constant_values=jnp.inf)
    cotangent = pad_end(pad_end(cotangent.reshape(B, K * G, T, Hv), 2, surplus), 3, operands.v.shape[3] - Hv)
    return _GradientOperands(operands, cotangent, lse, pad_end(delta.reshape(B, K * G, 1, T), 3, surplus))


def _blocks_of(x: _GradientOperands, machine: Machine, block_q: int | None, block_k: int | None) -> _GradientOperands:
    """The block specs of the operands."""
    return _GradientOperands(
        blocks_of(x.x, machine, block_q, block_k),
        block(machine, x.cotangent, block_q),
        block(machine, x.lse, block_q, axis=3),
        block(machine, x.delta, block_q, axis=3),
    )


def _query_kernel(operands: Any, dq: Any, slopes: Any = None, *, tile: Tile, machine: Machine) -> None:
    """dQ = dS K of a tile of queries, and -Σ dS ⊙ (i - j) of each."""
    x, values = operands.x, values_of(operands.x)
    mask = values.mask
    i = mask.first_query + tile_number(machine) * tile.block_q
    count, whole, at = tiles_seen(i, tile.block_q, tile.block_k, mask)
    q, cotangent, lse, delta = x.q[...], operands.cotangent[...], operands.lse[...].T, operands.delta[...].T

    def with_keys(n: Array, sums: tuple[Array, Array], *, whole: bool) -> tuple[Array, Array]:
        keys = tile_at(at(n), tile.block_k)
        k = x.k[keys, :]
        s, distance = tile_scores(product(q, k, 1, 1), values, i, at(n), padding_of(x, keys), rows_along=0, whole=whole)
        ds = exponential(s - lse) * (product(cotangent, x.v[keys, :], 1, 1) - delta)
        of_slopes = sums[1] if slopes is None else sums[1] - jnp.sum(ds * distance, axis=1, keepdims=True)
        return sums[0] + product(ds.astype(k.dtype), k, 1, 0), of_slopes

    zeros = jnp.zeros(dq.shape, jnp.float32), jnp.zeros((tile.block_q, 1), jnp.float32)
    sums = through((jnp.int32(0), count), whole, with_keys, zeros)
    dq[...] = sums[0]
    if slopes is not None:
        slopes[...] = sums[1]


def _key_kernel(operands: Any, dk: Any, dv: Any, *, tile: Tile, machine: Machine) -> None:
    """dK = dSᵀ Q and dV = Pᵀ dO of a tile of keys, of one query head."""
    x, values = operands.x, values_of(operands.x)
    j = tile_number(machine) * tile.block_k
    k, v = x.k[...], x.v[...]
    padding = None if x.padding is None else x.padding[...].T
    tiles, whole = tiles_seeing(j, tile.block_k, tile.block_q, x.q.shape[0], values.mask)

    def with_rows(n: Array, sums: tuple[Array, Array], *, whole: bool) -> tuple[Array, Array]:
        rows = tile_at(n * tile.block_q, tile.block_q)
        q, cotangent, i = x.q[rows, :], operands.cotangent[rows, :], values.mask.first_query + n * tile.block_q
        s, _ = tile_scores(product(k, q, 1, 1), values, i, j, padding, rows_along=1, whole=whole)
        p = exponential(s - operands.lse[:, rows])
        ds = p * (product(v, cotangent, 1, 1) - operands.delta[:, rows])
        return sums[0] + product(ds.astype(q.dtype), q, 1, 0), sums[1] + product(p.astype(v.dtype), cotangent, 1, 0)

    dk[...], dv[...] = through(tiles, whole, with_rows, tuple(jnp.zeros(a.shape, jnp.float32) for a in (dk, dv)))
