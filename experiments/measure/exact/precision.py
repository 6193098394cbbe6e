"""Phase errors of rotation angles, a job an arithmetic."""

from functools import partial
from typing import Literal

import numpy as np

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.exact import Precision
from leadline.experiments.measure.exact.job import Computed, Job, independent
from leadline.experiments.measure.phase import Arithmetic, phase_errors
from leadline.experiments.records.measurement import reading
from leadline.model.positions.frequencies import inverse_frequencies

LABELS: dict[Arithmetic, str] = {
    "fixed_point": "32-bit fixed-point fraction of a rotation (the default here)",
    "float32": "float32 position × float32 frequency",
    "bfloat16_frequencies": "float32 position × bfloat16 frequency",
    "bfloat16": "bfloat16 position × bfloat16 frequency",
}


class PrecisionSettings(Frozen):
    """What decides the numbers of one arithmetic."""

    kind: Literal["precision"] = "precision"
    arithmetic: Arithmetic
    head_dim: int
    base: float
    lengths: tuple[int, ...]


def jobs(exact: Precision) -> list[Job]:
    """A job for each arithmetic: `phase_error` [rad] below each `length`."""
    lengths = tuple(sorted(set(exact.lengths)))
    every = [
        PrecisionSettings(arithmetic=arithmetic, head_dim=exact.head_dim, base=exact.base, lengths=lengths)
        for arithmetic in LABELS
    ]
    return [
        Job(settings.arithmetic, LABELS[settings.arithmetic], settings, independent(partial(_errors, settings)))
        for settings in every
    ]


def _errors(settings: PrecisionSettings) -> Computed:
    errors = phase_errors(settings.arithmetic, inverse_frequencies(settings.head_dim, settings.base), settings.lengths)
    pairs = zip(settings.lengths, errors, strict=True)
    return Computed({reading("phase_error", length=length): np.asarray(error) for length, error in pairs})
