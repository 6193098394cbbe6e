"""Vocabularies in the format of the library tiktoken: a rank for every piece, which is its id and the order of its merge.

There is no list of merges. Two neighbours are merged when their concatenation has a rank, whatever it was learned from; so an
edited vocabulary may give other ids here than a list of merges does.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import regex
import tiktoken
from jaxtyping import Int32, Int64

from tokenization.ids import checked, digest_of, offsets
from tokenization.merging import merge
from tokenization.pretokenization import COVERING, PATTERNS, cut
from tokenization.text import characters
from tokenization.tokenizer import Specials

# The engine of tiktoken gives up (its stack is full) on a run of white space of a million characters.
_LONG = r"\s{100000}"


@dataclass(frozen=True)
class RankTokenizer:
    """Ids are ranks, and behind them specials under their published names; ids between these may be nobody's.

    BOS and EOS are both "<|endoftext|>", which stands between documents, where there is one.

    Raises ValueError for ranks that are not 0 to their number less one, or lack a byte, and for a special whose id is taken.
    """

    name: str
    pattern: str  # a name of PATTERNS or a regular expression
    ranks: Mapping[bytes, int] = field(repr=False, hash=False)
    published: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if sorted(self.ranks.values()) != list(range(len(self.ranks))):
            raise ValueError(f"{len(self.ranks)} pieces have the ranks 0 to {len(self.ranks) - 1}, each once; number them so")
        _check_bytes(self.ranks, self.name)
        taken = [*range(len(self.ranks)), *self.published.values()]
        if len(set(taken)) < len(taken) or min(taken) < 0:
            raise ValueError(f"each special has an id of its own from {len(self.ranks)} on; {dict(self.published)} are not so")
        cut("", self.pattern)

    @property
    def vocabulary_size(self) -> int:
        """One more than the largest id."""
        return max([len(self.ranks) - 1, *self.published.values()]) + 1

    @property
    def specials(self) -> Specials:
        """The end of a text, if it has been given an id."""
        end = self.published.get("<|endoftext|>")
        return Specials(bos=end, eos=end)

    @property
    def lossless(self) -> bool:
        """With a published pattern, which covers every text."""
        return self.pattern in COVERING or self.pattern in {PATTERNS[name] for name in COVERING}

    @cached_property
    def pieces(self) -> tuple[bytes | None, ...]:
        """The bytes of every id, none for specials, and None where there is no token."""
        found: list[bytes | None] = [None] * self.vocabulary_size
        for piece, rank in self.ranks.items():
            found[rank] = piece
        for i in self.published.values():
            found[i] = b""
        return tuple(found)

    @cached_property
    def _known_pieces(self) -> list[bytes]:
        return [piece or b"" for piece in self.pieces]

    @cached_property
    def _encoding(self) -> tiktoken.Encoding:
        return tiktoken.Encoding(
            self.name,
            pat_str=PATTERNS.get(self.pattern, self.pattern),
            mergeable_ranks=dict(self.ranks),
            special_tokens=dict(self.published),
        )

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """The ids that tiktoken's `encode_ordinary` gives, so names of specials are ordinary text.

        Raises ValueError for a lone surrogate and for bytes that are not UTF-8.
        """
        text = characters(text)
        if regex.search(_LONG, text):
            return np.array([i for piece in cut(text, self.pattern) for i in rank_ids(piece.encode(), self.ranks)], np.int32)
        return np.array(self._encoding.encode_ordinary(text), np.int32)

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[Int32[np.ndarray, "..."]]:
        """`encode` of each text, in order. Raises what it does."""
        return [self.encode(text) for text in texts]

    def encode_with_offsets(self, text: str | bytes) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
        """`encode`, and the place of every piece.

        Raises what `encode` does, and ValueError for a pattern that leaves some of the text out.
        """
        text = characters(text)
        ids = self.encode(text)
        found = offsets(ids, self._known_pieces)
        size = len(text.encode())
        if size != (found[-1, 1] if len(found) else 0):
            raise ValueError(f"the pattern of {self.name} leaves out some of the {size} bytes of the text: places are unknown")
        return ids, found

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """The bytes of the ids, in order; specials add none.

        Raises ValueError for ids that are no integers of one row, lie outside the vocabulary, or are nobody's.
        """
        found = []
        for at, i in enumerate(checked(ids, self.vocabulary_size, self.name).tolist()):
            piece = self.pieces[i]
            if piece is None:
                raise ValueError(f"id {i} at position {at} is no token: the {self.name} tokenizer has a hole there")
            found.append(piece)
        return b"".join(found)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one id, none for a special. Raises what `decode` does."""
        return self.decode([token])

    def definition(self) -> dict[str, Any]:
        """The pieces in the order of their ranks, in base 64, and the rest."""
        pieces = [base64.b64encode(piece).decode() for piece in sorted(self.ranks, key=self.ranks.__getitem__)]
        specials = dict(self.published)
        return {"kind": "ranks", "name": self.name, "pattern": self.pattern, "pieces": pieces, "specials": specials}

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> "RankTokenizer":
        """The tokenizer that has this definition.

        Raises ValueError for a definition of another kind, and what the tokenizer itself refuses.
        """
        keys = {"kind", "name", "pattern", "pieces", "specials"}
        if definition.get("kind") != "ranks" or definition.keys() != keys:
            raise ValueError(f"a definition of kind ranks has {', '.join(sorted(keys))}; this one has {', '.join(definition)}")
        ranks = {base64.b64decode(piece): rank for rank, piece in enumerate(definition["pieces"])}
        return cls(definition["name"], definition["pattern"], ranks, dict(definition["specials"]))

    def digest(self) -> str:
        """SHA-256 of the definition."""
        return digest_of(self.definition())


def rank_ids(piece: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    """The ids of a piece: itself if it has a rank; if not, its bytes, of which the neighbours are merged that together have the
    least rank, of equal ranks the ones furthest left, until no two have a rank."""
    if piece in ranks:
        return [ranks[piece]]
    symbols = [ranks[bytes([byte])] for byte in piece]
    spelled = dict(zip(symbols, (bytes([byte]) for byte in piece), strict=True))

    def rank_of(pair: tuple[int, int]) -> tuple[int, int] | None:
        joined = spelled[pair[0]] + spelled[pair[1]]
        rank = ranks.get(joined)
        if rank is None:
            return None
        spelled[rank] = joined
        return rank, rank

    return merge(symbols, rank_of)


def read_ranks(path: Path | str) -> dict[bytes, int]:
    """The pieces of a file of tiktoken's and their ranks: each line is a piece in base 64, a space and its rank.

    Raises ValueError, naming the line, for one that is no such line and for a piece or rank that was there before; and for a
    rank that is missing, and a byte that is no piece by itself.
    """
    ranks: dict[bytes, int] = {}
    lines: dict[int, int] = {}
    for number, line in enumerate(Path(path).read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        piece, rank = _parsed(line, f"{path}:{number}")
        if piece in ranks:
            raise ValueError(f"{path}:{number}: {piece!r} stands on line {lines[ranks[piece]]} already; remove one of the two")
        if rank in lines:
            raise ValueError(f"{path}:{number}: rank {rank} stands on line {lines[rank]} already; give each piece its own")
        ranks[piece], lines[rank] = rank, number
    missing = next(rank for rank in range(len(lines) + 1) if rank not in lines)
    if missing < len(lines):
        raise ValueError(f"{path}: no line has rank {missing}, but there are {len(lines)} pieces; restore it, or close the gap")
    _check_bytes(ranks, str(path))
    return dict(sorted(ranks.items(), key=lambda item: item[1]))


def write_ranks(path: Path | str, ranks: Mapping[bytes, int]) -> None:
    """Writes the file that `read_ranks` reads, in the order of ranks."""
    lines = [base64.b64encode(piece) + b" %d\n" % rank for piece, rank in sorted(ranks.items(), key=lambda item: item[1])]
    Path(path).write_bytes(b"".join(lines))


def _parsed(line: bytes, place: str) -> tuple[bytes, int]:
    parts = line.split()
    if len(parts) != 2 or not parts[1].isdigit():
        raise ValueError(f"{place}: {line[:60]!r} is not a piece in base 64, a space and a rank; write it so, or remove it")
    try:
        piece = base64.b64decode(parts[0], validate=True)
    except binascii.Error as error:
        raise ValueError(f"{place}: {parts[0][:60]!r} is not base 64 ({error}); encode the bytes of the piece anew") from error
    if not piece:
        raise ValueError(f"{place}: the piece is empty; remove the line")
    return piece, int(parts[1])


def _check_bytes(ranks: Mapping[bytes, int], name: str) -> None:
    missing = [f"0x{byte:02x}" for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise ValueError(
            f"{name}: {len(missing)} of the 256 bytes are no piece, the first of them {missing[0]}; "
            "add each as a piece of its own, or some text has no ids"
        )
