"""Upper limits of the machine: matrix products and exponentials alone, timed in the same run as the contestants."""

import jax
import jax.numpy as jnp

from leadline.experiments.bench.contest import Contestant, ours
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.attention import HEAD

# Rows of the matrices on a CPU, and on an accelerator, which smaller ones do not fill.
SIZE, ACCELERATOR_SIZE = 2048, 8192
# Rows of the products, and entries of the exponentials, of the floor of attention: both stay in cache.
SIDE, TILE = 1024, 2**16


def ceiling(dtype: str) -> Contestant:
    """JAX's product of two square matrices, summed in float32, on all cores or on the first accelerator."""
    return ours(product, {"dtype": dtype}, f"matrix product, {dtype}")


def product(dtype: str) -> Prepared:
    """The product of two fixed matrices, and its FLOPs."""
    size = SIZE if jax.default_backend() == "cpu" else ACCELERATOR_SIZE
    a, b = jax.random.normal(jax.random.key(0), (2, size, size), jnp.dtype(dtype))
    multiply = jax.jit(lambda x, y: jnp.matmul(x, y, preferred_element_type=jnp.float32))
    return Prepared(lambda: multiply(a, b).block_until_ready(), {"flops": 2.0 * size**3})


def attention_floor(tokens: int, heads: int, passes: int) -> Prepared:
    """A lower limit of the time of attention: its products and exponentials alone, for `passes` passes over the scores.

    The FLOPs are those of `passes` causal products of scores, as products of SIDE × SIDE, and as many exponentials, in cache.
    """
    products = round(passes * heads * tokens**2 * HEAD / (2.0 * SIDE**3))
    exponentials = round(passes * heads * tokens**2 / 2 / TILE)
    a = jax.random.normal(jax.random.key(0), (SIDE, SIDE)) * SIDE**-0.5
    x = jax.random.normal(jax.random.key(1), (TILE,))
    work = jax.jit(
        lambda a, x: (
            jax.lax.fori_loop(0, products, lambda _, y: y @ a, a),
            jax.lax.fori_loop(0, exponentials, lambda _, y: jnp.exp(-y), x),
        )
    )
    return Prepared(lambda: jax.block_until_ready(work(a, x)))
