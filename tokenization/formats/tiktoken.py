"""Rank vocabularies, as the tiktoken library has them: every piece has a rank, which is its id and the order of its merge.

There is no list of merges. Two neighbours are merged when their concatenation has a rank, however it was learned; so an edited
vocabulary may give other ids than a list of merges does.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import regex
import tiktoken
from jaxtyping import Int32, Int64

from leadline.tokenization.bpe.merging import apply_merges
from leadline.tokenization.formats.rank_words import RankWords
from leadline.tokenization.ids import LARGEST_ID, check_ids, contiguous_offsets, definition_digest
from leadline.tokenization.normalization import to_text
from leadline.tokenization.pretokenization import PATTERNS, compile_pattern, covers
from leadline.tokenization.tokenizer import Specials

# The engine of tiktoken panics at an empty word. A pattern that matches one somewhere in this text is refused.
_PROBE = "\n Aa1.\u00e9\u3000 "

# The engine of tiktoken fails on a run of a million white space characters, because its stack is full.
_LONG_RUN = r"\s{100000}"


@dataclass(frozen=True)
class RankTokenizer:
    """Ids are ranks, and after them specials under their published names; ids between these may be unused.

    BOS and EOS are both "<|endoftext|>", which separates documents, where it exists.

    Args:
        name: The name in tables and messages.
        pattern: What a word is, as `pretokenize` takes it.
        ranks: The rank of every piece.
        special_ids: The id of every special, by its published name.

    Raises:
        ValueError: The ranks are not 0 to their number less one, a byte is no piece, the id of a special is taken or out of
            range, or the pattern matches an empty word.
    """

    name: str
    pattern: str
    ranks: Mapping[bytes, int] = field(repr=False, hash=False)
    special_ids: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if sorted(self.ranks.values()) != list(range(len(self.ranks))):
            raise ValueError(f"the ranks of {len(self.ranks)} pieces are 0 to {len(self.ranks) - 1}, each once; number them so")
        check_bytes(self.ranks, self.name)
        check_special_ids(self.special_ids, len(self.ranks), self.name)
        if not all(match.group() for match in compile_pattern(self.pattern).finditer(_PROBE)):
            raise ValueError(f"{self.name}: the pattern {self.pattern[:200]!r} matches an empty word; let it match a character")

    @property
    def vocabulary_size(self) -> int:
        """The largest id and one more."""
        return max([len(self.ranks) - 1, *self.special_ids.values()]) + 1

    @property
    def specials(self) -> Specials:
        """The end of a text as BOS and EOS, if it has an id."""
        end = self.special_ids.get("<|endoftext|>")
        return Specials(bos=end, eos=end)

    @property
    def lossless(self) -> bool:
        """With a pattern that covers every text."""
        return covers(self.pattern)

    @cached_property
    def table(self) -> tuple[bytes | None, ...]:
        """The bytes of every id, empty for specials, and None for an unused id."""
        entries: list[bytes | None] = [None] * self.vocabulary_size
        for piece, rank in self.ranks.items():
            entries[rank] = piece
        for token in self.special_ids.values():
            entries[token] = b""
        return tuple(entries)

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """Encodes a text as tiktoken's `encode_ordinary` does, so names of specials are ordinary text.

        Raises:
            ValueError: The text is not UTF-8 or contains a lone surrogate.
        """
        text = to_text(text)
        if regex.search(_LONG_RUN, text):
            return self.encode_in_python(text)
        return np.array(self._encoding.encode_ordinary(text), np.int32)

    def encode_in_python(self, text: str) -> Int32[np.ndarray, "T"]:
        """The same ids by `RankWords` and `rank_ids`, which need less stack and more time."""
        return np.array([token for word in self.words.cut(text) for token in rank_ids(word.encode(), self.ranks)], np.int32)

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[Int32[np.ndarray, "..."]]:
        """Encodes each text. Raises what `encode` does."""
        return [self.encode(text) for text in texts]

    def encode_with_offsets(self, text: str | bytes) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
        """Encodes a text and locates its tokens.

        Raises:
            ValueError: The pattern leaves out some of the text, or as `encode`.
        """
        text = to_text(text)
        ids = self.encode(text)
        offsets = contiguous_offsets(ids, self._bytes)
        size = len(text.encode())
        if size != (offsets[-1, 1] if len(offsets) else 0):
            raise ValueError(f"the pattern of {self.name} leaves out some of the {size} bytes of the text: offsets are unknown")
        return ids, offsets

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """Concatenates the bytes of the ids; specials add nothing.

        Raises:
            ValueError: The ids are not one row of integers, or one is outside the vocabulary or unused.
        """
        pieces = []
        for at, token in enumerate(check_ids(ids, self.vocabulary_size, self.name).tolist()):
            piece = self.table[token]
            if piece is None:
                raise ValueError(f"id {token} at position {at} is not used by the {self.name} tokenizer")
            pieces.append(piece)
        return b"".join(pieces)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one id, empty for a special. Raises what `decode` does."""
        return self.decode([token])

    def definition(self) -> dict[str, Any]:
        """The pieces in the order of their ranks, in base 64, and the other fields."""
        pieces = [base64.b64encode(piece).decode() for piece in sorted(self.ranks, key=self.ranks.__getitem__)]
        specials = dict(self.special_ids)
        return {"kind": "ranks", "name": self.name, "pattern": self.pattern, "pieces": pieces, "specials": specials}

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> "RankTokenizer":
        """Rebuilds the tokenizer of a definition.

        Raises:
            ValueError: The kind or the fields are others, or the class refuses a value.
        """
        keys = {"kind", "name", "pattern", "pieces", "specials"}
        if definition.get("kind") != "ranks" or definition.keys() != keys:
            raise ValueError(
                f"a definition of the kind ranks has {', '.join(sorted(keys))}; this one has {', '.join(definition)}"
            )
        ranks = {base64.b64decode(piece): rank for rank, piece in enumerate(definition["pieces"])}
        return cls(definition["name"], definition["pattern"], ranks, dict(definition["specials"]))

    def digest(self) -> str:
        """SHA-256 of the definition in hexadecimal."""
        return definition_digest(self.definition())

    @cached_property
    def words(self) -> RankWords:
        """Cuts texts as the library does."""
        return RankWords(self.pattern)

    @cached_property
    def _bytes(self) -> list[bytes]:
        return [piece or b"" for piece in self.table]

    @cached_property
    def _encoding(self) -> tiktoken.Encoding:
        return tiktoken.Encoding(
            self.name,
            pat_str=PATTERNS.get(self.pattern, self.pattern),
            mergeable_ranks=dict(self.ranks),
            special_tokens=dict(self.special_ids),
        )


def rank_ids(word: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    """The ids of a word by tiktoken's algorithm, O(n log n) for n bytes.

    A word that has a rank is one token. Otherwise the neighbours are merged whose concatenation has the least rank, of equal
    ranks the leftmost, until no concatenation has one.

    Args:
        word: The UTF-8 bytes of a word.
        ranks: The rank of every piece, all single bytes included.
    """
    if word in ranks:
        return [ranks[word]]
    symbols = [ranks[bytes([byte])] for byte in word]
    spelled = dict(zip(symbols, (bytes([byte]) for byte in word), strict=True))
    return apply_merges(symbols, partial(_merged, ranks, spelled))


def _merged(ranks: Mapping[bytes, int], spelled: dict[int, bytes], pair: tuple[int, int]) -> tuple[int, int] | None:
    """The rank of two neighbours together, twice, as `apply_merges` wants it; its spelling is added to the known ones."""
    concatenated = spelled[pair[0]] + spelled[pair[1]]
    rank = ranks.get(concatenated)
    if rank is None:
        return None
    spelled[rank] = concatenated
    return rank, rank


def check_special_ids(special_ids: Mapping[str, Any], pieces: int, name: str) -> None:
    """Checks that specials have ids after the pieces.

    Args:
        special_ids: The id of every special, by its published name.
        pieces: The number of pieces.
        name: The name of the vocabulary, for the message.

    Raises:
        ValueError: An id is not an integer, out of range, or that of two specials.
    """
    for special, token in special_ids.items():
        if type(token) is not int or not pieces <= token <= LARGEST_ID:
            raise ValueError(
                f"{name}: the id of the special {special!r} is {str(token)[:40]}, not an integer from {pieces} to {LARGEST_ID}"
            )
    if len(set(special_ids.values())) < len(special_ids):
        raise ValueError(f"{name}: two specials have one id in {str(dict(special_ids))[:200]}; give each its own")


def check_bytes(ranks: Mapping[bytes, int], name: str) -> None:
    """Checks that every byte is a piece.

    Args:
        ranks: The rank of every piece.
        name: The name of the vocabulary or its file, for the message.

    Raises:
        ValueError: A byte is not.
    """
    missing = [f"0x{byte:02x}" for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise ValueError(
            f"{name}: {len(missing)} of the 256 bytes are not pieces, first {missing[0]}; add each as a piece of its own, "
            "since some text has no ids otherwise"
        )
