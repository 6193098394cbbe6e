"""Commands that train nothing, each in a process of its own, as a shell starts it: the help, and a study that is on record."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from leadline.experiments.bench.contest import Benchmark, Case, ours
from leadline.experiments.bench.worker import Prepared, scratch
from leadline.experiments.runtime.errors import UserError

HELP, PAGE = 0.3, 10.0  # seconds
MAIN = "from leadline.experiments.cli.main import main; main()"
# The memory of this process says nothing of the processes that it starts.
OTHERS = {"peak_mib": None}
STUDY = Path(__file__).resolve().parents[3] / "configs" / "smoke.toml"


def python(code: str, words: Sequence[str] = ()) -> Prepared:
    """Python with this program and these arguments."""
    return Prepared(lambda: started(code, *words), OTHERS)


def cached(name: str) -> Prepared:
    """`leadline run` or `leadline report` of a recorded study. The first contestant that needs the records makes them."""
    if not STUDY.exists():
        raise UserError(f"{STUDY} is not there: this is measured in a checkout of leadline")
    results = str(scratch() / "smoke")
    study = ("run", str(STUDY), "--results", results)
    if not Path(results).exists():
        started(MAIN, *study)
    words = study if name == "run" else (name, results)
    return Prepared(lambda: started(MAIN, *words), OTHERS, often=False)


def started(code: str, *words: str) -> None:
    """Runs a program to its end, with its own cache.

    Raises:
        CalledProcessError: if it fails.
    """
    environment = {**os.environ, "XDG_CACHE_HOME": str(scratch() / "cache")}
    subprocess.run([sys.executable, "-c", code, *words], env=environment, check=True, stdout=subprocess.DEVNULL)


def _page(command: str) -> Case:
    contestants = ours(cached, {"name": command}), ours(python, {"code": "import jax"}, "import of jax")
    return Case(f"leadline {command} of a study that is recorded", contestants, seconds=PAGE)


STARTUP = Benchmark(
    "startup",
    "How long do the help, and the page of a study that is on record, take?",
    (
        Case(
            "leadline --help",
            (
                ours(python, {"code": MAIN, "words": ["--help"]}),
                ours(python, {"code": "pass"}, "python alone"),
                ours(python, {"code": "import typer"}, "import of typer"),
                ours(python, {"code": "import jax"}, "import of jax"),
            ),
            seconds=HELP,
        ),
        _page("run"),
        _page("report"),
    ),
    ("the study: configs/smoke.toml, whose records are made before; run skips all of them, report reads them",),
)
