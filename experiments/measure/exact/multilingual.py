"""BPE of parallel texts with unequal shares of training: what oversampling changes, a job an exponent and vocabulary."""

from collections import Counter
from collections.abc import Mapping
from itertools import product
from typing import Literal

import numpy as np
from jaxtyping import Float64

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.exact import Multilingual
from leadline.experiments.data.text.parallel import described
from leadline.experiments.measure.cost import costs
from leadline.experiments.measure.exact.job import Computed, Job, independent
from leadline.experiments.measure.exact.texts import premium_point, texts_of
from leadline.experiments.records.measurement import reading
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.bpe.tokenizer import train_bpe_on_counts
from leadline.tokenization.words import word_counts

# Times that each piece of the most weighted language counts. The others are rounded to whole numbers, at least 1.
LARGEST = 2**16


class MultilingualSettings(Frozen):
    """What decides the numbers of one tokenizer, besides the texts."""

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
    pairs = product(sorted(set(exact.exponents), reverse=True), sorted(set(exact.vocabularies)))
    every = [MultilingualSettings(vocabulary=size, exponent=exponent, **shared) for exponent, size in pairs]
    return [
        Job(
            f"exponent_{settings.exponent:g}_{settings.vocabulary}",
            f"exponent {settings.exponent:g}, {settings.vocabulary:,} ids",
            settings,
            independent(_trained, settings, texts),
            described(texts)["digest"],
        )
        for settings in every
    ]


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


def _trained(settings: MultilingualSettings, texts: Mapping[str, str]) -> Computed:
    halves = {language: divided(text) for language, text in texts.items()}
    p = shares(len(texts), settings.halving, settings.exponent)
    pieces = weighted_pieces({language: half[0] for language, half in halves.items()}, p, settings.pattern)
    try:
        tokenizer = train_bpe_on_counts(pieces, settings.vocabulary, pattern=settings.pattern)
    except ValueError as error:
        raise UserError(f"vocabularies: {settings.vocabulary}: {error}") from error
    by_language = costs(tokenizer, {language: half[1] for language, half in halves.items()})
    point = premium_point(by_language, settings.reference)
    point[reading("tokens")] = np.asarray(sum(text.tokens for text in by_language.values()))
    return Computed(point, described(texts) | {"tokenizer": tokenizer.digest()})
