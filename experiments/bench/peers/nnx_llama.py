"""The model in flax.nnx as its guide writes models: nnx.Linear on [B, T, D], jax.nn.dot_product_attention, nnx.Optimizer."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import Array

from leadline.experiments.bench.compilations import compiling
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads import llama
from leadline.experiments.bench.workloads.llama import EPSILON, Size, stepping


def prepare(size: Size, compute: str) -> Prepared:
    """A training step."""
    step, model, optimizer, ids = trainer(size, compute)
    return stepping(lambda: float(step(model, optimizer, ids)))


def prepare_compilation(size: Size) -> Prepared:
    """Compiles the step, each time without programs in the process."""
    step, model, optimizer, ids = trainer(size, "float32")

    def work() -> None:
        step.lower(model, optimizer, ids).compile()

    return compiling(work)


def trainer(size: Size, compute: str) -> tuple[Any, "Llama", nnx.Optimizer, Array]:
    """A step under nnx.jit, and its arguments."""
    model = Llama(size, jnp.dtype(compute), nnx.Rngs(0))
    _load(model, llama.weights(size))
    adam = optax.adamw(llama.LEARNING_RATE, *llama.BETAS, llama.ADAM_EPSILON, weight_decay=llama.WEIGHT_DECAY, mask=_matrices)
    optimizer = nnx.Optimizer(model, optax.chain(optax.clip_by_global_norm(llama.CLIP), adam), wrt=nnx.Param)
    ids = jnp.asarray(llama.tokens(size), jnp.int32)

    def loss_of(model: Llama, ids: Array) -> Array:
        scores = model(ids[:, :-1]).astype(jnp.float32)
        return optax.softmax_cross_entropy_with_integer_labels(scores, ids[:, 1:]).mean()

    @nnx.jit
    def step(model: Llama, optimizer: nnx.Optimizer, ids: Array) -> Array:
        loss, grads = nnx.value_and_grad(loss_of)(model, ids)
        optimizer.update(model, grads)
        return loss

    return step, model, optimizer, ids


class Layer(nnx.Module):
    def __init__(self, size: Size, dtype: jnp.dtype, rngs: nnx.Rngs) -> None:
        def linear(inputs: int, outputs: int) -> nnx.Linear:
            return nnx.Linear(inputs, outputs, use_bias=False, dtype=dtype, rngs=rngs)

        D, F = size.width, size.hidden
        self.heads = size.heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (linear(D, D) for _ in "qkvo")
        self.gate_proj, self.up_proj, self.down_proj = linear(D, F), linear(D, F), linear(F, D)
        self.input_layernorm, self.post_attention_layernorm = (
            nnx.RMSNorm(D, epsilon=EPSILON, dtype=dtype, rngs=rngs) for _ in range(2)
        )

    def __call__(self, x: Array) -> Array:
        h = self.input_layernorm(x)
        q, k, v = (w(h).reshape(*h.shape[:2], self.heads, -1) for w in (self.q_proj, self.k_proj, self.v_proj))
        o = jax.nn.dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
        x = x + self.o_proj(o.reshape(x.shape))
        h = self.post_attention_layernorm(x)
        return x + self.down_proj(nnx.silu(self.gate_proj(h)) * self.up_proj(h))


class Llama(nnx.Module):
    def __init__(self, size: Size, dtype: jnp.dtype, rngs: nnx.Rngs) -> None:
        self.embed_tokens = nnx.Embed(size.vocabulary, size.width, dtype=dtype, rngs=rngs)
        self.layers = nnx.List([Layer(size, dtype, rngs) for _ in range(size.layers)])
        self.norm = nnx.RMSNorm(size.width, epsilon=EPSILON, dtype=dtype, rngs=rngs)

    def __call__(self, ids: Array) -> Array:
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.embed_tokens.attend(self.norm(x))


def rotated(x: Array) -> Array:
    """RoPE of x [B, T, N, H], in the type of x."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * llama.BASE ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1).astype(x.dtype)


def _matrices(params: nnx.State) -> nnx.State:
    return jax.tree.map(lambda leaf: leaf.ndim > 1, params)


def _load(model: Llama, arrays: Mapping[str, np.ndarray]) -> None:
    model.embed_tokens.embedding.set_value(jnp.asarray(arrays["model.embed_tokens.weight"]))
    model.norm.scale.set_value(jnp.asarray(arrays["model.norm.weight"]))
    for i, layer in enumerate(model.layers):
        for name, array in arrays.items():
            if name.startswith(before := f"model.layers.{i}."):
                part = getattr(layer, name.removeprefix(before).split(".")[-2])
                weight = part.scale if isinstance(part, nnx.RMSNorm) else part.kernel
                weight.set_value(jnp.asarray(array.T))
