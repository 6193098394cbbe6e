"""Statistics of a tiny decoder and interventions on it, each against a decoder changed by hand."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from leadline.experiments.measure import trained
from leadline.experiments.measure.evaluate import Statistics
from leadline.experiments.measure.perplexity import mean_loss
from leadline.experiments.records.measurement import reading
from leadline.model.attention.attention import attention
from leadline.model.attention.normalizers import NORMALIZERS
from leadline.model.attention.scores import Scores
from leadline.model.block import BlockConfig
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder, init_decoder
from leadline.model.embedding import token_losses
from leadline.model.positions.tables import position_tables
from tests.model.naive import random_heads
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


run = jax.jit(partial(trained.loss_changes, cfg=CONFIG, losses=losses, hidden=(1, 3)))


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
    for intervention in trained.ALL_HEADS:
        assert abs(gains[reading("loss_change", intervention=intervention)]) > 1e-4


def test_a_model_whose_heads_send_nothing_does_not_change() -> None:
    p = weights()
    silent = replace(p, blocks=replace(p.blocks, output=jnp.zeros_like(p.blocks.output)))
    for key, value in changes(silent).items():
        np.testing.assert_allclose(value, 0, atol=1e-6, err_msg=str(key))


def test_every_intervention_differs_from_none_in_its_own_field() -> None:
    rows = trained.interventions(CONFIG)
    together = {name: np.asarray(getattr(rows, name)[:4]).mean(axis=(1, 2)).tolist() for name in vars(rows)}
    # Of none, and of each of trained.ALL_HEADS.
    assert together == {"head": [1, 1, 1, 1], "first_value": [1, 0, 0, 1], "mean_value": [0, 0, 1, 0], "forced": [0, 0, 0, 1]}
    np.testing.assert_array_equal(rows.head[4:].reshape(8, 8), 1 - np.eye(8))


def test_gradient_norms_are_those_of_the_loss() -> None:
    p, tokens = weights(), jnp.asarray(BATCHES[0])
    norms = jax.jit(partial(trained.loss_gradient_norms, cfg=CONFIG))(p, position_tables(2, 4, 8), tokens)
    slopes = jax.grad(lambda blocks: jnp.mean(losses_of(replace(p, blocks=blocks), tokens)))(p.blocks)
    for layer in range(2):
        squares = sum(float(np.sum(np.square(leaf[layer]))) for leaf in jax.tree.leaves(slopes))
        assert norms[layer] == pytest.approx(squares**0.5, rel=1e-4)


def test_early_decoding_is_what_the_first_layers_alone_predict() -> None:
    p = weights()
    first, cut = replace(p, blocks=jax.tree.map(lambda leaf: leaf[:1], p.blocks)), replace(CONFIG, layers=1)
    ids = jnp.asarray(BATCHES[..., :-1])
    divergences = jax.jit(partial(trained.early_divergence, cfg=CONFIG))(p, position_tables(2, 4, 8), jnp.asarray(BATCHES))

    def predicted(model: Decoder, cfg: DecoderConfig) -> np.ndarray:
        scores = [apply_decoder(model, batch, position_tables(cfg.layers, 4, 8), cfg)[0] for batch in ids]
        return special.softmax(np.stack(scores), axis=-1)

    whole, early = predicted(p, CONFIG), predicted(first, cut)
    expected = special.rel_entr(whole, early).sum(axis=-1).mean()
    np.testing.assert_allclose(divergences, [expected, 0], rtol=1e-4, atol=1e-6)


def test_maps_are_of_models_whose_scores_are_products_alone() -> None:
    p, tokens = weights(), jnp.asarray(BATCHES[0, :, :6])
    (attention,) = jax.jit(partial(trained.attention_maps, cfg=CONFIG))(p, position_tables(2, 4, 8), tokens).values()
    np.testing.assert_allclose(attention.sum(axis=-1), 1, rtol=1e-5)
    assert attention.shape == (2, 4, 6, 6)
    with_key_bias = replace(CONFIG, block=replace(CONFIG.block, key_bias=True))
    assert trained.attention_maps(p, position_tables(2, 4, 8), tokens, with_key_bias) == {}


@pytest.mark.parametrize(("name", "cap"), [("softmax", None), ("softmax", 0.5), ("softpick", 0.5), ("sigmoid", None)])
def test_columns_and_rows_of_a_map_are_those_of_attention(name: str, cap: float | None) -> None:
    q, k, v = random_heads(0, 1, 9, 4, 2, 8)
    sinks = jnp.array([-jnp.inf, 0.0, 1.0, -2.0]) if name == "softmax" else jnp.full(4, -jnp.inf)
    normalizer, limit = NORMALIZERS[name](jnp.array([-2.0, 1.0])), None if cap is None else jnp.float32(cap)

    def both(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple:
        scores = Scores(sink_logit=sinks, cap=limit, normalizer=normalizer)
        shares = trained.attention_map(q[0], k[0], sinks, normalizer, scale=8**-0.5, cap=limit)
        return shares, attention(q, k, v, scores=scores)[1]

    shares, expected = jax.jit(both)(q, k, v)
    np.testing.assert_allclose(shares[:, :, 0], expected.first[0], atol=1e-6)
    np.testing.assert_allclose(shares.sum(axis=1), expected.received[0], atol=1e-5)
    assert not np.triu(np.asarray(shares), 1).any()
