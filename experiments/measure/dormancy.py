"""Heads that rest on one kind of text and work on another."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def dormant_share(mass: Float[Array, "*domains L N"], *, threshold: float) -> Float[Array, "*domains"]:
    """Share of all heads that are dormant, of each domain: a head is, if the mean probability that it gives to the first token
    (experiments.measure.sinks, `mean_mass`) is above `threshold` (after Guo et al. 2024, arXiv 2410.13835).

    Raises ValueError unless 0 <= threshold < 1.
    """
    return jnp.mean(_dormant(mass, threshold).astype(jnp.float32), axis=(-2, -1))


def dormant_in_one(mass_a: Float[Array, "L N"], mass_b: Float[Array, "L N"], *, threshold: float) -> Float[Array, ""]:
    """Share of all heads that are dormant in exactly one of two domains, as prose and code: active-dormant heads, sinks on some
    texts and not on others (Guo et al. 2024, arXiv 2410.13835). Threshold and error as in `dormant_share`."""
    return jnp.mean((_dormant(mass_a, threshold) != _dormant(mass_b, threshold)).astype(jnp.float32))


def _dormant(mass: Float[Array, "*domains L N"], threshold: float) -> Bool[Array, "*domains L N"]:
    if not 0 <= threshold < 1:
        raise ValueError(f"no share of a query's attention tells the dormant at a threshold of {threshold}: it is from 0 to 1")
    return mass > threshold
