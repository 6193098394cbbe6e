"""Interventions on a tiny decoder, each against a decoder changed by hand."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.measure.evaluate import Statistics
from leadline.experiments.measure.interventions import ALL_HEADS, interventions, loss_changes
from leadline.experiments.measure.perplexity import mean_loss
from leadline.experiments.measure.trained import attention_maps, loss_gradient_norms
from leadline.experiments.records.measurement import reading
from leadline.model.block import BlockConfig
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder, init_decoder
from leadline.model.embedding import token_losses
from leadline.model.positions.tables import position_tables
from tests.model.weights import drawn

pytestmark = pytest.mark.usefixtures("mesh")

CONFIG = DecoderConfig(
    vocabulary=11, layers=2, block=BlockConfig(width=16, heads=4, kv_heads=2, head_dim=8, hidden=32), tied=False
)
BATCHES = np.random.default_rng(0).integers(0, 11, (2, 2, 13))


def weights() -> Decoder:
    return drawn(lambda: init_decoder(jax.random.key(0), CONFIG), 1)


def losses(losses: jax.Array, tokens: jax.Array) -> Statistics:  # noqa: ARG001
    return {reading("loss"): mean_loss(losses), reading("bigram_loss"): jnp.mean(losses[:, -1])}


@jax.jit
def losses_of(p: Decoder, tokens: jax.Array) -> jax.Array:
    scores, _ = apply_decoder(p, tokens[:, :-1], position_tables(2, 4, 8), CONFIG)
    return token_losses(scores, tokens[:, 1:])


def loss_of(p: Decoder) -> float:
    return float(np.mean([losses_of(p, jnp.asarray(batch)) for batch in BATCHES]))


run = jax.jit(partial(loss_changes, cfg=CONFIG, losses=losses, hidden=(1, 3)))


def changes(p: Decoder) -> Statistics:
    return run(p, position_tables(2, 4, 8), jnp.asarray(BATCHES))


def test_changes_are_those_of_models_changed_by_hand() -> None:
    p = weights()
    gains, base = changes(p), loss_of(p)
    for layer, head in ((0, 1), (1, 3)):
        blocks = replace(p.blocks, output=p.blocks.output.at[layer, head].set(0))
        removed = gains[reading("head_removed")][layer, head]
        assert removed == pytest.approx(loss_of(replace(p, blocks=blocks)) - base, abs=1e-5)
    assert gains[reading("head_removed", of="bigram_loss")].shape == (2, 4)
    # Without positions, the rest of a text alone is the text with its beginning hidden.
    for count in (1, 3):
        whole = np.mean([np.asarray(losses_of(p, jnp.asarray(b)))[:, count:] for b in BATCHES])
        rest = np.mean([np.asarray(losses_of(p, jnp.asarray(b[:, count:]))) for b in BATCHES])
        change = gains[reading("loss_change", intervention="hidden", tokens=count)]
        assert change == pytest.approx(rest - whole, abs=1e-5)
    for intervention in ALL_HEADS:
        assert abs(gains[reading("loss_change", intervention=intervention)]) > 1e-4


def test_a_model_whose_heads_send_nothing_does_not_change() -> None:
    p = weights()
    silent = replace(p, blocks=replace(p.blocks, output=jnp.zeros_like(p.blocks.output)))
    for key, value in changes(silent).items():
        np.testing.assert_allclose(value, 0, atol=1e-6, err_msg=str(key))


def test_every_intervention_differs_from_none_in_its_own_field() -> None:
    rows = interventions(CONFIG)
    nothing, zero, mean, forced = (jax.tree.map(lambda leaf, i=i: leaf[i], rows) for i in range(4))
    assert rows.head.shape == (1 + len(ALL_HEADS) + 8, 2, 4)
    assert nothing.head.all() and nothing.first_value.all() and not nothing.forced.any() and not nothing.mean_value.any()
    assert not zero.first_value.any() and not zero.mean_value.any()
    assert not mean.first_value.any() and mean.mean_value.all()
    assert forced.forced.all() and forced.first_value.all()
    removed = np.asarray(rows.head[1 + len(ALL_HEADS) :]).reshape(8, 8)
    np.testing.assert_array_equal(removed, 1 - np.eye(8))


def test_gradient_norms_are_those_of_the_loss() -> None:
    p, tokens = weights(), jnp.asarray(BATCHES[0])
    norms = jax.jit(partial(loss_gradient_norms, cfg=CONFIG))(p, position_tables(2, 4, 8), tokens)
    slopes = jax.grad(lambda blocks: jnp.mean(losses_of(replace(p, blocks=blocks), tokens)))(p.blocks)
    for layer in range(2):
        squares = sum(float(np.sum(np.square(leaf[layer]))) for leaf in jax.tree.leaves(slopes))
        assert norms[layer] == pytest.approx(squares**0.5, rel=1e-4)


def test_maps_are_of_models_whose_scores_are_products_alone() -> None:
    p, tokens = weights(), jnp.asarray(BATCHES[0, :, :6])
    (attention,) = jax.jit(partial(attention_maps, cfg=CONFIG))(p, position_tables(2, 4, 8), tokens).values()
    np.testing.assert_allclose(attention.sum(axis=-1), 1, rtol=1e-5)
    assert attention.shape == (2, 4, 6, 6)
    with_key_bias = replace(CONFIG, block=replace(CONFIG.block, key_bias=True))
    assert attention_maps(p, position_tables(2, 4, 8), tokens, with_key_bias) == {}
