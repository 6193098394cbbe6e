"""Perplexity by length and extension, against one window at a time; what is compiled; what is extended."""

import math
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.measure import Measure
from leadline.experiments.config.position import Alibi, Rope
from leadline.experiments.config.study import Start
from leadline.experiments.config.to_model import extended
from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.kinds.perplexity import by_structure
from leadline.experiments.measure.kinds.registry import check_data
from leadline.experiments.measure.perplexity import position_edges
from leadline.experiments.records.measurement import reading
from leadline.experiments.runtime.errors import UserError
from leadline.model.decoder import apply_decoder
from leadline.model.embedding import token_losses
from leadline.model.mesh import make_mesh
from tests.experiments.measure.kinds.conftest import Measured
from tests.experiments.measure.kinds.toys import LENGTH, MEASURES, ROPE, arm, models_of, on_device, source_of

pytestmark = pytest.mark.usefixtures("in_use")


def test_perplexities_are_those_of_single_windows(measured: Callable[[str], Measured]) -> None:
    models, (point, nope, _) = measured("text")
    text, longer = models.source.held_out(32, 8, 8), extended(ROPE, "pi", 2.0)
    assert longer is not None
    params = on_device(models.params[0])
    for model, dims in ((ROPE, {"length": 32}), (longer, {"length": 32, "extension": "pi"})):
        with jax.set_mesh(make_mesh()):
            run = jax.jit(lambda window, row: apply_decoder(params, window[None], row, models.model)[0])
            row = tables(model, LENGTH, 32)
            scores = [run(jnp.asarray(window[:-1]), row) for window in text.windows]
            rows = [token_losses(s, jnp.asarray(w[None, 1:]))[0] for s, w in zip(scores, text.windows, strict=True)]
        losses = np.array(rows, np.float64)
        assert point[reading("perplexity", **dims)] == pytest.approx(math.exp(losses[:, -8:].mean()), rel=1e-4)
        last = point[reading("perplexity", protocol="last", last=12, **dims)]
        assert last == pytest.approx(math.exp(losses[:, -8:].mean()), rel=1e-4)  # of the last 12 the stride counts 8
        by_position = [part.mean() for part in np.split(losses.mean(axis=0), position_edges(32)[1:-1])]
        np.testing.assert_allclose(point[reading("loss_by_position", **dims)], by_position, rtol=1e-4)
    assert point[reading("windows", length=32, of="perplexity")] == 8
    assert reading("perplexity", length=LENGTH, extension="pi") not in point  # nothing to extend at the training length
    assert reading("perplexity", length=32, extension="pi") not in nope
    assert point[reading("sink_rate", length=32)].shape == (2, 2)


def test_models_whose_tables_are_values_share_a_structure(folder: Path) -> None:
    extensions = ("pi", "yarn", "dynamic_ntk_token")
    positions = [Rope(base=100.0), Rope(base=50.0), Alibi()]
    arms = [arm("any", "text", ROPE.model_copy(update={"position": p})) for p in positions]
    with jax.set_mesh(make_mesh()):
        models = models_of(arms, source_of("text", folder), (0, 0, 0))
    (same,) = by_structure(models, LENGTH, extensions).values()
    assert [job[:2] for job in same] == [(0, None), (1, None), (2, None)]
    whole, by_token = by_structure(models, 32, extensions).values()  # a table a token is a structure of its own
    # A model without an extension, as ALiBi, has no such job.
    assert [job[:2] for job in whole] == [(0, None), (0, "pi"), (0, "yarn"), (1, None), (1, "pi"), (1, "yarn"), (2, None)]
    assert [job[:2] for job in by_token] == [(0, "dynamic_ntk_token"), (1, "dynamic_ntk_token")]


def test_a_tuned_model_is_extended_from_its_first_length(folder: Path) -> None:
    plain = arm("plain", "text")
    tuned = arm("tuned", "text", data=plain.data.model_copy(update={"length": 32}))
    tuned = tuned.model_copy(update={"start": Start(arm="plain", length=LENGTH, steps=1)})
    with jax.set_mesh(make_mesh()):
        models = models_of([plain, tuned], source_of("text", folder), (0, 0))
    (jobs,) = by_structure(models, 64, ("pi",)).values()
    of_plain, of_tuned = (model for _, extension, model in jobs if extension is not None)
    assert of_plain == of_tuned == extended(ROPE, "pi", 4.0)


@pytest.mark.parametrize("table", ["perplexity", "streaming"])
def test_too_little_held_out_text_is_said_before_training(folder: Path, table: str) -> None:
    changes = {"perplexity": {"lengths": (99_999,)}, "streaming": {"tokens": 99_999}}[table]
    longer = dict(MEASURES["text"])[table].model_copy(update=changes)
    with pytest.raises(UserError, match="held-out text"):
        check_data(source_of("text", folder), arm("rope", "text", measure=Measure(**{table: longer})))
