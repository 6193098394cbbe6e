"""Byte pair encoding: a text's pieces are merged by a learned list, over bytes or over characters with an end of word."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Int32, Int64

from tokenization.bpe_training import BYTE_ORDER, END, Unit, alphabet_of, train_merges
from tokenization.ids import checked, digest_of
from tokenization.merging import merge
from tokenization.normalization import Step, keeps_all, normalized
from tokenization.pretokenization import COVERING, cut, places
from tokenization.text import characters
from tokenization.tokenizer import Specials, first_specials
from tokenization.words import word_counts


@dataclass(frozen=True)
class BpeTokenizer:
    """Ids are the specials, the alphabet, and what each merge makes, in this order; so a shorter vocabulary is a prefix.

    Over bytes the specials are PAD 0, BOS 1 and EOS 2, and every text is known. Over characters they are PAD 0, UNK 1, BOS 2
    and EOS 3; a character outside the alphabet is one UNK, and the symbol END follows every piece.

    Raises ValueError for a merge of ids that do not exist before it, for one that makes a piece that is there already, and
    for an alphabet that is given with bytes or has a character twice.
    """

    merges: tuple[tuple[int, int], ...] = field(repr=False)
    unit: Unit = "bytes"
    alphabet: str = ""  # of characters, in the order of ids and without END; bytes need none
    pattern: str = "gpt2"
    single_digits: bool = False
    normalization: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.alphabet)) < len(self.alphabet) or (self.unit == "bytes" and self.alphabet):
            raise ValueError("the alphabet has each character once, and is given for characters only")
        spelled = self._spelled
        if len(set(spelled)) < len(spelled):
            twice = next(i for i, spelling in enumerate(spelled) if spelling in spelled[:i])
            number = twice - len(spelled) + len(self.merges)
            raise ValueError(f"merge {number} makes a piece that is there already; remove it, as no training makes one twice")
        cut("", self.pattern)

    @property
    def name(self) -> str:
        """The name that tables print."""
        return "bpe" if self.unit == "bytes" else "character-bpe"

    @property
    def specials(self) -> Specials:
        """They are before the pieces."""
        return first_specials("pad", "bos", "eos") if self.unit == "bytes" else first_specials("pad", "unk", "bos", "eos")

    @property
    def vocabulary_size(self) -> int:
        """Specials, alphabet and merges."""
        return self._first + len(self._spelled)

    @property
    def lossless(self) -> bool:
        """Over bytes, without normalisation, and with a published pattern that covers every text."""
        return self.unit == "bytes" and self.pattern in COVERING and keeps_all(self.normalization)

    @cached_property
    def _first(self) -> int:
        return len(self.specials.ids())

    @cached_property
    def _spelled(self) -> list[str]:
        """Each piece as a string whose characters are numbered like the symbols of the alphabet."""
        spelled = [chr(i) for i in range(len(BYTE_ORDER) if self.unit == "bytes" else len(self.alphabet) + 1)]
        first = self._first
        for number, (left, right) in enumerate(self.merges):
            if not first <= min(left, right) <= max(left, right) < first + len(spelled):
                raise ValueError(f"merge {number} is of the ids {left} and {right}, and not both are pieces before it")
            spelled.append(spelled[left - first] + spelled[right - first])
        return spelled

    @cached_property
    def pieces(self) -> tuple[bytes, ...]:
        """The bytes of every id, none for specials. END is a space."""
        if self.unit == "bytes":
            symbols = [bytes([byte]) for byte in BYTE_ORDER]
        else:
            symbols = [character.encode() for character in self.alphabet + " "]
        return (b"",) * self._first + tuple(b"".join([symbols[ord(c)] for c in spelling]) for spelling in self._spelled)

    @cached_property
    def ranks(self) -> dict[tuple[int, int], tuple[int, int]]:
        """The place of each merge in the list, and the id that it makes."""
        first = self.vocabulary_size - len(self.merges)
        return {pair: (rank, first + rank) for rank, pair in enumerate(self.merges)}

    @cached_property
    def _ids(self) -> Mapping[Any, int]:
        """The ids of bytes as numbers, or of characters."""
        return {symbol: self._first + i for i, symbol in enumerate(BYTE_ORDER if self.unit == "bytes" else self.alphabet)}

    def _symbols(self, piece: str) -> list[int]:
        if not piece:  # a pattern of the user's own may match nothing at all, which is no word
            return []
        if self.unit == "bytes":
            return [self._ids[byte] for byte in piece.encode()]
        unk = 1
        return [self._ids.get(character, unk) for character in piece] + [self._first + len(self.alphabet)]

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """The ids of a text: in each piece, again and again, the earliest merge of the list that some neighbours have.

        Raises ValueError for a lone surrogate and for bytes that are not UTF-8.
        """
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[Int32[np.ndarray, "..."]]:
        """`encode` of each text, in order. Raises what it does."""
        known: dict[str, list[int]] = {}
        return [self._row(text, lambda piece: self._merged(piece, known)) for text in texts]

    def encode_dropped(self, text: str | bytes, rate: float, generator: np.random.Generator) -> Int32[np.ndarray, "T"]:
        """BPE-dropout (Provilkov et al. 2020, arXiv:1910.13267): at each step each merge at hand is left out at this rate.

        Rate 0 is `encode`, rate 1 the alphabet. The first merge that stays is made, and then all are at hand again; a piece
        is done when none stays.

        Raises what `encode` does, and ValueError for a rate outside 0 to 1.
        """
        if not 0 <= rate <= 1:
            raise ValueError(f"a rate of dropout lies from 0 to 1; {rate} does not")
        return self._row(text, lambda piece: merge(self._symbols(piece), self.ranks.get, lambda: generator.random() < rate))

    def _row(self, text: str | bytes, ids_of: Callable[[str], list[int]]) -> Int32[np.ndarray, "T"]:
        ids: list[int] = []
        for piece in cut(normalized(characters(text), self.normalization), self.pattern, single_digits=self.single_digits):
            ids += ids_of(piece)
        return np.array(ids, np.int32)

    def _merged(self, piece: str, known: dict[str, list[int]]) -> list[int]:
        """The ids of a piece, from the pieces that this call knows."""
        ids = known.get(piece)
        if ids is None:
            ids = known[piece] = merge(self._symbols(piece), self.ranks.get)
        return ids

    def encode_with_offsets(self, text: str | bytes) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
        """`encode`, and the bytes of the normalised text that each id stands for; END is between two of them.

        Raises what `encode` does.
        """
        text = normalized(characters(text), self.normalization)
        ids: list[int] = []
        ends: list[tuple[int, int]] = []
        known: dict[str, list[int]] = {}
        seen = at = 0
        for start, piece in places(text, self.pattern, single_digits=self.single_digits):
            at += len(text[seen:start].encode())
            seen = start + len(piece)
            found = self._merged(piece, known)
            ids += found
            for size in self._sizes(found, piece):
                ends.append((at, at + size))
                at += size
        return np.array(ids, np.int32), np.array(ends, np.int64).reshape(-1, 2)

    def _sizes(self, ids: Iterable[int], piece: str) -> Iterator[int]:
        """The number of bytes of the piece that each of its ids stands for."""
        if self.unit == "bytes":
            yield from (len(self.pieces[i]) for i in ids)
            return
        at, known = 0, self._spelled
        for i in ids:
            behind = at + (1 if i < self._first else len(known[i - self._first]))
            yield len(piece[at:behind].encode())
            at = behind

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """The bytes of the ids. Over characters the text is lost in part: END becomes a space, and nothing behind the last id.

        So white space is one space, there is one between a word and its comma, and characters that were UNK are gone.

        Raises ValueError for ids that are no integers of one row, or lie outside the vocabulary.
        """
        found = b"".join([self.pieces[i] for i in checked(ids, self.vocabulary_size, self.name).tolist()])
        return found if self.unit == "bytes" else found.removesuffix(b" ")

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one id, none for a special; END is a space here wherever it is.

        Raises ValueError for an id outside the vocabulary.
        """
        checked([token], self.vocabulary_size, self.name)
        return self.pieces[token]

    def shortened(self, vocabulary_size: int) -> "BpeTokenizer":
        """The tokenizer that has the first merges only, as training for that size would have made it.

        Raises ValueError for a size that does not hold the alphabet, or is larger than this vocabulary.
        """
        least = self.vocabulary_size - len(self.merges)
        if not least <= vocabulary_size <= self.vocabulary_size:
            raise ValueError(
                f"a vocabulary of {vocabulary_size} is no part of this one; ask for {least} to {self.vocabulary_size}"
            )
        return replace(self, merges=self.merges[: vocabulary_size - least])

    def definition(self) -> dict[str, Any]:
        """The merges and all that is done before them."""
        return {
            "kind": "bpe",
            "unit": self.unit,
            "alphabet": self.alphabet,
            "merges": [list(pair) for pair in self.merges],
            "pattern": self.pattern,
            "single_digits": self.single_digits,
            "normalization": list(self.normalization),
            "specials": self.specials.named(),
        }

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> "BpeTokenizer":
        """The tokenizer that has this definition.

        Raises ValueError for a definition of another kind, one with other specials, and what the tokenizer itself refuses.
        """
        keys = cls(()).definition().keys()
        if definition.get("kind") != "bpe" or definition.keys() != keys:
            raise ValueError(f"a definition of kind bpe has {', '.join(keys)}; this one has {', '.join(definition)}")
        values = {key: definition[key] for key in ("unit", "alphabet", "pattern", "single_digits")}
        merges = tuple((left, right) for left, right in definition["merges"])
        found = cls(merges, **values, normalization=tuple(definition["normalization"]))
        if found.specials.named() != definition["specials"]:
            raise ValueError(f"over {found.unit} the specials are {found.specials.named()}, not {definition['specials']}")
        return found

    def digest(self) -> str:
        """SHA-256 of the definition."""
        return digest_of(self.definition())


def train_bpe(
    documents: Iterable[str | bytes],
    vocabulary_size: int,
    *,
    unit: Unit = "bytes",
    pattern: str = "gpt2",
    single_digits: bool = False,
    normalization: Sequence[Step] = (),
) -> BpeTokenizer:
    """The tokenizer that `train_merges` learns from the documents.

    Args:
        documents: each is read once, and no piece crosses from one into the next.
        vocabulary_size: in ids, specials included.
        unit: bytes, or characters and the end of each piece.
        pattern: a name of PATTERNS or a regular expression; over characters usually words or whitespace.
        single_digits: whether every digit stands alone.
        normalization: what is done to each document before, in this order.

    Raises what `word_counts` and `train_merges` do.
    """
    words = word_counts(documents, pattern, single_digits=single_digits, normalization=normalization)
    return train_on_pieces(
        words,
        vocabulary_size,
        unit=unit,
        pattern=pattern,
        single_digits=single_digits,
        normalization=tuple(normalization),
    )


def train_on_pieces(
    words: Mapping[str, int],
    vocabulary_size: int,
    *,
    unit: Unit = "bytes",
    pattern: str = "gpt2",
    single_digits: bool = False,
    normalization: tuple[Step, ...] = (),
) -> BpeTokenizer:
    """The same from pieces that are counted, and maybe weighted, as `word_counts` does with these settings.

    Raises what `train_merges` does.
    """
    symbols = "" if unit == "bytes" else "".join(str(symbol) for symbol in alphabet_of(words, unit)).removesuffix(END)
    empty = BpeTokenizer((), unit, symbols, pattern, single_digits, normalization)
    first = len(empty.specials.ids())
    steps = train_merges(words, vocabulary_size - first, unit)
    return replace(empty, merges=tuple((first + left, first + right) for left, right in (step.pair for step in steps)))
