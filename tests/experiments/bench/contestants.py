"""Contestants for tests of contests."""

import importlib
import os
import time
from typing import Any

from leadline.experiments.bench.worker import Prepared, scratch


def sleeps(seconds: float, value: float = 1.0) -> Prepared:
    return Prepared(lambda: time.sleep(seconds), {"value": value, "colour": "red"}, often=False)


def counts(**facts: Any) -> Prepared:
    return Prepared(lambda: 7, facts, often=False, more=lambda result: {"result": result})


def absent() -> Prepared:
    importlib.import_module("a_package_that_nobody_has")
    return Prepared(lambda: None)


def dies() -> Prepared:
    raise ValueError("no luck")


def shares() -> Prepared:
    """Counts the contestants that left a file in the shared folder, and tells which cache of programs it has."""
    (scratch() / str(os.getpid())).touch()
    facts = {"files": len(list(scratch().iterdir())), "cache": os.environ.get("JAX_COMPILATION_CACHE_DIR")}
    return Prepared(lambda: None, facts, often=False)


DONE: list[int] = []


def repeats() -> Prepared:
    DONE.clear()
    return Prepared(lambda: DONE.append(1))
