"""Feed-forward layers: gated or not, of one network or of several experts."""

from typing import Any, Literal, get_args, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from leadline.model.linear import matrix, plus_bias, project, project_each, zeros
from leadline.model.mesh import HIDDEN, RESIDUAL

# Names of what stands between the products. Those of GATED have a second input matrix.
Gated = Literal["swiglu", "geglu_tanh", "swiglu_clamped"]
Activation = Literal[Gated, "gelu", "gelu_tanh", "relu"]
GATED: tuple[str, ...] = get_args(Gated)
# Of "swiglu_clamped" (OpenAI 2025, arXiv:2508.10925): where both inputs are clamped, and the steepness of the sigmoid.
CLAMP, STEEPNESS = 7.0, 1.702


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class FeedForward:
    """Weights; `gate` only for the gated kinds, biases only where the layer has them. `*L` may end with experts."""

    up: Float[Array, "*L D F"]
    gate: Float[Array, "*L D F"] | None
    down: Float[Array, "*L F D"]
    up_bias: Float[Array, "*L F"] | None = None
    gate_bias: Float[Array, "*L F"] | None = None
    down_bias: Float[Array, "*L D"] | None = None


def feedforward_weights(
    width: int, hidden: int, activation: Activation, gain: float, *, bias: bool = False, experts: tuple[int, ...] = ()
) -> FeedForward:
    """The matrices, to be drawn by `model.linear.draw`, and biases of 0.

    Args:
        width: D.
        hidden: F.
        activation: the gated kinds have a gate matrix.
        gain: multiplies the scale of the output matrix.
        bias: whether all products have biases.
        experts: (E,) for E networks, () for one.
    """
    each, gated = (None,) * len(experts), activation in GATED

    def hidden_bias(there: bool) -> Any:
        return zeros((*experts, hidden), P(*each, "model")) if bias and there else None

    return FeedForward(
        up=matrix((*experts, width, hidden), P(*each, "data", "model"), width),
        gate=matrix((*experts, width, hidden), P(*each, "data", "model"), width) if gated else None,
        down=matrix((*experts, hidden, width), P(*each, "model", "data"), hidden, gain),
        up_bias=hidden_bias(True),
        gate_bias=hidden_bias(gated),
        down_bias=zeros((*experts, width), P(*each, None)) if bias else None,
    )


def feedforward(
    p: FeedForward, x: Float[Array, "B T D"], activation: Activation
) -> tuple[Float[Array, "B T D"], Float[Array, "B T F"]]:
    """a·down, and the hidden units a = f(x·up), or f(x·gate, x·up) for the gated kinds (`activated`); products have biases."""
    h, *gates = project_each(x, (p.up,) if p.gate is None else (p.up, p.gate), out_sharding=HIDDEN)
    gate = plus_bias(gates[0], p.gate_bias) if gates else None
    hidden = activated(plus_bias(h, p.up_bias), gate, activation)
    return plus_bias(project(hidden, p.down, out_sharding=RESIDUAL), p.down_bias), hidden


def activated(h: Float[Array, "*B F"], gate: Float[Array, "*B F"] | None, activation: Activation) -> Float[Array, "*B F"]:
    """What stands between the products of a feed-forward layer.

        swiglu          silu(g) · h                       (Shazeer 2020, arXiv:2002.05202)
        geglu_tanh      gelu_tanh(g) · h                  (Shazeer 2020; Gemma, arXiv:2403.08295)
        swiglu_clamped  g · sigmoid(1.702 g) · (h + 1), g at most 7 and h within ±7  (OpenAI 2025, arXiv:2508.10925)
        gelu            h Φ(h), exact                     (Hendrycks and Gimpel 2016, arXiv:1606.08415)
        gelu_tanh       its approximation by tanh         (GPT-2)
        relu            max(h, 0)

    Raises:
        ValueError: for a gated kind without a gate.
    """
    if gate is None:
        match activation:
            case "gelu":
                return 0.5 * h * (1 + jax.lax.erf(h * 0.5**0.5))
            case "gelu_tanh":
                return jax.nn.gelu(h, approximate=True)
            case "relu":
                return jnp.maximum(h, 0)
            case _:
                raise ValueError(f"{activation} needs a gate matrix: initialise the feed-forward with that activation")
    match activation:
        case "swiglu":
            return jax.nn.silu(gate) * h
        case "geglu_tanh":
            return jax.nn.gelu(gate, approximate=True) * h
        case "swiglu_clamped":
            gate, h = jnp.minimum(gate, CLAMP), jnp.clip(h, -CLAMP, CLAMP)
            return gate * jax.nn.sigmoid(STEEPNESS * gate) * (h + 1)
        case _:
            raise ValueError(f"{activation} has no gate: leave the gate matrix out")
