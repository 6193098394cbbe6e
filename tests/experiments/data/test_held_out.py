"""Which targets of the held-out windows count, and whose they are."""

import numpy as np
import pytest

from experiments.data.held_out import held_out_text
from experiments.errors import UserError

TOKENS = np.array([1, 2, 0, 3, 4, 5, 0, 0, 6, 7, 8, 9, 0, 1, 2, 3])
NONE, BOS = np.empty(0, np.int32), np.array([255], np.int32)


def test_windows_that_do_not_overlap_count_every_target() -> None:
    text = held_out_text(TOKENS, 4, 12, NONE, 0)
    np.testing.assert_array_equal(text.windows, TOKENS[:15].reshape(3, 5))
    assert text.counted.all()
    # EOS belongs to the document that it ends; the fourth document is empty but for its EOS.
    np.testing.assert_array_equal(text.documents, [[0, 0, 1, 1], [1, 2, 3, 3], [3, 3, 4, 4]])


def test_sliding_windows_count_every_token_once() -> None:
    text = held_out_text(TOKENS, 4, 10, NONE, 0, stride=3)
    np.testing.assert_array_equal(text.windows, [TOKENS[0:5], TOKENS[3:8], TOKENS[6:11]])
    np.testing.assert_array_equal(text.counted.sum(axis=1), [4, 3, 3])
    np.testing.assert_array_equal(text.windows[:, 1:][text.counted], TOKENS[1:11])


def test_behind_a_first_token_the_first_of_the_text_is_a_target() -> None:
    text = held_out_text(TOKENS, 4, 8, BOS, 0)
    np.testing.assert_array_equal(text.windows, [[255, *TOKENS[:4]], [255, *TOKENS[4:8]]])
    np.testing.assert_array_equal(text.documents, [[0, 0, 0, 1], [1, 1, 1, 2]])
    sliding = held_out_text(TOKENS, 4, 8, BOS, 0, stride=2)
    np.testing.assert_array_equal(sliding.windows[:, 1:][sliding.counted], TOKENS[:8])


def test_without_an_end_the_text_is_one_document() -> None:
    assert not held_out_text(TOKENS, 4, 12, NONE, None).documents.any()


def test_too_short_a_text_says_how_much_fits() -> None:
    with pytest.raises(UserError, match=r"5 held-out windows of 4 need 17 tokens, .* has 16; measure on 13 tokens or fewer"):
        held_out_text(TOKENS, 4, 16, NONE, 0, stride=3)
    assert len(held_out_text(TOKENS, 4, 13, NONE, 0, stride=3).windows) == 4
    with pytest.raises(UserError, match="3 tokens to measure on are less than one window of 4"):
        held_out_text(TOKENS, 4, 3, NONE, 0, stride=3)
