"""Counts what XLA compiles in this process."""

from typing import Any

import jax

COMPILED = "/jax/core/compile/backend_compile_duration"
FOUND = "/jax/compilation_cache/cache_hits"


class Compilations:
    """From its making on: how many programs were compiled or found in a cache on disk, and in how many seconds."""

    def __init__(self) -> None:
        self.programs, self.found, self.seconds = 0, 0, 0.0
        jax.monitoring.register_event_duration_secs_listener(self._hear)
        jax.monitoring.register_event_listener(self._hear_found)

    def _hear(self, event: str, duration_secs: float, **_: Any) -> None:
        if event == COMPILED:
            self.programs += 1
            self.seconds += duration_secs

    def _hear_found(self, event: str, **_: Any) -> None:
        self.found += event == FOUND

    def begin(self) -> None:
        """Counts from nothing again, and forgets all programs, so that what is called next is compiled anew."""
        jax.clear_caches()
        self.programs, self.found, self.seconds = 0, 0, 0.0

    def facts(self) -> dict[str, Any]:
        """For a contestant to say of itself."""
        facts = {"programs": self.programs, "compile_seconds": self.seconds}
        return {**facts, "found_on_disk": self.found} if self.found else facts
