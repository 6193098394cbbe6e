"""Does a RoPE base that is small for the context keep the perplexity and lose what is far away?"""

from collections.abc import Sequence
from typing import NamedTuple

from experiments.publish.summary import cell, diverged_notes, seeds_note, trained_notes
from experiments.publish.table import MISSING, Cell, Table
from experiments.record import Record

STUDY = "base_vs_length"
QUESTION = "Does a RoPE base that is small for the context keep the perplexity and lose what is far away?"


class Place(NamedTuple):
    """Where an arm stands in the study."""

    length: int  # of training
    base: float
    arm: str


def place(record: Record) -> Place:
    """Training length and base from the configuration of a record. ValueError where it has none."""
    data, model = record.config.get("data"), record.config.get("model")
    position = model.get("position") if isinstance(model, dict) else None
    length = data.get("length") if isinstance(data, dict) else None
    base = position.get("base") if isinstance(position, dict) else None
    if not isinstance(length, int) or not isinstance(base, int | float):
        raise ValueError(f"record of {record.study}, {record.arm}: its configuration has no data.length or no RoPE base")
    return Place(length, float(base), record.arm)


def places(records: Sequence[Record]) -> list[Place]:
    """The arms that occur, by length and base."""
    return sorted({place(record) for record in records})


def chance(record: Record) -> float:
    """The accuracy of a guess among the values of a key."""
    data = record.config.get("data")
    values = data.get("values") if isinstance(data, dict) else None
    if not isinstance(values, int):
        raise ValueError(f"record of {record.study}, {record.arm}: its configuration has no data.values")
    return 1 / values


def lengths(records: Sequence[Record]) -> list[int]:
    """The evaluation lengths that occur, ascending."""
    names = {name for record in records for name in record.measurements if name.startswith("perplexity.")}
    return sorted(int(name.split(".")[1]) for name in names)


def last_positions(records: Sequence[Record]) -> str | None:
    """`perplexity_last32`, or whatever number of positions was measured; None if none was."""
    heads = {name.split(".")[0] for record in records for name in record.measurements}
    return next((head for head in sorted(heads) if head.startswith("perplexity_last")), None)


def predicted(record: Record) -> float | None:
    """The first distance with B_m < 0; None if there was none within the search."""
    found = record.measurements.get("predicted_reach")
    return None if found is None else found.value


def table(records: Sequence[Record]) -> Table:
    """Predicted reach, perplexity and recall of every base and length, each at its training length."""
    last = last_positions(records)
    rows = tuple(_row(records, where, last) for where in places(records))
    columns = (
        "length",
        "base",
        "predicted reach",
        "perplexity",
        "perplexity, mean of windows",
        "perplexity, mean of documents",
        f"perplexity, last {last.removeprefix('perplexity_last')}" if last else "perplexity, last",
        "recall",
        "recall within reach",
        "recall beyond",
        "measured reach",
    )
    shares = ", ".join(sorted({f"{chance(record):g}" for record in records}))
    meaning = (
        "predicted reach: first distance m with B_m < 0; perplexity of one byte of held-out text, token-weighted over "
        "non-overlapping windows of the training length, and as the mean of windows and of documents, which end at EOS; "
        "recall: share of answers that are the most probable token, each with "
        f"one earlier occurrence (chance {shares})",
        "measured reach: the distance up to which recall above chance is at least half of its best, in bins of half an octave; "
        "the training length where it never falls below, 0 where recall was not learned",
        "Men et al. 2024, arXiv:2405.14591: a 2B model with base 100, trained at 4096, retrieves from about the 500 newest "
        "tokens, while perplexity is nearly flat over bases",
    )
    return Table("Perplexity and recall by RoPE base and length", STUDY, columns, rows, (*trained_notes(records), *meaning))


def _row(records: Sequence[Record], where: Place, last: str | None) -> tuple[Cell, ...]:
    length, base, arm = where
    own = next(record for record in records if record.arm == arm)
    reach = predicted(own)
    return (
        str(length),
        f"{base:g}",
        MISSING if reach is None else f"{reach:.0f}",
        *(cell(records, arm, f"perplexity{mean}.{length}", 2) for mean in ("", "_windows", "_documents")),
        cell(records, arm, f"{last}.{length}", 2),
        cell(records, arm, f"recall_accuracy.{length}"),
        cell(records, arm, f"accuracy_within.{length}"),
        cell(records, arm, f"accuracy_beyond.{length}"),
        cell(records, arm, f"reach.{length}", 0),
    )


def length_table(records: Sequence[Record]) -> Table:
    """The same models at every evaluation length, shorter and longer than that of training."""
    spans = lengths(records)
    rows = tuple(
        (
            str(where.length),
            f"{where.base:g}",
            *(cell(records, where.arm, f"perplexity.{span}", 2) for span in spans),
            *(cell(records, where.arm, f"recall_accuracy.{span}") for span in spans),
        )
        for where in places(records)
    )
    columns = (
        "length",
        "base",
        *(f"perplexity at {span}" for span in spans),
        *(f"recall at {span}" for span in spans),
    )
    notes = (seeds_note(records), *diverged_notes(records))
    return Table("Perplexity and recall by evaluation length", f"{STUDY}_lengths", columns, rows, notes)
