"""The records that lie at a path: of a results folder, a study, an arm or one run."""

import itertools
from pathlib import Path

from leadline.experiments.publish.names import dims_name
from leadline.experiments.records.measurement import Reading
from leadline.experiments.records.quantities import quantity
from leadline.experiments.records.record import StoredRecord
from leadline.experiments.records.store import read_records, record_folder
from leadline.experiments.runs.folders import LEVELS
from leadline.experiments.runtime.errors import UserError


def folder_of(results: Path, stored: StoredRecord) -> Path:
    """Where a record lies, or would lie if it were not packed."""
    record = stored.record
    return record_folder(results, record.study, record.arm, record.arm_hash, record.seed)


def records_at(path: Path) -> tuple[Path, list[StoredRecord], list[str]]:
    """The results folder of a path, the records at the path or below it, and a line for each that is left out.

    Args:
        path: RESULTS, RESULTS/STUDY, RESULTS/STUDY/ARM-HASH or RESULTS/STUDY/ARM-HASH/sSEED. Of packed records, which have no
            folders, it is where these would be.

    Raises:
        UserError: where there is no record.
    """
    notes: list[str] = []
    whole = path.absolute()
    for results in itertools.islice((path, *whole.parents), LEVELS):
        study = next(iter(whole.relative_to(results.absolute()).parts), None)
        stored, left_out = read_records(results, study)
        at_path = [entry for entry in stored if folder_of(results.absolute(), entry).is_relative_to(whole)]
        if at_path:
            return results, at_path, left_out
        notes += left_out
    reason = f" ({notes[0]})" if notes else ""
    raise UserError(
        f"{path}: there are no records{reason}; name a results folder, or RESULTS/STUDY, RESULTS/STUDY/ARM-HASH or "
        "RESULTS/STUDY/ARM-HASH/sSEED"
    )


def heading(reading: Reading) -> str:
    """A quantity and its dimensions, for readers."""
    return ", ".join(part for part in (quantity(reading.quantity).heading, dims_name(dict(reading.dims))) if part)
