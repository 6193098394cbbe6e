"""Records as a table: a row a measurement."""

import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from leadline.experiments.records.record import StoredRecord
from leadline.experiments.runs.stored import records_at
from leadline.experiments.runtime.errors import UserError

if TYPE_CHECKING:
    import pandas
    import polars

COLUMNS = ("study", "arm", "label", "arm_hash", "seed", "status", "quantity", "unit", "value")


@overload
def records(folder: str | Path, as_: Literal["rows"] = "rows") -> list[dict[str, Any]]: ...
@overload
def records(folder: str | Path, as_: Literal["pandas"]) -> "pandas.DataFrame": ...
@overload
def records(folder: str | Path, as_: Literal["polars"]) -> "polars.DataFrame": ...
def records(folder: str | Path, as_: str = "rows") -> Any:
    """Every measurement of the records of a results folder, a study, an arm or a run.

    A row has the columns study, arm, label, arm_hash, seed, status, quantity, unit and value, and a column for every dimension
    that a measurement has there (layer, length, extension …). What a row lacks is None, as is a value that was not finite;
    layers count from 1. A quantity without the dimension `layer` is the number over all layers.

    Args:
        folder: RESULTS, with runs or packed (docs/results), RESULTS/STUDY, RESULTS/STUDY/ARM-HASH, or that of a run.
        as_: a list of dicts ("rows"), a pandas or a polars DataFrame.

    Raises:
        UserError: for a folder without records, or where the library is not installed.

    Warns:
        UserWarning: for each record that is left out, since it is damaged or of a newer version.

    Examples:
        >>> rows = leadline.records("results")
        >>> {row["arm"] for row in rows if row["quantity"] == "bos_mass" and row["layer"] is None}
        {'softmax'}
    """
    if as_ not in ("rows", "pandas", "polars"):
        raise UserError(f'as_ = {as_!r}: choose one of "rows", "pandas" and "polars"')
    _, stored, left_out = records_at(Path(folder))
    for note in left_out:
        warnings.warn(note, stacklevel=2)
    rows = _rows(stored)
    if as_ == "rows":
        return rows
    try:
        library = import_module(as_)
    except ModuleNotFoundError as error:
        raise UserError(f'{as_} is not installed: pip install {as_}, or take as_="rows"') from error
    if as_ == "polars":
        return library.DataFrame(rows, infer_schema_length=None, strict=False)
    frame, dims = library.DataFrame(rows), list(rows[0])[len(COLUMNS) :]
    return frame.astype({"value": float}).assign(**frame[dims].convert_dtypes())


def _rows(stored: Sequence[StoredRecord]) -> list[dict[str, Any]]:
    measured = [(entry.record, measurement) for entry in stored for measurement in entry.record.measurements]
    absent = dict.fromkeys(sorted({name for _, measurement in measured for name in measurement.dims}))
    rows = []
    for record, measurement in measured:
        arm = (record.study, record.arm, record.label, record.arm_hash, record.seed, record.status)
        values = (*arm, measurement.quantity, measurement.unit, measurement.value)
        rows.append(dict(zip(COLUMNS, values, strict=True)) | absent | measurement.dims)
    return rows
