"""The arithmetic of attention against closed forms in NumPy and SciPy."""

import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from leadline.experiments.config.exact import AttentionArithmetic
from leadline.experiments.measure.exact import attention_order, attention_scores, attention_size
from leadline.experiments.measure.exact.attention_arithmetic import jobs
from leadline.experiments.measure.exact.attention_scores import drawn
from leadline.experiments.records.measurement import Point, reading
from leadline.experiments.runtime.errors import UserError
from leadline.model.attention.attention import attention
from leadline.model.attention.mask import Mask
from leadline.model.positions.frequencies import inverse_frequencies
from tests.experiments.configured import studies_of
from tests.experiments.measure.exact.jobs import points_of

EXACT = AttentionArithmetic(
    enumerated=(2, 4),
    head_dims=(8, 128),
    keys=16,
    draws=600,
    repeated=32,
    permuted=4,
    head_dim=16,
    base=100.0,
    windows=((3, 2), (1, 4), (5, 3)),
    width=64,
    heads=(1, 4),
    context=8,
)


@pytest.fixture(scope="module")
def points() -> dict[str, Point]:
    return points_of(jobs(EXACT))


def rotary_scores(q: np.ndarray, k: np.ndarray, base: float, tokens: int) -> np.ndarray:
    """Re Σ_i q_i conj(k_i) e^(i (t - s) ω_i) of pairs as complex numbers, for every t and s of a repeated token."""
    half = len(q) // 2
    pairs = (q[:half] + 1j * q[half:]) * np.conj(k[:half] + 1j * k[half:])
    t = np.arange(tokens)
    return np.real(np.exp(1j * (t[:, None] - t[None])[..., None] * inverse_frequencies(len(q), base)) @ pairs)


def test_the_variance_of_scores_is_the_number_of_channels(points: dict[str, Point]) -> None:
    for d in (2, 4):
        variances = [points["scores"][reading("score_variance", head_dim=d, scale=scale)] for scale in ("none", "1/sqrt(d)")]
        assert variances == [pytest.approx(d), pytest.approx(1)]


def test_softmax_saturates_as_its_closed_form_does(points: dict[str, Point]) -> None:
    for d, (scale, factor) in itertools.product((8, 128), {"none": 1.0, "1/sqrt(d)": None}.items()):
        parts = [(np.asarray(k, np.float64) @ np.asarray(q, np.float64).swapaxes(1, 2))[..., 0] for q, k in drawn(600, 16, d)]
        assert [len(part) for part in parts] == [512, 88]
        p = special.softmax((factor or d**-0.5) * np.concatenate(parts), axis=1)
        squares, cubes = np.sum(p**2, axis=1), np.sum(p**3, axis=1)
        expected = {
            "largest_probability": p.max(axis=1),
            "effective_keys": np.exp(-np.sum(special.xlogy(p, p), axis=1)),
            "jacobian_norm": np.sqrt(np.maximum(squares - 2 * cubes + squares**2, 0)),
        }
        for of, summary in (("median", np.median), ("mean", np.mean)):
            measured = {name: points["saturation"][reading(name, head_dim=d, scale=scale, of=of)] for name in expected}
            assert measured == pytest.approx({name: summary(values) for name, values in expected.items()}, rel=1e-3)


def test_draws_are_standard_normal_and_the_same_in_every_run() -> None:
    (q, k), (again, _) = (next(drawn(512, 16, 8)) for _ in range(2))
    np.testing.assert_array_equal(q, again)
    assert (q.shape, k.shape) == ((512, 1, 8), (512, 16, 8))
    assert abs(float(k.mean())) < 0.02 and float(k.std()) == pytest.approx(1, abs=0.02)
    assert abs(float((q * k).mean())) < 0.02


def test_the_norm_of_the_jacobian_is_that_of_the_derivative_of_softmax() -> None:
    logits = jnp.stack([deviation * jnp.sin(jnp.arange(16.0) ** 2) for deviation in (0.1, 1.0, 5.0)])
    jacobians = jax.vmap(jax.jacobian(attention_scores.probabilities))(logits)
    p = np.asarray(attention_scores.probabilities(logits), np.float64)
    np.testing.assert_allclose(attention_scores.jacobian_norms(p), np.linalg.norm(jacobians, axis=(1, 2)), rtol=1e-5)


def test_attention_to_the_first_of_repeated_tokens(points: dict[str, Point]) -> None:
    weight = {name: points["repeated"][reading("relative_weight", positions=name)] for name in ("none", "rope", "alibi")}
    t = np.arange(1, 33)
    decays = [t[1:] / np.exp(slope * np.arange(32)).cumsum()[1:] for slope in 2.0 ** -np.arange(1, 9)]
    q, k = (np.cos(phase + np.arange(16.0) ** 2) for phase in (1.0, 2.0))
    scores = rotary_scores(q / np.linalg.norm(q), k / np.linalg.norm(k), 100.0, 32)
    first = np.exp(scores[:, 0]) / np.tril(np.exp(scores)).sum(axis=1)
    expected = {"none": 1, "rope": (t * first)[1:].max(), "alibi": np.max(decays)}
    assert weight == pytest.approx(expected, rel=1e-5)
    assert points["repeated"][reading("largest_difference", positions="none")] < 1e-6


def test_a_weight_that_is_not_uniform_is_seen() -> None:
    weights = np.tril(np.ones((1, 3, 3))) / np.arange(1, 4)[:, None]
    assert attention_order.away_from_uniform(weights) == 0
    weights[0, 2] = [0.5, 0.25, 0.25]
    assert attention_order.away_from_uniform(weights) == pytest.approx(0.5)
    assert attention_order.relative_weight(weights) == pytest.approx(1.5)


def plain_attention(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """softmax(q k^T / sqrt(H)) v of x [T, 3, N, H] in float64."""
    q, k, v = (x[:, n].swapaxes(0, 1) for n in range(3))
    scores = np.where(mask, q @ k.swapaxes(1, 2) / q.shape[-1] ** 0.5, -np.inf)
    return (special.softmax(scores, axis=-1) @ v).swapaxes(0, 1)


def test_order_is_known_under_a_causal_mask_or_by_rope(points: dict[str, Point]) -> None:
    x = np.cos(1.0 + np.arange(4 * 3 * 2 * 4.0) ** 2).reshape(4, 3, 2, 4)
    orders = [list(order) for order in itertools.permutations(range(4))]
    causal = np.tril(np.ones((4, 4), bool))
    expected = max(np.abs(plain_attention(x[p], causal) - plain_attention(x, causal)[p]).max() for p in orders)
    difference = {
        (mask, positions): points["order"][reading("largest_difference", mask=mask, positions=positions)]
        for mask, positions in (("none", "none"), ("causal", "none"), ("none", "rope"))
    }
    assert difference["causal", "none"] == pytest.approx(expected, rel=1e-5)
    assert difference["none", "none"] < 1e-6 < 1e-2 < difference["none", "rope"]
    assert points["order"][reading("position_error", mask="causal", positions="none")] < 1e-4


def test_rotations_keep_scores_and_norms(points: dict[str, Point], monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(points["rotation"]) == len(EXACT.shifts) + 2
    assert all(difference < 2e-6 for difference in points["rotation"].values())
    monkeypatch.setattr(attention_order, "rotated", lambda x, base, positions: x + base * positions[None, :, None, None])
    assert attention_order.moved(16, 1e-3, 5) > 1e-3
    assert attention_order.norm_change(16, 1e-3) > 1e-3
    assert attention_order.away_from_cosines(16, 1e-3) > 1e-3


def test_windows_reach_as_far_as_the_gradient_of_the_whole_stack(points: dict[str, Point]) -> None:
    for window, layers in EXACT.windows:
        tokens = window * layers + 2
        zero = jnp.zeros((1, tokens, 1, 2))

        def stack(x: jax.Array, window: int = window, layers: int = layers, zero: jax.Array = zero) -> jax.Array:
            for _ in range(layers):
                x = attention(zero, zero, x, Mask(window=window))[0]
            return x[0, -1, 0, 0]

        gradient = np.asarray(jax.jit(jax.grad(stack))(jnp.ones((1, tokens, 1, 2))))[0, :, 0, 0]
        distance = tokens - 1 - np.flatnonzero(gradient)[0]
        assert points["windows"][reading("attention_span", window=window, layers=layers)] == distance == layers * (window - 1)


def test_a_sink_logit_takes_its_share(points: dict[str, Point]) -> None:
    point, logits = points["softmax_bias"], np.linspace(-1, 1, 16)

    def off_by_one(logits: np.ndarray) -> np.ndarray:
        return np.exp(logits) / (1 + np.exp(logits).sum())

    for logit in (0.0, -20.0):
        total = 16 * np.exp(logit)
        assert point[reading("total_weight", normalizer="softmax", logit=logit)] == pytest.approx(1)
        share = point[reading("total_weight", normalizer="off_by_one", logit=logit)]
        assert share == pytest.approx(total / (1 + total), rel=1e-5)
    case = "5 added to every logit"
    change = {name: point[reading("largest_difference", normalizer=name, case=case)] for name in attention_scores.SINK_LOGITS}
    assert change["softmax"] < 1e-6
    assert change["off_by_one"] == pytest.approx(np.abs(off_by_one(logits + 5) - off_by_one(logits)).max(), rel=1e-3)
    assert len(attention_scores.prepended(16)) == 2
    assert all(difference < 1e-6 for difference in attention_scores.prepended(16).values())


def test_heads_share_the_width(points: dict[str, Point]) -> None:
    for heads in EXACT.heads:
        sizes = {"projection_weights": 4 * 64**2, "product_flops": 4 * 8**2 * 64, "score_bytes": 4 * heads * 8**2}
        assert {name: points["heads"][reading(name, heads=heads)] for name in sizes} == sizes


def test_a_product_that_no_output_needs_takes_no_flops() -> None:
    a, b = jnp.ones((2, 3)), jnp.ones((3, 5))
    both = jax.make_jaxpr(lambda a, b: (a @ b, b @ b.T)[0])(a, b)
    assert sum(attention_size.product_flops(both.jaxpr)) == 2 * 2 * 3 * 5


def test_heads_that_do_not_share_the_width_are_refused(tmp_path: Path) -> None:
    text = 'study = "s"\n[exact]\nkind = "attention_arithmetic"\nwidth = 64\nheads = [1, 3]\n'
    with pytest.raises(UserError, match=r"heads = \[3\]: each must divide half of the width 64"):
        studies_of(tmp_path, text)
