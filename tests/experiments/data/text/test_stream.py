"""Which tokens of a stream are read again: each once, of every part of it, in windows of the stream."""

import numpy as np
import pytest

from leadline.experiments.data.text.stream import mean_by_place, mean_of_stream, recomputed_windows

TOKENS, LENGTH = 1000, 32
TEXT = np.arange(TOKENS + 1, dtype=np.int32)
EDGES = np.array([0, *(2 ** np.arange(2, 10)), TOKENS])  # of octaves


@pytest.mark.parametrize("stride", [1, 7, 16])
def test_windows_are_of_the_stream_and_count_no_token_twice(stride: int) -> None:
    found = recomputed_windows(TEXT, EDGES, LENGTH, stride, 48, keep_first=False)
    np.testing.assert_array_equal(found.windows[:, :-1], found.places)
    np.testing.assert_array_equal(found.windows[:, 1:], found.places + 1)
    counted = found.places[found.counted]
    assert len(np.unique(counted)) == len(counted)
    np.testing.assert_array_equal(np.sort(counted)[:LENGTH], np.arange(LENGTH))
    by_bin = np.histogram(counted, EDGES)[0]
    later = EDGES[:-1] >= LENGTH
    assert by_bin[later].max() <= 48 + stride  # a segment may reach into the next bin
    assert by_bin[later].min() > 0


def test_a_sample_that_may_be_all_is_all() -> None:
    found = recomputed_windows(TEXT, EDGES, LENGTH, 8, TOKENS, keep_first=False)
    np.testing.assert_array_equal(np.sort(found.places[found.counted]), np.arange(TOKENS))


def test_a_token_that_every_text_begins_with_begins_every_window() -> None:
    text = TEXT.copy()
    text[0] = -1
    found = recomputed_windows(text, EDGES, LENGTH, 8, 48, keep_first=True)
    assert (found.windows[:, 0] == -1).all()
    np.testing.assert_array_equal(found.windows[1:, 1:-1], found.places[1:, 1:])


def test_a_sample_counts_by_the_size_of_its_bin() -> None:
    edges, places = np.array([0, 10, 100, 1000]), np.array([3, 4, 50, 7])
    means = mean_by_place(np.array([1.0, 2.0, 5.0, 3.0], np.float32), places, edges)
    np.testing.assert_array_equal(means, [2.0, 5.0, np.nan])
    assert mean_of_stream(edges, means) == pytest.approx((10 * 2.0 + 90 * 5.0) / 100)
