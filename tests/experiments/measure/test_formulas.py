"""Every statistic of a layer against loops over single numbers, as it is, spread over devices, and in half precision."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from scipy import special, stats

from leadline.experiments.measure.layers import (
    activation_ratio,
    gate_mean,
    kurtosis,
    massive_activations,
    median_of_sizes,
)
from leadline.experiments.measure.sinks import (
    active_dormant_share,
    dormant_share,
    first_norm_ratio,
    key_cosines,
    logit_gap,
    mean_mass,
    share_outside,
    sink_rate,
)
from leadline.experiments.measure.trained import early_decoding, gradient_norms
from leadline.model.mesh import make_mesh

HEADS, STREAM, LAYERS = P("data", None, "model", None), P("data", None, None), P(None, "data", None, None)
QUERY, KEY, RESIDUAL = ((4, 6, 4, 8), HEADS), ((4, 6, 2, 8), HEADS), ((4, 6, 8), STREAM)
NORM, MASS = ((4, 6, 2), P("data", None, "model")), ((4, 2, 6), P("data", "model", None))
LATER = np.arange(24).reshape(4, 6) % 5 > 2


class Formula(NamedTuple):
    """A statistic, the same by numpy in float64, and the shapes and places of what it is of."""

    measure: Callable[..., Any]
    expected: Callable[..., Any]
    inputs: tuple[tuple[tuple[int, ...], P], ...]
    in_float32: bool = True  # whatever the type of its inputs


def by_head(query: np.ndarray, key: np.ndarray, start: int, value: Callable[..., Any]) -> np.ndarray:
    """The mean of value(query, keys of its text and head, its place) over texts and queries from `start` on."""
    (texts, tokens, heads, _), groups = query.shape, query.shape[2] // key.shape[2]
    places = [(b, t) for b in range(texts) for t in range(start, tokens)]
    return np.array([np.mean([value(query[b, t, n], key[b, :, n // groups], t) for b, t in places]) for n in range(heads)])


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def cosines(start: int) -> Formula:
    def expected(query: np.ndarray, key: np.ndarray) -> tuple[Any, Any]:
        first: Any = by_head(query, key, start, lambda q, k, _: cosine(q, k[0]))
        others: Any = by_head(query, key, start, lambda q, k, t: np.mean([cosine(q, x) for x in k[1 : t + 1]]))
        return first, others

    return Formula(lambda q, k: key_cosines(q, k, start=start), expected, (QUERY, KEY))


def gap(start: int) -> Formula:
    def expected(query: np.ndarray, key: np.ndarray) -> np.ndarray:
        return by_head(query, key, start, lambda q, k, t: 0.3 * (q @ k[0] - np.mean(k[1:t] @ q)))

    return Formula(lambda q, k: logit_gap(q, k, scale=0.3, start=start), expected, (QUERY, KEY))


def outside(energy: float) -> Formula:
    def of_head(key: np.ndarray) -> tuple[float, int]:
        first, others = key[:, 0], key[:, 1:].reshape(-1, key.shape[-1])
        _, singular, axes = np.linalg.svd(others, full_matrices=False)
        dims = 1 + np.sum(np.cumsum(singular**2) < energy * np.sum(singular**2))
        off = first - first @ axes[:dims].T @ axes[:dims]
        return np.mean(np.sum(off**2, axis=1) / np.sum(first**2, axis=1)), dims

    def expected(key: np.ndarray) -> tuple[Any, ...]:
        return tuple(np.array([of_head(key[:, :, head]) for head in range(key.shape[2])]).T)

    return Formula(lambda key: share_outside(key, energy=energy), expected, (KEY,))


def sizes(x: np.ndarray) -> np.ndarray:
    """|x| of each text, the largest first, over its median."""
    size = np.sort(np.abs(x).reshape(len(x), -1), axis=1)
    return size[:, ::-1] / np.median(size, axis=1, keepdims=True)


def divergences(x: np.ndarray) -> np.ndarray:
    p = special.softmax(x, axis=-1)
    return special.rel_entr(p[-1][None], p).sum(axis=-1).mean(axis=(1, 2))


FORMULAS = {
    **{f"cosines from {start}": cosines(start) for start in (1, 3, 5)},
    **{f"logit gap from {start}": gap(start) for start in (2, 5)},
    **{f"share outside {energy}": outside(energy) for energy in (0.5, 0.95, 0.999)},
    "massive activations": Formula(lambda x: massive_activations(x, 4), lambda x: sizes(x)[:, :4].mean(0), (RESIDUAL,)),
    "activation ratio": Formula(activation_ratio, lambda x: sizes(x)[:, 0].mean(), (RESIDUAL,)),
    "kurtosis": Formula(kurtosis, lambda x: np.mean(stats.kurtosis(x.reshape(len(x), -1), axis=1, fisher=False)), (RESIDUAL,)),
    "early decoding": Formula(lambda x: early_decoding(x, lambda h: h), divergences, (((3, 4, 6, 8), LAYERS),)),
    "gradient norms": Formula(
        lambda a, b: gradient_norms({"a": a, "b": (b, None)}),
        lambda a, b: np.array([np.sqrt(np.sum(x**2) + np.sum(y**2)) for x, y in zip(a, b, strict=True)]),
        (((3, 8, 2, 4), P(None, "data", "model", None)), ((3, 2), P(None, "model"))),
    ),
    "norm ratio of heads": Formula(
        lambda x: first_norm_ratio(jnp.abs(x), start=2),
        lambda x: np.mean(np.abs(x[:, 0]) / np.abs(x[:, 2:]).mean(axis=1), axis=0),
        (NORM,),
        in_float32=False,
    ),
    "mean mass": Formula(mean_mass, lambda x: x.mean(axis=(0, 2)), (MASS,), in_float32=False),
    "mean mass of some": Formula(
        lambda x: mean_mass(x, jnp.asarray(LATER)),
        lambda x: np.array([x[:, head][LATER].mean() for head in range(2)]),
        (((4, 2, 6), P("data", None, None)),),
        in_float32=False,
    ),
    "sink rate": Formula(
        lambda x: sink_rate(x, token=3, epsilon=0.1),
        lambda x: np.mean(x[..., 2] / 4 > 0.1, axis=0),  # 4 of 6 queries see the third token
        (MASS,),
        in_float32=False,
    ),
    "gate": Formula(gate_mean, lambda x: x.mean(axis=(0, 1, 3)), (KEY,), in_float32=False),
    "gate of a head": Formula(gate_mean, lambda x: x.mean(axis=(0, 1)), (NORM,), in_float32=False),
    "gate share": Formula(lambda x: gate_mean(x < 0.1), lambda x: (x < 0.1).mean(axis=(0, 1, 3)), (KEY,), in_float32=False),
}


@pytest.mark.parametrize("way", ["as it is", "spread", "half"])
@pytest.mark.parametrize("name", FORMULAS)
def test_a_statistic_is_that_of_a_loop(name: str, way: str) -> None:
    measure, expected, inputs, in_float32 = FORMULAS[name]
    rng, half = np.random.default_rng(0), way == "half" and in_float32
    mesh = make_mesh(data=2, model=2) if way == "spread" else make_mesh()
    with jax.set_mesh(mesh):
        numbers = [jnp.asarray(rng.standard_normal(shape), jnp.bfloat16 if half else jnp.float32) for shape, _ in inputs]
        placed = [jax.device_put(x, NamedSharding(mesh, spec)) for x, (_, spec) in zip(numbers, inputs, strict=True)]
        found = jax.device_get(jax.jit(measure)(*placed))
    of_numpy = expected(*(np.asarray(x, np.float64) for x in numbers))
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(found))
    jax.tree.map(lambda ours, theirs: np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6), found, of_numpy)


median = jax.jit(median_of_sizes)
# A row of each parity, long enough for ties and for numbers of every size; a shape is a compilation.
SHAPES = st.sampled_from([(2, 7), (3, 8), (1, 1), (2, 2)])
# XLA's CPU back end adds subnormal numbers as zeros, so that their mean is not numpy's.
SIZES = st.floats(0, 2**100, width=32, allow_subnormal=False) | st.sampled_from([0.0, 1.0, 2.0])


@settings(max_examples=200)
@given(arrays.arrays(np.float32, SHAPES, elements=SIZES))
def test_median_is_that_of_numpy_bit_for_bit(size: np.ndarray) -> None:
    found, expected = np.array(median(jnp.asarray(size))), np.median(size, axis=1).astype(np.float32)
    for numbers in (found, expected):  # XLA may flush what is below the normal numbers
        numbers[np.abs(numbers) < np.finfo(np.float32).tiny] = 0
    np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))


EVEN, SURE, ODDS = jnp.log(jnp.array([[1, 1, 1, 1], [0, 0, 4, 0], [1, 3, 0, 0]], jnp.float32) / 4)[:, None, None]
PROSE, CODE = jnp.array([[0.9, 0.1, 0.5], [0.6, 0.0, 1.0]]), jnp.array([[0.2, 0.1, 0.5], [0.7, 0.8, 0.9]])
NAUGHT, ONES = jnp.zeros((1, 5, 2, 4)), jnp.ones((1, 5, 2, 4))
BY_HAND: dict[str, tuple[Callable[[], Any], Any]] = {
    "median of NaN": (
        lambda: median(jnp.array([[1, jnp.nan, 3], [jnp.inf, 1, jnp.inf], [2, jnp.inf, 1]], jnp.float32)),
        [np.nan, np.inf, 2],
    ),
    "a cosine with nothing": (lambda: key_cosines(NAUGHT, ONES, start=1)[1], [0, 0]),
    "a gate at the threshold": (lambda: gate_mean(jnp.full((1, 1, 1), 0.1) < 0.1), [0]),
    "a sink at the threshold": (lambda: sink_rate(jnp.array([[[4.0, 0, 0, 0]]]), token=1, epsilon=1.0), [0]),
    "the last token": (lambda: sink_rate(jnp.array([[[0, 0, 0, 0.5]]]), token=4, epsilon=0.49), [1]),
    # Of shares 1 and 0 one is above 0.3, and so is their mean.
    "the indicator before the mean": (lambda: sink_rate(jnp.array([[[2.0, 0]], [[0.0, 0]]]), token=1, epsilon=0.3), [0.5]),
    "dormant heads": (lambda: dormant_share(PROSE, threshold=0.5), 3 / 6),  # what is at the threshold is not above it
    "heads dormant in one domain": (lambda: active_dormant_share(PROSE, CODE, threshold=0.5), 2 / 6),
    "heads dormant in both": (lambda: active_dormant_share(PROSE, PROSE, threshold=0.5), 0),
    "an even guess before a sure answer": (lambda: early_decoding(jnp.stack([EVEN, SURE]), jnp.asarray), [np.log(4), 0]),
    "an even guess before odds": (lambda: early_decoding(jnp.stack([EVEN, ODDS]), jnp.asarray), [0.75 * np.log(3), 0]),
    "an answer that is ruled out": (lambda: early_decoding(jnp.stack([SURE, EVEN]), jnp.asarray), [np.inf, 0]),
    "sums of bfloat16": (lambda: gradient_norms(jnp.ones((1, 512), jnp.bfloat16)) ** 2, [512]),  # bfloat16 stops at 256
}


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name: str) -> None:
    found, expected = BY_HAND[name]
    np.testing.assert_allclose(found(), expected, rtol=1e-6, atol=1e-6)


FIVE = "in a text of 5 tokens"
THREE = jnp.ones((1, 5, 3, 4))
WRONG: dict[str, list[Callable[[], Any]]] = {
    f"queries from 0 on: the first may be from 1 to 4 {FIVE}": [lambda: key_cosines(ONES, ONES, start=0)],
    f"queries from 5 on: the first may be from 1 to 4 {FIVE}": [lambda: key_cosines(ONES, ONES, start=5)],
    f"queries from 1 on: the first may be from 2 to 4 {FIVE}": [lambda: logit_gap(ONES, ONES, scale=1.0, start=1)],
    "3 query heads cannot share 2 key heads: it must divide them": [
        lambda: key_cosines(THREE, ONES, start=1),
        lambda: logit_gap(THREE, ONES, scale=1.0, start=2),
    ],
    "a text of one token has no keys beside the first": [lambda: share_outside(ONES[:, :1])],
    "the share of energy, 0.0, is not between 0 and 1": [lambda: share_outside(ONES, energy=0.0)],
    "the share of energy, 1.0, is not between 0 and 1": [lambda: share_outside(ONES, energy=1.0)],
    "the 0 largest activations of a sequence that has 8": [lambda: massive_activations(ONES[:, 0], 0)],
    "the 9 largest activations of a sequence that has 8": [lambda: massive_activations(ONES[:, 0], 9)],
    "token 0 of the sink rate is not among the 4 tokens of the text": [lambda: sink_rate(ONES[0], token=0, epsilon=0.3)],
    "token 5 of the sink rate is not among the 4 tokens of the text": [lambda: sink_rate(ONES[0], token=5, epsilon=0.3)],
    "no token at or behind 5: the text has 5": [lambda: first_norm_ratio(ONES, start=5)],
    "no token at or behind -1: the text has 5": [lambda: first_norm_ratio(ONES, start=-1)],
    "gradients of stacked layers have one leading axis in common, not []": [lambda: gradient_norms({})],
    "gradients of stacked layers have one leading axis in common, not [(2,), (3,)]": [
        lambda: gradient_norms((jnp.ones(2), jnp.ones((3, 2))))
    ],
    "gradients of stacked layers have one leading axis in common, not [()]": [lambda: gradient_norms(jnp.float32(1))],
}


@pytest.mark.parametrize("message", WRONG)
def test_impossible_arguments(message: str) -> None:
    for call in WRONG[message]:
        with pytest.raises(ValueError) as raised:
            call()
        assert str(raised.value) == message


def test_memory_is_linear_in_the_length_and_of_one_layer_of_logits() -> None:
    shapes = [jax.ShapeDtypeStruct((1, 97, heads, 4), jnp.float32) for heads in (6, 3)]
    programs = [
        jax.make_jaxpr(lambda q, k: key_cosines(q, k, start=1))(*shapes),
        jax.make_jaxpr(lambda q, k: logit_gap(q, k, scale=1.0, start=2))(*shapes),
    ]
    assert max(made.aval.size for program in programs for line in program.eqns for made in line.outvars) == 97 * 6 * 4
    program = str(jax.make_jaxpr(lambda x: early_decoding(x, lambda h: h @ jnp.ones((4, 7))))(jnp.ones((5, 2, 3, 4))))
    assert "f32[2,3,7]" in program
    assert "f32[5,2,3,7]" not in program
