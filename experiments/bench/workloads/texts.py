"""Text for benchmarks: sources of the standard library."""

import itertools
from collections.abc import Sequence

from leadline.experiments.data.text.corpus import Document, stdlib_documents


def documents(size: int) -> list[Document]:
    """The first documents of the standard library that together have at least `size` bytes."""
    every = list(stdlib_documents())
    ends = itertools.accumulate(len(document.text) for document in every)
    return every[: 1 + next((i for i, end in enumerate(ends) if end >= size), len(every))]


def texts(size: int) -> list[str]:
    """The same documents as strings."""
    return [document.text.decode() for document in documents(size)]


def pieces(texts: Sequence[str], length: int, count: int) -> list[str]:
    """The first `length` characters of the first `count` texts that are that long."""
    return [text[:length] for text in texts if len(text) >= length][:count]
