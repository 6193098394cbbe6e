"""The matrix product of every projection, written so that its gradient is fast and its sharding is explicit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from leadline.model.layout import row_major
from leadline.model.mesh import axis_size, on_mesh, place


def project(
    x: Float[Array, "..."], w: Float[Array, "..."], *, contract: int = 1, out_sharding: P, dtype: str | None = None
) -> Float[Array, "..."]:
    """Contracts the last axes of x with the first of w: [B, T, *in] × [*in, *out] → [B, T, *out].

    Both operands are flattened to matrices first: the weight gradient of a three-axis product is two to five times slower on
    XLA's CPU back end. Products are summed in float32.

    Args:
        x: activations.
        w: weights, which are cast to x's type.
        contract: number of axes.
        out_sharding: spec of the result, of which only the first axis and the first output axis may be sharded.
        dtype: of the result; None is x's.
    """
    return project_each(x, (w,), contract=contract, out_sharding=out_sharding, dtype=dtype)[0]


def project_each(
    x: Float[Array, "..."],
    ws: Sequence[Float[Array, "..."]],
    *,
    contract: int = 1,
    out_sharding: P,
    dtype: str | None = None,
) -> tuple[Float[Array, "..."], ...]:
    """`project` by each of several weights.

    The cotangent of x is summed locally, so that the model axis needs one all-reduce instead of one per weight.
    """
    rows = x.ndim - contract
    matrices = tuple(_as_matrix(w, contract) for w in ws)
    products: Any = _products(_as_matrix(x, rows), matrices, P(out_sharding[0], out_sharding[rows]), dtype or x.dtype.name)
    shape = x.shape[:rows]
    return tuple(
        y.reshape(*shape, *w.shape[contract:], out_sharding=on_mesh(out_sharding)) for y, w in zip(products, ws, strict=True)
    )


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _products(
    x: Float[Array, "rows inner"], ws: tuple[Float[Array, "inner _"], ...], spec: P, dtype: str
) -> tuple[Float[Array, "rows _"], ...]:
    """x · w, whose gradient multiplies cotangents in x's type.

    JAX's own gradient would multiply float32 matrices, because the sum is float32, which takes a CPU twice as long in bfloat16.
    """
    return _products_forward(x, ws, spec, dtype)[0]


def _products_forward(
    x: Array, ws: tuple[Array, ...], spec: P, dtype: str
) -> tuple[tuple[Array, ...], tuple[Array, tuple[Array, ...]]]:
    return tuple(_dot(x, w.astype(x.dtype), (1, 0), spec).astype(dtype) for w in ws), (x, ws)


def _products_backward(
    spec: P,
    dtype: str,  # noqa: ARG001
    saved: tuple[Array, tuple[Array, ...]],
    cotangents: tuple[Array, ...],
) -> tuple[Array, tuple[Array, ...]]:
    x, ws = saved
    cotangents = tuple(cotangent.astype(x.dtype) for cotangent in cotangents)
    dx = _summed(cotangents, [w.astype(x.dtype) for w in ws], spec[1], jax.typeof(x).sharding.spec)
    # The outer row_major keeps XLA from folding a transposition of dw, as of a tied embedding, back into the factors.
    dws = (row_major(_dot(row_major(x.T), c, (1, 0), jax.typeof(w).sharding.spec)) for c, w in zip(cotangents, ws, strict=True))
    return dx.astype(x.dtype), tuple(dw.astype(w.dtype) for dw, w in zip(dws, ws, strict=True))


_products.defvjp(_products_forward, _products_backward)


def _summed(cotangents: Sequence[Array], ws: Sequence[Array], axis: str | None, spec: P) -> Float[Array, "rows inner"]:
    """Σ cotangent · wᵀ, the columns of which are sharded over a mesh axis."""

    def here(cotangents: Sequence[Array], ws: Sequence[Array]) -> Array:
        parts = [_dot(c, w, (1, 1), spec) for c, w in zip(cotangents, ws, strict=True)]
        return sum(parts[1:], parts[0])

    if axis is None or len(ws) == 1 or axis_size(axis) == 1:
        return here(cotangents, ws)

    def everywhere(cotangents: Sequence[Array], ws: Sequence[Array]) -> Array:
        return jax.lax.psum(here(cotangents, ws), axis)

    columns = P(None, axis)
    specs = {"in_specs": (columns, columns), "out_specs": P()}
    return jax.shard_map(everywhere, **specs, axis_names={axis}, check_vma=False)(cotangents, ws)


def _dot(a: Array, b: Array, axes: tuple[int, int], spec: P) -> Float[Array, "rows columns"]:
    """The product over an axis of each, summed in float32."""
    dimensions = (((axes[0],), (axes[1],)), ((), ()))
    return jax.lax.dot_general(a, b, dimensions, preferred_element_type=jnp.float32, out_sharding=on_mesh(spec))


def _as_matrix(x: Float[Array, "..."], rows: int) -> Float[Array, "rows columns"]:
    spec = jax.typeof(x).sharding.spec
    return x.reshape(math.prod(x.shape[:rows]), -1, out_sharding=on_mesh(P(spec[0], spec[rows])))


@dataclass(frozen=True)
class Matrix:
    """A weight to be drawn: its shape, its sharding, its scale gain / sqrt(fan-in), and whether the scale bounds a uniform."""

    shape: tuple[int, ...]
    spec: P
    fan_in: int
    gain: float
    uniform: bool


def matrix(shape: tuple[int, ...], spec: P, fan_in: int, gain: float = 1.0, *, uniform: bool = False) -> Any:
    """A `Matrix`, which `draw` replaces by an array."""
    return Matrix(shape, spec, fan_in, gain, uniform)


def zeros(shape: tuple[int, ...], spec: P) -> Float[Array, "..."]:
    """A bias at the start of training: float32 zeros."""
    return jnp.zeros(shape, jnp.float32, out_sharding=on_mesh(spec))


def plus_bias(x: Float[Array, "B T *out"], bias: Float[Array, "*out"] | None) -> Float[Array, "B T *out"]:
    """x + bias, in x's type; x itself where there is no bias."""
    return x if bias is None else x + bias.astype(x.dtype)[None, None]


def draw(key: Array, tree: Any) -> Any:
    """The tree with every `Matrix` drawn: a standard normal truncated at ±3, or a uniform on ±1, times the scale, float32.

    The standard deviation of the normal is 0.987 of the scale, which is not corrected for the truncation. A uniform is the
    distribution function of the truncated normal at its draw, 2 F(z) - 1 = erf(z / √2) / erf(3 / √2).

    One draw serves all of them: XLA takes longer to compile a random number generator for each than the rest of a small model.
    """
    leaves, structure = jax.tree.flatten(tree)
    sizes = [math.prod(leaf.shape) for leaf in leaves if isinstance(leaf, Matrix)]
    numbers = jax.random.truncated_normal(key, -3.0, 3.0, (sum(sizes),))
    parts = iter(jnp.split(numbers, np.cumsum(sizes)[:-1]))

    def drawn(weight: Matrix) -> Float[Array, "..."]:
        z = next(parts).reshape(weight.shape)
        unit = jax.lax.erf(z / 2**0.5) / math.erf(3 / 2**0.5) if weight.uniform else z
        return place(weight.gain * weight.fan_in**-0.5 * unit, weight.spec)

    return structure.unflatten([drawn(leaf) if isinstance(leaf, Matrix) else leaf for leaf in leaves])
