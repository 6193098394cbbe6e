"""`leadline run` in processes of their own, all on one results folder."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from leadline.experiments.records.record import Record
from leadline.experiments.records.store import read_records
from tests.experiments.configured import write_config
from tests.experiments.suite import MINE

ROOT = Path(__file__).parents[3]
TIMEOUT = 600.0  # s, of a machine that is busy
# An arm of another structure, and so a second group.
GATED = '[arms.gated]\nmodel.gate = { kind = "output", per = "head" }\n[selectors]'
STEPS = 60
SAVED = (f"train.steps={STEPS}", "train.checkpoint_every=5")


def two_groups(folder: Path) -> Path:
    """A study of two groups, whose six models take some seconds."""
    (folder / "corpus").mkdir()
    text = "".join(f"Line {line} of a document.\n" for line in range(9))
    for number in range(20):
        (folder / "corpus" / f"{number}.txt").write_text(f"{number}\n{text}", encoding="utf-8")
    return write_config(folder, MINE.replace("CORPUS", str(folder / "corpus")).replace("[selectors]", GATED), "mine.toml")


@contextmanager
def running(*words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A command of leadline; it is killed at the end."""
    environment = os.environ | {
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_COMPILATION_CACHE_DIR": jax.config.values["jax_compilation_cache_dir"],
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    command = [sys.executable, "-m", "leadline", *map(str, words)]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def result_of(process: subprocess.Popen[str]) -> tuple[dict[str, Any], str]:
    """The JSON that a command ends with, and what it says on standard error."""
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, err
    return json.loads(out), err


def until(process: subprocess.Popen[str], happened: Callable[[], Any]) -> Any:
    """Waits for something that a process does; what it was."""
    end = time.monotonic() + TIMEOUT
    while not (what := happened()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
    return what


def records_of(results: Path) -> dict[tuple[str, int], Record]:
    """The records, none of which is left out; nothing else of a run is left."""
    records, notes = read_records(results)
    assert notes == []
    assert not [*results.glob("*/.claims/*"), *results.glob("*/.group-*"), *results.rglob("*.part"), *results.rglob("*.claim")]
    return {(stored.record.arm, stored.record.seed): stored.record for stored in records}
