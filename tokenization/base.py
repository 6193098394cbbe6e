"""Base class of tokenizers that are dataclasses: the fields define the tokenizer, and a table of bytes decodes."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int32

from leadline.tokenization.ids import check_ids, definition_digest, join_bytes
from leadline.tokenization.tokenizer import Specials, first_specials

SPECIALS = first_specials("pad", "unk", "bos", "eos")
UNK = 1
EACH_BYTE = tuple(bytes([value]) for value in range(256))
Kind = TypeVar("Kind", bound="TableTokenizer")


@dataclass(frozen=True)
class TableTokenizer(ABC):
    """A tokenizer whose fields are strings, numbers, truth values and tuples of these, as JSON can hold them."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in tables and messages, and the "kind" of the definition."""

    @property
    def specials(self) -> Specials:
        """PAD, UNK, BOS and EOS, the ids 0 to 3."""
        return SPECIALS

    @abstractmethod
    def _build_table(self) -> tuple[bytes, ...]:
        """The bytes of every id, empty for specials."""

    @cached_property
    def table(self) -> tuple[bytes, ...]:
        """The bytes of every id, empty for specials."""
        return self._build_table()

    @property
    def vocabulary_size(self) -> int:
        """The number of ids, special tokens included."""
        return len(self.table)

    @abstractmethod
    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """Encodes a text."""

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[Int32[np.ndarray, "..."]]:
        """Encodes each text. Raises what `encode` does."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """Concatenates the bytes of the ids. Special tokens, UNK included, add nothing.

        Raises:
            ValueError: The ids are not one row of integers, or lie outside the vocabulary.
        """
        return join_bytes(ids, self.table, self.name)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token, empty for a special.

        Raises:
            ValueError: The id lies outside the vocabulary.
        """
        return self.table[check_ids([token], self.vocabulary_size, self.name)[0]]

    def definition(self) -> dict[str, Any]:
        """The kind and the fields, with lists in place of tuples, as JSON returns them."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": self.name} | {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}

    @classmethod
    def from_definition(cls: type[Kind], definition: Mapping[str, Any]) -> Kind:
        """Rebuilds the tokenizer of a definition.

        Raises:
            ValueError: The kind is another, a field is missing or unknown, or the class refuses a value.
        """
        values = {name: value for name, value in definition.items() if name != "kind"}
        names = {field.name for field in fields(cls)}
        if values.keys() != names:
            raise ValueError(f"the definition of a {cls.__name__} has the fields {sorted(names)}, not {sorted(values)}")
        tokenizer = cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})
        if definition.get("kind") != tokenizer.name:
            raise ValueError(f"a {cls.__name__} is of the kind {tokenizer.name!r}, not {definition.get('kind')!r}")
        return tokenizer

    def digest(self) -> str:
        """SHA-256 of the definition in hexadecimal."""
        return definition_digest(self.definition())


def check_choice(name: str, value: str, known: Sequence[str]) -> None:
    """Raises ValueError where the value of an option is none of those that are known."""
    if value not in known:
        raise ValueError(f"unknown {name} {value!r}; choose one of {', '.join(known)}")


def check_vocabulary(name: str, entries: Sequence[str]) -> None:
    """Checks that no entry of a vocabulary is empty or repeated.

    Args:
        name: The name of the tokenizer, for the message.
        entries: The pieces of the vocabulary.

    Raises:
        ValueError: An entry is empty or repeated.
    """
    if "" in entries:
        raise ValueError(f"entry {list(entries).index('')} of the {name} vocabulary is empty")
    repeated = next((entry for entry, count in Counter(entries).items() if count > 1), None)
    if repeated is not None:
        raise ValueError(f"the {name} vocabulary contains {repeated!r} twice")
