"""Commands in processes of their own, as a shell starts them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from leadline.experiments.bench.worker import Prepared, scratch
from leadline.experiments.runtime.errors import UserError

MAIN = "from leadline.experiments.cli.main import main; main()"
# The memory of this process says nothing of the processes that it starts.
OTHERS = {"peak_mib": None}
STUDY = Path(__file__).resolve().parents[4] / "configs" / "smoke.toml"


def command(words: Sequence[str]) -> Prepared:
    """The command line of leadline with these words."""
    return Prepared(lambda: started(MAIN, *words), OTHERS)


def python(code: str) -> Prepared:
    """Python with this program."""
    return Prepared(lambda: started(code), OTHERS)


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
