"""What a fault is, and how its trials are counted."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.faults.study import Workshop


@dataclass(frozen=True)
class Trial:
    """What one trial came to.

    Attributes:
        tried: faults that were put.
        lost: a line for each that was not survived.
        moments: what the study was doing when it was killed, for the table.
    """

    tried: int
    lost: Sequence[str] = ()
    moments: Sequence[str] = ()


@dataclass(frozen=True)
class Fault:
    """A way to break a study.

    Attributes:
        name: of the row of the table.
        means: what it is to survive.
        trial: tries it once or many times, in a folder of its own; all that is random comes from the generator.
        share: of the time that all faults have together, in any unit.
    """

    name: str
    means: str
    trial: Callable[[Workshop, Path, Random], Trial]
    share: float = 1.0


@dataclass
class Row:
    """The trials of a fault."""

    fault: Fault
    tried: int = 0
    failed: int = 0
    lost: list[str] = field(default_factory=list)
    moments: dict[str, int] = field(default_factory=dict)


def trials_of(fault: Fault, workshop: Workshop, seeds: Iterable[int], seconds: float) -> Row:
    """Tries a fault with one seed after the other until the time is over, and once at least."""
    row, end = Row(fault), time.monotonic() + seconds
    for seed in seeds:
        with TemporaryDirectory(prefix="faults-", dir=workshop.folder) as folder:
            trial = fault.trial(workshop, Path(folder), Random(seed))
        row.tried += trial.tried
        row.failed += min(len(trial.lost), trial.tried)
        row.lost += [f"{fault.name}, --seed {seed}: {line}" for line in trial.lost]
        for moment in trial.moments:
            row.moments[moment] = row.moments.get(moment, 0) + 1
        if time.monotonic() > end:
            break
    return row


def table(rows: Sequence[Row]) -> str:
    """Markdown."""
    lines = ["| fault | tried | survived | what survived means |", "| --- | ---: | ---: | --- |"]
    for row in rows:
        during = ", ".join(f"{count} {moment}" for moment, count in sorted(row.moments.items(), key=lambda item: -item[1]))
        name = f"{row.fault.name} ({during})" if during else row.fault.name
        lines.append(f"| {name} | {row.tried:,} | {row.tried - row.failed:,} | {row.fault.means} |")
    return "\n".join(lines) + "\n"
