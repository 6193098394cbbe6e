"""Compiling the step that `leadline run` compiles."""

from collections.abc import Mapping
from typing import Any

import jax

from experiments.bench.compilations import Compilations
from experiments.bench.llama import Size
from experiments.bench.ours_step import begun
from experiments.bench.worker import Prepared, scratch
from experiments.cores import cores
from experiments.population import over_arms


def prepare(size: Mapping[str, int], on_disk: bool) -> Prepared:
    """Without programs in this process each time; `on_disk` says whether they are found there."""
    jax.config.update("jax_num_cpu_devices", cores())
    mesh, step, state, given = begun(Size(**size), "float32")
    if on_disk:
        jax.config.update("jax_compilation_cache_dir", str(scratch() / "programs"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    counted = Compilations()

    def work() -> dict[str, Any]:
        counted.begin()
        with jax.set_mesh(mesh):
            over_arms(step, donate=True).lower(state, given, None).compile()  # pyright: ignore[reportFunctionMemberAccess]
        return counted.facts()

    if on_disk:
        work()  # which fills the folder
    return Prepared(work, often=False, more=dict)
