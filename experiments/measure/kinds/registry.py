"""What is measured of trained models: at every point of the curves by the kind of data, at the end by tables of [measure].

A measurement at the end is a module of this folder, a table in `leadline.experiments.config.measure`, the data that it takes in
`leadline.experiments.config.measured`, and a row here.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax

from leadline.experiments.config.data import TextData
from leadline.experiments.config.measured import Measured
from leadline.experiments.measure.evaluate import Models
from leadline.experiments.measure.exact.texts import texts_of
from leadline.experiments.measure.kinds.ablation import ablation
from leadline.experiments.measure.kinds.context import context
from leadline.experiments.measure.kinds.curves import curve_of
from leadline.experiments.measure.kinds.documents import documents
from leadline.experiments.measure.kinds.frequency import frequency, id_bins
from leadline.experiments.measure.kinds.grid import grid
from leadline.experiments.measure.kinds.inputs import inputs
from leadline.experiments.measure.kinds.interventions import interventions
from leadline.experiments.measure.kinds.languages import languages
from leadline.experiments.measure.kinds.perplexity import perplexity
from leadline.experiments.measure.kinds.plugin import quantities_of
from leadline.experiments.measure.kinds.prompts import prompts_of, retrieval_in_words
from leadline.experiments.measure.kinds.recall import recall
from leadline.experiments.measure.kinds.retrieval import retrieval
from leadline.experiments.measure.kinds.streaming import streaming
from leadline.experiments.measure.kinds.transduction import transduction
from leadline.experiments.measure.kinds.vocabulary import vocabulary
from leadline.experiments.records.measurement import Point

# What a table of [measure] adds to the last point of every model.
FINALS: Mapping[str, Callable[[Models, Any], list[Point]]] = {
    "ablation": ablation,
    "context": context,
    "frequency": frequency,
    "grid": grid,
    "inputs": inputs,
    "interventions": interventions,
    "languages": languages,
    "perplexity": perplexity,
    "prompts": retrieval_in_words,
    "recall": recall,
    "retrieval": retrieval,
    "streaming": streaming,
    "transduction": transduction,
    "vocabulary": vocabulary,
}
# What raises UserError, before anything is trained, where the held-out data of a source do not suffice for a table.
CHECKS: Mapping[str, Callable[[Any, Any], object]] = {
    "context": lambda source, table: source.text.held_out(max(table.lengths or (source.data.length,)), 1),
    "frequency": lambda source, table: id_bins(source, table.bins),
    "interventions": lambda source, table: source.text.held_out(table.length, 1),
    "languages": lambda source, table: texts_of(table.texts, table.reference),  # noqa: ARG005
    "perplexity": lambda source, table: source.text.held_out(max(table.lengths), 1, table.stride),
    "prompts": lambda source, table: [prompts_of(source, table, length) for length in table.lengths],
    "recall": lambda source, table: [source.text.held_out(length, 1) for length in table.lengths],
    "retrieval": lambda source, table: [
        jax.eval_shape(partial(source.questions, task, length, table.depths, table.rows))
        for length in table.lengths
        for task in source.data.tasks
    ],
    "streaming": lambda source, table: source.stream(table.tokens),
}


def check_data(source: Any, arm: Measured) -> None:
    """To be called before an arm is trained.

    Raises:
        UserError: where the held-out data do not suffice for what is measured at the end, or a plugged measurement cannot be
            imported.
    """
    quantities_of(arm.measure.functions)
    for table, settings in arm.measure:
        if table in CHECKS and settings is not None:
            CHECKS[table](source, settings)


def final_points(models: Models) -> list[Point]:
    """The measurements at the end of training, which a record has besides the last point of its curves.

    They are the numbers of windows and documents of that point, for text the same point without each group of held-out
    documents, and the measurements that have a table in [measure].
    """
    data, tables = models.arms[0].data, dict(models.arms[0].measure)
    points = [curve_of(data).evaluated(models.source, arm) for arm in models.arms]
    if isinstance(data, TextData):
        points = [point | more for point, more in zip(points, documents(models), strict=True)]
    for table, final in FINALS.items():
        if tables[table] is not None:
            for point, more in zip(points, final(models, tables[table]), strict=True):
                point |= more
    return points
