"""Commands as a shell starts them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.bench.worker import Prepared, scratch
from experiments.errors import UserError

MAIN = "from experiments.cli import main; main()"
# This process only starts others, whose memory is not its own.
OTHERS = {"peak_mib": None}
STUDY = Path(__file__).parents[2] / "configs" / "smoke.toml"


def command(words: Sequence[str]) -> Prepared:
    """leadline with these words."""
    return Prepared(lambda: started(MAIN, *words), OTHERS)


def python(code: str) -> Prepared:
    """Python with this program."""
    return Prepared(lambda: started(code), OTHERS)


def cached(name: str) -> Prepared:
    """`leadline run` or `leadline report` of a study whose records the first contestant makes that asks for them."""
    if not STUDY.exists():
        raise UserError(f"{STUDY} is not there: this is measured in a checkout of leadline")
    results = str(scratch() / "smoke")
    study = ("run", str(STUDY), "--results", results)
    if not Path(results).exists():
        started(MAIN, *study)
    words = study if name == "run" else (name, results)
    return Prepared(lambda: started(MAIN, *words), OTHERS, often=False)


def started(code: str, *words: str) -> None:
    """Runs it to its end, with a cache of its own. Raises CalledProcessError where it fails."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(scratch() / "cache")}
    subprocess.run([sys.executable, "-c", code, *words], env=environment, check=True, stdout=subprocess.DEVNULL)
