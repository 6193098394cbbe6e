"""Every statistic of a layer, spread over devices and in half precision, and every perplexity, against loops over numbers."""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from statistics import mean
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

from leadline.experiments.data.text.held_out import GROUPS, HeldOut
from leadline.experiments.measure import layers
from leadline.experiments.measure.kinds.activations import effective_rank, near_zero_share
from leadline.experiments.measure.perplexity import evaluated, loss_by_position, mean_loss, perplexities, position_edges
from leadline.experiments.measure.sinks import first_norm_ratio, key_cosines, logit_gap, mean_mass, share_outside, sink_rate
from leadline.experiments.measure.trained import early_decoding, gradient_norms
from leadline.experiments.records.left_out import without
from leadline.experiments.records.measurement import reading
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


def ranks(x: np.ndarray) -> np.floating:
    """exp of scipy's entropy, which normalises, of numpy's singular values of each text."""
    return np.mean([np.exp(stats.entropy(np.linalg.svd(text, compute_uv=False))) for text in x])


FORMULAS = {
    **{f"cosines from {start}": cosines(start) for start in (1, 3, 5)},
    **{f"logit gap from {start}": gap(start) for start in (2, 5)},
    **{f"share outside {energy}": outside(energy) for energy in (0.5, 0.95, 0.999)},
    "massive activations": Formula(lambda x: layers.massive_activations(x, 4), lambda x: sizes(x)[:, :4].mean(0), (RESIDUAL,)),
    "activation ratio": Formula(layers.activation_ratio, lambda x: sizes(x)[:, 0].mean(), (RESIDUAL,)),
    "kurtosis": Formula(
        layers.kurtosis, lambda x: np.mean(stats.kurtosis(x.reshape(len(x), -1), axis=1, fisher=False)), (RESIDUAL,)
    ),
    "effective rank": Formula(effective_rank, ranks, (RESIDUAL,)),
    "hidden units near zero": Formula(
        lambda x: near_zero_share(x, 0.3),
        lambda x: np.mean(np.abs(x) <= 0.3 * np.sqrt((x**2).mean(axis=-1, keepdims=True))),
        (((4, 6, 8), P("data", None, "model")),),
    ),
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
    "mean mass": Formula(mean_mass, lambda x: x.mean(axis=(0, 2)), (MASS,), False),
    "mean mass of some": Formula(
        lambda x: mean_mass(x, jnp.asarray(LATER)),
        lambda x: np.array([x[:, head][LATER].mean() for head in range(2)]),
        (((4, 2, 6), P("data", None, None)),),
        in_float32=False,
    ),
    "mean loss": Formula(mean_loss, lambda x: x.mean(), (MASS,), False),
    "mean loss of some": Formula(
        lambda x: mean_loss(x, jnp.asarray(LATER)), lambda x: x[LATER].mean(), (((4, 6), P("data", None)),), in_float32=False
    ),
    "sink rate": Formula(
        lambda x: sink_rate(x, token=3, epsilon=0.1),
        lambda x: np.mean(x[..., 2] / 4 > 0.1, axis=0),  # 4 of 6 queries see the third token
        (MASS,),
        in_float32=False,
    ),
    "gate": Formula(layers.gate_mean, lambda x: x.mean(axis=(0, 1, 3)), (KEY,), False),
    "gate of a head": Formula(layers.gate_mean, lambda x: x.mean(axis=(0, 1)), (NORM,), False),
    "gate share": Formula(lambda x: layers.gate_mean(x < 0.1), lambda x: (x < 0.1).mean((0, 1, 3)), (KEY,), False),
}


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("name", FORMULAS)
def test_a_statistic_is_that_of_a_loop(name: str, spread: bool) -> None:
    """On one device in half precision, where what is computed is to be in float32 all the same."""
    measure, expected, inputs, in_float32 = FORMULAS[name]
    rng, half = np.random.default_rng(0), in_float32 and not spread
    mesh = make_mesh(data=2, model=2) if spread else make_mesh()
    with jax.set_mesh(mesh):
        numbers = [jnp.asarray(rng.standard_normal(shape), jnp.bfloat16 if half else jnp.float32) for shape, _ in inputs]
        placed = [jax.device_put(x, NamedSharding(mesh, spec)) for x, (_, spec) in zip(numbers, inputs, strict=True)]
        values = jax.device_get(jax.jit(measure)(*placed))
    of_numpy = expected(*(np.asarray(x, np.float64) for x in numbers))
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(values))
    jax.tree.map(lambda ours, theirs: np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6), values, of_numpy)


def test_normal_numbers_are_near_zero_as_often_as_the_normal_distribution_says() -> None:
    """Of 2^16 numbers shares differ by less than five deviations; half of a ReLU's are exactly zero."""
    numbers = jnp.asarray(np.random.default_rng(0).standard_normal((1, 64, 1024)), jnp.float32)
    for x, tau, share in ((jax.nn.relu(numbers), 0.0, 0.5), (7 * numbers, 0.1, 2 * stats.norm.cdf(0.1) - 1)):
        assert abs(near_zero_share(x, tau) - share) < 5 * (share * (1 - share) / 2**16) ** 0.5


median = jax.jit(layers.median_of_sizes)
# A row of each parity, long enough for ties and for numbers of every size; a shape is a compilation.
SHAPES = st.sampled_from([(2, 7), (3, 8), (1, 1), (2, 2)])
# XLA's CPU back end adds subnormal numbers as zeros, so that their mean is not numpy's.
SIZES = st.floats(0, 2**100, width=32, allow_subnormal=False) | st.sampled_from([0.0, 1.0, 2.0])


@settings(max_examples=200)
@given(arrays.arrays(np.float32, SHAPES, elements=SIZES))
def test_median_is_that_of_numpy_bit_for_bit(size: np.ndarray) -> None:
    values, expected = np.array(median(jnp.asarray(size))), np.median(size, axis=1).astype(np.float32)
    for numbers in (values, expected):  # XLA may flush what is below the normal numbers
        numbers[np.abs(numbers) < np.finfo(np.float32).tiny] = 0
    np.testing.assert_array_equal(values.view(np.int32), expected.view(np.int32))


def test_memory_is_linear_in_the_length_and_of_one_layer_of_logits() -> None:
    shapes = [jax.ShapeDtypeStruct((1, 97, heads, 4), jnp.float32) for heads in (6, 3)]
    programs = [
        jax.make_jaxpr(lambda q, k: key_cosines(q, k, start=1))(*shapes),
        jax.make_jaxpr(lambda q, k: logit_gap(q, k, scale=1.0, start=2))(*shapes),
    ]
    assert max(variable.aval.size for program in programs for line in program.eqns for variable in line.outvars) == 97 * 6 * 4
    program = str(jax.make_jaxpr(lambda x: early_decoding(x, lambda h: h @ jnp.ones((4, 7))))(jnp.ones((5, 2, 3, 4))))
    assert "f32[2,3,7]" in program
    assert "f32[5,2,3,7]" not in program


LOSSES = np.random.default_rng(0).gamma(2.0, size=(3, 10)).astype(np.float32)


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), length=st.integers(2, 12), stride=st.integers(1, 12), windows=st.integers(1, 6))
def test_every_protocol_equals_a_walk_over_the_targets(seed: int, length: int, stride: int, windows: int) -> None:
    rng = np.random.default_rng(seed)
    losses, documents = rng.gamma(2.0, size=(windows, length)), rng.integers(0, 4, (windows, length))
    counted = np.tile(np.arange(length) >= length - stride, (windows, 1))
    walked: dict[str, dict[int, list[float]]] = {name: defaultdict(list) for name in ("tokens", "sliding", "documents", "last")}
    for window, place in itertools.product(range(windows), range(length)):
        if counted[window, place]:
            groups = {"tokens": 0, "documents": int(documents[window, place])}
            late = ({"sliding": 0} if place >= length // 2 else {}) | ({"last": 0} if place >= length - 2 else {})
            for name, group in (groups | late).items():
                walked[name][group].append(losses[window, place])
    expected = {name: math.exp(mean(mean(group) for group in groups.values())) for name, groups in walked.items()}
    text = HeldOut(np.zeros((windows, length + 1), np.int32), counted, documents, documents)
    point = perplexities(losses, text, 2, length=length, extension="pi")
    dims = {"length": length, "extension": "pi"}
    assert {key: float(value) for key, value in point.items()} == {
        reading("perplexity", **dims): pytest.approx(expected["tokens"], rel=1e-12),
        reading("perplexity", protocol="sliding", **dims): pytest.approx(expected["sliding"], rel=1e-12),
        reading("perplexity", protocol="documents", **dims): pytest.approx(expected["documents"], rel=1e-12),
        reading("perplexity", protocol="last", last=2, **dims): pytest.approx(expected["last"], rel=1e-12),
    }
    assert evaluated(text, length=length)[reading("documents", length=length)] == len(walked["documents"])


def test_every_protocol_is_measured_without_each_group_of_documents() -> None:
    rng = np.random.default_rng(0)
    losses, documents = rng.gamma(2.0, size=(400, 9)), np.sort(rng.integers(0, 60, 400))[:, None].repeat(9, axis=1)
    groups, counted = documents % GROUPS, np.tile(np.arange(9) >= 2, (400, 1))
    point = perplexities(losses, HeldOut(np.zeros((400, 10), np.int32), counted, documents, groups), 2)
    whole = [key for key in point if "without" not in dict(key.dims)]
    assert len(whole) == len(point) / 2 == 4
    for group in range(GROUPS):
        kept = groups[:, 0] != group
        rest = HeldOut(np.zeros((kept.sum(), 10), np.int32), counted[kept], documents[kept], groups[kept])
        alone = perplexities(losses[kept], rest, 2)
        assert {key: point[without(key)][group] for key in whole} == {key: pytest.approx(alone[key]) for key in whole}


@pytest.mark.parametrize("length", [1, 2, 3, 7, 1000, 4096])
def test_bins_hold_every_position_once(length: int) -> None:
    edges = position_edges(length)
    assert (edges[0], edges[-1]) == (0, length)
    assert (np.diff(edges) > 0).all()


def test_loss_by_position_is_the_mean_of_its_bin() -> None:
    edges = position_edges(10)
    expected = [LOSSES[:, low:high].astype(np.float64).mean() for low, high in itertools.pairwise(edges)]
    np.testing.assert_allclose(loss_by_position(LOSSES, edges), expected, rtol=1e-12)
