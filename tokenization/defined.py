"""What all tokenizers do alike that are a dataclass: its fields define them, and a table of bytes decodes."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int32

from tokenization.ids import checked, digest_of, joined
from tokenization.tokenizer import Specials, first_specials

SPECIALS = first_specials("pad", "unk", "bos", "eos")
UNK = 1
Kind = TypeVar("Kind", bound="Defined")


@dataclass(frozen=True)
class Defined(ABC):
    """A tokenizer that its fields define: strings, numbers, truth values and tuples of these, as JSON can hold them."""

    @property
    def specials(self) -> Specials:
        """PAD, UNK, BOS and EOS, before everything else."""
        return SPECIALS

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that tables print; also the "kind" of the definition."""

    @abstractmethod
    def pieces_bytes(self) -> Iterable[bytes]:
        """The bytes of every id in order, none for specials."""

    @cached_property
    def table(self) -> tuple[bytes, ...]:
        """The bytes of every id, as decoding looks them up."""
        return tuple(self.pieces_bytes())

    @abstractmethod
    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """The ids of a text."""

    @property
    def vocabulary_size(self) -> int:
        """The number of ids, specials included."""
        return len(self.table)

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[Int32[np.ndarray, "..."]]:
        """`encode` of each text, in order."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """The bytes of the ids, in order; specials, UNK among them, add none.

        Raises ValueError for ids that are no integers of one row, or lie outside the vocabulary.
        """
        return joined(ids, self.table, self.name)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one id, none for a special.

        Raises ValueError for an id outside the vocabulary.
        """
        return self.table[checked([token], self.vocabulary_size, self.name)[0]]

    def definition(self) -> dict[str, Any]:
        """The kind and the fields. Tuples are lists here, as JSON gives them back."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": self.name} | {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}

    @classmethod
    def from_definition(cls: type[Kind], definition: Mapping[str, Any]) -> Kind:
        """The tokenizer of that definition.

        Raises ValueError for a definition of another kind, for fields too many or too few, and for what the fields may not be.
        """
        values = {name: value for name, value in definition.items() if name != "kind"}
        names = {field.name for field in fields(cls)}
        if values.keys() != names:
            raise ValueError(f"the definition of a {cls.__name__} has the fields {sorted(names)}, not {sorted(values)}")
        found = cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})
        if definition.get("kind") != found.name:
            raise ValueError(f"a {cls.__name__} is no tokenizer of the kind {definition.get('kind')!r}")
        return found

    def digest(self) -> str:
        """SHA-256 of the definition."""
        return digest_of(self.definition())


def refuse_doubles(kind: str, entries: Sequence[str]) -> None:
    """Raises ValueError for an empty entry of a vocabulary and for one that it holds twice."""
    if "" in entries:
        raise ValueError(f"entry {list(entries).index('')} of the {kind} vocabulary is empty")
    double = next((entry for entry, count in Counter(entries).items() if count > 1), None)
    if double is not None:
        raise ValueError(f"the {kind} vocabulary holds {double!r} twice")
