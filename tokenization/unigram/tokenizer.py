"""The unigram tokenizer: a text is cut into its most probable pieces (Kudo 2018)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum, isfinite

import numpy as np

from leadline.tokenization.base import check_vocabulary
from leadline.tokenization.normalization import Step, normalize
from leadline.tokenization.pretokenization import COVERING, pretokenize, pretokenize_with_starts
from leadline.tokenization.tokenizer import Specials, first_specials
from leadline.tokenization.unigram import lattice as unigram_lattice
from leadline.tokenization.unigram.lattice import Pieces
from leadline.tokenization.words import Segment, WordwiseTokenizer

BYTES = 256
SPACE = "▁"  # U+2581, which stands for a space in the pieces of sentencepiece
UNKNOWN_PENALTY = 10.0  # nats below the worst piece, as in sentencepiece
_WHOLE = r"(?s:.+)"


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
        ValueError: The numbers of pieces and scores differ, a score is not finite, a piece is empty or repeated, or there is no
            "unk".
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
        check_vocabulary(self.name, self.pieces)
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
        covering = self.pattern is None or self.pattern in COVERING
        return self.byte_fallback and covering and not self.escape and not self.normalization

    def _build_table(self) -> tuple[bytes, ...]:
        """The bytes of every id. With `escape`, ▁ is a space."""
        fallback = tuple(bytes([value]) for value in range(BYTES)) if self.byte_fallback else ()
        pieces = ((piece.replace(SPACE, " ") if self.escape else piece).encode() for piece in self.pieces)
        return (b"",) * len(self.special_names) + fallback + tuple(pieces)

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """Concatenates the bytes of the ids, without the space of a dummy prefix. Specials, UNK included, add nothing.

        Raises:
            ValueError: The ids are not one row of integers, or lie outside the vocabulary.
        """
        text = super().decode(ids)
        return text.removeprefix(b" ") if self.dummy_prefix else text

    def words(self, text: str | bytes) -> list[str]:
        """The words of a text as the pieces spell them, with escaped spaces. Raises what `encode` does."""
        return [self._escaped(word) for word in self._words(normalize(text, self.normalization))]

    def log_likelihood(self, text: str | bytes) -> float:
        """The log of the summed probability of all segmentations of a text, in nats. Raises what `encode` does."""
        known: dict[str, float] = {}
        for word in (words := self.words(text)):
            if word not in known:
                known[word] = unigram_lattice.forward(unigram_lattice.lattice([word], self._pieces))[-1]
        return fsum(known[word] for word in words)

    @cached_property
    def _pieces(self) -> Pieces:
        first = len(self.special_names) + BYTES * self.byte_fallback
        known = {p: (first + i, score) for i, (p, score) in enumerate(zip(self.pieces, self.scores, strict=True))}
        unknown = self.special_names.index("unk"), min(self.scores, default=0.0) - UNKNOWN_PENALTY
        return Pieces(known, max(map(len, self.pieces), default=1), unknown)

    def _prefix(self, text: str) -> str:
        return " " if self.dummy_prefix and text else ""

    def _words(self, text: str) -> list[str]:
        return pretokenize(self._prefix(text) + text, self.pattern or _WHOLE, single_digits=self.single_digits)

    def _words_with_starts(self, text: str) -> Iterable[tuple[int, str]]:
        prefix = self._prefix(text)
        words = pretokenize_with_starts(prefix + text, self.pattern or _WHOLE, single_digits=self.single_digits)
        return ((start - len(prefix), word) for start, word in words)

    def _escaped(self, word: str) -> str:
        return word.replace(" ", SPACE) if self.escape else word

    def _segments(self, word: str) -> list[Segment]:
        """The tokens of the best path: unknown characters become bytes, or a run of them one UNK."""
        path = unigram_lattice.viterbi(self._escaped(word), self._pieces)
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
            elif segments and segments[-1][0] == unk:
                segments[-1] = unk, segments[-1][1] + size
            else:
                segments.append((unk, size))
        return segments
