"""A softmax temperature that grows with the position of the query."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def query_scale(i: Int[Array, " T"], strength: Float[Array, ""], span: Float[Array, ""]) -> Float[Array, " T"]:
    """1 + strength · ln(1 + floor((i + 1) / span)), the factor of query i (Llama 4, Meta 2025: strength 0.1, span 8192, on the
    layers without positions). Strength 0 is no temperature. float32."""
    spans = jnp.floor((i.astype(jnp.float32) + 1) / span)
    return 1 + strength * jnp.log1p(spans)
