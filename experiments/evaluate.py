"""A model measured on held-out batches, in memory that does not grow with their number."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from experiments.config.measure import SinkRate
from experiments.data.sample import Sample
from experiments.measure.layers import layer_statistics
from experiments.measure.perplexity import mean_loss
from experiments.measure.retrieval import hits
from model.block import LayerTrace
from model.decoder import Decoder, DecoderConfig, apply_decoder, apply_spread, extend
from model.embedding import token_losses
from model.positions.tables import PositionTables
from model.spread import AXIS
from model.streaming import Stream

# Tokens of one forward pass: enough to fill a core, few enough that a block of scores stays small.
TOKENS_AT_ONCE = 5000

Statistics = dict[str, Float[Array, "..."]]


def evaluate(
    params: Decoder,
    tables: PositionTables,
    batches: Int[Array, "C B T"],
    cfg: DecoderConfig,
    *,
    of_layer: Callable[[LayerTrace, Int[Array, "B T"]], Statistics],
    of_losses: Callable[[Float[Array, "B T"], Int[Array, "B T+1"]], Statistics],
) -> Statistics:
    """`of_layer` for each layer, stacked to [L, …], and `of_losses` (of token losses and ids): means over C batches."""
    return _averaged(_by_batch(params, tables, batches, cfg, of_layer, of_losses))


def text_point(
    params: Decoder, tables: PositionTables, batches: Int[Array, "C B T"], cfg: DecoderConfig, sink: SinkRate
) -> Statistics:
    """The loss [nats] of text, and what `layer_statistics` takes of every layer."""

    def of_layer(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Statistics:  # noqa: ARG001
        return layer_statistics(trace, token=sink.token, epsilon=sink.epsilon)

    def of_losses(losses: Float[Array, "B T"], tokens: Int[Array, "B T+1"]) -> Statistics:  # noqa: ARG001
        return {"loss": mean_loss(losses)}

    return evaluate(params, tables, batches, cfg, of_layer=of_layer, of_losses=of_losses)


def evaluate_stream(
    params: Decoder,
    tables: PositionTables,
    stream: Stream,
    chunks: tuple[Int[Array, "C T"], Int[Array, "C T"]],
    cfg: DecoderConfig,
) -> Float[Array, "C T"]:
    """The loss [nats] of every target of one text, cut into chunks of inputs and of targets that follow each other.

    What is kept from one chunk to the next is `stream`, whose size does not depend on C.
    """

    def one(stream: Stream, chunk: tuple[Int[Array, " T"], Int[Array, " T"]]) -> tuple[Stream, Float[Array, " T"]]:
        inputs, targets = chunk
        scores, stream = extend(params, stream, inputs[None], tables, cfg)
        return stream, token_losses(scores, targets[None])[0]

    return jax.lax.scan(one, stream, chunks)[1]


def evaluate_tokens(
    params: Decoder,
    tables: PositionTables,
    batches: Int[Array, "C B T"],
    cfg: DecoderConfig,
    *,
    of_layer: Callable[[LayerTrace, Int[Array, "B T"]], Statistics],
) -> tuple[Statistics, Float[Array, "C B T-1"]]:
    """`of_layer` as `evaluate` gives it, and the loss [nats] of every target, float32: 4 bytes a token."""
    found = _by_batch(params, tables, batches, cfg, of_layer, lambda losses, _: {_TOKEN_LOSSES: losses})
    losses = found.pop(_TOKEN_LOSSES)
    return _averaged(found), losses


_TOKEN_LOSSES = "token losses"


def _averaged(found: Statistics) -> Statistics:
    return jax.tree.map(lambda statistic: jnp.mean(statistic, axis=0), found)


def _by_batch(
    params: Decoder,
    tables: PositionTables,
    batches: Int[Array, "C B T"],
    cfg: DecoderConfig,
    of_layer: Callable[[LayerTrace, Int[Array, "B T"]], Statistics],
    of_losses: Callable[[Float[Array, "B T"], Int[Array, "B T+1"]], Statistics],
) -> Statistics:
    """Both of each batch, one after the other, stacked to [C, …]."""

    def one(tokens: Int[Array, "B T"]) -> Statistics:
        losses, layers = _losses_and_layers(params, tables, tokens, cfg, of_layer)
        return layers | of_losses(losses, tokens)

    return jax.lax.map(one, batches)


def _losses_and_layers(
    params: Decoder,
    tables: PositionTables,
    tokens: Int[Array, "B T_and_1"],
    cfg: DecoderConfig,
    of_layer: Callable[[LayerTrace, Int[Array, "B T"]], Statistics],
) -> tuple[Float[Array, "B T"], Statistics]:
    """Of every target, and `of_layer`; with the text spread over devices where the mesh has several for it."""
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    if jax.sharding.get_abstract_mesh().shape[AXIS] == 1 or cfg.block.table_per == "query":
        scores, layers = apply_decoder(params, inputs, tables, cfg, measure=lambda trace: of_layer(trace, inputs))
        return token_losses(scores, targets), layers
    scores, layers = apply_spread(params, inputs, tables, cfg, measure=of_layer)
    return jax.reshard(token_losses(scores, jax.reshard(targets, P(None, AXIS))), P(None, None)), layers


def evaluate_answers(
    params: Decoder, tables: PositionTables, batches: Sample, cfg: DecoderConfig
) -> tuple[Bool[Array, "C B T"], Float[Array, "C B T"]]:
    """Which targets of C batches have the largest logit, and their losses [nats]."""

    def one(sample: Sample) -> tuple[Bool[Array, "B T"], Float[Array, "B T"]]:
        scores, _ = apply_decoder(params, sample.tokens[:, :-1], tables, cfg)
        return hits(scores, sample.tokens), token_losses(scores, sample.tokens[:, 1:])

    return jax.lax.map(one, batches)


def in_batches(windows: Int[np.ndarray, "W T"], tokens_at_once: int) -> Int[np.ndarray, "C B T"]:
    """All windows in equal batches of at most `tokens_at_once` tokens (or one window, if that is longer)."""
    batch = _batch(len(windows), windows.shape[1], tokens_at_once)
    return windows.reshape(-1, batch, windows.shape[1])


def sample_in_batches(sample: Sample, tokens_at_once: int) -> Sample:
    """The same of the rows of a sample, as arrays [C, B, …] on the host."""
    rows, ids = sample.tokens.shape
    batch = _batch(rows, ids, tokens_at_once)
    return jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, batch, leaf.shape[1]), sample)


def _batch(rows: int, length: int, tokens_at_once: int) -> int:
    fitting = range(1, max(1, tokens_at_once // length) + 1)
    return max(size for size in fitting if rows % size == 0)
