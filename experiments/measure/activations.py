"""Massive activations, tails of activations, and gates."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def activation_ratio(residual: Float[Array, "B T D"]) -> Float[Array, ""]:
    """max |h| / median |h| over the tokens and channels of a sequence, a mean over sequences.

    After Sun et al. 2024, arXiv:2402.17762, whose absolute threshold does not carry over to small models.
    """
    size = _sizes(residual)
    return jnp.mean(jnp.max(size, axis=1) / median_of_sizes(size))


def massive_activations(residual: Float[Array, "B T D"], largest: int = 3) -> Float[Array, "{largest}"]:
    """The i-th largest |h| over the median |h| of the tokens and channels of a sequence, for i from 1; a mean over sequences:

        |h|_(i) / median |h|

    Sun et al. 2024, arXiv:2402.17762, show the three largest of each layer. The first equals `activation_ratio`. float32.

    Raises:
        ValueError: unless 1 <= largest <= T D.
    """
    size = _sizes(residual)
    if not 1 <= largest <= size.shape[1]:
        raise ValueError(f"the {largest} largest activations of a sequence that has {size.shape[1]}")
    return jnp.mean(jax.lax.top_k(size, largest)[0] / median_of_sizes(size)[:, None], axis=0)


def kurtosis(x: Float[Array, "B T D"]) -> Float[Array, ""]:
    """E[(x - μ)⁴] / σ⁴ over the tokens and channels of a sequence, a mean over sequences: how heavy the tails are.

    After Bondarenko et al. 2023, arXiv:2306.12929. Normal numbers have 3, and 1 is the least. A sequence in which one number
    differs from all others has T D - 2 + 1/(T D - 1). NaN if all are equal. float32.
    """
    x = x.astype(jnp.float32)
    square = jnp.square(x - jnp.mean(x, axis=(1, 2), keepdims=True))
    return jnp.mean(jnp.square(square / jnp.mean(square, axis=(1, 2), keepdims=True)))


def _sizes(residual: Float[Array, "B T D"]) -> Float[Array, "B M"]:
    return jnp.abs(residual.astype(jnp.float32)).reshape(residual.shape[0], -1)


def median_of_sizes(size: Float[Array, "B M"]) -> Float[Array, " B"]:
    """The median of each row of non-negative numbers, float32.

    It equals that of a sort and takes a tenth of its time on a CPU. Non-negative floats are ordered as their bits are, so the
    k-th smallest is the largest bit pattern that at most k others lie below, found by one count for each of 31 bits. NaN gives
    NaN.
    """
    bits = jax.lax.bitcast_convert_type(size.astype(jnp.float32), jnp.int32)
    places = jnp.array([(size.shape[1] - 1) // 2, size.shape[1] // 2])

    def next_bit(i: Array, pattern: Array) -> Array:
        tried = pattern | (1 << (30 - i))
        below = jnp.sum(bits[:, None, :] < tried[:, :, None], axis=-1)
        return jnp.where(below <= places[None, :], tried, pattern)

    middle = jax.lax.fori_loop(0, 31, next_bit, jnp.zeros_like(bits[:, :1]) | jnp.zeros_like(places)[None])
    median = jnp.mean(jax.lax.bitcast_convert_type(middle, jnp.float32), axis=1)
    return jnp.where(jnp.any(jnp.isnan(size), axis=1), jnp.nan, median)


def gate_mean(gate: Float[Array, "B T heads *channels"]) -> Float[Array, " heads"]:
    """Mean gate of each head, over tokens and channels."""
    return jnp.mean(gate, axis=(0, 1, *range(3, gate.ndim)))


def gate_share_under(gate: Float[Array, "B T heads *channels"], threshold: float) -> Float[Array, " heads"]:
    """Share of the gates of each head, over tokens and channels, below `threshold`: the sparsity of a gate."""
    return gate_mean((gate < threshold).astype(jnp.float32))
