"""What a tokenizer costs a text: tokens, and how far they reach, beside those of the same text in another language."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tokenization.text import characters, utf8
from tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class Cost:
    """Sizes of one text: in tokens, in bytes of UTF-8, in characters (code points)."""

    tokens: int
    bytes: int
    characters: int
    unknown: int  # tokens that are UNK

    @property
    def bytes_per_token(self) -> float:
        return self.bytes / self.tokens

    @property
    def characters_per_token(self) -> float:
        return self.characters / self.tokens


def cost(tokenizer: Tokenizer, text: str) -> Cost:
    """Counts one text.

    Raises ValueError for a text without a token, and one that cannot be encoded.
    """
    ids = tokenizer.encode(text)
    if not len(ids):
        raise ValueError(f"the {tokenizer.name} tokenizer finds no token in the text; give it one that has some")
    unknown = tokenizer.specials.unk
    return Cost(len(ids), len(utf8(text)), len(characters(text)), int(np.sum(ids == unknown)) if unknown is not None else 0)


def relative(costs: Mapping[str, Cost], reference: str) -> dict[str, float]:
    """Tokens of each text over those of the reference: the tokenization premium (Petrov et al. 2023, arXiv:2305.15425).

    Raises ValueError where the reference is none of the texts.
    """
    if reference not in costs:
        raise ValueError(f"the reference {reference!r} is none of the texts: {', '.join(costs)}")
    return {language: own.tokens / costs[reference].tokens for language, own in costs.items()}


def effective_context(window: int, premium: float) -> float:
    """How many of the reference's tokens have the content that a window holds in a language of this premium."""
    return window / premium


def gini(values: Mapping[str, float]) -> float:
    """Gini's coefficient, sum_ij |x_i - x_j| / (2 n sum_i x_i): 0 where every language costs the same."""
    x = np.array(list(values.values()), np.float64)
    return float(np.sum(np.abs(x[:, None] - x[None, :])) / (2 * len(x) * np.sum(x)))
