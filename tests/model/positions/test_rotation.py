"""Rotations of queries and keys (RoPE, xPos, PoPE) and a temperature: scores of their equations, and their limits."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.rotation import Side, init_polar_phase, polar, rotate, rotate_polar, rotation_of, table_rotation
from leadline.model.positions.tables import PositionTables, position_tables
from leadline.model.positions.xpos import xpos_decay, xpos_longest
from tests.model.naive import numbers
from tests.refused import refused

SIZE, HEADS, BASE = 8, 3, 100.0
SIDES: tuple[Side, Side] = ("query", "key")
PLACES = np.array([0, 1, 2, 7, 100, 1000])
FREQUENCIES = inverse_frequencies(SIZE, BASE)
PHASE = jnp.asarray(np.random.default_rng(9).uniform(-2 * math.pi, 0, (HEADS, SIZE)), jnp.float32)
# Fields of the position tables.
ENCODINGS: dict[str, dict[str, Any]] = {
    "NoPE": {},
    "RoPE": {"inverse_frequencies": FREQUENCIES},
    "attention factor": {"inverse_frequencies": FREQUENCIES, "attention_factor": np.array([1.2, 1.2, 1.0, 1.0])},
    "xPos": {"inverse_frequencies": FREQUENCIES, "decay": xpos_decay(SIZE)},
    "temperature": {"inverse_frequencies": FREQUENCIES, "strength": 0.3, "span": 4.0},
    "PoPE": {"inverse_frequencies": inverse_frequencies(2 * SIZE, BASE), "attention_factor": 1.1},
}


def tables(name: str) -> PositionTables:
    fields = dict(ENCODINGS[name])
    strength, span = fields.pop("strength", 0.0), fields.pop("span", 1.0)
    row = jax.tree.map(lambda leaf: leaf[0], position_tables(1, HEADS, SIZE, **fields))
    return dataclasses.replace(row, temperature=jnp.float32(strength), temperature_span=jnp.float32(span))


@functools.partial(jax.jit, static_argnames="interleaved")
def scores(q: jax.Array, k: jax.Array, row: PositionTables, i: jax.Array, *, interleaved: bool = False) -> jax.Array:
    turned = (
        rotate(x, table_rotation(row, i, i[:, None], side), interleaved=interleaved)
        for x, side in zip((q, k), SIDES, strict=True)
    )
    return jnp.einsum("btnh,bsnh->bnts", *turned)


@jax.jit
def polar_scores(q: jax.Array, k: jax.Array, row: PositionTables, i: jax.Array, phase: jax.Array) -> jax.Array:
    turned = (rotate_polar(x, i, i[:, None], row, side, phase) for x, side in zip((q, k), SIDES, strict=True))
    return jnp.einsum("btnh,bsnh->bnts", *turned)


def equation(name: str, q: np.ndarray, k: np.ndarray, i: np.ndarray, *, interleaved: bool = False) -> np.ndarray:
    """Σ_c of a pair's product, turned, shrunk and scaled by the distance t - s alone; the temperature is that of the query."""
    fields, half = ENCODINGS[name], SIZE // 2
    apart = (i[:, None] - i[None, :])[None, None, :, :, None]
    w = fields.get("inverse_frequencies", np.zeros(half))
    if name == "PoPE":
        q, k = (np.log1p(np.exp(x)).swapaxes(1, 2) for x in (q, k))
        products = q[:, :, :, None] * k[:, :, None]
        return fields["attention_factor"] ** 2 * (products * np.cos(apart * w - np.asarray(PHASE)[None, :, None, None])).sum(-1)
    first, second = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(half), slice(half, None))
    q, k = ((x[..., first] + 1j * x[..., second]).swapaxes(1, 2) for x in (q, k))
    shrunk = np.exp(fields.get("decay", np.zeros(half)) * apart) * np.square(fields.get("attention_factor", np.ones(half)))
    summed = (q[:, :, :, None] * k[:, :, None].conj() * np.exp(1j * apart * w) * shrunk).sum(-1).real
    return summed * (1 + fields.get("strength", 0.0) * np.log(1 + (i + 1) // fields.get("span", 1.0)))[None, None, :, None]


@pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "interleaved"])
@pytest.mark.parametrize("shift", [0, 400])
@pytest.mark.parametrize("name", ENCODINGS)
def test_scores_are_those_of_the_equation(name: str, shift: int, interleaved: bool) -> None:
    q, k = numbers(1, 2, len(PLACES), HEADS, SIZE), numbers(2, 2, len(PLACES), HEADS, SIZE)
    i = PLACES + shift
    expected = equation(name, np.asarray(q, np.float64), np.asarray(k, np.float64), i, interleaved=interleaved)
    if name == "PoPE":
        computed = polar_scores(q, k, tables(name), jnp.asarray(i), PHASE)
    else:
        computed = scores(q, k, tables(name), jnp.asarray(i), interleaved=interleaved)
    seen = np.tril(np.ones_like(expected))  # ahead of a query, xPos grows without bound
    np.testing.assert_allclose(computed * seen, expected * seen, atol=5e-5)


def test_gradients_are_finite_differences() -> None:
    q, k, i = numbers(1, 1, 3, HEADS, SIZE), numbers(2, 1, 3, HEADS, SIZE), jnp.asarray([0, 3, 50])
    check_grads(jax.jit(lambda q, k: scores(q, k, tables("xPos"), i)), (q, k), order=1, modes=("rev",), eps=1e-2, rtol=2e-3)
    f = jax.jit(lambda q, k, phase: polar_scores(q, k, tables("PoPE"), i, phase))
    check_grads(f, (q, k, PHASE), order=1, modes=("rev",), eps=1e-2, rtol=5e-3)


def test_bfloat16_vectors_are_rotated_in_float32(mesh: Any) -> None:  # noqa: ARG001
    """At position 60000 a bfloat16 angle would be off by turns; the result is off by the rounding of x only."""
    x, turn = numbers(8, 2, 6, HEADS, SIZE), jax.jit(lambda x: rotate(x, rotation_of(jnp.arange(6) + 60_000, FREQUENCIES)))
    y = turn(x.astype(jnp.bfloat16))
    assert y.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(y, np.float32), turn(x), atol=4e-2)
    of_polar = jax.eval_shape(polar, x.astype(jnp.bfloat16), jnp.zeros((6, SIZE)), init_polar_phase(HEADS, SIZE))
    assert of_polar.dtype == jnp.bfloat16


def test_a_phase_is_kept_within_its_bounds_where_its_gradient_is_whole() -> None:
    x, w, turned = numbers(5, 2, 5, HEADS, SIZE), numbers(7, 2, 5, HEADS, SIZE), numbers(6, 5, SIZE)
    turn = jax.jit(polar)
    for phase, used in ((0.5, 0.0), (-9.0, -2 * math.pi)):
        np.testing.assert_allclose(turn(x, turned, jnp.full((HEADS, SIZE), phase)), turn(x, turned + used, None), atol=1e-5)
    slope = jax.jit(jax.grad(lambda phase: jnp.sum(w * polar(x, turned, phase)[..., :SIZE])))
    zero, inside, end, above, below = (slope(jnp.full((HEADS, SIZE), p)) for p in (0.0, -1e-4, -2 * math.pi, 1e-3, -7.0))
    np.testing.assert_allclose(zero, inside, atol=2e-3)
    np.testing.assert_allclose(end, inside, atol=2e-3)
    assert np.abs(inside).max() > 0.1
    assert not above.any() and not below.any()


def test_pope_is_finite_for_any_content() -> None:
    x = jnp.broadcast_to(jnp.asarray([-1e4, -10.0, 0.0, 10.0, 1e4, 1.0]), (2, 5, HEADS, 6))
    value, gradient = jax.jit(jax.value_and_grad(lambda x: jnp.sum(polar(x, jnp.ones((5, 6)), None))))(x)
    assert np.isfinite(value) and np.isfinite(gradient).all()


def test_the_decay_of_xpos() -> None:
    """d = 4, gamma = 0.4: zeta = 0.4 / 1.4 and 0.9 / 1.4. Fast pairs fade sooner, and none grows."""
    np.testing.assert_allclose(xpos_decay(4), np.log([2 / 7, 9 / 14]) / 512)
    assert (np.diff(xpos_decay(64), append=0) > 0).all()


def test_the_longest_text_of_xpos_stays_within_float32_and_one_twice_as_long_does_not() -> None:
    longest, decay, normal = xpos_longest(64), xpos_decay(64), np.finfo(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        within = np.exp(decay * (longest - 1)).astype(np.float32), np.exp(-decay * (longest - 1)).astype(np.float32)
        beyond = np.exp(-decay * 2 * longest).astype(np.float32)
    assert within[0].min() >= 0.999 * normal.tiny * 2**16
    assert within[1].max() <= normal.max / 2**16
    assert np.isinf(beyond).any()
    assert xpos_longest(64, scale_base=1024.0) == pytest.approx(2 * longest, abs=2)


test_impossible_tables_are_refused = refused(
    (lambda: position_tables(2, 4, 8, window=0), "^window = 0: give at least 1$"),
    (lambda: position_tables(2, 4, 8, chunk=0), "^chunk = 0: give at least 1$"),
    (lambda: position_tables(2, 4, 8, initial_tokens=-1), "^initial_tokens = -1: give at least 0$"),
    (lambda: position_tables(2, 4, 8, slopes=np.ones(1)), "4 heads have one each"),
)


@pytest.mark.parametrize(("bad", "why"), [({"head_dim": 5}, "5 must be even"), ({"head_dim": 4, "gamma": 0.0}, "gamma > 0")])
def test_impossible_numbers_of_xpos_are_an_error(bad: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        xpos_decay(**bad)
