"""Code and prose of one corpus apart: heads may rest on the one and work on the other."""

from collections.abc import Iterable, Sequence
from pathlib import PurePath

import numpy as np
from jaxtyping import Int32, UInt

from experiments.data.corpus import Document
from experiments.data.formats import inner_suffix

# Suffixes of what is read from a folder (experiments.data.formats) and is a program.
CODE = frozenset({".py"})


def domain_tokens(
    corpora: Sequence[tuple[Iterable[Document], UInt[np.ndarray, "_"]]], eos: int | None
) -> dict[str, Int32[np.ndarray, "_"]]:
    """The ids of the documents of each domain that there is, "code" and "prose".

    `corpora` are documents, and beside them the ids of all of them in their order, of which EOS ends each. Raises ValueError
    where there are not as many EOS as documents.
    """
    found: dict[str, list[np.ndarray]] = {"code": [], "prose": []}
    for documents, ids in corpora:
        begin = 0
        for document, end in zip(documents, np.flatnonzero(ids == eos) + 1, strict=True):
            domain = "code" if inner_suffix(PurePath(document.name)) in CODE else "prose"
            found[domain].append(ids[begin:end])
            begin = end
    return {domain: np.concatenate(parts).astype(np.int32) for domain, parts in found.items() if parts}
