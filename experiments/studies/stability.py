"""Loss and divergence by learning rate, with and without an output gate and sandwich norms."""

from collections.abc import Sequence

from experiments.publish.summary import cell, trained_notes
from experiments.publish.table import MISSING, Cell, Statistic, Table
from experiments.record import Record

STUDY = "stability"
QUESTION = "Do gates and sandwich norms keep training stable at learning rates above the best?"

LABELS = {
    "plain": "pre-norm",
    "gate": "pre-norm, output gate",
    "sandwich": "sandwich norm",
    "gate_sandwich": "sandwich norm, output gate",
}
PUBLISHED = {
    "plain": "7.421; diverges (9.195)",
    "gate": "7.288; 7.325",
    "sandwich": "–; 7.407",
}
SUFFIX = "_learning_rate="


def rates(records: Sequence[Record]) -> list[str]:
    """The learning rates that occur, ascending, as arm names have them."""
    found = {record.arm.split(SUFFIX)[1] for record in records if SUFFIX in record.arm}
    return sorted(found, key=float)


def best(records: Sequence[Record]) -> str | None:
    """The rate at which the plain model has the lowest mean loss; None without one."""
    found = {rate: cell(records, f"plain{SUFFIX}{rate}", "loss") for rate in rates(records)}
    means = {rate: one.mean for rate, one in found.items() if isinstance(one, Statistic)}
    return min(means, key=lambda rate: means[rate]) if means else None


def table(records: Sequence[Record]) -> Table:
    """The loss of every rate; of seeds that diverged the count."""
    spans = rates(records)
    rows = tuple(
        (label, *(_cell(records, f"{name}{SUFFIX}{rate}") for rate in spans), PUBLISHED.get(name, MISSING))
        for name, label in LABELS.items()
        if any(record.arm.startswith(f"{name}{SUFFIX}") for record in records)
    )
    columns = ("model", *(f"rate {rate}" for rate in spans), "published")
    note = (
        "held-out loss [nats]; published: perplexity of a dense model of 1.7B parameters with 48 layers at rates 0.004 and "
        "0.008 (Qiu et al. 2025, arXiv:2505.06708)"
    )
    return Table("Loss by learning rate", STUDY, columns, rows, (*trained_notes(records), note))


def _cell(records: Sequence[Record], arm: str) -> Cell:
    lost = len([record for record in records if record.arm == arm and record.status == "diverged"])
    found = cell(records, arm, "loss")
    if not lost:
        return found
    return f"{lost} diverged" if isinstance(found, str) else f"{found.mean:.3f}, {lost} diverged"
