"""A stream through every policy of the cache, against the same read in one piece."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.kinds.streaming import Policy, stream_losses
from leadline.experiments.records.measurement import reading
from leadline.model.decoder import apply_decoder
from leadline.model.embedding import token_losses
from leadline.model.mesh import make_mesh
from tests.experiments.measure.kinds.conftest import Measured
from tests.experiments.measure.kinds.toys import LENGTH, MEASURES, ROPE, on_device

pytestmark = pytest.mark.usefixtures("in_use")


def test_perplexities_are_those_of_a_stream_in_one_piece(measured: Callable[[str], Measured]) -> None:
    models, (point, *_) = measured("text")
    settings, row, params = MEASURES["text"].streaming, tables(ROPE, LENGTH), on_device(models.params[0])
    assert settings is not None
    text, documents = models.source.stream(settings.tokens)
    edges, start = point[reading("position_edges", span="stream")], settings.full_attention
    assert point[reading("documents", span="stream")] == documents
    with jax.set_mesh(make_mesh()):

        @jax.jit
        def whole(ids: jax.Array) -> jax.Array:
            return token_losses(apply_decoder(params, ids[None, :-1], row, models.model)[0], ids[None, 1:])[0]

        run = jax.jit(lambda policy, chunks: stream_losses(params, row, policy, chunks, models.model, 2))
        full = np.asarray(whole(jnp.asarray(text[: start + 1])), np.float64)
        for kept, positions in ((0, "cache"), (2, "cache"), (2, "text")):
            policy = Policy(jnp.int32(kept), jnp.int32(LENGTH - kept), jnp.bool_(positions == "cache"))
            chunks = tuple(jnp.asarray(half[None]) for half in (text[:-1], text[1:]))
            losses = np.asarray(run(policy, chunks), np.float64).reshape(-1)
            dims = {"policy": "streaming", "initial_tokens": kept, "positions": positions}
            assert point[reading("perplexity", span="stream", **dims)] == pytest.approx(math.exp(losses.mean()), rel=1e-4)
            of_start = point[reading("perplexity", span="start", **dims)]
            assert of_start == pytest.approx(math.exp(losses[:start].mean()), rel=1e-4)
            by_place = [part.mean() for part in np.split(losses, edges[1:-1])]
            np.testing.assert_allclose(point[reading("loss_by_position", span="stream", **dims)], by_place, rtol=1e-4)
    of_full = point[reading("perplexity", policy="full", span="start")]
    assert of_full == pytest.approx(math.exp(full.mean()), rel=1e-4)


def test_positions_of_the_cache_and_of_the_text_differ_where_there_are_positions_of_tokens(
    measured: Callable[[str], Measured],
) -> None:
    _, (rope, nope, _) = measured("text")
    in_cache, in_text = (
        reading("perplexity", policy="streaming", initial_tokens=2, positions=positions, span="stream")
        for positions in ("cache", "text")
    )
    assert nope[in_cache] == pytest.approx(float(nope[in_text]), rel=1e-6)
    assert rope[in_cache] != rope[in_text]


def test_what_is_recomputed_is_a_window_up_to_each_token(measured: Callable[[str], Measured]) -> None:
    models, (point, *_) = measured("text")
    settings = MEASURES["text"].streaming
    assert settings is not None
    text, _ = models.source.stream(settings.tokens)
    edges = point[reading("position_edges", span="sampled")]
    losses = point[reading("loss_by_position", policy="recomputed", span="sampled")]
    assert np.isfinite(losses).all()
    # Of the last bin one window is read, which ends with the first whole segment of `stride` tokens in it.
    end = int(-(-edges[-2] // settings.stride) + 1) * settings.stride
    window = text[end - LENGTH : end + 1].copy()
    window[0] = text[0]  # BOS in front, as in training
    params = on_device(models.params[0])
    with jax.set_mesh(make_mesh()):
        scores, _ = apply_decoder(params, jnp.asarray(window[None, :-1]), tables(ROPE, LENGTH), models.model)
        again = np.asarray(token_losses(scores, jnp.asarray(window[None, 1:]))[0], np.float64)
    assert losses[-1] == pytest.approx(again[-settings.stride :].mean(), rel=1e-4)
