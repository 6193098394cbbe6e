"""ReLU attention with its three divisors."""

import numpy as np
import pytest

from model.kernels.rectified import rectified_terms
from tests.model.kernels.rows import scores, unseen, weights


@pytest.mark.parametrize(
    ("divisor", "divided_by"),
    [("one", lambda _: 1.0), ("keys", lambda _: 9.0), ("sum", lambda kept: kept.sum(-1)[..., None])],
)
def test_divisors(divisor, divided_by):
    kept = np.maximum(np.asarray(scores(), np.float64), 0)
    np.testing.assert_allclose(weights(rectified_terms(scores(), divisor)), kept / divided_by(kept), rtol=1e-6)


@pytest.mark.parametrize("divisor", ["one", "keys", "sum"])
def test_a_query_may_attend_to_nothing(divisor):
    for x in (unseen(), -abs(scores())):
        found = rectified_terms(x, divisor)
        np.testing.assert_array_equal(weights(found), 0)
        np.testing.assert_array_equal(found.mass, 1)


def test_mass_is_what_statistics_are_shares_of():
    found = rectified_terms(scores(), "one")
    np.testing.assert_allclose(found.mass, np.maximum(np.asarray(scores()), 0).sum(axis=-1), rtol=1e-6)
