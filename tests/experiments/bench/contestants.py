"""Contestants for tests of contests."""

import importlib
import os
import threading
import time
from dataclasses import dataclass
from typing import Any

from leadline.experiments.bench.worker import Prepared, scratch

DONE: list[int] = []


@dataclass(frozen=True)
class Nap:
    seconds: float


def shares(nap: Nap) -> Prepared:
    """Sleeps. It counts the contestants that left a file in the shared folder, and tells two variables of its environment."""
    (scratch() / str(os.getpid())).touch()
    files = len(list(scratch().iterdir()))
    facts = {"files": files, "cache": os.environ.get("JAX_COMPILATION_CACHE_DIR"), "variable": os.environ.get("NAME")}
    return Prepared(lambda: time.sleep(nap.seconds), facts, often=False)


def counts(**facts: Any) -> Prepared:
    return Prepared(lambda: 7, facts, often=False, more=lambda result: {"result": result})


def absent() -> Prepared:
    importlib.import_module("a_package_that_nobody_has")
    return Prepared(lambda: None)


def dies() -> Prepared:
    raise ValueError("no luck")


def dies_later(**_: Any) -> Prepared:
    """Runs once, and leaves without a word."""
    return Prepared(lambda: threading.Timer(0.05, os._exit, (3,)).start(), often=False)


def slow(**facts: Any) -> Prepared:
    return Prepared(lambda: time.sleep(0.3), facts, often=False)


def repeats() -> Prepared:
    DONE.clear()
    return Prepared(lambda: DONE.append(1), {"peak_mib": None})
