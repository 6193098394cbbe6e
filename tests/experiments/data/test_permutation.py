"""The keyed permutation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.experiments.data.permutation import keyed, permute


def _key(seed: int, epoch: int = 0) -> np.ndarray:
    return keyed(seed, np.array([epoch]))


@given(n=st.integers(1, 3000), seed=st.integers(-(2**70), 2**70), epoch=st.integers(0, 2**40))
@settings(max_examples=50)
def test_it_is_a_bijection(n: int, seed: int, epoch: int) -> None:
    image = permute(np.arange(n), n, _key(seed, epoch))
    np.testing.assert_array_equal(np.sort(image), np.arange(n))


def test_large_ranges() -> None:
    n = 2**45 + 12345
    image = permute(np.arange(n - 1000, n), n, _key(3))
    assert len(np.unique(image)) == 1000
    assert 0 <= image.min() < image.max() - n // 2 < image.max() < n


@pytest.mark.parametrize("n", [2, 3, 7, 10, 64])
def test_every_place_is_about_equally_likely(n: int) -> None:
    """Within five standard deviations of a binomial count."""
    for item in {0, n - 1}:
        counts = np.bincount(permute(np.full(4000, item), n, keyed(1, np.arange(4000))), minlength=n)
        assert np.abs(counts - 4000 / n).max() < 5 * np.sqrt(4000 / n)


def test_the_order_is_the_same_on_every_machine() -> None:
    """Recorded runs can be repeated only while this order stays."""
    assert permute(np.arange(10), 10, _key(0)).tolist() == [9, 1, 5, 6, 4, 7, 8, 3, 0, 2]
