"""Training a unigram model: of many seed pieces, those are removed that cost least likelihood (Kudo 2018, section 3.2).

The library `tokenizers` (0.23) finds other pieces of the same words. It differs in three rules:

1. Its seeds are the inner nodes of a suffix tree, ours all repeated strings. A string that the same character always follows,
   or that always ends a word, is no inner node.
2. It scores seeds by their length times their places in distinct words, characters by their count in the text, and keeps all
   seeds. We keep ten times as many as the vocabulary is to have.
3. It takes the loss of a removal from the second best segmentation alone, in whose sum of counts it adds the size of the
   vocabulary in place of the number of pieces of that segmentation. It stops at 1.1 times the size, and keeps the best by loss.

With these rules our expectation maximization gives the pieces and scores of the library; with ours, held-out documents take at
least 3 % fewer tokens (tests/oracles/test_unigram.py).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64

from leadline.tokenization.normalization import Step
from leadline.tokenization.unigram.em import expectation, lattices, maximization, removal_losses
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer
from leadline.tokenization.words import sequence_of_texts

CHARACTER_COUNT = 0.5  # the least count of a character, so that it stays possible where longer pieces replace it
LONGEST_WORD = 1000  # characters; longer words are cut, as a pass takes an operation for each character of the longest
LONGEST_PIECE = 16  # characters
SEEDS = 10  # pieces to begin with, for each id of the vocabulary
KEPT = 0.75  # share of the pieces that a round keeps
ITERATIONS = 2  # of EM in a round


@dataclass(frozen=True)
class TrainingRound:
    """The model after one round of training.

    Attributes:
        pieces: The pieces that remain.
        scores: Their log probabilities, in nats.
        log_likelihood: Of all words before the last M step, in nats.
        tokens: The expected number of pieces of all words.
    """

    pieces: tuple[str, ...]
    scores: Float64[np.ndarray, "V"]
    log_likelihood: float
    tokens: float


def train_unigram(
    texts: Iterable[str | bytes],
    size: int,
    *,
    byte_fallback: bool = False,
    escape: bool = False,
    dummy_prefix: bool = False,
    pattern: str = "gpt2",
    normalization: Sequence[Step] = (),
) -> UnigramTokenizer:
    """Trains a tokenizer of `size` ids, or of fewer if the texts have no more repeated pieces.

    Args:
        texts: The training texts.
        size: The number of ids, specials and bytes included.
        byte_fallback: A field of the tokenizer, as are the following.
        escape: Whether spaces become a visible sign.
        dummy_prefix: Whether a text begins with a space.
        pattern: Cuts texts into words.
        normalization: Steps before texts are cut.

    Returns:
        The tokenizer, whose pieces descend by probability.

    Raises:
        ValueError: The texts have no word, the size has no room for every character, or as `word_counts`.
    """
    untrained = UnigramTokenizer((), (), byte_fallback, escape, dummy_prefix, pattern, normalization=tuple(normalization))
    *_, last = rounds_of_texts(texts, size, untrained)
    best = sorted(zip(last.pieces, last.scores.tolist(), strict=True), key=lambda entry: (-entry[1], entry[0]))
    return replace(untrained, pieces=tuple(piece for piece, _ in best), scores=tuple(score for _, score in best))


def rounds_of_texts(texts: Iterable[str | bytes], size: int, untrained: UnigramTokenizer) -> Iterator[TrainingRound]:
    """Yields the rounds in which a tokenizer without pieces is trained to `size` ids. Raises what `train_unigram` does."""
    return training_rounds(_counts(texts, untrained), size - untrained.vocabulary_size, SEEDS * size)


def training_rounds(counts: Mapping[str, int], size: int, seed_size: int) -> Iterator[TrainingRound]:
    """Yields the rounds of training: iterations of EM (by digamma) and, except in the last round, the removal of pieces.

    The pieces are removed whose removal costs least likelihood; of equal ones the shorter, then the last by code points. Single
    characters always stay, so the vocabulary of a round is a subset of the one before.

    Args:
        counts: How often each word occurs.
        size: The number of pieces of the last round.
        seed_size: The number of longer pieces to begin with: the substrings that occur at least twice, by count times length.

    Raises:
        ValueError: There is no word, or the size has no room for every character.
    """
    words = sorted(counts, key=_longest_first)
    weights = np.array([counts[word] for word in words], np.float64)
    alphabet, pieces, seen = _seeds(counts, seed_size)
    if not pieces:
        raise ValueError("these texts contain no word to train on")
    if size < alphabet:
        raise ValueError(f"there is no room for the {alphabet} characters of these texts in {size} pieces")
    arcs = lattices(words, _numbered(pieces), LONGEST_PIECE)
    scores = maximization(seen, "likelihood")
    while True:
        last = len(pieces) <= size
        least = np.where(last | (np.arange(len(pieces)) < alphabet), CHARACTER_COUNT, 1e-300)
        for _ in range(ITERATIONS - 1):
            scores = maximization(expectation(arcs, weights, scores)[0], "digamma", least)
        expected, log_likelihood = expectation(arcs, weights, scores)
        scores = maximization(expected, "digamma", least)
        yield TrainingRound(tuple(pieces), scores, log_likelihood, float(expected.sum()))
        if last:
            return
        remaining = max(size, int(KEPT * len(pieces)))
        kept = _kept(pieces, alphabet, remaining, expected, scores)
        pieces = [piece for piece, stays in zip(pieces, kept.tolist(), strict=True) if stays]
        arcs, scores = arcs.restrict(kept), scores[kept]


def _counts(texts: Iterable[str | bytes], tokenizer: UnigramTokenizer) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in sequence_of_texts(texts):
        for word in tokenizer.words(text):
            counts.update(word[i : i + LONGEST_WORD] for i in range(0, len(word), LONGEST_WORD))
    return counts


def _seeds(counts: Mapping[str, int], seed_size: int) -> tuple[int, list[str], Float64[np.ndarray, "V"]]:
    """The number of characters; the characters in order and then the longer pieces, the longest first; and their counts."""
    seen: Counter[str] = Counter()
    for word, count in counts.items():
        for start in range(len(word)):
            for end in range(start + 1, min(len(word), start + LONGEST_PIECE) + 1):
                seen[word[start:end]] += count
    alphabet = sorted(piece for piece in seen if len(piece) == 1)
    longer = [piece for piece, count in seen.items() if len(piece) > 1 < count]
    seeds = sorted(longer, key=lambda piece: (-seen[piece] * len(piece), piece))[:seed_size]
    pieces = alphabet + sorted(seeds, key=_longest_first)
    return len(alphabet), pieces, np.array([seen[piece] for piece in pieces], np.float64)


def _kept(
    pieces: Sequence[str],
    alphabet: int,
    size: int,
    counts: Float64[np.ndarray, "V"],
    scores: Float64[np.ndarray, "V"],
) -> Bool[np.ndarray, "V"]:
    """Which pieces stay: the characters, which come first, and those of the others with the greatest losses."""
    losses = removal_losses(lattices(pieces[alphabet:], _numbered(pieces), LONGEST_PIECE), counts, scores)
    order = np.argsort(-losses, kind="stable")
    kept = np.arange(len(pieces)) < alphabet
    kept[alphabet + order[: size - alphabet]] = True
    return kept


def _numbered(pieces: Sequence[str]) -> dict[str, int]:
    return {piece: i for i, piece in enumerate(pieces)}


def _longest_first(piece: str) -> tuple[int, str]:
    return -len(piece), piece
