"""Tokens by language of a model's tokenizer."""

from leadline.experiments.config.measure import LanguagesMeasure
from leadline.experiments.measure.evaluate import Models
from leadline.experiments.measure.exact.texts import costs, language_point, texts_of
from leadline.experiments.records.measurement import Point, scalars


def languages(models: Models, settings: LanguagesMeasure) -> list[Point]:
    """`language_point` of the tokenizer and the context of the models, which all have the same."""
    tokenizer = models.source.tokenizer
    by_language = costs(tokenizer, texts_of(settings.texts, settings.reference))
    point = language_point(by_language, settings.reference, models.source.data.length)
    return [point | scalars({"vocabulary_size": float(tokenizer.vocabulary_size)}) for _ in models.arms]
