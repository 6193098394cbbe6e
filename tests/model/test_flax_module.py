"""The nnx module computes what the functions compute, and trains like any other."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from leadline.model.context import Context
from leadline.model.decoder import apply_decoder
from leadline.model.embedding import token_losses
from leadline.model.flax_module import DecoderModule
from tests.model.weights import CONFIG, VARIANTS, rope

pytestmark = pytest.mark.usefixtures("mesh", "quick_to_compile")

GATED = replace(CONFIG, layers=1, block=VARIANTS["gate"])
TEXT = np.random.default_rng(1).integers(0, 29, (2, 9))


@pytest.fixture(scope="module")
def decoder():
    return nnx.jit(lambda: DecoderModule(GATED, rngs=nnx.Rngs(params=0), sink_logit=0.0))()


def sink(trace):
    return trace.attention.sink


@pytest.mark.parametrize("padding", [None, jnp.broadcast_to(jnp.arange(9) >= 4, (2, 9))], ids=["whole", "with padding"])
def test_module_equals_functions(decoder, padding):
    outputs = nnx.jit(lambda m: m(jnp.asarray(TEXT), rope(1), padding=padding, measure=sink))(decoder)
    context = Context(padding=padding)
    function = jax.jit(lambda p: apply_decoder(p, jnp.asarray(TEXT), rope(1), GATED, context=context, measure=sink))
    for ours, theirs in zip(outputs, function(decoder.weights.get_value()), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert jnp.all(outputs[1][..., 4:] > 0)


def test_the_optimisers_of_nnx_reach_every_weight(decoder):
    before = jax.device_get(decoder.weights.get_value())
    optimizer = nnx.Optimizer(decoder, optax.sgd(0.1), wrt=nnx.Param)

    @nnx.jit
    def step(decoder: DecoderModule, optimizer: nnx.Optimizer):
        def mean_loss(decoder: DecoderModule):
            text = jnp.asarray(TEXT)
            return jnp.mean(token_losses(decoder(text[:, :-1], rope(1))[0], text[:, 1:]))

        loss, gradients = nnx.value_and_grad(mean_loss)(decoder)
        optimizer.update(decoder, gradients)
        return loss

    losses = [step(decoder, optimizer).item() for _ in range(2)]
    assert losses[1] < losses[0]
    after = jax.device_get(decoder.weights.get_value())
    assert all(np.abs(a - b).max() > 0 for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(before), strict=True))
