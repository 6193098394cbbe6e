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


def test_keys_of_items_act_one_by_one() -> None:
    index, epochs = np.arange(100), np.arange(100) % 3
    together = permute(index, 100, keyed(7, epochs))
    apart = np.stack([permute(index, 100, _key(7, epoch)) for epoch in range(3)])
    np.testing.assert_array_equal(together, apart[epochs, index])


@pytest.mark.parametrize("n", [2, 3, 7, 10, 64])
def test_every_place_is_about_equally_likely(n: int) -> None:
    """Within five standard deviations of a binomial count."""
    for item in {0, n - 1}:
        counts = np.bincount(permute(np.full(4000, item), n, keyed(1, np.arange(4000))), minlength=n)
        assert np.abs(counts - 4000 / n).max() < 5 * np.sqrt(4000 / n)


def test_keys_differ_and_neighbours_part() -> None:
    keys = np.concatenate([keyed(seed, np.arange(200)) for seed in range(200)])
    assert len(np.unique(keys)) == 200 * 200
    image = permute(np.arange(10_000), 10_000, _key(0))
    # Two independent uniform places are n / 3 apart on average.
    assert abs(np.abs(np.diff(image)).mean() / (10_000 / 3) - 1) < 0.03


def test_the_order_is_the_same_on_every_machine() -> None:
    """Recorded runs can be repeated only while this order stays."""
    assert permute(np.arange(10), 10, _key(0)).tolist() == [9, 1, 5, 6, 4, 7, 8, 3, 0, 2]


@pytest.mark.parametrize(("index", "n"), [([0], 0), ([5], 5), ([-1], 5)])
def test_what_lies_outside_is_refused(index: list[int], n: int) -> None:
    with pytest.raises(ValueError, match=r"at least one item|not all in range\(5\)"):
        permute(np.array(index), n, _key(0))
