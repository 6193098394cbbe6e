"""The text that benchmarks read."""

import itertools
from collections.abc import Sequence

from experiments.data.corpus import Document, stdlib_documents


def documents(size: int) -> list[Document]:
    """The first documents of the standard library, until they have that many bytes."""
    found = list(stdlib_documents())
    ends = itertools.accumulate(len(document.text) for document in found)
    return found[: 1 + next((i for i, end in enumerate(ends) if end >= size), len(found))]


def texts(size: int) -> list[str]:
    """Those documents as strings."""
    return [document.text.decode() for document in documents(size)]


def pieces(found: Sequence[str], length: int, count: int) -> list[str]:
    """The first `length` characters of the first `count` texts that have so many."""
    return [text[:length] for text in found if len(text) >= length][:count]
