"""Bits per byte of the same held-out bytes, whatever the vocabulary, and how the vocabulary is used."""

import math

import jax
import numpy as np
from jaxtyping import Array, Float, Int, UInt

from leadline.experiments.config.measure import VocabularyMeasure
from leadline.experiments.data.text.source import TextSource
from leadline.experiments.measure.kinds.kind import Models
from leadline.experiments.measure.perplexity import evaluated
from leadline.experiments.measure.scalars import scalars
from leadline.experiments.records.measurement import Point, reading
from leadline.model.decoder import Decoder
from leadline.tokenization.tokenizer import Tokenizer


def vocabulary(models: Models, settings: VocabularyMeasure) -> list[Point]:
    """Bits per byte over whole held-out documents of measure.vocabulary.bytes, and the use of the vocabulary.

    `bits_per_byte` is NaN where the tokenizer loses text; it replaces that of the curves, which is of other text.
    """
    source = models.source
    text = source.held_out_bytes(settings.bytes)
    targets = text.windows[:, 1:][text.counted]
    sizes = token_sizes(source.tokenizer, source.vocabulary)[targets].astype(np.float64)
    results = models.window_losses("bits per byte", text.windows)
    common = _use(source) | evaluated(text, of="bits_per_byte")
    common[reading("bytes_per_token")] = np.asarray(sizes.sum() / len(targets))
    lost = 0.0 if source.tokenizer.lossless else math.nan
    points = []
    for params, losses in zip(models.params, results, strict=True):
        counted = losses[text.counted].astype(np.float64)
        bits = bits_per_byte(counted[None], sizes[None]) + lost
        points.append(common | scalars({"bits_per_byte": bits, "embedding_share": _embedding_share(params)}))
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
    size = float(source.tokenizer.vocabulary_size)
    point = scalars({"vocabulary_size": size, "rare_ids": rare_ids, "rare_tokens": rare_tokens})
    for domain, ids in source.domains.items():
        point |= scalars({"unknown_share": unknown_share(ids, source.tokenizer.specials.unk)}, domain=domain)
    return point


# An id that occurs less often in training is rare: its embedding has hardly been trained.
RARE = 10


def token_sizes(tokenizer: Tokenizer, ids: int) -> Int[np.ndarray, "{ids}"]:
    """Bytes of each of `ids` ids of a tokenizer: 0 for specials, and for ids that it does not use."""
    known = min(ids, tokenizer.vocabulary_size)
    sizes = np.zeros(ids, np.int64)
    sizes[:known] = [len(tokenizer.token_bytes(i)) for i in range(known)]
    return sizes


def bits_per_byte(
    losses: Float[Array | np.ndarray, "W T"], sizes: Float[Array | np.ndarray, "W T"]
) -> Float[Array, ""] | np.floating:
    """Σ loss / (ln 2 · Σ bytes), from the loss [nats] and the bytes of every target: comparable between vocabularies.

    A target without bytes (EOS) adds its loss: the bits that a model spends on the ends of documents count.
    """
    return losses.sum() / (math.log(2) * sizes.sum())


def rare_shares(train: Int[np.ndarray, " V"], held_out: Int[np.ndarray, " V"]) -> tuple[float, float]:
    """Share of the ids that occur less than RARE times in training, and share of the held-out tokens that are such ids.

    Args:
        train: occurrences of every id in the training text.
        held_out: in the held-out text.
    """
    rare = train < RARE
    return float(np.mean(rare)), float(np.sum(held_out[rare]) / np.sum(held_out))


def unknown_share(ids: Int[np.ndarray, " ids"] | UInt[np.ndarray, " ids"], unk: int | None) -> float:
    """The share of UNK among the tokens of a text: its out-of-vocabulary rate. 0 for a tokenizer without UNK."""
    return 0.0 if unk is None else float(np.mean(ids == unk))
