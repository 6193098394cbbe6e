"""The cores of this machine, and processes on them for work that trains nothing."""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def process_pool() -> ProcessPoolExecutor:
    """A process a core, each of which multiplies matrices on its own core only."""
    return ProcessPoolExecutor(cores(), mp_context=get_context("spawn"), initializer=_one_thread)


def _one_thread() -> None:
    """In a new process: OpenBLAS reads it when numpy is imported, which comes later."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
