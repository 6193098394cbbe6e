"""A tiny decoder taken apart, each part against the same done by hand."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.anatomy import CASES, anatomy, changes, interventions, maps
from experiments.evaluate import Statistics
from experiments.measure.perplexity import mean_loss
from model.block import BlockConfig
from model.decoder import Decoder, DecoderConfig, apply_decoder, init_decoder
from model.embedding import token_losses
from model.positions.tables import position_tables
from tests.model.weights import drawn

pytestmark = pytest.mark.usefixtures("mesh")

CONFIG = DecoderConfig(
    vocabulary=11, layers=2, block=BlockConfig(width=16, heads=4, kv_heads=2, head_dim=8, hidden=32), tied=False
)
BATCHES = np.random.default_rng(0).integers(0, 11, (2, 2, 13))


def weights() -> Decoder:
    return drawn(lambda: init_decoder(jax.random.key(0), CONFIG), 1)


def of_losses(losses: jax.Array, tokens: jax.Array) -> Statistics:  # noqa: ARG001
    return {"loss": mean_loss(losses), "last": jnp.mean(losses[:, -1])}


@jax.jit
def losses_of(p: Decoder, tokens: jax.Array) -> jax.Array:
    scores, _ = apply_decoder(p, tokens[:, :-1], position_tables(2, 4, 8), CONFIG)
    return token_losses(scores, tokens[:, 1:])


def loss_of(p: Decoder) -> float:
    return float(np.mean([losses_of(p, jnp.asarray(batch)) for batch in BATCHES]))


def test_changes_are_those_of_models_changed_by_hand():
    p = weights()
    run = jax.jit(partial(changes, cfg=CONFIG, of_losses=of_losses, hidden=(1, 3)))
    found = run(p, position_tables(2, 4, 8), jnp.asarray(BATCHES))
    base = loss_of(p)
    for layer, head in ((0, 1), (1, 3)):
        blocks = replace(p.blocks, output=p.blocks.output.at[layer, head].set(0))
        assert found["head_removed.loss"][layer, head] == pytest.approx(loss_of(replace(p, blocks=blocks)) - base, abs=1e-5)
    assert found["head_removed.last"].shape == (2, 4)
    # Without positions, the rest of a text alone is the text with its beginning hidden.
    for count in (1, 3):
        whole = np.mean([np.asarray(losses_of(p, jnp.asarray(b)))[:, count:] for b in BATCHES])
        rest = np.mean([np.asarray(losses_of(p, jnp.asarray(b[:, count:]))) for b in BATCHES])
        assert found[f"change_hidden{count}.loss"] == pytest.approx(rest - whole, abs=1e-5)
    for case in CASES:
        assert abs(found[f"change_{case}.loss"]) > 1e-4


def test_a_model_whose_heads_send_nothing_does_not_change():
    p = weights()
    silent = replace(p, blocks=replace(p.blocks, output=jnp.zeros_like(p.blocks.output)))
    run = jax.jit(partial(changes, cfg=CONFIG, of_losses=of_losses, hidden=(1,)))
    found = run(silent, position_tables(2, 4, 8), jnp.asarray(BATCHES))
    for name, value in found.items():
        np.testing.assert_allclose(value, 0, atol=1e-6, err_msg=name)


def test_every_intervention_differs_from_nothing_in_its_own_field():
    rows = interventions(CONFIG)
    nothing, zero, mean, forced = (jax.tree.map(lambda leaf, i=i: leaf[i], rows) for i in range(4))
    assert rows.head.shape == (1 + len(CASES) + 8, 2, 4)
    assert nothing.head.all() and nothing.first_value.all() and not nothing.forced.any() and not nothing.mean_value.any()
    assert not zero.first_value.any() and not zero.mean_value.any()
    assert not mean.first_value.any() and mean.mean_value.all()
    assert forced.forced.all() and forced.first_value.all()
    removed = np.asarray(rows.head[1 + len(CASES) :]).reshape(8, 8)
    np.testing.assert_array_equal(removed, 1 - np.eye(8))


def test_the_anatomy_names_every_layer_and_ends_at_the_final_answer():
    p = weights()
    run = jax.jit(partial(anatomy, cfg=CONFIG, of_losses=of_losses, token=1, epsilon=0.3, start=2))
    found = run(p, position_tables(2, 4, 8), jnp.asarray(BATCHES))
    assert found["loss"] == pytest.approx(loss_of(p), abs=1e-5)
    assert found["early_divergence"][-1] == pytest.approx(0, abs=1e-6)
    assert found["early_divergence"][0] > 0.01

    def first_loss(blocks):
        return jnp.mean(losses_of(replace(p, blocks=blocks), jnp.asarray(BATCHES[0])))

    slopes = jax.grad(first_loss)(p.blocks)
    for layer in range(2):
        squares = sum(float(np.sum(np.square(leaf[layer]))) for leaf in jax.tree.leaves(slopes))
        assert found["gradient_norm"][layer] == pytest.approx(squares**0.5, rel=1e-4)
    shapes = {name: value.shape for name, value in found.items()}
    assert shapes["entropy"] == shapes["key_cosine"] == shapes["logit_gap"] == (2, 4)
    assert shapes["key_outside"] == shapes["value_norm_ratio"] == (2, 2)
    assert shapes["kurtosis"] == shapes["residual_norm_ratio"] == (2,)
    assert shapes["massive_activations"] == (2, 3)


def test_maps_are_of_models_whose_scores_are_products_alone():
    p = weights()
    found = jax.jit(partial(maps, cfg=CONFIG))(p, position_tables(2, 4, 8), jnp.asarray(BATCHES[0, :, :6]))
    np.testing.assert_allclose(found["attention_map"].sum(axis=-1), 1, rtol=1e-5)
    assert found["attention_map"].shape == (2, 4, 6, 6)
    row = replace(CONFIG, block=replace(CONFIG.block, prepended="key"))
    assert maps(p, position_tables(2, 4, 8), jnp.asarray(BATCHES[0, :, :6]), row) == {}
