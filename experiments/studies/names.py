"""The quantities that the tables, figures and claims of a study name, checked before anything runs."""

from collections.abc import Iterator, Sequence

from leadline.experiments.config.base import nearest
from leadline.experiments.config.study import Arm, Study
from leadline.experiments.measure.kinds.plugin import quantities_of
from leadline.experiments.publish.tables import FIELDS
from leadline.experiments.runtime.errors import UserError


def check_quantities(study: Study, arms: Sequence[Arm]) -> None:
    """Raises UserError for every name that is no quantity, and none that a measurement of the study brings."""
    functions = [name for measure in (study.measure, *(arm.measure for arm in arms)) for name in measure.functions]
    known = [*quantities_of(tuple(dict.fromkeys(functions))), *FIELDS]
    unknown = {(where, name) for where, name in _named(study) if name not in known}
    if unknown:
        lines = [
            f"{study.study}: {where}: no quantity is called {name!r}{nearest(name, known)}" for where, name in sorted(unknown)
        ]
        raise UserError("\n".join(lines))


def _named(study: Study) -> Iterator[tuple[str, str]]:
    """Yields where a quantity is named, and its name."""
    for number, table in enumerate(study.tables):
        yield from ((f"tables.{number}.columns", column.quantity) for column in table.columns)
    for number, figure in enumerate(study.figures):
        yield from ((f"figures.{number}.quantities", column.quantity) for column in figure.quantities)
        yield from [(f"figures.{number}.x", figure.x)] if figure.x is not None else []
        yield from [(f"figures.{number}.marks", figure.marks.quantity)] if figure.marks is not None else []
    for claim in study.claims:
        terms = [*claim.compared(), *(condition.term for condition in claim.when)]
        yield from ((f"claim {claim.id}", part.quantity) for term in terms for part in term.parts())
