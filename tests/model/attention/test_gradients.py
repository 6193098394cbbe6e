"""Gradients of attention on every path, against JAX's own of whole matrices and finite differences; what is kept for them."""

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads

from leadline.model.attention.attention import attention
from leadline.model.attention.mask import NO_WINDOW, Mask
from leadline.model.attention.normalizers import NORMALIZERS
from leadline.model.attention.scores import Scores
from leadline.model.mesh import HEADS, TEXTS, make_mesh
from tests.model.naive import numbers, random_heads, tiling, whole_attention

pytestmark = pytest.mark.usefixtures("mesh", "quick_to_compile")


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


# (seed, batch, tokens, query heads, key heads, channels): one block, and several chunks of several blocks.
SHAPES = {"block": (1, 2, 7, 2, 1, 6), "blocks": (3, 2, 39, 4, 2, 8)}
LOGITS = (0.5, -jnp.inf, 2.0, 0.0)
SLOPES = (0.0, 0.3, 0.05, 1.0)
# Window, initial tokens and chunk.
SIGHTS = ((5, 0, NO_WINDOW), (5, 3, NO_WINDOW), (5, 14, NO_WINDOW), (NO_WINDOW, 0, NO_WINDOW), (NO_WINDOW, 2, 6))
# A window of 5 skips tiles.
PATHS = [*itertools.product(("block", "blocks"), (None, 8, (8, 16))), *(slow("blocks", form) for form in (12, (16, 8)))]
TILES = [8, slow((8, 16))]
close = functools.partial(jax.tree.map, functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5))


def loss(arguments: Any, sight: Any, padding: Any, w: Any, attend: Any) -> Any:
    scores = Scores(scale=arguments["scale"], sink_logit=arguments["sink_logit"], slopes=arguments["slopes"])
    window, initial_tokens, chunk = sight
    mask = Mask(window, initial_tokens, padding=padding, chunk=chunk)
    out, *rest = attend(arguments["q"], arguments["k"], arguments["v"], mask, scores)
    return jnp.sum(w * out), (jnp.where(padding[:, :, None, None], out, 0), rest)


def gradient_of(form: Any, *, statistics: bool = False) -> Any:
    def attend(*given: Any) -> Any:
        return attention(*given, tiling=tiling(form))[: 1 + statistics]

    return jax.grad(functools.partial(loss, attend=attend), has_aux=True)


def case(shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Arguments, padding and weights; the second text begins later, so that some rows see nothing."""
    q, k, v = random_heads(*shape)
    padding = jnp.arange(shape[2])[None, :] >= jnp.arange(shape[1])[:, None] * 3
    given = {"q": q, "k": k, "v": v, "sink_logit": jnp.asarray(LOGITS[: shape[3]]), "slopes": jnp.asarray(SLOPES[: shape[3]])}
    given |= {"scale": jnp.float32(0.4)}
    return given, padding, numbers(9, *q.shape)


@functools.cache
def exact(shape: str) -> list[Any]:
    """For each sight, gradients and output of whole matrices in float64."""
    arguments, padding, w = case(SHAPES[shape])
    with jax.enable_x64(True):
        wide, w = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, np.float64)), (arguments, w))
        whole = jax.jit(jax.grad(functools.partial(loss, attend=lambda *given: whole_attention(*given)[:1]), has_aux=True))
        return [jax.device_get(whole(wide, sight, padding, w)) for sight in SIGHTS]


@pytest.mark.parametrize(("shape", "form"), PATHS)
def test_output_and_all_gradients_are_those_of_whole_matrices_in_float64(shape: str, form: Any) -> None:
    arguments, padding, w = case(SHAPES[shape])
    gradient = jax.jit(gradient_of(form))
    for sight, expected in zip(SIGHTS, exact(shape), strict=True):
        leaves = jax.tree_util.tree_leaves_with_path(gradient(arguments, jax.tree.map(jnp.int32, sight), padding, w))
        for (path, leaf), other in zip(leaves, jax.tree.leaves(expected), strict=True):
            error = np.abs(np.asarray(leaf) - other).max() / max(1.0, np.abs(other).max())
            assert error < 5e-6, f"window, initial tokens and chunk {sight}, {jax.tree_util.keystr(path)}"


@pytest.mark.parametrize("form", [None, (8, 16), slow(8)])
def test_gradients_of_bfloat16_are_those_of_float32_to_its_rounding(form: Any) -> None:
    """2^-8 of the largest, a few times over: p, dS and what comes in are rounded before they are multiplied."""
    arguments, padding, w = case(SHAPES["blocks"])
    rounded = arguments | {name: arguments[name].astype(jnp.bfloat16) for name in ("q", "k", "v")}
    gradients, _ = jax.jit(gradient_of(form))(
        rounded, (jnp.int32(5), jnp.int32(14), jnp.int32(NO_WINDOW)), padding, w.astype(jnp.bfloat16)
    )
    expected, _ = exact("blocks")[2]
    for name, other in expected.items():
        assert gradients[name].dtype == rounded[name].dtype
        assert np.abs(np.asarray(gradients[name], np.float64) - other).max() < 0.02 * np.abs(other).max(), name


@pytest.mark.parametrize("form", TILES)
def test_windows_and_initial_tokens_are_swept_in_one_program(form: Any) -> None:
    """Under vmap loops over tiles end where the widest ends, and kernels have an axis more."""
    arguments, padding, w = case(SHAPES["blocks"])
    sights = tuple(jnp.asarray(column) for column in zip(*SIGHTS, strict=True))
    swept = jax.jit(jax.vmap(gradient_of(form), in_axes=(None, 0, None, None)))(arguments, sights, padding, w)
    for number, expected in enumerate(exact("blocks")):
        close(jax.tree.map(lambda leaf, n=number: leaf[n], swept), expected)


@pytest.mark.parametrize("form", TILES)
def test_tiles_are_sharded_as_heads_and_texts_are(form: Any) -> None:
    """Output, gradients and statistics."""
    given = (case(SHAPES["blocks"])[0], (jnp.int32(5), jnp.int32(2), jnp.int32(12)), *case(SHAPES["blocks"])[1:])
    gradient = jax.jit(gradient_of(form, statistics=True))
    expected, given = jax.device_get((gradient(*given), given))
    with jax.set_mesh(make_mesh(data=2, model=2)):
        specs = {"q": HEADS, "k": HEADS, "v": HEADS, "sink_logit": P("model"), "slopes": P("model"), "scale": P()}
        placed = jax.device_put(given, (specs, (P(), P(), P()), TEXTS, HEADS))
        close(jax.device_get(gradient(*placed)), expected)


@pytest.mark.parametrize("biased", [False, True], ids=["plain", "with a key bias"])
def test_statistics_of_a_softmax_have_their_gradients_too(biased: bool) -> None:
    """What goes to the first token is no function of the output: it is differentiated as it stands. A key bias leaves all of
    attention to JAX, which has a forward mode too. A probability of 0, of a key out of sight or of a logit -inf, has none."""
    (q, k, v), key = random_heads(10, 1, 4, 2, 1, 4), numbers(11, 1, 4) if biased else None

    @jax.jit
    def statistics(q: jax.Array, logit: jax.Array) -> Any:
        scores = Scores(sink_logit=logit, key_bias=key)
        out, measured = attention(q, k, v, Mask(window=3), scores, tiling=tiling(None))
        return out, measured

    modes = ("fwd", "rev") if biased else ("rev",)
    check = functools.partial(check_grads, order=1, modes=modes, atol=2e-3, rtol=2e-3, eps=1e-2)
    check(statistics, (q, jnp.asarray([0.4, -1.0])))
    check(lambda q: statistics(q, jnp.asarray([-jnp.inf, -1.0])), (q,))


def by_number(number: Any) -> Any:
    """Every normalizer in one program: to compile one for each takes eight times as long."""
    functions = [normalizer(jnp.asarray([-0.02, 1.05])) for normalizer in NORMALIZERS.values()]
    alike = [lambda scores, logits, f=f: f(scores, logits)._replace(lse=None) for f in functions]
    return lambda scores, logits: jax.lax.switch(number, alike, scores, jnp.broadcast_to(logits, scores.shape[:-1]))


def test_gradients_of_blocks_and_chunks_are_those_of_whole_matrices_for_every_normalizer() -> None:
    """With a cap, key and value biases, and padding on either side."""
    q, k, v = random_heads(13, 2, 39, 4, 2, 4)
    padding = jnp.stack([jnp.arange(39) >= 11, jnp.arange(39) < 30])
    _, key, value = random_heads(14, 1, 1, 2, 2, 4)
    logits, slopes = jnp.asarray([0.5, -1.0, -jnp.inf, 0.0]), jnp.asarray([0.0, 0.3, 0.1, 0.0])
    scores = Scores(sink_logit=logits, slopes=slopes, cap=jnp.float32(5.0), key_bias=key[0, 0], value_bias=value[0, 0])
    w = numbers(15, *q.shape) * padding[:, :, None, None].astype(jnp.float32)

    def program(attend: Any) -> Any:
        def total(given: Any, number: Any, mask: Mask) -> jax.Array:
            return jnp.sum(w * attend(*given[0], mask, given[1]._replace(normalizer=by_number(number)))[0])

        return jax.jit(jax.value_and_grad(total))

    blocked, whole = program(functools.partial(attention, tiling=tiling(None))), program(whole_attention)
    for (number, name), sight in itertools.product(enumerate(NORMALIZERS), SIGHTS[1::3]):
        window, initial_tokens, chunk = jax.tree.map(jnp.int32, sight)
        values = ((q, k, v), scores), jnp.int32(number), Mask(window, initial_tokens, padding=padding, chunk=chunk)
        computed, expected = blocked(*values), whole(*values)
        for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(computed), jax.tree.leaves(expected), strict=True):
            what = f"{name}, window, initial tokens and chunk {sight}, {jax.tree_util.keystr(path)}"
            np.testing.assert_allclose(x, y, atol=2e-5 * max(1, np.abs(y).max()), err_msg=what)


def test_nothing_as_large_as_the_scores_is_kept() -> None:
    """Between forward and backward pass of 39 tokens there is no array with two axes of tokens."""
    arguments, padding, w = case(SHAPES["blocks"])
    attend = functools.partial(attention, tiling=tiling(None))
    total = functools.partial(loss, sight=(jnp.int32(NO_WINDOW), 0, NO_WINDOW), padding=padding, w=w, attend=attend)
    backward = jax.eval_shape(lambda given: jax.vjp(total, given, has_aux=True)[1], arguments)
    assert max(leaf.size for leaf in jax.tree.leaves(backward)) <= arguments["q"].size


def test_tiles_that_nothing_sees_cost_nothing() -> None:
    """Scores beyond a window would make NaN of everything: keys and values there are NaN."""
    q, k, v = random_heads(4, 1, 64, 2, 1, 4)
    hidden = ((jnp.arange(64) >= 8) & (jnp.arange(64) < 32))[None, :, None, None]
    k, v = (jnp.where(hidden, jnp.nan, x) for x in (k, v))

    def last(q: jax.Array) -> jax.Array:
        """Of queries whose windows begin after what is hidden."""
        return jnp.sum(attention(q, k, v, Mask(6, 3), tiling=tiling(8))[0][:, 40:])

    gradient = jax.jit(jax.grad(last))(q)[:, 40:]
    assert np.isfinite(gradient).all()
    assert np.abs(gradient).max() > 0
