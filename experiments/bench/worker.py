"""The process of one contestant: it prepares itself, says what it is, and does a round for each line that it reads."""

import importlib
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# A round repeats the work until so much time is gone, at least so often.
ROUND_SECONDS, LEAST = 1.5, 3
# The variable that names the folder which the contestants of a run share.
SCRATCH = "LEADLINE_BENCH_SCRATCH"


@dataclass(frozen=True)
class Prepared:
    """What `prepare(**settings)` returns.

    Attributes:
        work: does it once and waits for its end.
        facts: what the contestant says of itself: "value", by which it is seen to do the same work as others, and others.
        often: whether a round repeats the work; False for what takes seconds.
        more: facts that follow from what the work returned the first time.
    """

    work: Callable[[], Any]
    facts: Mapping[str, Any] = field(default_factory=dict)
    often: bool = True
    more: Callable[[Any], Mapping[str, Any]] | None = None


def scratch() -> Path:
    """The folder that the contestants of a run share, and that is removed behind it."""
    return Path(os.environ[SCRATCH])


def main() -> None:
    """Arguments: "module:function" and its settings as a JSON object."""
    entry, settings = sys.argv[1], json.loads(sys.argv[2])
    module, function = entry.split(":")
    try:
        prepared: Prepared = getattr(importlib.import_module(module), function)(**settings)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] in ("experiments", "model", "tokenization"):
            raise
        _say({"absent": f"{error.name} is not installed: pip install '.[peers]', or as its makers say"})
        return
    done = prepared.work()
    more = prepared.more(done) if prepared.more else {}
    _say({"peak_mib": peak_mib(), **prepared.facts, **more})
    for _ in sys.stdin:
        _say({"seconds": _round(prepared)})


def peak_mib() -> float:
    """The most memory that this process has had; of Linux's two figures the one that a process does not inherit."""
    if sys.platform == "linux":
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / 2**20 if sys.platform == "darwin" else used / 1024


def _round(prepared: Prepared) -> float:
    """The median of its repetitions."""
    found: list[float] = []
    end = time.perf_counter() + ROUND_SECONDS
    while not found or (prepared.often and (len(found) < LEAST or time.perf_counter() < end)):
        began = time.perf_counter()
        prepared.work()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def _say(content: Mapping[str, Any]) -> None:
    print(json.dumps(content), flush=True)  # noqa: T201  # the parent reads it


if __name__ == "__main__":
    main()
