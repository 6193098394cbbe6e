"""A trained run measured again: on other text, at other lengths, by other tables of [measure]."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from leadline.experiments.config.base import validated
from leadline.experiments.config.data import TextData
from leadline.experiments.config.load import overridden
from leadline.experiments.config.study import Arm
from leadline.experiments.data.source import Source, open_source, source_of_corpus, vocabulary_size
from leadline.experiments.measure.evaluate import Models, Statistics, TablesByLength
from leadline.experiments.measure.kinds.curves import curve_of
from leadline.experiments.measure.kinds.plugin import quantities_of
from leadline.experiments.measure.kinds.registry import check_data, final_points
from leadline.experiments.records.measurement import Measurement, Point, measurements_of
from leadline.experiments.records.quantities import quantity
from leadline.experiments.runs.folders import cache_of, run_folder
from leadline.experiments.runs.stored import heading
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.progress import Progress, Work
from leadline.experiments.training.saved import Saved, open_saved
from leadline.model.decoder import Decoder
from leadline.tokenization.formats.fast import accelerate

# What of its data a trained model keeps, and what to do instead.
KEPT = {
    "kind": "leave it out",
    "tokenizer": "leave it out",
    "length": "leave it out, and give --lengths, or the lengths or sizes of a table of [measure]",
}
# The table of [measure] that has lengths, by the kind of data.
LENGTHS = {"text": "perplexity", "retrieval": "retrieval", "mixed": "recall"}


def measured(
    folder: Path, words: Sequence[str], corpus: Sequence[str], lengths: Sequence[int], progress: Progress
) -> list[Measurement]:
    """Every number of a trained run, measured now.

    Args:
        folder: RESULTS/STUDY/ARM-HASH/sSEED, or a folder above it that holds no other run.
        words: `key=value` of [data] and [measure], as in measure.windows=512.
        corpus: files, folders and data sets, all of which are measured; none: the held-out text of the run.
        lengths: at which perplexity or accuracy is measured; none: as the run did.
        progress: hears of corpora that are encoded, and of what is measured.

    Raises:
        UserError: for a folder without a run, settings that cannot be, or text that does not suffice.
    """
    folder = run_folder(folder)
    saved = open_saved(folder)
    arm = _changed(saved.arm, words, lengths)
    _check_kept(saved, arm, words)
    if corpus and arm.measure.frequency is not None:
        progress.note("[measure.frequency] is left out: it counts the ids of training text, and all of --corpus is held out")
        arm = arm.model_copy(update={"measure": arm.measure.model_copy(update={"frequency": None})})
    source = _source(saved, arm, corpus, cache_of(folder), progress)
    check_data(source, arm)
    progress.start(Work(f"measuring {arm.label or arm.name}", 1))
    models = Models([arm], [saved.params], source, saved.cfg, [])
    point = _point(models) | final_points(models)[0]
    return measurements_of(point, quantities_of(arm.measure.functions))


def _changed(arm: Arm, words: Sequence[str], lengths: Sequence[int]) -> Arm:
    """The arm with other settings of [data] and [measure]. UserError for any other key, or lengths that it cannot have."""
    for word in words:
        if not word.startswith(("data.", "measure.")):
            raise UserError(f"{word!r}: a trained model cannot be changed; only keys of data and measure can")
    tree = arm.model_dump(mode="json", exclude_none=True)
    if lengths:
        table = LENGTHS.get(arm.data.kind)
        if table is None:
            raise UserError(f"--lengths: a model of data.kind = {arm.data.kind!r} is measured at its training length only")
        tree["measure"][table] = {**tree["measure"].get(table, {}), "lengths": list(lengths)}
        if table == "perplexity":
            tree["measure"][table]["last"] = min(tree["measure"][table].get("last", 64), *lengths)
    return validated(Arm, overridden(tree, words, "measure.windows=512"), arm.name)


def _check_kept(saved: Saved, arm: Arm, words: Sequence[str]) -> None:
    """UserError for data with other ids, or of another length, to which scalings of positions relate."""
    of_data = " ".join(word for word in words if word.startswith("data."))
    for key, remedy in KEPT.items():
        if getattr(arm.data, key, None) != getattr(saved.arm.data, key, None):
            raise UserError(f"{of_data}: a trained model keeps the {key} of its data; {remedy}")
    if (size := vocabulary_size(arm.data)) != saved.cfg.vocabulary:
        raise UserError(f"{of_data}: these data have {size} ids and the model {saved.cfg.vocabulary}; leave it out")


def _source(saved: Saved, arm: Arm, corpus: Sequence[str], cache: Path, progress: Progress) -> Source:
    """The source of what the model is measured on. UserError where it is missing, or the model was not trained on text."""
    if not corpus and arm.data == saved.arm.data and isinstance(arm.data, TextData) and isinstance(arm.data.corpus, tuple):
        raise UserError(
            f"{arm.name}: a record names its text without its place; give data.corpus='[\"FILE\"]' for its held-out part, "
            "or --corpus FILE for all of a text"
        )
    if not corpus:
        return open_source(arm.data, cache, progress.encoded, saved.tokenizer and accelerate(saved.tokenizer))
    if not isinstance(arm.data, TextData) or saved.tokenizer is None:
        raise UserError(f"--corpus: {arm.name} was trained on data.kind = {arm.data.kind!r}, not on text")
    return source_of_corpus(arm.data, tuple(corpus), saved.tokenizer)


def _point(models: Models) -> Point:
    """What the curves end with: losses and statistics of every layer at the training length."""
    arm, source = models.arms[0], models.source
    curve = curve_of(arm.data)

    def job(params: Decoder, tables: TablesByLength, held_out: tuple[Any, Any]) -> Statistics:
        batches, shared = held_out
        return curve.point(params, tables, batches, shared, models.model, arm.measure)

    rows = models.tables_by_length(curve.lengths(arm))
    (point,) = models.run("measure", job, rows, (curve.batches(source, arm), source.shared))
    return {reading: np.asarray(value) for reading, value in point.items()}


def row(entry: Measurement) -> dict[str, str]:
    """A number as a row of a table."""
    digits = quantity(entry.reading.quantity).digits
    value = "not finite" if entry.value is None else f"{entry.value:.{digits}f}"
    return {"quantity": heading(entry.reading), "value": value, "unit": entry.unit}
