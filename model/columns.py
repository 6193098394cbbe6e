"""What attention gives to each key, in one pass and in memory linear in the length of a text: for long ones, whose scores are
cut into tiles (model.flash) before the sums of their rows are known."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from model.blocks import heads
from model.flash import Softmax, keys_of, placed, rows_of, scores_of
from model.kernels.softmax import softmax_terms

# Query chunks that see a static number of keys each: with 16 of them 1/32 of all T² scores are computed only to be masked.
CHUNKS = 16
# Scores of a head that exist at once, and the most rows of them: blocks of 4 MiB stay within the last cache of a CPU.
SCORES, ROWS = 2**20, 128


class Columns(NamedTuple):
    """Statistics of grouped heads (model.attention.AttentionStatistics), of the rows done so far."""

    first: Float[Array, "B K G T"]
    extra: Float[Array, "B K G T"]
    entropy: Float[Array, "B K G T"]
    received: Float[Array, "B K G S"]


def column_statistics(x: Softmax) -> Columns:
    """What each query gives to the first key and to the extra logit b, its entropy [nats], and what each key receives.

        received_j = Σ_i p_ij,     p_ij = e^(s_ij - lse_i),     lse_i = ln(e^b + Σ_j e^(s_ij))
        entropy_i  = -Σ_j p_ij (s_ij - lse_i) - p_ib (b - lse_i)

    One pass: a block of rows is small enough for all of its keys, so that its maximum, its sum and its share of the columns
    come from scores that are computed once. Memory is a block of scores and the keys, SCORES numbers a head each. What is not
    used of the result is not computed under jit. Padded queries count in none of it.
    """
    (B, K, G, T, _), S = x.q.shape, x.k.shape[2]
    chunk = max(math.ceil(T / CHUNKS), min(T, ROWS))
    sizes = dict.fromkeys(Columns._fields, T) | {"received": S}
    real = jnp.broadcast_to(x.real, (x.real.shape[0], T))
    found = Columns(**{name: jnp.zeros((B, K, G, n), jnp.float32, out_sharding=heads(4)) for name, n in sizes.items()})
    for start in range(0, T, chunk):
        stop = min(start + chunk, T)
        near = stop if T == S else S
        # 0, but of what the chunk before gave: XLA would otherwise cut out the keys of all chunks at the beginning.
        nothing = found.received[:, :, 0, :1, None] > jnp.inf
        own = keys_of(x, 0, near)
        own = own._replace(k=own.k + nothing.astype(x.k.dtype))
        count = max(min(ROWS, stop - start, SCORES // near), 1)
        block = functools.partial(_with_rows, x=own, real=real, start=start, stop=stop, count=count)
        found = jax.lax.fori_loop(0, math.ceil((stop - start) / count), block, found)
    return found


def _with_rows(
    number: Int[Array, ""], found: Columns, *, x: Softmax, real: Bool[Array, "#B T"], start: int, stop: int, count: int
) -> Columns:
    """With `count` rows more, those of block `number` from `start` on; the last block begins within the one before it."""
    at = jnp.minimum(start + number * count, stop - count)
    row = at + jnp.arange(count)
    scores = scores_of(x, rows_of(x, at, count), x.first + row, 0)
    logits = jnp.repeat(x.extra_logit, count, axis=1, total_repeat_length=scores.shape[2])
    return _added(
        found, scores, logits[None], jax.lax.dynamic_slice_in_dim(real, at, count, 1), row >= start + number * count, at
    )


def _added(
    found: Columns,
    scores: Float[Array, "B K R S"],
    logits: Float[Array, "1 K R"],
    real: Bool[Array, "#B q"],
    new: Bool[Array, " q"],
    at: Int[Array, ""],
) -> Columns:
    """Sums of columns with those of the rows that are new, and what is known of each row, from `at` on."""
    (B, K, R, S), G = scores.shape, found.first.shape[2]
    numerators, total, extra, _, lse = softmax_terms(scores, logits)
    assert lse is not None
    share = jnp.where(jnp.tile(real, (1, G))[:, None], 1 / total, 0)
    below, of_extra = scores - lse[..., None], jnp.where(extra > 0, extra * (logits - lse), 0)
    least = jnp.sum(jnp.where(numerators > 0, numerators * below, 0), axis=-1) + of_extra

    def by_head(x: Array) -> Array:
        return x.reshape(B, K, G, R // G, *x.shape[3:], out_sharding=heads(x.ndim + 1))

    # A sum over queries as a product: XLA's CPU back end reduces the columns of a fused softmax 100 times slower. An
    # accelerator would round the factors.
    counted = by_head(jnp.where(jnp.tile(new, G)[None, None], share, 0))
    columns = jnp.einsum("BKGqS,BKGq->BKGS", by_head(numerators), counted, precision=jax.lax.Precision.HIGHEST)
    return Columns(
        first=placed(found.first, by_head(numerators[..., 0] * share), at, 3),
        extra=placed(found.extra, by_head(extra * share), at, 3),
        entropy=placed(found.entropy, by_head(-least * share), at, 3),
        received=placed(found.received, found.received[..., :S] + columns, 0, 3),
    )
