"""Bits per byte of the same held-out bytes, whatever the vocabulary, and how the vocabulary is used."""

import math

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.data.text.source import TextSource
from leadline.experiments.measure.evaluate import evaluate, in_full_batches
from leadline.experiments.measure.kinds.kind import Models, required
from leadline.experiments.measure.perplexity import evaluated
from leadline.experiments.measure.vocabulary import bits_per_byte, rare_shares, token_sizes, unknown_share
from leadline.experiments.records.measurement import Point, reading
from leadline.model.decoder import Decoder
from leadline.model.positions.tables import PositionTables


def vocabulary(models: Models) -> list[Point]:
    """Bits per byte over whole held-out documents of measure.vocabulary.bytes, and the use of the vocabulary.

    `bits_per_byte` is NaN where the tokenizer loses text; it replaces that of the curves, which is of other text.
    """
    source = models.source
    text = source.held_out_bytes(required(models.measure.vocabulary).bytes)
    targets = text.windows[:, 1:][text.counted]
    sizes = token_sizes(source.tokenizer, source.vocabulary)[targets].astype(np.float64)
    batches = in_full_batches(text.windows)

    def job(params: Decoder, row: PositionTables, batches: Int[Array, "C B T_and_1"]) -> Float[Array, "W T"]:
        return evaluate(params, row, batches, models.model)[0]

    results = models.run("bits per byte", job, models.tables(), batches, batches.shape[1])
    common = _use(source) | evaluated(text, of="bits_per_byte")
    common[reading("bytes_per_token")] = np.asarray(sizes.sum() / len(targets))
    lost = 0.0 if source.tokenizer.lossless else math.nan
    points = []
    for params, losses in zip(models.params, results, strict=True):
        counted = losses[: len(text.windows)][text.counted].astype(np.float64)
        bits = bits_per_byte(counted[None], sizes[None]) + lost
        numbers = {reading("bits_per_byte"): bits, reading("embedding_share"): _embedding_share(params)}
        points.append(common | {key: np.asarray(value) for key, value in numbers.items()})
    return points


def _embedding_share(params: Decoder) -> float:
    """Weights of the embedding, and of the unembedding where it has its own, over all weights."""
    embeddings = params.embedding.size + (0 if params.unembedding is None else params.unembedding.size)
    return embeddings / sum(leaf.size for leaf in jax.tree.leaves(params))


def _use(source: TextSource) -> Point:
    """The size of the vocabulary, the shares of rare ids and tokens, and the share of UNK in each domain."""
    train, held_out = (
        sum(np.bincount(ids, minlength=source.vocabulary) for ids in side)
        for side in ([part.train for part in source.text.parts], [part.held_out for part in source.text.parts])
    )
    rare_ids, rare_tokens = rare_shares(np.asarray(train), np.asarray(held_out))
    numbers = {
        reading("vocabulary_size"): float(source.tokenizer.vocabulary_size),
        reading("rare_ids"): rare_ids,
        reading("rare_tokens"): rare_tokens,
    }
    for domain, ids in source.domains.items():
        numbers[reading("unknown_share", domain=domain)] = unknown_share(ids, source.tokenizer.specials.unk)
    return {key: np.asarray(value) for key, value in numbers.items()}
