"""Work that makes many small containers and no cycles of them."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_cycles() -> Iterator[None]:
    """Python's collector of cycles, where it is on, stands still meanwhile: it would go through all containers again and again
    and free none, a sixth of the time of training. What is referred to no more is freed all the same."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
