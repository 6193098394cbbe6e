"""The gradient from the log-sum-exp against JAX's own of whole matrices in float64, and what it keeps."""

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads
from jax.tree_util import Partial

from leadline.model.attention.attention import attention, form
from leadline.model.attention.mask import NO_WINDOW, Mask
from leadline.model.attention.normalizers import softpick
from leadline.model.attention.scores import Scores
from leadline.model.mesh import HEADS, TEXTS, make_mesh
from tests.model.naive import random_heads, tiling

pytestmark = pytest.mark.usefixtures("mesh")

# (seed, batch, tokens, query heads, key heads, channels): one block, blocks of one chunk, several chunks of several blocks.
SHAPES = {"block": (1, 2, 7, 2, 2, 4), "chunks": (2, 1, 16, 4, 1, 6), "blocks": (3, 2, 39, 4, 2, 8)}
LOGITS = (0.5, -jnp.inf, 2.0, 0.0)
SLOPES = (0.0, 0.3, 0.05, 1.0)


def exact(arguments, sight, padding, w):
    """Σ w ⊙ out, all scores at once; float64 where JAX has it on."""
    q, k, v, logits, slopes = (arguments[name] for name in ("q", "k", "v", "sink_logit", "slopes"))
    shared = q.shape[2] // k.shape[2]
    k, v = (jnp.repeat(x, shared, axis=2) for x in (k, v))
    distance = jnp.arange(q.shape[1])[:, None] - jnp.arange(q.shape[1])[None, :]
    scores = jnp.einsum("bqnh,bsnh->bnqs", q, k) / jnp.sqrt(jnp.asarray(q.shape[-1], q.dtype))
    scores = scores - slopes[None, :, None, None] * distance.astype(q.dtype)[None, None]
    window, initial_tokens = sight
    visible = (distance >= 0) & ((distance < window) | (jnp.arange(q.shape[1]) < initial_tokens)[None, :])
    visible = visible[None, None] & padding[:, None, None, :]
    column = jnp.broadcast_to(logits[None, :, None, None], (*scores.shape[:3], 1))
    hidden = -1e30  # of -inf alone the log-sum-exp has no derivative
    scores = jnp.concatenate([jnp.where(visible, scores, hidden), jnp.maximum(column, hidden)], axis=-1)
    out = jnp.einsum("bnqs,bsnh->bqnh", jax.nn.softmax(scores, axis=-1)[..., :-1], v)
    return jnp.sum(w * out), jnp.where(padding[:, :, None, None], out, 0)


def ours(arguments, sight, padding, w, form=None):
    scores = Scores(sink_logit=arguments["sink_logit"], slopes=arguments["slopes"])
    q, k, v = (arguments[name] for name in ("q", "k", "v"))
    out, _ = attention(q, k, v, Mask(*sight, padding=padding), scores, tiling=tiling(form))
    return jnp.sum(w * out), jnp.where(padding[:, :, None, None], out, 0)


def gradient_of(form):
    return jax.grad(functools.partial(ours, form=form), has_aux=True)


def case(shape):
    q, k, v = random_heads(*shape)
    heads, tokens = shape[3], shape[2]
    w = jnp.asarray(np.random.default_rng(9).standard_normal(q.shape), jnp.float32)
    padding = jnp.arange(tokens)[None, :] >= jnp.arange(shape[1])[:, None] * 3  # the second text begins later
    # Rows that see nothing give nothing; the softmax of whole matrices would spread evenly over what is hidden.
    w = w * padding[:, :, None, None].astype(jnp.float32)
    values = {"sink_logit": jnp.asarray(LOGITS[:heads]), "slopes": jnp.asarray(SLOPES[:heads])}
    return {"q": q, "k": k, "v": v, **values}, padding, w


FORMS_OF_SHAPES = [*itertools.product(SHAPES, (None, 8, 12, (8, 16))), ("blocks", (16, 8))]  # a window of 5 skips tiles


@pytest.mark.parametrize(("shape", "form"), FORMS_OF_SHAPES)
def test_value_and_all_gradients_are_those_of_whole_matrices_in_float64(shape, form):
    arguments, padding, w = case(SHAPES[shape])
    gradient, whole = jax.jit(gradient_of(form)), jax.jit(jax.grad(exact, has_aux=True))
    for sight in ((5, 0), (5, 3), (5, 14), (NO_WINDOW, 0)):
        gradients, out = gradient(arguments, jax.tree.map(jnp.int32, sight), padding, w)
        with jax.enable_x64(True):
            wide = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), (arguments, w))
            expected = jax.device_get(whole(wide[0], sight, padding, wide[1]))
        found = jax.tree_util.tree_leaves_with_path((gradients, out))
        for (path, leaf), other in zip(found, jax.tree.leaves(expected), strict=True):
            error = np.abs(np.asarray(leaf) - other).max() / max(1.0, np.abs(other).max())
            assert error < 5e-6, f"window and initial tokens {sight}, {jax.tree_util.keystr(path)}"


@pytest.mark.parametrize("form", [None, 8, (8, 16)])
def test_gradients_of_bfloat16_are_those_of_float32_to_its_rounding(form):
    """2^-8 of the largest, a few times over: p, dS and what comes in are rounded before they are multiplied."""
    arguments, padding, w = case(SHAPES["blocks"])
    w = w.astype(jnp.bfloat16)
    rounded = arguments | {name: arguments[name].astype(jnp.bfloat16) for name in ("q", "k", "v")}
    sight = (jnp.int32(14), jnp.int32(3))
    found = jax.jit(jax.grad(lambda given: ours(given, sight, padding, w, form)[0]))(rounded)
    wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), rounded)
    expected = jax.jit(jax.grad(lambda given: exact(given, sight, padding, w.astype(jnp.float32))[0]))(wide)
    for name, other in expected.items():
        assert found[name].dtype == rounded[name].dtype
        assert jnp.abs(found[name].astype(jnp.float32) - other).max() < 0.02 * jnp.abs(other).max(), name


@pytest.mark.parametrize("form", [8, (8, 16)])
def test_windows_and_initial_tokens_are_swept_in_one_program(form):
    """Under vmap loops over tiles end where the widest ends, and kernels have an axis more."""
    arguments, padding, w = case(SHAPES["blocks"])
    gradient = jax.jit(gradient_of(form))
    sights = jnp.asarray([5, NO_WINDOW, 1, 9]), jnp.asarray([0, 0, 3, 20])
    swept = jax.jit(jax.vmap(gradient_of(form), in_axes=(None, 0, None, None)))(arguments, sights, padding, w)
    for number in range(4):
        alone = gradient(arguments, jax.tree.map(lambda leaf, n=number: leaf[n], sights), padding, w)
        member = jax.tree.map(lambda leaf, n=number: leaf[n], swept)
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-5), member, alone)


@pytest.mark.parametrize("form", [8, (8, 16)])
def test_tiles_are_sharded_as_heads_and_texts_are(form):
    arguments, padding, w = case(SHAPES["blocks"])
    gradient = jax.jit(gradient_of(form))
    sight = jnp.int32(5), jnp.int32(2)
    expected = jax.device_get(gradient(arguments, sight, padding, w))
    given = jax.device_get((arguments, sight, padding, w))
    four = make_mesh(data=2, model=2)
    with jax.set_mesh(four):
        specs = {"q": HEADS, "k": HEADS, "v": HEADS, "sink_logit": P("model"), "slopes": P("model")}
        shardings = jax.tree.map(lambda spec: NamedSharding(four, spec), (specs, (P(), P()), TEXTS, HEADS))
        found = jax.device_get(gradient(*jax.device_put(given, shardings)))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-5), found, expected)


def test_a_statistic_has_its_gradient_too():
    """What goes to the first token is no function of the output: it is differentiated as it stands."""
    q, k, v = random_heads(*SHAPES["blocks"])

    @jax.jit
    def first(q):
        return jnp.sum(jnp.sin(attention(q, k, v, scores=Scores(sink_logit=0.0), tiling=tiling(None))[1].first))

    check_grads(first, (q,), order=1, modes=("rev",), atol=2e-3, rtol=2e-3, eps=1e-2)


def test_nothing_as_large_as_the_scores_is_kept():
    """Between forward and backward pass of 39 tokens there is no array with two axes of tokens."""
    arguments, padding, w = case(SHAPES["blocks"])
    _, backward = jax.vjp(lambda given: ours(given, (jnp.int32(NO_WINDOW), 0), padding, w), arguments)
    saved = [leaf.size for leaf in jax.tree.leaves(backward)]
    assert max(saved) <= arguments["q"].size


def test_tiles_that_nothing_sees_cost_nothing():
    """Scores behind a window would make NaN of everything: keys and values there are NaN."""
    q, k, v = random_heads(4, 1, 64, 2, 1, 4)
    hidden = ((jnp.arange(64) >= 8) & (jnp.arange(64) < 32))[None, :, None, None]
    k, v = (jnp.where(hidden, jnp.nan, x) for x in (k, v))

    def last(q, k, v):
        """Of queries whose windows begin behind what is hidden."""
        return jnp.sum(attention(q, k, v, Mask(6, 3), tiling=tiling(8))[0][:, 40:])

    found = jax.jit(jax.grad(last))(q, k, v)[:, 40:]
    assert np.isfinite(found).all()
    assert np.abs(found).max() > 0


FORMS = {
    "chunks": {"queries": 1024, "keys": 1024, "device": "cpu"},
    "tiles": {"queries": 1025, "keys": 1025, "device": "cpu"},
    "tiles of a part of a text": {"queries": 8, "keys": 64, "device": "cpu"},
    "kernel": {"queries": 8, "keys": 64, "device": "gpu"},
    "chunks, for too many channels": {"queries": 1024, "keys": 1024, "device": "gpu", "channels": 320},
    "differentiated, of capped scores": {"queries": 8, "keys": 8, "device": "gpu", "scores": Scores(cap=jnp.float32(3))},
    "differentiated, of a biased key": {
        "queries": 2048,
        "keys": 2048,
        "device": "cpu",
        "scores": Scores(key_bias=jnp.zeros((1, 4))),
    },
    "differentiated, of no softmax": {"queries": 8, "keys": 8, "device": "cpu", "scores": Scores(normalizer=Partial(softpick))},
}


@pytest.mark.parametrize("expected", FORMS)
def test_shapes_device_and_scores_decide_the_form(expected):
    arguments: dict[str, Any] = {"channels": 64, "itemsize": 2} | FORMS[expected]
    assert expected.startswith(form(**arguments))
