"""A training step with one mechanism more, and attention behind a window: what a mechanism costs."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from experiments.bench.llama import LEARNING_RATE, Size, config
from experiments.bench.ours_sweep import Arm, arms_together
from experiments.bench.worker import Prepared
from experiments.config.model import ModelConfig
from model.attention import attention
from model.mesh import make_mesh
from model.positions.tables import NO_WINDOW

HEAD = 64


def step(size: Mapping[str, int], compute: str, changes: Mapping[str, Any]) -> Prepared:
    """A step of the model of the other benchmarks with some of its configuration changed, its weights drawn."""
    own = Size(**size)
    model = ModelConfig.model_validate({**config(own, compute).model_dump(), **changes})
    return Prepared(arms_together(own, [Arm(model, seed=0, rate=LEARNING_RATE)]).work)


def gradient(tokens: int, heads: int, compute: str, window: int | None, kept: int = 0) -> Prepared:
    """Forward and backward pass of attention of one text."""
    q, k, v, w = jax.random.normal(jax.random.key(0), (4, 1, tokens, heads, HEAD), jnp.dtype(compute))
    values = {"extra_logit": jnp.full(heads, -jnp.inf), "slopes": jnp.zeros(heads)}
    sight = {"window": jnp.int32(NO_WINDOW if window is None else window), "kept": jnp.int32(kept)}

    def loss(qkv: tuple[Array, ...], sight: dict[str, Array]) -> Array:
        return jnp.sum((w * attention(*qkv, **values, **sight)[0]).astype(jnp.float32))

    with jax.set_mesh(make_mesh()):
        program = jax.jit(jax.grad(loss)).lower((q, k, v), sight).compile()
    return Prepared(lambda: jax.block_until_ready(program((q, k, v), sight)))
