"""Causal dot-product attention with grouped heads, position biases, a window and an extra softmax logit, block by block."""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import SymbolicZero
from jax.scipy.special import entr
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from model.blocks import chunks_of, heads, merge_blocks, one_block, seen, split_blocks
from model.flash import Softmax, softmax_gradients
from model.kernels.kernel import Weigh
from model.kernels.softmax import softmax_terms

# What a policy of jax.checkpoint keeps of attention, so that it need not be computed twice.
KEPT = "attention"


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
    lse: Float[Array, "B K G q"] | None  # of a softmax


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
    q, k, v = grouped(q, k, v, scale)
    extra, slope = _by_group(k.shape[1], extra_logit, slopes)
    padding = None if padding is None else jax.reshard(padding, P("data", None))
    x = Softmax(q, k, v, extra, slope, window, padding)
    if form(bias=bias, cap=cap, weigh=weigh, bias_key=bias_key) == "flash":
        return _join_heads(_flash(x))
    return _join_heads(_forward(x, bias=bias, cap=cap, weigh=weigh, bias_key=bias_key, bias_value=bias_value))


def form(
    *,
    bias: ScoreBias | None = None,
    cap: Float[Array, ""] | None = None,
    weigh: Weigh = softmax_terms,
    bias_key: Float[Array, "K H"] | None = None,
) -> Literal["flash", "differentiated"]:
    """How `attention` comes by its gradient: from the log-sum-exp (model.flash) where scores are products, ALiBi and a window
    under a softmax; else JAX differentiates the forward pass, and keeps what that needs of all scores."""
    return "flash" if weigh is softmax_terms and bias is None and cap is None and bias_key is None else "differentiated"


def _forward(x: Softmax, **fixed: Any) -> _Rows:
    """Chunks of rows, each of which sees a static number of keys, joined."""
    tokens = x.q.shape[3]
    values = {"extra_logit": x.extra_logit, "slopes": x.slopes, "window": x.window, **fixed}
    chunks = []
    for start, stop in chunks_of(tokens):
        real_keys = None if x.padding is None else x.padding[:, :stop]
        rows = functools.partial(_attend_rows, k=x.k[:, :, :stop], v=x.v[:, :, :stop], real_keys=real_keys, **values)
        real_queries = None if x.padding is None else x.padding[:, start:stop]
        found = _map_blocks(rows, x.q[:, :, :, start:stop], jnp.arange(start, stop), real_queries)
        chunks.append(found._replace(received=jnp.pad(found.received, [(0, 0)] * 3 + [(0, tokens - stop)])))
    received = functools.reduce(jnp.add, [chunk.received for chunk in chunks])
    joined = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=3), *chunks)
    return joined._replace(received=received)


_PLAIN = {"bias": None, "cap": None, "weigh": softmax_terms, "bias_key": None, "bias_value": None}


@jax.custom_vjp
def _flash(x: Softmax) -> _Rows:
    """`_forward` of a softmax, with a gradient that keeps no scores."""
    return _forward(x, **_PLAIN)


def _flash_forward(x: Any) -> tuple[_Rows, Any]:
    own = jax.tree.map(lambda leaf: leaf.value, x)
    rows = _forward(own, **_PLAIN)
    rows = rows._replace(out=checkpoint_name(rows.out, KEPT), lse=checkpoint_name(rows.lse, KEPT))
    with_slopes = () if x.slopes.perturbed else None  # a tree without leaves, since those would be traced
    return rows, (own, rows.out, rows.lse, with_slopes)


def _flash_backward(saved: tuple[Softmax, Array, Array, tuple[()] | None], cotangent: Any) -> tuple[Any]:
    """By blocks for the output alone; where somebody differentiates a statistic too, of `_forward` as it stands."""
    x, out, lse, with_slopes = saved
    asked = [name for name, leaf in cotangent._asdict().items() if not isinstance(leaf, SymbolicZero)]
    if asked == ["out"]:
        gradients = softmax_gradients(x, out, lse, cotangent.out, with_slopes=with_slopes is not None)
        q, k, v, extra, slopes = gradients
        return (Softmax(q, k, v, extra, slopes, None, None),)  # pyright: ignore[reportArgumentType]
    _, backward = jax.vjp(lambda given: [getattr(_forward(given, **_PLAIN), name) for name in asked], x)
    return backward([getattr(cotangent, name) for name in asked])


_flash.defvjp(_flash_forward, _flash_backward, symbolic_zeros=True)


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
    q, k, v = grouped(q, k, v, scale)
    extra, slope = _by_group(k.shape[1], extra_logit, slopes)
    fixed = {"bias": bias, "cap": cap, "weigh": weigh, "bias_key": bias_key, "bias_value": bias_value}
    values = {"extra_logit": extra, "slopes": slope, "window": window, "real_keys": None}
    return _join_heads(_attend_rows(q, i, None, k=k, v=v, **values, **fixed))


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


def _by_group(groups: int, *values: Float[Array, " N"]) -> tuple[Float[Array, "K G"], ...]:
    """What each query head has of its own, by key/value head."""
    return tuple(x.reshape(groups, -1, out_sharding=P("model", None)) for x in values)


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
    out, numerators, extra, share, lse = weighed(scores, v, extra_logits(merged, extra_logit, bias_key, cap), weigh, bias_value)
    if real_queries is not None:
        share = jnp.where(jnp.tile(real_queries, (1, G))[:, None], share, 0)
    extra = extra * share
    entropy = jnp.sum(entr(numerators * share[..., None]), axis=-1) + entr(extra)
    share, first, extra, entropy, lse, numerators, out = (
        x if x is None else x.reshape(B, K, G, rows, *x.shape[3:], out_sharding=heads(x.ndim + 1))
        for x in (share, numerators[..., 0] * share, extra, entropy, lse, numerators, out)
    )
    # A sum over queries as a product: XLA's CPU back end reduces the columns of a fused softmax 100 times slower.
    received = jnp.einsum("BKGqS,BKGq->BKGS", numerators, share)
    return _Rows(out, first=first, extra=extra, entropy=entropy, received=received, lse=lse)


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
    rows: Callable[..., _Rows], q: Float[Array, "B K G C H"], i: Int[Array, " C"], real_queries: Bool[Array, "B C"] | None
) -> _Rows:
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


def _join_heads(rows: _Rows) -> tuple[Float[Array, "B T N H"], AttentionStatistics]:
    """Grouped heads merged, heads after tokens in the output."""

    def merge(x: Array) -> Array:
        return x.reshape(x.shape[0], -1, *x.shape[3:], out_sharding=heads(x.ndim - 1))

    return jnp.swapaxes(merge(rows.out), 1, 2), AttentionStatistics(
        first=merge(rows.first), extra=merge(rows.extra), entropy=merge(rows.entropy), received=merge(rows.received)
    )
