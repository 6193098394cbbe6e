"""A feed-forward layer of experts: a router sends each token through a few networks (Shazeer et al. 2017, arXiv:1701.06538)."""

from typing import Any, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from leadline.model.feedforward import Activation, FeedForward, activated, feedforward_weights
from leadline.model.linear import matrix, zeros
from leadline.model.mesh import RESIDUAL, on_mesh, place


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class Experts:
    """Weights of E networks [*L, E, …] and of the router between them."""

    router: Float[Array, "*L D E"]
    router_bias: Float[Array, "*L E"] | None
    networks: FeedForward


def expert_weights(width: int, hidden: int, activation: Activation, gain: float, *, bias: bool, experts: int) -> Experts:
    """The matrices, to be drawn by `model.linear.draw`, and biases of 0. Arguments as in `feedforward_weights`."""
    return Experts(
        router=matrix((width, experts), P(None, None), width),
        router_bias=zeros((experts,), P(None)) if bias else None,
        networks=feedforward_weights(width, hidden, activation, gain, bias=bias, experts=(experts,)),
    )


def mixture(p: Experts, x: Float[Array, "B T D"], activation: Activation, active: int) -> Float[Array, "B T D"]:
    """Σ_e w_e f_e(x) over the `active` experts of the largest router logits, w being the softmax of these logits.

    Each expert multiplies only the tokens that it gets: rows are sorted by expert, and a ragged product takes them in one call.

    Args:
        p: weights.
        x: the input of the layer.
        activation: of every network.
        active: experts of a token.
    """
    rows = place(x, P(None, None, None)).reshape(-1, x.shape[-1])
    logits = rows.astype(jnp.float32) @ p.router.astype(jnp.float32)
    logits = logits if p.router_bias is None else logits + p.router_bias[None]
    largest, expert = jax.lax.top_k(logits, active)
    order = jnp.argsort(expert.reshape(-1), stable=True)
    token, sorted_expert = order // active, expert.reshape(-1)[order]
    sizes = jnp.bincount(expert.reshape(-1), length=p.router.shape[-1])

    def product(y: Array, w: Array, bias: Array | None) -> Array:
        y = _ragged_product(y, w.astype(y.dtype), sizes)
        return y if bias is None else y + place(bias, P(None, None)).astype(y.dtype)[sorted_expert]

    networks, inputs = p.networks, rows[token]
    gate = None if networks.gate is None else product(inputs, networks.gate, networks.gate_bias)
    hidden = activated(product(inputs, networks.up, networks.up_bias), gate, activation)
    outputs = product(hidden, networks.down, networks.down_bias)
    weight = jax.nn.softmax(largest, axis=-1).reshape(-1)[order].astype(x.dtype)
    summed = jnp.zeros_like(rows).at[token].add(outputs * weight[:, None])
    return place(summed.reshape(x.shape), RESIDUAL)


def _ragged_product(rows: Float[Array, "M D"], w: Float[Array, "E D F"], sizes: Int[Array, " E"]) -> Float[Array, "M F"]:
    """The first sizes[0] rows times w[0], the next sizes[1] times w[1], …

    JAX has no explicit sharding rule for it, so that the partitioner shards it.
    """
    if on_mesh(P()) is None:
        return jax.lax.ragged_dot(rows, w, sizes)
    product: Any = jax.sharding.auto_axes(jax.lax.ragged_dot, out_sharding=P(None, None))
    return product(rows, w, sizes)
