"""Accuracy against greedy search, and masses of cross-attention by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.to_tables import tables
from leadline.experiments.data.transduction import BEGIN, END
from leadline.experiments.measure.kinds.transduction import cross_statistics, transduction
from leadline.experiments.records.measurement import reading
from leadline.model.attention.attention import AttentionStatistics
from leadline.model.block import LayerTrace
from leadline.model.encoder_decoder import EncoderDecoderConfig
from leadline.model.mesh import make_mesh
from leadline.model.transduce import Search, greedy
from tests.experiments.measure.kinds.toys import MEASURES, TRANSFORMER, arm, models_of, source_of

pytestmark = pytest.mark.usefixtures("in_use")


def test_an_answer_is_right_if_greedy_search_gives_it(folder) -> None:
    """Of an untrained model of two symbols, which is right by chance."""
    source = source_of("transduction", folder, symbols=2)
    models = models_of([arm("any", "transduction", data=source.data)], source, (1,))
    settings = MEASURES["transduction"].transduction
    assert settings is not None
    settings = settings.model_copy(update={"sizes": (1, 2), "rows": 64})
    (point,) = transduction(models, settings)
    assert isinstance(models.model, EncoderDecoderConfig)
    half = source.data.half(source.data.size)
    shares = []
    for size in settings.sizes:
        tokens = source.held_out(settings.rows, size).tokens
        with jax.set_mesh(make_mesh()):
            params = jax.tree.map(jnp.asarray, models.params[0])
            rows = tables(TRANSFORMER, source.data.length)
            found = greedy(params, jnp.asarray(np.asarray(tokens[:, :half])), rows, models.model, Search(BEGIN, END, half))
        shares.append(np.mean((np.asarray(found)[:, : half - 1] == np.asarray(tokens)[:, half + 1 : 2 * half]).all(axis=1)))
        assert point[reading("accuracy", size=size)] == shares[-1]
    assert max(shares) > 0


def test_masses_are_means_over_all_real_queries() -> None:
    received = np.arange(24, dtype=np.float32).reshape(2, 3, 4)  # of two rows, three heads and four tokens of a source
    source = [[BEGIN, 5, END, 0], [BEGIN, 5, 6, END]]
    target = [[BEGIN, 5, END, 0], [BEGIN, 5, 0, 0]]
    nothing = jnp.zeros((1, 1))
    statistics = AttentionStatistics(first=nothing, sink=nothing, entropy=nothing, received=jnp.asarray(received))
    trace = LayerTrace(nothing, None, None, nothing, nothing, None, nothing, cross=statistics)  # pyright: ignore[reportArgumentType]
    point = cross_statistics(trace, jnp.asarray(np.concatenate([source, target], axis=1)))
    np.testing.assert_allclose(point[reading("cross_bos_mass")], (received[0, :, 0] + received[1, :, 0]) / 5)
    np.testing.assert_allclose(point[reading("cross_eos_mass")], (received[0, :, 2] + received[1, :, 3]) / 5)
    np.testing.assert_allclose(point[reading("cross_even_mass")], (3 / 3 + 2 / 4) / 5)
