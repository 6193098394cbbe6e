"""What is measured of trained models: at every point of the curves by the kind of data, at the end by tables of [measure].

A measurement at the end is a module of this folder, a table in `leadline.experiments.config.measure` and a row here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from leadline.experiments.config.study import Arm
from leadline.experiments.measure.kinds.ablation import ablation
from leadline.experiments.measure.kinds.curves import curve_of
from leadline.experiments.measure.kinds.kind import Curve, Final, Models
from leadline.experiments.measure.kinds.perplexity import check_perplexity, perplexity
from leadline.experiments.measure.kinds.plugin import quantities_of
from leadline.experiments.measure.kinds.recall import check_recall, recall
from leadline.experiments.measure.kinds.retrieval import check_retrieval, retrieval
from leadline.experiments.measure.kinds.streaming import check_streaming, streaming
from leadline.experiments.measure.kinds.vocabulary import vocabulary
from leadline.experiments.records.measurement import Point

__all__ = ["FINALS", "Curve", "Models", "check_data", "curve_of", "final_points", "quantities_of"]

# By the table of [measure] that asks for it.
FINALS: Mapping[str, Final] = MappingProxyType(
    {
        "ablation": Final(ablation),
        "perplexity": Final(perplexity, check_perplexity),
        "recall": Final(recall, check_recall),
        "retrieval": Final(retrieval, check_retrieval),
        "streaming": Final(streaming, check_streaming),
        "vocabulary": Final(vocabulary),
    }
)


def finals_of(arm: Arm) -> list[tuple[Final, Any]]:
    """The measurements at the end that an arm's [measure] asks for, each with its table."""
    tables = dict(arm.measure)
    return [(final, tables[name]) for name, final in FINALS.items() if tables[name] is not None]


def check_data(source: Any, arm: Arm) -> None:
    """To be called before an arm is trained.

    Raises:
        UserError: where the held-out data do not suffice for what is measured at the end, or a plugged measurement cannot be
            imported.
    """
    quantities_of(arm.measure.functions)
    for final, settings in finals_of(arm):
        final.check(source, arm, settings)


def final_points(models: Models) -> list[Point]:
    """What is measured of every model beyond the last point of its curves, and how much data that point is of."""
    curve = curve_of(models.arms[0].data)
    points = [curve.evaluated(models.source, arm) for arm in models.arms]
    for final, settings in finals_of(models.arms[0]):
        for point, more in zip(points, final.points(models, settings), strict=True):
            point |= more
    return points
