"""Attention over an endless text in memory that does not grow: the first tokens and the newest ones (Xiao et al. 2024)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.scipy.special import entr
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from model.attention import AttentionStatistics, grouped
from model.blocks import heads, looked_at, seen
from model.cache import ENTRIES
from model.kernels.kernel import Weigh
from model.positions.tables import NO_WINDOW, PositionTables
from model.positions.turn import Side, turned
from model.rows import capped, extra_logits, weighed


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays, norms
@struct.dataclass
class Stream:
    """What the layers remember of a text of `length` tokens, and the policy by which they forget. `*L` is empty for one layer.

    Query i sees the keys j < kept and i - window < j <= i. StreamingLLM (Xiao et al. 2024, arXiv:2309.17453, section 3.2)
    numbers what it remembers anew, 0 … n - 1, and puts the query at n - 1, n <= kept + window: that leaves the distances inside
    the window as they are, and only bounds the place of the query as the kept keys see it, min(i, furthest). So many tokens can
    be read at once and the result is that of one at a time. Keys are kept as they were projected and turned when they are read.
    `kept`, `window` and `furthest` are values: one program serves all policies.
    """

    first_key: Float[Array, "*L B F K H"]  # of the first tokens, of which `kept` are seen
    first_value: Float[Array, "*L B F K H"]
    key: Float[Array, "*L B R K H"]  # of the R newest tokens; those before the text are never seen
    value: Float[Array, "*L B R K H"]
    length: Int[Array, "*L"]
    kept: Int[Array, "*L"]  # <= F
    window: Int[Array, "*L"]  # newest keys that a query sees, itself included; <= R - T + 1 for T tokens at once
    furthest: Int[Array, "*L"]  # kept + window - 1, or NO_WINDOW for distances as they are in the text


def empty_stream(
    layers: int,
    batch: int,
    kv_heads: int,
    head_dim: int,
    *,
    kept: int | Int[Array, ""],
    window: int | Int[Array, ""],
    reindexed: bool | Bool[Array, ""] = True,
    room: int,
    at_once: int,
    widest: int,
    dtype: str = "float32",
) -> Stream:
    """Nothing read yet. Needs a mesh.

    Args:
        layers: L.
        batch: B.
        kv_heads: K.
        head_dim: H.
        kept: the number of first tokens that are never forgotten, up to `room`.
        window: the newest keys that a query sees, itself included, up to `widest`.
        reindexed: whether positions are those inside the cache, or those of the text.
        room: F, the largest number of first tokens that any policy keeps, 1 or more.
        at_once: the most tokens that are read at once.
        widest: the widest window.
        dtype: of the entries.
    """
    spec = P(None, *ENTRIES)
    first, newest = ((layers, batch, tokens, kv_heads, head_dim) for tokens in (room, widest + at_once - 1))
    furthest = jnp.where(jnp.asarray(reindexed), jnp.asarray(kept + window - 1, jnp.int32), jnp.int32(NO_WINDOW))

    def row(value: Any) -> Int[Array, " L"]:
        return jnp.broadcast_to(jnp.asarray(value, jnp.int32), (layers,))

    return Stream(
        first_key=jnp.zeros(first, dtype, out_sharding=spec),
        first_value=jnp.zeros(first, dtype, out_sharding=spec),
        key=jnp.zeros(newest, dtype, out_sharding=spec),
        value=jnp.zeros(newest, dtype, out_sharding=spec),
        length=row(0),
        kept=row(kept),
        window=row(window),
        furthest=row(furthest),
    )


def read_on(stream: Stream, key: Float[Array, "B T K H"], value: Float[Array, "B T K H"]) -> Stream:
    """One layer's stream with T more tokens; as many of the newest before them are forgotten."""
    key, value = (jax.reshard(x.astype(stream.key.dtype), ENTRIES) for x in (key, value))
    place = jnp.arange(stream.first_key.shape[1]) - stream.length  # of the first tokens, among these
    here = ((place >= 0) & (place < key.shape[1]))[None, :, None, None]

    def first(old: Array, new: Array) -> Array:
        return jnp.where(here, new.at[:, place].get(mode="clip", wrap_negative_indices=False, out_sharding=ENTRIES), old)

    def newest(old: Array, new: Array) -> Array:
        return jnp.concatenate([old, new], axis=1)[:, new.shape[1] :]

    return replace(
        stream,
        first_key=first(stream.first_key, key),
        first_value=first(stream.first_value, value),
        key=newest(stream.key, key),
        value=newest(stream.value, value),
        length=stream.length + key.shape[1],
    )


def places_in_cache(stream: Stream, tokens: int) -> Int[Array, " T"]:
    """Where the T newest tokens stood, as queries, among what was remembered."""
    return jnp.minimum(_newest(stream, tokens), stream.furthest)


def attend_stream(
    q: Float[Array, "B T N H"],
    stream: Stream,
    tables: PositionTables,
    *,
    interleaved: bool,
    slopes: Float[Array, " N"],
    window: Int[Array, ""],
    kept: Int[Array, ""],
    bias_key: Float[Array, "K H"] | None,
    bias: None,
    **values: Any,
) -> tuple[Float[Array, "B T N H"], AttentionStatistics]:
    """The T newest tokens, which `stream` remembers already, as queries: two turns of each, one softmax over what both see.

    `window` and `kept` are those of the model: what is among the newest is seen if the model sees it. The other values are
    those of model.attention.attention, without a bias and without xPos; a row before the first token is seen as the kept keys
    are. `received` counts the F first keys and then the R newest, each where it is seen.
    """
    assert bias is None, "no stream of a model with a position bias: see model.decoder.extend"

    def turn(x: Array, at: Int[Array, " T"], places: Int[Array, " T"], side: Side) -> Array:
        """Rotated to its places, with the amplitude that it has at others: in the cache."""
        positions = jnp.tile(places[:, None], (1, tables.frequencies.units.shape[-2]))
        return turned(x, at, positions, tables, side, interleaved=interleaved)

    i, j = _newest(stream, q.shape[1]), _newest(stream, stream.key.shape[1])
    at, first = jnp.minimum(i, stream.furthest), jnp.arange(stream.first_key.shape[1])

    def newest(places: Int[Array, " S"]) -> tuple[Int[Array, "T S"], Bool[Array, "T S"]]:
        """Distances, and what is seen with them."""
        behind, visible = looked_at(i, places, window, kept)
        return behind, visible & (behind < stream.window)

    behind, visible = newest(j)
    parts = (
        Part(
            q=turn(q, at, at, "query"),
            k=turn(stream.first_key.astype(q.dtype), first, first, "key"),
            v=stream.first_value.astype(q.dtype),
            distance=at[:, None] - first[None, :],
            visible=(first < stream.kept)[None, :] & (i[:, None] >= first[None, :]) & ~newest(first)[1],
        ),
        Part(
            q=turn(q, at, i, "query"),
            k=turn(stream.key.astype(q.dtype), j, j, "key"),
            v=stream.value.astype(q.dtype),
            distance=behind,
            visible=visible & (j >= 0)[None, :],
        ),
    )
    out, shares, extra = _attend_parts(parts, slopes=slopes, bias_key=bias_key, **values)
    is_first = jnp.concatenate([first, j]) == 0
    first_share = jnp.sum(jnp.where(is_first[None, None, None], shares, 0), axis=-1)
    entropy = jnp.sum(entr(shares), axis=-1) + entr(extra)
    return out, AttentionStatistics(first_share, extra, entropy, received=jnp.sum(shares, axis=2))


def _newest(stream: Stream, tokens: int) -> Int[Array, " T"]:
    """The places of the newest tokens in the text."""
    return stream.length - tokens + jnp.arange(tokens)


class Part(NamedTuple):
    """Some of the keys that queries see, and the queries as these keys see them: turned in a way of their own."""

    q: Float[Array, "B T N H"]
    k: Float[Array, "B S K H"]
    v: Float[Array, "B S K Hv"]
    distance: Int[Array, "T S"]  # that ALiBi counts
    visible: Bool[Array, "T S"]


def _attend_parts(
    parts: Sequence[Part],
    *,
    extra_logit: Float[Array, " N"],
    slopes: Float[Array, " N"],
    scale: float,
    cap: Float[Array, ""] | None,
    weigh: Weigh,
    bias_key: Float[Array, "K H"] | None,
    bias_value: Float[Array, "K Hv"] | None,
) -> tuple[Float[Array, "B T N Hv"], Float[Array, "B N T S"], Float[Array, "B N T"]]:
    """The output, what of its probability each query gives to each key, part after part, and to the extra logit.

    `bias_key` is seen by the queries of the first part. All scores of a head exist at once, float32.
    """
    (B, T, N, _), K = parts[0].q.shape, parts[0].k.shape[2]
    rows = N // K * T
    by_group, slope = (x.reshape(K, -1, out_sharding=P("model", None)) for x in (extra_logit, slopes))
    queries, scores, values = [], [], []
    for part in parts:
        q, k, v = grouped(part.q * scale, part.k, part.v)
        q = q.reshape(B, K, rows, -1, out_sharding=heads(4))
        product = jnp.einsum("BKqH,BKSH->BKqS", q, k, preferred_element_type=jnp.float32)
        product = capped(product, cap)
        near = seen(part.distance, part.visible, slope).reshape(1, K, rows, -1, out_sharding=P(None, "model", None, None))
        queries.append(q)
        scores.append(product + near)
        values.append(v)
    logits = extra_logits(queries[0], by_group, bias_key, cap)
    joined, value = jnp.concatenate(scores, axis=-1), jnp.concatenate(values, axis=2)
    out, numerators, extra, share, _ = weighed(joined, value, logits, weigh, bias_value)
    out, shares, extra = (
        x.reshape(B, N, T, *x.shape[3:], out_sharding=heads(x.ndim))
        for x in (out, numerators * share[..., None], extra * share)
    )
    return jnp.swapaxes(out, 1, 2), shares, extra
