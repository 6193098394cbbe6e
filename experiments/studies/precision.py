"""How exact are the rotation angles far into a text, by the arithmetic that makes them?"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from experiments.config.base import Frozen
from experiments.config.study import PrecisionStudy
from experiments.evidence import Claim, Evidence
from experiments.identity import Origin
from experiments.interrupt import Interruption
from experiments.measure.phase import ARITHMETICS, Arithmetic, phase_errors
from experiments.progress import Progress
from experiments.publish.summary import arms, provenance, values
from experiments.publish.table import MISSING, Table
from experiments.record import Measurement, Record
from experiments.studies.exact import Found, Job, run_exact
from model.positions.rope_scaling import inverse_frequencies

STUDY = "precision"
QUESTION = "How exact are the rotation angles far into a text, by the arithmetic that makes them?"
LABELS = {
    "fixed_point": "32-bit fixed point of a turn and float32 remainder (the default here)",
    "float32": "float32 position times float32 frequency",
    "bfloat16_frequencies": "float32 position times bfloat16 frequency",
    "bfloat16": "bfloat16 position times bfloat16 frequency",
}
# Angles that are off by less leave cos and sin right to three digits.
BAR = 1e-3
MILLION = 2**20


class PrecisionArm(Frozen):
    """What decides the numbers of one row."""

    arithmetic: Arithmetic
    head_dim: int
    base: float
    lengths: tuple[int, ...]


def run_precision(
    study: PrecisionStudy, results: Path, origin: Origin, progress: Progress, interruption: Interruption
) -> tuple[dict[tuple[str, str], str], int]:
    """Records the phase errors of each arithmetic that has no record yet; the hash of each arm, and how many were found."""
    lengths = tuple(sorted(set(study.lengths)))
    every = [PrecisionArm(arithmetic=a, head_dim=study.head_dim, base=study.base, lengths=lengths) for a in ARITHMETICS]
    jobs = [Job(arm.arithmetic, arm, partial(_errors, arm)) for arm in every]
    return run_exact(STUDY, jobs, results, origin, progress, interruption)


def _errors(arm: PrecisionArm) -> Found:
    errors = phase_errors(arm.arithmetic, inverse_frequencies(arm.head_dim, arm.base), arm.lengths)
    by_length = zip(arm.lengths, errors, strict=True)
    return Found({f"phase_error.{length}": Measurement(value=error, unit="rad") for length, error in by_length})


def table(records: Sequence[Record]) -> Table:
    """The largest phase error below each length."""
    names = {name for record in records for name in record.measurements}
    lengths = sorted(int(name.partition(".")[2]) for name in names)
    rows = tuple(
        (LABELS.get(arm, arm), *(_error(records, arm, length) for length in lengths)) for arm in arms(records, tuple(LABELS))
    )
    columns = ("angles", *(f"{length} tokens" for length in lengths))
    configs = {(record.config.get("head_dim"), record.config.get("base")) for record in records}
    which = "; ".join(f"head dim {size}, base {base:g}" for size, base in sorted(configs, key=str))  # pyright: ignore[reportArgumentType]
    meaning = "largest error of an angle [rad, modulo 2π] over every position and pair, against float64"
    return Table("Phase errors of rotation angles", STUDY, columns, rows, (*provenance(records), f"{meaning}; {which}"))


def _error(records: Sequence[Record], arm: str, length: int) -> str:
    found = values(records, arm, f"phase_error.{length}")
    return f"{found[0]:.1e}" if found else MISSING


def _margin(arithmetic: Arithmetic, length: int, sign: int) -> Callable[[Sequence[Record]], Evidence | None]:
    """By how much the error lies below the bar (sign 1) or above it (-1)."""

    def evidence(records: Sequence[Record]) -> Evidence | None:
        found = values(records, arithmetic, f"phase_error.{length}")
        return Evidence(f"{found[0]:.1e} rad", (sign * (BAR - found[0]),), exact=True) if found else None

    return evidence


PRECISION: tuple[Claim, ...] = (
    Claim(
        "phase-fixed-point",
        f"Fixed-point angles are within {BAR:g} rad of float64 at a million tokens, without float64 on the device",
        "stated here",
        f"below {BAR:g} rad",
        STUDY,
        _margin("fixed_point", MILLION, 1),
    ),
    Claim(
        "phase-bfloat16",
        f"Inverse frequencies rounded to bfloat16 put angles off by more than {BAR:g} rad at 4096 tokens",
        "sglang-jax issue 1472",
        "a phase error that grows with the position",
        STUDY,
        _margin("bfloat16_frequencies", 4096, -1),
    ),
)
