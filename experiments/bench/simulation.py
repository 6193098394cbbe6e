"""A sweep on a cluster whose devices fail, simulated: `python -m leadline.experiments.bench.simulation`.

Each device takes the next arm when it is free. It fails after exponentially distributed times. Then the arm goes on from its
last checkpoint, after a restart, which may fail too.
"""

import argparse
import heapq
import math
from dataclasses import dataclass, replace

import numpy as np

from leadline.experiments.publish.table import MISSING, Table, markdown

HOUR = 3600.0
# Mean time between failures of a device [h]. Training Llama 3 was interrupted unexpectedly once every 50,000 hours of a GPU
# (arXiv:2407.21783, section 3.3.4: 419 times in 54 days of 16,384); devices that are preempted stop after hours.
MTBF = (math.inf, 50_000.0, 1000.0, 100.0, 24.0, 6.0)


@dataclass(frozen=True)
class Sweep:
    """Arms on devices.

    Attributes:
        arms: models, or groups of models that train together.
        devices: each trains an arm at a time.
        hours: of work of an arm, on average. Logarithms of the hours spread by SPREAD.
        mtbf: mean time between failures of a device [h].
        checkpoint: seconds that saving takes.
        restart: seconds until an arm goes on: another worker notices the failure, starts and reads the checkpoint.
        seed: of hours and failures.
    """

    arms: int = 1000
    devices: int = 64
    hours: float = 4.0
    mtbf: float = math.inf
    checkpoint: float = 10.0
    restart: float = 120.0
    seed: int = 0


SPREAD = 0.5


@dataclass(frozen=True)
class Schedule:
    """The outcome of a simulation, in hours: the makespan until the last arm ends, and sums over all devices."""

    makespan: float
    work: float  # that the arms consist of
    lost: float  # work that was done again, broken checkpoints included
    saving: float  # checkpoints that were kept
    restarting: float
    failures: int


def young(checkpoint: float, mtbf: float) -> float:
    """The interval of checkpoints of the least loss, to first order sqrt(2·δ·M) (Young 1974, doi:10.1145/361147.361115)."""
    return math.sqrt(2 * checkpoint * mtbf)


def daly(checkpoint: float, mtbf: float) -> float:
    """The same to higher order (Daly 2006, doi:10.1016/j.future.2004.11.016, equation 37)."""
    if checkpoint >= 2 * mtbf:
        return mtbf
    ratio = checkpoint / (2 * mtbf)
    return young(checkpoint, mtbf) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - checkpoint


def expected(work: float, interval: float, checkpoint: float, restart: float, mtbf: float) -> float:
    """The expected time of work that is saved after each interval, failures during restarts included (Daly 2006, equation 20).

    M · e^(R/M) · (e^((τ+δ)/M) − 1) · T/τ, in the unit of the arguments.
    """
    return mtbf * math.exp(restart / mtbf) * math.expm1((interval + checkpoint) / mtbf) * work / interval


def arm_hours(sweep: Sweep) -> np.ndarray:
    """Hours of work of each arm, of which the mean is that of the sweep."""
    drawn = np.random.default_rng(sweep.seed).lognormal(sigma=SPREAD, size=sweep.arms)
    return drawn * (sweep.hours / drawn.mean())


def simulated(sweep: Sweep, interval: float, hours: np.ndarray | None = None) -> Schedule:
    """Schedules the arms of a sweep in their order, each on the device that is free first.

    Args:
        sweep: arms, devices and failures.
        interval: work between two checkpoints [s]; infinite: none but at the end.
        hours: of work of each arm; None: those of `arm_hours`.
    """
    work = arm_hours(sweep) if hours is None else hours
    rng = np.random.default_rng([sweep.seed, 1])
    free = [0.0] * sweep.devices
    totals = np.zeros(4)
    ends = []
    for arm in work:
        spent = _of_arm(float(arm) * HOUR, interval, sweep, rng)
        ends.append(heapq.heappop(free) + float(arm) * HOUR + float(spent[:3].sum()))
        heapq.heappush(free, ends[-1])
        totals += spent
    lost, saving, restarting, failures = totals
    return Schedule(max(ends) / HOUR, float(work.sum()), lost / HOUR, saving / HOUR, restarting / HOUR, int(failures))


def _of_arm(work: float, interval: float, sweep: Sweep, rng: np.random.Generator) -> np.ndarray:
    """Seconds of an arm that are lost, saving and restarting, and its failures."""
    spent, left = np.zeros(4), work
    while left > 0:
        part = min(interval, left)
        while (until := _failure(sweep, rng)) < part + sweep.checkpoint:
            spent += (until, 0.0, 0.0, 1.0)
            while (until := _failure(sweep, rng)) < sweep.restart:
                spent += (0.0, 0.0, until, 1.0)
            spent += (0.0, 0.0, sweep.restart, 0.0)
        spent += (0.0, sweep.checkpoint, 0.0, 0.0)
        left -= part
    return spent


def _failure(sweep: Sweep, rng: np.random.Generator) -> float:
    """Seconds until the next failure. How long a device has run says nothing of it."""
    return math.inf if math.isinf(sweep.mtbf) else rng.exponential(sweep.mtbf * HOUR)


def table(sweep: Sweep) -> Table:
    """A row for each MTBF: the interval of Daly and what it costs, against the ideal and against no checkpoints."""
    ideal = sweep.arms * sweep.hours / sweep.devices
    columns = (
        "MTBF of a device",
        "Young",
        "Daly",
        "failures",
        "makespan",
        "times ideal",
        "lost work",
        "checkpoints",
        "without",
    )
    rows = []
    for mtbf in MTBF:
        case = replace(sweep, mtbf=mtbf)
        interval = daly(case.checkpoint, mtbf * HOUR) if math.isfinite(mtbf) else math.inf
        saved, plain = simulated(case, interval), simulated(case, math.inf)
        rows.append(
            (
                "no failures" if math.isinf(mtbf) else f"{mtbf:,.0f} h",
                MISSING if math.isinf(mtbf) else f"{young(case.checkpoint, mtbf * HOUR) / 60:,.1f} min",
                MISSING if math.isinf(mtbf) else f"{interval / 60:,.1f} min",
                f"{saved.failures:,}",
                f"{saved.makespan:.1f} h",
                f"{saved.makespan / ideal:.2f}",
                f"{saved.lost / saved.work:.2%}",
                f"{saved.saving / saved.work:.2%}",
                f"{plain.makespan:.1f} h",
            )
        )
    title = (
        f"{sweep.arms:,} arms of {sweep.hours:g} h on {sweep.devices} devices (ideal: {ideal:.1f} h), "
        f"{sweep.checkpoint:g} s a checkpoint, {sweep.restart:g} s a restart"
    )
    return Table(title, "simulation", columns, tuple(rows), ())


def main() -> None:
    """Prints the table as Markdown. Every field of `Sweep` but the MTBF is an option."""
    parser = argparse.ArgumentParser(prog="python -m leadline.experiments.bench.simulation", description=__doc__)
    for name, default in vars(Sweep()).items():
        if name != "mtbf":
            parser.add_argument(f"--{name}", type=type(default), default=default)
    print(markdown(table(Sweep(**vars(parser.parse_args())))))  # noqa: T201


if __name__ == "__main__":
    main()
