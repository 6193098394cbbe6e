"""The nnx module computes what the functions compute, and trains like any other."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from leadline.model.attention.gate import GateConfig
from leadline.model.block import BlockConfig
from leadline.model.decoder import DecoderConfig, apply_decoder
from leadline.model.embedding import token_losses
from leadline.model.flax_module import DecoderModule
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.tables import position_tables

pytestmark = pytest.mark.usefixtures("mesh")

CONFIG = DecoderConfig(
    vocabulary=11,
    layers=1,
    block=BlockConfig(width=16, heads=4, kv_heads=2, head_dim=8, hidden=32, gate=GateConfig("output", "head")),
)


def tables():
    return position_tables(1, 4, 8, inverse_frequencies=inverse_frequencies(8, 1e3))


def text():
    return jax.random.randint(jax.random.key(1), (2, 9), 0, 11)


def test_module_equals_functions_and_trains():
    decoder = nnx.jit(lambda: DecoderModule(CONFIG, rngs=nnx.Rngs(params=0), sink_logit=0.0))()
    found = nnx.jit(lambda m, x: m(x, tables(), measure=lambda trace: trace.attention.sink))(decoder, text())
    expected = jax.jit(lambda p, x: apply_decoder(p, x, tables(), CONFIG, measure=lambda trace: trace.attention.sink))(
        decoder.weights.get_value(), text()
    )
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert jnp.all(found[1] > 0)
    check_training(decoder)


def check_training(decoder: DecoderModule) -> None:
    """Padding reaches the attention, and the optimisers of nnx every weight."""
    before = jax.device_get(decoder.weights.get_value())
    optimizer = nnx.Optimizer(decoder, optax.sgd(0.1), wrt=nnx.Param)
    padding = jnp.broadcast_to(jnp.arange(8) >= 4, (2, 8))

    @nnx.jit
    def step(decoder: DecoderModule, optimizer: nnx.Optimizer, x: jax.Array, padding: jax.Array):
        def mean_loss(decoder: DecoderModule):
            return jnp.mean(token_losses(decoder(x[:, :-1], tables(), padding=padding)[0], x[:, 1:]))

        loss, gradients = nnx.value_and_grad(mean_loss)(decoder)
        optimizer.update(decoder, gradients)
        return loss

    visible = jnp.ones_like(padding)
    losses = [step(decoder, optimizer, text(), mask).item() for mask in (visible, padding, visible)]
    assert losses[2] < losses[0]
    assert abs(losses[1] - losses[0]) > 1e-2
    after = jax.device_get(decoder.weights.get_value())
    assert all(np.abs(a - b).max() > 0 for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(before), strict=True))
