"""Accuracy on larger grids against positions that are given by hand."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from leadline.experiments.config.measure import GridMeasure
from leadline.experiments.data.grid import DIRECTIONS
from leadline.experiments.measure.kinds.grid import grid
from leadline.experiments.records.measurement import reading
from leadline.model.context import Context
from leadline.model.decoder import apply_decoder
from leadline.model.mesh import make_mesh
from tests.experiments.measure.kinds.toys import arm, models_of, source_of

pytestmark = pytest.mark.usefixtures("in_use")
ROWS = 40


def test_tokens_of_a_larger_grid_have_the_positions_of_their_cells(folder: Path) -> None:
    source = source_of("grid", folder)
    models = models_of([arm("any", "grid")], source, (1,))
    (point,) = grid(models, GridMeasure(factors=((1, 1), (2, 3)), rows=ROWS))
    sizes = (2 * source.data.sizes[0], 3 * source.data.sizes[1])
    sample = jax.device_get(source.held_out(ROWS, sizes))
    cells = jnp.asarray(np.stack([axis.ravel() for axis in np.indices(sizes)], axis=1), jnp.int32)
    context = Context(positions=Partial(lambda table, i: table[i], cells))
    with jax.set_mesh(make_mesh()):
        params, row = jax.tree.map(jnp.asarray, models.params[0]), models.tables(len(cells))[0]
        run = jax.jit(lambda ids: apply_decoder(params, ids, row, models.model, context=context)[0])
        hit = np.argmax(np.asarray(run(jnp.asarray(sample.tokens[:, :-1]))), axis=-1) == sample.tokens[:, 1:]
    asked = sample.weights > 0
    assert point[reading("answers", wider=3, taller=2)] == asked.sum() > 100
    assert point[reading("accuracy", wider=3, taller=2)] == pytest.approx(hit[asked].mean())
    for number, direction in enumerate(DIRECTIONS[:2]):
        of_direction = sample.tokens[:, :-1] == source.data.colours + number  # one cell off
        dims = {"wider": 3, "taller": 2, "direction": direction}
        assert point[reading("accuracy", **dims)] == pytest.approx(hit[of_direction].mean())
        assert point[reading("answers", **dims)] == of_direction.sum() > 0
    assert reading("accuracy", wider=1, taller=1) in point
