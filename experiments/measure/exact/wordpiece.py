"""WordPiece trained by each criterion on the same text: what its pieces cost other text, and how likely they make their own."""

from collections.abc import Sequence
from itertools import islice
from typing import Literal

import numpy as np

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.exact import WordPieceComparison
from leadline.experiments.data.text.corpus import Corpus, Document
from leadline.experiments.data.text.split import corpus_digest
from leadline.experiments.measure.cost import Cost, cost
from leadline.experiments.measure.exact.job import Computed, Job, independent
from leadline.experiments.measure.scalars import scalars
from leadline.experiments.records.measurement import Point
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.tokenizer import Tokenizer
from leadline.tokenization.wordpiece.training import Criterion, train_wordpiece


class WordPieceSettings(Frozen):
    """What decides the numbers of one criterion, besides the texts."""

    kind: Literal["wordpiece"] = "wordpiece"
    criterion: Criterion
    minimum_count: int  # of a pair that is merged
    vocabularies: tuple[int, ...]


# Arm, label, criterion and minimum count: rare pairs have the best ratio, so that criterion is trained with a bound too.
WAYS: tuple[tuple[str, str, Criterion, int], ...] = (
    ("wordpiece_frequency", "pairs by frequency", "frequency", 1),
    ("wordpiece_ratio", "pairs by n(ab) / (n(a) n(b))", "ratio", 1),
    ("wordpiece_ratio_5", "pairs by n(ab) / (n(a) n(b)), of those that occur 5 times", "ratio", 5),
    ("wordpiece_likelihood", "pairs by gain in likelihood", "likelihood_gain", 1),
)


def wordpiece_jobs(exact: WordPieceComparison, corpus: Corpus) -> list[Job]:
    """A job a way: every n-th document of the corpus to train on, and as many between them to count.

    The numbers of each vocabulary have the dimension `vocabulary`: a smaller vocabulary is the first pieces of the largest.
    """
    train, held_out = (list(islice(corpus, first, None, exact.every)) for first in (0, exact.every // 2))
    digest = corpus_digest([*train, *held_out])
    sizes = tuple(sorted(set(exact.vocabularies)))
    planned = []
    for name, label, criterion, minimum_count in WAYS:
        settings = WordPieceSettings(criterion=criterion, minimum_count=minimum_count, vocabularies=sizes)
        compute = independent(_trained, settings, train, held_out, digest)
        planned.append(Job(name, label, settings, compute, digest))
    return planned


def _trained(settings: WordPieceSettings, train: Sequence[Document], held_out: Sequence[Document], digest: str) -> Computed:
    texts, others = ([document.text.decode() for document in side] for side in (train, held_out))
    point: Point = {}
    try:
        trained = train_wordpiece(texts, settings.vocabularies[-1], settings.criterion, minimum_count=settings.minimum_count)
        for size in settings.vocabularies:
            point |= _measured(trained.tokenizer(size), size, texts, others)
    except ValueError as error:
        raise UserError(f"wordpiece.vocabularies: {error}") from error
    sides = {"train_bytes": train, "held_out_bytes": held_out}
    sizes = {name: sum(len(document.text) for document in side) for name, side in sides.items()}
    return Computed(point, {"name": "stdlib", "digest": digest, **sizes})


def _measured(tokenizer: Tokenizer, size: int, train: Sequence[str], held_out: Sequence[str]) -> Point:
    whole = sum((cost(tokenizer, text) for text in held_out), Cost(0, 0, 0, 0))
    used = np.unique(np.concatenate(tokenizer.encode_batch(held_out)))
    shares = {
        "tokens": whole.tokens,
        "bytes_per_token": whole.bytes_per_token,
        "unknown_share": whole.unknown / whole.tokens,
        "used_share": len(used) / size,
        "unigram_bits": unigram_bits(tokenizer, train),
    }
    return scalars(shares, vocabulary=size)


def unigram_bits(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """-Σ_t n_t log2(n_t / n) / bytes: bits a byte of the texts under independent tokens of their own frequencies."""
    counts = np.bincount(np.concatenate(tokenizer.encode_batch(texts)))
    counts = counts[counts > 0]
    return float(-np.sum(counts * np.log2(counts / counts.sum())) / sum(len(text.encode()) for text in texts))
