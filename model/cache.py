"""Keys and values of a text so far, for decoding token by token."""

from typing import no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

ENTRIES = P("data", None, "model", None)


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays, norms
@struct.dataclass
class Cache:
    """What the layers remember of `length` tokens; there is room for S. `*L` is empty for one layer.

    Keys are kept as they were projected and turned when they are read, so that a table may change as the text grows and
    decoding still agrees with one pass over the whole text.
    """

    key: Float[Array, "*L B S K H"]
    value: Float[Array, "*L B S K H"]
    length: Int[Array, "*L"]


def empty_cache(layers: int, batch: int, capacity: int, kv_heads: int, head_dim: int, dtype: str = "float32") -> Cache:
    """Room for `capacity` tokens in every layer. Needs a mesh."""
    shape, spec = (layers, batch, capacity, kv_heads, head_dim), P(None, *ENTRIES)
    return Cache(
        key=jnp.zeros(shape, dtype, out_sharding=spec),
        value=jnp.zeros(shape, dtype, out_sharding=spec),
        length=jnp.zeros(layers, jnp.int32),
    )


def remember(cache: Cache, key: Float[Array, "B T K H"], value: Float[Array, "B T K H"]) -> Cache:
    """One layer's cache with T more tokens. Beyond its capacity the last ones would be overwritten: the caller makes room."""
    key, value = (jax.reshard(x.astype(cache.key.dtype), ENTRIES) for x in (key, value))
    at = (0, cache.length, 0, 0)
    return Cache(
        key=jax.lax.dynamic_update_slice(cache.key, key, at),
        value=jax.lax.dynamic_update_slice(cache.value, value, at),
        length=cache.length + key.shape[1],
    )
