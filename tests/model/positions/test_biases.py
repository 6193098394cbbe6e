"""One contract over all relative biases: their equations inside attention, their gradients, and where they could overflow."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from leadline.model.attention.attention import attend, attention
from leadline.model.attention.mask import Mask
from leadline.model.attention.scores import Scores
from leadline.model.linear import draw
from leadline.model.mesh import make_mesh
from leadline.model.positions.alibi import alibi_slopes
from leadline.model.positions.cope import Cope, CopeBias, cope_bias
from leadline.model.positions.fire import Fire, fire_bias
from leadline.model.positions.kerple import Kerple, KerpleBias, kerple_logarithmic, kerple_power
from leadline.model.positions.relative import PositionBias, bias_of_offset, by_distance
from leadline.model.positions.t5 import T5, t5_buckets
from tests.model.naive import numbers, random_heads, tiling, whole_attention
from tests.model.weights import drawn
from tests.refused import refused

pytestmark = pytest.mark.usefixtures("mesh")

HEADS, GROUPS, SIZE = 4, 2, 8
FIRE, COPE = Fire(hidden=4), Cope(positions=5)
ENCODINGS = pytest.mark.parametrize("encoding", [T5(8, 20), Kerple("logarithmic"), Kerple("power"), FIRE, COPE], ids=str)


def weights_of(encoding: PositionBias, seed: int = 2) -> Any:
    """FIRE's threshold of e^1.2 and CoPE's 5 positions are passed by texts of a few tokens."""
    p = drawn(lambda: draw(jax.random.key(1), encoding.init(jax.random.key(0), 16, HEADS, SIZE)), seed)
    p = jax.tree.map(lambda leaf: 3 * leaf, p)
    if encoding == FIRE:
        p = p.replace(log_threshold=jnp.float32(1.2))
    if isinstance(encoding, Kerple):
        p = p.replace(scale=jnp.asarray([-2.0, -1.0, -0.5, 0.0]) + 0.1 * seed)
    return p


def t5_bucket(distance: int, buckets: int, furthest: int) -> int:
    """Raffel et al. 2020, with the logarithm rounded up by less than that of two whole numbers differs from another's."""
    exact = buckets // 2
    if distance < exact:
        return distance
    share = math.log(distance / exact) / math.log(furthest / exact)
    return min(exact + math.floor((buckets - exact) * share + 1e-9), buckets - 1)


def equation(p: Any, encoding: PositionBias, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The bias of every head, query and key at once, [B, N, T, T] or [1, N, T, T], float64."""
    p = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), p)
    i, j = np.arange(q.shape[1])[:, None], np.arange(q.shape[1])[None]
    distance = np.maximum(i - j, 0)
    match encoding:
        case T5(buckets=number, furthest=furthest):
            buckets = [t5_bucket(d, number, furthest) for d in range(q.shape[1])]
            return np.moveaxis(p.table[np.array(buckets)[distance]], -1, 0)[None]
        case Kerple(form="logarithmic"):
            scale, rate = (np.exp(x)[None, :, None, None] for x in (p.scale, p.shape))
            return -scale * np.log(1 + rate * distance)
        case Kerple():
            scale, power = np.exp(p.scale)[None, :, None, None], 2 / (1 + np.exp(-p.shape))[None, :, None, None]
            return -scale * distance**power
        case Fire():
            c, threshold = np.exp(p.log_c), np.exp(p.log_threshold)
            x = np.log(c * distance + 1) / np.log(c * np.maximum(threshold, i) + 1)
            units = np.maximum(x[..., None] * p.hidden + p.hidden_bias, 0)
            return np.moveaxis(units @ p.output + p.output_bias, -1, 0)[None]
        case Cope(positions=positions):
            gates = np.tril(1 / (1 + np.exp(-np.einsum("btnh,bsnh->bnts", q, k) / np.sqrt(SIZE))))
            position = np.minimum(np.cumsum(gates[..., ::-1], axis=-1)[..., ::-1], positions - 1)
            products = np.einsum("btnh,hp->bntp", q / np.sqrt(SIZE), p.embedding)
            low, high = (np.take_along_axis(products, f(position).astype(int), axis=-1) for f in (np.floor, np.ceil))
            return low + (position - np.floor(position)) * (high - low)
    raise AssertionError(f"no equation of {encoding}")


def expected(p: Any, encoding: PositionBias, *qkv: jax.Array) -> np.ndarray:
    """Attention with the whole matrix of scores."""
    q, k, v = (np.asarray(x, np.float64) for x in qkv)
    k, v = (np.repeat(x, HEADS // GROUPS, axis=2) for x in (k, v))
    return whole_attention(q, k, v, bias=equation(p, encoding, q, k), xp=np).output


@ENCODINGS
def test_blocks_and_single_queries_get_the_bias_of_their_own_rows(encoding: PositionBias) -> None:
    """39 tokens are two chunks of several blocks, the last of which has surplus rows."""
    p = weights_of(encoding)
    q, k, v = random_heads(1, 1, 39, HEADS, GROUPS, SIZE)
    whole, scores = expected(p, encoding, q, k, v), Scores(bias=encoding.score_bias(p, 39))
    output, _ = jax.jit(lambda q, k, v: attention(q, k, v, scores=scores, tiling=tiling(None)))(q, k, v)
    np.testing.assert_allclose(output, whole, atol=5e-5)
    row = jax.jit(lambda q, i: attend(q, k, v, Mask(first_query=i), scores)[0])
    for i in (0, 6, 38):
        np.testing.assert_allclose(row(np.asarray(q)[:, i : i + 1], jnp.int32(i))[:, 0], whole[:, i], atol=5e-5)


@ENCODINGS
def test_gradients_are_finite_differences_and_models_side_by_side_have_their_own(encoding: PositionBias) -> None:
    """Of 6 tokens, in the weights, queries and keys: one program of two models at once."""
    first, second = weights_of(encoding), weights_of(encoding, 3)
    q, k, v = random_heads(1, 1, 6, HEADS, GROUPS, SIZE)

    @jax.jit
    def output(both: Any, q: jax.Array, k: jax.Array) -> jax.Array:
        return jax.vmap(lambda p: attention(q, k, v, scores=Scores(bias=encoding.score_bias(p, 6)))[0])(both)

    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), first, second)
    for out, p in zip(output(both, q, k), (first, second), strict=True):
        np.testing.assert_allclose(out, expected(p, encoding, q, k, v), atol=5e-5)
    check_grads(output, (both, q, k), order=1, modes=("rev",), atol=1e-2, rtol=1e-2, eps=3e-3)


def kerple_of(size: float) -> KerpleBias:
    return KerpleBias(scale=jnp.full(2, size), shape=jnp.full(2, size))


FINITE: dict[str, tuple[Any, Any]] = {
    **{f"logarithmic KERPLE {size}": (lambda p: kerple_logarithmic(p, 1000), kerple_of(size)) for size in (-20.0, 20.0)},
    **{f"power KERPLE {size}": (lambda p: kerple_power(p, 1000), kerple_of(size)) for size in (-20.0, 20.0)},
    "FIRE": (lambda p: fire_bias(p, jnp.asarray([0, 1, -1, 100_000]), jnp.arange(9)) ** 2, None),
}


@pytest.mark.parametrize("name", FINITE)
def test_biases_are_finite_for_any_weight_at_surplus_rows_and_far_away(name: str) -> None:
    bias, p = FINITE[name]
    value_and_gradient = jax.jit(jax.value_and_grad(lambda p: jnp.sum(bias(p))))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(value_and_gradient(weights_of(FIRE) if p is None else p)))


def test_cope_counts_neither_padded_nor_hidden_keys() -> None:
    """Three padded tokens in front change nothing of what follows, nor does a row that sees nothing make anything infinite."""
    p = weights_of(COPE)
    q, k, v = random_heads(1, 1, 9, HEADS, GROUPS, SIZE)
    mask, scores = Mask(padding=(jnp.arange(9) >= 3)[None]), Scores(bias=COPE.score_bias(p, 9))
    total, gradient = jax.jit(jax.value_and_grad(lambda k: jnp.sum(attention(q, k, v, mask, scores)[0][:, 3:])))(100 * k)
    assert total == pytest.approx(expected(p, COPE, q[:, 3:], 100 * k[:, 3:], v[:, 3:]).sum(), abs=2e-3)
    assert np.isfinite(gradient).all()


def test_cope_counts_in_float32_and_starts_without_a_position() -> None:
    """In bfloat16 a count would stop at 256."""
    p = CopeBias(embedding=jnp.arange(400, dtype=jnp.float32)[None, :])
    bias = cope_bias(p, jnp.ones((1, 1, 1, 1), jnp.bfloat16), jnp.full((1, 1, 1, 300), 1e4), jnp.ones((1, 300), bool))
    assert bias.dtype == jnp.float32
    assert bias[0, 0, 0, 0] == pytest.approx(300, rel=1e-2)
    assert not Cope(positions=6).init(jax.random.key(0), 256, 64, 3).embedding.any()


def test_cope_of_a_sharded_batch_and_sharded_heads() -> None:
    p = weights_of(COPE)
    q, k, v = random_heads(10, 2, 5, HEADS, GROUPS, SIZE)
    whole = jax.device_get((p, q, k, v))
    with jax.set_mesh(make_mesh(data=2, model=2)):
        specs = jax.tree.map(lambda _: jax.P(None, None), p), *[jax.P("data", None, "model", None)] * 3
        placed = jax.device_put(whole, specs)
        output = jax.jit(lambda p, *qkv: attention(*qkv, scores=Scores(bias=COPE.score_bias(p, 5)))[0])(*placed)
    np.testing.assert_allclose(output, expected(whole[0], COPE, *whole[1:]), atol=5e-5)


@pytest.mark.parametrize(("start", "rows", "keys"), [(0, 1, 1), (6, 1, 7), (0, 7, 7), (2, 3, 9)])
def test_row_i_and_column_j_hold_the_bias_of_distance_i_minus_j(start: int, rows: int, keys: int) -> None:
    """And the gradient is that of a look-up. A surplus row after the last is at -1, and finite."""
    bias, i = numbers(3, 2, keys), np.arange(start, start + rows)
    w, visible = np.asarray(numbers(4, 2, rows, keys)), i[:, None] >= np.arange(keys)

    @jax.jit
    def by_row_and_gradient(b: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        by_row, pull = jax.vjp(lambda b: by_distance(b, jnp.asarray([*i, -1])), b)
        return by_row, pull(w)[0]

    by_row, gradient = by_row_and_gradient(bias, jnp.asarray(np.pad(np.where(visible, w, 0), [(0, 0), (0, 1), (0, 0)])))
    distance = np.maximum(i[:, None] - np.arange(keys), 0)
    np.testing.assert_array_equal(np.asarray(by_row)[:, :-1][:, visible], np.asarray(bias)[:, distance][:, visible])
    assert np.isfinite(by_row).all()
    looked_up = np.zeros((2, keys))
    for r, j in zip(*np.nonzero(visible), strict=True):
        looked_up[:, i[r] - j] += w[:, r, j]
    np.testing.assert_allclose(gradient, looked_up, atol=1e-5)


def test_heads_of_a_bias_keep_their_places_on_a_mesh() -> None:
    sharded = jax.reshard(numbers(2, 3, 9), jax.P("model", None))
    assert jax.typeof(by_distance(sharded, jnp.arange(4))).sharding.spec[0] == "model"


def test_initial_numbers() -> None:
    """T5's at 1/sqrt(width); KERPLE's uniform, but for a hundredth lifted to 0.01; FIRE's with corners inside."""
    key = jax.random.key(0)
    table = draw(key, T5().init(key, 256, 64, 4)).table
    assert table.shape == (32, 64)
    assert float(jnp.std(table)) == pytest.approx(1 / 16, rel=0.1)
    logarithmic, power = (Kerple(form).init(key, 256, 4000, 4) for form in ("logarithmic", "power"))
    uniform = {
        "rate": (np.exp(logarithmic.shape), 1),
        "factor": (np.exp(logarithmic.scale), 2),
        "factor of the power": (np.exp(power.scale), 1),
        "exponent": (2 / (1 + np.exp(-np.asarray(power.shape))), 2),
    }
    for name, (values, top) in uniform.items():
        assert values.min() == pytest.approx(0.01, rel=1e-3), name
        assert top * 0.99 < values.max() < top * 1.00001, name
        assert values.mean() == pytest.approx(top / 2, rel=0.04), name
    fire = draw(key, Fire(threshold=32.0).init(key, 256, 4, 4))
    assert (fire.hidden.shape, fire.output.shape) == ((32,), (32, 4))
    np.testing.assert_allclose(jnp.exp(jnp.stack([fire.log_c, fire.log_threshold])), [0.1, 32], rtol=1e-5)
    corners = -fire.hidden_bias / fire.hidden
    assert ((corners > 0) & (corners < 1)).any()


test_wrong_arguments_are_named = refused(
    (lambda: T5(buckets=1), "buckets = 1: T5 needs at least 2"),
    *((lambda n=n: T5(buckets=n).of_encoder(), f"buckets = {n}: T5 divides them into two halves") for n in (2, 3, 5)),
    (lambda: t5_buckets(jnp.arange(3), buckets=32, furthest=16), "at least 2 buckets and furthest >"),
    (lambda: Cope(positions=1), "at least 2, got 1"),
    (lambda: alibi_slopes(0), "at least one head, got 0"),
)


@pytest.mark.parametrize("heads", [1, 2, 3, 8, 12, 40])
def test_alibi_slopes(heads: int) -> None:
    """A geometric series of a power of two; other numbers of heads add every second slope of twice the power."""
    power = 2 ** int(math.log2(heads))
    series, between = ([2 ** (-8 * n / count) for n in range(1, count + 1)] for count in (power, 2 * power))
    np.testing.assert_allclose(alibi_slopes(heads), [*series, *between[::2]][:heads])


def test_a_bias_of_offsets_is_the_same_where_keys_have_places() -> None:
    """As those of a cache do."""
    bias, q, i = numbers(0, 4, 11), jnp.zeros((1, 2, 6, 8)), jnp.asarray([2, 3, 4])
    scores = jnp.zeros((1, 2, 6, 6))
    whole, by_places = (bias_of_offset(bias)(q, scores, i, j, scores > 0) for j in (None, jnp.arange(6)))
    np.testing.assert_array_equal(by_places, whole)
