"""Interventions: each against the same change made by hand."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.context import Context
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder, init_decoder
from leadline.model.intervention import Intervention, no_intervention, with_first_value, with_heads
from leadline.model.positions.tables import PositionTables, position_tables
from tests.model.weights import BLOCK, drawn

pytestmark = pytest.mark.usefixtures("mesh", "quick_to_compile")

CONFIG = DecoderConfig(vocabulary=11, layers=2, block=BLOCK, tied=False)
NONE = no_intervention(2, 4, 2)
TOKENS = jnp.array([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])


def weights() -> Decoder:
    return drawn(lambda: init_decoder(jax.random.key(0), CONFIG), 1)


def tables() -> PositionTables:
    return position_tables(2, 4, 8)


@jax.jit
def forward(p: Decoder, own: Intervention | None) -> jax.Array:
    return apply_decoder(p, TOKENS, tables(), CONFIG, context=Context(intervention=own))[0]


def test_values_that_change_nothing_change_nothing():
    p = weights()
    np.testing.assert_allclose(forward(p, NONE), forward(p, None), atol=1e-5)


def test_a_removed_head_is_one_whose_output_weights_are_zero():
    p = weights()
    removed = replace(NONE, head=NONE.head.at[1, 2].set(0))
    output = p.blocks.output.at[1, 2].set(0)
    by_hand = replace(p, blocks=replace(p.blocks, output=output))
    np.testing.assert_allclose(forward(p, removed), forward(by_hand, None), atol=1e-5)


def test_all_mass_on_the_first_token_gives_its_value():
    """Of heads that share a key/value head too; a share of the mass moves that share of the output."""
    o, v = jax.random.normal(jax.random.key(1), (2, 5, 4, 3)), jax.random.normal(jax.random.key(2), (2, 5, 2, 3))
    row = jax.tree.map(lambda leaf: leaf[0], NONE)
    found = with_heads(o, v, replace(row, forced=jnp.array([1.0, 0.25, 0.0, 1.0])))
    np.testing.assert_allclose(found[:, :, 0], np.broadcast_to(v[:, :1, 0], (2, 5, 3)), atol=1e-6)
    np.testing.assert_allclose(found[:, :, 1], 0.75 * o[:, :, 1] + 0.25 * v[:, :1, 0], atol=1e-6)
    np.testing.assert_allclose(found[:, :, 2], o[:, :, 2], atol=1e-6)
    np.testing.assert_allclose(found[:, :, 3], np.broadcast_to(v[:, :1, 1], (2, 5, 3)), atol=1e-6)


def test_an_emptied_first_value_is_zero_and_a_mean_one_is_the_mean_of_the_others():
    v = jax.random.normal(jax.random.key(0), (2, 5, 2, 4))
    row = jax.tree.map(lambda leaf: leaf[0], NONE)
    emptied = with_first_value(v, replace(row, first_value=jnp.zeros(2)))
    np.testing.assert_array_equal(emptied[:, 0], 0)
    np.testing.assert_array_equal(emptied[:, 1:], v[:, 1:])
    averaged = with_first_value(v, replace(row, first_value=jnp.zeros(2), mean_value=jnp.ones(2)))
    np.testing.assert_allclose(averaged[:, 0], np.mean(np.asarray(v)[:, 1:], axis=1), atol=1e-6)
