"""Rows of scores that exist at once: attention of blocks of queries, each over all keys that it sees."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import entr
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from model.blocks import chunks_of, heads, looked_at, merge_blocks, one_block, seen, split_blocks
from model.flash import Softmax
from model.kernels.kernel import Weigh

# What a position encoding adds to the scores of a block of query rows: a function of the scaled queries [B, K, R, H], their
# scores [B, K, R, S] (-inf for padded keys), the positions [q] of q consecutive queries (-1 where there is none) and what is
# visible [q, S]. The rows of the G heads of a group come one after the other, R = G · q. What it returns, [B or 1, K, R, S], is
# finite where nothing is visible too.
ScoreBias = Callable[[Array, Array, Array, Array], Array]


class Rows(NamedTuple):
    """What a block of query rows gives; heads are grouped, G to a key/value head."""

    out: Float[Array, "B K G q H"]
    first: Float[Array, "B K G q"]
    extra: Float[Array, "B K G q"]
    entropy: Float[Array, "B K G q"]
    received: Float[Array, "B K G S"]
    lse: Float[Array, "B K G q"] | None  # of a softmax


def attend_chunks(x: Softmax, **fixed: Any) -> Rows:
    """Chunks of rows, each of which sees a static number of keys, joined; of a part of a text each looks at all keys."""
    tokens, keys, q = x.q.shape[3], x.k.shape[2], x.q * x.scale
    values = {"extra_logit": x.extra_logit, "slopes": x.slopes, "window": x.window, "kept": x.kept, **fixed}
    chunks = []
    for start, stop in chunks_of(tokens):
        seen = stop if tokens == keys else keys
        real_keys = None if x.padding is None else x.padding[:, :seen]
        rows = functools.partial(attend_rows, k=x.k[:, :, :seen], v=x.v[:, :, :seen], real_keys=real_keys, **values)
        real_queries = None if x.padding is None else x.real[:, start:stop]
        found = _map_blocks(rows, q[:, :, :, start:stop], x.places[start:stop], real_queries)
        chunks.append(found._replace(received=jnp.pad(found.received, [(0, 0)] * 3 + [(0, keys - seen)])))
    received = functools.reduce(jnp.add, [chunk.received for chunk in chunks])
    joined = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=3), *chunks)
    return joined._replace(received=received)


def attend_rows(
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
    kept: Int[Array, ""] | int,
    bias: ScoreBias | None,
    cap: Float[Array, ""] | None,
    weigh: Weigh,
    bias_key: Float[Array, "K H"] | None,
    bias_value: Float[Array, "K Hv"] | None,
) -> Rows:
    """One block of query rows at positions i against the keys at 0 … S - 1.

    The G heads that share a key are rows of one matrix product, which is half as fast again as an axis of their own.
    """
    B, K, G, rows, _ = q.shape
    distance, visible = looked_at(i, jnp.arange(k.shape[2]), window, kept)
    near = seen(distance, visible, slopes)
    merged = q.reshape(B, K, G * rows, -1, out_sharding=heads(4))
    scores = jnp.einsum("BKqH,BKSH->BKqS", merged, k, preferred_element_type=jnp.float32)
    scores = capped(scores, cap)
    if real_keys is not None:
        scores = jnp.where(real_keys[:, None, None], scores, -jnp.inf)
    if bias is not None:
        scores = scores + bias(merged, scores, i, visible)
    scores = scores + near.reshape(1, K, G * rows, -1, out_sharding=P(None, "model", None, None))
    out, numerators, extra, share, lse = weighed(scores, v, extra_logits(merged, extra_logit, bias_key, cap), weigh, bias_value)
    if real_queries is not None:
        share = jnp.where(jnp.tile(real_queries, (1, G))[:, None], share, 0)
    extra = extra * share
    entropy = jnp.sum(entr(numerators * share[..., None]), axis=-1) + entr(extra)
    share, first, extra, entropy, lse, numerators, out = (
        x if x is None else x.reshape(B, K, G, rows, *x.shape[3:], out_sharding=heads(x.ndim + 1))
        for x in (share, numerators[..., 0] * share, extra, entropy, lse, numerators, out)
    )
    # A sum over queries as a product: XLA's CPU back end reduces the columns of a fused softmax 100 times slower. An
    # accelerator would round the factors.
    received = jnp.einsum("BKGqS,BKGq->BKGS", numerators, share, precision=jax.lax.Precision.HIGHEST)
    return Rows(out, first=first, extra=extra, entropy=entropy, received=received, lse=lse)


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
    bias_key = jax.reshard(bias_key, P("model", None))
    return logits + capped(jnp.einsum("BKqH,KH->BKq", q, bias_key, preferred_element_type=jnp.float32), cap)


def weighed(
    scores: Float[Array, "B K R S"],
    v: Float[Array, "B K S Hv"],
    logits: Float[Array, "#B K R"],
    weigh: Weigh,
    bias_value: Float[Array, "K Hv"] | None,
) -> tuple[
    Float[Array, "B K R Hv"],
    Float[Array, "B K R S"],
    Float[Array, "B K R"],
    Float[Array, "B K R"],
    Float[Array, "B K R"] | None,
]:
    """The values weighed by the scores; what of a row each key and the extra logit get, what makes shares of that, and the
    log-sum-exp of a softmax."""
    numerators, total, extra, mass, lse = weigh(scores, logits)
    out = jnp.einsum("BKqS,BKSH->BKqH", numerators.astype(v.dtype), v, preferred_element_type=jnp.float32)
    if bias_value is not None:
        out = out + extra[..., None] * bias_value[None, :, None].astype(jnp.float32)
    return (out / total[..., None]).astype(v.dtype), numerators, extra, 1 / mass, lse


def capped(scores: Array, cap: Float[Array, ""] | None) -> Array:
    return scores if cap is None else cap * jnp.tanh(scores / cap)


def _map_blocks(
    rows: Callable[..., Rows], q: Float[Array, "B K G C H"], i: Int[Array, " C"], real_queries: Bool[Array, "B C"] | None
) -> Rows:
    """`rows` of blocks of BLOCK rows, one after the other; a single block needs no loop."""
    count = i.shape[0]
    if one_block(count):
        return rows(q, i, real_queries)
    real_blocks = None if real_queries is None else split_blocks(real_queries, 1, P("data", None, None), False)
    # Surplus rows are at position -1, which sees no key.
    mapped = split_blocks(q, 3, heads(6)), split_blocks(i, 0, P(None, None), -1), real_blocks
    found = jax.lax.map(lambda block: rows(*block), mapped)
    received = jnp.sum(found.received, axis=0)
    merged = jax.tree.map(lambda x: merge_blocks(x, count), found._replace(received=None))
    return merged._replace(received=received)
