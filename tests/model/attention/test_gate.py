"""Gates: their scores, what they are multiplied with, and gates that cannot be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.attention.gate import GateConfig, apply_gate, gate_scores, gate_weights, gates
from leadline.model.linear import Matrix

pytestmark = pytest.mark.usefixtures("mesh")

UNIT = jnp.asarray([0.0, 1.0])
HEAD = GateConfig(per="head")
OF = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


def draw(seed: int, *shape: int):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


@pytest.mark.parametrize("activation", OF)
@pytest.mark.parametrize("shape", [(6, 3), (6, 3, 4)], ids=["head", "channel"])
def test_scores_are_an_activation_of_a_product(activation, shape):
    x, w = draw(0, 2, 5, 6), draw(1, *shape)
    cfg = GateConfig(per="head" if len(shape) == 2 else "channel", activation=activation)
    products = np.tensordot(np.asarray(x, np.float64), np.asarray(w, np.float64), 1)
    np.testing.assert_allclose(gate_scores(x, w, cfg, UNIT), OF[activation](products), atol=2e-6)


def test_limits_are_where_a_gate_begins_and_ends():
    x, w = draw(0, 2, 5, 6), draw(1, 6, 3)
    plain = np.asarray(gate_scores(x, w, HEAD, UNIT))
    np.testing.assert_allclose(gate_scores(x, w, HEAD, jnp.asarray([0.5, 1.0])), 0.5 + plain / 2, rtol=1e-6)


def test_a_gate_may_see_the_first_channels_only():
    x, w = draw(0, 2, 5, 6), draw(1, 2, 3)
    found = gate_scores(x, w, GateConfig(per="head", dims=2), UNIT)
    np.testing.assert_array_equal(found, gate_scores(x.at[..., 2:].set(7), w, GateConfig(per="head", dims=2), UNIT))
    np.testing.assert_allclose(found, gate_scores(x[..., :2], w, HEAD, UNIT), rtol=1e-6)


def test_a_static_gate_sees_no_input():
    w = draw(1, 3, 4)
    found = gate_scores(draw(0, 2, 5, 6), w, GateConfig(per="channel", static=True), UNIT)
    np.testing.assert_allclose(found, jax.nn.sigmoid(w)[None, None], rtol=1e-6)


def test_scores_are_float32_of_bfloat16_inputs():
    assert gate_scores(draw(0, 2, 5, 6).astype(jnp.bfloat16), draw(1, 6, 3), HEAD, UNIT).dtype == jnp.float32


def test_gates_of_heads_and_shared_ones_are_broadcast():
    y, of_heads, shared = draw(2, 2, 5, 3, 4), draw(3, 2, 5, 3), draw(4, 2, 5, 4)
    wide = [jnp.broadcast_to(scores, y.shape) for scores in (of_heads[..., None], shared[:, :, None])]
    np.testing.assert_array_equal(apply_gate(y, of_heads, "head"), apply_gate(y, wide[0], "channel"))
    np.testing.assert_array_equal(apply_gate(y, shared, "shared"), apply_gate(y, wide[1], "channel"))


def test_gating_keeps_the_type_of_what_is_gated():
    assert apply_gate(draw(4, 1, 2, 3, 4).astype(jnp.bfloat16), draw(5, 1, 2, 3), "head").dtype == jnp.bfloat16


@pytest.mark.parametrize(
    ("cfg", "shape"),
    [
        (HEAD, (8, 4)),
        (GateConfig("value", "channel"), (8, 2, 3)),
        (GateConfig("query", "shared", dims=5), (5, 3)),
        (GateConfig("projection", "channel"), (8, 8)),
        (GateConfig("key", "head", static=True), (2,)),
    ],
)
def test_weights_have_a_column_a_gate(cfg, shape):
    weights = gate_weights(cfg, 8, 4, 2, 3)
    assert isinstance(weights, Matrix)
    assert weights.shape == shape
    assert shape[-len(gates(cfg, 8, 4, 2, 3)) :] == gates(cfg, 8, 4, 2, 3)


def test_weights_may_start_at_zero():
    np.testing.assert_array_equal(gate_weights(GateConfig(per="head", zero=True), 8, 4, 2, 3), np.zeros((8, 4)))


def test_gates_that_cannot_be():
    with pytest.raises(ValueError, match="per = \"channel\", not 'head'"):
        GateConfig("projection", "head")
    with pytest.raises(ValueError, match="cannot see the first 3 channels"):
        GateConfig(dims=3, static=True)
    with pytest.raises(ValueError, match="the first 9 channels of a layer input that has 8"):
        gate_weights(GateConfig(dims=9), 8, 4, 2, 3)
