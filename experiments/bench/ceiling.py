"""What the machine can do at most: its own matrix product, in the same run."""

import jax
import jax.numpy as jnp

from experiments.bench.contest import Contestant
from experiments.bench.worker import Prepared

# Rows of the matrices on a CPU, and on an accelerator, which smaller ones do not fill.
SIZE, ACCELERATOR_SIZE = 2048, 8192


def ceiling(dtype: str) -> Contestant:
    """JAX's product of two square matrices, summed in float32, on all cores or on the first accelerator."""
    return Contestant(f"matrix product, {dtype}", f"{__name__}:prepare", {"dtype": dtype})


def prepare(dtype: str) -> Prepared:
    """The product of two fixed matrices, and its FLOPs."""
    size = SIZE if jax.default_backend() == "cpu" else ACCELERATOR_SIZE
    a, b = jax.random.normal(jax.random.key(0), (2, size, size), jnp.dtype(dtype))
    product = jax.jit(lambda x, y: jnp.matmul(x, y, preferred_element_type=jnp.float32))
    return Prepared(lambda: product(a, b).block_until_ready(), {"flops": 2.0 * size**3})
