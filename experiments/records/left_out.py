"""Measurements without each group of held-out documents: text is a random effect, as seeds are.

A group is a sixteenth of the held-out documents (leadline.experiments.data.text.held_out), the same for all arms, seeds and
lengths. From what a margin is without each of them follows the standard error that documents have in it (the jackknife of
Quenouille 1956 and Tukey 1958; leadline.experiments.records.estimates).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from leadline.experiments.records.json_file import rounded
from leadline.experiments.records.measurement import (
    WITHOUT,
    Dim,
    HasMeasurements,
    Point,
    Reading,
    measurements_of,
    reading,
    resolve,
    value_of,
)
from leadline.experiments.records.quantities import QUANTITIES, Quantity


@dataclass(frozen=True)
class LeftOut:
    """One number of a record without each group of documents, in their order; None where it was not finite."""

    quantity: str
    dims: dict[str, Dim]
    values: tuple[float | None, ...]


class Resampled(HasMeasurements, Protocol):
    """A record, with its measurements without each group of documents."""

    @property
    def left_out(self) -> tuple[LeftOut, ...]: ...


def with_left_out(key: Reading, values: Float[np.ndarray, "G_and_1 *axes"], *, enough: bool) -> Point:
    """A measurement, and, if there are enough documents, the same measurement without each group of them.

    Args:
        key: of the reading.
        values: of all documents, then without each group.
        enough: whether the documents are enough for an interval.
    """
    return {key: np.asarray(values[0])} | ({without(key): values[1:]} if enough else {})


def without(key: Reading) -> Reading:
    """The key of a measurement without each group of documents. Its array has the groups as first axis."""
    return key.at(**{WITHOUT: "documents"})


def left_out_of(point: Mapping[Reading, np.ndarray], quantities: Mapping[str, Quantity] = QUANTITIES) -> tuple[LeftOut, ...]:
    """The numbers of a point without each group of documents, reduced as `measurements_of` reduces the whole."""
    entries: list[LeftOut] = []
    for key, arrays in point.items():
        if WITHOUT in (dims := dict(key.dims)):
            whole = reading(key.quantity, **{name: value for name, value in dims.items() if name != WITHOUT})
            groups = [measurements_of({whole: np.asarray(array)}, quantities) for array in arrays]
            for same in zip(*groups, strict=True):
                values = tuple(None if entry.value is None else rounded(entry.value) for entry in same)
                entries.append(LeftOut(same[0].quantity, same[0].dims, values))
    return tuple(entries)


def values_without(record: Resampled, quantity: str, **dims: Any) -> Float[np.ndarray, " n"] | None:
    """The value of a quantity at exactly these dimensions, then without each group of documents if it was measured so.

    None where the record has no finite value, as `value_of`.
    """
    whole, resolved = value_of(record, quantity, **dims), resolve(record, dims)
    if whole is None or resolved is None:
        return None
    wanted = reading(quantity, **resolved)
    entries = (entry for entry in record.left_out if entry.quantity == quantity)
    values = next((entry.values for entry in entries if reading(quantity, **entry.dims) == wanted), ())
    return np.array([whole] if None in values else [whole, *values], np.float64)
