"""How the next token is drawn from its logits."""

from typing import no_type_check

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int, Key

from leadline.model.mesh import place


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class Sampling:
    """How a token is drawn from the softmax of scores / temperature: values, so that one program serves all of them."""

    temperature: Float[Array, ""]  # 0 takes the most likely token
    top_k: Int[Array, ""]  # draws from the k most likely tokens
    top_p: Float[Array, ""]  # of the fewest most likely tokens that have so much of the probability (Holtzman et al. 2020)


def sampling(temperature: float = 0.0, top_k: int | None = None, top_p: float = 1.0) -> Sampling:
    """The values of a sampling.

    Args:
        temperature: 0 takes the most likely token.
        top_k: draws from the k most likely tokens; None is all.
        top_p: draws from the fewest most likely tokens that have so much of the probability.

    Raises:
        ValueError: for a value out of range.
    """
    if not (0 <= temperature < np.inf and 0 < top_p <= 1 and (top_k is None or top_k >= 1)):
        raise ValueError(f"out of range: temperature {temperature} (>= 0), top_k {top_k} (>= 1), top_p {top_p} (> 0, <= 1)")
    largest = np.iinfo(np.int32).max
    most = largest if top_k is None else min(top_k, largest)
    return Sampling(jnp.float32(temperature), jnp.int32(most), jnp.float32(top_p))


def draw_token(logits: Float[Array, "B V"], sampling: Sampling, key: Key[Array, ""]) -> Int[Array, " B"]:
    """A token for each row; at temperature 0 the most likely one, the first of equals."""
    logits = place(logits, P(None, None))
    token = jax.lax.cond(sampling.temperature > 0, lambda: _sampled(logits, sampling, key), lambda: _largest(logits))
    return place(token, P("data"))


def _largest(logits: Float[Array, "B V"]) -> Int[Array, " B"]:
    """argmax, as two reductions: XLA's CPU back end takes six times as long for that of a pair."""
    V = logits.shape[1]
    is_largest = logits == jnp.max(logits, axis=1, keepdims=True)
    return jnp.min(jnp.where(is_largest, jnp.arange(V, dtype=jnp.int32)[None], V - 1), axis=1)


def _sampled(logits: Float[Array, "B V"], sampling: Sampling, key: Key[Array, ""]) -> Int[Array, " B"]:
    """A draw from the top k, and of these from the smallest set whose probability reaches p, with equals of its last one."""
    logits = logits / sampling.temperature
    ranked = -jnp.sort(-logits, axis=1)
    rank = jnp.arange(logits.shape[1])[None]
    shares = jax.nn.softmax(jnp.where(rank < sampling.top_k, ranked, -jnp.inf), axis=1)
    before = jnp.cumsum(shares, axis=1) - shares
    # The first one always; and the sum of all shares may round to less or more than 1.
    kept = (before < sampling.top_p) | (rank == 0) | (sampling.top_p >= 1)
    least = jnp.min(jnp.where((rank < sampling.top_k) & kept, ranked, jnp.inf), axis=1, keepdims=True)
    return jax.random.categorical(key, jnp.where(logits >= least, logits, -jnp.inf), axis=1).astype(jnp.int32)
