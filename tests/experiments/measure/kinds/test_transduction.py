"""Accuracy against greedy search, and masses of cross-attention by hand."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.data import PADDING
from leadline.experiments.data.transduction import BEGIN, END
from leadline.experiments.measure.evaluate import in_batches
from leadline.experiments.measure.kinds.retrieval import hits, right_answers
from leadline.experiments.measure.kinds.transduction import cross_statistics, without_end
from leadline.experiments.records.measurement import reading
from leadline.model.attention.attention import AttentionStatistics
from leadline.model.block import LayerTrace
from leadline.model.encoder_decoder import EncoderDecoderConfig
from leadline.model.mesh import make_mesh
from leadline.model.transduce import Search, beam_search
from tests.experiments.measure.kinds.toys import arm, models_of, source_of

pytestmark = pytest.mark.usefixtures("in_use")


def test_an_answer_is_right_if_greedy_search_gives_it(folder: Path) -> None:
    """Every other row of an untrained model has for its answer what greedy search gives."""
    source = source_of("transduction", folder)
    models = models_of([arm("any", "transduction")], source, (1,))
    assert isinstance(models.model, EncoderDecoderConfig)
    half, tokens = source.data.half(source.data.size), np.array(source.held_out(16).tokens)
    with jax.set_mesh(make_mesh()):
        params, ids = jax.tree.map(jnp.asarray, models.params[0]), jnp.asarray(tokens[:, :half])
        answers = np.asarray(
            beam_search(params, ids, models.tables(2 * half)[0], models.model, Search(BEGIN, END, half), width=1).tokens[:, 0]
        )
    tokens[::2, half + 1 :] = answers[::2]
    weights = (tokens[:, 1:] != PADDING) & (np.arange(2 * half) >= half)
    (hit,) = models.evaluated("rows", in_batches(tokens), hits)
    right = np.asarray(right_answers(hit, weights.astype(np.float32)))
    np.testing.assert_array_equal(right, ((answers == tokens[:, half + 1 :]) | ~weights[:, half:]).all(axis=1))
    assert right[::2].all()
    assert not right.all()


def test_masses_are_means_over_all_real_queries() -> None:
    received = np.arange(24, dtype=np.float32).reshape(2, 3, 4)  # of two rows, three heads and four tokens of a source
    source = [[BEGIN, 5, END, 0], [BEGIN, 5, 6, END]]
    target = [[BEGIN, 5, END, 0], [BEGIN, 5, 0, 0]]
    nothing = jnp.zeros((1, 1))
    statistics = AttentionStatistics(first=nothing, sink=nothing, entropy=nothing, received=jnp.asarray(received))
    trace = LayerTrace(nothing, None, None, nothing, nothing, None, nothing, nothing, cross=statistics)  # pyright: ignore[reportArgumentType]
    point = cross_statistics(trace, jnp.asarray(np.concatenate([source, target], axis=1)))
    np.testing.assert_allclose(point[reading("cross_bos_mass")], (received[0, :, 0] + received[1, :, 0]) / 5)
    np.testing.assert_allclose(point[reading("cross_eos_mass")], (received[0, :, 2] + received[1, :, 3]) / 5)
    np.testing.assert_allclose(point[reading("cross_even_mass")], (3 / 3 + 2 / 4) / 5)


def test_the_end_of_a_target_becomes_padding_and_that_of_a_source_stays() -> None:
    rows = jnp.asarray([[[BEGIN, 5, END, 0, BEGIN, 7, END, 0, 0], [BEGIN, 5, 6, END, BEGIN, 7, 8, END, 0]]])
    expected = [[[BEGIN, 5, END, 0, BEGIN, 7, 0, 0, 0], [BEGIN, 5, 6, END, BEGIN, 7, 8, 0, 0]]]
    np.testing.assert_array_equal(without_end(rows), expected)
