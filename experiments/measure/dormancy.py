"""Heads that rest on the first token: on every kind of text, or on one only."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def dormant_share(mass: Float[Array, "L N"], *, threshold: float) -> Float[Array, ""]:
    """Share of the heads that are dormant: their mean attention to the first token is above the threshold.

    After Guo et al. 2024, arXiv:2410.13835.

    Args:
        mass: `leadline.experiments.measure.sinks.mean_mass` of the first token, by head.
        threshold: ε, from 0 to below 1.
    """
    return jnp.mean((mass > threshold).astype(jnp.float32))


def active_dormant_share(mass: Float[Array, "L N"], other_mass: Float[Array, "L N"], *, threshold: float) -> Float[Array, ""]:
    """Share of the heads that are dormant in exactly one of two domains, such as code and prose.

    Guo et al. 2024, arXiv:2410.13835, call them active-dormant. Arguments as in `dormant_share`, one mass for each domain.
    """
    return jnp.mean(((mass > threshold) != (other_mass > threshold)).astype(jnp.float32))
