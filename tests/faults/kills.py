"""Processes that are killed, and asked to stop."""

import shutil
import signal
import time
from pathlib import Path
from random import Random

from tests.faults.registry import Trial
from tests.faults.study import Workshop

KILLS = 3  # one after the other, before a run may end
ASKED = 10.0  # s, in which a process that is asked to stop has to end


def killed(workshop: Workshop, folder: Path, random: Random) -> Trial:
    """A run that is killed again and again, at moments that are spread over all of it, with its workers."""
    return _killed(workshop, folder, random, cold=False)


def killed_while_cold(workshop: Workshop, folder: Path, random: Random) -> Trial:
    """The same where no program is compiled yet: many of the kills are in a compilation, or while its program is kept."""
    return _killed(workshop, folder, random, cold=True)


def _killed(workshop: Workshop, folder: Path, random: Random, *, cold: bool) -> Trial:
    results, programs = folder / "results", folder / "programs" if cold else None
    lost, moments = [], []
    span = workshop.seconds * (2 if cold else 1)
    for _ in range(KILLS):
        command = workshop.begin(results, programs=programs)
        time.sleep(random.uniform(0, span))
        if not command.running():
            command.ended()
            lost += workshop.differs(results)
            shutil.rmtree(results)
            continue
        command.signal(signal.SIGKILL)
        moments.append(command.ended().moment)
        lost += workshop.differs_so_far(results)
    lost += workshop.goes_on(results, programs)
    return Trial(len(moments), lost, moments)


def asked(workshop: Workshop, folder: Path, random: Random) -> Trial:
    """A run that gets SIGTERM while it trains or measures."""
    results, lost = folder / "results", []
    command = workshop.begin(results)
    time.sleep(random.uniform(0, workshop.seconds))
    while command.running() and command.moment in ("starting", "caching tokens", "compiling"):
        time.sleep(0.01)
    moment, began = command.moment, time.monotonic()
    if not command.running():
        command.ended()
        return Trial(0, workshop.differs(results))
    command.signal(signal.SIGTERM)
    ended = command.ended()
    if time.monotonic() - began > ASKED:
        lost.append(f"it took {time.monotonic() - began:.1f} s to stop, {moment}")
    if complaint := ended.mistake(0, 130, *([] if moment == "training" else [-signal.SIGTERM])):
        lost.append(complaint)
    stopped = ended.code == 130 and moment == "training"
    if stopped and not list(results.glob("mine/.group-*/manifest-*.json")) and not list(results.glob("mine/*/s*/record.json")):
        lost.append("nothing was kept")
    lost += workshop.goes_on(results)
    return Trial(1, lost, [moment])


def stopped(workshop: Workshop, folder: Path, random: Random) -> Trial:
    """A run that stands still at any moment. Another one takes its work over and ends, then the first one goes on."""
    results, lost, expiry = folder / "results", [], ("--expiry", "1")
    first = workshop.begin(results, *expiry)
    time.sleep(random.uniform(0, workshop.seconds))
    first.signal(signal.SIGSTOP)
    if not first.running():
        first.ended()
        return Trial(0, workshop.differs(results))
    moment, second = first.moment, workshop.begin(results, *expiry, name="second").ended()
    if complaint := second.mistake(0):
        lost.append(f"the second run, {moment}: {complaint}")
    first.signal(signal.SIGCONT)
    if complaint := first.ended().mistake(0):
        lost.append(f"the first run, {moment}: {complaint}")
    return Trial(1, lost + workshop.differs(results), [moment])
