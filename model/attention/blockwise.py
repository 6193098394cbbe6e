"""Attention of a block of queries over all keys that it sees, whose scores exist at once."""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import entr
from jaxtyping import Array, Bool, Float, Int

from leadline.model.attention.mask import Mask, Tiling, chunks_of, distances, masked_bias, merge_blocks, split_blocks
from leadline.model.attention.normalizers import nonzero
from leadline.model.attention.scores import AttentionInputs, Scores, capped, sink_logits
from leadline.model.mesh import ROWS_OF_GROUPS, TEXTS, heads_first, on_mesh


class Part(NamedTuple):
    """Some of the keys of a block of queries, with the queries as these keys see them; heads are grouped.

    A cache gives several: StreamingLLM's initial tokens see a query that is rotated to its position inside the cache.
    """

    q: Float[Array, "B K G q H"]  # scaled where `attend_parts` gets it; `attend_all` scales
    k: Float[Array, "B K S H"]
    v: Float[Array, "B K S Hv"]
    positions: Int[Array, " S"]  # of the keys; negative where there is none
    distance: Int[Array, "q S"]  # that ALiBi counts
    visible: Bool[Array, "q S"]
    padding: Bool[Array, "B S"] | None = None  # True for real keys
    same_document: Bool[Array, "B q S"] | None = None  # whether query and key are of one document; None: all are


class Rows(NamedTuple):
    """The attention of a block of queries; heads are grouped."""

    out: Float[Array, "B K G q H"]
    first: Float[Array, "B K G q"]
    sink: Float[Array, "B K G q"]
    entropy: Float[Array, "B K G q"]
    received: Float[Array, "B K G S"]
    lse: Float[Array, "B K G q"] | None  # of a softmax


def part_of(q: Array, k: Array, v: Array, i: Int[Array, " q"], mask: Mask) -> Part:
    """The keys at 0 … S - 1 for grouped queries at positions i."""
    j, same = jnp.arange(k.shape[2]), None
    if mask.documents is not None:
        of_queries = mask.documents.at[:, i].get(mode="clip", out_sharding=on_mesh(TEXTS))
        same = of_queries[:, :, None] == mask.documents[:, None, :]
    return Part(q, k, v, j, *distances(i, j, mask), mask.padding, same)


def attend_chunks(x: AttentionInputs, scores: Scores, tiling: Tiling) -> Rows:
    """Attention by chunks of queries, each of which sees a static number of keys; of a part of a text each sees all keys."""
    tokens, keys, q = x.q.shape[3], x.k.shape[2], x.q * x.scale
    padding, documents = x.mask.padding, x.mask.documents
    scores = scores._replace(sink_logit=x.sink_logit, slopes=x.slopes)
    chunks = []
    for start, stop in chunks_of(tokens, tiling):
        seen = stop if tokens == keys else keys
        of_keys = (None if of_all is None else of_all[:, :seen] for of_all in (padding, documents))
        mask = x.mask._replace(**dict(zip(("padding", "documents"), of_keys, strict=True)))

        def rows(q: Array, i: Array, real: Array | None, seen: int = seen, mask: Mask = mask) -> Rows:
            return attend_parts((part_of(q, x.k[:, :, :seen], x.v[:, :, :seen], i, mask),), i, scores, real)

        real = None if padding is None else x.real[:, start:stop]
        chunk = _map_blocks(rows, q[:, :, :, start:stop], x.positions[start:stop], real, tiling.rows)
        chunks.append(chunk._replace(received=jnp.pad(chunk.received, [(0, 0)] * 3 + [(0, keys - seen)])))
    received = functools.reduce(jnp.add, [chunk.received for chunk in chunks])
    joined = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=3), *chunks)
    return joined._replace(received=received)


def attend_parts(parts: Sequence[Part], i: Int[Array, " q"], scores: Scores, real: Bool[Array, "B q"] | None = None) -> Rows:
    """Attention of one block of queries over all keys of `parts`, in one softmax.

    The G heads that share a key are rows of one matrix product, which is half as fast again as an axis of their own.

    Args:
        parts: the keys; their positions rise where `scores` has a bias.
        i: positions of the queries.
        scores: grouped; the scale is applied already.
        real: False for padded queries, which count in no statistic.
    """
    B, K, G, rows, _ = parts[0].q.shape
    merged = [part.q.reshape(B, K, G * rows, -1, out_sharding=on_mesh(heads_first(4))) for part in parts]
    terms = scores.normalizer(_masked_scores(parts, merged, i, scores), sink_logits(merged[0], scores))
    out = _mixed(terms.numerators, [part.v for part in parts])
    if scores.value_bias is not None:
        out = out + terms.sink[..., None] * scores.value_bias[None, :, None].astype(jnp.float32)
    out = (out / terms.total[..., None]).astype(parts[0].v.dtype)
    share = 1 / terms.mass
    if real is not None:
        share = jnp.where(jnp.tile(real, (1, G))[:, None], share, 0)
    sink = terms.sink * share
    entropy = jnp.sum(_entropy_terms(terms.numerators * share[..., None]), axis=-1) + _entropy_terms(sink)
    first = _first_numerators(terms.numerators, parts, G)
    share, first, sink, entropy, lse, numerators, out = (
        x if x is None else x.reshape(B, K, G, rows, *x.shape[3:], out_sharding=on_mesh(heads_first(x.ndim + 1)))
        for x in (share, first * share, sink, entropy, terms.lse, terms.numerators, out)
    )
    return Rows(out, first, sink, entropy, received(numerators, share), lse)


def _masked_scores(
    parts: Sequence[Part], merged: Sequence[Float[Array, "B K R H"]], i: Int[Array, " q"], scores: Scores
) -> Float[Array, "B K R S"]:
    """cap(q·k) + bias - slope · distance over the keys of all parts, -inf where a key is not visible.

    Args:
        parts: the keys.
        merged: the scaled queries of each part, the G heads of a key as R = G q rows.
        i: positions of the queries.
        scores: those of `attend_parts`.
    """
    K, G = parts[0].q.shape[1:3]
    s = capped(_joined([_products("BKqH,BKSH->BKqS", q, part.k) for q, part in zip(merged, parts, strict=True)]), scores.cap)
    if parts[0].padding is not None:
        s = jnp.where(_joined([part.padding for part in parts if part.padding is not None])[:, None, None], s, -jnp.inf)
    if parts[0].same_document is not None:
        s = jnp.where(jnp.tile(parts[0].same_document, (1, G, 1))[:, None], s, -jnp.inf)
    is_visible = _joined([part.visible for part in parts])
    if scores.bias is not None:
        j = None if len(parts) == 1 else _joined([part.positions for part in parts])
        s = s + scores.bias(merged[-1], s, i, j, is_visible)
    linear = masked_bias(_joined([part.distance for part in parts]), is_visible, jnp.asarray(scores.slopes))
    return s + linear.reshape(1, K, s.shape[2], -1, out_sharding=on_mesh(ROWS_OF_GROUPS))


def _first_numerators(numerators: Float[Array, "B K R S"], parts: Sequence[Part], groups: int) -> Float[Array, "B K R"]:
    """The numerator of the first key of the text, or of the query's document."""
    same_document = parts[0].same_document  # a cache holds one document
    if same_document is not None:
        begins = jnp.tile(jnp.argmax(same_document, axis=-1), (1, groups))[:, None, :, None]
        return jnp.take_along_axis(numerators, begins, axis=-1)[..., 0]
    if len(parts) == 1:
        return numerators[..., 0]
    at_start = _joined([part.positions for part in parts]) == 0
    return jnp.sum(jnp.where(at_start[None, None, None], numerators, 0), axis=-1)


def _entropy_terms(p: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """-p ln p, which is 0 at 0; its gradient there, which is infinite, counts as 0."""
    return entr(nonzero(p))


def received(numerators: Float[Array, "B K G q S"], share: Float[Array, "B K G q"]) -> Float[Array, "B K G S"]:
    """Received attention Σ_i p_ij = Σ_i numerators_ij · share_i of each key j."""
    # A sum over queries as a product: XLA's CPU back end reduces the columns of a fused softmax 100 times slower. An
    # accelerator would round the factors.
    return jnp.einsum("BKGqS,BKGq->BKGS", numerators, share, precision=jax.lax.Precision.HIGHEST)


def _products(equation: str, a: Array, b: Array) -> Float[Array, "..."]:
    return jnp.einsum(equation, a, b, preferred_element_type=jnp.float32)


def _mixed(numerators: Float[Array, "B K R S"], values: Sequence[Float[Array, "B K _ Hv"]]) -> Float[Array, "B K R Hv"]:
    """The values weighed by the numerators of all keys."""
    ends = list(itertools.accumulate(v.shape[2] for v in values))
    weights = jnp.split(numerators, ends[:-1], axis=-1)
    products = [_products("BKqS,BKSH->BKqH", w.astype(v.dtype), v) for w, v in zip(weights, values, strict=True)]
    return sum(products[1:], products[0])


def _joined(arrays: Sequence[Array]) -> Array:
    return arrays[0] if len(arrays) == 1 else jnp.concatenate(arrays, axis=-1)


def _map_blocks(
    attend: Callable[..., Rows],
    q: Float[Array, "B K G C H"],
    i: Int[Array, " C"],
    real: Bool[Array, "B C"] | None,
    size: int,
) -> Rows:
    """`attend` of blocks of `size` queries, one after the other; a single block needs no loop."""
    count = i.shape[0]
    if count <= size:
        return attend(q, i, real)
    real_blocks = None if real is None else split_blocks(real, 1, size, False)
    # Surplus queries are at position -1, which sees no key.
    blocks = split_blocks(q, 3, size), split_blocks(i, 0, size, -1), real_blocks
    rows = jax.lax.map(lambda block: attend(*block), blocks)
    total = jnp.sum(rows.received, axis=0)
    merged = jax.tree.map(lambda x: merge_blocks(x, count), rows._replace(received=None))
    return merged._replace(received=total)
