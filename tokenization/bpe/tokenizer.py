"""Byte pair encoding: a list of learned merges is applied to each word, over bytes or over characters."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
from jaxtyping import Int32

from leadline.tokenization.base import UNK, check_choice
from leadline.tokenization.bpe.merging import apply_merges
from leadline.tokenization.bpe.training import BYTE_ORDER, END, Unit, alphabet_of, train_merges
from leadline.tokenization.normalization import Step, normalize
from leadline.tokenization.pretokenization import covers
from leadline.tokenization.tokenizer import Specials, first_specials
from leadline.tokenization.words import Segment, WordwiseTokenizer, word_counts


@dataclass(frozen=True)
class BpeTokenizer(WordwiseTokenizer):
    """Ids are the specials, the alphabet, and the result of each merge; so a smaller vocabulary is a prefix.

    Encoding applies, in each word, the earliest merge of the list that any neighbours have, until none applies
    (Sennrich et al. 2016, arXiv:1508.07909); O(n log n) for a word of n symbols.

    Args:
        merges: The pairs of ids that are merged, in the order in which they were learned.
        unit: "bytes": PAD 0, BOS 1, EOS 2, then the 256 bytes, so every text has ids. "characters": PAD 0, UNK 1, BOS 2,
            EOS 3, then the alphabet and the symbol END, which follows every word; other characters are UNK.
        alphabet: The characters in the order of their ids, without END. Empty for bytes.
        pattern: What a word is, as `pretokenize` takes it.
        single_digits: Whether every digit is a word.
        normalization: The steps that are applied to a text first.

    Raises:
        ValueError: A merge refers to ids that do not exist before it, or repeats a piece; the alphabet repeats a character or
            is given for bytes; or the unit, the pattern or a step of the normalization is invalid.
    """

    merges: tuple[tuple[int, int], ...] = field(repr=False)
    unit: Unit = "bytes"
    alphabet: str = ""
    pattern: str = "gpt2"
    single_digits: bool = False
    normalization: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("unit", self.unit, get_args(Unit))
        if len(set(self.alphabet)) < len(self.alphabet) or (self.unit == "bytes" and self.alphabet):
            raise ValueError("the alphabet has each character once, and is given for characters only")
        spellings = self._spellings
        if len(set(spellings)) < len(spellings):
            repeated = next(i for i, spelling in enumerate(spellings) if spelling in spellings[:i])
            number = repeated - len(spellings) + len(self.merges)
            raise ValueError(f"merge {number} makes a piece that exists already; remove it, as training makes each piece once")

    @property
    def name(self) -> str:
        """The name in tables and messages."""
        return "bpe" if self.unit == "bytes" else "character-bpe"

    @property
    def specials(self) -> Specials:
        """PAD, BOS and EOS over bytes; PAD, UNK, BOS and EOS over characters."""
        return specials_of(self.unit)

    @property
    def lossless(self) -> bool:
        """Over bytes, without normalization, and with a pattern that covers every text."""
        return self.unit == "bytes" and covers(self.pattern) and not self.normalization

    def _build_table(self) -> tuple[bytes, ...]:
        """The bytes of every id, empty for specials. END is a space."""
        if self.unit == "bytes":
            symbols = [bytes([byte]) for byte in BYTE_ORDER]
        else:
            symbols = [character.encode() for character in self.alphabet + " "]
        return (b"",) * self._first + tuple(b"".join([symbols[ord(c)] for c in spelling]) for spelling in self._spellings)

    @cached_property
    def ranks(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Maps each merge to its place in the list and the id of its result."""
        first = self._first + len(self._spellings) - len(self.merges)
        return {pair: (rank, first + rank) for rank, pair in enumerate(self.merges)}

    def encode_dropped(self, text: str | bytes, rate: float, generator: np.random.Generator) -> Int32[np.ndarray, "T"]:
        """Encodes a text with BPE-dropout (Provilkov et al. 2020, arXiv:1910.13267).

        At each step every applicable merge is left out with probability `rate`, and the first that remains is made. A word is
        done when none remains. Rate 0 is `encode`; rate 1 leaves the alphabet.

        Args:
            text: The text.
            rate: The probability of dropout, from 0 to 1.
            generator: The source of randomness.

        Raises:
            ValueError: The rate is outside 0 to 1, or as `encode`.
        """
        if not 0 <= rate <= 1:
            raise ValueError(f"the rate of dropout must be from 0 to 1, not {rate}")
        ids: list[int] = []
        for word in filter(None, self._words(normalize(text, self.normalization))):
            ids += apply_merges(self._symbols(word), self.ranks.get, lambda: generator.random() < rate)
        return np.array(ids, np.int32)

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """Concatenates the bytes of the ids.

        Over characters the text is lost in part: END becomes a space, also before punctuation, and the last END and characters
        that were UNK are removed.

        Raises:
            ValueError: The ids are not one row of integers, or lie outside the vocabulary.
        """
        text = super().decode(ids)
        return text if self.unit == "bytes" else text.removesuffix(b" ")

    def shortened(self, vocabulary_size: int) -> "BpeTokenizer":
        """Returns the tokenizer of the first merges only, which equals the one trained to that size.

        Raises:
            ValueError: The size does not hold the alphabet, or exceeds this vocabulary.
        """
        least = self.vocabulary_size - len(self.merges)
        if not least <= vocabulary_size <= self.vocabulary_size:
            raise ValueError(f"the vocabulary can be shortened to {least} to {self.vocabulary_size} ids, not {vocabulary_size}")
        return replace(self, merges=self.merges[: vocabulary_size - least])

    def definition(self) -> dict[str, Any]:
        """The fields and the ids of the specials."""
        return super().definition() | {"kind": "bpe", "specials": self.specials.named()}

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> "BpeTokenizer":
        """Rebuilds the tokenizer of a definition.

        Raises:
            ValueError: The kind, the fields or the specials are others, or the class refuses a value.
        """
        keys = cls(()).definition().keys()
        if definition.get("kind") != "bpe" or definition.keys() != keys:
            raise ValueError(f"a definition of the kind bpe has {', '.join(keys)}; this one has {', '.join(definition)}")
        values = {key: value for key, value in definition.items() if key not in ("kind", "specials")}
        merges = tuple((left, right) for left, right in definition["merges"])
        tokenizer = cls(**values | {"merges": merges, "normalization": tuple(definition["normalization"])})
        if tokenizer.specials.named() != definition["specials"]:
            specials = tokenizer.specials.named()
            raise ValueError(f"the specials over {tokenizer.unit} are {specials}, not {definition['specials']}")
        return tokenizer

    @cached_property
    def _first(self) -> int:
        return len(self.specials.ids())

    @cached_property
    def _spellings(self) -> list[str]:
        """Each piece as a string, in which character i is symbol i of the alphabet."""
        spellings = [chr(i) for i in range(len(BYTE_ORDER) if self.unit == "bytes" else len(self.alphabet) + 1)]
        first = self._first
        for number, (left, right) in enumerate(self.merges):
            if not first <= min(left, right) <= max(left, right) < first + len(spellings):
                raise ValueError(f"merge {number} joins the ids {left} and {right}, which are not both pieces before it")
            spellings.append(spellings[left - first] + spellings[right - first])
        return spellings

    @cached_property
    def _symbol_ids(self) -> Mapping[Any, int]:
        """The ids of byte values, or of characters."""
        return {symbol: self._first + i for i, symbol in enumerate(BYTE_ORDER if self.unit == "bytes" else self.alphabet)}

    def _symbols(self, word: str) -> list[int]:
        if self.unit == "bytes":
            return [self._symbol_ids[byte] for byte in word.encode()]
        return [self._symbol_ids.get(character, UNK) for character in word] + [self._first + len(self.alphabet)]

    def _word_ids(self, word: str) -> list[int]:
        return apply_merges(self._symbols(word), self.ranks.get)

    def _segments(self, word: str) -> list[Segment]:
        ids = self._word_ids(word)
        return list(zip(ids, self._sizes(ids, word), strict=True))

    def _sizes(self, ids: Iterable[int], word: str) -> Iterator[int]:
        """The number of bytes of the word that each id stands for; END has none."""
        if self.unit == "bytes":
            yield from (len(self.table[token]) for token in ids)
            return
        at = 0
        for token in ids:
            behind = at + (1 if token < self._first else len(self._spellings[token - self._first]))
            yield len(word[at:behind].encode())
            at = behind


def specials_of(unit: Unit) -> Specials:
    """PAD, BOS and EOS over bytes; PAD, UNK, BOS and EOS over characters."""
    return first_specials("pad", "bos", "eos") if unit == "bytes" else first_specials("pad", "unk", "bos", "eos")


def train_bpe(
    documents: Iterable[str | bytes],
    vocabulary_size: int,
    *,
    unit: Unit = "bytes",
    pattern: str = "gpt2",
    single_digits: bool = False,
    normalization: Sequence[Step] = (),
) -> BpeTokenizer:
    """Trains byte pair encoding on documents, as `merge_steps` does.

    Args:
        documents: Each is read once, and no word crosses from one into the next.
        vocabulary_size: The number of ids, specials included.
        unit: A field of the tokenizer, as are the following.
        pattern: Cuts texts into words.
        single_digits: Whether every digit is a word of its own.
        normalization: Steps before texts are cut.

    Raises:
        ValueError: As `word_counts` and `train_merges`.
    """
    words = word_counts(documents, pattern, single_digits=single_digits, normalization=normalization)
    fields = {"unit": unit, "pattern": pattern, "single_digits": single_digits, "normalization": tuple(normalization)}
    return train_bpe_on_counts(words, vocabulary_size, **fields)


def train_bpe_on_counts(
    words: Mapping[str, int],
    vocabulary_size: int,
    *,
    unit: Unit = "bytes",
    pattern: str = "gpt2",
    single_digits: bool = False,
    normalization: tuple[Step, ...] = (),
) -> BpeTokenizer:
    """Trains byte pair encoding on counts of words, which may be weighted.

    Args:
        words: How often each word occurs, as `word_counts` counts with the same settings.
        vocabulary_size: The number of ids, specials included.
        unit: A field of the tokenizer, as are the following.
        pattern: Cuts texts into words.
        single_digits: Whether every digit is a word of its own.
        normalization: Steps before texts are cut.

    Raises:
        ValueError: As `train_merges`.
    """
    alphabet = "" if unit == "bytes" else "".join(str(symbol) for symbol in alphabet_of(words, unit)).removesuffix(END)
    untrained = BpeTokenizer((), unit, alphabet, pattern, single_digits, normalization)
    first = len(untrained.specials.ids())
    steps = train_merges(words, vocabulary_size - first, unit)
    return replace(untrained, merges=tuple((first + left, first + right) for left, right in (step.pair for step in steps)))
