"""What is measured of batches and heads spread over devices is what is measured of them on one."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from leadline.experiments.measure.activations import kurtosis, massive_activations
from leadline.experiments.measure.gradient import gradient_norms
from leadline.experiments.measure.keys import key_cosines, logit_gap, share_outside
from leadline.experiments.measure.lens import early_decoding
from leadline.experiments.measure.sinks import first_norm_ratio
from leadline.model.mesh import make_mesh

HEADS, RESIDUAL, MATRIX = P("data", None, "model", None), P("data", None, None), P(None, "data", "model", None)

MEASURES: dict[str, tuple[Callable[..., Any], list[tuple[tuple[int, ...], P]]]] = {
    "key_cosines": (lambda q, k: key_cosines(q, k, start=1), [((4, 6, 4, 8), HEADS), ((4, 6, 2, 8), HEADS)]),
    "logit_gap": (lambda q, k: logit_gap(q, k, scale=0.5, start=2), [((4, 6, 4, 8), HEADS), ((4, 6, 2, 8), HEADS)]),
    "share_outside": (share_outside, [((4, 6, 2, 8), HEADS)]),
    "massive_activations": (massive_activations, [((4, 6, 8), RESIDUAL)]),
    "kurtosis": (kurtosis, [((4, 6, 8), RESIDUAL)]),
    "first_norm_ratio": (lambda norm: first_norm_ratio(jnp.abs(norm), start=2), [((4, 6, 2), P("data", None, "model"))]),
    "early_decoding": (lambda x: early_decoding(x, lambda h: h), [((3, 4, 6, 8), P(None, *RESIDUAL))]),
    "gradient_norms": (lambda *leaves: gradient_norms(leaves), [((3, 8, 2, 4), MATRIX), ((3, 2), P(None, "model"))]),
}


@pytest.mark.parametrize("name", MEASURES)
def test_spread_as_on_one_device(name: str) -> None:
    measure, inputs = MEASURES[name]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape, _ in inputs]
    expected = jax.jit(measure)(*map(jnp.asarray, arrays))
    mesh = make_mesh(data=2, model=2)
    with jax.set_mesh(mesh):
        spread = [jax.device_put(x, NamedSharding(mesh, spec)) for x, (_, spec) in zip(arrays, inputs, strict=True)]
        found = jax.block_until_ready(jax.jit(measure)(*spread))
    jax.tree.map(lambda own, other: np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-6), found, expected)
