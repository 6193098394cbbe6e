"""What contests of tests run."""

import importlib
import os
import time
from typing import Any

from experiments.bench.worker import Prepared, scratch


def sleeps(seconds: float, value: float = 1.0) -> Prepared:
    return Prepared(lambda: time.sleep(seconds), {"value": value, "colour": "red"}, often=False)


def counts(**facts: Any) -> Prepared:
    return Prepared(lambda: 7, facts, often=False, more=lambda found: {"found": found})


def absent() -> Prepared:
    importlib.import_module("a_package_that_nobody_has")
    return Prepared(lambda: None)


def dies() -> Prepared:
    raise ValueError("no luck")


def shares() -> Prepared:
    """How many of those before it have left a file in the folder, whatever cache of programs the user has named."""
    (scratch() / str(os.getpid())).touch()
    found = {"files": len(list(scratch().iterdir())), "cache": os.environ.get("JAX_COMPILATION_CACHE_DIR")}
    return Prepared(lambda: None, found, often=False)


DONE: list[int] = []


def repeats() -> Prepared:
    DONE.clear()
    return Prepared(lambda: DONE.append(1))
