"""The arithmetic of embeddings against closed forms in NumPy and SciPy."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from leadline.experiments.config.exact import Embeddings
from leadline.experiments.config.train import TrainConfig
from leadline.experiments.measure.exact import embedding_size, embedding_training
from leadline.experiments.measure.exact.embeddings import jobs
from leadline.experiments.records.measurement import Point, reading
from leadline.model.positions.absolute import sinusoidal
from tests.experiments.measure.exact.jobs import points_of

pytestmark = pytest.mark.usefixtures("in_use")
EXACT = Embeddings(width=64, vocabulary=50, tokens=9, steps=60, positions=128, shift=7)
ADAM = TrainConfig(steps=60, batch=1, learning_rate=1e-2, weight_decay=0.0)


@pytest.fixture(scope="module")
def points() -> dict[str, Point]:
    with jax.numpy_dtype_promotion("standard"):
        return points_of(jobs(EXACT))


def later_movement(step: int, steps: int) -> float:
    """Adam with β1 = 0.9, β2 = 0.95 and ε = 0 after one gradient of 1, by its moments written out."""
    t = np.arange(step, steps + 1)
    first, second = 0.1 * 0.9 ** (t - step), 0.05 * 0.95 ** (t - step)
    moves = first / (1 - 0.9**t) / np.sqrt(second / (1 - 0.95**t))
    return moves[1:].sum() / moves[0]


def test_rows_that_are_looked_up_are_products_of_one_hot_vectors(points: dict[str, Point]) -> None:
    assert points["lookup"][reading("largest_difference")] == 0


def test_only_rows_of_the_input_have_a_gradient_unless_the_table_is_tied(points: dict[str, Point]) -> None:
    """The gradient is that of finite differences: of one row that is looked up, and of one that is not, of a tied table."""
    gradient = {
        (unembedding, rows, of): points["lookup"][reading("row_gradient", unembedding=unembedding, rows=rows, of=of)]
        for unembedding in ("own", "tied")
        for rows in ("looked up", "others")
        for of in ("smallest", "largest")
    }
    assert gradient["own", "others", "largest"] == 0
    assert all(length > 1e-6 for key, length in gradient.items() if key[:2] != ("own", "others"))
    ids = jnp.asarray(embedding_training.half_of_the_ids(50, 9))
    p = embedding_training.drawn_weights(64, 50, "tied", 9)
    model = embedding_training.plain_model(64, "tied")
    lengths, seen = embedding_training.row_gradients(64, 50, 9, "tied")
    assert seen.tolist() == [row in np.asarray(ids)[:-1] for row in range(50)]
    loss = jax.jit(lambda table: embedding_training.mean_loss(dataclasses.replace(p, embedding=table), ids, model, 50))
    for row in (int(ids[0]), 1):
        uphill = jax.grad(loss)(p.embedding)[row]
        direction = uphill / jnp.linalg.norm(uphill)
        ahead, after = (loss(p.embedding.at[row].add(sign * 1e-2 * direction)) for sign in (1, -1))
        assert float(ahead - after) / 2e-2 == pytest.approx(lengths[row], rel=2e-2)


def test_decoupled_decay_alone_moves_a_row_without_a_gradient(points: dict[str, Point]) -> None:
    kept = {
        (decay, first): float(points["steps"][reading("kept_value", decay=decay, start=first)])
        for decay in (0.1, 0.0)
        for first in (1.0, 0.0)
    }
    assert kept[0.1, 1.0] == pytest.approx((1 - 1e-3) ** 60, rel=1e-5)
    assert (kept[0.0, 1.0], kept[0.1, 0.0], kept[0.0, 0.0]) == (1, 0, 0)


def test_moments_move_a_row_after_its_only_gradient(points: dict[str, Point]) -> None:
    for step in (1, 60):
        assert points["steps"][reading("later_movement", seen_at=step)] == pytest.approx(later_movement(step, 120), rel=1e-3)
    ratio = 0.9 / 0.95**0.5
    assert later_movement(1000, 2000) == pytest.approx(ratio / (1 - ratio))


def test_without_moments_a_row_stays_where_its_gradient_ends() -> None:
    forgetful = ADAM.model_copy(update={"beta1": 0.0})
    assert embedding_training.moved_afterwards(8, forgetful, 30) == 0


def test_tables_have_the_variance_that_they_are_named_after(points: dict[str, Point]) -> None:
    """The normal numbers of a model are cut at three standard deviations."""
    cut = 1 - 2 * 3 * np.exp(-4.5) / np.sqrt(2 * np.pi) / special.erf(3 / 2**0.5)
    variances = {"N(0, 1/d)": cut / 64, "N(0, 0.02²)": 4e-4, "U(±1/√d)": 1 / (3 * 64), "N(0, 1)": 1.0}
    for name, variance in variances.items():
        measured = {
            quantity: points["start"][reading(quantity, table=name)]
            for quantity in ("entry_variance", "row_norm", "logit_deviation")
        }
        assert measured["entry_variance"] == pytest.approx(variance, rel=0.05)
        assert measured["row_norm"] == pytest.approx((64 * variance) ** 0.5, rel=0.03)
        assert measured["logit_deviation"] == pytest.approx((64 * variance) ** 0.5, rel=0.08)


def test_independent_normal_logits_cost_half_their_variance(points: dict[str, Point]) -> None:
    """ln V + σ²/2, for a large vocabulary and small σ; a table of zeros costs ln V."""
    for name, tolerance in (("N(0, 0.02²)", 0.02), ("U(±1/√d)", 0.1)):
        sigma = points["start"][reading("logit_deviation", table=name)]
        excess = points["start"][reading("loss_excess", table=name, unembedding="own")]
        assert excess == pytest.approx(sigma**2 / 2, abs=tolerance)
    assert embedding_size.loss_excess(jnp.zeros((50, 64)), "own") == pytest.approx(0, abs=1e-5)


def test_sinusoids_have_the_length_of_their_pairs_and_rotate(points: dict[str, Point]) -> None:
    names = ("embedding", "embedding · sqrt(d)", "sinusoid")
    norm = {rows: points["positions"][reading("row_norm", rows=rows)] for rows in names}
    assert norm["sinusoid"] == pytest.approx(32**0.5)
    assert norm["embedding · sqrt(d)"] == pytest.approx(8 * norm["embedding"])
    assert points["positions"][reading("largest_difference")] < 1e-5
    slow = embedding_size.away_from_rotation(64, 16, 7)
    assert slow < 1e-5 < np.abs(np.asarray(sinusoidal(jnp.arange(7, 23), 64) - sinusoidal(jnp.arange(16), 64))).max()


def test_directions_are_those_of_the_covariance(points: dict[str, Point]) -> None:
    """Eigenvalues of sᵀs in place of singular values of s."""
    sinusoids = np.asarray(sinusoidal(jnp.arange(128), 64), np.float64)
    values = np.sort(np.linalg.eigvalsh(sinusoids.T @ sinusoids))[::-1]
    expected = int(np.argmax(np.cumsum(values) >= 0.999 * values.sum())) + 1
    assert points["positions"][reading("directions", rows="sinusoid")] == expected
    assert embedding_size.directions(jnp.tile(jnp.arange(1.0, 9.0), (5, 1))) == 1
    assert embedding_size.directions(jnp.eye(8)) == 8


def test_cosines_of_independent_rows_are_as_small_as_their_width_makes_them(points: dict[str, Point]) -> None:
    """E|cos| ≈ sqrt(2 / (π d))."""
    assert points["positions"][reading("mean_cosine")] == pytest.approx((2 / (np.pi * 64)) ** 0.5, rel=0.1)
    assert embedding_size.mean_cosine(jnp.eye(3), jnp.eye(3)) == pytest.approx(1 / 3)
