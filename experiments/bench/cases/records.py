"""Commands about a sweep of ten thousand arms that is on record, with invented numbers."""

from leadline.experiments.bench.cases.startup import MAIN, OTHERS, started
from leadline.experiments.bench.contest import Benchmark, Case, ours
from leadline.experiments.bench.worker import Prepared, scratch
from leadline.experiments.bench.workloads.records import write_sweep

ARMS, SECONDS = 10_000, 60.0
COMMANDS = ("run", "report", "show", "claims", "status")


def command(name: str) -> Prepared:
    """A command of the recorded sweep. The first contestant that needs the records makes them."""
    folder = scratch() / "sweep"
    if not folder.exists():
        folder.mkdir()
        write_sweep(folder, ARMS)
    results = str(folder / "results")
    words = ("run", str(folder / "sweep.toml"), "--results", results) if name == "run" else (name, results)
    return Prepared(lambda: started(MAIN, *words), OTHERS, often=False)


RECORDS = Benchmark(
    "records",
    "How long do commands take with ten thousand arms on record?",
    tuple(Case(f"leadline {name}, {ARMS:,} records", (ours(command, {"name": name}),), seconds=SECONDS) for name in COMMANDS),
    ("run plans, finds every arm recorded, and publishes; report reads the records and writes tables and the page",),
)
