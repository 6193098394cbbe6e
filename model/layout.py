"""How arrays lie in memory, where XLA would choose what is slow."""

import jax
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array


def row_major(x: Array) -> Array:
    """x, which XLA's CPU back end then writes to memory row by row: it multiplies a matrix that is transposed in name only at
    half the rate, and in bfloat16 at that of float32. Elsewhere x as it is, and where it lies on several devices, which would
    all be given the whole."""
    if not jax.typeof(x).sharding.is_fully_replicated:
        return x
    rows = Layout(tuple(range(x.ndim)))
    return jax.lax.platform_dependent(x, cpu=lambda x: with_layout_constraint(x, rows), default=lambda x: x)
