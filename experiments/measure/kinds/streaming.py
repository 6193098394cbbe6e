"""Perplexity of one long stream by what the cache keeps, beside re-computation and full attention."""

from itertools import product
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.config.measure import StreamingMeasure
from leadline.experiments.data.text.held_out import ENOUGH_DOCUMENTS, HeldOut, recomputed_windows
from leadline.experiments.measure.evaluate import Models
from leadline.experiments.measure.perplexity import (
    bin_means,
    exponential,
    mean_of_stream,
    position_edges,
    sums_by_place_without,
)
from leadline.experiments.records.left_out import with_left_out
from leadline.experiments.records.measurement import Dim, Point, reading, scalars
from leadline.model.cache.ring import ring_cache
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.embedding import token_losses
from leadline.model.extend import extend
from leadline.model.positions.tables import PositionTables


class StreamPolicy(NamedTuple):
    """What a cache keeps, and whether positions are those inside it: scalars of the host or of a compiled program."""

    initial_tokens: Any
    window: Any
    reindexed: Any


class Span(NamedTuple):
    """Places of a stream, in bins. Counts are of all groups of documents, then without each."""

    places: Int[np.ndarray, " n"]  # of targets that are measured
    edges: Int[np.ndarray, " E"]  # bin i has the places edges[i] <= place < edges[i + 1]
    groups: Int[np.ndarray, " n"]  # of documents, of each place
    counts: Float[np.ndarray, "G_and_1 E-1"]  # places that are measured, by bin
    sizes: Float[np.ndarray, "G_and_1 E-1"]  # places of the stream, by bin
    documents: int  # in which a place is measured


def span_of(stream: HeldOut, edges: Int[np.ndarray, " E"], places: Int[np.ndarray, " n"]) -> Span:
    """The places of a stream of one window that are measured; all lie in the bins."""
    every, groups = np.arange(edges[-1]), stream.groups[0]
    counts, sizes = (sums_by_place_without(np.ones(len(at)), at, edges, groups[at]) for at in (places, every))
    return Span(places, edges, groups[places], counts, sizes, len(np.unique(stream.documents[0, places])))


def streaming(models: Models, settings: StreamingMeasure) -> list[Point]:
    """One held-out stream through every policy of every model; a sample of it re-computed; its start with full attention.

    Three programs serve all models and policies.
    """
    bos = models.arms[0].data.bos == "fixed"  # pyright: ignore[reportAttributeAccessIssue]
    cache, start = settings.cache or models.arms[0].data.length, settings.full_attention
    stream = models.source.stream(settings.tokens)
    text, edges = stream.windows[0], position_edges(settings.tokens)
    again = recomputed_windows(text, edges, cache, settings.stride, settings.recomputed, keep_first=bos)
    spans = {
        "stream": span_of(stream, edges, np.arange(settings.tokens)),
        "sampled": span_of(stream, edges, again.places[again.counted]),
        "start": span_of(stream, position_edges(start), np.arange(start)),
    }
    common: Point = {}
    for name, span in spans.items():
        common |= {reading("position_edges", span=name): span.edges} | scalars({"documents": float(span.documents)}, span=name)
    points = [dict(common) for _ in models.arms]
    recomputed = models.window_losses("recomputed", again.windows)
    full = models.window_losses("full attention", text[None, : start + 1])
    for point, of_windows, of_start in zip(points, recomputed, full, strict=True):
        point |= _of_span(of_windows[again.counted], spans["sampled"], policy="recomputed", span="sampled")
        point |= _of_span(of_start[0], spans["start"], policy="full", span="start")
    kept = {"cache": settings.initial_tokens, "text": settings.text_positions}
    cases = list(dict.fromkeys((initial, positions) for positions, initials in kept.items() for initial in initials))
    policies = [StreamPolicy(np.int32(n), np.int32(cache - n), np.bool_(positions == "cache")) for n, positions in cases]
    streamed = _stream_losses(models, policies, text, cache)
    for (point, (initial, positions)), losses in zip(product(points, cases), streamed, strict=True):
        dims: dict[str, Dim] = {"policy": "streaming", "initial_tokens": initial, "positions": positions}
        for name, span in spans.items():
            point |= _of_span(losses[span.places], span, span=name, **dims)
    return points


def stream_losses(
    params: Decoder,
    tables: PositionTables,
    policy: StreamPolicy,
    chunks: tuple[Int[Array, "C T"], Int[Array, "C T"]],
    cfg: DecoderConfig,
    most_initial: int,
) -> Float[Array, "C T"]:
    """The loss [nats] of every target of one text through a cache of T entries, inside a compiled program.

    `chunks` are inputs and targets, as many at once as the cache has entries, in which there is room for `most_initial` initial
    tokens.
    """
    size, block = chunks[0].shape[1], cfg.block
    room = (most_initial, size)
    stream = ring_cache(cfg.layers, 1, block.kv_heads, block.head_dim, **policy._asdict(), room=room, dtype=cfg.compute)

    def of_chunk(stream: Any, chunk: tuple[Int[Array, " T"], Int[Array, " T"]]) -> tuple[Any, Float[Array, " T"]]:
        inputs, targets = chunk
        scores, stream = extend(params, stream, inputs[None], tables, cfg)
        return stream, token_losses(scores, targets[None])[0]

    return jax.lax.scan(of_chunk, stream, chunks)[1]


def _stream_losses(
    models: Models, cases: list[StreamPolicy], text: Int[np.ndarray, "tokens"], cache: int
) -> list[Float[np.ndarray, " M"]]:
    """The losses of the stream, of every policy of the first model, then of the second, …"""
    count = len(text) - 1
    filled = np.pad(text, (0, -count % cache))
    chunks = tuple(half.reshape(-1, cache) for half in (filled[:-1], filled[1:]))
    most_initial = max(1, *(int(policy.initial_tokens) for policy in cases))

    def job(params: Decoder, inputs: tuple[PositionTables, StreamPolicy], chunks: Any) -> Float[Array, "C T"]:
        return stream_losses(params, *inputs, chunks, models.model, most_initial)

    rows = zip(models.tables(cache), models.tables(count), strict=True)  # a text is as long as its positions go
    inputs = [(inside if policy.reindexed else whole, policy) for inside, whole in rows for policy in cases]
    return [losses.reshape(-1)[:count] for losses in models.run("stream", job, inputs, chunks, 1)]


def _of_span(losses: Float[np.ndarray, " n"], part: Span, **dims: Dim) -> Point:
    """Perplexity, whole and without each group of documents, and loss by position.

    Bins count by their size, however many of their places are sampled.
    """
    sums = sums_by_place_without(losses, part.places, part.edges, part.groups)
    perplexity = exponential(mean_of_stream(sums, part.counts, part.sizes))
    of_documents = with_left_out(reading("perplexity", **dims), perplexity, enough=part.documents >= ENOUGH_DOCUMENTS)
    return {**of_documents, reading("loss_by_position", **dims): bin_means(sums[0], part.counts[0])}
