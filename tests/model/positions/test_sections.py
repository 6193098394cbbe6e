"""Tables of several coordinates: which pair listens to which, and the raster."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.model.context import grid_positions
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.sections import axial, interleaved_sections, sectioned

TABLE = inverse_frequencies(128, 1e6)
SECTIONS = st.lists(st.integers(0, 40), min_size=1, max_size=4).filter(any)


def owners(tables):
    """The coordinate of every pair; an error unless there is exactly one."""
    assert ((tables != 0).sum(axis=0) == 1).all()
    return np.argmax(tables != 0, axis=0)


@pytest.mark.parametrize(("size", "coordinates"), [(64, 2), (48, 3), (64, 1)])
def test_axial_gives_every_coordinate_a_whole_spectrum(size, coordinates):
    tables = axial(size, 100.0, coordinates)
    pairs = size // 2 // coordinates
    np.testing.assert_array_equal(owners(tables), np.repeat(np.arange(coordinates), pairs))
    for c in range(coordinates):
        expected = [100.0 ** (-2 * j * coordinates / size) for j in range(pairs)]
        np.testing.assert_allclose(tables[c, c * pairs : (c + 1) * pairs], expected, rtol=1e-12)


@pytest.mark.parametrize("cut", [sectioned, interleaved_sections])
@settings(max_examples=50)
@given(SECTIONS)
def test_every_pair_keeps_its_frequency_for_one_coordinate(cut, sections):
    """Sections are consecutive, or alternate: 24, 20 and 20 of Qwen3-VL are twenty times THW, and four times T."""
    table, count = inverse_frequencies(2 * sum(sections), 1e4), len(sections)
    available = [len(table[c::count]) for c in range(count)]
    if cut is interleaved_sections and any(sections[c] > available[c] for c in range(1, count)):
        with pytest.raises(ValueError, match="is too large"):
            cut(table, sections)
        return
    tables = cut(table, sections)
    assert tables.shape == (count, len(table))
    np.testing.assert_array_equal(tables.sum(axis=0), table)
    expected = np.repeat(np.arange(count), sections)
    if cut is interleaved_sections:
        expected = np.array([i % count if i % count and i // count < sections[i % count] else 0 for i in range(len(table))])
    np.testing.assert_array_equal(owners(tables), expected)


@pytest.mark.parametrize(
    ("tokens", "shape", "expected"),
    [
        (3, (), [[0], [1], [2]]),
        (5, (2,), [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0]]),
        (4, (1, 3), [[0, 0, 0], [0, 0, 1], [0, 0, 2], [1, 0, 0]]),
        (0, (3,), np.zeros((0, 2))),
    ],
)
def test_grid_positions(tokens, shape, expected):
    positions = grid_positions(jnp.arange(tokens), shape)
    assert positions.dtype == np.int32
    np.testing.assert_array_equal(positions, expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: axial(64, 100.0, 3), "head dimension 64 must be 60 or 66"),
        (lambda: axial(2, 100.0, 2), "head dimension 2 must be 4"),
        (lambda: axial(64, 100.0, 0), "at least one coordinate, not 0"),
        (lambda: axial(64, 0.0, 2), "base 0.0 must be positive"),
        (lambda: sectioned(TABLE, [16, 24, 25]), "add up to 65 pairs, the table has 64"),
        (lambda: sectioned(TABLE, []), "one a coordinate"),
        (lambda: sectioned(TABLE, [65, -1]), "none negative"),
        (lambda: interleaved_sections(TABLE, [16, 24, 25]), "add up to 65 pairs, the table has 64"),
        (
            lambda: interleaved_sections(TABLE, [16, 24, 24]),
            "1 of 24 pairs is too large: one in 3 of 64 pairs makes 21",
        ),
        (lambda: grid_positions(jnp.arange(4), (2, 0)), r"got \[2, 0\]"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
