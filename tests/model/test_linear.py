"""The matrix product of every projection, and the initial matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from leadline.model.linear import draw, matrix, project, project_each
from leadline.model.mesh import make_mesh

pytestmark = pytest.mark.usefixtures("mesh")
RESIDUAL = P("data", None, None)


def numbers(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def test_one_axis_to_one():
    x, w = numbers(0, 2, 3, 5), numbers(1, 5, 4)
    np.testing.assert_allclose(project(x, w, out_sharding=P("data", None, "model")), np.asarray(x) @ np.asarray(w), atol=1e-5)


def test_one_axis_to_heads_and_back():
    x, w, back = numbers(2, 2, 3, 5), numbers(3, 5, 4, 6), numbers(4, 4, 6, 5)
    heads = project(x, w, out_sharding=P("data", None, "model", None))
    np.testing.assert_allclose(heads, np.einsum("btd,dnh->btnh", x, w), atol=1e-5)
    merged = project(heads, back, contract=2, out_sharding=RESIDUAL)
    np.testing.assert_allclose(merged, np.einsum("btnh,nhd->btd", heads, back), atol=1e-4)


def test_gradients_are_those_of_the_plain_product():
    x, w, weights = numbers(5, 2, 3, 4, 6), numbers(6, 4, 6, 5), numbers(7, 2, 3, 5)
    found = jax.grad(lambda x, w: jnp.sum(weights * project(x, w, contract=2, out_sharding=RESIDUAL)), (0, 1))(x, w)
    np.testing.assert_allclose(found[0], np.einsum("bto,nho->btnh", weights, w), atol=1e-5)
    np.testing.assert_allclose(found[1], np.einsum("btnh,bto->nho", x, weights), atol=1e-5)


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


def test_gradients_of_bfloat16_are_those_of_the_plain_product_of_rounded_numbers():
    x, w, weights = (
        numbers(seed, *shape).astype(jnp.bfloat16) for seed, shape in ((5, (2, 64, 32)), (6, (32, 48)), (7, (2, 64, 48)))
    )
    found = jax.grad(lambda x, w: jnp.sum(weights * project(x, w, out_sharding=RESIDUAL)), (0, 1))(x, w.astype(jnp.float32))
    assert (found[0].dtype, found[1].dtype) == (jnp.bfloat16, jnp.float32)
    x, w, weights = (np.asarray(a, np.float64) for a in (x, w, weights))
    np.testing.assert_allclose(found[0].astype(jnp.float32), np.einsum("bto,do->btd", weights, w), rtol=2**-8, atol=1e-4)
    np.testing.assert_allclose(found[1], np.einsum("btd,bto->do", x, weights), rtol=1e-5, atol=1e-4)


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
