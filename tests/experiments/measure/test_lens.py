"""Early decoding against scipy, by hand, and on a decoder whose layers are known to add nothing."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from scipy import special

from leadline.experiments.measure.lens import early_decoding
from leadline.model.block import BlockConfig
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder, init_decoder
from leadline.model.embedding import logits
from leadline.model.norm import normalise
from leadline.model.positions.tables import position_tables
from tests.model.weights import drawn

L, B, T, D, V = 5, 2, 3, 4, 7
RNG = np.random.default_rng(0)
RESIDUALS = RNG.normal(size=(L, B, T, D)).astype(np.float32)
WEIGHTS = RNG.normal(size=(D, V)).astype(np.float32)


def _decode(residual: jax.Array) -> jax.Array:
    return jnp.einsum("BTD,DV->BTV", residual.astype(jnp.float32), jnp.asarray(WEIGHTS))


def test_divergences_are_those_of_scipy() -> None:
    p = special.softmax(RESIDUALS.astype(float) @ WEIGHTS, axis=-1)
    expected = special.rel_entr(p[-1][None], p).sum(axis=-1).mean(axis=(1, 2))
    divergences = jax.jit(lambda residuals: early_decoding(residuals, _decode))(jnp.asarray(RESIDUALS))
    np.testing.assert_allclose(divergences, expected, rtol=1e-5, atol=1e-7)
    assert divergences[-1] == pytest.approx(0, abs=1e-7)
    assert early_decoding(jnp.asarray(RESIDUALS, jnp.bfloat16), _decode).dtype == jnp.float32


def test_an_even_guess_before_a_sure_answer_and_a_sure_one_before_an_even() -> None:
    """KL(sure || even) = ln V; the other way round it is infinite where the early answer rules out what the last does not."""
    lens = jax.jit(lambda residuals: early_decoding(residuals, lambda logits: logits))
    even, sure, odds = jnp.log(jnp.array([[1, 1, 1, 1], [0, 0, 4, 0], [1, 3, 0, 0]], jnp.float32) / 4)[:, None, None]
    np.testing.assert_allclose(lens(jnp.stack([even, sure])), [np.log(4), 0], atol=1e-6)
    np.testing.assert_allclose(lens(jnp.stack([even, odds])), [0.75 * np.log(3), 0], atol=1e-6)
    assert lens(jnp.stack([sure, even])).tolist() == [np.inf, 0]


def test_the_logits_of_one_layer_exist_at_once() -> None:
    program = str(jax.make_jaxpr(lambda residuals: early_decoding(residuals, _decode))(jnp.asarray(RESIDUALS)))
    assert f"f32[{B},{T},{V}]" in program
    assert f"f32[{L},{B},{T},{V}]" not in program


def test_layers_that_add_nothing_change_no_answer(mesh: Mesh) -> None:  # noqa: ARG001
    """Of three layers the last is silent: from the second on, the lens reads what the decoder answers."""
    cfg = DecoderConfig(
        vocabulary=11, layers=3, block=BlockConfig(width=16, heads=2, kv_heads=1, head_dim=8, hidden=24), tied=False
    )
    p: Decoder = drawn(lambda: init_decoder(jax.random.key(0), cfg))

    def silenced(leaf: jax.Array) -> jax.Array:
        last = np.arange(3).reshape(-1, *[1] * (leaf.ndim - 1)) == 2
        return jnp.asarray(np.where(last, np.float32(0), leaf))

    p = replace(p, blocks=jax.tree.map(silenced, p.blocks))

    def decode(x: jax.Array) -> jax.Array:
        assert p.unembedding is not None
        return logits(normalise(p.final_norm, x), p.unembedding)

    @jax.jit
    def read(text):
        answers, residuals = apply_decoder(p, text, position_tables(3, 2, 8), cfg, measure=lambda trace: trace.residual)
        return answers, decode(residuals[-1]), early_decoding(residuals, decode)

    answers, last, divergences = read(jnp.asarray([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]]))
    np.testing.assert_allclose(last, answers, atol=1e-5)
    assert divergences[0] > 1e-2
    np.testing.assert_allclose(divergences[1:], 0, atol=1e-6)
