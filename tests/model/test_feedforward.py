"""Feed-forward layers against their equations in float64."""

import math
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.feedforward import Activation, feedforward, feedforward_weights
from leadline.model.linear import draw

pytestmark = pytest.mark.usefixtures("mesh")


def functions(up: np.ndarray, gate: np.ndarray | None) -> dict[str, np.ndarray]:
    erf = np.vectorize(math.erf)
    gated = {} if gate is None else {"swiglu": gate / (1 + np.exp(-gate)) * up}
    return {"relu": np.maximum(up, 0), "gelu": up * (1 + erf(up / math.sqrt(2))) / 2} | gated


@pytest.mark.parametrize("activation", get_args(Activation))
def test_equals_its_equation(activation):
    p = draw(jax.random.key(0), feedforward_weights(6, 10, activation, 1.0))
    x = 3 * jax.random.normal(jax.random.key(1), (2, 5, 6))
    exact = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), [p.up, p.gate, p.down])
    up, gate, down = exact
    wide = np.asarray(x, np.float64) @ up
    hidden = functions(wide, None if gate is None else np.asarray(x, np.float64) @ gate)[activation]
    np.testing.assert_allclose(feedforward(p, x, activation), hidden @ down, atol=1e-5)


@pytest.mark.parametrize("activation", get_args(Activation))
def test_only_the_gated_kind_has_a_gate_matrix(activation):
    p = draw(jax.random.key(0), feedforward_weights(6, 10, activation, 0.25))
    assert (p.gate is not None) == (activation == "swiglu")
    assert jnp.abs(p.down).max() <= 3 * 0.25 / math.sqrt(10)


def test_swiglu_without_its_gate_matrix_is_an_error():
    with pytest.raises(ValueError, match="swiglu needs a gate matrix"):
        feedforward(draw(jax.random.key(0), feedforward_weights(4, 8, "relu", 1.0)), jnp.zeros((1, 2, 4)), "swiglu")
