"""The jobs of each kind of `[exact]`."""

from leadline.experiments.config.exact import BaseBound, Exact, Multilingual, Precision, Tokens
from leadline.experiments.measure.exact import base_bound, multilingual, precision, tokens
from leadline.experiments.measure.exact.job import Job


def jobs_of(exact: Exact) -> list[Job]:
    """The jobs of a study, each behind those that it needs.

    Raises:
        UserError: for texts or tokenizers that cannot be read.
    """
    match exact:
        case BaseBound():
            return base_bound.jobs(exact)
        case Precision():
            return precision.jobs(exact)
        case Tokens():
            return tokens.jobs(exact)
        case Multilingual():
            return multilingual.jobs(exact)
