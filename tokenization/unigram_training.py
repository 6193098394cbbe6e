"""Training a unigram model: many pieces at first, of which those go that are missed least (Kudo 2018, section 3.2)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from tokenization.normalization import Step
from tokenization.unigram import UnigramTokenizer
from tokenization.unigram_em import Maximisation, expectation, lattices, maximisation, removal_losses

CHARACTER_COUNT = 0.5  # what a character counts for at least, so that it stays possible where longer pieces replace it
LONGEST_WORD = 1000  # characters; far longer than words are


@dataclass(frozen=True)
class Round:
    """The model after one round of training.

    Attributes:
        pieces: those that are left.
        scores: their log probabilities, in nats.
        log_likelihood: of all words, before the last M step, in nats.
        tokens: the expected number of pieces of all words.
    """

    pieces: tuple[str, ...]
    scores: Float64[np.ndarray, "V"]
    log_likelihood: float
    tokens: float


@dataclass(frozen=True)
class UnigramTraining:
    """The tokenizer, and the rounds that led to it."""

    tokenizer: UnigramTokenizer
    rounds: tuple[Round, ...]


def train_unigram(
    texts: Iterable[str | bytes],
    size: int,
    *,
    m_step: Maximisation = "digamma",
    byte_fallback: bool = False,
    escape: bool = False,
    dummy_prefix: bool = False,
    pattern: str = "gpt2",
    single_digits: bool = False,
    normalization: Sequence[Step] = (),
    longest_piece: int = 16,
    seeds: int | None = None,
    share: float = 0.75,
    iterations: int = 2,
) -> UnigramTraining:
    """The tokenizer of `size` ids, of fewer if the texts have no more repeated pieces. Its pieces descend by probability.

    Args:
        texts: what it is trained on.
        size: the number of ids, specials and bytes included.
        m_step, longest_piece, seeds, share, iterations: as `rounds` takes them; 10 seeds for each id unless given.
        byte_fallback, escape, dummy_prefix, pattern, single_digits, normalization: as the tokenizer has them.

    Raises ValueError for texts without any word, for a size without room for every character, and what `word_counts` does.
    """
    fields = byte_fallback, escape, dummy_prefix, pattern, single_digits, tuple(normalization)
    empty = UnigramTokenizer((), (), *fields)
    counts = _counts(texts, empty)
    found = tuple(
        rounds(
            counts,
            size - empty.vocabulary_size,
            m_step=m_step,
            longest_piece=longest_piece,
            seeds=10 * size if seeds is None else seeds,
            share=share,
            iterations=iterations,
        )
    )
    best = sorted(zip(found[-1].pieces, found[-1].scores.tolist(), strict=True), key=lambda entry: (-entry[1], entry[0]))
    tokenizer = UnigramTokenizer(tuple(piece for piece, _ in best), tuple(score for _, score in best), *fields)
    return UnigramTraining(tokenizer, found)


def rounds(
    counts: Mapping[str, int],
    size: int,
    *,
    m_step: Maximisation = "digamma",
    longest_piece: int = 16,
    seeds: int = 100_000,
    share: float = 0.75,
    iterations: int = 2,
) -> Iterator[Round]:
    """The rounds of training, one after the other: some iterations of EM, and, but for the last, the removal of some pieces.

    The pieces that are removed are those whose removal costs least likelihood; of equal ones, the shorter, and then that which
    comes last by code points. Single characters always stay, so the vocabularies of later rounds are subsets of earlier ones.

    Args:
        counts: how often each word occurs.
        size: the number of pieces of the last round.
        m_step: how expected counts become probabilities.
        longest_piece: in characters.
        seeds: longer pieces at first: the substrings that occur twice at least, by their count times their length.
        share: of the pieces, what a round keeps.
        iterations: of EM in a round.

    Raises ValueError without words, for a size without room for every character, and for a share or iterations out of range.
    """
    if not 0 < share < 1 or iterations < 1:
        raise ValueError(f"a round keeps a share between 0 and 1 in 1 iteration or more, not {share} in {iterations}")
    words = sorted(counts, key=_longest_first)
    weights = np.array([counts[word] for word in words], np.float64)
    alphabet, pieces, seen = _seeds(counts, longest_piece, seeds)
    if not pieces:
        raise ValueError("these texts hold no word to train on")
    if size < alphabet:
        raise ValueError(f"there is no room for the {alphabet} characters of these texts in {size} pieces")
    arcs = lattices(words, _numbered(pieces), longest_piece)
    scores = maximisation(seen, "likelihood")
    while True:
        last = len(pieces) <= size
        least = np.where(last | (np.arange(len(pieces)) < alphabet), CHARACTER_COUNT, 1e-300)
        for _ in range(iterations - 1):
            scores = maximisation(expectation(arcs, weights, scores)[0], m_step, least)
        expected, log_likelihood = expectation(arcs, weights, scores)
        scores = maximisation(expected, m_step, least)
        yield Round(tuple(pieces), scores, log_likelihood, float(expected.sum()))
        if last:
            return
        kept = _kept(pieces, alphabet, max(size, int(share * len(pieces))), longest_piece, expected, scores)
        pieces = [piece for piece, stays in zip(pieces, kept.tolist(), strict=True) if stays]
        arcs, scores = arcs.keep(kept), scores[kept]


def _counts(texts: Iterable[str | bytes], tokenizer: UnigramTokenizer) -> Counter[str]:
    """How often each pre-token occurs. Long ones are cut, for a pass takes a step for each character of the longest."""
    if isinstance(texts, str | bytes):
        raise ValueError("give a sequence of texts; this is one text")
    found: Counter[str] = Counter()
    for text in texts:
        for word in tokenizer.words(text):
            found.update(word[i : i + LONGEST_WORD] for i in range(0, len(word), LONGEST_WORD))
    return found


def _seeds(counts: Mapping[str, int], longest: int, seeds: int) -> tuple[int, list[str], Float64[np.ndarray, "V"]]:
    """The number of characters, the characters in order and then other pieces, the longest first; and how often each occurs."""
    seen: Counter[str] = Counter()
    for word, count in counts.items():
        for start in range(len(word)):
            for end in range(start + 1, min(len(word), start + longest) + 1):
                seen[word[start:end]] += count
    alphabet = sorted(piece for piece in seen if len(piece) == 1)
    longer = [piece for piece, count in seen.items() if len(piece) > 1 < count]
    first = sorted(longer, key=lambda piece: (-seen[piece] * len(piece), piece))[:seeds]
    pieces = alphabet + sorted(first, key=_longest_first)
    return len(alphabet), pieces, np.array([seen[piece] for piece in pieces], np.float64)


def _kept(
    pieces: Sequence[str],
    alphabet: int,
    size: int,
    longest: int,
    counts: Float64[np.ndarray, "V"],
    scores: Float64[np.ndarray, "V"],
) -> Bool[np.ndarray, "V"]:
    """Which pieces stay: the characters, which come first, and those of the others with the greatest losses."""
    own = lattices(pieces[alphabet:], _numbered(pieces), longest)
    order = np.argsort(-removal_losses(own, counts, scores), kind="stable")
    kept = np.arange(len(pieces)) < alphabet
    kept[alphabet + order[: size - alphabet]] = True
    return kept


def _numbered(pieces: Sequence[str]) -> dict[str, int]:
    return {piece: i for i, piece in enumerate(pieces)}


def _longest_first(piece: str) -> tuple[int, str]:
    return -len(piece), piece
