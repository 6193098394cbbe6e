"""The readings of one tokenizer over parallel texts."""

from collections.abc import Mapping

import numpy as np

from leadline.experiments.measure.cost import Cost, effective_context, gini, relative
from leadline.experiments.records.measurement import Point, reading


def premium_point(costs: Mapping[str, Cost], reference: str) -> Point:
    """`tokens` and `relative_tokens` of each language, and how unequal the languages are.

    `premium_ratio` is the largest premium over the smallest.
    """
    premiums = relative(costs, reference)
    most, least = max(premiums.values()), min(premiums.values())
    numbers = {
        reading("gini"): gini(premiums),
        reading("largest_premium"): most,
        reading("smallest_premium"): least,
        reading("premium_ratio"): most / least,
        **{reading("tokens", language=language): text.tokens for language, text in costs.items()},
        **{reading("relative_tokens", language=language): premium for language, premium in premiums.items()},
    }
    return {key: np.asarray(value) for key, value in numbers.items()}


def size_point(costs: Mapping[str, Cost], reference: str, window: int) -> Point:
    """Sizes of tokens, the effective context and the share of UNK, of each language."""
    point: Point = {}
    for language, premium in relative(costs, reference).items():
        text = costs[language]
        numbers = {
            "bytes_per_token": text.bytes_per_token,
            "characters_per_token": text.characters_per_token,
            "effective_context": effective_context(window, premium),
            "unknown_share": text.unknown / text.tokens,
        }
        point |= {reading(name, language=language): np.asarray(value) for name, value in numbers.items()}
    return point
