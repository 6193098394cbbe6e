"""Rotary position embedding: pairs of channels turned by the angle of their position."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def rotate(
    x: Float[Array, "B T N H"],
    angles: Float[Array, "T half"],
    *,
    factor: Float[Array, "#T half"] | Float[Array, ""],
    interleaved: bool = False,
) -> Float[Array, "B T N H"]:
    """(x_a, x_b) → factor · (x_a cos θ - x_b sin θ, x_a sin θ + x_b cos θ), θ = position · inverse frequency [rad].

    Su et al. 2021 (arXiv 2104.09864); the angles are those of model.positions.phase. The pair (a, b) of frequency i is
    (i, i + H/2), or (2i, 2i + 1) if `interleaved`; the two differ by a fixed permutation of the channels. Angles of 0 with
    factor 1 are NoPE. `factor` is final: it multiplies cos and sin, so scores are scaled by its square. The rotation is
    float32; the result has x's type.
    """
    return turn_pairs(x, factor * jnp.cos(angles), factor * jnp.sin(angles), interleaved=interleaved)


def turn_pairs(
    x: Float[Array, "B T N H"], cos: Float[Array, "T half"], sin: Float[Array, "T half"], *, interleaved: bool = False
) -> Float[Array, "B T N H"]:
    """`rotate` by what cosine and sine are already known, times the factor."""
    half = x.shape[-1] // 2
    axis, split = (-1, (half, 2)) if interleaved else (-2, (2, half))
    pairs = x.astype(jnp.float32).reshape(*x.shape[:-1], *split)
    same, other = jnp.stack([cos, cos], axis=axis), jnp.stack([-sin, sin], axis=axis)
    turned = pairs * same[None, :, None] + jnp.flip(pairs, axis) * other[None, :, None]
    return turned.reshape(x.shape).astype(x.dtype)
