"""Windows into batches, and a model measured on them."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from experiments.build import decoder_config
from experiments.config.model import ModelConfig
from experiments.config.position import Rope
from experiments.evaluate import evaluate, evaluate_tokens, in_batches
from experiments.measure.layers import layer_statistics
from experiments.measure.perplexity import mean_loss
from experiments.population import over_arms, share, stack, unstack
from experiments.position_tables import tables
from model.decoder import Decoder, init_decoder
from model.mesh import make_mesh
from model.positions.tables import PositionTables

MODEL = ModelConfig(layers=1, width=16, heads=2, hidden=16, position=Rope(base=100.0))


@pytest.mark.parametrize("count", [1, 7, 12, 100])
@pytest.mark.parametrize("at_once", [1, 9, 40, 10_000])
def test_in_batches_keeps_every_window_in_order(count: int, at_once: int) -> None:
    windows = np.arange(count * 9).reshape(count, 9)
    found = in_batches(windows, at_once)
    np.testing.assert_array_equal(found.reshape(-1, 9), windows)
    assert found.shape[1] * 9 <= max(at_once, 9)


def test_a_batch_is_as_large_as_divides() -> None:
    assert in_batches(np.zeros((100, 65), np.int32), 5000).shape == (2, 50, 65)
    assert in_batches(np.zeros((7, 65), np.int32), 200).shape == (7, 1, 65)


def test_batches_do_not_change_what_is_measured(mesh: Mesh) -> None:  # noqa: ARG001
    cfg = decoder_config(MODEL, 11, 12)
    params = init_decoder(jax.random.key(0), cfg)
    windows = np.random.default_rng(0).integers(0, 11, (6, 13))

    def measured(batch: int) -> dict[str, np.ndarray]:
        batches = jnp.asarray(windows.reshape(-1, batch, 13), jnp.int32)
        found = jax.jit(
            lambda batches: evaluate(
                params,
                tables(MODEL, 12),
                batches,
                cfg,
                of_layer=lambda trace, tokens: layer_statistics(trace, token=1, epsilon=0.3),  # noqa: ARG005
                of_losses=lambda losses, tokens: {"loss": mean_loss(losses)},  # noqa: ARG005
            )
        )(batches)
        return jax.device_get(found)

    whole, parts = measured(6), measured(2)
    assert whole["sink_rate"].shape == (1, 2)
    assert whole["activation_ratio"].shape == (1,)
    assert whole["loss"].shape == ()
    assert whole.keys() == parts.keys()
    for name, value in whole.items():
        np.testing.assert_allclose(parts[name], value, rtol=1e-5, atol=1e-7, err_msg=name)


def test_devices_that_share_a_text_measure_the_same(in_use: None) -> None:  # noqa: ARG001
    """As members of a population, as studies evaluate them."""
    cfg = decoder_config(MODEL, 11, 12)
    batches = np.random.default_rng(0).integers(0, 11, (2, 3, 13)).astype(np.int32)

    def measured(text: int) -> list[Any]:
        def job(params: Decoder, row: PositionTables, batches: jax.Array) -> Any:
            of_layer = functools.partial(layer_statistics, token=1, epsilon=0.3)
            return evaluate_tokens(params, row, batches, cfg, of_layer=lambda trace, _: of_layer(trace))

        mesh = make_mesh(arm=2, text=text)
        with jax.set_mesh(mesh):
            own = [init_decoder(jax.random.key(seed), cfg) for seed in range(2)], [tables(MODEL, 12)] * 2
            weights, rows = (stack(jax.device_get(trees), mesh) for trees in own)
            return unstack(over_arms(job)(weights, rows, share(batches, mesh)), 2)

    assert_equal = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
    jax.tree.map(assert_equal, measured(4), measured(1))
