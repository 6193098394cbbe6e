"""Windows into batches, a model measured on them, and which statistics a layer has, on traces written by hand."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from leadline.experiments.config.measure import START, SinkRate
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import Rope
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.evaluate import Statistics, evaluate, in_batches, in_full_batches, of_targets
from leadline.experiments.measure.layers import attention_statistics, layer_statistics, sink_statistics
from leadline.experiments.records.measurement import reading
from leadline.experiments.runtime.ensemble import over_arms, share, stack, unstack
from leadline.model.attention.attention import AttentionStatistics
from leadline.model.block import LayerTrace
from leadline.model.decoder import Decoder, init_decoder, unembed
from leadline.model.embedding import token_losses
from leadline.model.mesh import make_mesh
from leadline.model.positions.tables import PositionTables
from tests.model.naive import numbers
from tests.model.weights import drawn

MODEL = ModelConfig(layers=1, width=16, heads=2, hidden=16, position=Rope(base=100.0))
CONFIG = decoder_config(MODEL, 11, 12)


def of_layer(trace: LayerTrace, tokens: jax.Array) -> Statistics:  # noqa: ARG001
    return sink_statistics(trace, SinkRate(length=12))


@pytest.mark.parametrize("count", [1, 7, 12, 100])
@pytest.mark.parametrize("at_once", [1, 9, 40, 10_000])
def test_batches_keep_every_window_in_order_and_arrays_of_a_tree_beside_each_other(count: int, at_once: int) -> None:
    windows = np.arange(count * 9).reshape(count, 9)
    beside, targets = in_batches((windows, windows[:, 1:]), at_once)
    np.testing.assert_array_equal(beside[..., 1:], targets)
    for batches in (beside, in_full_batches(windows, at_once)):
        np.testing.assert_array_equal(batches.reshape(-1, 9)[:count], windows)
        assert batches.shape[1] * 9 <= max(at_once, 9)
    assert beside.size == windows.size
    assert in_full_batches(windows, at_once).size < windows.size + max(at_once, 9)


def test_a_batch_is_as_large_as_divides() -> None:
    assert in_batches(np.zeros((100, 65), np.int32), 5000).shape == (2, 50, 65)
    assert in_batches(np.zeros((7, 65), np.int32), 200).shape == (7, 1, 65)
    assert in_full_batches(np.zeros((7, 65), np.int32), 200).shape == (3, 3, 65)


def measured(batches: np.ndarray, text: int = 1) -> list[Any]:
    """Losses and statistics of two models, as members of an ensemble, as studies evaluate them."""

    def job(params: Decoder, row: PositionTables, batches: jax.Array) -> Any:
        return evaluate(params, row, batches, CONFIG, of_layer=of_layer)

    mesh = make_mesh(arm=2, text=text)
    with jax.set_mesh(mesh):
        of_models = [drawn(lambda: init_decoder(jax.random.key(0), CONFIG), seed) for seed in range(2)], [tables(MODEL, 12)] * 2
        weights, rows = (stack(jax.device_get(trees), mesh) for trees in of_models)
        return unstack(over_arms(job)(weights, rows, share(batches, mesh)), 2)


def test_neither_batches_nor_devices_that_share_a_text_change_what_is_measured(in_use: None) -> None:  # noqa: ARG001
    windows = np.random.default_rng(0).integers(0, 11, (6, 13)).astype(np.int32)
    whole = measured(windows[None])
    assert whole[0][0].shape == (6, 12)
    assert {value.shape for value in whole[0][1].values()} == {(1, 2)}
    same = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
    jax.tree.map(same, measured(windows.reshape(2, 3, 13), text=4), whole)


@pytest.mark.parametrize(("logits_at_once", "tokens"), [(10_000, 12), (2 * 11 * 5, 4), (1, 1)])
def test_values_of_targets_do_not_depend_on_how_many_logits_exist_at_once(
    mesh: Mesh,  # noqa: ARG001
    logits_at_once: int,
    tokens: int,
) -> None:
    params = drawn(lambda: init_decoder(jax.random.key(0), CONFIG))
    x, targets = numbers(3, 2, 12, 16), jnp.asarray(np.random.default_rng(0).integers(0, 11, (2, 12)))
    sizes = []

    def of_target(scores: jax.Array, ids: jax.Array) -> dict[str, jax.Array]:
        sizes.append(scores.shape[1])
        return {"loss": token_losses(scores, ids), "right": jnp.argmax(scores, axis=-1) == ids}

    values = of_targets(params, x, targets, CONFIG, of_target, logits_at_once)
    assert set(sizes) == {tokens}
    whole = of_target(unembed(params, x, CONFIG), targets)
    np.testing.assert_allclose(values["loss"], whole["loss"], rtol=1e-5)
    np.testing.assert_array_equal(values["right"], whole["right"])


@pytest.mark.slow
def test_memory_grows_linearly_with_the_length(mesh: Mesh) -> None:  # noqa: ARG001
    """From 4096 tokens to twice as many, XLA's buffers at most double, and a little."""
    params = jax.eval_shape(lambda: init_decoder(jax.random.key(0), CONFIG))

    def needed(length: int) -> int:
        def measured_at(params: Decoder, batches: jax.Array) -> object:
            return evaluate(params, tables(MODEL, 12, length), batches, CONFIG, of_layer=of_layer)

        shape = jax.ShapeDtypeStruct((2, 1, length + 1), jnp.int32)
        memory = jax.jit(measured_at).lower(params, shape).compile().memory_analysis()
        assert memory is not None
        return memory.temp_size_in_bytes

    near, far = needed(4096), needed(8192)
    assert far < 2.2 * near
    assert near < 4096 * 4096  # bytes: not one byte a score of a single head


def trace(tokens: int, **fields: Any) -> LayerTrace:
    """A layer of two heads whose queries give each of the keys that they see the same attention."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, tokens + 1)
    by_query = jnp.asarray(np.tile(shares, (1, 2, 1)), jnp.float32)
    attention = AttentionStatistics(by_query, jnp.zeros_like(by_query), -jnp.log(by_query), by_query)
    residual, value = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((1, tokens, 4), (1, tokens, 2, 4)))
    parts = {"query": None, "key": None, "gate": None, "value_norm": jnp.linalg.norm(value, axis=-1)} | fields
    return LayerTrace(attention=attention, value=value, residual=residual, output=residual, **parts)


def test_far_mass_is_of_the_later_half_of_the_queries() -> None:
    statistics = attention_statistics(trace(12))
    np.testing.assert_allclose(statistics[reading("far_mass")], [np.mean(1 / np.arange(7, 13))] * 2, rtol=1e-6)
    np.testing.assert_allclose(statistics[reading("entropy")], [np.mean(np.log(np.arange(1, 13)))] * 2, rtol=1e-6)


def test_gates_under_a_tenth_are_closed() -> None:
    gate = jnp.tile(jnp.array([[0.05, 0.15], [0.3, 0.25]])[None], (1, 6, 1))  # [B, T, gates]
    statistics = layer_statistics(trace(12, gate=gate))
    np.testing.assert_allclose(statistics[reading("gate_mean")], [0.175, 0.2], rtol=1e-6)
    np.testing.assert_allclose(statistics[reading("gate_closed")], [0.5, 0])


def test_norm_ratios_need_a_token_after_the_first_ones() -> None:
    norms = jnp.ones((1, START + 2, 2)).at[0, 0].set(jnp.array([0.2, 3.0]))
    statistics = layer_statistics(trace(START + 2, value_norm=norms))
    np.testing.assert_allclose(statistics[reading("value_drain_ratio")], [0.2, 3.0], rtol=1e-6)
    assert layer_statistics(trace(START)).keys() == {reading("activation_ratio")}


@pytest.mark.usefixtures("mesh")
def test_statistics_of_keys_need_scores_that_are_products() -> None:
    heads = jnp.asarray(np.random.default_rng(1).normal(size=(1, 12, 2, 4)), jnp.float32)
    of_keys = {"key_norm_ratio", "key_cosine", "key_cosine_others", "logit_gap", "key_outside", "key_dims"}
    with_keys, without = (attention_statistics(trace(12, **fields)) for fields in ({"query": heads, "key": heads}, {}))
    assert with_keys.keys() - without.keys() == {reading(name) for name in of_keys}
