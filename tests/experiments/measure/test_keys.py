"""First keys beside the others: hand-made heads, loops over single products, and projections by numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.measure.keys import key_cosines, logit_gap, share_outside

cosines = jax.jit(key_cosines, static_argnames="start")
gap = jax.jit(logit_gap, static_argnames="start")
subspace = jax.jit(share_outside, static_argnames="energy")

RNG = np.random.default_rng(0)
B, T, N, K, H = 2, 7, 6, 3, 4
QUERY, KEY = (RNG.normal(size=(B, T, heads, H)).astype(np.float32) for heads in (N, K))


def _pairs(head: int, start: int) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """Each query that counts, with the keys of its text and its place."""
    key = KEY[:, :, head // (N // K)].astype(float)
    return [(QUERY[b, t, head].astype(float), key[b], t) for b in range(B) for t in range(start, T)]


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


@pytest.mark.parametrize("start", [1, 3, T - 1])
def test_cosines_are_those_of_a_loop(start: int) -> None:
    found = cosines(jnp.asarray(QUERY), jnp.asarray(KEY), start=start)
    for n in range(N):
        first = [_cosine(q, k[0]) for q, k, _ in _pairs(n, start)]
        others = [np.mean([_cosine(q, k[j]) for j in range(1, t + 1)]) for q, k, t in _pairs(n, start)]
        assert found.first[n].item() == pytest.approx(np.mean(first), abs=1e-6)
        assert found.others[n].item() == pytest.approx(np.mean(others), abs=1e-6)


@pytest.mark.parametrize("start", [2, 4, T - 1])
def test_the_gap_of_logits_is_that_of_a_loop(start: int) -> None:
    found = gap(jnp.asarray(QUERY), jnp.asarray(KEY), scale=0.3, start=start)
    for n in range(N):
        gaps = [0.3 * (q @ k[0] - np.mean([q @ k[j] for j in range(1, t)])) for q, k, t in _pairs(n, start)]
        assert found[n].item() == pytest.approx(np.mean(gaps), abs=1e-6)


def _sink(size: float) -> tuple[jax.Array, jax.Array]:
    """Queries of length 3 along the first axis; a first key along it, all others of length 2 along the second."""
    query, key = np.zeros((2, 1, 9, 1, 4), np.float32)
    query[..., 0], key[:, 1:, :, 1], key[:, 0, :, 0] = 3, 2, size
    return jnp.asarray(query), jnp.asarray(key)


def test_a_sink_by_hand() -> None:
    query, key = _sink(0.1)  # cosines do not see that it is short, logits do
    angles = cosines(query, key, start=1)
    assert (angles.first.item(), angles.others.item()) == (pytest.approx(1, rel=1e-6), 0)
    assert gap(query, key, scale=0.5, start=2).item() == pytest.approx(0.5 * 3 * 0.1, rel=1e-6)
    outside = subspace(key)
    assert (outside.share.item(), outside.dims.item()) == (pytest.approx(1), 1)


def test_a_cosine_with_nothing_is_0() -> None:
    query, key = _sink(0.0)
    assert cosines(query, key, start=1).first.tolist() == [0]
    assert cosines(jnp.zeros_like(query), key, start=1).others.tolist() == [0]


def test_equal_keys_stand_alike() -> None:
    same = jnp.ones((1, 9, 1, 4))
    angles = cosines(same, same, start=1)
    np.testing.assert_allclose([angles.first, angles.others], 1, rtol=1e-6)
    np.testing.assert_allclose(gap(same, same, scale=0.5, start=2), 0, atol=1e-6)
    np.testing.assert_allclose(subspace(same).share, 0, atol=1e-6)


def test_the_query_sees_its_own_key_among_the_others_and_its_gap_does_not() -> None:
    query = jnp.ones((1, 3, 1, 2))
    key = jnp.array([[0.0, 0.0], [1.0, -1.0], [1.0, 1.0]])[None, :, None]
    assert cosines(query, key, start=2).others.tolist() == [pytest.approx(0.5)]  # of 0 and 1
    assert gap(query, key, scale=1.0, start=2).tolist() == [0]


@pytest.mark.parametrize("kept", [0.5, 0.95, 0.999])
def test_share_outside_is_that_of_a_projection(kept: float) -> None:
    key = RNG.normal(size=(3, 20, 2, 6)) * 2.0 ** -np.arange(6) + 0.3
    key[:, 0] *= RNG.normal(size=6)
    found = subspace(jnp.asarray(key, jnp.float32), energy=kept)
    for head in range(2):
        first, others = key[:, 0, head], key[:, 1:, head].reshape(-1, 6)
        _, singular, axes = np.linalg.svd(others, full_matrices=False)
        energy = np.cumsum(singular**2) / np.sum(singular**2)
        dims = next(d for d in range(1, 7) if energy[d - 1] >= kept)
        off = np.eye(6) - axes[:dims].T @ axes[:dims]
        share = np.mean(np.sum((first @ off) ** 2, axis=1) / np.sum(first**2, axis=1))
        assert found.dims[head] == dims
        assert found.share[head].item() == pytest.approx(share, rel=1e-3, abs=1e-6)
        assert np.sum((others @ off) ** 2) / np.sum(others**2) <= 1 - kept


def test_a_head_of_few_directions_by_hand() -> None:
    # The others have 96, 3 and 1 of 100 parts of their energy along three axes.
    key = np.zeros((1, 101, 1, 4), np.float32)
    key[0, 1:97, 0, 0] = key[0, 97:100, 0, 1] = key[0, 100, 0, 2] = 1
    key[0, 0, 0] = [1, 2, 2, 4]  # 25 in all
    for kept, dims, outside in ((0.9, 1, 24 / 25), (0.97, 2, 20 / 25), (0.995, 3, 16 / 25)):
        found = subspace(jnp.asarray(key), energy=kept)
        assert (found.dims.item(), found.share.item()) == (dims, pytest.approx(outside, rel=1e-6))


def test_half_precision_is_measured_in_float32() -> None:
    half = [jnp.asarray(x, jnp.bfloat16) for x in (QUERY, KEY)]
    whole = [x.astype(jnp.float32) for x in half]
    found = [cosines(*half, start=1), gap(*half, scale=0.3, start=2), subspace(half[1])]
    expected = [cosines(*whole, start=1), gap(*whole, scale=0.3, start=2), subspace(whole[1])]
    jax.tree.map(lambda own, other: np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-6), found, expected)


def test_memory_is_linear_in_the_length() -> None:
    shapes = [jax.ShapeDtypeStruct((1, 97, heads, H), jnp.float32) for heads in (N, K)]
    programs = [
        jax.make_jaxpr(lambda q, k: key_cosines(q, k, start=1))(*shapes),
        jax.make_jaxpr(lambda q, k: logit_gap(q, k, scale=1.0, start=2))(*shapes),
    ]
    assert max(made.aval.size for program in programs for line in program.eqns for made in line.outvars) == 97 * N * H


def test_impossible_arguments() -> None:
    query, key, two = jnp.ones((1, 5, 3, 4)), jnp.ones((1, 5, 1, 4)), jnp.ones((1, 5, 2, 4))
    for start in (0, 5):
        with pytest.raises(ValueError, match=f"queries from {start} on: the first may be from 1 to 4 in a text of 5 tokens"):
            key_cosines(query, key, start=start)
    for start in (1, 5):
        with pytest.raises(ValueError, match=f"queries from {start} on: the first may be from 2 to 4 in a text of 5 tokens"):
            logit_gap(query, key, scale=1.0, start=start)
    with pytest.raises(ValueError, match="3 query heads cannot share 2 key heads"):
        key_cosines(query, two, start=1)
    with pytest.raises(ValueError, match="3 query heads cannot share 2 key heads"):
        logit_gap(query, two, scale=1.0, start=2)
    with pytest.raises(ValueError, match="a text of one token has no keys beside the first"):
        share_outside(key[:, :1])
    for kept in (0.0, 1.0):
        with pytest.raises(ValueError, match=f"the share of energy, {kept}, is not between 0 and 1"):
            share_outside(key, energy=kept)
