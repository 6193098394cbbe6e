"""The unigram tokenizer: a text is cut into its most probable pieces, or into pieces drawn at random (Kudo 2018)."""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import fsum, isfinite

import numpy as np
from jaxtyping import Int32, Int64

from tokenization import unigram_lattice
from tokenization.defined import Defined, refuse_doubles
from tokenization.normalization import Step, keeps_all, normalized
from tokenization.pretokenization import COVERING, places
from tokenization.text import characters
from tokenization.tokenizer import Specials, first_specials
from tokenization.unigram_lattice import Arc, Lattice, Pieces
from tokenization.words import Segment, encode_places, encode_words

BYTES = 256
SPACE = "▁"  # U+2581, which stands for a space in the pieces of sentencepiece
WHOLE = r"(?s:.+)"
UNKNOWN_PENALTY = 10.0  # nats below the worst piece, as in sentencepiece


@dataclass(frozen=True)
class UnigramTokenizer(Defined):
    """The specials, then the 256 bytes if there is byte fallback, then the pieces.

    A character that is no piece costs as much as the worst piece and 10 nats more. It becomes its UTF-8 bytes with byte
    fallback; without, a run of such characters
    in a pre-token becomes one UNK.

    Args:
        pieces: the vocabulary.
        scores: the log probability of every piece, in nats.
        byte_fallback: whether unknown characters become bytes.
        escape: whether spaces are ▁ in the pieces, as in sentencepiece; a ▁ of the text then comes back as a space.
        dummy_prefix: whether a space is put before a text that is not empty, as in sentencepiece; decoding removes it.
        pattern: what no piece crosses: a name or expression that `pretokenization.cut` takes, applied before spaces are
            escaped. What it leaves out is lost. None lets pieces cross everything, as sentencepiece does.
        single_digits: whether no piece crosses from a digit to its neighbours.
        normalization: what is done to a text first.
        special_names: the specials, in the order of their ids; "unk" is one of them.

    Raises ValueError for pieces and scores of different number, a score that is not finite, and an empty or doubled piece.
    """

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    byte_fallback: bool = False
    escape: bool = False
    dummy_prefix: bool = False
    pattern: str | None = None
    single_digits: bool = False
    normalization: tuple[Step, ...] = ()
    special_names: tuple[str, ...] = ("pad", "unk", "bos", "eos")

    def __post_init__(self) -> None:
        refuse_doubles(self.name, self.pieces)
        if len(self.pieces) != len(self.scores):
            raise ValueError(f"{len(self.pieces)} pieces have {len(self.scores)} scores; each needs one")
        if (bad := next((i for i, score in enumerate(self.scores) if not isfinite(score)), None)) is not None:
            raise ValueError(f"the score of piece {self.pieces[bad]!r} is {self.scores[bad]}; log probabilities are finite")
        if "unk" not in self.special_names:
            raise ValueError("a unigram tokenizer needs an UNK; name it among the specials")

    @property
    def name(self) -> str:
        """The name that tables print."""
        return "unigram"

    @property
    def specials(self) -> Specials:
        """The specials, before everything else."""
        return first_specials(*self.special_names)

    @property
    def lossless(self) -> bool:
        """With byte fallback, and if nothing is normalised, escaped or left out between pre-tokens."""
        covering = self.pattern is None or self.pattern in COVERING
        return self.byte_fallback and covering and not self.escape and keeps_all(self.normalization)

    def pieces_bytes(self) -> Iterator[bytes]:
        """The bytes of every id; ▁ is a space where it is escaped."""
        yield from (b"",) * len(self.special_names)
        if self.byte_fallback:
            yield from (bytes([value]) for value in range(BYTES))
        yield from ((piece.replace(SPACE, " ") if self.escape else piece).encode() for piece in self.pieces)

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """The segmentation of the greatest probability; of equal ones, that with the longest last piece.

        Raises ValueError for bytes that are not UTF-8 and for a lone surrogate.
        """
        return encode_words((word for _, word in self._placed(self._normalized(text))), self._best)

    def encode_with_offsets(self, text: str | bytes) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
        """`encode`, and the place of every id, the space of a dummy prefix not counted. Raises what `encode` does."""
        text = self._normalized(text)
        ids, spans = encode_places(text, self._placed(text), self._best)
        first = len(self.special_names)
        fallen = np.flatnonzero((ids >= first) & (ids < first + BYTES * self.byte_fallback))
        # The bytes of one character end, as yet, where it ends; the first of them is the first id that ends there.
        begins = (spans[:, 0] + np.arange(len(ids)) - np.searchsorted(spans[:, 1], spans[:, 1]))[fallen]
        spans[fallen] = np.stack([begins, begins + 1], axis=1)
        return ids, spans

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """The bytes of the ids, in order, without the space of a dummy prefix; specials, UNK among them, add none.

        Raises ValueError for ids that are no integers of one row, or lie outside the vocabulary.
        """
        found = super().decode(ids)
        return found.removeprefix(b" ") if self.dummy_prefix else found

    def n_best(self, text: str | bytes, n: int) -> list[tuple[Int32[np.ndarray, "..."], float]]:
        """The n segmentations of the greatest probability with their log probabilities in nats, the best first.

        Raises ValueError for n below 1, and what `encode` does.
        """
        if n < 1:
            raise ValueError(f"n is {n}; ask for one segmentation at least")
        words = self.words(text)
        found = unigram_lattice.n_best(unigram_lattice.lattice(words, self._pieces), n)
        whole, cuts = "".join(words), set(accumulate(map(len, words)))
        return [(_ids(self._segments(whole, path, cuts)), score) for path, score in found]

    def sample(self, text: str | bytes, generator: np.random.Generator, alpha: float = 1.0) -> Int32[np.ndarray, "T"]:
        """A segmentation x drawn from all, with probability proportional to P(x)^alpha (Kudo 2018, section 3.3).

        At alpha = 0 all segmentations are equally likely; the greater alpha, the likelier the best one.

        Raises ValueError for a negative or infinite alpha, and what `encode` does.
        """
        if not 0 <= alpha < np.inf:
            raise ValueError(f"alpha is {alpha}; it is finite and not negative")
        known: dict[str, tuple[Lattice, list[float]]] = {}
        found: list[Segment] = []
        for word in self.words(text):
            if word not in known:
                arcs = unigram_lattice.lattice([word], self._pieces)
                known[word] = arcs, unigram_lattice.forward(arcs, alpha)
            path = unigram_lattice.sample(*known[word], alpha, generator)
            found += self._segments(word, path)
        return _ids(found)

    def words(self, text: str | bytes) -> list[str]:
        """The pre-tokens of a text as its pieces are written; no piece crosses them. Raises what `encode` does."""
        return [word for _, word in self._placed(self._normalized(text))]

    def log_probability(self, pieces: Sequence[str]) -> float:
        """The log probability of a segmentation, in nats: the sum of its pieces' scores.

        The pieces are written as in the vocabulary; a character that is none costs the penalty.

        Raises ValueError for a longer string that is no piece.
        """
        for piece in pieces:
            if piece not in self._pieces.known and len(piece) != 1:
                raise ValueError(f"{piece!r} is no piece of this vocabulary")
        return fsum(self._pieces.known.get(piece, self._pieces.unknown)[1] for piece in pieces)

    def log_likelihood(self, text: str | bytes) -> float:
        """The log of the sum of the probabilities of all segmentations of a text, in nats. Raises what `encode` does."""
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

    def _normalized(self, text: str | bytes) -> str:
        return normalized(characters(text), self.normalization)

    def _placed(self, text: str) -> Iterator[tuple[int, str]]:
        """The pre-tokens of a normalised text as its pieces are written, each behind the index of its first character."""
        prefix = " " if self.dummy_prefix and text else ""
        whole = prefix + text
        for start, word in places(whole, self.pattern or WHOLE, single_digits=self.single_digits):
            yield start - len(prefix), word.replace(" ", SPACE) if self.escape else word

    def _best(self, word: str) -> list[Segment]:
        return self._segments(word, unigram_lattice.viterbi(word, self._pieces))

    def _segments(self, word: str, path: Sequence[Arc], cuts: Container[int] = ()) -> list[Segment]:
        """The ids of a path, where unknown characters become bytes, or one UNK a run that no cut interrupts."""
        unk = self._pieces.unknown[0]
        found: list[Segment] = []
        for arc in path:
            if arc.token != unk:
                found.append((arc.token, arc.start, arc.end))
            elif self.byte_fallback:
                values = word[arc.start : arc.end].encode()
                found += [(len(self.special_names) + value, arc.start, arc.end) for value in values]
            elif found and found[-1][0] == unk and arc.start not in cuts:
                found[-1] = unk, found[-1][1], arc.end
            else:
                found.append((unk, arc.start, arc.end))
        return found


def _ids(segments: Iterable[Segment]) -> Int32[np.ndarray, "T"]:
    return np.array([token for token, _, _ in segments], np.int32)
