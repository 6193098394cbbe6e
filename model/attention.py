"""Causal dot-product attention with grouped heads, position biases, a window and an extra softmax logit, block by block."""

from collections.abc import Callable
from typing import Any, Literal, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import SymbolicZero
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from model.blocks import heads
from model.columns import column_statistics
from model.flash import Softmax, softmax_by_tiles, unrolled
from model.flash_gradient import softmax_gradients
from model.flash_kernel import softmax_by_kernel
from model.flash_machine import has_kernel
from model.kernels.kernel import Weigh
from model.kernels.softmax import softmax_terms
from model.layout import row_major
from model.mesh import platform
from model.rows import Rows, ScoreBias, attend_chunks, attend_rows
from model.spread import all_tokens, first_place, summed_tokens

# What a policy of jax.checkpoint keeps of attention, so that it need not be computed twice.
KEPT = "attention"


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays, norms
@struct.dataclass
class AttentionStatistics:
    """What is known of the attention probabilities p [B, N, T, S] without keeping them. `*L` is empty for one layer."""

    first: Float[Array, "*L B N T"]  # p[..., 0]: what each query gives to the first token
    extra: Float[Array, "*L B N T"]  # probability that each query gives to the extra logit
    entropy: Float[Array, "*L B N T"]  # -Σ p ln p [nats] over all keys and the extra logit
    received: Float[Array, "*L B N S"]  # Σ over queries of p: what each key receives


def attention(
    q: Float[Array, "B T N H"],
    k: Float[Array, "B T K H"],
    v: Float[Array, "B T K Hv"],
    *,
    extra_logit: Float[Array, " N"],
    slopes: Float[Array, " N"],
    window: Int[Array, ""],
    kept: Int[Array, ""] | int = 0,
    scale: float | None = None,
    bias: ScoreBias | None = None,
    cap: Float[Array, ""] | None = None,
    weigh: Weigh = softmax_terms,
    bias_key: Float[Array, "K H"] | None = None,
    bias_value: Float[Array, "K Hv"] | None = None,
    padding: Bool[Array, "B T"] | None = None,
    spread: bool = False,
) -> tuple[Float[Array, "B T N Hv"], AttentionStatistics]:
    """softmax(scale · q·k - slope · (i - j) + bias, with e^extra_logit in the denominator) · v over keys i - window < j <= i
    and the first `kept` ones before i.

    Query head n reads key/value head n // (N / K). `scale` is 1/sqrt(H) where it is None. `slopes` 0 is no ALiBi, `window` >= T
    no window, `extra_logit` -inf the plain softmax. `padding` is True for real tokens; a query that sees no key gives zeros,
    and padded queries count in no statistic. Memory is linear in T: a block of scores exists at once. Scores and sums are
    float32.

    `cap` c makes c · tanh(s / c) of the scaled products s (Gemma 2, arXiv:2408.00118). `weigh` is what is done in place of the
    softmax. `bias_key` k* adds scale · q·k*, capped too, to the extra logit of each query: with `bias_value` v*, what a row
    (k*, v*) before the first token does, which every query sees and nothing turns (Gu et al. 2024, arXiv:2410.10781: K biases,
    KV biases). `spread` is for a device that has T tokens of a longer text (model.spread): all of it is looked at.
    """
    factor = jnp.asarray(q.shape[-1] ** -0.5 if scale is None else scale, q.dtype)
    q, k, v = (row_major(x) for x in grouped(q, k, v))
    extra, slope = _by_group(k.shape[1], extra_logit, slopes)
    padding = None if padding is None else jax.reshard(padding, P("data", None))
    first = first_place(q.shape[3]) if spread else jnp.int32(0)
    if spread:
        k, v, padding = all_tokens(k, 2), all_tokens(v, 2), None if padding is None else all_tokens(padding, 1)
    x = Softmax(q, factor, k, v, extra, slope, window, jnp.asarray(kept, jnp.int32), first, padding)
    asked = {"bias": bias, "cap": cap, "weigh": weigh, "bias_key": bias_key}
    differentiated = _form(x, **asked) == "differentiated"
    rows = attend_chunks(x, **asked, bias_value=bias_value) if differentiated else _flash(x)
    return _join_heads(rows._replace(received=summed_tokens(rows.received, 3)) if spread else rows)


def form(
    queries: int,
    keys: int,
    *,
    device: str,
    channels: int,
    itemsize: int,
    bias: ScoreBias | None = None,
    cap: Float[Array, ""] | None = None,
    weigh: Weigh = softmax_terms,
    bias_key: Float[Array, "K H"] | None = None,
) -> Literal["kernel", "chunks", "tiles", "differentiated"]:
    """How `attention` computes on "cpu", "gpu" or "tpu", of heads of so many channels of so many bytes.

    Where scores are products, ALiBi and a window under a softmax, the gradient comes from the log-sum-exp: by a kernel of the
    device (model.flash_kernel), or else by chunks of rows without a loop, or of long texts, and of parts of a text, by tiles
    (model.flash). Else JAX differentiates the forward pass, and keeps what that needs of all scores."""
    if weigh is not softmax_terms or bias is not None or cap is not None or bias_key is not None:
        return "differentiated"
    if has_kernel(device, max(queries, keys), channels, itemsize):
        return "kernel"
    return "chunks" if unrolled(queries, keys) else "tiles"


def _form(x: Softmax, **asked: Any) -> Literal["kernel", "chunks", "tiles", "differentiated"]:
    channels = max(x.q.shape[-1], x.v.shape[-1])
    return form(x.q.shape[3], x.k.shape[2], device=platform(), channels=channels, itemsize=x.q.dtype.itemsize, **asked)


_PLAIN = {"bias": None, "cap": None, "weigh": softmax_terms, "bias_key": None, "bias_value": None}


def _softmax(x: Softmax) -> Rows:
    """By a kernel or by tiles statistics take a pass of their own, if they are wanted."""
    found = _form(x)
    if found == "chunks":
        return attend_chunks(x, **_PLAIN)
    out, lse = softmax_by_kernel(x, platform()) if found == "kernel" else softmax_by_tiles(x)
    return Rows(out=out, lse=lse, **column_statistics(x)._asdict())


@jax.custom_vjp
def _flash(x: Softmax) -> Rows:
    """`_softmax` with a gradient that keeps no scores."""
    return _softmax(x)


def _flash_forward(x: Any) -> tuple[Rows, Any]:
    own = jax.tree.map(lambda leaf: leaf.value, x)
    rows = _softmax(own)
    rows = rows._replace(out=checkpoint_name(rows.out, KEPT), lse=checkpoint_name(rows.lse, KEPT))
    with_slopes = () if x.slopes.perturbed else None  # a tree without leaves, since those would be traced
    return rows, (own, rows.out, rows.lse, with_slopes)


def _flash_backward(saved: tuple[Softmax, Array, Array, tuple[()] | None], cotangent: Any) -> tuple[Any]:
    """By blocks for the output alone; where somebody differentiates a statistic too, of `attend_chunks` as it stands."""
    x, out, lse, with_slopes = saved
    # A constant that was saved is numpy's until something is done to it.
    x = x._replace(window=jnp.add(x.window, 0), kept=jnp.add(x.kept, 0))
    asked = [name for name, leaf in cotangent._asdict().items() if not isinstance(leaf, SymbolicZero)]
    if asked == ["out"]:
        kernel_of = platform() if _form(x) == "kernel" else None
        gradients = softmax_gradients(x, out, lse, cotangent.out, kernel_of=kernel_of, with_slopes=with_slopes is not None)
        q, k, v, extra, slopes = gradients
        return (Softmax(q, None, k, v, extra, slopes, None, None, None, None),)  # pyright: ignore[reportArgumentType]
    _, backward = jax.vjp(lambda given: [getattr(attend_chunks(given, **_PLAIN), name) for name in asked], x)
    return backward([getattr(cotangent, name) for name in asked])


_flash.defvjp(_flash_forward, _flash_backward, symbolic_zeros=True)


def attend(
    q: Float[Array, "B T N H"],
    k: Float[Array, "B S K H"],
    v: Float[Array, "B S K Hv"],
    i: Int[Array, " T"],
    *,
    extra_logit: Float[Array, " N"],
    slopes: Float[Array, " N"],
    window: Int[Array, ""],
    kept: Int[Array, ""] | int = 0,
    scale: float | None = None,
    bias: ScoreBias | None = None,
    cap: Float[Array, ""] | None = None,
    weigh: Weigh = softmax_terms,
    bias_key: Float[Array, "K H"] | None = None,
    bias_value: Float[Array, "K Hv"] | None = None,
) -> tuple[Float[Array, "B T N Hv"], AttentionStatistics]:
    """`attention` of T consecutive queries at positions `i` over keys at 0 … S - 1, of which those behind i are not seen: what
    a step of decoding computes. All T · S scores of a head exist at once."""
    q, k, v = grouped(q * (q.shape[-1] ** -0.5 if scale is None else scale), k, v)
    extra, slope = _by_group(k.shape[1], extra_logit, slopes)
    fixed = {"bias": bias, "cap": cap, "weigh": weigh, "bias_key": bias_key, "bias_value": bias_value}
    values = {"extra_logit": extra, "slopes": slope, "window": window, "kept": kept, "real_keys": None}
    return _join_heads(attend_rows(q, i, None, k=k, v=v, **values, **fixed))


def attention_by_query(
    q: Float[Array, "B T N H"],
    k: Float[Array, "B S K H"],
    v: Float[Array, "B S K Hv"],
    i: Int[Array, " T"],
    turn: Callable[[Array, Int[Array, " T"], Int[Array, ""], Literal["query", "key"]], Array],
    **values: Any,
) -> tuple[Float[Array, "B T N Hv"], AttentionStatistics]:
    """`attend` one query at a time, each of which turns all keys anew: `turn(x, places, i, side)` is x at its
    places, turned as query i sees it. For tables that depend on the length so far; T times the rotations of `attention`."""
    places = jnp.arange(k.shape[1])

    def one(row: tuple[Array, Array]) -> tuple[Array, AttentionStatistics]:
        query, at = row
        return attend(turn(query[:, None], at[None], at, "query"), turn(k, places, at, "key"), v, at[None], **values)

    out, statistics = jax.lax.map(one, (jnp.swapaxes(q, 0, 1), i))
    return jnp.swapaxes(out[:, :, 0], 0, 1), AttentionStatistics(
        first=jnp.moveaxis(statistics.first[..., 0], 0, 2),
        extra=jnp.moveaxis(statistics.extra[..., 0], 0, 2),
        entropy=jnp.moveaxis(statistics.entropy[..., 0], 0, 2),
        received=jnp.sum(statistics.received, axis=0),
    )


def grouped(q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    """Heads before tokens, the queries by key/value head: [B, K, G, T, H], [B, K, S, H] twice."""
    groups, q = k.shape[2], jnp.swapaxes(q, 1, 2)
    q = q.reshape(q.shape[0], groups, q.shape[1] // groups, *q.shape[2:], out_sharding=heads(5))
    k, v = (jax.reshard(jnp.swapaxes(x, 1, 2), heads(4)) for x in (k, v))
    return q, k, v


def _by_group(groups: int, *values: Float[Array, " N"]) -> tuple[Float[Array, "K G"], ...]:
    """What each query head has of its own, by key/value head."""
    return tuple(x.reshape(groups, -1, out_sharding=P("model", None)) for x in values)


def _join_heads(rows: Rows) -> tuple[Float[Array, "B T N H"], AttentionStatistics]:
    """Grouped heads merged, heads after tokens in the output."""

    def merge(x: Array) -> Array:
        return x.reshape(x.shape[0], -1, *x.shape[3:], out_sharding=heads(x.ndim - 1))

    return jnp.swapaxes(merge(rows.out), 1, 2), AttentionStatistics(
        first=merge(rows.first), extra=merge(rows.extra), entropy=merge(rows.entropy), received=merge(rows.received)
    )
