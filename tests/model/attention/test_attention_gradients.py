"""Gradients of attention against finite differences and against whole matrices, on every path."""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from leadline.model.attention.attention import attention
from leadline.model.attention.mask import Mask
from leadline.model.attention.normalizers import NORMALIZERS
from leadline.model.attention.scores import Scores
from tests.model.naive import random_heads, tiling, whole_attention

pytestmark = pytest.mark.usefixtures("mesh")


@pytest.fixture(scope="module", autouse=True)
def unoptimised() -> Iterator[None]:
    """Programs that take longer to optimise than to run, and are not handed to other modules."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()


FORMS = ["off by one", "learned logit", "K bias", "KV bias"]
ROWS = 8  # of a block


def sink(form):
    """The sink logit of two heads, and the key and value bias of their one key/value head; 0 is none."""
    key, value = random_heads(11, 1, 1, 1, 1, 4)[1:]
    logit = jnp.asarray([0.4, -1.0]) if form == "learned logit" else jnp.zeros(2)
    return logit, key[0, 0] * float(form in ("K bias", "KV bias")), value[0, 0] * float(form == "KV bias")


@jax.jit
def outputs(q, k, v, logit, key, value, hundred_slopes):
    """A step of 1e-2 in a slope would be one of 1 in the score of a distant key."""
    scores = Scores(sink_logit=logit, slopes=hundred_slopes / 100, key_bias=key, value_bias=value)
    out, found = attention(q, k, v, Mask(window=6), scores, tiling=tiling(None))
    return out, found.first, found.sink


def assert_gradients_are_finite_differences(f, arguments, modes=("rev",)):
    """Steps of 1e-2, with which float32 leaves an error of 1e-4 of the largest derivatives."""
    check_grads(f, arguments, order=1, modes=modes, atol=2e-3, rtol=2e-3, eps=1e-2)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("tokens", [4, ROWS + 2], ids=["one block", "two chunks"])
def test_gradients_equal_finite_differences(tokens, form):
    arguments = (*random_heads(10, 1, tokens, 2, 1, 4), *sink(form), jnp.asarray([0.0, 30.0]))
    assert_gradients_are_finite_differences(outputs, arguments, ("fwd", "rev") if tokens < ROWS else ("rev",))


@pytest.mark.parametrize("logit", [0.0, 1.5])
def test_the_log_sum_exp_of_jax_has_no_gradient(logit):
    """out · σ(lse - b) is the softmax with a sink logit b, to which jax.nn.dot_product_attention gives the value and the
    gradients in v and b, but not those in q and k: whoever fuses attention in this way fails the check that ours passes."""
    q, k, v = random_heads(10, 1, 4, 2, 2, 4)
    b = jnp.full(2, logit)

    @jax.jit
    def fused(q, k, v, b):
        out, lse = jax.nn.dot_product_attention(q, k, v, is_causal=True, return_residual=True)
        return out * jax.nn.sigmoid(lse - b[None, None])[..., None]

    @jax.jit
    def ours(q, k, v, b):
        return attention(q, k, v, scores=Scores(sink_logit=b))[0]

    def gradients(f):
        return jax.grad(lambda *arguments: jnp.sum(jnp.sin(f(*arguments))), (0, 1, 2, 3))(q, k, v, b)

    np.testing.assert_allclose(fused(q, k, v, b), ours(q, k, v, b), atol=1e-6)
    apart = [np.abs(x - y).max() for x, y in zip(gradients(fused), gradients(ours), strict=True)]
    assert min(apart[:2]) > 1e-2
    assert max(apart[2:]) < 1e-5
    assert_gradients_are_finite_differences(ours, (q, k, v, b))
    with pytest.raises(AssertionError):
        assert_gradients_are_finite_differences(fused, (q, k, v, b))


def by_number(number):
    """Every normalizer in one program: to compile one for each takes eight times as long."""
    functions = [normalizer(jnp.asarray([-0.02, 1.05])) for normalizer in NORMALIZERS.values()]
    alike = [lambda scores, logits, f=f: f(scores, logits)._replace(lse=None) for f in functions]
    return lambda scores, logits: jax.lax.switch(number, alike, scores, jnp.broadcast_to(logits, scores.shape[:-1]))


def gradients_of(attend, number, w, mask, given):
    def loss(given):
        out = attend(*given["qkv"], mask, given["scores"]._replace(normalizer=by_number(number)))
        return jnp.sum(w * jnp.where(mask.padding[:, :, None, None], out, 0))

    return jax.value_and_grad(loss)(given)


def test_gradients_of_blocks_and_chunks_are_those_of_whole_matrices_for_every_normalizer():
    q, k, v = random_heads(13, 2, 39, 4, 2, 4)
    padding = jnp.stack([jnp.arange(39) >= 11, jnp.arange(39) < 30])
    row = random_heads(14, 1, 1, 2, 2, 4)[1:]
    scores = Scores(
        sink_logit=jnp.asarray([0.5, -1.0, -jnp.inf, 0.0]),
        slopes=jnp.asarray([0.0, 0.3, 0.1, 0.0]),
        cap=jnp.float32(5.0),
        key_bias=row[0][0, 0],
        value_bias=row[1][0, 0],
    )
    w = jnp.asarray(np.random.default_rng(15).standard_normal(q.shape), jnp.float32)
    blocked = jax.jit(functools.partial(gradients_of, lambda *given: attention(*given, tiling=tiling(None))[0]))
    whole = jax.jit(functools.partial(gradients_of, whole_attention))
    for number, name in enumerate(NORMALIZERS):
        for window, initial_tokens in ((5, 0), (5, 3), (2**30, 0)):
            mask = Mask(jnp.int32(window), jnp.int32(initial_tokens), padding=padding)
            values = jnp.int32(number), w, mask, {"qkv": (q, k, v), "scores": scores}
            found, expected = blocked(*values), whole(*values)
            for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(found), jax.tree.leaves(expected), strict=True):
                what = f"{name}, window {window}, {initial_tokens} initial tokens, {jax.tree_util.keystr(path)}"
                np.testing.assert_allclose(x, y, atol=2e-5 * max(1, np.abs(y).max()), err_msg=what)
