"""Training WordPiece: neighbouring pieces are merged, one pair at a time, by one of three criteria.

With n(x) the number of occurrences of a piece or pair, N the number of all pieces of the text, and f(x) = n(x) / N, the pair
(a, b) is merged that has the greatest

frequency: n(ab). This is byte pair encoding inside words, and what the WordPiece trainer of the `tokenizers` library does.
ratio: n(ab) / (n(a) n(b)). This is the score in Hugging Face's course (chapter 6, WordPiece tokenization). It does not weigh
    how often a pair occurs, so it prefers rare pairs whose parts occur nowhere else.
likelihood_gain: n(ab) log(f(ab) / (f(a) f(b))), in nats. This is the gain in the log likelihood of the text under independent
    pieces when each occurrence of the pair is scored log f(ab) in place of log f(a) + log f(b). Schuster and Nakajima (2012,
    Japanese and Korean voice search) choose the piece "that increases the likelihood on the training data the most when added
    to the model".
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Literal, get_args

from leadline.tokenization.base import check_choice
from leadline.tokenization.normalization import Step
from leadline.tokenization.wordpiece.tokenizer import CONTINUATION, WordPieceTokenizer, continues
from leadline.tokenization.words import word_counts

Criterion = Literal["frequency", "ratio", "likelihood_gain"]
Pair = tuple[str, str]


@dataclass(frozen=True)
class MergeStep:
    """One step of training: the pair, the piece that it becomes, and the pair's count and score before the merge.

    The score is exact by "frequency" and "ratio", and in nats by "likelihood_gain".
    """

    left: str
    right: str
    piece: str
    count: int
    score: Fraction | float


@dataclass(frozen=True)
class WordPieceTraining:
    """The pieces of single characters and every merge in order, from which each smaller vocabulary follows.

    Attributes:
        untrained: The tokenizer without pieces.
        alphabet: The pieces of single characters.
        merges: The steps of training.
    """

    untrained: WordPieceTokenizer
    alphabet: tuple[str, ...]
    merges: tuple[MergeStep, ...]

    def tokenizer(self, size: int | None = None) -> WordPieceTokenizer:
        """The tokenizer of the first `size` ids, specials included, or of all.

        Raises:
            ValueError: The size has no room for the alphabet, or is greater than what was trained.
        """
        pieces = tuple(dict.fromkeys([*self.alphabet, *(merge.piece for merge in self.merges)]))
        first = self.untrained.vocabulary_size
        least, most = first + len(self.alphabet), first + len(pieces)
        if size is not None and not least <= size <= most:
            raise ValueError(f"this training gives vocabularies of {least} (single characters) to {most} ids, not {size}")
        return replace(self.untrained, pieces=pieces if size is None else pieces[: size - first])


def train_wordpiece(
    texts: Iterable[str | bytes],
    size: int,
    criterion: Criterion,
    *,
    minimum_count: int = 1,
    pattern: str = "words",
    normalization: Sequence[Step] = (),
    byte_fallback: bool = False,
) -> WordPieceTraining:
    """Merges pairs until the vocabulary has `size` ids, or no pair is left.

    Args:
        texts: The training texts.
        size: The number of ids, specials included.
        criterion: Which pair is merged next.
        minimum_count: A pair that occurs less often is not merged. By "ratio" a pair whose parts occur once, and together, has
            the greatest possible score, so without such a bound rare words are learned first.
        pattern: A field of the tokenizer, as are the following. It cuts texts into words.
        normalization: Steps before texts are cut.
        byte_fallback: Whether 256 of the ids are bytes.

    Raises:
        ValueError: The size has no room for every character, or as `word_counts`.
    """
    untrained = WordPieceTokenizer((), pattern, normalization=tuple(normalization), byte_fallback=byte_fallback)
    counts = counted(texts, untrained)
    alphabet = _alphabet(counts)
    first = untrained.vocabulary_size
    least = first + len(alphabet)
    if size < least:
        raise ValueError(f"a vocabulary of {size} has no room for the characters of these texts; it needs at least {least}")
    pieces, steps = set(alphabet), []
    for step in merge_steps(counts, criterion, minimum_count=minimum_count) if size > least else ():
        steps.append(step)
        pieces.add(step.piece)
        if len(pieces) == size - first:
            break
    return WordPieceTraining(untrained, alphabet, tuple(steps))


def counted(texts: Iterable[str | bytes], tokenizer: WordPieceTokenizer) -> dict[str, int]:
    """How often each word of texts occurs, of words that are not too long for the tokenizer. Raises what `word_counts` does.

    The words that are too long do not count with byte fallback either, although the tokenizer encodes them then.
    """
    options = {"single_digits": tokenizer.single_digits, "normalization": tokenizer.normalization}
    counts = word_counts(texts, tokenizer.pattern, **options)
    return {word: count for word, count in counts.items() if len(word) <= tokenizer.longest_word}


def merge_steps(counts: Mapping[str, int], criterion: Criterion, *, minimum_count: int = 1) -> Iterator[MergeStep]:
    """Yields the steps of training until no pair is left.

    Of equal scores, the pair whose pieces come first by code points ("##" included) is merged. Every occurrence of a pair in a
    word counts, overlapping ones too; they are merged from left to right. A piece that would begin a word and read like one
    that continues it ("##" and more) is never made. Scores by "frequency" and "ratio" are compared exactly, by
    "likelihood_gain" in float64. A merge visits only the words that contain its pair.

    Args:
        counts: How often each word occurs.
        criterion: Which pair is merged next.
        minimum_count: A pair that occurs less often is not merged.
    """
    state = _State(counts, criterion, max(1, minimum_count))
    while (best := state.pop_best()) is not None:
        count, score = state.pairs[best], state.exact_score(best)
        state.merge(best)
        yield MergeStep(*best, joined(best), count, score)


def joined(pair: Pair) -> str:
    """The piece that two neighbours become: ##a and ##b give ##ab."""
    return pair[0] + pair[1].removeprefix(CONTINUATION)


def spelled(word: str) -> list[str]:
    """The characters of a word as pieces: hug is h, ##u, ##g."""
    return [word[0], *(CONTINUATION + character for character in word[1:])]


def _alphabet(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({piece for word in words for piece in spelled(word)}, key=lambda piece: (continues(piece), piece)))


class _State:
    """Counts of pieces and pairs that are kept up to date, and a heap in which no pair has less than its present score.

    A pair's score rises only when its count rises or that of one of its pieces falls, and then it is pushed again. Scores by
    likelihood gain fall as N falls, which leaves entries of the heap too high; they are corrected when they reach its top.
    """

    def __init__(self, counts: Mapping[str, int], criterion: Criterion, minimum_count: int) -> None:
        check_choice("criterion", criterion, get_args(Criterion))
        self.criterion, self.minimum_count = criterion, minimum_count
        self.words = [spelled(word) for word in counts]
        self.weights = list(counts.values())
        self.total = 0
        self.pieces: defaultdict[str, int] = defaultdict(int)
        self.pairs: defaultdict[Pair, int] = defaultdict(int)
        self.where: defaultdict[Pair, set[int]] = defaultdict(set)
        self.neighbours: defaultdict[str, set[Pair]] = defaultdict(set)
        for i in range(len(self.words)):
            self._count(i, 1)
        # Two different ratios differ by at least 1 / N^4; multiplied by 2^shift they differ by more than 1, so that
        # integers keep their order.
        self.shift = 4 * self.total.bit_length() + 1
        self.heap = [(-self._score(pair), pair) for pair in self.pairs if self._allowed(pair)]
        heapq.heapify(self.heap)

    def pop_best(self) -> Pair | None:
        """Removes and returns the pair to merge next."""
        while self.heap:
            score, pair = heapq.heappop(self.heap)
            if self.pairs.get(pair, 0) < self.minimum_count:
                continue
            present = self._score(pair)
            if -score == present:
                return pair
            if -score > present:
                heapq.heappush(self.heap, (-present, pair))
        return None

    def merge(self, pair: Pair) -> None:
        """Merges the pair in every word, and pushes each pair whose score can have risen."""
        piece, risen = joined(pair), set()
        for i in sorted(self.where[pair]):
            self._count(i, -1)
            self.words[i] = _merged(self.words[i], pair)
            risen.update(other for other in pairwise(self.words[i]) if piece in other)
            self._count(i, 1)
        if self.criterion != "frequency":
            risen |= self.neighbours[pair[0]] | self.neighbours[pair[1]]
        for other in risen:
            if self.pairs[other] >= self.minimum_count and self._allowed(other):
                heapq.heappush(self.heap, (-self._score(other), other))

    def exact_score(self, pair: Pair) -> Fraction | float:
        """The score of a pair that occurs."""
        if self.criterion == "likelihood_gain":
            return self._score(pair)
        parts = self.pieces[pair[0]] * self.pieces[pair[1]]
        return Fraction(self.pairs[pair], parts if self.criterion == "ratio" else 1)

    def _score(self, pair: Pair) -> int | float:
        """The score, as an integer of the same order by "ratio"."""
        count, parts = self.pairs[pair], self.pieces[pair[0]] * self.pieces[pair[1]]
        if self.criterion == "likelihood_gain":
            return count * (math.log(count * self.total) - math.log(parts))
        return (count << self.shift) // parts if self.criterion == "ratio" else count

    def _count(self, i: int, sign: int) -> None:
        """Adds the pieces and pairs of a word to the counts, or with sign -1 removes them."""
        word, weight = self.words[i], sign * self.weights[i]
        self.total += weight * len(word)
        for piece in word:
            self.pieces[piece] += weight
        for pair in pairwise(word):
            self.pairs[pair] += weight
            if sign > 0:
                self.where[pair].add(i)
            else:
                self.where[pair].discard(i)
            if self.pairs[pair]:
                self.neighbours[pair[0]].add(pair)
                self.neighbours[pair[1]].add(pair)
            else:
                del self.pairs[pair]
                self.neighbours[pair[0]].discard(pair)
                self.neighbours[pair[1]].discard(pair)

    def _allowed(self, pair: Pair) -> bool:
        return continues(joined(pair)) == continues(pair[0])


def _merged(word: list[str], pair: Pair) -> list[str]:
    pieces: list[str] = []
    at = 0
    while at < len(word):
        matches = tuple(word[at : at + 2]) == pair
        pieces.append(joined(pair) if matches else word[at])
        at += 1 + matches
    return pieces
