"""How vocabularies are used, by hand."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.measure.vocabulary import bits_per_byte, rare_shares, token_sizes, unknown_share
from leadline.tokenization.byte import ByteTokenizer


def test_sizes_of_bytes_specials_and_ids_beyond() -> None:
    sizes = token_sizes(ByteTokenizer(), 300)
    assert sizes[:256].tolist() == [1] * 256
    assert sizes[256:].tolist() == [0] * 44


def test_two_tokens_of_three_bytes_at_one_bit_each() -> None:
    found = bits_per_byte(jnp.full((1, 2), math.log(2)), jnp.array([[1.0, 2.0]]))
    assert float(found) == pytest.approx(2 / 3)


def test_an_end_of_text_costs_bits_and_has_no_byte() -> None:
    assert float(bits_per_byte(jnp.array([[math.log(2), math.log(2)]]), jnp.array([[1.0, 0.0]]))) == pytest.approx(2)


def test_rare_ids_and_tokens() -> None:
    """Id 0 is seen ten times, id 1 nine times, id 2 never."""
    assert rare_shares(np.array([10, 9, 0]), np.array([3, 1, 0])) == (pytest.approx(2 / 3), 0.25)


def test_unknown_words() -> None:
    assert unknown_share(np.array([1, 5, 1, 6], np.int32), 1) == 0.5
    assert unknown_share(np.array([1, 5, 1, 6], np.int32), None) == 0
