"""FIRE: a small network of the distance relative to the query's position."""

import math
from dataclasses import dataclass
from typing import no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import PartitionSpec as P
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int

from leadline.model.attention.scores import ScoreBias
from leadline.model.linear import matrix, zeros
from leadline.model.mesh import on_mesh
from leadline.model.positions.relative import PositionBias, grouped

C = 0.1  # of the authors: how the distance is bent


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class FireBias:
    """Weights. `*L` is empty for one layer."""

    log_c: Float[Array, "*L"]  # c = e^log_c bends the distance
    log_threshold: Float[Array, "*L"]  # L = e^log_threshold [tokens]: up to it, positions are not normalised
    hidden: Float[Array, "*L F"]
    hidden_bias: Float[Array, "*L F"]
    output: Float[Array, "*L F N"]
    output_bias: Float[Array, "*L N"]


@dataclass(frozen=True)
class Fire(PositionBias):
    """FIRE: the hidden units of its network, and the position [tokens] up to which it starts without normalisation.

    The authors start at 512 tokens, a quarter of their training length. Where all texts are shorter, nothing is normalised.
    """

    hidden: int = 32
    threshold: float = 512.0

    def init(self, key: Array, width: int, heads: int, head_dim: int) -> FireBias:  # noqa: ARG002
        """The network's matrices and hidden biases are to be drawn at 1/sqrt(fan-in), c is that of the authors.

        With biases of zero every hidden unit would have its corner at distance 0, and the bias would be linear. An output bias
        moves all scores of a head alike: zero.
        """
        return FireBias(
            log_c=jnp.full((), math.log(C), jnp.float32, out_sharding=on_mesh(P())),
            log_threshold=jnp.full((), math.log(self.threshold), jnp.float32, out_sharding=on_mesh(P())),
            hidden=matrix((self.hidden,), P(None), 1),
            hidden_bias=matrix((self.hidden,), P(None), 1),
            output=matrix((self.hidden, heads), P(None, "model"), self.hidden),
            output_bias=zeros((heads,), P("model")),
        )

    def score_bias(self, p: FireBias, tokens: int) -> ScoreBias:  # noqa: ARG002
        return Partial(_score_bias, p)


def _score_bias(p: FireBias, q: Array, scores: Array, i: Array, j: Array | None, _visible: Array) -> Array:
    return grouped(fire_bias(p, i, jnp.arange(scores.shape[-1]) if j is None else j), q)


def fire_bias(p: FireBias, i: Int[Array, " q"], j: Int[Array, " S"]) -> Float[Array, "N q S"]:
    """f(psi(i - j) / psi(max(L, i))), psi(x) = ln(c x + 1), of queries i and keys j (Li et al. 2024, arXiv:2310.04418).

    f is a network with one hidden layer of ReLU units. Its input lies in [0, 1]; where j > i it is 0. The authors' code takes
    |c| and |m L0| of trained c and m; c = e^log_c and L = e^log_threshold are positive by their form. float32.
    """
    c = jnp.exp(p.log_c)
    distance = jnp.maximum(i[:, None] - j[None, :], 0).astype(jnp.float32)
    furthest = jnp.maximum(jnp.exp(p.log_threshold), i.astype(jnp.float32))
    x = jnp.log1p(c * distance) / jnp.log1p(c * furthest)[:, None]
    units = jax.nn.relu(x[:, :, None] * p.hidden[None, None] + p.hidden_bias[None, None])
    return jnp.einsum("qSF,FN->NqS", units, p.output) + p.output_bias[:, None, None]
