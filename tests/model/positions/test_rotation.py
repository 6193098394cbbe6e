"""Rotation: what it keeps, what it depends on, its two layouts, and the temperature of queries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.positions.angles import Frequencies, fixed_point
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.rotation import query_scale, rotate, rotation_of

SIZE = 16
LAYOUTS = pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "interleaved"])


def table(base: float = 1e4) -> Frequencies:
    return fixed_point(inverse_frequencies(SIZE, base)[None])


def vectors(seed: int, tokens: int = 6, heads: int = 3) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal((2, tokens, heads, SIZE)), jnp.float32)


def rotated(x, positions, frequencies, factor=1.0, interleaved=False):
    return rotate(x, rotation_of(jnp.asarray(positions), frequencies, factor), interleaved=interleaved)


@LAYOUTS
def test_pairs_are_multiplied_by_a_complex_phase(interleaved):
    x, positions = vectors(0), np.array([0, 1, 2, 7, 100, 1000])
    y = np.asarray(rotated(x, positions, table(), interleaved=interleaved))
    take = (lambda z: z[..., 0::2] + 1j * z[..., 1::2]) if interleaved else (lambda z: z[..., :8] + 1j * z[..., 8:])
    phase = np.exp(1j * positions[:, None] * inverse_frequencies(SIZE, 1e4))[None, :, None, :]
    np.testing.assert_allclose(take(y), take(np.asarray(x, np.float64)) * phase, atol=2e-4)


@LAYOUTS
@pytest.mark.parametrize("shift", [1, 17, 500])
def test_inner_products_depend_on_relative_positions_only(interleaved, shift):
    q, k, positions = vectors(1), vectors(2), np.arange(6)

    def scores(offset):
        a, b = (rotated(x, positions + offset, table(), interleaved=interleaved) for x in (q, k))
        return jnp.einsum("BTNH,BSNH->BNTS", a, b)

    np.testing.assert_allclose(scores(shift), scores(0), atol=1e-3)
    assert np.abs(scores(0) - jnp.einsum("BTNH,BSNH->BNTS", q, k)).max() > 0.1


@LAYOUTS
@pytest.mark.parametrize("factor", [1.0, 1.2])
def test_norms_are_multiplied_by_the_factor_only(interleaved, factor):
    x = vectors(3)
    y = rotated(x, np.arange(6) * 31, table(), factor, interleaved)
    np.testing.assert_allclose(jnp.linalg.norm(y, axis=-1), factor * jnp.linalg.norm(x, axis=-1), rtol=1e-5)


def test_layouts_differ_by_a_permutation_of_the_channels():
    x, positions = vectors(4), np.arange(6)
    order = np.arange(SIZE).reshape(2, -1).T.ravel()  # channel i and channel i + H/2 side by side
    y = rotated(x, positions, table())
    np.testing.assert_allclose(rotated(x[..., order], positions, table(), interleaved=True), y[..., order], atol=1e-6)


@LAYOUTS
def test_a_table_of_zeros_is_no_position(interleaved):
    x = vectors(5)
    np.testing.assert_array_equal(rotated(x, np.arange(6), fixed_point(np.zeros((1, SIZE // 2))), interleaved=interleaved), x)


def test_two_bases_differ_one_after_the_other():
    """A table that was cached from the first call would be used by the second."""
    x, positions = vectors(6), np.arange(6)
    first, second, again = (rotated(x, positions, table(base)) for base in (1e4, 100.0, 1e4))
    assert np.abs(first - second).max() > 0.1
    np.testing.assert_array_equal(first, again)


def test_one_program_serves_every_table():
    traced = []

    @jax.jit
    def compiled(x, frequencies):
        traced.append(x)
        return rotated(x, np.arange(6), frequencies)

    outputs = [compiled(vectors(7), table(base)) for base in (1e4, 100.0)]
    assert len(traced) == 1
    assert np.abs(outputs[0] - outputs[1]).max() > 0.1


def test_bfloat16_vectors_are_rotated_in_float32():
    """At position 60000 a bfloat16 angle would be off by turns; the result is off by the rounding of x only."""
    x, positions = vectors(8), np.arange(6) + 60_000
    y = rotated(x.astype(jnp.bfloat16), positions, table())
    assert y.dtype == jnp.bfloat16
    np.testing.assert_allclose(y.astype(jnp.float32), rotated(x, positions, table()), atol=4e-2)


def test_the_temperature_rises_by_a_logarithm_of_whole_spans():
    found = query_scale(jnp.array([0, 8190, 8191, 16382, 16383]), jnp.float32(0.1), jnp.float32(8192))
    np.testing.assert_allclose(found, 1 + 0.1 * np.log([1, 1, 2, 2, 3]), rtol=1e-6)


def test_no_strength_is_no_temperature():
    np.testing.assert_array_equal(query_scale(jnp.arange(100), jnp.float32(0), jnp.float32(4)), np.ones(100))
