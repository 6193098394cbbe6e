"""Parallel texts for studies of tokenizers, with the languages in their order, and what a tokenizer makes of them: how many
tokens a text takes, and how far they reach beside those of the same text in another language."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leadline.experiments.data.text.parallel import embedded, parallel_texts
from leadline.experiments.records.measurement import Point, scalars
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.tokenizer import Tokenizer

LANGUAGES = {
    "eng": "English",
    "spa": "Spanish",
    "fra": "French",
    "deu": "German",
    "rus": "Russian",
    "cmn_hans": "Chinese",
    "jpn": "Japanese",
    "kor": "Korean",
    "tha": "Thai",
    "hin": "Hindi",
    "amh": "Amharic",
    "mya": "Burmese",
}


def texts_of(paths: str | Sequence[str | Path], reference: str) -> dict[str, str]:
    """Parallel texts by language: those of LANGUAGES in their order, then the others by name.

    Args:
        paths: "embedded", or files and folders with one file per language.
        reference: a language that must be among them.

    Raises:
        UserError: for texts that cannot be read, or a reference that is none of them.
    """
    texts = embedded() if isinstance(paths, str) else parallel_texts(paths)
    if reference not in texts:
        raise UserError(f"reference = {reference!r} is none of the texts: {', '.join(texts)}")
    known = [language for language in LANGUAGES if language in texts]
    return {language: texts[language] for language in [*known, *sorted(set(texts) - set(known))]}


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


def gini(values: Mapping[str, float]) -> float:
    """Gini's coefficient, Σ_ij |x_i - x_j| / (2 n Σ_i x_i): 0 where every language costs the same."""
    x = np.array(list(values.values()), np.float64)
    return float(np.sum(np.abs(x[:, None] - x[None, :])) / (2 * len(x) * np.sum(x)))


def premium_point(costs: Mapping[str, Cost], reference: str) -> Point:
    """`tokens` and `relative_tokens` of each language, and how unequal the languages are.

    `premium_ratio` is the largest premium over the smallest.
    """
    premiums = relative(costs, reference)
    most, least = max(premiums.values()), min(premiums.values())
    point = scalars({"gini": gini(premiums), "largest_premium": most, "smallest_premium": least, "premium_ratio": most / least})
    for language, premium in premiums.items():
        point |= scalars({"tokens": costs[language].tokens, "relative_tokens": premium}, language=language)
    return point


def language_point(costs: Mapping[str, Cost], reference: str, window: int) -> Point:
    """`premium_point`, and of each language the sizes of its tokens, the share that is UNK, and what a window holds.

    Args:
        costs: of each text, by language.
        reference: the language that the others are compared with.
        window: tokens of a context.
    """
    point = premium_point(costs, reference)
    for language, premium in relative(costs, reference).items():
        text = costs[language]
        sizes = {"bytes_per_token": text.bytes_per_token, "characters_per_token": text.characters_per_token}
        # So many of the reference's tokens have the content of a full window in a language of this premium.
        context = {"effective_context": window / premium}
        point |= scalars(sizes | context | {"unknown_share": text.unknown / text.tokens}, language=language)
    return point
