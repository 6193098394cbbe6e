"""What attention does to the products of queries and keys before it weighs the values."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Int

from leadline.model.attention.mask import Mask
from leadline.model.attention.normalizers import Normalizer, softmax
from leadline.model.mesh import GROUPS, heads_first, on_mesh, place

# A position encoding that adds to the scores: a function of the scaled queries [B, K, R, H], their scores [B, K, R, S] (-inf
# for padded keys), the positions i [q] of q consecutive queries (-1 where there is none), the positions j [S] of the keys (None
# for 0 … S - 1) and their visibility [q, S]. The rows of the G heads of a group follow each other, R = G · q. The result
# [B or 1, K, R, S] is finite where nothing is visible too.
ScoreBias = Callable[[Array, Array, Array, Array | None, Array], Array]


class Scores(NamedTuple):
    """s = cap(scale · q·k) - slope · (i - j) + bias, and what turns s into weights. The defaults are the plain softmax.

    A pytree whose numbers are values: changing them never recompiles. None and the functions are structure.

    Attributes:
        scale: of the products; None is 1/sqrt(H).
        sink_logit: [N], a logit in the denominator that has no value; -inf is none. Finite where there is a key bias.
        slopes: [N], of ALiBi; 0 is none.
        cap: c of c · tanh(s / c) (Gemma 2, arXiv:2408.00118); None is none.
        bias: added to the scores.
        key_bias: [K, H], k*, which adds cap(scale · q·k*) to the sink logit of each query (Gu et al. 2025, arXiv:2410.10781).
        value_bias: [K, Hv], v*, the value of the sink logit. k* and v* are a key and a value that every query sees. k* is
            not rotated, so that under RoPE it is a key at position 0; ALiBi adds nothing to it.
        normalizer: one of model.attention.normalizers.
    """

    scale: Float[Array, ""] | float | None = None
    sink_logit: Float[Array, "*N"] | float = -jnp.inf
    slopes: Float[Array, "*N"] | float = 0.0
    cap: Float[Array, ""] | None = None
    bias: ScoreBias | None = None
    key_bias: Float[Array, "K H"] | None = None
    value_bias: Float[Array, "K Hv"] | None = None
    normalizer: Normalizer = Partial(softmax)


class AttentionInputs(NamedTuple):
    """What softmax attention of grouped heads, G to a key/value head, is a function of."""

    q: Float[Array, "B K G T H"]
    scale: Float[Array, ""]  # of the products
    k: Float[Array, "B K S H"]
    v: Float[Array, "B K S Hv"]
    sink_logit: Float[Array, "K G"]
    slopes: Float[Array, "K G"]
    mask: Mask  # of arrays

    @property
    def positions(self) -> Int[Array, " T"]:
        """The positions of the queries."""
        return self.mask.first_query + jnp.arange(self.q.shape[3])

    @property
    def real(self) -> Bool[Array, "#B #T"]:
        """Which queries are not padding."""
        if self.mask.padding is None:
            return jnp.ones((1, 1), bool)
        return jax.lax.dynamic_slice_in_dim(self.mask.padding, self.mask.first_query, self.q.shape[3], 1)


def grouped(q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    """Heads before tokens and queries by key/value head: q [B, T, N, H] to [B, K, G, T, H], k and v to [B, K, S, H]."""
    k, v = (place(jnp.swapaxes(x, 1, 2), heads_first(4)) for x in (k, v))
    return grouped_queries(q, k.shape[1]), k, v


def grouped_queries(q: Float[Array, "B T N H"], kv_heads: int) -> Float[Array, "B K G T H"]:
    """Queries by key/value head, heads before tokens."""
    q = jnp.swapaxes(q, 1, 2)
    return q.reshape(q.shape[0], kv_heads, -1, *q.shape[2:], out_sharding=on_mesh(heads_first(5)))


def grouped_scores(scores: Scores, kv_heads: int, heads: int) -> Scores:
    """The scores with their sink logits and slopes as arrays [K, G]."""

    def by_group(x: Float[Array, "*#N"] | float) -> Float[Array, "K G"]:
        x = jnp.broadcast_to(jnp.asarray(x, jnp.float32), (heads,))
        return x.reshape(kv_heads, -1, out_sharding=on_mesh(GROUPS))

    return scores._replace(sink_logit=by_group(scores.sink_logit), slopes=by_group(scores.slopes))


def sink_logits(q: Float[Array, "B K R H"], scores: Scores) -> Float[Array, "#B K R"]:
    """The sink logit of each row of the G heads of a group, `scores` being grouped, with the key bias if there is one."""
    sink_logit, R = jnp.asarray(scores.sink_logit), q.shape[2]
    G = sink_logit.shape[1]
    logits = jnp.repeat(sink_logit, R // G, axis=1, total_repeat_length=R)[None]
    if scores.key_bias is None:
        return logits
    key_bias = place(scores.key_bias, GROUPS)
    return logits + capped(jnp.einsum("BKqH,KH->BKq", q, key_bias, preferred_element_type=jnp.float32), scores.cap)


def capped(scores: Float[Array, "..."], cap: Float[Array, ""] | float | None) -> Float[Array, "..."]:
    """cap · tanh(s / cap); s itself where the cap is None or infinite."""
    if cap is None:
        return scores
    is_cap = jnp.isfinite(cap)
    finite = jnp.where(is_cap, cap, 1)  # inf · tanh(s / inf) and its gradient are NaN, also where they are not selected
    return jnp.where(is_cap, finite * jnp.tanh(scores / finite), scores)
