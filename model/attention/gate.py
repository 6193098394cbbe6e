"""Gates of queries, keys, values and outputs (Qiu et al. 2025, arXiv:2505.06708)."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from leadline.model.linear import matrix, project, zeros

# Axes:  B batch  T token  D model  N heads (of the queries, or of the keys and values)  H head
Where = Literal["output", "value", "key", "query", "projection"]
Per = Literal["head", "channel", "shared"]
Activation = Literal["sigmoid", "silu", "tanh"]
GateScores = Float[Array, "#B #T N"] | Float[Array, "#B #T N H"] | Float[Array, "#B #T H"]


@dataclass(frozen=True)
class GateConfig:
    """One gate of a block.

    Attributes:
        where: on the output of attention (G1 of the paper), on the values (G2), keys (G3) or queries (G4), before they are
            rotated, or after the output projection (G5), where it has D channels and no heads.
        per: one gate per head, one per channel of each head, or one per channel that all heads share.
        activation: of the scores.
        dims: number of first channels of the layer input that the gate sees; None is all.
        static: whether the gate sees no input, so that the gate itself is learned.
        zero: whether its weights start at 0, so that the gate starts at σ(0) = 1/2, and with limits (0, 2) at 1, as if it were
            not there.

    Raises:
        ValueError: for an unknown name, a gate on the projection that is not per channel, `dims` below 1, and a static gate
            with `dims`.
    """

    where: Where = "output"
    per: Per = "head"
    activation: Activation = "sigmoid"
    dims: int | None = None
    static: bool = False
    zero: bool = False

    def __post_init__(self) -> None:
        for name, known in (("where", get_args(Where)), ("per", get_args(Per)), ("activation", get_args(Activation))):
            if (value := getattr(self, name)) not in known:
                raise ValueError(f"unknown {name} {value!r} of a gate: choose one of {', '.join(known)}")
        if self.dims is not None and self.dims < 1:
            raise ValueError(f"a gate of dims = {self.dims} sees nothing: take 1 or more, or a static gate")
        if self.where == "projection" and self.per != "channel":
            raise ValueError(f'a gate on the projection has per = "channel", not {self.per!r}: there are no heads after it')
        if self.static and self.dims is not None:
            raise ValueError(f"a static gate sees no input, so it cannot see the first {self.dims} channels: leave dims out")


def gates(cfg: GateConfig, width: int, heads: int, kv_heads: int, head_dim: int) -> tuple[int, ...]:
    """The shape of the gates of one token."""
    if cfg.where == "projection":
        return (width,)
    count = heads if cfg.where in ("output", "query") else kv_heads
    return {"head": (count,), "channel": (count, head_dim), "shared": (head_dim,)}[cfg.per]


def _sharding(cfg: GateConfig) -> tuple[str | None, ...]:
    if cfg.where == "projection":
        return (None,)
    return {"head": ("model",), "channel": ("model", None), "shared": (None,)}[cfg.per]


def gate_weights(cfg: GateConfig, width: int, heads: int, kv_heads: int, head_dim: int) -> Any:
    """The weights of a gate: [inputs, *gates] drawn at 1/sqrt(inputs), or [*gates] drawn at 1 for a static one.

    Raises:
        ValueError: if the gate sees more channels than there are.
    """
    inputs = cfg.dims or width
    if inputs > width:
        raise ValueError(f"a gate cannot see the first {inputs} channels of a layer input that has {width}")
    shape, spec = gates(cfg, width, heads, kv_heads, head_dim), _sharding(cfg)
    if not cfg.static:
        shape, spec = (inputs, *shape), (None if cfg.dims else "data", *spec)
    if cfg.zero:
        return zeros(shape, P(*spec))
    return matrix(shape, P(*spec), 1 if cfg.static else inputs)


def gate_scores(x: Float[Array, "B T D"], w: Float[Array, "..."], cfg: GateConfig, limits: Float[Array, " 2"]) -> GateScores:
    """low + (high - low) · f(x·W), float32.

    Args:
        x: the normed layer input, as for queries, keys and values.
        w: W.
        cfg: f is its activation.
        limits: low and high. (0, 1) is the paper's gate, (1/2, 1) its restricted one; (0, 2) with zero weights starts as none.
    """
    if cfg.static:
        products = w[None, None]
    else:
        seen = x if cfg.dims is None else jax.lax.slice_in_dim(x, 0, cfg.dims, axis=2)
        products = project(seen, w, out_sharding=P("data", None, *_sharding(cfg)))
    activation = {"sigmoid": jax.nn.sigmoid, "silu": jax.nn.silu, "tanh": jnp.tanh}[cfg.activation]
    return limits[0] + (limits[1] - limits[0]) * activation(products.astype(jnp.float32))


def apply_gate(y: Float[Array, "B T *N H"], scores: GateScores, per: Per) -> Float[Array, "B T *N H"]:
    """y ⊙ gate. A gate per head is broadcast over its channels, a shared one over the heads."""
    match per:
        case "head":
            scores = scores[..., None]
        case "shared":
            scores = scores[:, :, None]
        case "channel":
            pass
    return y * scores.astype(y.dtype)
