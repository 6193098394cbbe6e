"""Huge pages for the arrays that XLA allocates on a CPU."""

import os
import platform
import sys
from collections.abc import Mapping

TUNABLES = "GLIBC_TUNABLES"
HUGE_PAGES = "glibc.malloc.hugetlb=1"
# The first glibc that knows this tunable.
OLDEST = (2, 35)


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
