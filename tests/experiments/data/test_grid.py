"""Questions about a grid against a reader in plain Python, and its rectangles against the closed form of dead leaves."""

import itertools
import math

import jax
import numpy as np
import pytest

from leadline.experiments.config.data import GridData
from leadline.experiments.data.grid import DIRECTIONS, GridSource, rectangles, rows

pytestmark = pytest.mark.usefixtures("in_use")
draw = jax.jit(rows, static_argnames=("data", "batch", "sizes"))
paint = jax.jit(rectangles, static_argnums=(1, 2, 3, 4))


def asked_about(data: GridData, cell: tuple[int, ...], question: int) -> tuple[int, ...]:
    """The cell that the question of this number, standing at a cell, asks about: directions, and within them cells."""
    direction, steps = list(itertools.product(DIRECTIONS, range(1, data.reach + 1)))[question]
    axis = len(cell) - 1 - DIRECTIONS.index(direction)
    return tuple(place - steps * (number == axis) for number, place in enumerate(cell))


@pytest.mark.parametrize("larger", [False, True])
@pytest.mark.parametrize("data", [GridData(sizes=(4, 6), colours=5), GridData(sizes=(3, 2, 5), colours=3, side=2, reach=1)])
def test_an_answer_is_the_colour_of_the_cell_that_is_asked_about(data: GridData, larger: bool) -> None:
    sizes = tuple(2 * size - 1 for size in data.sizes) if larger else data.sizes
    sample = jax.device_get(draw(jax.random.key(3), data, 200, sizes if larger else None))
    cells, questions = math.prod(sizes), set[int]()
    assert sample.tokens.shape == (200, cells + 1)
    for row, weights, evidence in zip(sample.tokens, sample.weights, sample.evidence, strict=True):
        picture = row[:cells].reshape(sizes)
        asked = np.argwhere(picture >= data.colours)
        marked = np.zeros(sizes, bool)
        for cell in asked:
            marked[tuple(cell)] = marked[(*cell[:-1], cell[-1] + 1)] = True
        expected = np.full(cells, -1)
        for cell in map(tuple, asked.tolist()):
            question = int(picture[cell]) - data.colours
            about = asked_about(data, cell, question)
            assert min(about) >= 0
            assert not marked[about]
            assert picture[(*cell[:-1], cell[-1] + 1)] == picture[about]
            expected[np.ravel_multi_index(cell, sizes)] = np.ravel_multi_index(about, sizes)
            questions.add(question)
        np.testing.assert_array_equal(evidence, expected)
        np.testing.assert_array_equal(weights, (expected >= 0).astype(np.float32))
    assert questions == set(range(len(sizes) * data.reach))


@pytest.mark.parametrize("sizes", [(20, 24), (8, 9, 10)])
@pytest.mark.parametrize("side", [1, 3])
def test_cells_are_of_one_rectangle_as_often_as_those_of_dead_leaves(sizes: tuple[int, ...], side: int) -> None:
    """The chance k / (2 k_0 - k) of Matheron (1968), k being the mean overlap of a rectangle with itself moved."""
    pictures = np.asarray(paint(jax.random.key(1), sizes, 300, 10**6, side))
    extents = np.arange(1, side + 1)
    for distance in itertools.product(range(3), repeat=len(sizes)):
        overlap = math.prod(float(np.maximum(extents - d, 0).mean()) for d in distance)
        chance = overlap / (2 * extents.mean() ** len(sizes) - overlap)
        here = pictures[(slice(None), *(slice(None, size - d) for size, d in zip(sizes, distance, strict=True)))]
        there = pictures[(slice(None), *(slice(d, None) for d in distance))]
        np.testing.assert_allclose(np.mean(here == there), chance, atol=0.01)


def test_colours_are_uniform_up_to_the_edges() -> None:
    pictures = np.asarray(paint(jax.random.key(2), (6, 7), 4000, 4, 3))
    for colour in range(4):
        np.testing.assert_allclose(np.mean(pictures == colour, axis=0), 0.25, atol=0.04)


def test_what_is_held_out_depends_on_the_size_alone() -> None:
    source = GridSource(GridData(sizes=(4, 6)))
    wide = source.held_out(8, (4, 12)).tokens
    np.testing.assert_array_equal(wide, source.held_out(8, (4, 12)).tokens)
    assert wide.shape == (8, 49)
    assert not np.array_equal(wide[:, :25], source.held_out(8).tokens)
