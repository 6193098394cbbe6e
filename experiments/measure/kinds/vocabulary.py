"""Bits per byte of the same held-out bytes, whatever the vocabulary, and how the vocabulary is used."""

import math
from typing import TypeVar

import jax
import numpy as np
from jaxtyping import Array, Float, Int, UInt

from leadline.experiments.config.measure import VocabularyMeasure
from leadline.experiments.data.text.held_out import by_domain
from leadline.experiments.data.text.source import TextSource
from leadline.experiments.measure.evaluate import Models
from leadline.experiments.measure.perplexity import evaluated, means_without
from leadline.experiments.records.left_out import with_left_out
from leadline.experiments.records.measurement import Point, reading, scalars
from leadline.tokenization.tokenizer import Tokenizer

Numbers = TypeVar("Numbers", Array, np.ndarray)


def vocabulary(models: Models, settings: VocabularyMeasure) -> list[Point]:
    """Bits per byte over whole held-out documents of measure.vocabulary.bytes, and the use of the vocabulary.

    `bits_per_byte` is NaN where the tokenizer loses text; it replaces that of the curves, which is of other text. It is
    measured again without each group of documents.
    """
    source = models.source
    text = source.held_out_bytes(settings.bytes)
    targets = text.windows[:, 1:][text.counted]
    sizes = token_sizes(source.tokenizer, source.vocabulary)[targets].astype(np.float64)
    results, groups = models.window_losses("bits per byte", text.windows), text.groups[text.counted]
    count_bytes = means_without(sizes, groups)
    use = {"vocabulary_size": float(source.tokenizer.vocabulary_size)} | _rare(source)
    common = scalars(use | {"bytes_per_token": sizes.sum() / len(targets)}) | evaluated(text, of="bits_per_byte")
    for domain, documents in by_domain(source.text.documents).items():
        common |= scalars({"unknown_share": unknown_share(documents.ids, source.tokenizer.specials.unk)}, domain=domain)
    lost = 0.0 if source.tokenizer.lossless else math.nan
    points = []
    for params, losses in zip(models.params, results, strict=True):
        nats = means_without(losses[text.counted].astype(np.float64), groups)
        embeddings = params.embedding.size + (0 if params.unembedding is None else params.unembedding.size)
        share = embeddings / sum(leaf.size for leaf in jax.tree.leaves(params))
        bits = bits_per_byte(nats, count_bytes) + lost
        of_text = with_left_out(reading("bits_per_byte"), bits, enough=text.enough_documents)
        points.append(common | scalars({"embedding_share": share}) | of_text)
    return points


# An id that occurs less often in training is rare: its embedding has hardly been trained.
RARE = 10


def token_sizes(tokenizer: Tokenizer, ids: int) -> Int[np.ndarray, "{ids}"]:
    """Bytes of each of `ids` ids of a tokenizer: 0 for specials, and for ids that it does not use."""
    known = min(ids, tokenizer.vocabulary_size)
    sizes = np.zeros(ids, np.int64)
    sizes[:known] = [len(tokenizer.token_bytes(i)) for i in range(known)]
    return sizes


def target_sizes(source: TextSource, windows: Int[np.ndarray, "W T_and_1"]) -> Float[np.ndarray, "W T"]:
    """Bytes of each target of each window; NaN where the tokenizer loses text."""
    lost = 0.0 if source.tokenizer.lossless else math.nan
    return token_sizes(source.tokenizer, source.vocabulary)[windows[:, 1:]] + lost


def bits_per_byte(nats: Float[Numbers, "*axes"], count_bytes: Float[Numbers, "*axes"]) -> Float[Numbers, "*axes"]:
    """Σ loss / (ln 2 · Σ bytes), from the loss [nats] and the bytes of all targets: comparable between vocabularies.

    A target without bytes (EOS) adds its loss: the bits that a model spends on the ends of documents count. Means over the same
    targets do as well as sums.
    """
    return nats / (math.log(2) * count_bytes)


def rare_shares(train: Int[np.ndarray, " V"], held_out: Int[np.ndarray, " V"]) -> tuple[float, float]:
    """Share of the ids that occur less than RARE times in training, and share of the held-out tokens that are such ids.

    Both arguments are occurrences of every id.
    """
    rare = train < RARE
    return float(np.mean(rare)), float(np.sum(held_out[rare]) / np.sum(held_out))


def occurrences(source: TextSource) -> tuple[Int[np.ndarray, " V"], Int[np.ndarray, " V"]] | None:
    """How often each id occurs in the training text and in the held-out text; None where the training text is not at hand."""
    parts = source.text.parts
    if not parts:
        return None
    sides = [part.train for part in parts], [part.held_out for part in parts]
    train, held_out = (np.asarray(sum(np.bincount(ids, minlength=source.vocabulary) for ids in side)) for side in sides)
    return train, held_out


def _rare(source: TextSource) -> dict[str, float]:
    """`rare_shares` of the source; nothing where its training text is not at hand, as of a published model."""
    counts = occurrences(source)
    return {} if counts is None else dict(zip(("rare_ids", "rare_tokens"), rare_shares(*counts), strict=True))


def unknown_share(ids: Int[np.ndarray, " ids"] | UInt[np.ndarray, " ids"], unk: int | None) -> float:
    """The share of UNK among the tokens of a text: its out-of-vocabulary rate. 0 for a tokenizer without UNK."""
    return 0.0 if unk is None else float(np.mean(ids == unk))
