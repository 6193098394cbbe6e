"""RMSNorm and LayerNorm, in float32 whatever the compute type."""

from typing import no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from leadline.model.linear import zeros
from leadline.model.mesh import on_mesh


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class Norm:
    """Weights of one norm, or of a stack of them. LayerNorm has a bias, RMSNorm has none."""

    scale: Float[Array, "*L D"]
    bias: Float[Array, "*L D"] | None
    # ε, which is added to the mean square; None is 1e-6 of RMSNorm and 1e-5 of LayerNorm
    epsilon: float | None = struct.field(pytree_node=False, default=None)
    # added to the scale: 1 where weights are stored as the difference from 1 (Gemma, arXiv:2403.08295)
    offset: float = struct.field(pytree_node=False, default=0.0)


def init_norm(width: int, *, bias: bool, epsilon: float | None = None, offset: float = 0.0) -> Norm:
    """A norm that multiplies by 1 and adds 0. A norm with a bias is a LayerNorm (`normalise`).

    Args:
        width: D.
        bias: whether it is a LayerNorm.
        epsilon: ε; None is the default of the kind.
        offset: added to the scale, which starts at 1 - offset.
    """
    return Norm(
        scale=jnp.full(width, 1 - offset, jnp.float32, out_sharding=on_mesh(P(None))),
        bias=zeros((width,), P(None)) if bias else None,
        epsilon=epsilon,
        offset=offset,
    )


def rms_norm(x: Float[Array, "*B D"], scale: Float[Array, " D"], epsilon: float = 1e-6) -> Float[Array, "*B D"]:
    """x / sqrt(mean(x²) + ε) · scale (Zhang and Sennrich 2019, arXiv:1910.07467)."""
    y = x.astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + epsilon)
    return (y * _along_last(scale, y)).astype(x.dtype)


def layer_norm(
    x: Float[Array, "*B D"], scale: Float[Array, " D"], bias: Float[Array, " D"], epsilon: float = 1e-5
) -> Float[Array, "*B D"]:
    """(x - mean) / sqrt(var + ε) · scale + bias (Ba et al. 2016, arXiv:1607.06450)."""
    y = x.astype(jnp.float32)
    y = y - jnp.mean(y, axis=-1, keepdims=True)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + epsilon)
    return (y * _along_last(scale, y) + _along_last(bias, y)).astype(x.dtype)


def normalise(norm: Norm, x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
    """LayerNorm if the weights have a bias, else RMSNorm."""
    scale = norm.scale + norm.offset if norm.offset else norm.scale
    epsilon = {} if norm.epsilon is None else {"epsilon": norm.epsilon}
    return rms_norm(x, scale, **epsilon) if norm.bias is None else layer_norm(x, scale, norm.bias, **epsilon)


def _along_last(vector: Float[Array, " D"], like: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
    """The vector broadcast to every axis but the last at once.

    For one long text, XLA's CPU back end takes a hundred times as long for a gradient that is summed over one axis at a time.
    """
    return jax.lax.broadcast_in_dim(vector, like.shape, (like.ndim - 1,), out_sharding=jax.typeof(like).sharding)
