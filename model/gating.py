"""Output gates: what a head may send on (Qiu et al. 2025, arXiv 2505.06708)."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from model.linear import project

Gate = Literal["none", "output_headwise", "output_elementwise", "value_headwise", "value_elementwise"]


def gate_scores(
    x: Float[Array, "B T D"], w: Float[Array, "D N"] | Float[Array, "D N H"]
) -> Float[Array, "B T N"] | Float[Array, "B T N H"]:
    """σ(x·W) in float32. x is the pre-normed layer input of the query token; W has a column a head or a channel."""
    sharding = jax.sharding.PartitionSpec("data", None, "model", *([None] * (w.ndim - 2)))
    return jax.nn.sigmoid(project(x, w, out_sharding=sharding).astype(jnp.float32))


def apply_gate(y: Float[Array, "B T N H"], scores: Float[Array, "B T N"] | Float[Array, "B T N H"]) -> Float[Array, "B T N H"]:
    """y ⊙ gate, a gate a head being broadcast over its channels."""
    return y * (scores if scores.ndim == y.ndim else scores[..., None]).astype(y.dtype)
