"""The matrix product of every projection, and the initial matrices."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from leadline.model.linear import draw, matrix, project, project_each
from leadline.model.mesh import make_mesh
from tests.model.naive import numbers

pytestmark = pytest.mark.usefixtures("mesh")
RESIDUAL = P("data", None, None)


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize(("contract", "into", "out"), [(1, (6,), (5,)), (1, (6,), (4, 3)), (2, (4, 6), (5,))])
def test_products_and_gradients_are_the_plain_ones_of_rounded_numbers(contract, into, out, kind):
    """Of weights, which stay float32; rounded themselves only where they are activations."""
    x, w, weights = numbers(5, 2, 3, *into).astype(kind), numbers(6, *into, *out), numbers(7, 2, 3, *out).astype(kind)
    w = w.astype(kind).astype(jnp.float32)
    spec = P("data", None, "model", *[None] * (len(out) - 1))
    found = jax.grad(lambda x, w: jnp.sum(weights * project(x, w, contract=contract, out_sharding=spec)), (0, 1))(x, w)
    y = project(x, w, contract=contract, out_sharding=spec)
    assert (y.dtype, found[0].dtype, found[1].dtype) == (kind, kind, "float32")
    rows, matrix, slopes = (np.asarray(a, np.float64) for a in (x, w, weights))
    rows, matrix, slopes = rows.reshape(6, -1), matrix.reshape(math.prod(into), -1), slopes.reshape(6, -1)
    rounding = 2**-8 if kind == "bfloat16" else 1e-6
    for got, plain, scale in (
        (y, rows @ matrix, rounding),
        (found[0], slopes @ matrix.T, rounding),
        (found[1], rows.T @ slopes, 1e-6),
    ):
        np.testing.assert_allclose(np.asarray(got, np.float64).ravel(), plain.ravel(), rtol=scale, atol=1e-5)


def test_gradients_of_several_products_of_one_input_of_two_models_on_four_devices_each():
    mesh = make_mesh(arm=2, data=2, model=2)
    x, *ws = (np.asarray(numbers(8 + n, *shape)) for n, shape in enumerate([(4, 3, 6), (2, 6, 4, 5), (2, 6, 2, 5)]))

    def total(x, ws):
        return sum(jnp.sum(jnp.sin(y)) for y in project_each(x, ws, out_sharding=P("data", None, "model", None)))

    def of_each(x, ws):
        """One model after the other, as in a population."""
        return jax.lax.map(lambda own: jax.grad(total, (0, 1))(x, own), ws)

    specs = {"in_specs": (P(), P("arm")), "out_specs": P("arm"), "axis_names": {"arm"}, "check_vma": False}
    with jax.set_mesh(mesh):
        given = [jax.device_put(w, NamedSharding(mesh, P("arm", "data", "model", None))) for w in ws]
        dx, dws = jax.jit(jax.shard_map(of_each, **specs))(jax.device_put(x, NamedSharding(mesh, RESIDUAL)), given)
    slopes = [np.cos(np.einsum("btd,adnh->abtnh", x, w)) for w in ws]
    np.testing.assert_allclose(dx, sum(np.einsum("abtnh,adnh->abtd", y, w) for y, w in zip(slopes, ws, strict=True)), atol=1e-4)
    for found, slope in zip(dws, slopes, strict=True):
        np.testing.assert_allclose(found, np.einsum("btd,abtnh->adnh", x, slope), atol=1e-4)


def test_bfloat16_products_are_summed_in_float32():
    """4096 ones: a sum in bfloat16 would stop at 256."""
    y = project(jnp.ones((1, 1, 4096), jnp.bfloat16), jnp.ones((4096, 1)), out_sharding=RESIDUAL)
    assert y.dtype == jnp.bfloat16
    assert y.item() == 4096


def test_initial_matrices_have_the_stated_scale_and_are_cut_at_three_of_it():
    w = draw(jax.random.key(0), matrix((256, 512), P("data", "model"), 256, gain=0.5))
    scale = 0.5 / 16
    assert w.dtype == jnp.float32
    assert jnp.abs(w).max() <= 3 * scale * 1.0001
    assert jnp.mean(w).item() == pytest.approx(0, abs=5 * scale / 362)
    # The standard deviation of a normal cut at ±3 is 0.9866.
    assert jnp.std(w).item() == pytest.approx(0.9866 * scale, rel=0.01)


def test_every_matrix_of_a_tree_has_numbers_and_a_place_of_its_own_and_the_rest_is_kept(mesh):  # noqa: ARG001
    tree = {"a": matrix((3, 4), P("data", None), 3), "b": None, "c": jnp.ones(2), "d": matrix((4, 3), P(None, "model"), 4)}
    found = draw(jax.random.key(1), tree)
    assert found["b"] is None
    assert found["c"].tolist() == [1, 1]
    assert not np.isin(np.asarray(found["a"]), np.asarray(found["d"])).any()
    assert [jax.typeof(found[name]).sharding.spec for name in "ad"] == [P("data", None), P(None, "model")]
