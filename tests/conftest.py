"""Settings of every test: nothing is promoted or broadcast silently, and eight fake devices stand for a machine."""

from collections.abc import Iterator

import jax
import pytest
from jax.sharding import Mesh

from model.mesh import make_mesh

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def mesh() -> Iterator[Mesh]:
    """The mesh of one device, set for the test."""
    one = make_mesh()
    with jax.set_mesh(one):
        yield one
