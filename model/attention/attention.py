"""Causal dot-product attention with grouped heads, position biases, a window and a sink logit, in linear memory."""

import functools
from collections.abc import Callable
from typing import Any, Literal, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, Float, Int

from leadline.model.attention.blockwise import Part, Rows, attend_chunks, attend_parts, part_of
from leadline.model.attention.mask import Mask, Tiling
from leadline.model.attention.normalizers import is_softmax
from leadline.model.attention.pallas import softmax_by_kernel
from leadline.model.attention.pallas_backend import has_kernel
from leadline.model.attention.scores import AttentionInputs, Scores, grouped, grouped_scores
from leadline.model.attention.statistics import softmax_statistics
from leadline.model.attention.tiled import is_unrolled, softmax_by_tiles
from leadline.model.attention.tiled_vjp import softmax_gradients
from leadline.model.layout import row_major
from leadline.model.mesh import (
    TEXTS,
    first_position,
    gather_tokens,
    heads_first,
    on_mesh,
    place,
    platform,
    sum_tokens,
)

# The name of attention's residuals for policies of jax.checkpoint, so that attention need not be computed twice.
SAVED = "attention"

Form = Literal["kernel", "chunks", "tiles", "differentiated"]


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class AttentionStatistics:
    """Sums over the attention probabilities p [B, N, T, S], which are never stored. `*L` is empty for one layer."""

    first: Float[Array, "*L B N T"]  # p of the first token of its document, or of key 0 without documents, of each query
    sink: Float[Array, "*L B N T"]  # probability of the sink logit, of each query
    entropy: Float[Array, "*L B N T"]  # -Σ p ln p [nats] over all keys and the sink logit
    received: Float[Array, "*L B N S"]  # Σ over queries of p: received attention of each key


def attention(
    q: Float[Array, "B T N H"],
    k: Float[Array, "B T K H"],
    v: Float[Array, "B T K Hv"],
    mask: Mask = Mask(),
    scores: Scores = Scores(),
    *,
    context_parallel: bool = False,
    tiling: Tiling = Tiling(),
) -> tuple[Float[Array, "B T N Hv"], AttentionStatistics]:
    """o_i = Σ_j p_ij v_j, where p_i is the softmax (or another normalizer) of the scores of the keys that query i sees.

        s_ij = cap(scale · q_i·k_j) - slope · (i - j) + bias_ij,     p_ij = e^(s_ij) / (e^b + Σ_j' e^(s_ij'))

    b is the sink logit. Query head n reads key/value head n // (N / K). Memory is linear in T, but for the gradient of the
    "differentiated" `form`, which keeps all scores. A query that sees no key gives zeros; padded queries count in no statistic.
    Scores and sums are float32.

    Args:
        q: queries.
        k: keys, at the positions of the queries.
        v: values.
        mask: which keys a query sees; every earlier one by default. Its first query is at 0.
        scores: scale, sink logit, biases and normalizer; the plain softmax of q·k / sqrt(H) by default.
        context_parallel: whether T tokens are those of one device of the mesh axis "text" (model.context_parallel). It sees
            the keys of all devices.
        tiling: how attention is cut into blocks.

    Returns:
        The output in v's type, and statistics of p.
    """
    scale = jnp.asarray(q.shape[-1] ** -0.5 if scores.scale is None else scores.scale, q.dtype)
    scores = grouped_scores(scores, k.shape[2], q.shape[2])
    q, k, v = (row_major(x) for x in grouped(q, k, v))
    padding, documents = (None if of_keys is None else place(of_keys, TEXTS) for of_keys in (mask.padding, mask.documents))
    first = jnp.int32(0)
    if context_parallel:
        first = first_position(q.shape[3])
        k, v = gather_tokens(k, 2), gather_tokens(v, 2)
        padding, documents = (None if of_keys is None else gather_tokens(of_keys, 1) for of_keys in (padding, documents))
    window, initial_tokens, chunk = (jnp.asarray(x, jnp.int32) for x in (mask.window, mask.initial_tokens, mask.chunk))
    mask = Mask(window, initial_tokens, first, padding, documents, chunk)
    x = AttentionInputs(q, scale, k, v, scores.sink_logit, scores.slopes, mask)  # pyright: ignore[reportArgumentType]
    differentiated = _form(x, tiling, scores) == "differentiated"
    rows: Any = attend_chunks(x, scores, tiling) if differentiated else _flash(tiling, x)
    return _join_heads(rows._replace(received=sum_tokens(rows.received, 3)) if context_parallel else rows)


def attend(
    q: Float[Array, "B T N H"],
    k: Float[Array, "B S K H"],
    v: Float[Array, "B S K Hv"],
    mask: Mask = Mask(),
    scores: Scores = Scores(),
) -> tuple[Float[Array, "B T N Hv"], AttentionStatistics]:
    """`attention` of T consecutive queries from position `mask.first_query` on, over keys at 0 … S - 1.

    All T · S scores of a head exist at once. Other arguments and the results are those of `attention`. The position of the last
    query is at most S - 1.
    """
    i = mask.first_query + jnp.arange(q.shape[1])
    real = None if mask.padding is None else jax.lax.dynamic_slice_in_dim(mask.padding, mask.first_query, q.shape[1], 1)
    return attend_all((part_of(*grouped(q, k, v), i, mask),), i, scores, real)


def attend_all(
    parts: tuple[Part, ...], i: Int[Array, " T"], scores: Scores, real: Bool[Array, "B T"] | None = None
) -> tuple[Float[Array, "B T N Hv"], AttentionStatistics]:
    """One softmax of queries at positions i over the keys of all parts, such as those of a cache.

    All scores of a head exist at once.

    Args:
        parts: the keys, with the queries as these keys see them, not scaled.
        i: positions of the queries.
        scores: those of `attention`.
        real: False for padded queries, which count in no statistic.
    """
    K, G, H = (parts[0].q.shape[n] for n in (1, 2, 4))
    scale = H**-0.5 if scores.scale is None else scores.scale
    scaled = [part._replace(q=part.q * jnp.asarray(scale, part.q.dtype)) for part in parts]
    return _join_heads(attend_parts(scaled, i, grouped_scores(scores, K, K * G), real))


def attend_by_query(
    parts: tuple[Part, ...],
    i: Int[Array, " T"],
    rotate: Callable[[Array, Int[Array, " T"], Int[Array, ""], Literal["query", "key"]], Array],
    scores: Scores,
    real: Bool[Array, "B T"] | None = None,
) -> tuple[Float[Array, "B T N Hv"], AttentionStatistics]:
    """`attend_all` one query at a time, each of which rotates all keys by a table of its own.

    For tables that depend on the length so far. Takes T times the rotations of `attention`.

    Args:
        parts: queries and keys before their rotation.
        i: positions of the queries.
        rotate: `rotate(x, positions, i, side)` is x [B, S, K, H] at its positions as query i sees it.
        scores: those of `attention`.
        real: False for padded queries, which count in no statistic.
    """

    def rotated(x: Array, positions: Array, at: Array, side: Literal["query", "key"]) -> Array:
        by_head = x.reshape(x.shape[0], -1, *x.shape[-2:], out_sharding=on_mesh(heads_first(4)))
        y = jnp.swapaxes(rotate(jnp.swapaxes(by_head, 1, 2), positions, at, side), 1, 2)
        return y.reshape(*x.shape[:-1], y.shape[-1], out_sharding=on_mesh(heads_first(x.ndim)))

    def of_query(row: tuple[Int[Array, ""], Int[Array, ""]]) -> tuple[Array, AttentionStatistics]:
        at, n = row

        def of_row(x: Array | None, axis: int) -> Any:
            return None if x is None else jax.lax.dynamic_slice_in_dim(x, n, 1, axis)

        parts_of_query = tuple(
            part._replace(
                q=rotated(of_row(part.q, 3), at[None], at, "query"),
                k=rotated(part.k, jnp.maximum(part.positions, 0), at, "key"),
                distance=of_row(part.distance, 0),
                visible=of_row(part.visible, 0),
                same_document=of_row(part.same_document, 1),
            )
            for part in parts
        )
        return attend_all(parts_of_query, at[None], scores, of_row(real, 1))

    out, statistics = jax.lax.map(of_query, (i, jnp.arange(i.shape[0])))
    first, sink, entropy = (jnp.moveaxis(x[..., 0], 0, 2) for x in (statistics.first, statistics.sink, statistics.entropy))
    received = jnp.sum(statistics.received, axis=0)
    return jnp.swapaxes(out[:, :, 0], 0, 1), AttentionStatistics(first, sink, entropy, received)


def form(
    queries: int, keys: int, *, device: str, channels: int, itemsize: int, scores: Scores = Scores(), tiling: Tiling = Tiling()
) -> Form:
    """How `attention` computes.

    Where scores are products, ALiBi and a window under a softmax, and no documents, the gradient comes from the log-sum-exp: by
    a "kernel" of the device (model.attention.pallas), else by "chunks" of queries without a loop, or, for long texts and for
    parts of a text, by "tiles" (model.attention.tiled). Otherwise JAX differentiates the forward pass, and saves what that
    needs of all scores.

    Args:
        queries: T.
        keys: S.
        device: "cpu", "gpu" or "tpu".
        channels: the larger of H and Hv.
        itemsize: bytes of a channel.
        scores: cap, bias, key bias and normalizer decide.
        tiling: its longest unrolled text decides.
    """
    others = (scores.cap, scores.bias, scores.key_bias, scores.value_bias)
    if not is_softmax(scores.normalizer) or any(other is not None for other in others):
        return "differentiated"
    if has_kernel(device, max(queries, keys), channels, itemsize):
        return "kernel"
    return "chunks" if is_unrolled(queries, keys, tiling) else "tiles"


def _form(x: AttentionInputs, tiling: Tiling, scores: Scores = Scores()) -> Form:
    if x.mask.documents is not None:
        return "differentiated"
    (queries, keys), channels = (x.q.shape[3], x.k.shape[2]), max(x.q.shape[-1], x.v.shape[-1])
    device = tiling.platform or platform()
    return form(queries, keys, device=device, channels=channels, itemsize=x.q.dtype.itemsize, scores=scores, tiling=tiling)


def _softmax(x: AttentionInputs, tiling: Tiling) -> Rows:
    """Statistics take a pass of their own by a kernel and by tiles, where they are used."""
    chosen = _form(x, tiling)
    if chosen == "chunks":
        return attend_chunks(x, Scores(), tiling)
    out, lse = softmax_by_kernel(x, tiling) if chosen == "kernel" else softmax_by_tiles(x, tiling)
    return Rows(out=out, lse=lse, **softmax_statistics(x, tiling)._asdict())


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _flash(tiling: Tiling, x: AttentionInputs) -> Rows:
    """`_softmax` with a gradient that saves no scores."""
    return _softmax(x, tiling)


def _flash_forward(tiling: Tiling, x: Any) -> tuple[Rows, Any]:
    inputs = jax.tree.map(lambda leaf: leaf.value, x)
    rows = _softmax(inputs, tiling)
    rows = rows._replace(out=checkpoint_name(rows.out, SAVED), lse=checkpoint_name(rows.lse, SAVED))
    with_slopes = () if x.slopes.perturbed else None  # a tree without leaves, since those would be traced
    return rows, (inputs, rows.out, rows.lse, with_slopes)


def _flash_backward(
    tiling: Tiling, saved: tuple[AttentionInputs, Array, Array, tuple[()] | None], cotangent: Any
) -> tuple[Any]:
    """From the log-sum-exp for the output alone; through `attend_chunks` where a statistic is differentiated too."""
    x, out, lse, with_slopes = saved
    # A constant that was saved is a NumPy array until something is done to it.
    numbers = {name: jnp.add(getattr(x.mask, name), 0) for name in ("window", "initial_tokens", "chunk")}
    x = x._replace(mask=x.mask._replace(**numbers))
    differentiated = [name for name, leaf in cotangent._asdict().items() if not isinstance(leaf, SymbolicZero)]
    if differentiated == ["out"]:
        kernel = _form(x, tiling) == "kernel"
        gradients = softmax_gradients(x, out, lse, cotangent.out, tiling, kernel=kernel, with_slopes=with_slopes is not None)
        q, scale, k, v, sink_logit, slopes = gradients
        return (AttentionInputs(q, scale, k, v, sink_logit, slopes, None),)  # pyright: ignore[reportArgumentType]
    _, backward = jax.vjp(lambda x: [getattr(attend_chunks(x, Scores(), tiling), name) for name in differentiated], x)
    return backward([getattr(cotangent, name) for name in differentiated])


_flash.defvjp(_flash_forward, _flash_backward, symbolic_zeros=True)


def _join_heads(rows: Rows) -> tuple[Float[Array, "B T N H"], AttentionStatistics]:
    """Grouped heads merged, heads after tokens in the output."""

    def merge(x: Array) -> Array:
        return x.reshape(x.shape[0], -1, *x.shape[3:], out_sharding=on_mesh(heads_first(x.ndim - 1)))

    return jnp.swapaxes(merge(rows.out), 1, 2), AttentionStatistics(
        first=merge(rows.first), sink=merge(rows.sink), entropy=merge(rows.entropy), received=merge(rows.received)
    )
