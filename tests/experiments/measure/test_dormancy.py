"""Dormant heads, counted by hand."""

import jax
import jax.numpy as jnp
import pytest

from experiments.measure.dormancy import dormant_in_one, dormant_share

PROSE = jnp.array([[0.9, 0.1, 0.5], [0.6, 0.0, 1.0]])
CODE = jnp.array([[0.2, 0.1, 0.5], [0.7, 0.8, 0.9]])


def test_share_of_heads_above_the_threshold() -> None:
    assert dormant_share(PROSE, threshold=0.5).item() == pytest.approx(3 / 6)  # what is at the threshold is not above it
    assert dormant_share(PROSE, threshold=0.0).item() == pytest.approx(5 / 6)
    both = jax.jit(dormant_share, static_argnames="threshold")(jnp.stack([PROSE, CODE]), threshold=0.75)
    assert both.tolist() == pytest.approx([2 / 6, 2 / 6])


def test_share_of_heads_that_rest_in_one_domain_only() -> None:
    # At 0.5: prose 1 0 0 / 1 0 1, code 0 0 0 / 1 1 1.
    found = jax.jit(dormant_in_one, static_argnames="threshold")(PROSE, CODE, threshold=0.5)
    assert found.item() == pytest.approx(2 / 6)
    assert dormant_in_one(CODE, PROSE, threshold=0.5).item() == pytest.approx(2 / 6)
    assert dormant_in_one(PROSE, PROSE, threshold=0.5).item() == 0
    assert dormant_in_one(jnp.zeros((2, 3)), jnp.ones((2, 3)), threshold=0.5).item() == 1


@pytest.mark.parametrize("threshold", [-0.1, 1.0])
def test_a_threshold_that_tells_nothing(threshold: float) -> None:
    with pytest.raises(ValueError, match=f"at a threshold of {threshold}"):
        dormant_share(PROSE, threshold=threshold)
    with pytest.raises(ValueError, match=f"at a threshold of {threshold}"):
        dormant_in_one(PROSE, CODE, threshold=threshold)
