"""The nnx module computes what the functions compute, and trains like any other."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from model.block import BlockConfig
from model.decoder import DecoderConfig, apply_decoder
from model.embedding import token_losses
from model.flax_module import DecoderModule
from model.positions.rope_scaling import inverse_frequencies
from model.positions.tables import position_tables

pytestmark = pytest.mark.usefixtures("mesh")

CONFIG = DecoderConfig(
    vocabulary=11, layers=2, block=BlockConfig(width=16, heads=4, kv_heads=2, head_dim=8, hidden=32, gate="output_headwise")
)


def tables():
    return position_tables(2, 4, 8, inverse_frequencies=inverse_frequencies(8, 1e3))


def text():
    return jax.random.randint(jax.random.key(1), (2, 9), 0, 11)


def test_module_and_functions_give_equal_logits_and_measurements():
    module = DecoderModule(CONFIG, rngs=nnx.Rngs(params=0), extra_logit=0.0)
    found = nnx.jit(lambda m, x: m(x, tables(), measure=lambda trace: trace.attention.extra))(module, text())
    expected = jax.jit(lambda p, x: apply_decoder(p, x, tables(), CONFIG, measure=lambda trace: trace.attention.extra))(
        module.weights.get_value(), text()
    )
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert jnp.all(found[1] > 0)


def test_padding_reaches_the_attention():
    module = DecoderModule(CONFIG, rngs=nnx.Rngs(params=0))
    padding = jnp.broadcast_to(jnp.arange(9) >= 4, (2, 9))
    padded, _ = module(text(), tables(), padding=padding)
    assert np.abs(padded - module(text(), tables())[0]).max() > 1e-3


def test_gradients_and_optimisers_of_nnx_reach_every_weight():
    module = DecoderModule(CONFIG, rngs=nnx.Rngs(params=0), extra_logit=0.0)
    before = jax.device_get(module.weights.get_value())
    optimizer = nnx.Optimizer(module, optax.sgd(0.1), wrt=nnx.Param)

    @nnx.jit
    def step(module, optimizer, x):
        loss = lambda m: jnp.mean(token_losses(m(x[:, :-1], tables())[0], x[:, 1:]))  # noqa: E731
        value, gradients = nnx.value_and_grad(loss)(module)
        optimizer.update(module, gradients)
        return value

    losses = [step(module, optimizer, text()).item() for _ in range(3)]
    assert losses[2] < losses[1] < losses[0]
    after = jax.device_get(module.weights.get_value())
    assert all(np.abs(a - b).max() > 0 for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(before), strict=True))
