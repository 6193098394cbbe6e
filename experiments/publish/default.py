"""What is shown of a study that describes no tables or figures of its own."""

from collections.abc import Sequence

from leadline.experiments.config.report import Column, FigureSpec, TableSpec
from leadline.experiments.config.study import Study
from leadline.experiments.records.quantities import QUANTITIES
from leadline.experiments.records.record import StoredRecord

# These say how much was measured, and are no results.
COUNTS = ("windows", "documents", "answers", "train_loss")
MOST = 8


def tables_of(study: Study, stored: Sequence[StoredRecord]) -> tuple[TableSpec, ...]:
    """The tables that the file of a study describes, or one of the first numbers that its records have as a whole."""
    if study.tables:
        return study.tables
    whole = {entry.quantity for item in stored for entry in item.record.measurements if not entry.dims}
    ordered = [name for name in QUANTITIES if name in whole] + sorted(whole - set(QUANTITIES))
    columns = [Column(quantity=name) for name in ordered if name not in COUNTS][:MOST]
    return (TableSpec(title=study.heading, columns=tuple(columns) or (Column(quantity="seconds"),)),)


def figures_of(study: Study, stored: Sequence[StoredRecord]) -> tuple[FigureSpec, ...]:
    """The figures that the file of a study describes; of models that were trained the loss over training."""
    if study.figures or not any(entry.record.steps for entry in stored):
        return study.figures
    caption = "Held-out loss over training: mean and range of the seeds."
    return (FigureSpec(kind="step", name="over_training", caption=caption, quantities=(Column(quantity="loss"),)),)
