"""The names in the tables, figures and claims of a study, checked before anything runs.

They are those of quantities, of references, of functions and of the keys of configurations.
"""

from collections.abc import Iterator, Sequence

from leadline.experiments.config.base import Frozen, nearest, unknown_key, validated
from leadline.experiments.config.report import Published
from leadline.experiments.config.study import Arm, Settings, Study
from leadline.experiments.measure.exact.registry import settings_of
from leadline.experiments.measure.kinds.plugin import quantities_of
from leadline.experiments.publish.tables import FIELDS
from leadline.experiments.records.arms import START
from leadline.experiments.records.references import references
from leadline.experiments.records.verdict import predicate
from leadline.experiments.runtime.errors import UserError


class _Figures(Frozen):
    """The published figures of an arm, also of one that does not run."""

    published: tuple[Published, ...] = ()


def check_names(study: Study, arms: Sequence[Arm]) -> None:
    """Raises UserError for each name that is no quantity of the study, no reference, no function, or no key of its settings."""
    lines = {*_wrong_quantities(study, arms), *_wrong_sources(study), *_wrong_functions(study), *_wrong_keys(study)}
    if lines:
        raise UserError("\n".join(f"{study.study}: {line}" for line in sorted(lines)))


def _wrong_quantities(study: Study, arms: Sequence[Arm]) -> Iterator[str]:
    """A line for each name that no measurement of the study brings."""
    functions = [name for measure in (study.measure, *(arm.measure for arm in arms)) for name in measure.functions]
    known = list(quantities_of(tuple(dict.fromkeys(functions))))
    for where, name in _quantities(study):
        if name not in known:
            remedy = "; only a column of a table may be it" if name in FIELDS else nearest(name, known)
            yield f"{where}: no quantity is called {name!r}{remedy}"


def _quantities(study: Study) -> Iterator[tuple[str, str]]:
    """Yields where a quantity is named, and its name. What tables show of the record itself is none."""
    for number, table in enumerate(study.tables):
        names = (column.quantity for column in table.columns)
        yield from ((f"tables.{number}.columns", name) for name in names if name not in FIELDS)
    for number, figure in enumerate(study.figures):
        yield from ((f"figures.{number}.quantities", column.quantity) for column in figure.quantities)
        yield from [(f"figures.{number}.x", figure.x)] if figure.x is not None else []
        yield from [(f"figures.{number}.marks", figure.marks.quantity)] if figure.marks is not None else []
    for claim in study.claims:
        yield from ((f"claim {claim.id}", part.quantity) for part in claim.parts())


def _wrong_sources(study: Study) -> Iterator[str]:
    """A line for each source that is no key of the references."""
    known = list(references())
    for where, key in _sources(study):
        if key not in known:
            yield f"{where}: source = {key!r}: no reference has this key{nearest(key, known)}"


def _sources(study: Study) -> Iterator[tuple[str, str]]:
    """Yields where a reference is cited, and its key; arms that do not run are shown too, if they are on record."""
    yield from ((f"claim {claim.id}", claim.source) for claim in study.claims if not claim.own)
    for number, table in enumerate(study.tables):
        published = table.published if isinstance(table.published, tuple) else ()
        yield from ((f"tables.{number}.published", figure.source) for figure in published)
    for name, written in study.arms.items():
        figures = validated(_Figures, {"published": written.get("published", ())}, f"{study.study}: arms.{name}").published
        yield from ((f"arms.{name}.published", figure.source) for figure in figures)


def _wrong_functions(study: Study) -> Iterator[str]:
    """A line for each function of a claim that there is not."""
    for claim in study.claims:
        try:
            if claim.function is not None:
                predicate(claim.function)
        except UserError as error:
            yield f"claim {claim.id}: {error}"


def _wrong_keys(study: Study) -> Iterator[str]:
    """A line for each key that no configuration of the study has."""
    computed = None if study.exact is None else settings_of(study.exact)
    for name, selector in study.selectors.items():
        wrong = (unknown_key(key, computed or [Settings]) for key in selector if key != START)
        yield from (f"selectors.{name}: {what}" for what in wrong if what)
    for where, key in _keys(study):
        if what := unknown_key(key.removeprefix("config."), computed or [Arm]):
            yield f"{where}: {what}"


def _keys(study: Study) -> Iterator[tuple[str, str]]:
    """Yields where a table or figure names a key of configurations, and the key. Keys of other things have no dots."""
    for kind, specs in (("tables", study.tables), ("figures", study.figures)):
        for number, spec in enumerate(specs):
            yield from ((f"{kind}.{number}.where", key) for key in spec.where)
    for number, table in enumerate(study.tables):
        each = [column.each for column in table.columns if column.each is not None]
        for name, keys in (("rows", table.rows), ("columns", each)):
            yield from ((f"tables.{number}.{name}", key) for key in keys if "." in key)
    for number, figure in enumerate(study.figures):
        yield from [(f"figures.{number}.key", figure.key)] if figure.key is not None else []
        for name, keys in (("lines", figure.lines), ("panels", figure.panels), ("dim", (figure.dim or "",))):
            yield from ((f"figures.{number}.{name}", key) for key in keys if "." in key)
