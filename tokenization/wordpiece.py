"""WordPiece: a word is cut from left to right, always into the longest piece that the vocabulary has (Devlin et al. 2018)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tokenization.by_words import DefinedByWords
from tokenization.defined import UNK, refuse_doubles
from tokenization.ids import checked
from tokenization.normalization import Step
from tokenization.tokenizer import Specials, first_specials
from tokenization.words import Segment

CONTINUATION = "##"
WORDPIECE_SPECIALS = first_specials("pad", "unk", "bos", "eos", "cls", "sep")


def continues(piece: str) -> bool:
    """Whether a piece stands inside a word: then ## is written before it. The two signs alone begin a word."""
    return piece.startswith(CONTINUATION) and len(piece) > len(CONTINUATION)


@dataclass(frozen=True)
class WordPieceTokenizer(DefinedByWords):
    """PAD 0, UNK 1, BOS 2, EOS 3, CLS 4, SEP 5, then the pieces in their order.

    A word of which any part matches no piece is one UNK. Where a word itself begins with ##, pieces that continue a word
    do not match there, although they are written alike.

    Args:
        pieces: the vocabulary; those that continue a word begin with ##.
        pattern: what a word is: "words" (punctuation stands alone), "whitespace", or any that `pretokenization.cut` takes.
        single_digits: whether every digit is a word.
        normalization: what is done to a text before it is cut.
        longest_word: a word of more characters is UNK; 100 as in BERT.

    Raises ValueError for an empty piece and for one that is there twice.
    """

    pieces: tuple[str, ...]
    pattern: str = "words"
    single_digits: bool = False
    normalization: tuple[Step, ...] = ()
    longest_word: int = 100

    def __post_init__(self) -> None:
        refuse_doubles(self.name, self.pieces)

    @property
    def name(self) -> str:
        """The name that tables print."""
        return "wordpiece"

    @property
    def specials(self) -> Specials:
        """PAD, UNK, BOS, EOS, CLS and SEP, before the pieces."""
        return WORDPIECE_SPECIALS

    @property
    def lossless(self) -> bool:
        """Never: white space and unknown words are lost."""
        return False

    def pieces_bytes(self) -> Iterator[bytes]:
        """The bytes of every id, without white space and the sign of continuation."""
        yield from (b"",) * len(WORDPIECE_SPECIALS.ids())
        yield from (_text(piece).encode() for piece in self.pieces)

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """The words with one space between them, whatever stood there; specials, UNK among them, add nothing.

        Raises ValueError for ids that are no integers of one row, or lie outside the vocabulary.
        """
        first = len(WORDPIECE_SPECIALS.ids())
        found = [i for i in checked(ids, self.vocabulary_size, self.name).tolist() if i >= first]
        spaced = (b"" if continues(self.pieces[i - first]) else b" " for i in found)
        return b"".join(space + self.table[i] for space, i in zip(spaced, found, strict=True)).removeprefix(b" ")

    @cached_property
    def _ids(self) -> tuple[dict[str, int], dict[str, int]]:
        """The ids of pieces that begin a word and of those that continue one, by their text."""
        numbered = list(enumerate(self.pieces, start=len(WORDPIECE_SPECIALS.ids())))
        return (
            {piece: i for i, piece in numbered if not continues(piece)},
            {_text(piece): i for i, piece in numbered if continues(piece)},
        )

    @cached_property
    def _longest(self) -> int:
        return max((len(_text(piece)) for piece in self.pieces), default=0)

    def _segments(self, word: str) -> list[Segment]:
        unknown = [(UNK, 0, len(word))]
        if len(word) > self.longest_word:
            return unknown
        found: list[Segment] = []
        start = 0
        while start < len(word):
            ids = self._ids[start > 0]
            ends = range(min(len(word), start + self._longest), start, -1)
            end = next((end for end in ends if word[start:end] in ids), None)
            if end is None:
                return unknown
            found.append((ids[word[start:end]], start, end))
            start = end
        return found


def _text(piece: str) -> str:
    return piece[len(CONTINUATION) :] if continues(piece) else piece
