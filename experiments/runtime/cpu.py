"""The cores of this machine, and processes on them for work that trains nothing."""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from threading import Thread


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def process_pool() -> ProcessPoolExecutor:
    """A process a core, each of which multiplies matrices on its own core only, and ends with this one."""
    return ProcessPoolExecutor(cores(), mp_context=get_context("spawn"), initializer=_begin)


def _begin() -> None:
    """In a new process: OpenBLAS reads the number of its threads when numpy is imported, which comes later."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A process whose parent is killed would wait for work for ever: it holds the other end of its own queue."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
