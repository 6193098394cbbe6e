"""A cache that holds a whole text."""

from dataclasses import replace
from typing import Any, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from leadline.model.attention.blockwise import Part
from leadline.model.attention.mask import Mask, distances
from leadline.model.attention.scores import grouped
from leadline.model.cache.protocol import after, padding_of
from leadline.model.mesh import heads_first, on_mesh


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class FullCache:
    """Keys and values of a text of `length` tokens, with room for S; slot j holds token j. `*L` is empty for one layer.

    Keys are rotated once, when they enter. A model whose table depends on the query (model.block, `table_per`) keeps them as
    they were projected.
    """

    key: Float[Array, "*L B K S H"]
    value: Float[Array, "*L B K S Hv"]
    length: Int[Array, "*L"]
    starts: Int[Array, "*L B"] | None = None

    @property
    def room(self) -> int:
        """S."""
        return self.key.shape[-2]

    def inside(self, i: Int[Array, " T"]) -> Int[Array, " T"]:
        """The positions of the text."""
        return i

    def parts(self, q: tuple[Array, Array], k: Array, v: Array, mask: Mask) -> tuple[Part, ...]:
        """The text so far, and the T tokens themselves (model.cache.protocol)."""
        queries, k, v = grouped(q[0], k, v)
        i, j = self.length + jnp.arange(k.shape[2]), jnp.arange(self.room)
        distance, visible = distances(i, j, mask)
        visible = visible & (j < self.length)[None]
        keys, values = self.key.astype(k.dtype), self.value.astype(v.dtype)
        past = Part(queries, keys, values, j, distance, visible, padding_of(self.starts, j))
        return past, Part(queries, k, v, i, *distances(i, i, mask), padding_of(self.starts, i))

    def update(self, k: Float[Array, "B T K H"], v: Float[Array, "B T K Hv"], out: Float[Array, "B T N Hv"]) -> Any:
        """The cache with T tokens more. The caller makes room: beyond S, the last tokens would be overwritten."""
        at = (0, 0, self.length, 0)
        key, value = (
            jax.lax.dynamic_update_slice(old, new.astype(old.dtype), at)
            for old, new in zip((self.key, self.value), after(out, k, v), strict=True)
        )
        return replace(self, key=key, value=value, length=self.length + k.shape[1])


def full_cache(
    layers: int, batch: int, kv_heads: int, head_dim: int, *, room: int, key_dim: int | None = None, dtype: str = "float32"
) -> FullCache:
    """An empty cache.

    Args:
        layers: L.
        batch: B.
        kv_heads: K.
        head_dim: Hv.
        room: S, the longest text [tokens].
        key_dim: channels of a key, where they are not those of a value (PoPE).
        dtype: of keys and values.
    """
    spec = P(None, *heads_first(4))
    key, value = (
        jnp.zeros((layers, batch, kv_heads, room, size), dtype, out_sharding=on_mesh(spec))
        for size in (key_dim or head_dim, head_dim)
    )
    return FullCache(key=key, value=value, length=jnp.zeros(layers, jnp.int32))
