"""Statistics of the softmax of long texts in one pass, in memory linear in the length of the text.

For attention by tiles and kernels, which never have all scores of a row at once.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from leadline.model.attention.blockwise import received
from leadline.model.attention.mask import Tiling
from leadline.model.attention.normalizers import softmax
from leadline.model.attention.scores import AttentionInputs
from leadline.model.attention.tiled import keys_of, placed, rows_of, scores_of
from leadline.model.mesh import heads_first, on_mesh


class Statistics(NamedTuple):
    """Statistics of grouped heads (model.attention.attention.AttentionStatistics), of the rows done so far."""

    first: Float[Array, "B K G T"]
    sink: Float[Array, "B K G T"]
    entropy: Float[Array, "B K G T"]
    received: Float[Array, "B K G S"]


def softmax_statistics(x: AttentionInputs, tiling: Tiling) -> Statistics:
    """Probability of the first key and of the sink logit b, entropy [nats] of each query, and received attention of each key.

        received_j = Σ_i p_ij,     p_ij = e^(s_ij - lse_i),     lse_i = ln(e^b + Σ_j e^(s_ij))
        entropy_i  = -Σ_j p_ij (s_ij - lse_i) - p_ib (b - lse_i)

    A block of rows is small enough for all of its keys, so that its maximum, its sum and its share of the received attention
    come from scores that are computed once. Memory is a block of scores and the keys, as many numbers a head each. Under jit,
    statistics that are not used are not computed. Padded queries count in none.
    """
    (B, K, G, T, _), S = x.q.shape, x.k.shape[2]
    chunk = max(math.ceil(T / tiling.statistics_chunks), min(T, tiling.statistics_rows))
    sizes = dict.fromkeys(Statistics._fields, T) | {"received": S}
    real = jnp.broadcast_to(x.real, (x.real.shape[0], T))
    shapes = {name: (B, K, G, n) for name, n in sizes.items()}
    done = Statistics(
        **{name: jnp.zeros(shape, jnp.float32, out_sharding=on_mesh(heads_first(4))) for name, shape in shapes.items()}
    )
    for start in range(0, T, chunk):
        stop = min(start + chunk, T)
        seen = stop if T == S else S
        # 0, but a function of the chunk before: XLA would otherwise cut out the keys of all chunks at the beginning.
        zero = done.received[:, :, 0, :1, None] > jnp.inf
        keys = keys_of(x, 0, seen)
        keys = keys._replace(k=keys.k + zero.astype(x.k.dtype))
        count = max(min(tiling.statistics_rows, stop - start, tiling.statistics_scores // seen), 1)
        block = functools.partial(_with_rows, x=keys, real=real, start=start, stop=stop, count=count)
        done = jax.lax.fori_loop(0, math.ceil((stop - start) / count), block, done)
    return done


def _with_rows(
    number: Int[Array, ""],
    done: Statistics,
    *,
    x: AttentionInputs,
    real: Bool[Array, "#B T"],
    start: int,
    stop: int,
    count: int,
) -> Statistics:
    """With `count` rows more, those of block `number` from `start` on; the last block begins within the one before it."""
    at = jnp.minimum(start + number * count, stop - count)
    row = at + jnp.arange(count)
    scores = scores_of(x, rows_of(x, at, count), x.mask.first_query + row, 0)
    logits = jnp.repeat(x.sink_logit, count, axis=1, total_repeat_length=scores.shape[2])
    real = jax.lax.dynamic_slice_in_dim(real, at, count, 1)
    return _added(done, scores, logits[None], real, row >= start + number * count, at)


def _added(
    done: Statistics,
    scores: Float[Array, "B K R S"],
    logits: Float[Array, "1 K R"],
    real: Bool[Array, "#B q"],
    new: Bool[Array, " q"],
    at: Int[Array, ""],
) -> Statistics:
    """The statistics with those of rows from `at` on; only rows that are new add to the received attention."""
    (B, K, R, S), G = scores.shape, done.first.shape[2]
    numerators, total, sink, _, lse = softmax(scores, logits)
    assert lse is not None
    share = jnp.where(jnp.tile(real, (1, G))[:, None], 1 / total, 0)
    below, of_sink = scores - lse[..., None], jnp.where(sink > 0, sink * (logits - lse), 0)
    negative_entropy = jnp.sum(jnp.where(numerators > 0, numerators * below, 0), axis=-1) + of_sink

    def by_head(x: Array) -> Array:
        return x.reshape(B, K, G, R // G, *x.shape[3:], out_sharding=on_mesh(heads_first(x.ndim + 1)))

    counted = by_head(jnp.where(jnp.tile(new, G)[None, None], share, 0))
    sums = received(by_head(numerators), counted)
    return Statistics(
        first=placed(done.first, by_head(numerators[..., 0] * share), at, 3),
        sink=placed(done.sink, by_head(sink * share), at, 3),
        entropy=placed(done.entropy, by_head(-negative_entropy * share), at, 3),
        received=placed(done.received, done.received[..., :S] + sums, 0, 3),
    )
