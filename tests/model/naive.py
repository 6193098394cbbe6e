"""Attention as the equations print it: whole matrices in float64, one head after the other."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from leadline.model.attention.mask import Mask, Tiling
from leadline.model.attention.scores import Scores


class Naive(NamedTuple):
    output: NDArray[np.float64]  # [B, T, N, H]
    probabilities: NDArray[np.float64]  # [B, N, T, S]
    sink: NDArray[np.float64]  # [B, N, T]


def random_heads(seed: int, batch: int, tokens: int, heads: int, groups: int, size: int) -> tuple[jax.Array, ...]:
    """q [B, T, N, H], k and v [B, T, K, H], standard normal, float32."""
    rng = np.random.default_rng(seed)
    shapes = [(batch, tokens, n, size) for n in (heads, groups, groups)]
    return tuple(jnp.asarray(rng.standard_normal(shape), jnp.float32) for shape in shapes)


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


def naive_attention(q, k, v, mask: Mask, scores: Scores) -> Naive:
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    batch, tokens, heads, size = q.shape
    sink_logit, slopes = (np.broadcast_to(np.asarray(x, np.float64), heads) for x in (scores.sink_logit, scores.slopes))
    shared = heads // k.shape[2]
    real = np.ones((batch, tokens), bool) if mask.padding is None else np.asarray(mask.padding)
    distance = np.arange(tokens)[:, None] - np.arange(tokens)[None, :]
    probabilities, sink = np.zeros((batch, heads, tokens, tokens)), np.zeros((batch, heads, tokens))
    output = np.zeros(q.shape)
    for b in range(batch):
        near = (distance < int(mask.window)) | (np.arange(tokens) < int(mask.initial_tokens))[None, :]
        visible = (distance >= 0) & near & real[b][None, :]
        for n in range(heads):
            s = q[b, :, n] @ k[b, :, n // shared].T / np.sqrt(size) - slopes[n] * distance
            weights = np.where(visible, np.exp(s), 0)
            total = weights.sum(axis=1) + np.exp(sink_logit[n])
            total = np.where(total == 0, 1, total)
            probabilities[b, n] = weights / total[:, None]
            sink[b, n] = np.exp(sink_logit[n]) / total
            output[b, :, n] = probabilities[b, n] @ v[b, :, n // shared]
    return Naive(output, probabilities, sink)


def whole_attention(q, k, v, mask: Mask, scores: Scores) -> jax.Array:
    """`attention` without blocks, chunks and grouped heads, to be differentiated: all scores of all heads at once. float32."""
    tokens, shared = q.shape[1], q.shape[2] // k.shape[2]
    k, v = (jnp.repeat(x, shared, axis=2) for x in (k, v))
    assert scores.key_bias is not None
    assert scores.value_bias is not None
    assert scores.cap is not None
    assert mask.padding is not None
    key_bias, value_bias = (jnp.repeat(x, shared, axis=0) for x in (scores.key_bias, scores.value_bias))
    q = q / np.float32(np.sqrt(q.shape[-1]))
    s, logits = jnp.einsum("bqnh,bsnh->bnqs", q, k), jnp.einsum("bqnh,nh->bnq", q, key_bias)
    s, logits = (scores.cap * jnp.tanh(x / scores.cap) for x in (s, logits))
    distance = jnp.arange(tokens)[:, None] - jnp.arange(tokens)[None, :]
    near = (distance < mask.window) | (jnp.arange(tokens) < mask.initial_tokens)[None, :]
    visible = ((distance >= 0) & near)[None, None] & mask.padding[:, None, None, :]
    s = s - jnp.asarray(scores.slopes)[None, :, None, None] * distance.astype(jnp.float32)[None, None]
    sink_logit = jnp.asarray(scores.sink_logit)[None, :, None]
    terms = scores.normalizer(jnp.where(visible, s, -jnp.inf), logits + sink_logit)
    mixed = jnp.einsum("bnqs,bsnh->bnqh", terms.numerators, v) + terms.sink[..., None] * value_bias[None, :, None]
    return jnp.swapaxes(mixed / terms.total[..., None], 1, 2)
