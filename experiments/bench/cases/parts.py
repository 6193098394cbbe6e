"""The parts of a training step, each by itself, and the matrix products that bound it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import PartitionSpec as P
from jaxtyping import Array

from leadline.experiments.bench.cases import step
from leadline.experiments.bench.cases.attention import gradient
from leadline.experiments.bench.contest import Benchmark, Case, ours, peer
from leadline.experiments.bench.limits import ceiling
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads import attention as workload
from leadline.experiments.bench.workloads import llama
from leadline.experiments.bench.workloads.arms import loaded, training
from leadline.experiments.bench.workloads.llama import Size, step_flops, structure
from leadline.experiments.config.to_optimizer import optimizer
from leadline.model.attention.attention import attention
from leadline.model.attention.mask import Tiling, chunks_of
from leadline.model.decoder_loss import decoder_loss
from leadline.model.linear import project
from leadline.model.mesh import make_mesh

# A compiled program, its arguments, and how often a step has it.
Call = tuple[Callable[..., Any], tuple[Any, ...], int]


def projections(size: Size, compute: str) -> Prepared:
    """Every product of a step's layers with weights: `project` and its gradients by activations and weights."""
    with jax.set_mesh(make_mesh()):
        return _repeated(projection_calls(size, compute), llama.projection_flops(size))


def projection_calls(size: Size, compute: str) -> list[Call]:
    """The programs of `projections`."""

    def with_gradients(x: Array, w: Array, cotangent: Array) -> tuple[Array, ...]:
        y, backward = jax.vjp(_project, x, w)
        return y, *backward(cotangent)

    return _calls(with_gradients, size, compute)


def weight_gradients(size: Size, compute: str, plain: bool) -> Prepared:
    """The gradients of the weights of layers alone: by `project`, or, plain, as JAX writes that of x · w."""
    with jax.set_mesh(make_mesh()):
        return _repeated(weight_gradient_calls(size, compute, plain=plain), llama.projection_flops(size) / 3)


def weight_gradient_calls(size: Size, compute: str, plain: bool) -> list[Call]:
    """The programs of `weight_gradients`."""

    def of_weight(x: Array, w: Array, cotangent: Array) -> Array:
        return jax.vjp(lambda w: (jnp.matmul if plain else _project)(x, w), w)[1](cotangent)[0]

    return _calls(of_weight, size, compute)


def _project(x: Array, w: Array) -> Array:
    return project(x, w, out_sharding=P(None, None, None))


def _calls(function: Callable[..., Any], size: Size, compute: str) -> list[Call]:
    """`function` of activations, weights and a cotangent of their product, for every weight of the layers."""
    calls = []
    for inner, outer, count in llama.projections(size):
        x, cotangent = (_normal(compute, size.batch, size.length, channels) for channels in (inner, outer))
        calls.append(_compiled(function, (x, _normal("float32", inner, outer), cotangent), count))
    return calls


def products(size: Size, compute: str) -> Prepared:
    """As many products of the same shapes, forward: three times x · w, both of them matrices in row-major order."""
    return _repeated(product_calls(size, compute), llama.projection_flops(size))


def product_calls(size: Size, compute: str) -> list[Call]:
    """The programs of `products`."""

    def multiply(x: Array, w: Array) -> Array:
        return jnp.matmul(x, w, preferred_element_type=jnp.float32)

    return [
        _compiled(multiply, (_normal(compute, size.tokens, inner), _normal(compute, inner, outer)), 3 * count)
        for inner, outer, count in llama.projections(size)
    ]


def attentions(size: Size, compute: str) -> Prepared:
    """Attention and its gradient, of all layers."""
    shape = (size.batch, size.length, size.heads)
    with jax.set_mesh(make_mesh()):
        attention_gradient = gradient(lambda q, k, v: attention(q, k, v)[0], *shape, compute, channels=size.head_dim)
    return _repeated([(attention_gradient, (), size.layers)], size.layers * workload.flops(*shape, size.head_dim))


def attention_products(size: Size, compute: str) -> Prepared:
    """Six products of `attentions` alone, two forward and four backward, of the same blocks of queries and keys.

    The FLOPs are those of visible keys, as in `attentions`: what masks hide in a block is computed by both. Every product is
    written to memory, which tiles of long texts are not; and the scores, which `attentions` computes again to go backward, are
    counted once.
    """
    of_layer = workload.flops(size.batch, size.length, size.heads, size.head_dim)
    return _repeated(attention_product_calls(size, compute), size.layers * of_layer)


def attention_product_calls(size: Size, compute: str) -> list[Call]:
    """The programs of `attention_products`: one for each shape of a block."""
    tiling = Tiling()
    tiles = math.ceil(size.length / tiling.tile)
    tiled = {(tiling.tile, tiling.tile): tiles * (tiles + 1) // 2}
    chunks = {(stop - start, stop): 1 for start, stop in chunks_of(size.length, tiling)}
    blocks = tiled if size.length > tiling.unrolled else chunks

    def products(queries: Array, keys: Array, scores: Array) -> list[Array]:
        # Called twice: scores and their gradient, output and gradient of the queries, gradients of the values and of the keys.
        factors = (("nqh,nkh->nqk", queries, keys), ("nqk,nkh->nqh", scores, keys), ("nqk,nqh->nkh", scores, queries))
        return [jnp.einsum(form, a, b, preferred_element_type=jnp.float32) for form, a, b in factors]

    calls, heads = [], size.batch * size.heads
    for (rows, keys), count in blocks.items():
        shapes = (rows, size.head_dim), (keys, size.head_dim), (rows, keys)
        arrays = tuple(_normal(compute, heads, *shape) for shape in shapes)
        calls.append(_compiled(products, arrays, 2 * size.layers * count))
    return calls


def loss(size: Size, compute: str) -> Prepared:
    """The logits, their loss and its gradient by the residual stream and the unembedding."""
    cfg, targets = structure(size, compute), jnp.asarray(llama.tokens(size)[:, 1:], jnp.int32)

    def value(weights: Any, x: Array) -> Array:
        return decoder_loss(weights, x, targets, None, cfg)

    with jax.set_mesh(make_mesh()):
        weights = jax.tree.map(jnp.asarray, replace(loaded(size), blocks=None))
        x = _normal(compute, size.batch, size.length, size.width)
        call = _compiled(jax.value_and_grad(value, argnums=(0, 1)), (weights, x), 1)
        return _repeated([call], 6.0 * size.tokens * size.width * size.vocabulary)


def update(size: Size) -> Prepared:
    """The clip of the global norm, AdamW and its update of the weights, with ones as the gradient."""
    rates = {"weight_decay": jnp.float32(llama.WEIGHT_DECAY), "clip": jnp.float32(llama.CLIP), "logit_rate": jnp.float32(0)}
    adamw = optimizer(training(size), jnp.float32(llama.LEARNING_RATE), **rates)
    with jax.set_mesh(make_mesh()):
        weights: Any = jax.tree.map(jnp.array, loaded(size))
        ones: Any = jax.tree.map(jnp.ones_like, weights)
        moments = adamw.init(weights)

        def updated(weights: Any, moments: Any, gradient: Any) -> tuple[Any, Any]:
            updates, moments = adamw.update(gradient, moments, weights)
            return optax.apply_updates(weights, updates), moments

        program = jax.jit(updated, donate_argnums=(0, 1)).lower(weights, moments, ones).compile()

    def work() -> None:
        nonlocal weights, moments
        weights, moments = jax.block_until_ready(program(weights, moments, ones))

    return Prepared(work, {"flops": 0.0})


def _normal(dtype: str, *shape: int) -> Array:
    return jax.random.normal(jax.random.key(0), shape, jnp.dtype(dtype))


def _compiled(function: Callable[..., Any], arguments: tuple[Any, ...], count: int) -> Call:
    return jax.jit(function).lower(*arguments).compile(), arguments, count


def _repeated(calls: Sequence[Call], flops: float) -> Prepared:
    """Runs each program as often as a step does, one after the other."""

    def work() -> None:
        for program, arguments, count in calls:
            for _ in range(count):
                jax.block_until_ready(program(*arguments))

    return Prepared(work, {"flops": flops})


def _parts(size: Size) -> Case:
    common: dict[str, Any] = {"size": size, "compute": "float32"}
    return Case(
        f"parts of a training step, {size.title}, float32",
        (
            ours(step.prepare, common, "a step"),
            ours(projections, common, "products with the weights of layers"),
            ours(products, common, "as many products, forward"),
            ours(weight_gradients, common | {"plain": False}, "gradients of these weights"),
            ours(weight_gradients, common | {"plain": True}, "gradients of these weights, as JAX writes them"),
            peer("torch, the same products", "torch_llama:prepare_products", {"size": size}),
            ours(attentions, common, "attention"),
            ours(attention_products, common, "the products of attention alone"),
            ours(loss, common, "loss and unembedding"),
            ours(update, {"size": size}, "clip and AdamW"),
        ),
        flops=step_flops(size),
        ceiling=ceiling("float32"),
        where="cpu",
    )


PARTS = Benchmark(
    "parts",
    "Where does the time of a training step go?",
    tuple(_parts(size) for size in (step.TINY, step.SMALL, step.WIDE, step.MANY_IDS, step.LONG)),
    (
        "each part forward and backward by itself, as often as a step has it; times ours: its share of the step",
        "the parts leave norms, RoPE, SwiGLU and residual sums",
        "as many products, forward: three for each weight; torch: forward, and the gradients by activations and weights",
    ),
)
