"""Perplexity of one long stream by what the cache keeps, beside re-computation and full attention."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int

from experiments.config.measure import StreamingMeasure
from experiments.config.study import Arm
from experiments.data.source import TextSource
from experiments.data.streamed import mean_by_place, mean_of_stream, recomputed_windows
from experiments.evaluate import TOKENS_AT_ONCE, Statistics, evaluate_stream, evaluate_tokens, in_batches, text_point
from experiments.group import Point
from experiments.measure.perplexity import exponential, position_edges
from experiments.population import in_rounds
from experiments.position_tables import tables
from model.decoder import Decoder, DecoderConfig
from model.positions.tables import PositionTables
from model.streaming import empty_stream

RECOMPUTED, DENSE = "recomputed", "dense"


class Policy(NamedTuple):
    """What a cache keeps, and whether positions are those inside it: scalars of the host or of a compiled program."""

    kept: Any
    window: Any
    reindexed: Any


class Places(NamedTuple):
    """The stream as it is looked at: bins of places, and the places that are re-computed."""

    edges: Int[np.ndarray, " E"]
    sampled: Int[np.ndarray, " n"]
    start: int  # tokens that full attention reads


class StreamingMeasurer:
    """Sinks on short windows along the way; at the end one stream, through every policy of every model."""

    def batches(self, source: TextSource, measure: StreamingMeasure) -> Int[np.ndarray, "C B T"]:
        source.held_out(measure.tokens, measure.tokens)  # what is too short for the end is said at the beginning
        length = measure.sink.length
        return in_batches(source.held_out(length, measure.sequences * length), TOKENS_AT_ONCE)

    def point(
        self,
        params: Decoder,
        tables: PositionTables,
        batches: Int[Array, "C B T"],
        shared: None,  # noqa: ARG002
        model: DecoderConfig,
        measure: StreamingMeasure,
    ) -> Statistics:
        return text_point(params, tables, batches, model, measure.sink)

    def final(
        self,
        arms: Sequence[Arm],
        params: Sequence[Decoder],
        source: TextSource,
        model: DecoderConfig,
        programs: list[str],
    ) -> list[Point]:
        """Three programs serve all models and policies of one structure: the stream, its windows anew, its beginning."""
        measure: Any = arms[0].measure
        cache = measure.cache or arms[0].data.length
        text = source.held_out(measure.tokens, measure.tokens)[0]
        edges = position_edges(measure.tokens)
        anew = recomputed_windows(text, edges, cache, measure.stride, measure.recomputed, keep_first=source.data.bos == "fixed")
        places = Places(edges, anew.places[anew.counted], measure.dense)
        rows = [tables(arm.model, arm.original_length, arm.data.length) for arm in arms]
        plain = [(own, row) for own, row in zip(params, rows, strict=True)]
        found: list[Point] = [{"position_edges": edges} for _ in arms]
        for point, losses in zip(found, _windows(RECOMPUTED, plain, anew.windows, model, programs), strict=True):
            point |= _of_recomputed(losses[anew.counted], places)
        for point, losses in zip(found, _windows(DENSE, plain, text[None, : measure.dense + 1], model, programs), strict=True):
            point |= _of_dense(losses[0])
        ways = policies(measure, cache)
        jobs = [(own, (row, policy)) for own, row in plain for policy in ways.values()]
        streamed = _streamed(jobs, text, max(*measure.kept, *measure.in_text, 1), cache, model, programs)
        for job, losses in enumerate(streamed):
            found[job // len(ways)] |= _of_stream(list(ways)[job % len(ways)], losses, places)
        return found


def policies(measure: StreamingMeasure, cache: int) -> dict[str, Policy]:
    """kept4, kept4_in_text: each with its cache of that many entries. Without kept tokens there is nothing to re-index."""
    ways = {f"kept{kept}": Policy(np.int32(kept), np.int32(cache - kept), np.bool_(True)) for kept in measure.kept}
    return ways | {
        f"kept{kept}_in_text": Policy(np.int32(kept), np.int32(cache - kept), np.bool_(False)) for kept in measure.in_text
    }


def _streamed(
    jobs: Sequence[tuple[Decoder, Any]],
    text: Int[np.ndarray, "tokens"],
    most_kept: int,
    cache: int,
    model: DecoderConfig,
    programs: list[str],
) -> list[Float[np.ndarray, " M"]]:
    """The losses of the stream of each (model, (tables, policy)), as many tokens at once as the cache has entries."""
    count = len(text) - 1
    filled = np.pad(text, (0, -count % cache))
    chunks = tuple(half.reshape(-1, cache) for half in (filled[:-1], filled[1:]))
    block = model.block

    def job(params: Decoder, own: tuple[PositionTables, Policy], chunks: Any) -> Float[Array, "C T"]:
        row, policy = own
        room = {"room": most_kept, "at_once": cache, "widest": cache, "dtype": model.compute}
        stream = empty_stream(model.layers, 1, block.kv_heads, block.head_dim, **policy._asdict(), **room)
        return evaluate_stream(params, row, stream, chunks, model)

    return [losses.reshape(-1)[:count] for losses in in_rounds("stream", job, jobs, chunks, programs, 1, block.width)]


def _windows(
    name: str,
    jobs: Sequence[tuple[Decoder, PositionTables]],
    windows: Int[np.ndarray, "W T_and_1"],
    model: DecoderConfig,
    programs: list[str],
) -> list[Float[np.ndarray, "W T"]]:
    """The losses of each model, every window by itself."""
    batch = min(len(windows), max(1, TOKENS_AT_ONCE // windows.shape[1]))
    surplus = -len(windows) % batch
    batches = np.concatenate([windows, windows[:surplus]]).reshape(-1, batch, windows.shape[1])

    def job(params: Decoder, row: PositionTables, batches: Int[Array, "C B T"]) -> Float[Array, "C B T-1"]:
        return evaluate_tokens(params, row, batches, model, of_layer=lambda trace, tokens: {})[1]  # noqa: ARG005

    found = in_rounds(name, job, jobs, batches, programs, batch, model.block.width)
    return [losses.reshape(-1, windows.shape[1] - 1)[: len(windows)] for losses in found]


def _of_stream(way: str, losses: Float[np.ndarray, " M"], places: Places) -> Point:
    """Its perplexity as a whole, on what is re-computed, on what full attention reads, and by position."""
    by_place = mean_by_place(losses, np.arange(len(losses)), places.edges)
    sampled = mean_by_place(losses[places.sampled], places.sampled, places.edges)
    return {
        f"perplexity.{way}": _perplexity(np.mean(losses, dtype=np.float64)),
        f"perplexity_sampled.{way}": _perplexity(mean_of_stream(places.edges, sampled)),
        f"perplexity_start.{way}": _perplexity(np.mean(losses[: places.start], dtype=np.float64)),
        f"loss_by_position.{way}": by_place,
        f"sampled_loss_by_position.{way}": sampled,
    }


def _of_recomputed(losses: Float[np.ndarray, " n"], places: Places) -> Point:
    means = mean_by_place(losses, places.sampled, places.edges)
    return {
        f"perplexity_sampled.{RECOMPUTED}": _perplexity(mean_of_stream(places.edges, means)),
        f"loss_by_position.{RECOMPUTED}": means,
    }


def _of_dense(losses: Float[np.ndarray, " M"]) -> Point:
    edges = position_edges(len(losses))
    return {
        f"perplexity_start.{DENSE}": _perplexity(np.mean(losses, dtype=np.float64)),
        f"loss_by_position.{DENSE}": mean_by_place(losses, np.arange(len(losses)), edges),
        f"position_edges.{DENSE}": edges,
    }


def _perplexity(loss: np.floating | float) -> np.ndarray:
    return np.asarray(exponential(loss))
