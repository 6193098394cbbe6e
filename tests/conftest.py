"""Settings of every test: nothing is promoted or broadcast silently, and eight fake devices stand for a machine."""

import gc
import os
import time
from collections.abc import Iterator

import jax
import pytest
from hypothesis import settings
from jax.sharding import Mesh

from leadline.model.mesh import make_mesh

# Tracing makes millions of objects that live on: Python's collector of cycles takes long to look them over again and again.
gc.set_threshold(1_000_000, 20, 100)
# LLVM that optimises nothing takes a tenth off the time of all tests, and programs that are not cut into 32 parts another: all
# cores are at work anyway. XLA's other way of compiling fusions, which 0.11.2 does not know any more, had halved that before.
QUICK = [
    "--xla_backend_optimization_level=0",
    "--xla_cpu_parallel_codegen_split_count=1",
    *(["--xla_cpu_use_fusion_emitters=false"] if jax.__version_info__ < (0, 11) else []),
]
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *QUICK]).strip()
jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
WEEK = 7 * 24 * 3600.0  # s
# The same examples each time, and a slow machine is no failure.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=10_000)  # pytest --hypothesis-profile=long
settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    """What XLA compiled serves all processes and the runs of a week: a first run spends half of its time on compiling."""
    programs = config.rootpath / ".pytest_cache" / "programs"
    for program in programs.glob("*") if not hasattr(config, "workerinput") else ():
        if time.time() - program.stat().st_mtime > WEEK:
            program.unlink()
    jax.config.update("jax_compilation_cache_dir", str(programs))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@pytest.fixture(scope="module")
def quick_to_compile() -> Iterator[None]:
    """For modules where nearly all the time is XLA's: programs of toy size need not be fast."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()  # or the next module, whose last digits may count, would be handed these programs


@pytest.fixture
def mesh() -> Iterator[Mesh]:
    """The mesh of one device, set for the test."""
    of_one_device = make_mesh()
    with jax.set_mesh(of_one_device):
        yield of_one_device
