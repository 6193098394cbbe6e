"""The whole decoder: who influences whom, what is measured, what is a value, and what is refused."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from leadline.model.attention.hyperparameters import hyperparameters
from leadline.model.block import BlockConfig
from leadline.model.context import Context
from leadline.model.decoder import UNROLLED, Decoder, DecoderConfig, apply_decoder, embed_tokens, init_decoder, unembed
from leadline.model.extend import extend
from leadline.model.generate import Policy, empty_cache
from leadline.model.intervention import no_intervention
from leadline.model.norm import Norm, normalise
from leadline.model.positions.absolute import sinusoidal
from leadline.model.positions.cope import Cope
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.t5 import T5
from leadline.model.positions.tables import PositionTables, position_tables
from leadline.model.positions.xpos import xpos_decay
from tests.model.naive import numbers
from tests.model.weights import BLOCK, CONFIG, VARIANTS, alibi, nope, rope, weights

pytestmark = pytest.mark.usefixtures("quick_to_compile", "mesh")

TEXT = [[1, 2, 3, 4, 5, 6]]
STEEP = inverse_frequencies(8, 10.0)


def forward(p: Decoder, tokens, tables: PositionTables, cfg: DecoderConfig = CONFIG, **options):
    return jax.jit(apply_decoder, static_argnames=("cfg", "measure"))(p, jnp.asarray(tokens), tables, cfg, **options)


@partial(jax.jit, static_argnames="cfg")
@jax.grad
def gradient(embedding, p: Decoder, tables: PositionTables, cfg: DecoderConfig, text, row):
    """Of a random sum over the logits at the tokens where `row` is one."""
    direction = jax.random.normal(jax.random.key(5), (cfg.vocabulary,))
    scores, _ = apply_decoder(replace(p, embedding=embedding), text, tables, cfg)
    return jnp.sum(scores * row[None, :, None] * direction[None, None])


@pytest.mark.parametrize(
    ("layers", "tables", "reach"), [(UNROLLED + 1, rope, 6), (2, partial(rope, window=2), 2)], ids=["all", "window"]
)
def test_a_token_depends_on_those_that_it_sees_and_a_window_reaches_back_by_its_width_once_a_layer(layers, tables, reach):
    """[t, s]: does the embedding of token s change the logits at t?"""
    cfg = replace(CONFIG, layers=layers)
    p, rows = weights(cfg), np.eye(6, dtype=np.float32)
    changes = np.stack(
        [np.abs(gradient(p.embedding, p, tables(layers), cfg, jnp.arange(6)[None], row))[:6].max(1) for row in rows]
    )
    distance = np.arange(6)[:, None] - np.arange(6)[None, :]
    np.testing.assert_array_equal(changes > 0, (distance >= 0) & (distance <= reach))


def test_with_a_document_mask_a_row_gives_the_logits_of_its_documents():
    """Token 10 ends a document and belongs to it."""
    documents = [[1, 2, 10], [3, 10], [4, 5, 6, 7]]
    row = [[token for document in documents for token in document]]
    p, masked = weights(), replace(CONFIG, document_end=10)
    apart = jnp.concatenate([forward(p, [document], rope())[0] for document in documents], axis=1)
    np.testing.assert_allclose(forward(p, row, rope(), masked)[0], apart, atol=1e-5)
    assert float(jnp.abs(forward(p, row, rope())[0] - apart)[0, 3:].min(axis=-1).max()) > 1e-3


def test_left_padding_changes_no_logits_under_relative_positions():
    p, text = weights(), jax.random.randint(jax.random.key(3), (1, 6), 0, 11)
    shifted = jnp.concatenate([jnp.zeros((1, 3), text.dtype), text], axis=1)
    padding = jnp.asarray([[False] * 3 + [True] * 6])
    for tables in (rope(), alibi(), nope()):
        padded, _ = forward(p, shifted, tables, context=Context(padding=padding))
        np.testing.assert_allclose(padded[:, 3:], forward(p, text, tables)[0], atol=1e-4)


def test_a_repeated_token_without_positions_gives_the_first_its_even_share():
    """All keys are equal, so query t gives 1 / t to each of t tokens, in every layer, also of a scan, and head."""
    cfg = replace(CONFIG, layers=UNROLLED + 1)
    _, first = forward(weights(cfg), [[7] * 20], nope(cfg.layers), cfg, measure=lambda trace: trace.attention.first)
    np.testing.assert_allclose(first, np.broadcast_to(1 / np.arange(1, 21), (cfg.layers, 1, 4, 20)), rtol=1e-5)


def test_scanned_layers_equal_unrolled_ones():
    """Layers that add nothing, above the scanning depth, change nothing."""
    shallow, deep = replace(CONFIG, layers=UNROLLED), replace(CONFIG, layers=UNROLLED + 2)
    p = weights(shallow)
    silent = jax.tree.map(lambda leaf: jnp.asarray(np.concatenate([leaf, np.zeros_like(leaf[:2])])), p.blocks)
    logits, _ = forward(replace(p, blocks=silent), TEXT, rope(UNROLLED + 2), deep)
    np.testing.assert_allclose(logits, forward(p, TEXT, rope(UNROLLED), shallow)[0], atol=1e-5)


# What a layer has of its own, as a value: of the position tables, of the hyperparameters, and of the weights.
OWN = {
    "window": lambda p, t: (p, replace(t, window=t.window.at[1].set(2))),
    "chunk": lambda p, t: (p, replace(t, chunk=t.chunk.at[1].set(2))),
    "initial tokens": lambda p, t: (p, replace(t, initial_tokens=t.initial_tokens.at[1].set(1))),
    "frequencies": lambda p, t: (p, jax.tree.map(lambda a, b: a.at[1].set(b[1]), t, rope(inverse_frequencies=STEEP, window=3))),
    "slopes": lambda p, t: (p, replace(t, slopes=t.slopes.at[1].set(0.5))),
    "temperature": lambda p, t: (p, replace(t, temperature=t.temperature.at[1].set(0.9))),
    "scale": lambda p, t: (p, replace(t, attention=replace(t.attention, scale=t.attention.scale.at[1].set(3.0)))),
    "sink logit": lambda p, t: (replace(p, blocks=replace(p.blocks, sink_logit=p.blocks.sink_logit.at[1].set(0.0))), t),
}


@pytest.mark.parametrize("name", OWN)
def test_every_layer_has_values_of_its_own(name):
    """A change of the second row changes what the second layer attends to, and nothing of the first."""
    plain = weights(), rope(window=3)
    before, after = (forward(p, TEXT, tables, measure=received)[1] for p, tables in (plain, OWN[name](*plain)))
    np.testing.assert_array_equal(after[0], before[0])
    assert np.abs(after[1] - before[1]).max() > 1e-3


def received(trace):
    return trace.attention.received


def test_positions_may_be_given():
    """RoPE knows differences alone: a text that begins elsewhere has the same logits, and one with gaps has others."""
    whole, _ = forward(weights(), TEXT, rope())
    for positions, moved in ((Partial(lambda i: 7 + i[:, None]), False), (Partial(lambda i: 3 * i[:, None]), True)):
        logits, _ = forward(weights(), TEXT, rope(), context=Context(positions))
        assert (np.abs(logits - whole).max() > 1e-3) == moved


def test_without_a_mesh_everything_is_on_one_device():
    expected, _ = forward(weights(), TEXT, rope())
    p, tables = jax.device_get((weights(), rope()))
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
        np.testing.assert_allclose(forward(p, TEXT, tables)[0], expected, atol=1e-5)


def test_tables_and_logits_are_values_of_one_program():
    """A table that was cached from the first call would be used by the second."""
    traced, plain = [], rope()
    tempered = replace(
        plain, temperature=plain.temperature.at[:].set(0.3), temperature_span=plain.temperature_span.at[:].set(4)
    )
    factors = np.array([1.2, 1.2, 1.0, 1.0])

    @jax.jit
    def compiled(p, tables):
        traced.append(tables)
        return apply_decoder(p, jnp.asarray(TEXT), tables, CONFIG)[0]

    fields: tuple[dict[str, Any], ...] = (
        {"inverse_frequencies": STEEP},
        {"window": 3},
        {"attention_factor": factors},
        {"decay": xpos_decay(8)},
    )
    tables_of = (plain, tempered, *(rope(**field) for field in fields), alibi(), nope())
    outputs = [compiled(weights(), tables) for tables in tables_of]
    outputs.append(compiled(weights(sink_logit=0.0), rope()))
    assert len(traced) == 1
    for i, logits in enumerate(outputs):
        assert all(np.abs(logits - other).max() > 1e-4 for other in outputs[:i])


def test_a_tied_unembedding_is_the_embedding():
    cfg = replace(CONFIG, tied=True)
    p = weights(cfg)
    assert p.unembedding is None
    tied, same = (forward(p, TEXT, rope(), cfg)[0] for p in (p, replace(p, unembedding=p.embedding)))
    np.testing.assert_allclose(tied, same, atol=1e-5)


def test_the_first_layer_reads_scaled_embeddings_and_the_positions_added_to_them():
    cfg = replace(CONFIG, scaled_embedding=True, learned_positions=6, sinusoidal=True)
    p, tokens, i = weights(cfg), jnp.asarray([[3, 3, 1]]), jnp.asarray([0, 2, 5])
    assert p.positions is not None
    expected = 4 * p.embedding[tokens] + (p.positions[i] + sinusoidal(i, 16))[None]
    np.testing.assert_allclose(jax.jit(embed_tokens, static_argnames="cfg")(p, tokens, i, cfg), expected, rtol=1e-6)


def test_embeddings_positions_and_unembeddings_are_drawn_at_one_scale_and_nothing_else_is_changed():
    cfg = replace(CONFIG, tied=False, learned_positions=6)
    changes = ({}, {"embedding_init_scale": 0.02}, {"embedding_init_scale": 0.5, "uniform_embedding_init": True})
    plain, scaled, bounded = (init_decoder(jax.random.key(0), replace(cfg, **change)) for change in changes)
    for name in ("embedding", "positions", "unembedding"):
        np.testing.assert_allclose(getattr(scaled, name), 0.02 * 16**0.5 * getattr(plain, name), rtol=1e-6)
    jax.tree.map(np.testing.assert_array_equal, plain.blocks, scaled.blocks)
    assert 0.45 < jnp.abs(bounded.embedding).max() <= 0.5


def test_the_first_layer_reads_normalised_embeddings_and_the_last_logits_are_capped_after_their_bias():
    cfg = replace(CONFIG, embedding_norm=True, final_cap=3.0, unembedding_bias=True)
    p, tokens = weights(cfg), jnp.asarray([[3, 3, 1]])
    norm = Norm(numbers(1, 16), None)
    p = replace(p, embedding_norm=norm, unembedding_bias=2 * numbers(2, 29))
    x = embed_tokens(p, tokens, jnp.arange(3), cfg)
    np.testing.assert_allclose(x, normalise(norm, p.embedding[tokens]), rtol=1e-6)
    assert p.unembedding is not None
    assert p.unembedding_bias is not None
    assert p.final_norm is not None
    plain = normalise(p.final_norm, x) @ p.unembedding.T + p.unembedding_bias[None, None]
    np.testing.assert_allclose(unembed(p, x, cfg), 3 * np.tanh(plain / 3), atol=1e-5)


def test_a_text_after_padding_has_learned_positions_from_its_first_token_on():
    cfg = replace(CONFIG, learned_positions=9)
    p, text = weights(cfg), jnp.asarray([[4, 1, 5, 9, 2, 6]])
    shifted = jnp.concatenate([jnp.zeros((1, 3), text.dtype), text], axis=1)
    context = Context(padding=jnp.asarray([[False] * 3 + [True] * 6]), starts=jnp.asarray([3]))
    padded, _ = forward(p, shifted, nope(), cfg, context=context)
    np.testing.assert_allclose(padded[:, 3:], forward(p, text, nope(), cfg)[0], atol=1e-4)


def test_bfloat16_compute_keeps_float32_weights_and_logits():
    low, p, text = replace(CONFIG, compute="bfloat16"), weights(), jax.random.randint(jax.random.key(4), (2, 20), 0, 11)
    exact, _ = forward(p, text, rope())
    logits, trace = forward(p, text, rope(), low, measure=lambda trace: trace)
    assert logits.dtype == jnp.float32
    assert trace.residual.dtype == jnp.bfloat16
    assert trace.attention.first.dtype == trace.value_norm.dtype == jnp.float32
    np.testing.assert_allclose(logits, exact, atol=0.05 * float(jnp.abs(exact).max()))
    gradients = jax.jit(jax.grad(lambda p: jnp.mean(apply_decoder(p, text, rope(), low)[0] ** 2)))(p)
    assert all(leaf.dtype == jnp.float32 and np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


BIASES = {type(bias).__name__: replace(BLOCK, position_bias=bias) for bias in (T5(), Cope())}
BLOCKS = VARIANTS | BIASES | {"polar": replace(BLOCK, polar=True)}


@pytest.mark.parametrize("name", BLOCKS)
def test_every_block_in_bfloat16_is_near_float32_in_one_pass_and_in_two(name: str) -> None:
    cfg = replace(CONFIG, layers=1, block=BLOCKS[name])
    low, p, text = replace(cfg, compute="bfloat16"), weights(cfg), jax.random.randint(jax.random.key(4), (2, 20), 0, 11)
    frequencies = inverse_frequencies(16 if cfg.block.polar else 8, 100.0)
    tables = position_tables(1, 4, 2 * len(frequencies), inverse_frequencies=frequencies)
    tables = replace(tables, attention=hyperparameters(1, cap=3.0))
    exact, _ = forward(p, text, tables, cfg)
    whole, _ = forward(p, text, tables, low)
    read, cache = jax.jit(extend, static_argnames="cfg"), empty_cache(low, Policy(), 2, 20)
    first, cache = read(p, cache, text[:, :10], tables, low)
    then, _ = read(p, cache, text[:, 10:], tables, low)
    for logits in (whole, jnp.concatenate([first, then], axis=1)):
        assert logits.dtype == jnp.float32
        np.testing.assert_allclose(logits, exact, atol=0.05 * float(jnp.abs(exact).max()))


def test_initial_logits_of_a_tied_model_have_about_unit_scale_and_layers_start_different():
    cfg = replace(CONFIG, vocabulary=300, tied=True, block=replace(BLOCK, width=64))
    p = jax.jit(init_decoder, static_argnames="cfg")(jax.random.key(0), cfg, sink_logit=0.25)
    scores, _ = forward(p, [np.arange(100)], rope(), cfg)
    assert 0.5 < jnp.std(scores) < 2
    assert np.abs(np.subtract(*np.asarray(p.blocks.query))).max() > 0.1
    np.testing.assert_array_equal(p.blocks.sink_logit, np.full((2, 4), 0.25))


@pytest.mark.parametrize(
    ("changes", "tokens", "given", "message"),
    [
        ({}, 0, {}, "a text without tokens"),
        ({"learned_positions": 4}, 5, {}, "learned positions end at 4: 5 tokens are too many"),
        ({"document_end": 3}, 5, {"intervention": no_intervention(2, 4, 2)}, "an intervention has one first token"),
    ],
)
def test_what_a_text_cannot_have_is_refused(changes: dict[str, Any], tokens: int, given: dict[str, Any], message: str) -> None:
    cfg = replace(CONFIG, **changes)
    with pytest.raises(ValueError, match=message):
        apply_decoder(weights(cfg), jnp.zeros((2, tokens), jnp.int32), rope(), cfg, context=Context(**given))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"final_cap": 0.0}, "final_cap = 0.0"),
        ({"zero_id": 29}, "ids are from 0 to 28"),
        ({"learned_positions": -1}, "learned_positions = -1"),
        ({"shared_bias": True}, "set position_bias too"),
    ],
)
def test_a_structure_that_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(CONFIG, **changes)


def test_a_factor_of_the_scores_is_not_rounded_to_bfloat16() -> None:
    """1.003 would be 1 in bfloat16."""
    cfg, tokens = replace(CONFIG, compute="bfloat16"), jnp.asarray([[3, 1, 4, 1, 5, 9]])

    def queries(scale: float) -> np.ndarray:
        tables = replace(rope(), attention=hyperparameters(2, scale=scale, cap=3.0))
        return np.asarray(apply_decoder(weights(cfg), tokens, tables, cfg, measure=lambda trace: trace.query)[1][0], np.float64)

    plain, scaled = queries(1.0), queries(1.003)
    assert np.vdot(scaled, plain) / np.vdot(plain, plain) == pytest.approx(1.003, abs=1e-3)


@pytest.mark.parametrize(
    ("seen", "given"),
    [
        ([1, 2, 3, 4, 5, 6], {}),
        ([6, 6, 6, 6, 6, 6], {"bidirectional": True}),
    ],
)
def test_scalable_softmax_counts_the_keys_that_a_query_sees(seen: list[int], given: Any) -> None:
    """The factor is that of the queries of a trace beside those of a model without it."""
    tokens = jnp.asarray([[3, 1, 4, 1, 5, 9]])

    def queries(block: BlockConfig) -> np.ndarray:
        cfg = replace(CONFIG, layers=1, block=block)
        p = weights(cfg)
        if p.blocks.length_scale is not None:
            p = replace(p, blocks=replace(p.blocks, length_scale=jnp.ones_like(p.blocks.length_scale)))
        context = Context(**given)
        return np.asarray(apply_decoder(p, tokens, rope(1), cfg, context=context, measure=lambda trace: trace.query)[1])

    scalable = queries(replace(CONFIG.block, scalable_softmax=True))
    expected = queries(CONFIG.block) * np.log(seen)[None, None, :, None, None]
    np.testing.assert_allclose(scalable, expected, rtol=1e-5, atol=1e-6, equal_nan=False)
