"""The gradient of softmax attention as kernels of a GPU and of a TPU: that of queries by tiles of rows, that of keys and values
by tiles of keys, each of which computes its scores again."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from model.blocks import heads, tiles_seeing, tiles_seen
from model.flash import Softmax, behind
from model.flash_kernel import (
    Operands,
    exponential,
    hidden,
    of_operands,
    operands,
    product,
    seen_scores,
    through,
    tile_at,
    values,
)
from model.flash_machine import Machine, Tile, block, launched, on_each_device, tile_number, tile_of


def gradients_by_kernel(
    x: Softmax,
    cotangent: Float[Array, "B K G T Hv"],
    lse: Float[Array, "B K G T"],
    delta: Float[Array, "B K G T"],
    *,
    machine: Machine,
    with_slopes: bool,
) -> tuple[Array, Array, Array, Array | None]:
    """What model.flash_gradient.softmax_gradients says of q, before its scale, of k, v and, if wanted, slopes, in float32. Each
    device has its own heads and texts."""
    own = functools.partial(_own_gradients, machine=machine, with_slopes=with_slopes)
    out_specs = heads(5), heads(4), heads(4), heads(4) if with_slopes else None
    dq, dk, dv, slopes = on_each_device(own, out_specs, x, cotangent, lse, delta)
    return dq, dk, dv, None if slopes is None else jnp.sum(slopes, axis=(0, 3))


def _own_gradients(
    x: Softmax, cotangent: Array, lse: Array, delta: Array, *, machine: Machine, with_slopes: bool
) -> tuple[Array, Array, Array, Array | None]:
    (B, K, G, T, H), (S, Hv), tile = x.q.shape, x.v.shape[2:], tile_of(machine, x, gradient=True)
    given = _given(x, cotangent, lse, delta, machine, tile)
    N, rows, keys = K * G, given.x.q.shape[2], given.x.k.shape[2]

    def wanted(tokens: int, channels: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((B, N, tokens, channels), jnp.float32)

    of_rows = [wanted(rows, given.x.q.shape[3]), *([wanted(rows, 1)] if with_slopes else [])]
    specs = [block(machine, a, tile.rows) for a in of_rows]
    blocks = _blocks(given, machine, tile.rows, None)
    dq, *slopes = launched(_queries, machine, tile, x, given, blocks, rows // tile.rows, of_rows, specs)
    of_keys = [wanted(keys, given.x.k.shape[3]), wanted(keys, given.x.v.shape[3])]
    specs = [block(machine, a, tile.keys) for a in of_keys]
    blocks = _blocks(given, machine, None, tile.keys)
    dk, dv = launched(_keys, machine, tile, x, given, blocks, keys // tile.keys, of_keys, specs)
    dk, dv = (jnp.sum(a.reshape(B, K, G, keys, -1), axis=2)[:, :, :S, :n] for a, n in ((dk, H), (dv, Hv)))
    dq = dq[:, :, :T, :H].reshape(B, K, G, T, H)
    return dq, dk, dv, slopes[0][:, :, :T, 0].reshape(B, K, G, T) if with_slopes else None


class _Given(NamedTuple):
    """What the kernels read. Surplus rows have lse = inf, so that they give nothing to any key."""

    x: Operands
    cotangent: Float[Array, "B N T Hv"]
    lse: Float[Array, "B N 1 T"]
    delta: Float[Array, "B N 1 T"]


def _given(x: Softmax, cotangent: Array, lse: Array, delta: Array, machine: Machine, tile: Tile) -> _Given:
    (B, K, G, T, _), Hv = x.q.shape, x.v.shape[-1]
    given = operands(x, machine, tile)
    surplus = given.q.shape[2] - T
    infinite = jnp.pad(lse.reshape(B, K * G, 1, T), ((0, 0),) * 3 + ((0, surplus),), constant_values=jnp.inf)
    cotangent = behind(behind(cotangent.reshape(B, K * G, T, Hv), 2, surplus), 3, given.v.shape[3] - Hv)
    return _Given(given, cotangent, infinite, behind(delta.reshape(B, K * G, 1, T), 3, surplus))


def _blocks(given: _Given, machine: Machine, rows: int | None, keys: int | None) -> _Given:
    """What a program sees of each."""
    return _Given(
        of_operands(given.x, machine, rows, keys),
        block(machine, given.cotangent, rows),
        block(machine, given.lse, rows, axis=3),
        block(machine, given.delta, rows, axis=3),
    )


def _queries(given: Any, dq: Any, slopes: Any = None, *, tile: Tile, machine: Machine) -> None:
    """dQ = dS K of a tile of rows, and -Σ dS ⊙ (i - j) of each."""
    x, own = given.x, values(given.x)
    i = own.first + tile_number(machine) * tile.rows
    count, whole, at = tiles_seen(i, tile.rows, tile.keys, own.window, own.kept)
    q, cotangent, lse, delta = x.q[...], given.cotangent[...], given.lse[...].T, given.delta[...].T

    def with_keys(n: Array, sums: tuple[Array, Array], *, whole: bool) -> tuple[Array, Array]:
        keys = tile_at(at(n), tile.keys)
        k = x.k[keys, :]
        scores, distance = seen_scores(product(q, k, 1, 1), own, i, at(n), hidden(x, keys), rows_along=0, whole=whole)
        ds = exponential(scores - lse) * (product(cotangent, x.v[keys, :], 1, 1) - delta)
        of_slopes = sums[1] if slopes is None else sums[1] - jnp.sum(ds * distance, axis=1, keepdims=True)
        return sums[0] + product(ds.astype(k.dtype), k, 1, 0), of_slopes

    none = jnp.zeros(dq.shape, jnp.float32), jnp.zeros((tile.rows, 1), jnp.float32)
    found = through((jnp.int32(0), count), whole, with_keys, none)
    dq[...] = found[0]
    if slopes is not None:
        slopes[...] = found[1]


def _keys(given: Any, dk: Any, dv: Any, *, tile: Tile, machine: Machine) -> None:
    """dK = dSᵀ Q and dV = Pᵀ dO of a tile of keys, of one query head."""
    x, own = given.x, values(given.x)
    j = tile_number(machine) * tile.keys
    k, v = x.k[...], x.v[...]
    of_key = None if x.hidden is None else x.hidden[...].T
    tiles, whole = tiles_seeing(j, tile.keys, tile.rows, x.q.shape[0], own.window, own.kept, own.first)

    def with_rows(n: Array, sums: tuple[Array, Array], *, whole: bool) -> tuple[Array, Array]:
        rows = tile_at(n * tile.rows, tile.rows)
        q, cotangent = x.q[rows, :], given.cotangent[rows, :]
        scores, _ = seen_scores(product(k, q, 1, 1), own, own.first + n * tile.rows, j, of_key, rows_along=1, whole=whole)
        p = exponential(scores - given.lse[:, rows])
        ds = p * (product(v, cotangent, 1, 1) - given.delta[:, rows])
        return sums[0] + product(ds.astype(q.dtype), q, 1, 0), sums[1] + product(p.astype(v.dtype), cotangent, 1, 0)

    dk[...], dv[...] = through(tiles, whole, with_rows, tuple(jnp.zeros(a.shape, jnp.float32) for a in (dk, dv)))
