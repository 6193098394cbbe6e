"""The key-value cache of a model that is trained, for studies that set it against the loss."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from leadline.experiments.measure.kinds.plugin import of_model
from leadline.experiments.records.quantities import Quantity
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.generate import Policy, empty_cache
from leadline.model.positions.tables import PositionTables


@of_model(Quantity("token_cache", "bytes", "keys and values of one token in all layers", "cache of a token", digits=0))
def token_cache(
    params: Decoder,  # noqa: ARG001
    tables: PositionTables,  # noqa: ARG001
    tokens: Int[Array, "B T_and_1"],  # noqa: ARG001
    cfg: DecoderConfig,
) -> dict[str, Float[Array, ""]]:
    """The bytes of `leadline.model.generate.empty_cache` with room for one token."""
    cache = jax.eval_shape(lambda: empty_cache(cfg, Policy(), batch=1, room=1))
    return {"token_cache": jnp.float32(sum(part.size * part.dtype.itemsize for part in (cache.key, cache.value)))}
