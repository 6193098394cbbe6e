"""Parallel texts for studies of tokenizers, with the languages in their order, and what a tokenizer makes of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from leadline.experiments.data.text.parallel import embedded, parallel_texts
from leadline.experiments.measure.cost import Cost, effective_context, gini, relative
from leadline.experiments.measure.scalars import scalars
from leadline.experiments.records.measurement import Point
from leadline.experiments.runtime.errors import UserError

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
        paths: "embedded", or files and folders with one file a language.
        reference: a language that must be among them.

    Raises:
        UserError: for texts that cannot be read, or a reference that is none of them.
    """
    texts = embedded() if isinstance(paths, str) else parallel_texts(paths)
    if reference not in texts:
        raise UserError(f"reference = {reference!r} is none of the texts: {', '.join(texts)}")
    known = [language for language in LANGUAGES if language in texts]
    return {language: texts[language] for language in [*known, *sorted(set(texts) - set(known))]}


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


def size_point(costs: Mapping[str, Cost], reference: str, window: int) -> Point:
    """Sizes of tokens, the effective context and the share of UNK, of each language."""
    point: Point = {}
    for language, premium in relative(costs, reference).items():
        text = costs[language]
        sizes = {"bytes_per_token": text.bytes_per_token, "characters_per_token": text.characters_per_token}
        shares = {"effective_context": effective_context(window, premium), "unknown_share": text.unknown / text.tokens}
        point |= scalars(sizes | shares, language=language)
    return point
