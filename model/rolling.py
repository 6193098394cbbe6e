"""Keys and values laid out for decoding one token after another: turned once, when they enter, and never moved again."""

from dataclasses import replace
from typing import no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.scipy.special import entr
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from model.attention import AttentionStatistics
from model.blocks import heads, seen
from model.kernels.kernel import Weigh
from model.rows import ScoreBias, capped, extra_logits


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays, norms
@struct.dataclass
class Rolling:
    """What one layer remembers of a text of `length` tokens: the first `kept` in order, then a ring of the S - kept newest.

    Token j >= kept lies in slot kept + (j - kept) mod (S - kept). A key is turned to its place in the text. Query i stands at i
    for the ring and at min(i, furthest) for the kept keys, so it is turned twice: a score depends on the difference of two
    angles alone, and so this is StreamingLLM's numbering of all keys anew at every step (Xiao et al. 2024, arXiv:2309.17453,
    section 3.2; model.streaming has it as it is written there), without any key being turned again.
    """

    key: Float[Array, "B K S H"]  # those of PoPE have 2 H channels
    value: Float[Array, "B K S H"]
    length: Int[Array, ""]
    furthest: Int[Array, ""]  # S - 1 where positions are those inside the cache, NO_WINDOW where they are those of the text
    kept: int = struct.field(pytree_node=False)  # < S


def places(rolling: Rolling, length: Int[Array, ""]) -> Int[Array, " S"]:
    """Where in the text stands what lies in each slot once `length` tokens are read; -1 or beyond them where nothing does."""
    slot, kept = jnp.arange(rolling.key.shape[2]), rolling.kept
    newest = length - 1 - jnp.mod(length - 1 - slot, rolling.key.shape[2] - kept)
    return jnp.where(slot < kept, slot, jnp.where(newest < kept, -1, newest))


def slot_of(rolling: Rolling, place: Int[Array, ""]) -> Int[Array, ""]:
    """Where the token at a place of the text lies."""
    kept = rolling.kept
    return jnp.where(place < kept, place, kept + jnp.mod(place - kept, rolling.key.shape[2] - kept))


def enter(
    rolling: Rolling, key: Float[Array, "B 1 K H"], value: Float[Array, "B 1 K Hv"], out: Float[Array, "B 1 N Hv"]
) -> Rolling:
    """With one more token, whose key is turned; it takes the place of the oldest in a ring that is full.

    `out` is what `attend_rolling` gave of this token. What is written is made to depend on it, by adding 0 times one of its
    numbers: XLA would otherwise be free to write before it reads, and then copies every cache at every token.
    """
    at = (0, 0, slot_of(rolling, rolling.length), 0)
    by_group = out[..., 0].reshape(*key.shape[:3], -1, out_sharding=P("data", None, "model", None))
    nothing = 0 * by_group[..., :1]

    def written(old: Array, new: Array) -> Array:
        return jax.lax.dynamic_update_slice(old, jnp.swapaxes(new + nothing, 1, 2).astype(old.dtype), at)

    own = {"key": written(rolling.key, key), "value": written(rolling.value, value)}
    return replace(rolling, **own, length=rolling.length + 1)


def attend_rolling(
    q: Float[Array, "B 1 N H"],
    first_q: Float[Array, "B 1 N H"],
    k: Float[Array, "B 1 K H"],
    v: Float[Array, "B 1 K Hv"],
    rolling: Rolling,
    *,
    extra_logit: Float[Array, " N"],
    slopes: Float[Array, " N"],
    window: Int[Array, ""],
    kept: Int[Array, ""],
    scale: float,
    bias: ScoreBias | None,
    cap: Float[Array, ""] | None,
    weigh: Weigh,
    bias_key: Float[Array, "K H"] | None,
    bias_value: Float[Array, "K Hv"] | None,
) -> tuple[Float[Array, "B 1 N Hv"], AttentionStatistics]:
    """One more token as a query, turned to its place in the text and, as `first_q`, to that among what is remembered.

    Its own key k, turned, and value v are in the place of what lies in the slot that they will take. The other values are
    those of model.attention.attention; `window` and `kept` are those of the model, a bias needs a ring that never wraps, and a
    row before the first token is seen as the kept keys are. `received` counts slots.
    """
    (B, _, N, _), K, i = q.shape, rolling.key.shape[1], rolling.length
    by_group, slope = (x.reshape(K, N // K, out_sharding=P("model", None)) for x in (extra_logit, slopes))
    rows, first_rows = ((x * scale).reshape(B, K, N // K, -1, out_sharding=heads(4)) for x in (q, first_q))
    keys, values = (x.astype(q.dtype) for x in (rolling.key, rolling.value))
    own = jnp.einsum("BKGH,BTKH->BKGT", rows, k, preferred_element_type=jnp.float32)
    here = jnp.arange(keys.shape[2]) == slot_of(rolling, i)
    scores = capped(jnp.where(here[None, None, None], own, _products(rows, first_rows, keys, rolling.kept)), cap)
    at, distance, visible = _looked_at(rolling, window, kept)
    if bias is not None:
        scores = scores + bias(rows, scores, i[None], visible[None])
    near = seen(distance[None], visible[None], slope)
    scores = scores + near.reshape(1, K, N // K, -1, out_sharding=P(None, "model", None, None))
    terms = weigh(scores, extra_logits(first_rows, by_group, bias_key, cap))
    others, mine = (jnp.where(mask[None, None, None], terms.numerators, 0) for mask in (~here, here))
    out = jnp.einsum("BKGS,BKSH->BKGH", others.astype(v.dtype), values, preferred_element_type=jnp.float32)
    out = out + jnp.sum(mine, axis=-1)[..., None] * jnp.swapaxes(v, 1, 2).astype(jnp.float32)
    if bias_value is not None:
        out = out + terms.extra[..., None] * bias_value[None, :, None].astype(jnp.float32)
    out = (out / terms.total[..., None]).astype(v.dtype)
    shares, extra = (
        x.reshape(B, N, 1, *x.shape[3:], out_sharding=heads(x.ndim))
        for x in (terms.numerators / terms.mass[..., None], terms.extra / terms.mass)
    )
    first = jnp.sum(jnp.where((at == 0)[None, None, None], shares, 0), axis=-1)
    statistics = AttentionStatistics(first, extra, jnp.sum(entr(shares), axis=-1) + entr(extra), jnp.sum(shares, axis=2))
    return out.reshape(B, 1, N, -1, out_sharding=P("data", None, "model", None)), statistics


def _products(
    rows: Float[Array, "B K G H"], first_rows: Float[Array, "B K G H"], keys: Float[Array, "B K S H"], kept: int
) -> Float[Array, "B K G S"]:
    """The kept keys with the query at its place in the cache, the ring with it at its place in the text."""
    scores = jnp.einsum("BKGH,BKSH->BKGS", rows, keys, preferred_element_type=jnp.float32)
    if not kept:
        return scores
    first = jnp.einsum("BKGH,BKSH->BKGS", first_rows, keys[:, :, :kept], preferred_element_type=jnp.float32)
    return jnp.concatenate([first, scores[..., kept:]], axis=-1)


def _looked_at(
    rolling: Rolling, window: Int[Array, ""], kept: Int[Array, ""]
) -> tuple[Int[Array, " S"], Int[Array, " S"], Bool[Array, " S"]]:
    """The places of all slots once the newest token is in its own; how far it sees them, and whether."""
    i = rolling.length
    at = places(rolling, i + 1)
    is_kept = jnp.arange(at.shape[0]) < rolling.kept
    behind = i - at
    distance = jnp.where(is_kept, jnp.minimum(i, rolling.furthest) - at, behind)
    return at, distance, (behind >= 0) & (at >= 0) & (is_kept | (behind < window) | (at < kept))
