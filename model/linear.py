"""The matrix product of every projection, written so that its gradient is fast and its sharding is explicit."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from model.layout import row_major


def project(x: Float[Array, "..."], w: Float[Array, "..."], *, contract: int = 1, out_sharding: P) -> Float[Array, "..."]:
    """Contracts the last `contract` axes of x with the first of w: [B, T, *in] × [*in, *out] → [B, T, *out].

    Both operands are flattened to matrices first: the weight gradient of a three-axis product is two to five times slower
    on XLA's CPU back end. w is cast to x's type; products are summed in float32. Needs a mesh (jax.set_mesh) with the axes of
    `out_sharding`, of which only the first axis and the first output axis may be sharded.
    """
    rows = x.ndim - contract
    y: Array = _product(_as_matrix(x, rows), _as_matrix(w, contract), P(out_sharding[0], out_sharding[rows]))  # pyright: ignore[reportAssignmentType]
    return y.reshape(*x.shape[:rows], *w.shape[contract:], out_sharding=out_sharding)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _product(x: Float[Array, "rows inner"], w: Float[Array, "inner columns"], spec: P) -> Float[Array, "rows columns"]:
    """x · w. Its gradient takes the cotangent as it comes, in x's type: JAX's own would multiply float32 matrices, because the
    sum is float32, which on a CPU with bfloat16 takes twice as long."""
    return _product_forward(x, w, spec)[0]


def _product_forward(x: Array, w: Array, spec: P) -> tuple[Array, tuple[Array, Array]]:
    return _dot(x, w.astype(x.dtype), (1, 0), spec).astype(x.dtype), (x, w)


def _product_backward(spec: P, saved: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:  # noqa: ARG001
    x, w = saved
    dx = _dot(cotangent, w.astype(x.dtype), (1, 1), jax.typeof(x).sharding.spec)
    # The outer one keeps XLA from folding a transposition of dw, as of a tied embedding, back into the factors.
    dw = row_major(_dot(row_major(x.T), cotangent, (1, 0), jax.typeof(w).sharding.spec))
    return dx.astype(x.dtype), dw.astype(w.dtype)


_product.defvjp(_product_forward, _product_backward)


def _dot(a: Array, b: Array, axes: tuple[int, int], spec: P) -> Float[Array, "rows columns"]:
    """The product over an axis of each, summed in float32."""
    dimensions = (((axes[0],), (axes[1],)), ((), ()))
    return jax.lax.dot_general(a, b, dimensions, preferred_element_type=jnp.float32, out_sharding=spec)


def _as_matrix(x: Float[Array, "..."], rows: int) -> Float[Array, "rows columns"]:
    spec = jax.typeof(x).sharding.spec
    return x.reshape(math.prod(x.shape[:rows]), -1, out_sharding=P(spec[0], spec[rows]))


@dataclass(frozen=True)
class Matrix:
    """A weight that is still to be drawn: its shape, its sharding, and the standard deviation gain / sqrt(fan-in)."""

    shape: tuple[int, ...]
    spec: P
    fan_in: int
    gain: float


def matrix(shape: tuple[int, ...], spec: P, fan_in: int, gain: float = 1.0) -> Any:
    """A `Matrix`, in the place of the array that `draw` will put there."""
    return Matrix(shape, spec, fan_in, gain)


def draw(key: Array, tree: Any) -> Any:
    """The tree with every `Matrix` drawn: truncated normal at three standard deviations, float32. Needs a mesh.

    One draw serves all of them: XLA takes longer to compile a random number generator for each than the rest of a small model.
    """
    leaves, structure = jax.tree.flatten(tree)
    sizes = [math.prod(leaf.shape) for leaf in leaves if isinstance(leaf, Matrix)]
    numbers = jax.random.truncated_normal(key, -3.0, 3.0, (sum(sizes),))
    parts = iter(jnp.split(numbers, np.cumsum(sizes)[:-1]))

    def drawn(weight: Matrix) -> Float[Array, "..."]:
        return jax.reshard(weight.gain * weight.fan_in**-0.5 * next(parts).reshape(weight.shape), weight.spec)

    return structure.unflatten([drawn(leaf) if isinstance(leaf, Matrix) else leaf for leaf in leaves])
