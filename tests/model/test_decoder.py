"""The whole decoder: who influences whom, what is measured, and what is a value."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from leadline.model.context import Context
from leadline.model.decoder import UNROLLED, Decoder, DecoderConfig, apply_decoder, init_decoder
from leadline.model.positions.alibi import alibi_slopes
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.tables import PositionTables, position_tables
from tests.model.weights import BLOCK, drawn

pytestmark = pytest.mark.usefixtures("quick_to_compile", "mesh")

CONFIG = DecoderConfig(vocabulary=11, layers=2, block=BLOCK, tied=False)
LAYERS = pytest.mark.parametrize("layers", [UNROLLED, UNROLLED + 1], ids=["unrolled", "scanned"])


def nope(layers: int = 2, **changes) -> PositionTables:
    return position_tables(layers, 4, 8, **changes)


def rope(layers: int = 2, base: float = 1e3, **changes) -> PositionTables:
    return nope(layers, inverse_frequencies=inverse_frequencies(8, base), **changes)


def alibi(layers: int = 2) -> PositionTables:
    return nope(layers, slopes=alibi_slopes(4))


def weights(cfg: DecoderConfig = CONFIG) -> Decoder:
    return drawn(lambda: init_decoder(jax.random.key(0), cfg))


def initial(cfg: DecoderConfig, sink_logit: float) -> Decoder:
    return jax.jit(init_decoder, static_argnames="cfg")(jax.random.key(0), cfg, sink_logit=sink_logit)


def forward(p: Decoder, tokens, tables: PositionTables, cfg: DecoderConfig = CONFIG, **options):
    return jax.jit(apply_decoder, static_argnames=("cfg", "measure"))(p, jnp.asarray(tokens), tables, cfg, **options)


@partial(jax.jit, static_argnames="cfg")
@jax.grad
def gradient(embedding, p: Decoder, tables: PositionTables, cfg: DecoderConfig, text, row):
    """Of a random sum over the logits at the tokens where `row` is one."""
    direction = jax.random.normal(jax.random.key(5), (cfg.vocabulary,))
    scores, _ = apply_decoder(replace(p, embedding=embedding), text, tables, cfg)
    return jnp.sum(scores * row[None, :, None] * direction[None, None])


def influences(cfg: DecoderConfig, tables: PositionTables, tokens: int) -> np.ndarray:
    """[t, s]: does the embedding of token s change the logits at t? Every token of the text is another one."""
    text, p = jnp.arange(tokens)[None], weights(cfg)
    rows = np.eye(tokens, dtype=np.float32)
    return np.stack([np.abs(gradient(p.embedding, p, tables, cfg, text, row))[:tokens].max(axis=1) for row in rows])


@LAYERS
@pytest.mark.parametrize("positions", [rope, alibi, nope])
def test_later_tokens_have_no_gradient_and_earlier_ones_have(positions, layers):
    found = influences(replace(CONFIG, layers=layers), positions(layers), 6)
    np.testing.assert_array_equal(found[np.triu_indices(6, 1)], 0)
    assert found[np.tril_indices(6)].min() > 1e-6


def test_a_window_reaches_back_by_its_width_once_a_layer():
    found = influences(CONFIG, rope(window=2), 6)
    distance = np.arange(6)[:, None] - np.arange(6)[None, :]
    np.testing.assert_array_equal(found > 0, (distance >= 0) & (distance <= 2))


def test_left_padding_changes_no_logits_under_relative_positions():
    p, text = weights(), jax.random.randint(jax.random.key(3), (1, 6), 0, 11)
    shifted = jnp.concatenate([jnp.zeros((1, 3), text.dtype), text], axis=1)
    padding = jnp.asarray([[False] * 3 + [True] * 6])
    for tables in (rope(), alibi(), nope()):
        padded, _ = forward(p, shifted, tables, context=Context(padding=padding))
        alone, _ = forward(p, text, tables)
        np.testing.assert_allclose(padded[:, 3:], alone, atol=1e-4)


def test_without_positions_one_layer_does_not_know_the_order_of_what_it_has_read():
    cfg = replace(CONFIG, layers=1)
    p, text, shuffled = weights(cfg), [[3, 1, 4, 1, 5, 9]], [[4, 5, 1, 1, 3, 9]]
    last = [forward(p, tokens, nope(1), cfg)[0][0, -1] for tokens in (text, shuffled)]
    np.testing.assert_allclose(last[0], last[1], atol=1e-5)
    for tables in (rope(1), alibi(1)):
        last = [forward(p, tokens, tables, cfg)[0][0, -1] for tokens in (text, shuffled)]
        assert np.abs(last[0] - last[1]).max() > 1e-3


@LAYERS
def test_a_repeated_token_without_positions_gives_the_first_its_even_share(layers):
    """All keys are equal, so query t gives 1 / t to each of t tokens, in every layer and head."""
    cfg = replace(CONFIG, layers=layers)
    _, first = forward(weights(cfg), [[7] * 20], nope(layers), cfg, measure=lambda trace: trace.attention.first)
    assert first.shape == (layers, 1, 4, 20)
    np.testing.assert_allclose(first, np.broadcast_to(1 / np.arange(1, 21), first.shape), rtol=1e-5)
    assert jnp.mean(first).item() == pytest.approx(np.mean(1 / np.arange(1, 21)), rel=1e-5)


def test_scanned_layers_equal_unrolled_ones():
    """Layers that add nothing, above the scanning depth, change nothing."""
    shallow = replace(CONFIG, layers=UNROLLED)
    deep = replace(CONFIG, layers=UNROLLED + 2)
    p, text = weights(shallow), [[1, 2, 3, 4]]
    silent = jax.tree.map(lambda leaf: jnp.concatenate([leaf, jnp.zeros_like(leaf[:1]), jnp.zeros_like(leaf[:1])]), p.blocks)
    found, _ = forward(replace(p, blocks=silent), text, rope(UNROLLED + 2), deep)
    np.testing.assert_allclose(found, forward(p, text, rope(UNROLLED), shallow)[0], atol=1e-5)


# What a layer has of its own, as a value: of the position tables, of the hyperparameters, and of the weights.
OWN = {
    "window": lambda p, t: (p, replace(t, window=t.window.at[1].set(2))),
    "initial tokens": lambda p, t: (p, replace(t, window=t.window * 0 + 2, initial_tokens=t.initial_tokens.at[1].set(1))),
    "frequencies": lambda p, t: (p, jax.tree.map(lambda a, b: a.at[1].set(b[1]), t, rope(base=10.0))),
    "slopes": lambda p, t: (p, replace(t, slopes=t.slopes.at[1].set(0.5))),
    "temperature": lambda p, t: (p, replace(t, temperature=t.temperature.at[1].set(0.9))),
    "scale": lambda p, t: (p, replace(t, attention=replace(t.attention, scale=t.attention.scale.at[1].set(3.0)))),
    "sink logit": lambda p, t: (replace(p, blocks=replace(p.blocks, sink_logit=p.blocks.sink_logit.at[1].set(0.0))), t),
}


@pytest.mark.parametrize("name", OWN)
def test_every_layer_has_values_of_its_own(name):
    """A change of the second row changes what the second layer attends to, and nothing of the first."""
    text = [[1, 2, 3, 4, 5, 6]]
    p, tables = OWN[name](weights(), rope())
    base = replace(rope(), window=tables.window * 0 + 2) if name == "initial tokens" else rope()
    _, before = forward(weights(), text, base, measure=lambda trace: trace.attention.received)
    _, after = forward(p, text, tables, measure=lambda trace: trace.attention.received)
    np.testing.assert_array_equal(after[0], before[0])
    assert np.abs(after[1] - before[1]).max() > 1e-3


def test_positions_may_be_given():
    """RoPE knows differences alone: a text that begins elsewhere has the same logits, and one with gaps has others."""
    p, text = weights(), [[1, 2, 3, 4, 5]]
    whole, _ = forward(p, text, rope())
    for positions, moved in ((Partial(lambda i: 7 + i[:, None]), False), (Partial(lambda i: 3 * i[:, None]), True)):
        found, _ = forward(p, text, rope(), context=Context(positions))
        assert (np.abs(found - whole).max() > 1e-3) == moved


def test_without_a_mesh_everything_is_on_one_device():
    p, text = weights(), [[1, 2, 3, 4, 5]]
    expected, _ = forward(p, text, rope())
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
        np.testing.assert_allclose(forward(jax.device_get(p), text, jax.device_get(rope()))[0], expected, atol=1e-5)


def test_tables_and_logits_are_values_of_one_program():
    traced = []

    @jax.jit
    def compiled(p, text, tables):
        traced.append(tables)
        return apply_decoder(p, text, tables, CONFIG)[0]

    p, text = weights(), jnp.asarray([[1, 2, 3, 4, 5, 6, 7, 8]])
    tables = (rope(), rope(base=10.0), rope(window=3), alibi(), nope())
    found = [compiled(p, text, t) for t in tables]
    found.append(compiled(replace(p, blocks=replace(p.blocks, sink_logit=jnp.zeros((2, 4)))), text, rope()))
    assert len(traced) == 1
    for i, logits in enumerate(found):
        assert all(np.abs(logits - other).max() > 1e-4 for other in found[:i])


@pytest.mark.parametrize("tied", [True, False])
def test_a_tied_unembedding_is_the_embedding(tied):
    cfg = replace(CONFIG, tied=tied)
    p = weights(cfg)
    assert (p.unembedding is None) == tied
    untied = replace(p, unembedding=p.embedding)
    same = np.allclose(forward(p, [[1, 2, 3]], rope(), cfg)[0], forward(untied, [[1, 2, 3]], rope(), cfg)[0], atol=1e-6)
    assert same == tied


def test_a_scaled_embedding_equals_a_longer_table():
    scaled, p = replace(CONFIG, scaled_embedding=True), weights()
    found, _ = forward(p, [[1, 2, 3]], rope(), scaled)
    longer, _ = forward(replace(p, embedding=4 * p.embedding), [[1, 2, 3]], rope())
    np.testing.assert_allclose(found, longer, atol=1e-5)
    assert np.abs(found - forward(p, [[1, 2, 3]], rope())[0]).max() > 1e-3


def test_learned_positions_tell_places_apart():
    cfg = replace(CONFIG, learned_positions=6)
    p = weights(cfg)
    assert p.positions is not None
    found, _ = forward(p, [[7] * 6], nope(), cfg)
    assert np.abs(found[0, 1:] - found[0, :1]).max(axis=1).min() > 1e-3


def test_bfloat16_compute_keeps_float32_weights_and_logits():
    low, p, text = replace(CONFIG, compute="bfloat16"), weights(), jax.random.randint(jax.random.key(4), (2, 20), 0, 11)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(p))
    exact, _ = forward(p, text, rope())
    found, trace = forward(p, text, rope(), low, measure=lambda trace: trace)
    assert found.dtype == jnp.float32
    assert trace.residual.dtype == jnp.bfloat16
    assert trace.attention.first.dtype == trace.value_norm.dtype == jnp.float32
    np.testing.assert_allclose(found, exact, atol=0.05 * float(jnp.abs(exact).max()))
    gradients = jax.jit(jax.grad(lambda p: jnp.mean(apply_decoder(p, text, rope(), low)[0] ** 2)))(p)
    assert all(leaf.dtype == jnp.float32 and np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


def test_initial_logits_of_a_tied_model_have_about_unit_scale_and_layers_start_different():
    cfg = replace(CONFIG, vocabulary=300, tied=True, block=replace(BLOCK, width=64))
    p = initial(cfg, 0.25)
    scores, _ = forward(p, [np.arange(100)], rope(), cfg)
    assert 0.5 < jnp.std(scores) < 2
    assert np.abs(np.subtract(*np.asarray(p.blocks.query))).max() > 0.1
    np.testing.assert_array_equal(p.blocks.sink_logit, np.full((2, 4), 0.25))
