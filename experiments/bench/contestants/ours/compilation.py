"""Compiles the training step of `leadline run`."""

from collections.abc import Mapping
from typing import Any

import jax

from leadline.experiments.bench.contestants.compilations import Compilations
from leadline.experiments.bench.contestants.ours.step import prepared_step
from leadline.experiments.bench.worker import Prepared, scratch
from leadline.experiments.bench.workloads.llama import Size
from leadline.experiments.runtime.cpu import cores
from leadline.experiments.runtime.ensemble import over_arms


def prepare(size: Mapping[str, int], on_disk: bool) -> Prepared:
    """Compiles without programs in the process. With `on_disk` they are loaded from the persistent cache."""
    jax.config.update("jax_num_cpu_devices", cores())
    mesh, step, state, inputs = prepared_step(Size(**size), "float32")
    if on_disk:
        jax.config.update("jax_compilation_cache_dir", str(scratch() / "programs"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    counted = Compilations()

    def work() -> dict[str, Any]:
        counted.begin()
        with jax.set_mesh(mesh):
            over_arms(step, donate=True).lower(state, inputs, None).compile()  # pyright: ignore[reportFunctionMemberAccess]
        return counted.facts()

    if on_disk:
        work()  # fills the cache
    return Prepared(work, often=False, more=dict)
