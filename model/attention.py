"""Causal dot-product attention with grouped heads, position biases, a window and an extra softmax logit, block by block."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.scipy.special import entr
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from model.kernels.kernel import Weigh
from model.kernels.softmax import softmax_terms

# Rows of scores that exist at once. 128 keeps a block of scores in the cache of a CPU core at contexts of a few thousand.
BLOCK = 128
# Query chunks that see a static number of keys each: with 8 of them 1/16 of all T² scores are computed only to be masked.
CHUNKS = 8


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays, norms
@struct.dataclass
class AttentionStatistics:
    """What is known of the attention probabilities p [B, N, T, S] without keeping them. `*L` is empty for one layer."""

    first: Float[Array, "*L B N T"]  # p[..., 0]: what each query gives to the first token
    extra: Float[Array, "*L B N T"]  # probability that each query gives to the extra logit
    entropy: Float[Array, "*L B N T"]  # -Σ p ln p [nats] over all keys and the extra logit
    received: Float[Array, "*L B N S"]  # Σ over queries of p: what each key receives


# What a position encoding adds to the scores of a block of query rows: a function of the scaled queries [B, K, R, H], their
# scores [B, K, R, S] (-inf for padded keys), the positions [q] of q consecutive queries (-1 where there is none) and what is
# visible [q, S]. The rows of the G heads of a group come one after the other, R = G · q. What it returns, [B or 1, K, R, S], is
# finite where nothing is visible too.
ScoreBias = Callable[[Array, Array, Array, Array], Array]


class _Rows(NamedTuple):
    """What a block of query rows gives; heads are grouped, G to a key/value head."""

    out: Float[Array, "B K G q H"]
    first: Float[Array, "B K G q"]
    extra: Float[Array, "B K G q"]
    entropy: Float[Array, "B K G q"]
    received: Float[Array, "B K G S"]


def attention(
    q: Float[Array, "B T N H"],
    k: Float[Array, "B T K H"],
    v: Float[Array, "B T K Hv"],
    *,
    extra_logit: Float[Array, " N"],
    slopes: Float[Array, " N"],
    window: Int[Array, ""],
    scale: float | None = None,
    bias: ScoreBias | None = None,
    cap: Float[Array, ""] | None = None,
    weigh: Weigh = softmax_terms,
    bias_key: Float[Array, "K H"] | None = None,
    bias_value: Float[Array, "K Hv"] | None = None,
    padding: Bool[Array, "B T"] | None = None,
) -> tuple[Float[Array, "B T N Hv"], AttentionStatistics]:
    """softmax(scale · q·k - slope · (i - j) + bias, with e^extra_logit in the denominator) · v over keys i - window < j <= i.

    Query head n reads key/value head n // (N / K). `scale` is 1/sqrt(H) where it is None. `slopes` 0 is no ALiBi, `window` >= T
    no window, `extra_logit` -inf the plain softmax. `padding` is True for real tokens; a query that sees no key gives zeros,
    and padded queries count in no statistic. Memory is linear in T: BLOCK rows of scores exist at once. Scores and sums are
    float32.

    `cap` c makes c · tanh(s / c) of the scaled products s (Gemma 2, arXiv:2408.00118). `weigh` is what is done in place of the
    softmax. `bias_key` k* adds scale · q·k*, capped too, to the extra logit of each query: with `bias_value` v*, what a row
    (k*, v*) before the first token does, which every query sees and nothing turns (Gu et al. 2024, arXiv:2410.10781: K biases,
    KV biases).
    """
    tokens, groups = q.shape[1], k.shape[2]
    q, k, v = grouped(q, k, v, scale)
    padding = None if padding is None else jax.reshard(padding, P("data", None))
    rows = _rows_of(
        groups, extra_logit, slopes, window, bias=bias, cap=cap, weigh=weigh, bias_key=bias_key, bias_value=bias_value
    )
    chunk = BLOCK * math.ceil(tokens / (BLOCK * CHUNKS))
    chunks = []
    for start in range(0, tokens, chunk):
        stop = min(start + chunk, tokens)
        real_keys = None if padding is None else padding[:, :stop]
        visible = functools.partial(rows, k=k[:, :, :stop], v=v[:, :, :stop], real_keys=real_keys)
        real_queries = None if padding is None else padding[:, start:stop]
        found = _map_blocks(visible, q[:, :, :, start:stop], jnp.arange(start, stop), real_queries)
        chunks.append(found._replace(received=jnp.pad(found.received, [(0, 0)] * 3 + [(0, tokens - stop)])))
    return _join_heads(chunks)


def attend(
    q: Float[Array, "B T N H"],
    k: Float[Array, "B S K H"],
    v: Float[Array, "B S K Hv"],
    i: Int[Array, " T"],
    *,
    extra_logit: Float[Array, " N"],
    slopes: Float[Array, " N"],
    window: Int[Array, ""],
    scale: float | None = None,
    bias: ScoreBias | None = None,
    cap: Float[Array, ""] | None = None,
    weigh: Weigh = softmax_terms,
    bias_key: Float[Array, "K H"] | None = None,
    bias_value: Float[Array, "K Hv"] | None = None,
) -> tuple[Float[Array, "B T N Hv"], AttentionStatistics]:
    """`attention` of T consecutive queries at positions `i` over keys at 0 … S - 1, of which those behind i are not seen: what
    a step of decoding computes. All T · S scores of a head exist at once."""
    fixed = {"bias": bias, "cap": cap, "weigh": weigh, "bias_key": bias_key, "bias_value": bias_value}
    rows = _rows_of(k.shape[2], extra_logit, slopes, window, **fixed)
    q, k, v = grouped(q, k, v, scale)
    return _join_heads([rows(q, i, None, k=k, v=v, real_keys=None)])


def attention_by_query(
    q: Float[Array, "B T N H"],
    k: Float[Array, "B S K H"],
    v: Float[Array, "B S K Hv"],
    i: Int[Array, " T"],
    turn: Callable[[Array, Int[Array, " T"], Int[Array, ""], Literal["query", "key"]], Array],
    **values: Any,
) -> tuple[Float[Array, "B T N Hv"], AttentionStatistics]:
    """`attend` one query at a time, each of which turns all keys anew: `turn(x, places, i, side)` is x at its
    places, turned as query i sees it. For tables that depend on the length so far; T times the rotations of `attention`."""
    places = jnp.arange(k.shape[1])

    def one(row: tuple[Array, Array]) -> tuple[Array, AttentionStatistics]:
        query, at = row
        return attend(turn(query[:, None], at[None], at, "query"), turn(k, places, at, "key"), v, at[None], **values)

    out, statistics = jax.lax.map(one, (jnp.swapaxes(q, 0, 1), i))
    return jnp.swapaxes(out[:, :, 0], 0, 1), AttentionStatistics(
        first=jnp.moveaxis(statistics.first[..., 0], 0, 2),
        extra=jnp.moveaxis(statistics.extra[..., 0], 0, 2),
        entropy=jnp.moveaxis(statistics.entropy[..., 0], 0, 2),
        received=jnp.sum(statistics.received, axis=0),
    )


def grouped(q: Array, k: Array, v: Array, scale: float | None) -> tuple[Array, Array, Array]:
    """Heads before tokens, the scaled queries by key/value head: [B, K, G, T, H], [B, K, S, H] twice."""
    groups = k.shape[2]
    q = jnp.swapaxes(q * (q.shape[-1] ** -0.5 if scale is None else scale), 1, 2)
    q = q.reshape(q.shape[0], groups, q.shape[1] // groups, *q.shape[2:], out_sharding=heads(5))
    k, v = (jax.reshard(jnp.swapaxes(x, 1, 2), heads(4)) for x in (k, v))
    return q, k, v


def _rows_of(
    groups: int, extra_logit: Float[Array, " N"], slopes: Float[Array, " N"], window: Int[Array, ""], **fixed: Any
) -> Callable[..., _Rows]:
    """`_attend_rows` with what does not depend on the block, by key/value head."""
    extra, slope = (x.reshape(groups, -1, out_sharding=P("model", None)) for x in (extra_logit, slopes))
    return functools.partial(_attend_rows, extra_logit=extra, slopes=slope, window=window, **fixed)


def _attend_rows(
    q: Float[Array, "B K G q H"],
    i: Int[Array, " q"],
    real_queries: Bool[Array, "B q"] | None,
    *,
    k: Float[Array, "B K S H"],
    v: Float[Array, "B K S Hv"],
    real_keys: Bool[Array, "B S"] | None,
    extra_logit: Float[Array, "K G"],
    slopes: Float[Array, "K G"],
    window: Int[Array, ""],
    bias: ScoreBias | None,
    cap: Float[Array, ""] | None,
    weigh: Weigh,
    bias_key: Float[Array, "K H"] | None,
    bias_value: Float[Array, "K Hv"] | None,
) -> _Rows:
    """One block of query rows at positions i against the keys at 0 … S - 1.

    The G heads that share a key are rows of one matrix product, which is half as fast again as an axis of their own.
    """
    B, K, G, rows, _ = q.shape
    distance = i[:, None] - jnp.arange(k.shape[2])[None, :]
    visible = (distance >= 0) & (distance < window)
    near = seen(distance, visible, slopes)
    merged = q.reshape(B, K, G * rows, -1, out_sharding=heads(4))
    scores = jnp.einsum("BKqH,BKSH->BKqS", merged, k, preferred_element_type=jnp.float32)
    scores = capped(scores, cap)
    if real_keys is not None:
        scores = jnp.where(real_keys[:, None, None], scores, -jnp.inf)
    if bias is not None:
        scores = scores + bias(merged, scores, i, visible)
    scores = scores + near.reshape(1, K, G * rows, -1, out_sharding=P(None, "model", None, None))
    out, numerators, extra, share = weighed(scores, v, extra_logits(merged, extra_logit, bias_key, cap), weigh, bias_value)
    if real_queries is not None:
        share = jnp.where(jnp.tile(real_queries, (1, G))[:, None], share, 0)
    extra = extra * share
    entropy = jnp.sum(entr(numerators * share[..., None]), axis=-1) + entr(extra)
    share, first, extra, entropy, numerators, out = (
        x.reshape(B, K, G, rows, *x.shape[3:], out_sharding=heads(x.ndim + 1))
        for x in (share, numerators[..., 0] * share, extra, entropy, numerators, out)
    )
    # A sum over queries as a product: XLA's CPU back end reduces the columns of a fused softmax 100 times slower.
    received = jnp.einsum("BKGqS,BKGq->BKGS", numerators, share)
    return _Rows(out, first=first, extra=extra, entropy=entropy, received=received)


def seen(distance: Int[Array, "q S"], visible: Bool[Array, "q S"], slopes: Float[Array, "K G"]) -> Float[Array, "K G q S"]:
    """ALiBi, and -inf where nothing is seen."""
    return jnp.where(visible[None, None], -slopes[:, :, None, None] * distance.astype(jnp.float32)[None, None], -jnp.inf)


def extra_logits(
    q: Float[Array, "B K R H"],
    extra_logit: Float[Array, "K G"],
    bias_key: Float[Array, "K H"] | None,
    cap: Float[Array, ""] | None,
) -> Float[Array, "#B K R"]:
    """The extra logit of each row of the G heads of a group."""
    R, G = q.shape[2], extra_logit.shape[1]
    logits = jnp.repeat(extra_logit, R // G, axis=1, total_repeat_length=R)[None]
    if bias_key is None:
        return logits
    return logits + capped(jnp.einsum("BKqH,KH->BKq", q, bias_key, preferred_element_type=jnp.float32), cap)


def weighed(
    scores: Float[Array, "B K R S"],
    v: Float[Array, "B K S Hv"],
    logits: Float[Array, "#B K R"],
    weigh: Weigh,
    bias_value: Float[Array, "K Hv"] | None,
) -> tuple[Float[Array, "B K R Hv"], Float[Array, "B K R S"], Float[Array, "B K R"], Float[Array, "B K R"]]:
    """The values weighed by the scores; what of a row each key and the extra logit get, and what makes shares of that."""
    numerators, total, extra, mass = weigh(scores, logits)
    out = jnp.einsum("BKqS,BKSH->BKqH", numerators.astype(v.dtype), v, preferred_element_type=jnp.float32)
    if bias_value is not None:
        out = out + extra[..., None] * bias_value[None, :, None].astype(jnp.float32)
    return (out / total[..., None]).astype(v.dtype), numerators, extra, 1 / mass


def capped(scores: Array, cap: Float[Array, ""] | None) -> Array:
    return scores if cap is None else cap * jnp.tanh(scores / cap)


def _map_blocks(
    rows: Callable[..., _Rows], q: Float[Array, "B K G C H"], i: Int[Array, " C"], real_queries: Bool[Array, "B C"] | None
) -> _Rows:
    """`rows` of blocks of BLOCK rows, one after the other; a single block needs no loop."""
    count = i.shape[0]
    if count <= BLOCK:
        return rows(q, i, real_queries)
    blocks = math.ceil(count / BLOCK)
    surplus = blocks * BLOCK - count  # rows at position -1, which see no key

    def split(x: Array, axis: int, spec: P, fill: int = 0) -> Array:
        x = jnp.pad(x, [(0, surplus if a == axis else 0) for a in range(x.ndim)], constant_values=fill)
        x = x.reshape(*x.shape[:axis], blocks, BLOCK, *x.shape[axis + 1 :], out_sharding=spec)
        return jnp.moveaxis(x, axis, 0)

    def merge(x: Array, axis: int = 3) -> Array:
        x = jnp.moveaxis(x, 0, axis)
        x = x.reshape(*x.shape[:axis], blocks * BLOCK, *x.shape[axis + 2 :], out_sharding=heads(x.ndim - 1))
        return jax.lax.slice_in_dim(x, 0, count, axis=axis)

    real_blocks = None if real_queries is None else split(real_queries, 1, P("data", None, None), False)
    mapped = split(q, 3, heads(6)), split(i, 0, P(None, None), -1), real_blocks
    found = jax.lax.map(lambda block: rows(*block), mapped)
    received = jnp.sum(found.received, axis=0)
    first, extra, entropy = (merge(x) for x in (found.first, found.extra, found.entropy))
    return _Rows(merge(found.out), first=first, extra=extra, entropy=entropy, received=received)


def _join_heads(chunks: Sequence[_Rows]) -> tuple[Float[Array, "B T N H"], AttentionStatistics]:
    """Chunks of rows joined, grouped heads merged, heads after tokens in the output."""

    def merge(x: Array) -> Array:
        return x.reshape(x.shape[0], -1, *x.shape[3:], out_sharding=heads(x.ndim - 1))

    def joined(rows: Sequence[Array]) -> Array:
        return merge(jnp.concatenate(rows, axis=3))

    return jnp.swapaxes(joined([c.out for c in chunks]), 1, 2), AttentionStatistics(
        first=joined([c.first for c in chunks]),
        extra=joined([c.extra for c in chunks]),
        entropy=joined([c.entropy for c in chunks]),
        received=merge(functools.reduce(jnp.add, [c.received for c in chunks])),
    )


def heads(rank: int) -> P:
    """Batch and (grouped or single) heads sharded, the rest not."""
    return P("data", "model", *([None] * (rank - 2)))
