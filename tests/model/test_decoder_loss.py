"""The loss by chunks of tokens against that of all logits: value, and gradients by weights and residual stream."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.decoder import Decoder, DecoderConfig, unembed
from leadline.model.decoder_loss import chunk_tokens, decoder_loss
from leadline.model.embedding import token_losses
from leadline.model.mesh import make_mesh
from tests.model.naive import numbers
from tests.model.weights import CONFIG, weights

pytestmark = pytest.mark.usefixtures("quick_to_compile")
B, T = 2, 10
HEADS = {
    "tied": replace(CONFIG, tied=True),
    "its own unembedding, bias, cap": replace(CONFIG, unembedding_bias=True, final_cap=5.0),
    "no final norm": replace(CONFIG, final_norm=False),
}
TARGETS = jnp.asarray(np.random.default_rng(1).integers(0, CONFIG.vocabulary, (B, T)), jnp.int32)
WEIGHTS = jnp.abs(numbers(2, B, T))


def whole(p: Decoder, x: jax.Array, cfg: DecoderConfig, weighted: jax.Array | None, smoothing: float) -> jax.Array:
    losses = token_losses(unembed(p, x, cfg), TARGETS, smoothing)
    return jnp.mean(losses) if weighted is None else jnp.sum(losses * weighted) / jnp.sum(weighted)


def value_and_gradients(function: Any, p: Decoder, x: jax.Array) -> Any:
    return jax.device_get(jax.jit(jax.value_and_grad(lambda p, x: 3 * function(p, x), argnums=(0, 1)))(p, x))


def agree(computed: Any, expected: Any) -> None:
    for a, b in zip(jax.tree.leaves(computed), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("chunk", [1, 5, 4, 10])
@pytest.mark.parametrize("weighted", [None, WEIGHTS], ids=["mean", "weighted"])
@pytest.mark.parametrize("head", HEADS)
def test_value_and_gradients_are_those_of_all_logits(head: str, weighted: jax.Array | None, chunk: int) -> None:
    """Chunks that divide a text, and a last one that is not full."""
    cfg, x = HEADS[head], numbers(3, B, T, CONFIG.block.width)
    p = weights(cfg)
    smoothing = 0.1 if head == "tied" else 0.0
    by_chunks = value_and_gradients(lambda p, x: decoder_loss(p, x, TARGETS, weighted, cfg, smoothing, chunk), p, x)
    agree(by_chunks, value_and_gradients(lambda p, x: whole(p, x, cfg, weighted, smoothing), p, x))


def test_gradients_of_chunks_have_the_types_of_weights_and_residual_stream() -> None:
    p, x = weights(), numbers(3, B, T, CONFIG.block.width).astype(jnp.bfloat16)
    (value, gradients), (expected, of_all) = (
        value_and_gradients(lambda p, x, chunk=chunk: decoder_loss(p, x, TARGETS, None, CONFIG, chunk=chunk), p, x)
        for chunk in (4, T)
    )
    np.testing.assert_allclose(value, expected, rtol=1e-3)
    ratio = [np.asarray(of_x, np.float64) for _, of_x in (gradients, of_all)]
    assert np.vdot(ratio[0], ratio[1]) / np.vdot(ratio[1], ratio[1]) == pytest.approx(1, abs=5e-4)
    jax.tree.map(lambda leaf, given: np.testing.assert_equal(leaf.dtype, given.dtype), gradients, (p, x))


@pytest.mark.parametrize("chunk", [4, T])
def test_no_gradient_goes_through_the_weights_of_targets(chunk: int) -> None:
    x, p = numbers(3, B, T, CONFIG.block.width), weights()
    of_weights = jax.grad(lambda w: decoder_loss(p, x, TARGETS, w, CONFIG, chunk=chunk))(WEIGHTS)
    np.testing.assert_array_equal(of_weights, 0)


def test_members_of_an_ensemble_have_their_own_chunks() -> None:
    x, p = numbers(4, 3, B, T, CONFIG.block.width), weights()

    def loss(chunk: int) -> Any:
        return jax.vmap(jax.value_and_grad(lambda x: decoder_loss(p, x, TARGETS, None, CONFIG, chunk=chunk)))(x)

    agree(loss(4), loss(T))


def test_no_array_has_a_logit_for_each_token() -> None:
    x, p = numbers(5, B, T, CONFIG.block.width), weights()
    for chunk, found in ((2, False), (T, True)):
        program = jax.make_jaxpr(jax.grad(lambda x, chunk=chunk: decoder_loss(p, x, TARGETS, None, CONFIG, chunk=chunk)))(x)
        assert (f"f32[{B},{T},{CONFIG.vocabulary}]" in str(program)) is found


def test_a_mesh_that_divides_texts_gives_the_same() -> None:
    x, p = numbers(6, B, T, CONFIG.block.width), weights()

    def both() -> Any:
        return value_and_gradients(lambda p, x: decoder_loss(p, x, TARGETS, None, CONFIG), p, x)

    expected = both()
    with jax.set_mesh(make_mesh(data=2)):
        agree(both(), expected)


@pytest.mark.parametrize(
    ("mesh", "tokens"), [({}, 128), ({"arm": 2}, 128), ({"data": 2}, 256), ({"model": 2}, 256), ({"text": 2}, 256)]
)
def test_a_mesh_that_divides_texts_tokens_or_weights_takes_all_tokens_at_once(mesh: Any, tokens: int) -> None:
    """A chunk of 4 texts has 512 tokens in all; one of several models is cut as on a device of its own."""
    with jax.set_mesh(make_mesh(**mesh)):
        assert chunk_tokens(4, 256, 2**18) == tokens


def test_a_large_vocabulary_is_cut_and_a_small_one_is_not() -> None:
    """By the loops of the program."""
    for vocabulary, loops in ((16, 0), (2**18, 1)):
        cfg = replace(CONFIG, vocabulary=vocabulary)
        p = jax.eval_shape(lambda cfg=cfg: weights(cfg))
        x, ids = jax.ShapeDtypeStruct((4, 256, CONFIG.block.width), "float32"), jax.ShapeDtypeStruct((4, 256), "int32")
        program = jax.make_jaxpr(lambda p, x, ids, cfg=cfg: decoder_loss(p, x, ids, None, cfg))(p, x, ids)
        assert str(program).count("scan[") == loops
