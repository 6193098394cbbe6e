"""The process of one contestant: it prepares the work, prints its facts, and runs one round for each line that it reads."""

import importlib
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

# A round repeats the work until ROUND_SECONDS have passed and it has run LEAST times.
ROUND_SECONDS, LEAST = 1.5, 3
# The variable that names the folder that the contestants of a run share.
SCRATCH = "LEADLINE_BENCH_SCRATCH"


@dataclass(frozen=True)
class Prepared:
    """A contestant that is ready to be timed, as its function `prepare` returns it."""

    work: Callable[[], Any]  # does the work once and waits until it is done
    # By name. "value" must agree between the contestants of a case, and "flops" takes the place of the case's; the others are
    # columns of its table.
    facts: Mapping[str, Any] = field(default_factory=dict)
    often: bool = True  # whether a round repeats the work; False for work that takes seconds
    more: Callable[[Any], Mapping[str, Any]] | None = None  # further facts, from what the first `work()` returned


def scratch() -> Path:
    """The folder that the contestants of a run share. It is removed after the run."""
    return Path(os.environ[SCRATCH])


def main() -> None:
    """Arguments: "module:function" and its settings as a JSON object, in which a data class is a table of its fields."""
    entry, settings = sys.argv[1], json.loads(sys.argv[2])
    module, function = entry.split(":")
    try:
        prepare = getattr(importlib.import_module(module), function)
        types = get_type_hints(prepare)
        arguments = {name: types[name](**value) if is_dataclass(types.get(name)) else value for name, value in settings.items()}
        prepared: Prepared = prepare(**arguments)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] in ("leadline",):
            raise
        _say({"absent": f"{error.name} is not installed: pip install '.[peers]', or as its makers say"})
        return
    result = prepared.work()
    more = prepared.more(result) if prepared.more else {}
    _say({"peak_mib": peak_mib(), **prepared.facts, **more})
    for _ in sys.stdin:
        _say({"seconds": _round(prepared)})


def peak_mib() -> float:
    """The peak memory of this process [MiB]. On Linux it is VmHWM, because ru_maxrss is inherited from the parent."""
    if sys.platform == "linux":
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / 2**20 if sys.platform == "darwin" else used / 1024


def _round(prepared: Prepared) -> float:
    """The median time of the repetitions of one round [s]."""
    seconds: list[float] = []
    end = time.perf_counter() + ROUND_SECONDS
    while not seconds or (prepared.often and (len(seconds) < LEAST or time.perf_counter() < end)):
        began = time.perf_counter()
        prepared.work()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _say(content: Mapping[str, Any]) -> None:
    print(json.dumps(content), flush=True)  # noqa: T201  # the parent reads it


if __name__ == "__main__":
    main()
