"""Training WordPiece: neighbouring pieces are joined one pair at a time, by one of two criteria.

likelihood: the pair of the greatest count(ab) / (count(a) count(b)), the gain in likelihood of a unigram model of pieces when a
    and b become one (Schuster and Nakajima 2012, as the course of Hugging Face writes it down).
frequency: the pair of the greatest count(ab). This is byte pair encoding inside words, and what WordPiece trainers of common
    libraries do.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal

from tokenization.normalization import Step
from tokenization.wordpiece import CONTINUATION, WORDPIECE_SPECIALS, WordPieceTokenizer, continues
from tokenization.words import word_counts

Criterion = Literal["likelihood", "frequency"]
Pair = tuple[str, str]


@dataclass(frozen=True)
class Merge:
    """One step of training: the two pieces joined, the piece that they become, their count before it and their score."""

    left: str
    right: str
    piece: str
    count: int
    score: Fraction


@dataclass(frozen=True)
class WordPieceTraining:
    """What training found: the pieces of single characters, and every step in order. It serves every smaller vocabulary."""

    alphabet: tuple[str, ...]
    merges: tuple[Merge, ...]
    pattern: str
    single_digits: bool
    normalization: tuple[Step, ...]
    longest_word: int

    def tokenizer(self, size: int | None = None) -> WordPieceTokenizer:
        """The tokenizer of the first `size` ids, specials included; of all without it.

        Raises ValueError for a size that has no room for the alphabet, or is greater than what was trained.
        """
        pieces = tuple(dict.fromkeys([*self.alphabet, *(merge.piece for merge in self.merges)]))
        least, most = (len(WORDPIECE_SPECIALS.ids()) + len(found) for found in (self.alphabet, pieces))
        if size is not None and not least <= size <= most:
            raise ValueError(f"this training gives vocabularies of {least} (single characters) to {most}, not {size}")
        kept = pieces if size is None else pieces[: size - len(WORDPIECE_SPECIALS.ids())]
        return WordPieceTokenizer(kept, self.pattern, self.single_digits, self.normalization, self.longest_word)


def train_wordpiece(
    texts: Iterable[str | bytes],
    size: int,
    criterion: Criterion,
    *,
    minimum_count: int = 1,
    pattern: str = "words",
    single_digits: bool = False,
    normalization: Sequence[Step] = (),
    longest_word: int = 100,
) -> WordPieceTraining:
    """Pairs are joined until the vocabulary has `size` ids, or no pair is left.

    Args:
        texts: what is counted.
        size: the number of ids, specials included.
        criterion: which pair is joined next.
        minimum_count: a pair that occurs less often is not joined. By "likelihood" a pair whose parts occur once, and together,
            has the greatest score there is, so without such a bound rare words are learned first.
        pattern, single_digits, normalization, longest_word: as the tokenizer has them; longer words are not trained on.

    Raises ValueError for a size without room for every character, and what `word_counts` does.
    """
    counts = word_counts(texts, pattern, normalization=normalization, single_digits=single_digits)
    counts = {word: count for word, count in counts.items() if len(word) <= longest_word}
    alphabet = _alphabet(counts)
    least = len(WORDPIECE_SPECIALS.ids()) + len(alphabet)
    if size < least:
        raise ValueError(f"a vocabulary of {size} has no room for the characters of these texts; it needs {least} at least")
    known, found = set(alphabet), []
    for merge in merges(counts, criterion, minimum_count=minimum_count) if size > least else ():
        found.append(merge)
        known.add(merge.piece)
        if len(known) == size - len(WORDPIECE_SPECIALS.ids()):
            break
    return WordPieceTraining(alphabet, tuple(found), pattern, single_digits, tuple(normalization), longest_word)


def merges(counts: Mapping[str, int], criterion: Criterion, *, minimum_count: int = 1) -> Iterator[Merge]:
    """The steps of training, one after the other, until no pair is left.

    Scores are compared as exact fractions; of equal ones, the pair whose pieces come first by code points (## included) is
    joined. Every occurrence of a pair in a word counts, overlapping ones too; they are joined from left to right. A piece that
    would begin a word and read like one that continues it (## and more) is never made.

    Args:
        counts: how often each word occurs.
        criterion: which pair is joined next.
        minimum_count: a pair that occurs less often is not joined.
    """
    state = _State(counts, criterion, max(1, minimum_count))
    while (best := state.best()) is not None:
        pair, count, score = best
        state.join(pair)
        yield Merge(*pair, joined(pair), count, score)


def joined(pair: Pair) -> str:
    """The piece that two neighbours become: ##a and ##b give ##ab."""
    return pair[0] + pair[1].removeprefix(CONTINUATION)


def spelled(word: str) -> list[str]:
    """The characters of a word as pieces: hug is h, ##u, ##g."""
    return [word[0], *(CONTINUATION + character for character in word[1:])]


def _alphabet(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({piece for word in words for piece in spelled(word)}, key=lambda piece: (continues(piece), piece)))


class _State:
    """Counts of pieces and pairs, kept up to date, and a heap in which every pair stands with at least its present score."""

    def __init__(self, counts: Mapping[str, int], criterion: Criterion, minimum_count: int) -> None:
        self.criterion, self.minimum_count = criterion, minimum_count
        self.words = [spelled(word) for word in counts]
        self.weights = list(counts.values())
        self.pieces: defaultdict[str, int] = defaultdict(int)
        self.pairs: defaultdict[Pair, int] = defaultdict(int)
        self.where: defaultdict[Pair, set[int]] = defaultdict(set)
        self.neighbours: defaultdict[str, set[Pair]] = defaultdict(set)
        for i in range(len(self.words)):
            self._count(i, 1)
        # Scaled by 2^shift, quotients of different fractions differ by more than 1 and keep their order when rounded down:
        # with N pieces in the text, two fractions differ by at least 1 / N^4.
        self.shift = 4 * sum(self.pieces.values()).bit_length() + 1
        self.heap = [(-self._score(pair), pair) for pair in self.pairs if self._allowed(pair)]
        heapq.heapify(self.heap)

    def best(self) -> tuple[Pair, int, Fraction] | None:
        """The pair to join next, with its count and score."""
        while self.heap:
            score, pair = heapq.heappop(self.heap)
            if (count := self.pairs.get(pair, 0)) < self.minimum_count:
                continue
            if -score == self._score(pair):
                of = 1 if self.criterion == "frequency" else self.pieces[pair[0]] * self.pieces[pair[1]]
                return pair, count, Fraction(count, of)
            if -score > self._score(pair):
                heapq.heappush(self.heap, (-self._score(pair), pair))
        return None

    def join(self, pair: Pair) -> None:
        """Joins the pair in every word, and puts each pair whose score can have risen into the heap again."""
        made, changed = joined(pair), set()
        for i in sorted(self.where[pair]):
            self._count(i, -1)
            self.words[i] = _merged(self.words[i], pair)
            changed.update(other for other in pairwise(self.words[i]) if made in other)
            self._count(i, 1)
        if self.criterion == "likelihood":  # the two pieces are rarer now, so all pairs with either score higher
            changed |= self.neighbours[pair[0]] | self.neighbours[pair[1]]
        for other in changed:
            if self.pairs[other] >= self.minimum_count and self._allowed(other):
                heapq.heappush(self.heap, (-self._score(other), other))

    def _count(self, i: int, sign: int) -> None:
        word, weight = self.words[i], sign * self.weights[i]
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

    def _score(self, pair: Pair) -> int:
        if self.criterion == "frequency":
            return self.pairs[pair]
        return (self.pairs[pair] << self.shift) // (self.pieces[pair[0]] * self.pieces[pair[1]])

    def _allowed(self, pair: Pair) -> bool:
        return continues(joined(pair)) == continues(pair[0])


def _merged(word: list[str], pair: Pair) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(word):
        both = tuple(word[at : at + 2]) == pair
        found.append(joined(pair) if both else word[at])
        at += 1 + both
    return found
