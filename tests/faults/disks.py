"""Disks that are full, folders that cannot be written or are gone, and clocks that jump."""

import os
import resource
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.faults.registry import Trial
from tests.faults.study import Workshop, keep_programs

NOBODY = 65534


def full_disk(workshop: Workshop, folder: Path, random: Random) -> Trial:
    """No file may be larger than so many bytes, which the system says in the words for a full disk but one."""
    limit = int(2 ** random.uniform(3, 17))

    def before() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = workshop.begin(folder / "results", before=before)
    ended = command.ended()
    lost = [f"{limit} bytes: {why}" for why in [ended.mistake(0, 1, 2)] if why]
    return Trial(
        1, [*lost, *workshop.differs_so_far(folder / "results"), *workshop.goes_on(folder / "results")], [ended.moment]
    )


def read_only(workshop: Workshop, folder: Path, random: Random) -> Trial:  # noqa: ARG001
    """The results folder belongs to somebody else, and nobody may write it."""
    results = folder / "results"
    results.mkdir(mode=0o555)
    ended = workshop.begin(results, before=_as_nobody(folder)).ended()
    lines = [line for line in ended.err.splitlines() if "cannot write results" in line]
    lost = [f"exit {ended.code}: {ended.err[-400:]}"] if ended.code != 2 or len(lines) != 1 or list(results.iterdir()) else []
    return Trial(1, lost)


def _as_nobody(folder: Path) -> Callable[[], None]:
    """The child loses the rights of root, if it has them."""
    for above in (folder, *folder.parents):
        if above.stat().st_uid == os.getuid() and not above.stat().st_mode & 1 and os.getuid() == 0:
            above.chmod(0o755)

    def before() -> None:
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)

    return before


def removed(workshop: Workshop, folder: Path, random: Random) -> Trial:
    """The results folder is removed while the run is at work."""
    results = folder / "results"
    command = workshop.begin(results)
    time.sleep(random.uniform(0.1, 1.0) * workshop.seconds)
    moment = command.moment
    shutil.rmtree(results, ignore_errors=True)
    ended = command.ended()
    lost = [f"{moment}: {why}" for why in [ended.mistake(0, 1, 2)] if why]
    return Trial(1, [*lost, *workshop.goes_on(results)], [moment])


def no_home(workshop: Workshop, folder: Path, random: Random) -> Trial:
    """Home and cache are in the place of a file, or there is no home at all."""
    (folder / "file").write_text("", encoding="utf-8")
    python = Path(sys.base_prefix)
    readable = all(above.stat().st_mode & 1 for above in (python, *python.parents))  # for the user whom the child becomes
    homeless = random.random() < 0.5 and readable

    def before() -> None:
        keep_programs(None)
        os.environ |= {"HOME": str(folder / "file" / "home"), "XDG_CACHE_HOME": str(folder / "file" / "cache")}
        if homeless and os.getuid() == 0:
            for name in ("HOME", "XDG_CACHE_HOME"):
                del os.environ[name]
            os.setuid(123_456)  # whom no file of users names

    folder.chmod(0o777)
    for above in folder.parents:
        if above.is_relative_to(workshop.folder):
            above.chmod(0o755)
    ended = workshop.begin(folder / "results", before=before).ended()
    if ended.code:
        return Trial(1, [f"exit {ended.code}: {ended.err[-400:]}"])
    notes = [line for line in ended.err.splitlines() if "programs are compiled each time" in line]
    return Trial(1, [*workshop.differs(folder / "results"), *([] if len(notes) == 1 else [f"no note: {ended.err[-400:]}"])])


def clock_jumps(workshop: Workshop, folder: Path, random: Random) -> Trial:
    """The clock of the day jumps back and forth by up to a year whenever it is read."""
    real = time.time

    def before() -> None:
        time.time = lambda: real() + random.uniform(-3e7, 3e7)

    ended = workshop.begin(folder / "results", before=before).ended()
    if ended.code:
        return Trial(1, [f"exit {ended.code}: {ended.err[-400:]}"])
    return Trial(1, workshop.differs(folder / "results"))
