"""KERPLE: a conditionally positive definite kernel of the distance, with two trained numbers a head."""

from dataclasses import dataclass
from typing import Literal, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from leadline.model.attention.scores import ScoreBias
from leadline.model.mesh import place
from leadline.model.positions.relative import PositionBias, bias_of_distance

LEAST = 0.01  # the authors' code keeps its parameters at or above this


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class KerpleBias:
    """Unbounded weights, of which p and a below are functions. `*L` is empty for one layer."""

    scale: Float[Array, "*L N"]
    shape: Float[Array, "*L N"]


@dataclass(frozen=True)
class Kerple(PositionBias):
    """KERPLE with one of its two kernels."""

    form: Literal["logarithmic", "power"] = "logarithmic"

    def __post_init__(self) -> None:
        if self.form not in ("logarithmic", "power"):
            raise ValueError(f'unknown form {self.form!r} of KERPLE: take "logarithmic" or "power"')

    def init(self, key: Array, width: int, heads: int, head_dim: int) -> KerpleBias:  # noqa: ARG002
        """The published initialisation, p ~ U(0, 2) and a ~ U(0, 1), at least `LEAST` as in the authors' code.

        p is the factor of the logarithm and the exponent of the power. a is the rate of the logarithm and the factor of the
        power.
        """
        first, second = jax.random.uniform(key, (2, heads))
        if self.form == "power":
            # At 2 itself the weight would be infinite: the exponent is kept as far from there as from 0.
            half = jnp.clip(second, LEAST / 2, 1 - LEAST / 2)
            scale, shape = jnp.log(jnp.maximum(first, LEAST)), jnp.log(half) - jnp.log1p(-half)
        else:
            scale, shape = jnp.log(jnp.maximum(2 * first, LEAST)), jnp.log(jnp.maximum(second, LEAST))
        return KerpleBias(scale=place(scale, P("model")), shape=place(shape, P("model")))

    def score_bias(self, p: KerpleBias, tokens: int) -> ScoreBias:
        kernel = kerple_power if self.form == "power" else kerple_logarithmic
        return bias_of_distance(kernel(p, tokens))


def kerple_logarithmic(p: KerpleBias, keys: int) -> Float[Array, "N S"]:
    """-p ln(1 + a d) at distances d = 0 … keys - 1, p = e^scale, a = e^shape (Chi et al. 2022, arXiv:2205.09921).

    For `by_distance`. The authors' code clamps p and a at 0.01 in place at every step, which no gradient sees; here they are
    positive by their form, and every gradient is that of the value.
    """
    distance = jnp.arange(keys, dtype=jnp.float32)[None, :]
    return -jnp.exp(p.scale)[:, None] * jnp.log1p(jnp.exp(p.shape)[:, None] * distance)


def kerple_power(p: KerpleBias, keys: int) -> Float[Array, "N S"]:
    """-a d^p at distances d = 0 … keys - 1, a = e^scale, p = 2 / (1 + e^-shape) in (0, 2] (Chi et al. 2022, arXiv:2205.09921).

    For `by_distance`. The authors' code clamps a at 0.01 and p to [0.01, 2] in place, see `kerple_logarithmic`.
    """
    distance = jnp.arange(keys, dtype=jnp.float32)[None, :]
    # ln 0 would make the gradient at distance 0 a NaN.
    powers = jnp.exp(2 * jax.nn.sigmoid(p.shape)[:, None] * jnp.log(jnp.maximum(distance, 1)))
    return -jnp.exp(p.scale)[:, None] * jnp.where(distance > 0, powers, 0)
