"""The tables and figures of every study at the top of configs/, on records that have just the readings that they ask for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leadline.experiments.config.load import arms_of
from leadline.experiments.config.report import Column, FigureSpec, TableSpec
from leadline.experiments.config.study import Study
from leadline.experiments.measure.kinds.plugin import quantities_of
from leadline.experiments.publish.contents import sources
from leadline.experiments.publish.figures import figure
from leadline.experiments.publish.shown import of_record
from leadline.experiments.publish.tables import FIELDS, table
from leadline.experiments.records.measurement import Point, reading, resolve
from leadline.experiments.records.over_seeds import Statistic
from leadline.experiments.records.quantities import QUANTITIES
from leadline.experiments.records.record import Curve, Record
from leadline.experiments.records.references import references
from tests.experiments.committed import COMMITTED, CONFIGS
from tests.experiments.synthetic_records import STEPS, Stored, measured, record

# Two values of each dimension that a table or figure tells apart; of what is not here each quantity has its own.
NUMBERS = ("length", "layer", "distance", "last", "initial_tokens", "vocabulary", "round", "head_dim", "wider", "frequency_bin")
SETTINGS = {"head_dim": 128, "length": 4096, "exponent": 0.3, "vocabulary": 300}

STUDIES = {
    study.study: (path, study) for path, study in COMMITTED if path.parent == CONFIGS and (study.tables or study.figures)
}


def _arms(study: Study, path: Path) -> list[Record]:
    """A record of each arm, with nothing measured."""
    configs: dict[str, Any] = {"one": SETTINGS}
    if study.exact is None:
        configs = {arm.name: arm.model_dump(mode="json") for arm in arms_of(study, path)}
    return [record(study.study, name).model_copy(update={"config": config}) for name, config in configs.items()]


def _dims(arm: Record, column: Column, keys: Sequence[str | None], at: dict[str, Any]) -> list[dict[str, Any]]:
    """Two readings at the dimensions of a column, that differ in every dimension among the keys."""
    fixed = resolve(arm, at | column.at) or {}
    free = [key for key in (*keys, column.each, column.over) if key and key != "quantity" and not of_record(key)]
    texts = f"a of {column.quantity}", f"b of {column.quantity}"  # accuracies of answers and of tokens are of different tasks
    values = {key: (64, 128) if key in NUMBERS else texts for key in free if key not in fixed}
    return [fixed | {key: pair[i] for key, pair in values.items()} for i in range(2 if values else 1)]


def _among(arms: Sequence[Record], study: Study, spec: TableSpec | FigureSpec) -> list[Record]:
    """The arms; those of an exact study, which has no settings here, among the ones that a table or figure is of."""
    where = {} if study.exact is None else dict(spec.where)
    return [arm.model_copy(update={"config": {**arm.config, **where}}) for arm in arms]


def _stored(arm: Record, columns: Sequence[Column], keys: Sequence[str | None], spec: FigureSpec | None = None) -> Stored:
    numbers, point, curves = {}, {}, {}
    at = {} if spec is None else spec.at
    for column in columns:
        axes = QUANTITIES[column.quantity].axes if column.quantity in QUANTITIES else ()
        for dims in _dims(arm, column, keys, at):
            key = reading(column.quantity, **dims)
            if column.quantity not in FIELDS:
                numbers[key] = measured(column.quantity, 0.5, **dims)
            point[key] = np.full((3,) * max(1, len(axes)), 0.5)
            curves[key] = np.linspace(0.2, 0.4, len(STEPS))
            if spec is not None and spec.kind == "position" and spec.x is not None:
                point[reading(spec.x, **dims)] = np.array([1.0, 2.0, 4.0])
    if spec is not None and spec.relative_to is not None:
        reference: dict[str, Any] = dict(spec.relative_to)
        point[reading(columns[0].quantity, **reference)] = np.full(3, 0.1)
        point[reading(str(spec.x), **reference)] = np.array([1.0, 2.0, 4.0])
    return Stored(arm.model_copy(update={"measurements": tuple(numbers.values())}), Curve(STEPS, curves), Point(point))


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize("name", STUDIES)
def test_every_table_has_rows_and_every_figure_is_drawn(name: str) -> None:
    path, study = STUDIES[name]
    arms = _arms(study, path)
    for spec in study.tables:
        stored = [_stored(arm, spec.columns, spec.rows) for arm in _among(arms, study, spec)]
        shown = table(spec, study, stored)
        assert shown.rows, spec.title
        assert all(any(isinstance(cell, Statistic) for cell in row) for row in shown.rows), spec.title
    for spec in study.figures:
        columns = [*spec.quantities, *([Column(quantity=spec.x)] if spec.kind == "scatter" and spec.x else [])]
        across = {"length": "length", "layer": "layer", "dim": spec.dim, "bars": spec.dim}.get(spec.kind)
        stored = [_stored(arm, columns, (*spec.lines, *spec.panels, across), spec) for arm in _among(arms, study, spec)]
        assert figure(spec, study, stored) is not None, spec.name


def test_what_a_study_names_exists_and_files_do_not_overwrite_each_other() -> None:
    for name, (_, study) in STUDIES.items():
        for specs in (study.tables, study.figures):
            assert len({spec.name for spec in specs}) == len(specs), name
        assert all(spec.title.endswith("?") and spec.caption.endswith(".") for spec in study.figures), name
        columns = [column for spec in study.tables for column in spec.columns]
        columns += [column for spec in study.figures for column in spec.quantities]
        assert {column.quantity for column in columns} <= {*quantities_of(study.measure.functions), *FIELDS}, name
        assert set(sources([study], [])) <= set(references()), name
