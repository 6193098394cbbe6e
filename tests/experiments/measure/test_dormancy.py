"""Dormant heads, counted by hand."""

import jax.numpy as jnp
import pytest

from leadline.experiments.measure.dormancy import active_dormant_share, dormant_share

PROSE = jnp.array([[0.9, 0.1, 0.5], [0.6, 0.0, 1.0]])
CODE = jnp.array([[0.2, 0.1, 0.5], [0.7, 0.8, 0.9]])


def test_share_of_heads_above_the_threshold() -> None:
    assert dormant_share(PROSE, threshold=0.5).item() == pytest.approx(3 / 6)  # what is at the threshold is not above it
    assert dormant_share(PROSE, threshold=0.0).item() == pytest.approx(5 / 6)


def test_share_of_heads_that_rest_in_one_domain_only() -> None:
    # At 0.5: prose 1 0 0 / 1 0 1, code 0 0 0 / 1 1 1.
    assert active_dormant_share(PROSE, CODE, threshold=0.5).item() == pytest.approx(2 / 6)
    assert active_dormant_share(CODE, PROSE, threshold=0.5).item() == pytest.approx(2 / 6)
    assert active_dormant_share(PROSE, PROSE, threshold=0.5).item() == 0
