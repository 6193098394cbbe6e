"""`python -m tests.faults`: what was tried and survived, as a table."""

import argparse
import itertools
import shlex
import sys
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults import damage, disks, fuzz, kills
from tests.faults.registry import Fault, Row, table, trials_of
from tests.faults.study import Workshop

SAME = "records, curves and arrays are those of an undisturbed run, bit for bit, and no file is missing or left over"
LINE = "one line says what is wrong; "
NOTICED = "the file is named, or reads as it was written; nothing else is read"
REFUSED = "the file is read, or refused in one line that names it; no traceback, at most 2 GiB, done within 20 s"
FAULTS = (
    Fault("kill -9, with programs in the cache", SAME, kills.killed, 16),
    Fault("kill -9, nothing compiled yet", SAME, kills.killed_while_cold, 6),
    Fault("SIGTERM", f"it ends within {kills.ASKED:.0f} s and keeps its step; {SAME}", kills.asked, 3),
    Fault("SIGSTOP until another run has taken over", SAME, kills.stopped, 4),
    Fault("file size limit of 8 B to 128 kB", f"{LINE}{SAME}", disks.full_disk, 3),
    Fault("results folder removed", f"{LINE}{SAME}", disks.removed, 2),
    Fault("results folder read-only", "one line before anything is trained", disks.read_only, 0.5),
    Fault("home and cache unwritable", f"one line; {SAME}", disks.no_home, 1),
    Fault("clock jumps", SAME, disks.clock_jumps, 1),
    Fault("damaged records, curves, arrays", NOTICED, damage.records, 1),
    Fault("damaged packed records", NOTICED, damage.packed, 1),
    Fault("damaged descriptions of studies", NOTICED, damage.studies, 0.5),
    Fault("damaged checkpoints", "the file is named, and the checkpoint before it is used", damage.checkpoints, 1),
    Fault("damaged caches of tokens", "they are written again", damage.tokens, 1),
    Fault("damaged tokenizers", NOTICED, damage.tokenizers, 1),
    Fault("damaged compiled programs", SAME, damage.programs, 2),
    Fault("mutated configurations", "valid, or a line for each mistake", fuzz.configurations, 1),
    Fault("mutated overrides", "valid, or a line for each mistake", fuzz.overrides, 1),
    Fault("mutated records with a valid checksum", REFUSED, fuzz.records, 1),
    Fault("mutated tokenizers", REFUSED, fuzz.tokenizers, 1),
    Fault("mutated corpora", REFUSED, fuzz.corpora, 1),
)


def main(words: list[str]) -> int:
    """The exit code: 1 where anything was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="of all faults together")
    parser.add_argument("--only", metavar="NAME", action="append", help="the faults whose names begin so; may be given again")
    parser.add_argument("--seed", type=int, default=0, help="of the first trial; the others count on")
    parser.add_argument("--into", type=Path, metavar="FILE", help="the page that the table is written to, too")
    given = parser.parse_args(words)
    chosen = [fault for name in given.only or [""] for fault in FAULTS if fault.name.startswith(name)]
    if not chosen:
        parser.error(f"--only {given.only[0]}: choose from {', '.join(fault.name for fault in FAULTS)}")
    warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # JAX has no threads here
    rows: list[Row] = []
    with TemporaryDirectory(prefix="leadline-faults-") as folder:
        workshop = Workshop(Path(folder))
        for fault in chosen:
            sys.stderr.write(f"{time.strftime('%H:%M:%S')} {fault.name}\n")
            seconds = given.seconds * fault.share / sum(other.share for other in chosen)
            rows.append(trials_of(fault, workshop, itertools.count(given.seed), seconds))
            if given.into is not None:
                given.into.write_text(page(rows, words), encoding="utf-8")
    sys.stdout.write(table(rows))
    lost = [line for row in rows for line in row.lost]
    sys.stderr.write("".join(f"LOST {line}\n" for line in lost))
    return int(bool(lost))


def page(rows: list[Row], words: list[str]) -> str:
    """The page of the documentation, with the words of the command that wrote it."""
    tried, lost = sum(row.tried for row in rows), sum(len(row.lost) for row in rows)
    return (
        "# What a study survives\n\n"
        "What was done to a tiny study, its files and its inputs, and what came of it. "
        f"`.venv/bin/python -m tests.faults {shlex.join(words)}` wrote this page; `--only NAME --seed N` repeats one trial.\n\n"
        f"Faults tried: {tried:,}. Not survived: {lost:,}. "
        "Numbers in parentheses count what the study was doing when the fault struck. "
        "A run that ended before its time is started again before it is compared.\n\n"
        f"{table(rows)}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
