"""The jobs of each kind of `[exact]`."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.exact import (
    AttentionArithmetic,
    BaseBound,
    Coverage,
    Embeddings,
    Exact,
    Multilingual,
    Norms,
    Precision,
    PublishedStudy,
    Released,
    Tokens,
)
from leadline.experiments.measure.exact import (
    attention_arithmetic,
    base_bound,
    coverage,
    embeddings,
    norms,
    precision,
    premiums,
    published,
    released,
    tokens,
    training,
)
from leadline.experiments.measure.exact.job import Job


class Kind(NamedTuple):
    """How a kind of `[exact]` is computed."""

    jobs: Callable[[Any], list[Job]]
    settings: tuple[type[Frozen], ...]  # the classes of `Job.settings`, whose keys selectors name


_SCORES = (
    attention_arithmetic.ScoreSettings,
    attention_arithmetic.SaturationSettings,
    attention_arithmetic.RepeatedSettings,
    attention_arithmetic.OrderSettings,
    attention_arithmetic.RotationSettings,
    attention_arithmetic.WindowSettings,
    attention_arithmetic.BiasSettings,
    attention_arithmetic.HeadSettings,
)
_ROWS = (embeddings.LookupSettings, embeddings.StepSettings, embeddings.StartSettings, embeddings.PositionSettings)
_TOKENS = (tokens.TokensSettings, premiums.PremiumSettings, training.WordPieceSettings, training.BpeSettings)
_KINDS: Mapping[type, Kind] = {
    BaseBound: Kind(base_bound.jobs, (base_bound.BoundSettings, base_bound.GrowthSettings, base_bound.CountSettings)),
    Precision: Kind(precision.jobs, (precision.PrecisionSettings,)),
    AttentionArithmetic: Kind(attention_arithmetic.jobs, _SCORES),
    Embeddings: Kind(embeddings.jobs, _ROWS),
    Norms: Kind(norms.jobs, (Norms,)),
    Tokens: Kind(tokens.jobs, _TOKENS),
    Coverage: Kind(coverage.jobs, (coverage.CoverageSettings,)),
    Multilingual: Kind(training.jobs, (training.MultilingualSettings,)),
    PublishedStudy: Kind(published.jobs, (published.PublishedSettings,)),
    Released: Kind(released.jobs, (released.ReleasedSettings,)),
}


def jobs_of(exact: Exact) -> list[Job]:
    """The jobs of a study, each after those that it needs.

    Raises:
        UserError: for texts or tokenizers that cannot be read.
    """
    return _KINDS[type(exact)].jobs(exact)


def settings_of(exact: Exact) -> tuple[type[Frozen], ...]:
    """The classes that the settings of the jobs of a study may be of."""
    return _KINDS[type(exact)].settings
