"""Problems of different sizes in rows of one length, for length generalisation."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, PRNGKeyArray

from leadline.experiments.runtime.errors import UserError


def draw_sizes(
    key: PRNGKeyArray, batch: int, largest: int, smallest: int = 1, at: Float[Array, "B"] | None = None
) -> Int32[Array, "{batch}"]:
    """Uniform in smallest … largest; with `at`, smallest + round(at · (largest - smallest)).

    Raises:
        UserError: for an empty range.
    """
    if smallest > largest:
        raise UserError(f"no size from {smallest} to {largest}: make the length larger")
    if at is None:
        return jax.random.randint(key, (batch,), smallest, largest + 1, jnp.int32)
    return smallest + jnp.round(at * (largest - smallest)).astype(jnp.int32)


def read(tokens: Int32[Array, "B N"], index: Int32[Array, "#B P"]) -> Int32[Array, "B P"]:
    """tokens[b, index[b, p]], with indices clipped to the row; one row of indices serves all rows."""
    whole = jnp.broadcast_to(index, (tokens.shape[0], index.shape[1]))
    return jnp.take_along_axis(tokens, jnp.clip(whole, 0, tokens.shape[1] - 1), axis=1)
