"""Counts the programs that XLA compiles in this process."""

from collections.abc import Callable
from typing import Any

import jax

from leadline.experiments.bench.worker import Prepared

COMPILED = "/jax/core/compile/backend_compile_duration"
LOADED = "/jax/compilation_cache/cache_hits"


class Compilations:
    """The programs that were compiled, or loaded from a cache on disk, and the seconds that this took, from `begin` on."""

    def __init__(self) -> None:
        self.begin()
        jax.monitoring.register_event_duration_secs_listener(self._count)
        jax.monitoring.register_event_listener(self._count_loaded)

    def _count(self, event: str, duration_secs: float, **_: Any) -> None:
        if event == COMPILED:
            self.programs += 1
            self.seconds += duration_secs

    def _count_loaded(self, event: str, **_: Any) -> None:
        self.loaded += event == LOADED

    def begin(self) -> None:
        """Sets the counts to 0 and forgets every program, so that the next call compiles."""
        jax.clear_caches()
        self.programs, self.loaded, self.seconds = 0, 0, 0.0

    def facts(self) -> dict[str, Any]:
        """The facts of a contestant."""
        facts = {"programs": self.programs, "compile_seconds": self.seconds}
        return {**facts, "loaded_from_disk": self.loaded} if self.loaded else facts


def compiling(work: Callable[[], float | None]) -> Prepared:
    """A contestant that starts without programs in the process each time. Its value is what `work` returns, if anything."""
    counted = Compilations()

    def from_the_beginning() -> float | None:
        counted.begin()
        return work()

    def facts(value: float | None) -> dict[str, Any]:
        return ({} if value is None else {"value": value}) | counted.facts()

    return Prepared(from_the_beginning, often=False, more=facts)
