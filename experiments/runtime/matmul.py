"""How fast this machine multiplies matrices."""

import time

import jax
import jax.numpy as jnp

from leadline.model.mesh import make_mesh


def matmul_peak(dtype: str = "float32", size: int | None = None, rounds: int = 3) -> float:
    """FLOP/s of a matrix product of this type on all devices of this machine: the denominator of MFU.

    Args:
        dtype: of the matrices.
        size: of their sides; None: one whose product takes an accelerator far longer than being called, about 50 µs.
        rounds: products, of which the fastest counts.
    """
    cpu, seconds = jax.default_backend() == "cpu", []
    size = size or (1024 if cpu else 8192)
    with jax.set_mesh(make_mesh()):
        a = jnp.ones((size, size), dtype)
        product = jax.jit(jnp.matmul)
        product(a, a).block_until_ready()
        for _ in range(rounds):
            began = time.monotonic()
            product(a, a).block_until_ready()
            seconds.append(time.monotonic() - began)
    # On a CPU the product of one device already uses the cores that the others stand for.
    devices = 1 if cpu else jax.device_count()
    return devices * 2 * size**3 / min(seconds)
