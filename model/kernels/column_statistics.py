"""What attention gives to each key, without its output: for long contexts, where nothing else of attention is wanted."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from model.attention import AttentionStatistics, extra_logits, heads, seen

# Query chunks that see a static number of keys each: with 16 of them 1/32 of all T² scores are computed only to be masked.
CHUNKS = 16
# Scores of a head that exist at once, and the most rows of them: blocks of 4 MiB stay within the last cache of a CPU.
SCORES, ROWS = 2**20, 128


class _Found(NamedTuple):
    """Of rows done so far; heads are grouped, G to a key/value head."""

    received: Float[Array, "B K G T"]
    first: Float[Array, "B K G T"]
    extra: Float[Array, "B K G T"]
    entropy: Float[Array, "B K G T"]


def column_statistics(
    q: Float[Array, "B T N H"],
    k: Float[Array, "B T K H"],
    *,
    extra_logit: Float[Array, " N"],
    slopes: Float[Array, " N"],
    window: Int[Array, ""],
    scale: float | None = None,
    padding: Bool[Array, "B T"] | None = None,
    lse: Float[Array, "B N T"] | None = None,
) -> AttentionStatistics:
    """The statistics of `model.attention.attention` of the softmax, for the same arguments, without values.

        received_j = Σ_i p_ij,     p_ij = e^(s_ij - lse_i),     lse_i = ln(e^b + Σ_j e^(s_ij))
        entropy_i  = lse_i - Σ_j p_ij s_ij - e^(b - lse_i) b

    One pass: a block of rows is small enough for all of its keys, so that its maximum, its sum and its share of the columns
    come from scores that are computed once. `lse`, where a forward pass has it already, saves the first two. Memory is a
    block of scores and the keys, SCORES numbers a head each. What is not used of the result is not computed under jit.
    """
    (B, T, N, H), K = q.shape, k.shape[2]
    G, chunk = N // K, max(math.ceil(T / CHUNKS), min(T, ROWS))
    given = {"extra_logit": extra_logit, "slopes": slopes}
    by_group = {name: x.reshape(K, G, out_sharding=P("model", None)) for name, x in given.items()}
    q, k = (jax.reshard(x, P("data", None, "model", None)) for x in (q, k))
    own = None if lse is None else lse.reshape(B, K, G, T, out_sharding=heads(4))
    rows = functools.partial(
        _with_rows, q=q, lse=own, padding=padding, window=window, scale=H**-0.5 if scale is None else scale, **by_group
    )
    found = _Found(*(jnp.zeros((B, K, G, T), jnp.float32, out_sharding=heads(4)) for _ in _Found._fields))
    for start in range(0, T, chunk):
        stop = min(start + chunk, T)
        # 0 times what the chunk before gave: XLA would otherwise cut out the keys of all chunks at the beginning.
        keys = jnp.swapaxes(k[:, :stop], 1, 2) + (0 * found.received[:, :, 0, :1, None]).astype(k.dtype)
        count = max(min(ROWS, stop - start, SCORES // stop), 1)
        block = functools.partial(rows, keys=keys, start=start, stop=stop, count=count)
        found = jax.lax.fori_loop(0, math.ceil((stop - start) / count), block, found)
    merged = (x.reshape(B, N, T, out_sharding=heads(3)) for x in found)
    return AttentionStatistics(**dict(zip(_Found._fields, merged, strict=True)))


def _with_rows(
    number: Int[Array, ""],
    found: _Found,
    *,
    keys: Float[Array, "B K S H"],
    start: int,
    stop: int,
    count: int,
    q: Float[Array, "B T N H"],
    lse: Float[Array, "B K G T"] | None,
    padding: Bool[Array, "B T"] | None,
    extra_logit: Float[Array, "K G"],
    slopes: Float[Array, "K G"],
    window: Int[Array, ""],
    scale: float,
) -> _Found:
    """With `count` rows more, those of block `number` from `start` on; the last block begins within the one before it."""
    (B, K, S, _), G = keys.shape, extra_logit.shape[1]
    at = jnp.minimum(start + number * count, stop - count)
    i = at + jnp.arange(count)
    part = jnp.swapaxes(jax.lax.dynamic_slice_in_dim(q, at, count, 1), 1, 2) * scale
    part = part.reshape(B, K, G * count, -1, out_sharding=heads(4))
    distance = i[:, None] - jnp.arange(S)[None]
    near = seen(distance, (distance >= 0) & (distance < window), slopes)
    near = near.reshape(1, K, G * count, S, out_sharding=P(None, "model", None, None))
    scores = jnp.einsum("BKqH,BKSH->BKqS", part, keys, preferred_element_type=jnp.float32) + near
    real = jnp.ones((B, G * count), bool, out_sharding=P("data", None))
    if padding is not None:
        scores = jnp.where(padding[:, None, None, :S], scores, -jnp.inf)
        real = jnp.tile(jax.lax.dynamic_slice_in_dim(padding, at, count, 1), (1, G))
    logits = extra_logits(part, extra_logit, None, None)
    known = None
    if lse is not None:
        known = jax.lax.dynamic_slice_in_dim(lse, at, count, 3).reshape(B, K, G * count, out_sharding=heads(3))
    terms = _weights(scores, logits, known)
    share = jnp.where(real[:, None], 1 / terms.total, 0)
    new = i >= start + number * count
    return _added(found, terms, share, jnp.tile(new, G), at)


class _Weights(NamedTuple):
    """e^(s - m), e^(b - m), and their sum; m is the largest of a row, or its lse, with which the sum is 1."""

    numerators: Float[Array, "B K R S"]
    extra: Float[Array, "B K R"]
    total: Float[Array, "B K R"]
    least: Float[Array, "B K R"]  # Σ e^(s - m) (s - m), the extra logit's with it


def _weights(scores: Float[Array, "B K R S"], logits: Float[Array, "#B K R"], lse: Float[Array, "B K R"] | None) -> _Weights:
    m = jnp.maximum(jnp.max(scores, axis=-1), logits) if lse is None else lse
    m = jnp.where(jnp.isfinite(m), m, 0)  # of a row that sees nothing
    below, of_extra = scores - m[..., None], logits - m
    numerators, extra = jnp.exp(below), jnp.exp(of_extra)
    total = jnp.sum(numerators, axis=-1) + extra if lse is None else jnp.ones_like(m)
    least = jnp.sum(jnp.where(numerators > 0, numerators * below, 0), axis=-1) + jnp.where(extra > 0, extra * of_extra, 0)
    return _Weights(numerators, extra, jnp.where(total == 0, 1, total), least)


def _added(
    found: _Found,
    terms: _Weights,
    share: Float[Array, "B K R"],
    new: Bool[Array, " R"],
    at: Int[Array, ""],
) -> _Found:
    """Sums of columns with those of the rows that are new, and what is known of each row, from `at` on."""
    (B, K, R, S), G = terms.numerators.shape, found.first.shape[2]

    def by_head(x: Array) -> Array:
        return x.reshape(B, K, G, R // G, *x.shape[3:], out_sharding=heads(x.ndim + 1))

    def placed(old: Array, rows: Array) -> Array:
        return jax.lax.dynamic_update_slice_in_dim(old, by_head(rows), at, 3)

    # A sum over queries as a product: XLA's CPU back end reduces the columns of a fused softmax 100 times slower.
    columns = jnp.einsum("BKGqS,BKGq->BKGS", by_head(terms.numerators), by_head(jnp.where(new[None, None], share, 0)))
    return _Found(
        received=jax.lax.dynamic_update_slice_in_dim(found.received, found.received[..., :S] + columns, 0, 3),
        first=placed(found.first, terms.numerators[..., 0] * share),
        extra=placed(found.extra, terms.extra * share),
        entropy=placed(found.entropy, jnp.where(share > 0, jnp.log(terms.total) - terms.least * share, 0)),
    )
