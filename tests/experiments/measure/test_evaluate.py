"""Windows into batches, and a model measured on them."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from leadline.experiments.config.measure import SinkRate
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import Rope
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.evaluate import Statistics, evaluate, in_batches, in_full_batches
from leadline.experiments.measure.layers import sink_statistics
from leadline.experiments.runtime.ensemble import over_arms, share, stack, unstack
from leadline.model.block import LayerTrace
from leadline.model.decoder import Decoder, init_decoder
from leadline.model.mesh import make_mesh
from leadline.model.positions.tables import PositionTables

MODEL = ModelConfig(layers=1, width=16, heads=2, hidden=16, position=Rope(base=100.0))


def of_layer(trace: LayerTrace, tokens: jax.Array) -> Statistics:  # noqa: ARG001
    return sink_statistics(trace, SinkRate(length=12))


@pytest.mark.parametrize("count", [1, 7, 12, 100])
@pytest.mark.parametrize("at_once", [1, 9, 40, 10_000])
def test_batches_keep_every_window_in_order(count: int, at_once: int) -> None:
    windows = np.arange(count * 9).reshape(count, 9)
    for batches in (in_batches(windows, at_once), in_full_batches(windows, at_once)):
        np.testing.assert_array_equal(batches.reshape(-1, 9)[:count], windows)
        assert batches.shape[1] * 9 <= max(at_once, 9)
    assert in_batches(windows, at_once).size == windows.size
    assert in_full_batches(windows, at_once).size < windows.size + max(at_once, 9)


def test_a_batch_is_as_large_as_divides() -> None:
    assert in_batches(np.zeros((100, 65), np.int32), 5000).shape == (2, 50, 65)
    assert in_batches(np.zeros((7, 65), np.int32), 200).shape == (7, 1, 65)
    assert in_full_batches(np.zeros((7, 65), np.int32), 200).shape == (3, 3, 65)


def test_arrays_of_a_tree_stay_beside_each_other() -> None:
    tokens = np.arange(60).reshape(6, 10)
    ids, weights = in_batches((tokens, tokens[:, 1:]), 30)
    assert (ids.shape, weights.shape) == ((2, 3, 10), (2, 3, 9))
    np.testing.assert_array_equal(ids[..., 1:], weights)


def test_batches_do_not_change_what_is_measured(mesh: Mesh) -> None:  # noqa: ARG001
    cfg = decoder_config(MODEL, 11, 12)
    params = init_decoder(jax.random.key(0), cfg)
    windows = np.random.default_rng(0).integers(0, 11, (6, 13))

    def measured(batch: int) -> tuple[np.ndarray, dict[Any, np.ndarray]]:
        batches = jnp.asarray(windows.reshape(-1, batch, 13), jnp.int32)
        run = jax.jit(lambda batches: evaluate(params, tables(MODEL, 12), batches, cfg, of_layer=of_layer))
        return jax.device_get(run(batches))

    (losses, layers), (losses_again, layers_again) = measured(6), measured(2)
    np.testing.assert_allclose(losses_again, losses, rtol=1e-5)
    assert losses.shape == (6, 12)
    for key, value in layers.items():
        assert value.shape == (1, 2)
        np.testing.assert_allclose(layers_again[key], value, rtol=1e-5, atol=1e-7, err_msg=str(key))


def test_devices_that_share_a_text_measure_the_same(in_use: None) -> None:  # noqa: ARG001
    """As members of an ensemble, as studies evaluate them."""
    cfg = decoder_config(MODEL, 11, 12)
    batches = np.random.default_rng(0).integers(0, 11, (2, 3, 13)).astype(np.int32)

    def measured(text: int) -> list[Any]:
        def job(params: Decoder, row: PositionTables, batches: jax.Array) -> Any:
            return evaluate(params, row, batches, cfg, of_layer=of_layer)

        mesh = make_mesh(arm=2, text=text)
        with jax.set_mesh(mesh):
            own = [init_decoder(jax.random.key(seed), cfg) for seed in range(2)], [tables(MODEL, 12)] * 2
            weights, rows = (stack(jax.device_get(trees), mesh) for trees in own)
            return unstack(over_arms(job)(weights, rows, share(batches, mesh)), 2)

    assert_equal = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
    jax.tree.map(assert_equal, measured(4), measured(1))


def test_memory_grows_linearly_with_the_length(mesh: Mesh) -> None:  # noqa: ARG001
    """From 32 times 128 tokens to 64 times, XLA's buffers at most double, and a little."""
    cfg = decoder_config(MODEL, 11, 128)
    params = jax.eval_shape(lambda: init_decoder(jax.random.key(0), cfg))

    def needed(length: int) -> int:
        def measured(params: Decoder, batches: jax.Array) -> object:
            return evaluate(params, tables(MODEL, 128, length), batches, cfg, of_layer=of_layer)

        shape = jax.ShapeDtypeStruct((2, 1, length + 1), jnp.int32)
        memory = jax.jit(measured).lower(params, shape).compile().memory_analysis()
        assert memory is not None
        return memory.temp_size_in_bytes

    near, far = needed(4096), needed(8192)
    assert far < 2.2 * near
    assert near < 4096 * 4096  # bytes: not one byte a score of a single head
