"""Code and prose of one corpus apart: heads may rest on the one and work on the other."""

from collections.abc import Sequence
from pathlib import PurePath

import numpy as np
from jaxtyping import Int32

from experiments.data.corpus import Document
from experiments.data.formats import inner_suffix
from tokenization.tokenizer import Tokenizer

# Suffixes of what is read from a folder (experiments.data.formats) and is a program.
CODE = frozenset({".py"})


def domain_tokens(documents: Sequence[Document], tokenizer: Tokenizer) -> dict[str, Int32[np.ndarray, " ids"]]:
    """The ids of the documents of each domain that there is, "code" and "prose", EOS after each document."""
    eos = np.array([] if tokenizer.specials.eos is None else [tokenizer.specials.eos], np.int32)
    found: dict[str, list[np.ndarray]] = {"code": [], "prose": []}
    for document, ids in zip(documents, tokenizer.encode_batch([one.text for one in documents]), strict=True):
        domain = "code" if inner_suffix(PurePath(document.name)) in CODE else "prose"
        found[domain] += [ids.astype(np.int32), eos]
    return {domain: np.concatenate(parts) for domain, parts in found.items() if parts}
