"""The unigram tokenizer: a text is cut into its most probable pieces, or into pieces drawn at random (Kudo 2018)."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import fsum, isfinite

import numpy as np
from jaxtyping import Int32

from leadline.tokenization.base import EACH_BYTE, check_vocabulary
from leadline.tokenization.normalization import Step, normalize
from leadline.tokenization.pretokenization import WHOLE, covers, pretokenize, pretokenize_with_starts
from leadline.tokenization.tokenizer import Specials, first_specials
from leadline.tokenization.unigram import lattice as unigram_lattice
from leadline.tokenization.unigram.lattice import Arc, Lattice, Pieces
from leadline.tokenization.words import Segment, WordwiseTokenizer

SPACE = "▁"  # U+2581, which stands for a space in the pieces of sentencepiece
UNKNOWN_PENALTY = 10.0  # nats below the worst piece, as in sentencepiece


@dataclass(frozen=True)
class UnigramTokenizer(WordwiseTokenizer):
    """The specials, then the 256 bytes with byte fallback, then the pieces (Kudo 2018, arXiv:1804.10959).

    A character that is no piece costs 10 nats more than the worst piece. With byte fallback it becomes its UTF-8 bytes;
    without, a run of such characters in a word becomes one UNK.

    Args:
        pieces: The vocabulary.
        scores: The log probability of every piece, in nats.
        byte_fallback: Whether unknown characters become bytes.
        escape: Whether spaces are ▁ in the pieces, as in sentencepiece. A ▁ of the text is then decoded to a space.
        dummy_prefix: Whether a space precedes a text that is not empty, as in sentencepiece. Decoding removes it.
        pattern: What a word is, as `pretokenize` takes it, applied before spaces are escaped. With None the whole text is one
            word, as in sentencepiece.
        single_digits: Whether every digit is a word.
        normalization: The steps that are applied to a text first.
        special_names: The names of the specials in the order of their ids, "unk" among them.

    Raises:
        ValueError: The numbers of pieces and scores differ, a score is not finite, a piece or a special is empty or repeated,
            there is no "unk", or the pattern or a step of the normalization is invalid.
    """

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    byte_fallback: bool = False
    escape: bool = False
    dummy_prefix: bool = False
    pattern: str | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    single_digits: bool = False
    normalization: tuple[Step, ...] = ()
    special_names: tuple[str, ...] = ("pad", "unk", "bos", "eos")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_vocabulary(self.name, self.pieces)
        check_vocabulary("special", self.special_names)
        if len(self.pieces) != len(self.scores):
            raise ValueError(f"{len(self.pieces)} pieces have {len(self.scores)} scores; each needs one")
        for piece, score in zip(self.pieces, self.scores, strict=True):
            if not isfinite(score):
                raise ValueError(f"the score of piece {piece!r} is {score}; log probabilities are finite")
        if "unk" not in self.special_names:
            raise ValueError("a unigram tokenizer needs an UNK; add it to the specials")

    @property
    def name(self) -> str:
        """The name in tables and messages."""
        return "unigram"

    @property
    def specials(self) -> Specials:
        """The specials, before everything else."""
        return first_specials(*self.special_names)

    @property
    def lossless(self) -> bool:
        """With byte fallback, no normalization, no escaping, and no pattern or one that covers every text."""
        covering = covers(self.pattern)
        return self.byte_fallback and covering and not self.escape and not self.normalization

    def _build_table(self) -> tuple[bytes, ...]:
        """The bytes of every id. With `escape`, ▁ is a space."""
        pieces = ((piece.replace(SPACE, " ") if self.escape else piece).encode() for piece in self.pieces)
        return (b"",) * len(self.special_names) + EACH_BYTE * self.byte_fallback + tuple(pieces)

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """Concatenates the bytes of the ids, without the space of a dummy prefix. Specials, UNK included, add nothing.

        Raises:
            ValueError: The ids are not one row of integers, or lie outside the vocabulary.
        """
        text = super().decode(ids)
        return text.removeprefix(b" ") if self.dummy_prefix else text

    def n_best(self, text: str | bytes, n: int) -> list[tuple[Int32[np.ndarray, "..."], float]]:
        """The n most probable segmentations.

        Returns:
            The ids of each and its log probability in nats, the best first; all if there are fewer than n.

        Raises:
            ValueError: n is below 1, or as `encode`.
        """
        if n < 1:
            raise ValueError(f"n is {n}; ask for at least one segmentation")
        words = self.words(text)
        paths = unigram_lattice.n_best(unigram_lattice.lattice(words, self._pieces), n)
        whole, cuts = "".join(words), set(accumulate(map(len, words)))
        return [(_ids(self._resolved(whole, path, cuts)), score) for path, score in paths]

    def sample(self, text: str | bytes, generator: np.random.Generator, alpha: float = 1.0) -> Int32[np.ndarray, "T"]:
        """Draws a segmentation x with probability proportional to P(x)^alpha (Kudo 2018, section 3.3).

        Args:
            text: The text.
            generator: The source of randomness.
            alpha: 0 makes all segmentations equally likely; a greater alpha favours the best one.

        Raises:
            ValueError: alpha is negative or infinite, or as `encode`.
        """
        if not 0 <= alpha < np.inf:
            raise ValueError(f"alpha is {alpha}; it must be finite and not negative")
        known: dict[str, tuple[Lattice, list[float]]] = {}
        segments: list[Segment] = []
        for word in self.words(text):
            if word not in known:
                by_end = unigram_lattice.lattice([word], self._pieces)
                known[word] = by_end, unigram_lattice.forward(by_end, alpha)
            segments += self._resolved(word, unigram_lattice.sample(*known[word], alpha, generator))
        return _ids(segments)

    def words(self, text: str | bytes) -> list[str]:
        """The words of a text as the pieces spell them, with escaped spaces. Raises what `encode` does."""
        return [self._escaped(word) for word in self._words(normalize(text, self.normalization))]

    def log_probability(self, pieces: Sequence[str]) -> float:
        """The log probability of a segmentation in nats, the sum of its pieces' scores.

        Args:
            pieces: Spelled as in the vocabulary. A single character that is no piece costs the penalty.

        Raises:
            ValueError: A longer string is no piece.
        """
        for piece in pieces:
            if piece not in self._pieces.known and len(piece) != 1:
                raise ValueError(f"{piece!r} is not a piece of this vocabulary")
        return fsum(self._pieces.known.get(piece, self._pieces.unknown)[1] for piece in pieces)

    def log_likelihood(self, text: str | bytes) -> float:
        """The log of the summed probability of all segmentations of a text, in nats. Raises what `encode` does."""
        known: dict[str, float] = {}
        for word in (words := self.words(text)):
            if word not in known:
                known[word] = unigram_lattice.forward(unigram_lattice.lattice([word], self._pieces))[-1]
        return fsum(known[word] for word in words)

    @cached_property
    def _pieces(self) -> Pieces:
        first = self.vocabulary_size - len(self.pieces)
        known = {p: (first + i, score) for i, (p, score) in enumerate(zip(self.pieces, self.scores, strict=True))}
        unknown = self.special_names.index("unk"), min(self.scores, default=0.0) - UNKNOWN_PENALTY
        return Pieces(known, max(map(len, self.pieces), default=1), unknown)

    def _prefix(self, text: str) -> str:
        return " " if self.dummy_prefix and text else ""

    def _words(self, text: str) -> list[str]:
        return pretokenize(self._prefix(text) + text, self.pattern or WHOLE, single_digits=self.single_digits)

    def _words_with_starts(self, text: str) -> Iterable[tuple[int, str]]:
        prefix = self._prefix(text)
        words = pretokenize_with_starts(prefix + text, self.pattern or WHOLE, single_digits=self.single_digits)
        return ((start - len(prefix), word) for start, word in words)

    def _escaped(self, word: str) -> str:
        return word.replace(" ", SPACE) if self.escape else word

    def _segments(self, word: str) -> list[Segment]:
        return self._resolved(word, unigram_lattice.viterbi(self._escaped(word), self._pieces))

    def _resolved(self, word: str, path: Sequence[Arc], cuts: Container[int] = ()) -> list[Segment]:
        """The tokens of a path: unknown characters become bytes, or one UNK for a run that no cut interrupts."""
        unk = self._pieces.unknown[0]
        segments: list[Segment] = []
        for arc in path:
            surface = word[arc.start : arc.end]
            size = len(surface.encode())
            if arc.token != unk:
                segments.append((arc.token, size))
            elif self.byte_fallback:  # an escaped space is three bytes in place of one
                values = self._escaped(surface).encode()
                segments += [(len(self.special_names) + value, int(i < size)) for i, value in enumerate(values)]
            elif segments and segments[-1][0] == unk and arc.start not in cuts:
                segments[-1] = unk, segments[-1][1] + size
            else:
                segments.append((unk, size))
        return segments


def _ids(segments: Iterable[Segment]) -> Int32[np.ndarray, "T"]:
    return np.array([token for token, _ in segments], np.int32)
