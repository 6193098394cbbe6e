"""The rate of products of this machine."""

import jax

from leadline.experiments.runtime.matmul import matmul_peak
from leadline.model.mesh import make_mesh


def test_the_peak_is_that_of_a_product() -> None:
    with jax.set_mesh(make_mesh(arm=2)):
        assert 1e8 < matmul_peak(size=256, rounds=2) < 1e15
