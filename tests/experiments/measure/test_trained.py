"""Statistics of a tiny decoder and interventions on it, each against a decoder changed by hand."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from leadline.experiments.measure.evaluate import Statistics
from leadline.experiments.measure.perplexity import mean_loss
from leadline.experiments.measure.trained import (
    ALL_HEADS,
    CaseLosses,
    attention_maps,
    case_losses,
    early_divergence,
    interventions,
    loss_cases,
    loss_gains,
    loss_gradient_norms,
)
from leadline.experiments.records.left_out import without
from leadline.experiments.records.measurement import Point, reading
from leadline.model.attention.hyperparameters import hyperparameters
from leadline.model.block import BlockConfig
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder, init_decoder
from leadline.model.embedding import token_losses
from leadline.model.positions.alibi import alibi_slopes
from leadline.model.positions.cope import Cope
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.t5 import T5
from leadline.model.positions.tables import PositionTables, position_tables
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


@jax.jit
def run(p: Decoder, row: PositionTables, batches: jax.Array) -> CaseLosses:
    return jax.lax.map(partial(case_losses, p, row, batches, CONFIG, losses, (1, 3)), loss_cases(CONFIG, (1, 3)))


def gains_of(p: Decoder, batches: np.ndarray = BATCHES, groups: np.ndarray | None = None) -> Point:
    return loss_gains(jax.device_get(run(p, position_tables(2, 4, 8), jnp.asarray(batches))), CONFIG, (1, 3), groups)


def test_changes_are_those_of_models_changed_by_hand() -> None:
    p = weights()
    gains, base = gains_of(p), loss_of(p)
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


def test_changes_without_a_group_are_those_of_the_other_windows() -> None:
    """Four windows, of the groups 0, 0, 3 and 5: without group 3 the windows 0, 1 and 3 are left."""
    p = weights()
    gains = gains_of(p, BATCHES, np.array([0, 0, 3, 5]))
    others = gains_of(p, BATCHES.reshape(4, 1, 13)[[0, 1, 3]])
    compared = [key for key in others if key.quantity == "loss_change" and "of" not in dict(key.dims)]
    assert len(compared) == len(ALL_HEADS) + 2
    for key in compared:
        np.testing.assert_allclose(gains[without(key)][3], others[key], atol=1e-6, err_msg=str(key))
        np.testing.assert_allclose(gains[without(key)][1], gains[key], atol=1e-6, err_msg=str(key))


def test_a_model_whose_heads_send_nothing_does_not_change() -> None:
    p = weights()
    silent = replace(p, blocks=replace(p.blocks, output=jnp.zeros_like(p.blocks.output)))
    for key, value in gains_of(silent).items():
        np.testing.assert_allclose(value, 0, atol=1e-6, err_msg=str(key))


def test_every_intervention_differs_from_none_in_its_own_field() -> None:
    rows = interventions(CONFIG)
    means = {field: np.asarray(getattr(rows, field)[:4]).mean(axis=(1, 2)) for field in vars(rows)}
    by_name = {name: {field: of[row] for field, of in means.items()} for row, name in enumerate(("none", *ALL_HEADS))}
    none = {"head": 1, "first_value": 1, "mean_value": 0, "forced": 0}
    assert by_name == {
        "none": none,
        "zero_value": {**none, "first_value": 0},
        "mean_value": {**none, "first_value": 0, "mean_value": 1},
        "forced": {**none, "forced": 1},
    }
    np.testing.assert_array_equal(rows.head[4:].reshape(8, 8), 1 - np.eye(8))


def test_gradient_norms_are_those_of_the_loss() -> None:
    p, tokens = weights(), jnp.asarray(BATCHES[0])
    norms = jax.jit(partial(loss_gradient_norms, cfg=CONFIG))(p, position_tables(2, 4, 8), tokens)
    slopes = jax.grad(lambda blocks: jnp.mean(losses_of(replace(p, blocks=blocks), tokens)))(p.blocks)
    for layer in range(2):
        squares = sum(float(np.sum(np.square(leaf[layer]))) for leaf in jax.tree.leaves(slopes))
        assert norms[layer] == pytest.approx(squares**0.5, rel=1e-4)


def test_early_decoding_is_what_the_first_layers_alone_predict() -> None:
    p = weights()
    first, cut = replace(p, blocks=jax.tree.map(lambda leaf: leaf[:1], p.blocks)), replace(CONFIG, layers=1)
    ids = jnp.asarray(BATCHES[..., :-1])
    divergences = jax.jit(partial(early_divergence, cfg=CONFIG))(p, position_tables(2, 4, 8), jnp.asarray(BATCHES))

    def predicted(model: Decoder, cfg: DecoderConfig) -> np.ndarray:
        scores = [apply_decoder(model, batch, position_tables(cfg.layers, 4, 8), cfg)[0] for batch in ids]
        return special.softmax(np.stack(scores), axis=-1)

    whole, early = predicted(p, CONFIG), predicted(first, cut)
    expected = special.rel_entr(whole, early).sum(axis=-1).mean()
    np.testing.assert_allclose(divergences, [expected, 0], rtol=1e-4, atol=1e-6)


# Mechanisms that add to the scores, or hide keys, or normalise them otherwise; some by what is compiled in, some by tables.
MAPPED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "products": ({}, {}),
    "ALiBi": ({}, {"slopes": alibi_slopes(4)}),
    "window": ({}, {"window": 3, "initial_tokens": 1}),
    "T5": ({"position_bias": T5(8, 16)}, {}),
    "CoPE": ({"position_bias": Cope(8)}, {}),
    "key and value bias": ({"key_bias": True, "value_bias": True}, {}),
    "soft cap": ({"soft_cap": True}, {}),
    "softpick": ({"normalizer": "softpick"}, {}),
    "sigmoid": ({"normalizer": "sigmoid"}, {}),
    "PoPE": ({"polar": True}, {"inverse_frequencies": inverse_frequencies(16, 100.0)}),
}


@pytest.mark.parametrize("name", MAPPED)
def test_columns_and_rows_of_a_map_are_those_of_attention(name: str) -> None:
    block, rows = MAPPED[name]
    values = hyperparameters(2, scale=0.7, cap=1.5, normalizer=(-1.0, 1.0))
    cfg, rows = replace(CONFIG, block=replace(CONFIG.block, **block)), position_tables(2, 4, 8, **rows)
    rows = replace(rows, attention=values)
    p, tokens = drawn(lambda: init_decoder(jax.random.key(0), cfg, sink_logit=-1.0), 1), jnp.asarray(BATCHES[0, :, :9])

    @jax.jit
    def both(p: Decoder) -> tuple[jax.Array, Any]:
        (shares,) = attention_maps(p, rows, tokens, cfg).values()
        return shares, apply_decoder(p, tokens, rows, cfg, measure=lambda trace: trace.attention)[1]

    shares, expected = both(p)
    np.testing.assert_allclose(shares[..., 0], expected.first[:, 0], atol=1e-6)
    np.testing.assert_allclose(shares.sum(axis=2), expected.received[:, 0], atol=1e-5)
    assert not np.triu(np.asarray(shares), 1).any()


def test_a_model_whose_queries_rotate_all_keys_has_no_map() -> None:
    by_query = replace(CONFIG, block=replace(CONFIG.block, table_per="query"))
    assert attention_maps(weights(), position_tables(2, 4, 8), jnp.asarray(BATCHES[0]), by_query) == {}
