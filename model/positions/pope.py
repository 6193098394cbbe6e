"""PoPE: polar coordinates, with the content as magnitude and the position as phase."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from leadline.model.mesh import GROUPS, on_mesh


def init_polar_phase(heads: int, head_dim: int) -> Float[Array, "N H"]:
    """delta = 0 for each key head, the default of public code, whose other choice is U(-2π, 0)."""
    return jnp.zeros((heads, head_dim), out_sharding=on_mesh(GROUPS))


def polar(
    x: Float[Array, "B T N H"], angles: Float[Array, "T H"], phase: Float[Array, "N H"] | None
) -> Float[Array, "B T N 2*H"]:
    """x → (mu cos(angle + delta), mu sin(angle + delta)), mu = softplus(x) (Gopalakrishnan et al. 2025, arXiv:2509.10534).

    The score of a query at t and a key at s is sum_c mu_q mu_k cos((t - s) theta_c - delta_c). It sums over H magnitudes: scale
    it by H^-0.5, the default of PoPE-pytorch (a port that counts the doubled channels takes (2H)^-0.5). Within its bounds, ends
    included, delta has its full gradient, and none beyond: a delta that a step has moved past 0 stays there.

    Args:
        x: queries or keys.
        angles: position · theta_c [rad], theta_c = b^(-c/H), one for every channel, as RoPE of 2H channels has one a pair.
        phase: delta, clamped to [-2π, 0]; None for queries.

    Returns:
        [B, T, N, 2 H], computed in float32, in x's type.
    """
    theta = angles[:, None, :]
    if phase is not None:
        # Two selections: jnp.clip would halve the gradient at 0, where every delta begins.
        bounded = jnp.where(phase > 0, 0, jnp.where(phase < -2 * math.pi, -2 * math.pi, phase))
        theta = theta + bounded[None]
    magnitude = jax.nn.softplus(x.astype(jnp.float32))
    parts = [magnitude * f(theta)[None] for f in (jnp.cos, jnp.sin)]
    return jnp.stack(parts, axis=-2).reshape(*x.shape[:-1], 2 * x.shape[-1]).astype(x.dtype)
