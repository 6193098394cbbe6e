"""The jobs of each kind of `[exact]`."""

from typing import Any

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
    published,
    released,
    tokens,
    training,
)
from leadline.experiments.measure.exact.job import Job


def jobs_of(exact: Exact) -> list[Job]:
    """The jobs of a study, each after those that it needs.

    Raises:
        UserError: for texts or tokenizers that cannot be read.
    """
    tables: dict[type, Any] = {
        BaseBound: base_bound,
        Precision: precision,
        AttentionArithmetic: attention_arithmetic,
        Embeddings: embeddings,
        Norms: norms,
        Tokens: tokens,
        Coverage: coverage,
        Multilingual: training,
        PublishedStudy: published,
        Released: released,
    }
    return tables[type(exact)].jobs(exact)
