"""Biases of the products of attention."""

from collections.abc import Collection
from typing import no_type_check

from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from leadline.model.linear import zeros
from leadline.model.mesh import GROUPS


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class Biases:
    """Of the products of attention; None where there is none."""

    query: Float[Array, "*L N H"] | None = None
    key: Float[Array, "*L K H"] | None = None
    value: Float[Array, "*L K H"] | None = None
    output: Float[Array, "*L D"] | None = None


def attention_biases(names: Collection[str], width: int, heads: int, kv_heads: int, head_dim: int) -> Biases:
    """Zeros for the products that are named.

    Args:
        names: of fields of `Biases`; others are ignored.
        width: D.
        heads: N.
        kv_heads: K.
        head_dim: H.
    """
    shapes = {
        "query": ((heads, head_dim), GROUPS),
        "key": ((kv_heads, head_dim), GROUPS),
        "value": ((kv_heads, head_dim), GROUPS),
        "output": ((width,), P(None)),
    }
    return Biases(**{name: zeros(*shape) if name in names else None for name, shape in shapes.items()})
