"""The cache of models that are trained, beside the array that decoding keeps."""

import jax
import jax.numpy as jnp
import pytest

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.kinds.cache import token_cache
from leadline.experiments.measure.shapes import layer_caches
from leadline.model.decoder import init_decoder


@pytest.mark.parametrize(
    "changes", [{}, {"kv_heads": 2}, {"kv_heads": 1}, {"position": {"kind": "pope", "base": 1e4}}], ids=str
)
def test_a_token_takes_keys_and_values_of_every_layer(changes: dict[str, object]) -> None:
    position = {"kind": "rope", "base": 1e4}
    model = ModelConfig.model_validate({"layers": 3, "width": 16, "heads": 4, "hidden": 16, "position": position} | changes)
    cfg = decoder_config(model, 7, 8)
    params = init_decoder(jax.random.key(0), cfg)
    measured = token_cache.function(params, tables(model, 8), jnp.zeros((1, 9), jnp.int32), cfg)
    assert measured == {"token_cache": layer_caches(model, 1, 32).sum()}
    assert measured["token_cache"] == 4 * 3 * model.key_heads * 4 * (3 if "position" in changes else 2)
