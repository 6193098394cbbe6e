"""How many tokens a text takes, and how far they reach beside those of the same text in another language."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class Cost:
    """Sizes of one text: in tokens, in bytes of UTF-8, in characters (code points); `unknown` counts tokens that are UNK."""

    tokens: int
    bytes: int
    characters: int
    unknown: int

    @property
    def bytes_per_token(self) -> float:
        return self.bytes / self.tokens

    @property
    def characters_per_token(self) -> float:
        return self.characters / self.tokens

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.tokens + other.tokens,
            self.bytes + other.bytes,
            self.characters + other.characters,
            self.unknown + other.unknown,
        )


def cost(tokenizer: Tokenizer, text: str) -> Cost:
    """Counts one text.

    Raises:
        ValueError: for a text without a token, and one that cannot be encoded.
    """
    ids = tokenizer.encode(text)
    if not len(ids):
        raise ValueError(f"the {tokenizer.name} tokenizer finds no token in the text; give it one that has some")
    unk = tokenizer.specials.unk
    return Cost(len(ids), len(text.encode()), len(text), 0 if unk is None else int(np.sum(ids == unk)))


def costs(tokenizer: Tokenizer, texts: Mapping[str, str]) -> dict[str, Cost]:
    """The cost of each text, by language.

    Raises:
        UserError: naming the language, for a text that cannot be encoded.
    """
    by_language = {}
    for language, text in texts.items():
        try:
            by_language[language] = cost(tokenizer, text)
        except ValueError as error:
            raise UserError(f"{language}: {error}") from error
    return by_language


def relative(costs: Mapping[str, Cost], reference: str) -> dict[str, float]:
    """Tokens of each text over those of the reference: the tokenization premium (Petrov et al. 2023, arXiv:2305.15425).

    Raises:
        ValueError: where the reference is none of the texts.
    """
    if reference not in costs:
        raise ValueError(f"the reference {reference!r} is none of the texts: {', '.join(costs)}")
    return {language: text.tokens / costs[reference].tokens for language, text in costs.items()}


def effective_context(window: int, premium: float) -> float:
    """window / premium: how many of the reference's tokens have the content of a full window in a language of this premium."""
    return window / premium


def gini(values: Mapping[str, float]) -> float:
    """Gini's coefficient, Σ_ij |x_i - x_j| / (2 n Σ_i x_i): 0 where every language costs the same."""
    x = np.array(list(values.values()), np.float64)
    return float(np.sum(np.abs(x[:, None] - x[None, :])) / (2 * len(x) * np.sum(x)))
