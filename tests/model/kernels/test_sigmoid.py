"""Sigmoid attention, as it is and normalised."""

import jax.numpy as jnp
import numpy as np

from model.kernels.sigmoid import sigmoid_terms
from tests.model.kernels.rows import scores, unseen, weights


def test_every_key_by_itself():
    x = np.asarray(scores(), np.float64)
    np.testing.assert_allclose(
        weights(sigmoid_terms(scores(), jnp.float32(-3.0), normalised=False)), 1 / (1 + np.exp(3 - x)), rtol=2e-6
    )


def test_a_bias_of_minus_the_log_of_the_length_starts_near_one():
    found = sigmoid_terms(jnp.zeros((1, 64)), jnp.float32(-np.log(64)), normalised=False)
    np.testing.assert_allclose(weights(found).sum(), 1 / (1 + 1 / 64), rtol=1e-6)


def test_normalised_rows_sum_to_one():
    found = sigmoid_terms(scores(), jnp.float32(-3.0), normalised=True)
    np.testing.assert_allclose(weights(found).sum(axis=-1), 1, rtol=1e-6)


def test_without_a_visible_key_there_is_no_weight():
    for normalised in (True, False):
        np.testing.assert_array_equal(weights(sigmoid_terms(unseen(), jnp.float32(0), normalised=normalised)), 0)
