"""A cache of constant size for an endless text: the initial tokens and a ring of the newest ones (Xiao et al. 2024)."""

from dataclasses import replace
from typing import Any, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.core import Tracer
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from leadline.model.attention.blockwise import Part
from leadline.model.attention.mask import NO_WINDOW, Mask, distances
from leadline.model.attention.scores import grouped, grouped_queries
from leadline.model.cache.protocol import after, padding_of
from leadline.model.mesh import heads_first, on_mesh


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class RingCache:
    """Keys and values of the first F and the R newest tokens of a text of `length` tokens. `*L` is empty for one layer.

    Query i sees the keys j < initial_tokens and i - window < j <= i. Token j lies in slot j mod R of the ring.

    StreamingLLM (Xiao et al. 2024, arXiv:2309.17453, section 3.2) numbers the cached tokens 0 … n - 1 at every step and puts
    the query at n - 1. That leaves the distances inside the window as they are, and bounds the position of the query, as the
    initial tokens see it, by `furthest`. A score depends on the difference of two angles alone. So the query is rotated twice,
    to its position in the text and to that inside the cache, and a key once, when it enters.

    `initial_tokens`, `window` and `furthest` are values: one program serves all policies.
    """

    first_key: Float[Array, "*L B K F H"]
    first_value: Float[Array, "*L B K F H"]
    key: Float[Array, "*L B K R H"]
    value: Float[Array, "*L B K R H"]
    length: Int[Array, "*L"]
    initial_tokens: Int[Array, "*L"]  # <= F
    window: Int[Array, "*L"]  # newest keys that a query sees, itself included; <= R + 1
    furthest: Int[Array, "*L"]  # initial_tokens + window - 1, or NO_WINDOW for positions of the text
    starts: Int[Array, "*L B"] | None = None  # where it is not None, there are no initial tokens

    @property
    def room(self) -> None:
        """None: the text has no end."""
        return

    def inside(self, i: Int[Array, " T"]) -> Int[Array, " T"]:
        """min(i, furthest)."""
        return jnp.minimum(i, self.furthest)

    def parts(self, q: tuple[Array, Array], k: Array, v: Array, mask: Mask) -> tuple[Part, ...]:
        """The initial tokens, the ring, and the T tokens themselves (model.cache.protocol).

        The initial tokens are visible whatever the model's window is; among the others, the model's mask decides too.
        """
        queries, k, v = grouped(q[0], k, v)
        i = self.length + jnp.arange(k.shape[2])

        def newest(j: Int[Array, " S"]) -> tuple[Int[Array, "T S"], Bool[Array, "T S"]]:
            distance, visible = distances(i, j, mask)
            return distance, visible & (distance < self.window) & (j >= self.initial_tokens)[None]

        j = self._positions(self.length)
        keys, values = self.key.astype(k.dtype), self.value.astype(v.dtype)
        ring = Part(queries, keys, values, j, *newest(j), padding_of(self.starts, j))
        tokens = Part(queries, k, v, i, *newest(i), padding_of(self.starts, i))
        F = self.first_key.shape[-2]
        first, inside = jnp.arange(F), grouped_queries(q[1], k.shape[1])
        distance = self.inside(i)[:, None] - first[None]
        visible = (first < self.initial_tokens)[None] & (first[None] <= i[:, None])
        key, value = (x.astype(k.dtype) for x in self._first(k, v))
        return Part(inside, key, value, first, distance, visible, padding_of(self.starts, first)), ring, tokens

    def update(self, k: Float[Array, "B T K H"], v: Float[Array, "B T K Hv"], out: Float[Array, "B T N Hv"]) -> Any:
        """The cache with T tokens more, which take the slots of the oldest ones."""
        k, v = after(out, k, v)
        T = k.shape[2]
        first_key, first_value = self._first(k, v)
        key, value = (self._written(old, new) for old, new in ((self.key, k), (self.value, v)))
        return replace(self, first_key=first_key, first_value=first_value, key=key, value=value, length=self.length + T)

    def _positions(self, length: Int[Array, ""]) -> Int[Array, " R"]:
        """The position in the text of the token in each slot, after `length` tokens; negative where there is none."""
        R = self.key.shape[-2]
        return length - 1 - jnp.mod(length - 1 - jnp.arange(R), R)

    def _first(self, k: Float[Array, "B K T H"], v: Float[Array, "B K T Hv"]) -> tuple[Array, Array]:
        """The first F tokens, those among the new ones written."""
        n = jnp.arange(self.first_key.shape[-2]) - self.length
        return _chosen(self.first_key, k, n), _chosen(self.first_value, v, n)

    def _written(self, old: Float[Array, "B K R H"], new: Float[Array, "B K T H"]) -> Float[Array, "B K R H"]:
        """The ring with new tokens. A single one is written in place; several may be more than R."""
        T, R = new.shape[2], old.shape[2]
        if T == 1:
            return jax.lax.dynamic_update_slice(old, new.astype(old.dtype), (0, 0, jnp.mod(self.length, R), 0))
        return _chosen(old, new, self._positions(self.length + T) - self.length)


def _chosen(old: Float[Array, "B K S H"], new: Float[Array, "B K T H"], n: Int[Array, " S"]) -> Float[Array, "B K S H"]:
    """Slot s holds new token n[s], if there is one."""
    tokens = new.at[:, :, n].get(mode="clip", wrap_negative_indices=False, out_sharding=on_mesh(heads_first(4)))
    return jnp.where(((n >= 0) & (n < new.shape[2]))[None, None, :, None], tokens.astype(old.dtype), old)


def ring_cache(
    layers: int,
    batch: int,
    kv_heads: int,
    head_dim: int,
    *,
    initial_tokens: int | Int[Array, ""],
    window: int | Int[Array, ""],
    reindexed: bool | Bool[Array, ""] = True,
    room: tuple[int, int] | None = None,
    dtype: str = "float32",
) -> RingCache:
    """An empty cache.

    Args:
        layers: L.
        batch: B.
        kv_heads: K.
        head_dim: H.
        initial_tokens: first tokens that are never forgotten.
        window: newest keys that a query sees, itself included.
        reindexed: whether positions are those inside the cache, or those of the text.
        room: F and R, the most initial tokens and the widest window less the query's own key, of all policies; None for F and
            R of this policy.
        dtype: of keys and values.

    Raises:
        ValueError: for a policy that the room is too small for; one that is traced is not checked.
    """
    traced = any(isinstance(number, Tracer) for number in (initial_tokens, window))
    if room is not None and not traced and (int(initial_tokens) > room[0] or int(window) > room[1] + 1):
        raise ValueError(f"{initial_tokens} initial tokens and a window of {window} do not fit into room for {room}")
    spec = on_mesh(P(None, *heads_first(4)))
    F, R = room or (int(initial_tokens), int(window))
    first, newest = ((layers, batch, kv_heads, tokens, head_dim) for tokens in (F, R))
    furthest = jnp.where(jnp.asarray(reindexed), jnp.asarray(initial_tokens + window - 1, jnp.int32), jnp.int32(NO_WINDOW))

    def row(value: Any) -> Int[Array, " L"]:
        return jnp.broadcast_to(jnp.asarray(value, jnp.int32), (layers,))

    return RingCache(
        first_key=jnp.zeros(first, dtype, out_sharding=spec),
        first_value=jnp.zeros(first, dtype, out_sharding=spec),
        key=jnp.zeros(newest, dtype, out_sharding=spec),
        value=jnp.zeros(newest, dtype, out_sharding=spec),
        length=row(0),
        initial_tokens=row(initial_tokens),
        window=row(window),
        furthest=row(furthest),
    )
