"""Attention as the equations print it: whole matrices, all heads at once, in numpy for values and in JAX for gradients."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from leadline.model.attention.mask import Mask, Tiling
from leadline.model.attention.normalizers import is_softmax
from leadline.model.attention.scores import Scores


class Naive(NamedTuple):
    output: Any  # [B, T, N, H]
    probabilities: Any  # [B, N, T, S]
    sink: Any  # [B, N, T]


def numbers(seed: int, *shape: int) -> jax.Array:
    """Standard normal, float32."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def random_heads(seed: int, batch: int, tokens: int, heads: int, groups: int, size: int) -> tuple[jax.Array, ...]:
    """q [B, T, N, H], k and v [B, T, K, H], standard normal, float32."""
    rng = np.random.default_rng(seed)
    shapes = [(batch, tokens, n, size) for n in (heads, groups, groups)]
    return tuple(jnp.asarray(rng.standard_normal(shape).astype(np.float32)) for shape in shapes)


def arguments(**fields: Any) -> dict[str, Any]:
    """The mask and the scores of attention, by the names of their fields."""
    return {
        "mask": Mask(**{name: value for name, value in fields.items() if name in Mask._fields}),
        "scores": Scores(**{name: value for name, value in fields.items() if name in Scores._fields}),
    }


def tiling(form: int | tuple[int, int] | None) -> Tiling:
    """Short texts cut as only long ones are (chunks of blocks of 8 rows, or tiles of so many tokens), or attended by a GPU's
    kernels with tiles of so many queries and keys, interpreted."""
    if isinstance(form, tuple):
        return Tiling(platform="interpreter", kernel=form, statistics_rows=8, statistics_chunks=3)
    if form is None:
        return Tiling(rows=8, chunks=2)
    return Tiling(rows=8, chunks=2, unrolled=0, tile=form, statistics_rows=form, statistics_chunks=3)


def whole_attention(
    q: Any, k: Any, v: Any, mask: Mask = Mask(), scores: Scores = Scores(), *, bias: Any = 0.0, xp: Any = jnp
) -> Naive:
    """Softmax, or the normalizer of `scores`, of all scores in the type of q, with `bias` added to them [B, N, T, S].

    A row that sees nothing gives zeros.
    """
    tokens, shared, dtype = q.shape[1], q.shape[2] // k.shape[2], q.dtype.type
    k, v = (xp.repeat(x, shared, axis=2) for x in (k, v))

    def by_head(x: Any) -> Any:
        return xp.broadcast_to(xp.asarray(x, dtype), (q.shape[2],))[None, :, None]

    scale = xp.asarray(1 / np.sqrt(q.shape[3]) if scores.scale is None else scores.scale, dtype)
    s = scale * xp.einsum("bqnh,bsnh->bnqs", q, k)
    logits = xp.zeros_like(s[..., 0])
    if scores.key_bias is not None:
        logits = scale * xp.einsum("bqnh,nh->bnq", q, xp.repeat(scores.key_bias, shared, axis=0))
    if scores.cap is not None:
        s, logits = (scores.cap * xp.tanh(x / scores.cap) for x in (s, logits))
    distance = np.arange(tokens)[:, None] - np.arange(tokens)[None, :]
    chunks = np.arange(tokens) // mask.chunk
    near = (distance < mask.window) & (chunks[:, None] == chunks[None, :])
    near = near | (np.arange(tokens) < mask.initial_tokens)[None, :]
    visible = ((distance >= 0) & near)[None, None]
    visible = visible if mask.padding is None else visible & mask.padding[:, None, None, :]
    s = s - by_head(scores.slopes)[..., None] * xp.asarray(distance, dtype)[None, None] + bias
    logits = logits + by_head(scores.sink_logit)
    if is_softmax(scores.normalizer):
        numerators, sink = xp.where(visible, xp.exp(s), dtype(0)), xp.exp(logits)
        total = numerators.sum(axis=-1) + sink
        total = xp.where(total == 0, dtype(1), total)
    else:
        numerators, total, sink = scores.normalizer(xp.where(visible, s, -xp.inf), logits)[:3]
    p, sink = numerators / total[..., None], sink / total
    output = xp.einsum("bnqs,bsnh->bqnh", p, v)
    if scores.value_bias is not None:
        output = output + xp.einsum("bnq,nh->bqnh", sink, xp.repeat(scores.value_bias, shared, axis=0))
    return Naive(output, p, sink)


def naive_attention(q: Any, k: Any, v: Any, mask: Mask = Mask(), scores: Scores = Scores()) -> Naive:
    """`whole_attention` in float64."""
    values = Scores(sink_logit=np.asarray(scores.sink_logit), slopes=np.asarray(scores.slopes))  # pyright: ignore[reportArgumentType]
    host = Mask(*(x if x is None else np.asarray(x) for x in mask))  # pyright: ignore[reportArgumentType]
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    return whole_attention(q, k, v, host, values, xp=np)
