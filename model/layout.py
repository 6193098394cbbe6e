"""How arrays lie in memory, where XLA would choose what is slow."""

import jax
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array


def row_major(x: Array) -> Array:
    """x in row-major order on a CPU; x itself elsewhere, and where it is sharded.

    XLA's CPU back end multiplies a matrix whose transposition is only a layout at half the rate, and in bfloat16 at the rate of
    float32. A constraint on a sharded array would replicate it.
    """
    if not jax.typeof(x).sharding.is_fully_replicated:
        return x
    rows = Layout(tuple(range(x.ndim)))
    return jax.lax.platform_dependent(x, cpu=lambda x: with_layout_constraint(x, rows), default=lambda x: x)
