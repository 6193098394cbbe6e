"""The encoder–decoder: who sees whom, what padding and cross-attention do, devices, and one pass against steps."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.block import BlockConfig
from leadline.model.cache.full import full_cache
from leadline.model.decoder import apply_decoder, blocks_of, init_decoder
from leadline.model.encoder_decoder import (
    EncoderDecoder,
    EncoderDecoderConfig,
    apply_model,
    encode,
    init_model,
    model_layers,
    rows_of,
)
from leadline.model.extend import extend
from leadline.model.mesh import make_mesh
from leadline.model.positions.kerple import Kerple
from leadline.model.positions.t5 import T5
from leadline.model.positions.tables import position_tables
from tests.model.weights import drawn

pytestmark = pytest.mark.usefixtures("quick_to_compile", "mesh")

V, S, ENCODER, DECODER = 7, 6, 2, 2
BLOCK = BlockConfig(width=16, heads=4, kv_heads=2, head_dim=8, hidden=32, activation="relu", layer_norm=True, cross=True)
CONFIG = EncoderDecoderConfig(vocabulary=V, layers=DECODER, block=BLOCK, sinusoidal=True, encoder_layers=ENCODER)
TABLES = position_tables(ENCODER + DECODER, 4, 8)
T5_CONFIG = replace(CONFIG, block=replace(BLOCK, position_bias=T5(8, 6)), sinusoidal=False, shared_bias=True)
POSITIONS = pytest.mark.parametrize("cfg", [CONFIG, T5_CONFIG], ids=["sinusoidal", "T5"])
SOURCE = jnp.asarray([[1, 5, 3, 6, 2, 0], [1, 4, 2, 0, 0, 0], [1, 3, 3, 5, 6, 2]])
TARGET = jnp.asarray([[1, 6, 3, 5, 2, 0], [1, 4, 2, 0, 0, 0], [1, 6, 5, 3, 3, 2]])


def weights(cfg: EncoderDecoderConfig = CONFIG) -> Any:
    p = drawn(lambda: init_model(jax.random.key(0), cfg), seed=3, uneven=0.3)
    return replace(p, embedding=4 * p.embedding)


def logits(p: EncoderDecoder, source: Any, target: Any, cfg: EncoderDecoderConfig = CONFIG) -> jax.Array:
    rows = jnp.concatenate([jnp.asarray(source), jnp.asarray(target)], axis=1)
    return jax.jit(apply_model, static_argnames="cfg")(p, rows, TABLES, cfg)[0][:, S:]


def changed(ids: jax.Array, at: int) -> jax.Array:
    return ids.at[:, at].set(3 + (ids[:, at] - 2) % (V - 3))


@pytest.mark.parametrize("placement", ["pre", "post", "reordered"])
def test_a_target_sees_the_whole_source_and_its_own_past(placement: Any) -> None:
    cfg = replace(CONFIG, block=replace(BLOCK, placement=placement))
    p, source, target = weights(cfg), SOURCE[2:], TARGET[2:]
    before = logits(p, source, target, cfg)
    for at in range(S):
        of_source = np.abs(logits(p, changed(source, at), target, cfg) - before).max(axis=(0, 2))
        assert (of_source > 1e-4).all()
        of_target = np.abs(logits(p, source, changed(target, at), cfg) - before).max(axis=(0, 2))
        np.testing.assert_array_equal(of_target > 1e-4, np.arange(S) >= at)


@POSITIONS
def test_padding_of_a_source_is_seen_by_nothing(cfg: EncoderDecoderConfig) -> None:
    """A source gives the same logits whatever its row holds after it."""
    p = weights(cfg)
    short = encode(p, SOURCE[1:2, :3], rows_of(TABLES, 0, ENCODER), cfg)
    tables = rows_of(TABLES, ENCODER, ENCODER + DECODER)
    alone = extend(p, full_cache(DECODER, 1, 2, 8, room=S), TARGET[1:2, :3], tables, cfg, memory=short)[0]
    np.testing.assert_allclose(logits(p, SOURCE, TARGET, cfg)[1:2, :3], alone, atol=1e-5)


@POSITIONS
def test_one_pass_equals_one_token_at_a_time(cfg: EncoderDecoderConfig) -> None:
    p, tables = weights(cfg), rows_of(TABLES, ENCODER, ENCODER + DECODER)
    memory, cache, each = encode(p, SOURCE, rows_of(TABLES, 0, ENCODER), cfg), full_cache(DECODER, 3, 2, 8, room=S), []
    step = jax.jit(extend, static_argnames="cfg")
    for at in range(S):
        of_token, cache = step(p, cache, TARGET[:, at : at + 1], tables, cfg, memory=memory)
        each.append(of_token)
    real = (TARGET != 0)[..., None]
    np.testing.assert_allclose(
        jnp.where(real, jnp.concatenate(each, axis=1), 0), jnp.where(real, logits(p, SOURCE, TARGET, cfg), 0), atol=2e-5
    )


def test_statistics_of_cross_attention_count_real_queries_and_real_keys() -> None:
    """Queries that are all 0 attend evenly to the tokens of their source."""
    p = weights()
    cross = replace(p.blocks.cross, query=jnp.zeros_like(p.blocks.cross.query))
    p, rows = replace(p, blocks=replace(p.blocks, cross=cross)), jnp.concatenate([SOURCE, TARGET], axis=1)
    _, cross = model_layers(p, rows, TABLES, CONFIG, measure=lambda trace: trace.cross)
    keys, queries = (np.asarray(ids) != 0 for ids in (SOURCE, TARGET))
    shares = keys / keys.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(cross.first[0, :, 0], queries / keys.sum(axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(cross.received[1, :, 3], shares * queries.sum(axis=1, keepdims=True), rtol=1e-5)


def test_a_shared_embedding_is_one_matrix_in_three_places() -> None:
    sizes = {}
    for tied in (True, False):
        for shared in (True, False):
            cfg = replace(CONFIG, tied=tied, shared_embedding=shared)
            leaves = jax.tree.leaves(jax.eval_shape(lambda cfg=cfg: init_model(jax.random.key(0), cfg)))
            sizes[tied, shared] = sum(leaf.shape == (V, BLOCK.width) for leaf in leaves)
    assert sizes == {(True, True): 1, (True, False): 2, (False, True): 2, (False, False): 3}


def test_an_encoder_with_an_embedding_of_its_own_reads_that_one_alone() -> None:
    cfg = replace(CONFIG, shared_embedding=False)
    p = weights(cfg)
    of_decoder = replace(p, embedding=2 * p.embedding)
    of_encoder = replace(p, encoder=replace(p.encoder, embedding=2 * p.encoder.embedding))
    plain, same, other = (encode(each, SOURCE, rows_of(TABLES, 0, ENCODER), cfg).key for each in (p, of_decoder, of_encoder))
    np.testing.assert_array_equal(same, plain)
    assert np.abs(other - plain).max() > 1e-2


def test_layers_share_the_bias_of_their_stack() -> None:
    """A bias of each layer that has the numbers of the shared one gives the same logits."""
    p = weights(T5_CONFIG)
    own: Any = replace(p, blocks=blocks_of(p), position_bias=None, encoder=replace(p.encoder, blocks=blocks_of(p.encoder)))
    own = replace(own, encoder=replace(own.encoder, position_bias=None))
    assert (p.position_bias.table.shape, own.blocks.position_bias.table.shape) == ((8, 4), (DECODER, 8, 4))
    shared, each = logits(p, SOURCE, TARGET, T5_CONFIG), logits(own, SOURCE, TARGET, replace(T5_CONFIG, shared_bias=False))
    np.testing.assert_array_equal(shared, each)


def test_a_decoder_is_drawn_and_applied_as_ever() -> None:
    cfg = CONFIG.encoder
    ours, theirs = init_model(jax.random.key(1), cfg), init_decoder(jax.random.key(1), cfg)
    assert jax.tree.all(jax.tree.map(np.array_equal, ours, theirs))
    tables = rows_of(TABLES, 0, ENCODER)
    np.testing.assert_array_equal(apply_model(ours, TARGET, tables, cfg)[0], apply_decoder(theirs, TARGET, tables, cfg)[0])


def test_no_matrix_starts_with_the_random_numbers_of_another() -> None:
    cfg = replace(CONFIG, tied=False, shared_embedding=False)
    leaves = [leaf for leaf in jax.tree.leaves(init_model(jax.random.key(0), cfg)) if np.std(leaf) > 0 and leaf.size >= V * 16]
    layers = [part for leaf in leaves for part in ([leaf] if leaf.ndim == 2 else leaf)]
    begin = np.stack([np.ravel(part)[: V * 16] for part in layers])
    correlation = np.corrcoef(begin) - np.eye(len(begin))
    assert np.abs(correlation).max() < 6 / np.sqrt(V * 16)  # six standard deviations of that of independent numbers


@pytest.mark.slow
def test_devices_change_no_gradient() -> None:
    rows, cfg = np.concatenate([SOURCE, TARGET], axis=1)[[0, 1, 2, 0]], replace(CONFIG, scaled_embedding=True)

    def loss(p: EncoderDecoder) -> jax.Array:
        return jnp.sum(jnp.square(apply_model(p, jnp.asarray(rows), position_tables(ENCODER + DECODER, 4, 8), cfg)[0][:, S:]))

    gradients = []
    for mesh in (make_mesh(), make_mesh(data=2, model=2)):
        with jax.set_mesh(mesh):
            p = jax.jit(lambda: init_model(jax.random.key(0), cfg))()
            gradients.append(jax.device_get(jax.jit(jax.grad(loss))(p)))
    for one, several in zip(*map(jax.tree.leaves, gradients), strict=True):
        np.testing.assert_allclose(several, one, rtol=1e-3, atol=1e-3)


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(ValueError, match=r"set block\.cross"):
        EncoderDecoderConfig(vocabulary=V, layers=1, block=replace(BLOCK, cross=False))
    with pytest.raises(ValueError, match="Kerple counts distances backwards, and an encoder sees both ways: take T5"):
        replace(CONFIG, block=replace(BLOCK, position_bias=Kerple()))
    with pytest.raises(ValueError, match="cross-attention has no place in 'parallel'"):
        replace(BLOCK, placement="parallel")
    with pytest.raises(ValueError, match=r"give context\.memory"):
        apply_decoder(weights(), TARGET, rows_of(TABLES, 0, DECODER), CONFIG)
