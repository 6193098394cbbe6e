"""How arrays lie in memory."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from leadline.model.layout import row_major
from leadline.model.linear import project
from leadline.model.norm import rms_norm

X = jnp.arange(12.0).reshape(3, 4)


def test_a_layout_leaves_values_and_gradients_with_or_without_jit_and_under_vmap():
    np.testing.assert_array_equal(row_major(X.T), X.T)
    np.testing.assert_array_equal(jax.jit(lambda x: row_major(x.T))(X), X.T)
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(row_major(x.T)))))(X), jnp.cos(X), rtol=1e-6)
    stacked = jnp.stack([X, -X])
    np.testing.assert_array_equal(jax.vmap(lambda x: row_major(x.T))(stacked), jnp.swapaxes(stacked, 1, 2))


def test_an_accelerator_is_left_its_own_layout():
    lowered = jax.jit(row_major).trace(X).lower(lowering_platforms=("cuda",)).as_text()
    assert "layout" not in lowered.lower().replace("mhlo.layout_mode", "")
    assert "LayoutConstraint" in jax.jit(row_major).trace(X).lower(lowering_platforms=("cpu",)).as_text()


@pytest.mark.usefixtures("mesh")
def test_the_gradient_of_a_weight_multiplies_rows_by_rows():
    """XLA's CPU back end would contract the first axis of both factors at half the rate."""
    x, w, spec = jnp.ones((8, 16, 32)), jnp.ones((32, 48)), P("data", None, "model")
    loss = jax.jit(jax.grad(lambda x, w: jnp.sum(project(x, w, out_sharding=spec) ** 2), argnums=1))
    compiled = loss.lower(x, w).compile().as_text() or ""
    products = re.findall(r"f32\[32,48\]\S* dot\(.*?lhs_contracting_dims=\{(\d)\}, rhs_contracting_dims=\{(\d)\}", compiled)
    assert products == [("1", "0")]


def test_the_gradient_of_a_norm_of_one_text_is_summed_at_once():
    """A sum over the tokens that keeps the axis of the batch takes XLA's CPU back end a hundred times as long."""
    x, scale = jnp.ones((1, 512, 32)), jnp.ones(32)
    loss = jax.grad(lambda scale: jnp.sum(jnp.sin(rms_norm(x, scale))))
    sums = [e for e in jax.make_jaxpr(loss)(scale).eqns if e.primitive.name == "reduce_sum"]
    axes = [e.params["axes"] for e in sums if e.invars[0].aval.shape == x.shape and e.params["axes"] not in ((2,), (0, 1, 2))]
    assert axes == [(0, 1)]
