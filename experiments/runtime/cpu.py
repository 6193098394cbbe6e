"""The cores and memory of this machine, processes for work that trains nothing, and huge pages for the arrays of XLA."""

import os
import platform
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from threading import Thread

TUNABLES = "GLIBC_TUNABLES"
HUGE_PAGES = "glibc.malloc.hugetlb=1"
# The first glibc that knows this tunable.
OLDEST = (2, 35)


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def memory_bytes() -> int | None:
    """Memory of the machine; None where the operating system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError):
        return None


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


def restart_with_huge_pages() -> None:
    """Restarts this program, once, so that malloc asks the kernel for huge pages.

    XLA on a CPU gives every result a fresh buffer, whose pages the kernel has to find and clear: of small pages that is up to a
    third of a training step. glibc reads its tunables only when a process begins. Nothing happens where JAX is loaded already,
    on other systems, or where the user has set tunables.
    """
    if "jax" not in sys.modules and wanted(sys.platform, platform.libc_ver(), os.environ):
        sys.stdout.flush()
        sys.stderr.flush()
        words = [sys.executable, *sys.orig_argv[1:]]  # options of the interpreter included
        os.execve(sys.executable, words, {**os.environ, TUNABLES: HUGE_PAGES})


def wanted(system: str, library: tuple[str, str], environment: Mapping[str, str]) -> bool:
    """Whether the C library takes the tunable, and nobody has set any."""
    name, version = library
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    return system == "linux" and name == "glibc" and numbers >= OLDEST and TUNABLES not in environment
