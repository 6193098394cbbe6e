"""Attention as the equations print it: whole matrices in float64, one head after the other."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

NO_WINDOW = 2**30


class Naive(NamedTuple):
    output: NDArray[np.float64]  # [B, T, N, H]
    probabilities: NDArray[np.float64]  # [B, N, T, S]
    extra: NDArray[np.float64]  # [B, N, T], of the extra logit


def random_heads(seed: int, batch: int, tokens: int, heads: int, groups: int, size: int) -> tuple[jax.Array, ...]:
    """q [B, T, N, H], k and v [B, T, K, H], standard normal, float32."""
    rng = np.random.default_rng(seed)
    shapes = [(batch, tokens, n, size) for n in (heads, groups, groups)]
    return tuple(jnp.asarray(rng.standard_normal(shape), jnp.float32) for shape in shapes)


def plain(heads: int, **changes: jax.Array) -> dict[str, Any]:
    """The arguments of attention that ask for nothing: no extra logit, no ALiBi, no window; but for `changes`."""
    nothing = {"extra_logit": jnp.full(heads, -jnp.inf), "slopes": jnp.zeros(heads), "window": jnp.int32(NO_WINDOW)}
    return nothing | changes


def naive_attention(q, k, v, *, extra_logit, slopes, window, kept=0, padding=None) -> Naive:
    q, k, v, extra_logit, slopes = (np.asarray(x, np.float64) for x in (q, k, v, extra_logit, slopes))
    batch, tokens, heads, size = q.shape
    shared = heads // k.shape[2]
    real = np.ones((batch, tokens), bool) if padding is None else np.asarray(padding)
    distance = np.arange(tokens)[:, None] - np.arange(tokens)[None, :]
    probabilities, extra = np.zeros((batch, heads, tokens, tokens)), np.zeros((batch, heads, tokens))
    output = np.zeros(q.shape)
    for b in range(batch):
        near = (distance < int(window)) | (np.arange(tokens) < int(kept))[None, :]
        visible = (distance >= 0) & near & real[b][None, :]
        for n in range(heads):
            scores = q[b, :, n] @ k[b, :, n // shared].T / np.sqrt(size) - slopes[n] * distance
            weights = np.where(visible, np.exp(scores), 0)
            total = weights.sum(axis=1) + np.exp(extra_logit[n])
            total = np.where(total == 0, 1, total)
            probabilities[b, n] = weights / total[:, None]
            extra[b, n] = np.exp(extra_logit[n]) / total
            output[b, :, n] = probabilities[b, n] @ v[b, :, n // shared]
    return Naive(output, probabilities, extra)


def whole_attention(q, k, v, *, extra_logit, slopes, window, kept, padding, cap, weigh, bias_key, bias_value) -> jax.Array:
    """`attention` without blocks, chunks and grouped heads, to be differentiated: all scores of all heads at once. float32."""
    tokens, shared = q.shape[1], q.shape[2] // k.shape[2]
    k, v = (jnp.repeat(x, shared, axis=2) for x in (k, v))
    bias_key, bias_value = (jnp.repeat(x, shared, axis=0) for x in (bias_key, bias_value))
    q = q / np.float32(np.sqrt(q.shape[-1]))
    scores, logits = jnp.einsum("bqnh,bsnh->bnqs", q, k), jnp.einsum("bqnh,nh->bnq", q, bias_key)
    scores, logits = (cap * jnp.tanh(x / cap) for x in (scores, logits))
    distance = jnp.arange(tokens)[:, None] - jnp.arange(tokens)[None, :]
    near = (distance < window) | (jnp.arange(tokens) < kept)[None, :]
    visible = ((distance >= 0) & near)[None, None] & padding[:, None, None, :]
    scores = scores - slopes[None, :, None, None] * distance.astype(jnp.float32)[None, None]
    terms = weigh(jnp.where(visible, scores, -jnp.inf), logits + extra_logit[None, :, None])
    mixed = jnp.einsum("bnqs,bsnh->bnqh", terms.numerators, v) + terms.extra[..., None] * bias_value[None, :, None]
    return jnp.swapaxes(mixed / terms.total[..., None], 1, 2)
