"""Sink statistics on attention whose answers are known by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from leadline.experiments.measure.sinks import first_norm_ratio, mean_mass, sink_rate
from leadline.model.attention.attention import attention
from leadline.model.block import BlockConfig
from leadline.model.context import Context
from leadline.model.decoder import DecoderConfig, apply_decoder, init_decoder
from leadline.model.positions.tables import position_tables
from tests.model.weights import drawn

T = 64


def _received(probabilities: np.ndarray) -> jax.Array:
    """Σ over queries of [B, N, T, S]."""
    return jnp.asarray(probabilities.sum(axis=2), jnp.float32)


def _uniform(tokens: int) -> np.ndarray:
    """Causal attention that is uniform over the keys it sees [1, 1, T, S]."""
    return (np.tri(tokens) / np.arange(1, tokens + 1)[:, None])[None, None]


def _first(tokens: int) -> np.ndarray:
    """Every query gives all to the first token."""
    found = np.zeros((1, 1, tokens, tokens))
    found[..., 0] = 1
    return found


def test_uniform_attention_gives_the_first_token_its_harmonic_share() -> None:
    received = _received(_uniform(T))
    share = np.sum(1 / np.arange(1, T + 1)) / T
    assert round(share, 4) == 0.0741
    assert sink_rate(received, token=1, epsilon=0.3).tolist() == [0]
    assert sink_rate(received, token=1, epsilon=share - 1e-4).tolist() == [1]
    assert sink_rate(received, token=1, epsilon=share + 1e-4).tolist() == [0]


def test_attention_itself_gives_that_share(mesh: Mesh) -> None:  # noqa: ARG001
    zeros = jnp.zeros((2, T, 3, 4))
    _, found = attention(zeros, zeros, zeros)
    np.testing.assert_allclose(found.received[..., 0] / T, np.sum(1 / np.arange(1, T + 1)) / T, rtol=1e-6)
    np.testing.assert_allclose(mean_mass(found.first), np.mean(1 / np.arange(1, T + 1)), rtol=1e-6)
    assert sink_rate(found.received, token=1, epsilon=0.3).tolist() == [0, 0, 0]


def test_all_on_the_first_token_is_a_sink_of_one_head() -> None:
    both = np.concatenate([_first(T), _uniform(T)], axis=1)
    assert sink_rate(_received(both), token=1, epsilon=0.3).tolist() == [1, 0]
    assert sink_rate(_received(both), token=1, epsilon=0.999).tolist() == [1, 0]


def test_the_indicator_comes_before_the_mean_over_sequences() -> None:
    # α_1 is 1 in one sequence and 0.0741 in the other: their mean is above 0.3, but only one of them is.
    two = np.concatenate([_first(T), _uniform(T)], axis=0)
    assert np.mean(two[:, 0, :, 0]) > 0.3
    assert sink_rate(_received(two), token=1, epsilon=0.3).tolist() == [0.5]


def test_a_later_token_is_judged_by_the_queries_that_see_it() -> None:
    third = np.zeros((1, 1, 8, 8))
    third[0, 0, [0, 1], [0, 1]] = 1  # what comes before it sees itself
    third[0, 0, 2:, 2] = 0.5
    third[0, 0, 2:, 0] = 0.5
    received = _received(third)
    assert sink_rate(received, token=3, epsilon=0.499).tolist() == [1]  # Σ = 3 of 8 - 3 + 1 = 6 queries
    assert sink_rate(received, token=3, epsilon=0.5).tolist() == [0]
    assert sink_rate(received, token=2, epsilon=1 / 7 - 1e-3).tolist() == [1]
    assert sink_rate(received, token=2, epsilon=1 / 7 + 1e-3).tolist() == [0]
    assert sink_rate(received, token=8, epsilon=0.0).tolist() == [0]


@pytest.mark.parametrize("token", [0, 9])
def test_token_outside_the_text(token: int) -> None:
    with pytest.raises(ValueError, match=f"token {token} of the sink rate is not among the 8"):
        sink_rate(jnp.zeros((1, 1, 8)), token=token, epsilon=0.3)


def test_mean_mass_pools_the_chosen_queries_of_all_sequences() -> None:
    mass = np.random.default_rng(0).random((3, 2, 5)).astype(np.float32)
    queries = np.zeros((3, 5), bool)
    queries[0, 1:] = True
    queries[2, 4] = True
    expected = [np.concatenate([mass[0, head, 1:], mass[2, head, 4:]]).mean() for head in range(2)]
    np.testing.assert_allclose(mean_mass(jnp.asarray(mass), jnp.asarray(queries)), expected, rtol=1e-6)
    np.testing.assert_allclose(mean_mass(jnp.asarray(mass)), mass.mean(axis=(0, 2)), rtol=1e-6)


def test_first_norm_ratio_is_a_mean_of_ratios() -> None:
    norms = np.ones((2, 6, 1), np.float32)
    norms[0, 0], norms[0, 1:4] = 0.2, 100  # tokens before `start` do not count
    norms[1, 0], norms[1, 4:] = 3, [[2], [4]]
    assert first_norm_ratio(jnp.asarray(norms), start=4).tolist() == pytest.approx([(0.2 / 1 + 3 / 3) / 2])
    for start in (6, -1):
        with pytest.raises(ValueError, match=f"no token at or behind {start}: the text has 6"):
            first_norm_ratio(jnp.asarray(norms), start=start)


def test_first_norm_ratio_of_every_head_and_of_the_residual_stream() -> None:
    norms = np.random.default_rng(1).random((3, 9, 2)).astype(np.float32) + 0.1
    expected = np.mean(norms[:, 0] / norms[:, 2:].mean(axis=1), axis=0)
    np.testing.assert_allclose(first_norm_ratio(jnp.asarray(norms), start=2), expected, rtol=1e-6)
    assert first_norm_ratio(jnp.asarray(norms[..., 1]), start=2) == pytest.approx(expected[1], rel=1e-6)


def test_a_repeated_token_without_positions_is_attended_to_evenly(mesh: Mesh) -> None:  # noqa: ARG001
    """All keys are equal, so that query t gives each of t tokens 1 / t (Gu et al. 2025, Proposition 1): every A_ti, from what
    the keys of texts padded behind token 1, 2, … receive."""
    layers, length, block = 3, 12, BlockConfig(width=16, heads=4, kv_heads=2, head_dim=8, hidden=24)
    cfg = DecoderConfig(vocabulary=11, layers=layers, block=block)
    p, tables = drawn(lambda: init_decoder(jax.random.key(0), cfg)), position_tables(layers, 4, 8)
    texts, padding = jnp.full((length, length), 7), jnp.asarray(np.tri(length, dtype=bool))

    @jax.jit
    def attend(p, tables):
        return apply_decoder(p, texts, tables, cfg, context=Context(padding=padding), measure=lambda trace: trace.attention)[1]

    found = attend(p, tables)
    rows = np.diff(np.asarray(found.received, np.float64), axis=1, prepend=0)  # [L, t, N, i]
    np.testing.assert_allclose(rows - _uniform(length)[0, 0, :, None], np.zeros((layers, length, 4, length)), atol=1e-6)
    np.testing.assert_allclose(
        np.asarray(found.first[:, -1]) - 1 / np.arange(1, length + 1), np.zeros((layers, 4, length)), atol=1e-6
    )
    assert sink_rate(found.received[0, -1:], token=1, epsilon=0.3).tolist() == [0] * 4
