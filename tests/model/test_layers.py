"""Projections, norms, feed-forward layers, embeddings and losses. What blocks make of them: test_block."""

import math
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from scipy.stats import kstest, uniform

from leadline.model.embedding import embed, logits, token_losses
from leadline.model.feedforward import GATED, Activation, activated, feedforward, feedforward_weights
from leadline.model.linear import draw, matrix, project, project_each
from leadline.model.mesh import make_mesh
from leadline.model.norm import init_norm, normalise, rms_norm
from tests.model.naive import numbers

pytestmark = pytest.mark.usefixtures("mesh")
RESIDUAL = P("data", None, None)


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize(("contract", "into", "out"), [(1, (6,), (4, 3)), (2, (4, 6), (5,))])
def test_products_and_gradients_are_the_plain_ones_of_rounded_numbers(contract, into, out, kind):
    """Of weights, which stay float32; rounded themselves only where they are activations."""
    x, w, weights = numbers(5, 2, 3, *into).astype(kind), numbers(6, *into, *out), numbers(7, 2, 3, *out).astype(kind)
    w = w.astype(kind).astype(jnp.float32)
    spec = P("data", None, "model", *[None] * (len(out) - 1))
    gradients = jax.grad(lambda x, w: jnp.sum(weights * project(x, w, contract=contract, out_sharding=spec)), (0, 1))(x, w)
    computed = (project(x, w, contract=contract, out_sharding=spec), *gradients)
    assert [a.dtype for a in computed] == [kind, kind, "float32"]
    rows, plain, slopes = (np.asarray(a, np.float64) for a in (x, w, weights))
    rows, plain, slopes = rows.reshape(6, -1), plain.reshape(math.prod(into), -1), slopes.reshape(6, -1)
    rounding = 2**-8 if kind == "bfloat16" else 1e-6
    for got, expected in zip(computed, (rows @ plain, slopes @ plain.T, rows.T @ slopes), strict=True):
        scale = 1e-6 if got.dtype == "float32" else rounding
        np.testing.assert_allclose(np.asarray(got, np.float64).ravel(), expected.ravel(), rtol=scale, atol=1e-5)


def test_gradients_of_several_products_of_one_input_of_two_models_on_four_devices_each():
    x, *ws = (np.asarray(numbers(8 + n, *shape)) for n, shape in enumerate([(4, 3, 6), (2, 6, 4, 5), (2, 6, 2, 5)]))

    def total(x, ws):
        return sum(jnp.sum(jnp.sin(y)) for y in project_each(x, ws, out_sharding=P("data", None, "model", None)))

    def of_each(x, ws):
        """One model after the other, as in a population."""
        return jax.lax.map(lambda of_model: jax.grad(total, (0, 1))(x, of_model), ws)

    specs = {"in_specs": (P(), P("arm")), "out_specs": P("arm"), "axis_names": {"arm"}, "check_vma": False}
    with jax.set_mesh(make_mesh(arm=2, data=2, model=2)):
        given = [jax.device_put(w, P("arm", "data", "model", None)) for w in ws]
        dx, dws = jax.jit(jax.shard_map(of_each, **specs))(jax.device_put(x, RESIDUAL), given)
    slopes = [np.cos(np.einsum("btd,adnh->abtnh", x, w)) for w in ws]
    np.testing.assert_allclose(dx, sum(np.einsum("abtnh,adnh->abtd", y, w) for y, w in zip(slopes, ws, strict=True)), atol=1e-4)
    for dw, slope in zip(dws, slopes, strict=True):
        np.testing.assert_allclose(dw, np.einsum("btd,abtnh->adnh", x, slope), atol=1e-4)


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


def test_uniform_matrices_are_spread_evenly_within_the_stated_scale():
    w = np.asarray(draw(jax.random.key(2), matrix((64, 128), P(None, None), 64, gain=0.5, uniform=True))) * 16
    assert np.abs(w).max() <= 1
    assert kstest(w.ravel(), uniform(-1, 2).cdf).pvalue > 0.01


def test_every_matrix_of_a_tree_has_numbers_and_a_place_of_its_own_and_the_rest_is_kept():
    tree = {"a": matrix((3, 4), P("data", None), 3), "b": None, "c": jnp.ones(2), "d": matrix((4, 3), P(None, "model"), 4)}
    weights = draw(jax.random.key(1), tree)
    assert weights["b"] is None
    assert weights["c"].tolist() == [1, 1]
    assert not np.isin(np.asarray(weights["a"]), np.asarray(weights["d"])).any()
    assert [jax.typeof(weights[name]).sharding.spec for name in "ad"] == [P("data", None), P(None, "model")]


@pytest.mark.parametrize("bias", [False, True])
def test_zeros_stay_zeros_with_finite_gradients(bias):
    norm = init_norm(4, bias=bias)
    assert (norm.bias is not None) == bias
    np.testing.assert_array_equal(normalise(norm, jnp.zeros((2, 4))), 0)
    assert np.isfinite(jax.grad(lambda x: normalise(norm, x).sum())(jnp.zeros((2, 4)))).all()


def test_bfloat16_is_normalised_in_float32():
    """The mean over 4096 channels would be lost in bfloat16."""
    x = numbers(6, 1, 4096).astype(jnp.bfloat16)
    y = rms_norm(x, jnp.ones(4096))
    assert y.dtype == jnp.bfloat16
    np.testing.assert_allclose(y.astype(jnp.float32), rms_norm(x.astype(jnp.float32), jnp.ones(4096)), rtol=2**-8)


@pytest.mark.parametrize("activation", get_args(Activation))
def test_only_the_gated_kind_has_a_gate_matrix(activation):
    p = draw(jax.random.key(0), feedforward_weights(6, 10, activation, 0.25))
    assert (p.gate is not None) == (activation in GATED)
    assert jnp.abs(p.down).max() <= 3 * 0.25 / math.sqrt(10)
    if p.gate is None:
        with pytest.raises(ValueError, match="swiglu needs a gate matrix"):
            feedforward(p, jnp.zeros((1, 2, 6)), "swiglu")


def test_activations_where_they_are_clamped_and_where_not():
    """Only the gate is without a lower bound."""
    h, gate = (x.ravel().astype(np.float32) for x in np.meshgrid([-9.0, -7, -1, 0, 2, 7, 9], [-20.0, -7, -1, 0, 2, 7, 9]))
    least = np.minimum(gate, 7)
    sigmoid = np.array([1 / (1 + math.exp(-1.702 * x)) for x in least])
    tanh = 0.5 * gate * (1 + np.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)))
    expected: dict[Activation, np.ndarray] = {
        "swiglu_clamped": least * sigmoid * (np.clip(h, -7, 7) + 1),
        "geglu_tanh": tanh * h,
    }
    for kind, values in expected.items():
        np.testing.assert_allclose(activated(jnp.asarray(h), jnp.asarray(gate), kind), values, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(activated(jnp.asarray(gate), None, "gelu_tanh"), tanh, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="gelu has no gate"):
        activated(jnp.asarray(h), jnp.asarray(gate), "gelu")


def test_a_scale_is_the_difference_from_the_offset_and_epsilon_is_that_of_the_norm():
    x = numbers(6, 3, 8)
    norm = init_norm(8, bias=False, epsilon=0.5, offset=1.0)
    np.testing.assert_array_equal(norm.scale, 0)
    np.testing.assert_allclose(normalise(norm, x), rms_norm(x, jnp.ones(8), 0.5), rtol=1e-6)


def test_look_up_and_its_gradient_are_those_of_one_hot_products_of_tokens_within_the_vocabulary():
    table, tokens, weights = numbers(0, 7, 4), jnp.asarray([[1, 9, 1], [-1, 2, 2]]), numbers(1, 2, 3, 4)
    one_hot = np.eye(7, dtype=np.float32)[np.clip(np.asarray(tokens), 0, 6)]
    np.testing.assert_array_equal(embed(table, tokens, scaled=False), one_hot @ np.asarray(table))
    gradient = jax.grad(lambda table: jnp.sum(weights * embed(table, tokens, scaled=False)))(table)
    np.testing.assert_allclose(gradient, np.einsum("btv,btd->vd", one_hot, weights), atol=1e-6)


def test_the_look_up_of_an_id_without_embedding_is_zero_and_trains_nothing():
    table, tokens = numbers(0, 7, 4), jnp.asarray([[1, 2, 1], [2, 5, 2]])
    x, trained = jax.value_and_grad(lambda table: jnp.sum(jnp.sin(embed(table, tokens, scaled=True, zero_id=2))))(table)
    at = np.sin(2 * np.asarray(table)[[1, 1, 5]]).sum()
    np.testing.assert_allclose(x, at, rtol=1e-5)
    np.testing.assert_array_equal(np.any(np.asarray(trained), axis=1), np.isin(np.arange(7), [1, 5]))


def test_logits_are_float32_inner_products():
    x, table = numbers(4, 2, 3, 8), numbers(5, 11, 8)
    np.testing.assert_allclose(logits(x, table), np.asarray(x) @ np.asarray(table).T, atol=1e-5)


def test_logits_of_bfloat16_are_float32_sums():
    x, table = (numbers(seed, *shape).astype(jnp.bfloat16) for seed, shape in ((4, (2, 3, 8)), (5, (11, 8))))
    exact = np.asarray(x, np.float64) @ np.asarray(table, np.float64).T
    np.testing.assert_allclose(logits(x, table), exact, rtol=1e-5, atol=1e-6)
    of_x = jax.grad(lambda x: jnp.sum(jnp.sin(logits(x, table))))(x)
    assert of_x.dtype == jnp.bfloat16
    expected = np.cos(exact) @ np.asarray(table, np.float64)
    np.testing.assert_allclose(np.asarray(of_x, np.float64), expected, rtol=0.02, atol=0.05)


def test_losses_are_negative_log_probabilities():
    scores, targets = 4 * numbers(6, 2, 3, 5), jnp.asarray([[0, 4, 2], [1, 1, 3]])
    exact = np.exp(np.asarray(scores, np.float64))
    probabilities = exact / exact.sum(axis=-1, keepdims=True)
    chosen = np.take_along_axis(probabilities, np.asarray(targets)[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(token_losses(scores, targets), -np.log(chosen), rtol=1e-5)
    assert np.isfinite(token_losses(jnp.asarray([[[1e30, 0.0, -1e30]]]), jnp.asarray([[2]]))).all()
