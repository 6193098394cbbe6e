"""What a cache of keys and values does for a block: one layer's, for T >= 1 tokens at a time."""

from typing import Any, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from leadline.model.attention.blockwise import Part
from leadline.model.attention.mask import Mask
from leadline.model.mesh import HEADS, heads_first, on_mesh, place


@runtime_checkable
class Cache(Protocol):
    """Keys and values of the text so far. A block calls `parts`, attends, and then calls `update`."""

    length: Any  # [*L], tokens of the text so far
    starts: Any  # [*L, B], place in its row of each text's first token, after padding on the left; None is 0

    @property
    def room(self) -> int | None:
        """The longest text, None for a cache that forgets."""
        ...

    def inside(self, i: Int[Array, " T"]) -> Int[Array, " T"]:
        """The positions inside the cache, as its initial tokens see them, of queries at positions i of the text."""
        ...

    def parts(self, q: tuple[Array, Array], k: Array, v: Array, mask: Mask) -> tuple[Part, ...]:
        """All keys for the next T tokens, their own among them.

        Args:
            q: their queries [B, T, N, H], rotated to their positions in the text, and to those inside the cache.
            k: their keys [B, T, K, H], rotated to their positions in the text.
            v: their values [B, T, K, Hv].
            mask: that of the model.
        """
        ...

    def update(self, k: Float[Array, "B T K H"], v: Float[Array, "B T K Hv"], out: Float[Array, "B T N Hv"]) -> Any:
        """The cache with T tokens more, whose attention gave `out`."""
        ...


def padding_of(starts: Int[Array, " B"] | None, j: Int[Array, " S"]) -> Bool[Array, "B S"] | None:
    """Which keys at positions j are real: those after the padding."""
    return None if starts is None else j[None] >= starts[:, None]


def after(
    out: Float[Array, "B T N Hv"], k: Float[Array, "B T K H"], v: Float[Array, "B T K Hv"]
) -> tuple[Float[Array, "B K T H"], Float[Array, "B K T Hv"]]:
    """Keys and values, heads first, as functions of `out`: 0 times one of its numbers is added.

    XLA would otherwise be free to write them into the cache before attention reads it, and would then copy every cache at every
    token.
    """
    zero = 0 * out[..., 0].reshape(*k.shape[:3], -1, out_sharding=on_mesh(HEADS))[..., :1]
    k, v = (place(jnp.swapaxes(x + zero.astype(x.dtype), 1, 2), heads_first(4)) for x in (k, v))
    return k, v
