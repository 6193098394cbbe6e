"""Weights of gates, and gates that cannot be. What gates compute: tests/model/test_block.py."""

import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.attention.gate import GateConfig, apply_gate, gate_scores, gate_weights, gates
from leadline.model.linear import Matrix
from tests.model.naive import numbers

pytestmark = pytest.mark.usefixtures("mesh")
HEAD = GateConfig(per="head")


def test_scores_are_float32_and_gating_keeps_the_type_of_what_is_gated():
    x, scores = numbers(0, 2, 5, 6).astype(jnp.bfloat16), numbers(1, 2, 5, 3)
    assert gate_scores(x, numbers(2, 6, 3), HEAD, jnp.asarray([0.0, 1.0])).dtype == jnp.float32
    assert apply_gate(numbers(3, 2, 5, 3, 4).astype(jnp.bfloat16), scores, "head").dtype == jnp.bfloat16


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
