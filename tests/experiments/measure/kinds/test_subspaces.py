"""Principal angles against SciPy's, and the overlap of random subspaces against its closed form."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import subspace_angles

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.kinds.subspaces import position_angles, principal_cosines
from leadline.experiments.runtime.errors import UserError
from leadline.model.decoder import init_decoder

pytestmark = pytest.mark.usefixtures("in_use")
MODEL = ModelConfig.model_validate({"layers": 1, "width": 32, "heads": 2, "hidden": 8, "position": "learned"})
CFG = decoder_config(MODEL, 40, 12)


def test_angles_are_those_of_scipy() -> None:
    params, rng = init_decoder(jax.random.key(0), CFG), np.random.default_rng(0)
    shared = rng.standard_normal(32)
    positions, embedding = (rng.standard_normal((rows, 32)) + shared for rows in (12, 40))
    params = replace(params, positions=jnp.asarray(positions, jnp.float32), embedding=jnp.asarray(embedding, jnp.float32))
    a, b = (np.linalg.svd(table)[2][:8].T for table in (positions, embedding))
    angles = subspace_angles(a, b)
    measured = position_angles.function(params, tables(MODEL, 12), jnp.zeros((1, 13), jnp.int32), CFG)
    assert measured["position_overlap"] == pytest.approx((np.cos(angles) ** 2).mean(), abs=1e-4)
    assert measured["smallest_angle"] == pytest.approx(np.degrees(angles.min()), abs=0.05)


def test_random_subspaces_share_the_part_that_they_have_of_all_directions() -> None:
    """k / D = 1/4 in expectation; the mean of 200 pairs is within 0.01 of it."""
    both = np.random.default_rng(1).standard_normal((2, 200, 16, 32)).astype(np.float32)
    cosines = jax.jit(jax.vmap(lambda a, b: principal_cosines(a, b, 8)))(*both)
    assert float(jnp.mean(jnp.square(cosines))) == pytest.approx(0.25, abs=0.01)


def test_a_model_without_learned_positions_is_refused() -> None:
    params = replace(init_decoder(jax.random.key(0), CFG), positions=None)
    with pytest.raises(UserError, match="the model has no learned positions"):
        position_angles.function(params, tables(MODEL, 12), jnp.zeros((1, 13), jnp.int32), CFG)
