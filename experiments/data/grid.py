"""Questions about cells of a grid: which colour is k cells above, to the left, or in the frame before?

A picture is rectangles of uniform colours that hide one another, of sides from 1 to `side` along every axis: dead leaves
(Matheron 1968). Of some pairs of neighbouring cells of a row, the first becomes a question, an id for each direction and number
of cells, and the second its answer, the colour of that cell. What is asked about lies in the grid and in no such pair. Tokens
are the cells, the last axis fastest, and one id more that nothing counts, so that the inputs are a whole grid.

What answers a question is a position relative to it along one axis. In tokens, the cell above is farther off in a wider grid.
"""

import itertools
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, UInt32

from leadline.experiments.config.data import GridData
from leadline.experiments.data.sample import DrawnSource, Sample, held_out_key, step_key

DIRECTIONS = ("left", "above", "before")  # along the last axis, the one before it, and the first of three
ASKED = 0.4  # of the pairs; of a grid of 8 by 8, a tenth of the cells becomes a question


def vocabulary_size(data: GridData) -> int:
    """Colours, and a question for each direction and number of cells."""
    return data.colours + len(data.sizes) * data.reach


def rectangles(key: PRNGKeyArray, sizes: tuple[int, ...], batch: int, colours: int, side: int) -> Int[Array, "{batch} *sizes"]:
    """Pictures of rectangles: each cell of a field is the last corner of one, and the highest over a cell is seen.

    Sides and colours are uniform, heights too. The field exceeds the picture, so that nothing differs at its edges. Two cells
    at a distance are of one rectangle with probability k / (2 k_0 - k), where k is the mean number of cells that a rectangle
    shares with itself moved by that distance, and k_0 the mean number of its cells (Matheron 1968).
    """
    over, extent, paint = jax.random.split(key, 3)
    field = (batch, *(size + side - 1 for size in sizes))
    height = jax.random.uniform(over, field)
    extents = jax.random.randint(extent, (len(sizes), *field), 1, side + 1)
    colour = jax.random.randint(paint, field, 0, colours, jnp.int32)
    highest, picture = jnp.full((batch, *sizes), -1.0), jnp.zeros((batch, *sizes), jnp.int32)
    for offset in itertools.product(range(side), repeat=len(sizes)):
        corner = (slice(None), *(slice(o, o + size) for o, size in zip(offset, sizes, strict=True)))
        covers = height[corner] > highest
        for o, along in zip(offset, extents, strict=True):
            covers &= along[corner] > o
        highest, picture = jnp.where(covers, height[corner], highest), jnp.where(covers, colour[corner], picture)
    return picture


def rows(key: PRNGKeyArray, data: GridData, batch: int, sizes: tuple[int, ...] | None = None) -> Sample:
    """Rows [batch, cells + 1]. Answers have weight 1, and the cell that was asked about as evidence.

    Args:
        key: of the random numbers.
        data: the task.
        batch: B.
        sizes: of the grid; None is that of the training.
    """
    sizes = data.sizes if sizes is None else sizes
    draw, choose, direct = jax.random.split(key, 3)
    cells = rectangles(draw, sizes, batch, data.colours, data.side).reshape(batch, -1)
    place = np.indices(sizes).reshape(len(sizes), -1)[::-1]  # of every cell along each axis, in the order of DIRECTIONS
    stride = np.cumprod((1, *sizes[:0:-1]))  # tokens from a cell to the next along each axis
    first = (place[0] % 2 == 0) & (place[0] + 1 < sizes[-1])
    asked = jax.random.bernoulli(choose, ASKED, cells.shape) & first[None]
    question = jax.random.randint(direct, cells.shape, 0, len(sizes) * data.reach, jnp.int32)
    axis, steps = question // data.reach, question % data.reach + 1
    index = jnp.arange(cells.shape[1], dtype=jnp.int32)[None]
    about = jnp.maximum(index - jnp.asarray(stride, jnp.int32)[axis] * steps, 0)
    inside = jnp.asarray(place, jnp.int32)[axis, index] >= steps
    free = ~(asked | _previous(asked))
    asked &= inside & jnp.take_along_axis(free, about, axis=1)
    answer = _previous(jnp.take_along_axis(cells, about, axis=1))
    tokens = jnp.where(asked, data.colours + question, jnp.where(_previous(asked), answer, cells))
    return Sample(jnp.pad(tokens, ((0, 0), (0, 1))), asked.astype(jnp.float32), jnp.where(asked, about, -1))


def _previous(values: Array) -> Array:
    """What the token before had; 0 for the first."""
    return jnp.pad(values[:, :-1], ((0, 0), (1, 0)))


@dataclass(frozen=True)
class GridSource(DrawnSource):
    """The task as a source of training steps, and the pictures that its models are measured on."""

    data: GridData

    @property
    def vocabulary(self) -> int:
        return vocabulary_size(self.data)

    def sample(self, inputs: UInt32[Array, "2"], shared: None, batch: int) -> Sample:  # noqa: ARG002
        return rows(step_key(inputs), self.data, batch)

    def held_out(self, pictures: int, sizes: tuple[int, ...] | None = None) -> Sample:
        """Rows drawn with a key of their own, the same for every arm and seed; `sizes` are those of `rows`."""
        draw = jax.jit(rows, static_argnames=("data", "batch", "sizes"))
        return draw(held_out_key(math.prod(sizes or (0,))), self.data, pictures, sizes)
