"""WordPiece: each word is cut from left to right into the longest pieces of the vocabulary."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leadline.tokenization.base import EACH_BYTE, UNK, check_vocabulary
from leadline.tokenization.ids import check_ids
from leadline.tokenization.normalization import Step
from leadline.tokenization.pretokenization import covers
from leadline.tokenization.tokenizer import Specials, first_specials
from leadline.tokenization.words import Segment, WordwiseTokenizer

CONTINUATION = "##"
WORDPIECE_SPECIALS = first_specials("pad", "unk", "bos", "eos", "cls", "sep")


def continues(piece: str) -> bool:
    """Whether a piece continues a word: it is "##" and more. The piece "##" alone begins a word."""
    return piece.startswith(CONTINUATION) and len(piece) > len(CONTINUATION)


@dataclass(frozen=True)
class WordPieceTokenizer(WordwiseTokenizer):
    """PAD 0, UNK 1, BOS 2, EOS 3, CLS 4, SEP 5, the 256 bytes with byte fallback, then the pieces in their order.

    Encoding is greedy longest match first, O(n k) for a word of n characters and pieces of at most k (Devlin et al. 2019,
    arXiv:1810.04805). Where no piece matches, the whole word is one UNK. With byte fallback only the next character becomes its
    UTF-8 bytes, as in sentencepiece. Pieces that continue a word never match at the start of a word, even of one that begins
    with "##".

    Args:
        pieces: The vocabulary. Pieces that continue a word begin with "##".
        pattern: What a word is, as `pretokenize` takes it.
        single_digits: Whether every digit is a word.
        normalization: The steps that are applied to a text first.
        longest_word: A word of more characters is UNK, unless there is byte fallback; 100 as in BERT.
        byte_fallback: Whether characters that match no piece become bytes, instead of words UNK.

    Raises:
        ValueError: A piece is empty or repeated, or the pattern or a step of the normalization is invalid.
    """

    pieces: tuple[str, ...]
    pattern: str = "words"
    single_digits: bool = False
    normalization: tuple[Step, ...] = ()
    longest_word: int = 100
    byte_fallback: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_vocabulary(self.name, self.pieces)

    @property
    def name(self) -> str:
        """The name in tables and messages."""
        return "wordpiece"

    @property
    def specials(self) -> Specials:
        """PAD, UNK, BOS, EOS, CLS and SEP, the ids 0 to 5."""
        return WORDPIECE_SPECIALS

    @property
    def lossless(self) -> bool:
        """With byte fallback, without normalization, and with a pattern that covers every text."""
        return self.byte_fallback and covers(self.pattern) and not self.normalization

    def _build_table(self) -> tuple[bytes, ...]:
        """The bytes of every id, without white space and "##"."""
        specials = (b"",) * len(WORDPIECE_SPECIALS.ids())
        return specials + EACH_BYTE * self.byte_fallback + tuple(_surface(piece).encode() for piece in self.pieces)

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """Joins the words by one space each; with byte fallback by nothing, as words have their own spaces then.

        Specials, UNK included, add nothing.

        Raises:
            ValueError: The ids are not one row of integers, or lie outside the vocabulary.
        """
        if self.byte_fallback:
            return super().decode(ids)
        first = len(WORDPIECE_SPECIALS.ids())
        tokens = [token for token in check_ids(ids, self.vocabulary_size, self.name).tolist() if token >= first]
        spaces = (b"" if continues(self.pieces[token - first]) else b" " for token in tokens)
        return b"".join(space + self.table[token] for space, token in zip(spaces, tokens, strict=True)).removeprefix(b" ")

    @cached_property
    def _ids(self) -> tuple[dict[str, int], dict[str, int]]:
        """The ids of the pieces that begin a word, and of those that continue one, by their text."""
        numbered = list(enumerate(self.pieces, start=self.vocabulary_size - len(self.pieces)))
        return (
            {piece: token for token, piece in numbered if not continues(piece)},
            {_surface(piece): token for token, piece in numbered if continues(piece)},
        )

    @cached_property
    def _longest(self) -> int:
        return max((len(_surface(piece)) for piece in self.pieces), default=0)

    def _segments(self, word: str) -> list[Segment]:
        unknown: list[Segment] = [(UNK, len(word.encode()))]
        if len(word) > self.longest_word and not self.byte_fallback:
            return unknown
        segments: list[Segment] = []
        start = 0
        while start < len(word):
            ids = self._ids[start > 0]
            ends = range(min(len(word), start + self._longest), start, -1)
            end = next((end for end in ends if word[start:end] in ids), None)
            if end is not None:
                segments.append((ids[word[start:end]], len(word[start:end].encode())))
            elif self.byte_fallback:
                end = start + 1
                segments += [(len(WORDPIECE_SPECIALS.ids()) + value, 1) for value in word[start:end].encode()]
            else:
                return unknown
            start = end
        return segments


def _surface(piece: str) -> str:
    """The text of a piece, without "##"."""
    return piece[len(CONTINUATION) :] if continues(piece) else piece
