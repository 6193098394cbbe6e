"""Tokenizers that a study trains: BPE with unequal shares of languages, and ways to train WordPiece and BPE on one text."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, product
from typing import Literal

import numpy as np
from jaxtyping import Float64

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.exact import Multilingual, TokenizerComparison
from leadline.experiments.data.text.corpus import Corpus, Document
from leadline.experiments.data.text.parallel import described
from leadline.experiments.data.text.split import corpus_digest
from leadline.experiments.measure.exact.job import Computed, Job, independent
from leadline.experiments.measure.exact.texts import costs, premium_point, texts_of
from leadline.experiments.records.measurement import Point, reading, scalars
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.bpe.tokenizer import train_bpe, train_bpe_on_counts
from leadline.tokenization.pretokenization import WHOLE
from leadline.tokenization.tokenizer import Tokenizer
from leadline.tokenization.wordpiece.training import Criterion, train_wordpiece
from leadline.tokenization.words import word_counts

# Times that each piece of the most weighted language counts. The others are rounded to whole numbers, at least 1.
LARGEST = 2**16


class MultilingualSettings(Frozen):
    """What decides the numbers of one multilingual tokenizer, besides the texts."""

    kind: Literal["multilingual"] = "multilingual"
    vocabulary: int
    exponent: float
    halving: float
    pattern: str
    reference: str


def jobs(exact: Multilingual) -> list[Job]:
    """A job for each exponent, from uneven to even shares, and vocabulary.

    Raises:
        UserError: for texts that cannot be read.
    """
    texts = texts_of(exact.texts, exact.reference)
    shared = {"halving": exact.halving, "pattern": exact.pattern, "reference": exact.reference}
    digest, planned = described(texts)["digest"], []
    for exponent, size in product(sorted(set(exact.exponents), reverse=True), sorted(set(exact.vocabularies))):
        settings = MultilingualSettings(vocabulary=size, exponent=exponent, **shared)
        name, label = f"exponent_{exponent:g}_{size}", f"exponent {exponent:g}, {size:,} ids"
        planned.append(Job(name, label, settings, independent(_multilingual, settings, texts), digest))
    return planned


def divided(text: str) -> tuple[str, str]:
    """Every other line to train on, and the rest to count: both have all parts of the text."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[::2]), "".join(lines[1::2])


def shares(count: int, halving: float, exponent: float) -> Float64[np.ndarray, " count"]:
    """p_i ∝ q_i^exponent with q_i ∝ halving^-i: the share of each language in training.

    Conneau et al. 2020 (arXiv:1911.02116), section 3.1, with the q_i of their data.
    """
    p = np.power(np.power(halving, -np.arange(count, dtype=np.float64)), exponent)
    return p / p.sum()


def weighted_pieces(texts: Mapping[str, str], p: Float64[np.ndarray, " count"], pattern: str) -> Counter[str]:
    """How often each piece occurs where each text has its share `p` of the bytes."""
    weights = p / np.array([len(text.encode()) for text in texts.values()])
    times = np.maximum(1, np.rint(weights / weights.max() * LARGEST)).astype(int)
    counted: Counter[str] = Counter()
    for text, factor in zip(texts.values(), times.tolist(), strict=True):
        for piece, count in word_counts([text], pattern).items():
            counted[piece] += count * factor
    return counted


def _multilingual(settings: MultilingualSettings, texts: Mapping[str, str]) -> Computed:
    halves = {language: divided(text) for language, text in texts.items()}
    p = shares(len(texts), settings.halving, settings.exponent)
    try:
        pieces = weighted_pieces({language: half[0] for language, half in halves.items()}, p, settings.pattern)
        tokenizer = train_bpe_on_counts(pieces, settings.vocabulary, pattern=settings.pattern)
    except ValueError as error:
        raise UserError(f"exact: {settings.vocabulary} ids by pattern {settings.pattern!r}: {error}") from error
    by_language = costs(tokenizer, {language: half[1] for language, half in halves.items()})
    point = premium_point(by_language, settings.reference)
    point[reading("tokens")] = np.asarray(sum(text.tokens for text in by_language.values()))
    return Computed(point, described(texts) | {"tokenizer": tokenizer.digest()})


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


class BpeSettings(Frozen):
    """What decides the numbers of byte-level BPE with one pattern, besides the texts."""

    kind: Literal["bpe"] = "bpe"
    pattern: str  # cuts texts into words, which no token crosses
    vocabularies: tuple[int, ...]


# Arm, label and pattern.
PATTERNS = (
    ("bpe_gpt4", "byte-level BPE of words by GPT-4's pattern", "gpt4"),
    ("bpe_whole", "byte-level BPE of whole documents", WHOLE),
)


def wordpiece_jobs(exact: TokenizerComparison, corpus: Corpus) -> list[Job]:
    """A job a criterion: each trained on every n-th document of the corpus, and counted on as many between them."""
    sizes = tuple(sorted(set(exact.vocabularies)))
    ways = {
        (name, label): WordPieceSettings(criterion=criterion, minimum_count=minimum_count, vocabularies=sizes)
        for name, label, criterion, minimum_count in WAYS
    }
    return _comparison(exact, corpus, ways)


def bpe_jobs(exact: TokenizerComparison, corpus: Corpus) -> list[Job]:
    """A job a pattern: byte-level BPE, trained and counted on the documents that WordPiece is."""
    sizes = tuple(sorted(set(exact.vocabularies)))
    ways = {(name, label): BpeSettings(pattern=pattern, vocabularies=sizes) for name, label, pattern in PATTERNS}
    return _comparison(exact, corpus, ways)


def _comparison(
    exact: TokenizerComparison, corpus: Corpus, ways: Mapping[tuple[str, str], WordPieceSettings | BpeSettings]
) -> list[Job]:
    """A job for each settings by name and label.

    The numbers of each vocabulary have the dimension `vocabulary`: a smaller vocabulary is the first pieces of the largest.
    """
    train, held_out = (list(islice(corpus, first, None, exact.every)) for first in (0, exact.every // 2))
    digest = corpus_digest([*train, *held_out])
    return [
        Job(name, label, settings, independent(_compared, settings, train, held_out, digest), digest)
        for (name, label), settings in ways.items()
    ]


def _trained(settings: WordPieceSettings | BpeSettings, texts: Sequence[str]) -> Callable[[int], Tokenizer]:
    """The tokenizer of each vocabulary."""
    largest = settings.vocabularies[-1]
    if isinstance(settings, BpeSettings):
        return train_bpe(texts, largest, pattern=settings.pattern).shortened
    return train_wordpiece(texts, largest, settings.criterion, minimum_count=settings.minimum_count).tokenizer


def _compared(
    settings: WordPieceSettings | BpeSettings, train: Sequence[Document], held_out: Sequence[Document], digest: str
) -> Computed:
    texts, others = ([document.text.decode() for document in side] for side in (train, held_out))
    sides = {"train_bytes": train, "held_out_bytes": held_out}
    sizes = {name: sum(len(document.text) for document in side) for name, side in sides.items()}
    point: Point = {}
    try:
        tokenizer_of = _trained(settings, texts)
        for size in settings.vocabularies:
            tokenizer = tokenizer_of(size)
            ids, unknown = np.concatenate(tokenizer.encode_batch(others)), tokenizer.specials.unk
            numbers = {
                "tokens": len(ids),
                "bytes_per_token": sizes["held_out_bytes"] / len(ids),
                "unknown_share": None if unknown is None else np.mean(ids == unknown),
                "used_share": len(np.unique(ids)) / size,
                "unigram_bits": unigram_bits(tokenizer, texts),
            }
            point |= scalars(numbers, vocabulary=size)
    except ValueError as error:
        raise UserError(f"{settings.kind}.vocabularies: {error}") from error
    return Computed(point, {"name": "stdlib", "digest": digest, **sizes})


def unigram_bits(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """-Σ_t n_t log2(n_t / n) / bytes: bits a byte of the texts under independent tokens of their own frequencies."""
    counts = np.bincount(np.concatenate(tokenizer.encode_batch(texts)))
    counts = counts[counts > 0]
    return float(-np.sum(counts * np.log2(counts / counts.sum())) / sum(len(text.encode()) for text in texts))
