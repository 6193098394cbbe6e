"""What norms make of a text: closed forms in NumPy, and what the study says of them."""

import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.exact import Norms
from leadline.experiments.measure.exact.norms import EPSILON, batch_norm, drawn, jobs, padded
from leadline.experiments.records.measurement import Point, reading
from tests.experiments.measure.exact.jobs import points_of

pytestmark = pytest.mark.usefixtures("in_use")
EXACT = Norms(width=16, texts=6, tokens=40)
OF_TOKEN, OF_BATCH = ("LayerNorm", "RMSNorm"), ("BatchNorm", "BatchNorm of real tokens")


@pytest.fixture(scope="module")
def point() -> Point:
    return points_of(jobs(EXACT))["norms"]


def test_batch_norm_is_its_equation_over_counted_tokens() -> None:
    x, real = padded(3 * drawn(EXACT) + 1, 7)
    kept = np.asarray(x, np.float64)[np.asarray(real)]
    expected = (np.asarray(x, np.float64) - kept.mean(axis=0)) / np.sqrt(kept.var(axis=0) + EPSILON)
    np.testing.assert_allclose(batch_norm(x, real), expected, atol=1e-4)


@pytest.mark.parametrize("changed", ["other texts", "padding", "later tokens"])
def test_a_norm_of_a_token_knows_nothing_else(point: Point, changed: str) -> None:
    difference = {norm: point[reading("largest_difference", norm=norm, changed=changed)] for norm in (*OF_TOKEN, *OF_BATCH)}
    assert all(difference[norm] < 1e-6 for norm in OF_TOKEN)
    assert difference["BatchNorm"] > 0.01
    assert (difference["BatchNorm of real tokens"] > 0.01) == (changed != "padding")


@pytest.mark.parametrize("padding", [0, 1, 3])
def test_padding_magnifies_real_tokens_by_the_root_of_tokens_over_real_ones(point: Point, padding: int) -> None:
    """But for the mean of a channel, which is not quite 0."""
    deviation = {norm: point[reading("vector_deviation", norm=norm, padding=padding)] for norm in (*OF_TOKEN, *OF_BATCH)}
    assert deviation["BatchNorm"] == pytest.approx((1 + padding) ** 0.5, rel=0.01)
    assert deviation["LayerNorm"] == pytest.approx(1, rel=0.01)
    assert deviation["BatchNorm of real tokens"] == pytest.approx(1, rel=0.01)


def test_one_token_is_its_own_mean(point: Point) -> None:
    assert point[reading("largest_entry", norm="BatchNorm")] == 0
    assert point[reading("largest_entry", norm="LayerNorm")] > 0.5
    assert not jnp.any(batch_norm(jnp.full((1, 1, 4), 7.0), jnp.ones((1, 1), bool)))
