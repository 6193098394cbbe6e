"""Gates: a sigmoid of the layer input, one a head or one a channel."""

import jax.numpy as jnp
import numpy as np
import pytest

from model.gating import apply_gate, gate_scores

pytestmark = pytest.mark.usefixtures("mesh")


def draw(seed: int, *shape: int):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


@pytest.mark.parametrize("shape", [(6, 3), (6, 3, 4)], ids=["headwise", "elementwise"])
def test_scores_are_the_sigmoid_of_a_product(shape):
    x, w = draw(0, 2, 5, 6), draw(1, *shape)
    products = np.tensordot(np.asarray(x, np.float64), np.asarray(w, np.float64), 1)
    np.testing.assert_allclose(gate_scores(x, w), 1 / (1 + np.exp(-products)), atol=1e-6)


def test_scores_are_float32_of_bfloat16_inputs():
    assert gate_scores(draw(0, 2, 5, 6).astype(jnp.bfloat16), draw(1, 6, 3)).dtype == jnp.float32


def test_a_headwise_gate_is_an_elementwise_one_of_equal_channels():
    y, scores = draw(2, 2, 5, 3, 4), draw(3, 2, 5, 3)
    wide = jnp.broadcast_to(scores[..., None], y.shape)
    np.testing.assert_array_equal(apply_gate(y, scores), apply_gate(y, wide))
    np.testing.assert_array_equal(apply_gate(y, scores)[0, 1, 2], y[0, 1, 2] * scores[0, 1, 2])


def test_gating_keeps_the_type_of_what_is_gated():
    assert apply_gate(draw(4, 1, 2, 3, 4).astype(jnp.bfloat16), draw(5, 1, 2, 3)).dtype == jnp.bfloat16
