"""PoPE: polar coordinates, where the content is a magnitude and the position a phase."""

import math

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float


def init_polar_phase(heads: int, head_dim: int) -> Float[Array, "N H"]:
    """delta = 0, the default of public code, whose other choice is U(-2π, 0). `heads` are those of the keys."""
    return jnp.zeros((heads, head_dim), out_sharding=P("model", None))


def polar(
    x: Float[Array, "B T N H"], angles: Float[Array, "T H"], phase: Float[Array, "N H"] | None
) -> Float[Array, "B T N 2*H"]:
    """x → (mu cos(angle + delta), mu sin(angle + delta)), mu = softplus(x) (Gopalakrishnan et al. 2025, arXiv 2509.10534).

    `angles` are position · theta_c [rad], theta_c = b^(-c/H): one for every channel, as RoPE of 2H channels has for every
    pair. `phase` is delta, for keys only, and is clamped to [-2π, 0]. The score of a query at t and a key at s is then
    sum_c mu_q mu_k cos((t - s) theta_c - delta_c). It sums over 2H channels but H magnitudes: scale it by H^-0.5, the default
    of PoPE-pytorch (a port that counts the doubled channels takes (2H)^-0.5).

    Within the bounds, ends included, delta has its full gradient; beyond them none: a delta that a step
    has carried past 0 stays there. float32 inside, the type of x out.
    """
    turned = angles[:, None, :]
    if phase is not None:
        # Two selections: jnp.clip would halve the gradient at 0, where every delta begins.
        bounded = jnp.where(phase > 0, 0, jnp.where(phase < -2 * math.pi, -2 * math.pi, phase))
        turned = turned + bounded[None]
    magnitude = jax.nn.softplus(x.astype(jnp.float32))
    parts = [magnitude * f(turned)[None] for f in (jnp.cos, jnp.sin)]
    return jnp.stack(parts, axis=-2).reshape(*x.shape[:-1], 2 * x.shape[-1]).astype(x.dtype)
