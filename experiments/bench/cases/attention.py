"""Causal attention by itself, forward and backward, and the attention that each key receives, which shows sinks."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from leadline.experiments.bench.contest import Benchmark, Case, Where, ours, peer
from leadline.experiments.bench.limits import attention_floor, ceiling
from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.attention import HEAD, arrays, compared, flops, value
from leadline.model.attention.attention import attention
from leadline.model.attention.mask import NO_WINDOW, Mask, Tiling
from leadline.model.mesh import make_mesh

# (texts, tokens, heads): as in the training steps, and one text as long as a peer that keeps all scores has memory for.
SIZES: dict[Where, tuple[tuple[int, int, int], ...]] = {
    "cpu": ((16, 256, 4), (1, 4096, 4)),
    "accelerator": ((32, 1024, 12), (8, 2048, 16), (1, 8192, 8)),
}
COMPUTE: dict[Where, tuple[str, ...]] = {"cpu": ("float32", "bfloat16"), "accelerator": ("bfloat16",)}

# (queries, keys, warps) of a kernel.
TILES = [[64, 64, 4], [64, 64, 8], [64, 128, 4], [128, 64, 4], [128, 64, 8], [128, 128, 8], [32, 64, 4]]

# Of received attention.
HEADS = {8192: 4, 16384: 1, 32768: 1}  # by tokens
LONGEST_IN_TORCH = 16384  # its scores, mask and softmax of 32k tokens exceed the memory beside the other processes
FLOOR = 1 / 1.1  # leadline may take 10 % longer than two passes of the floor


def prepare(texts: int, tokens: int, heads: int, compute: str) -> Prepared:
    """The gradient of plain attention. The value is the sum of squares of its entries."""
    return compared(windowed(texts, tokens, heads, compute, None).work)


def windowed(texts: int, tokens: int, heads: int, compute: str, window: int | None, initial_tokens: int = 0) -> Prepared:
    """The gradient of attention. The window and the number of initial tokens are values of the program."""

    def attend(q: Array, k: Array, v: Array, window: Array, initial_tokens: Array) -> Array:
        return attention(q, k, v, Mask(window, initial_tokens))[0]

    with jax.set_mesh(make_mesh()):
        sight = jnp.int32(NO_WINDOW if window is None else window), jnp.int32(initial_tokens)
        return Prepared(gradient(attend, texts, tokens, heads, compute, *sight))


def tiled(texts: int, tokens: int, heads: int, compute: str, tile: list[int] | None, backward: bool) -> Prepared:
    """Attention, or its gradient, by kernels with a tile of (queries, keys, warps); None is the one that is chosen here."""
    tiling = Tiling(kernel=None if tile is None else tuple(tile))

    def attend(q: Array, k: Array, v: Array) -> Array:
        return attention(q, k, v, tiling=tiling)[0]

    with jax.set_mesh(make_mesh()):
        if backward:
            return Prepared(gradient(attend, texts, tokens, heads, compute))
        q, k, v = (jnp.asarray(x, jnp.dtype(compute)) for x in arrays(texts, tokens, heads, 3))
        program = jax.jit(attend).lower(q, k, v).compile()
        return Prepared(lambda: program(q, k, v).block_until_ready())


def received(tokens: int, heads: int) -> Prepared:
    """The sum over queries of each key's probability: a statistic of attention, of which nothing else is used."""
    q, k = (jnp.asarray(x) for x in arrays(1, tokens, heads, 2))
    with jax.set_mesh(make_mesh()):
        return compiled(lambda q, k: attention(q, k, k)[1].received, heads, q, k)


def compiled(function: Callable[..., Array], heads: int, *arguments: Any) -> Prepared:
    """A contestant that runs the compiled function, with its value and its temporary memory for each head [MiB]."""
    program = jax.jit(function).lower(*arguments).compile()
    analysis = program.memory_analysis()
    assert analysis is not None
    memory = {"temporary_mib_per_head": analysis.temp_size_in_bytes / heads / 2**20}

    def work() -> Array:
        return program(*arguments).block_until_ready()

    return Prepared(work, {"value": value([work()]), **memory})


def gradient(
    attend: Callable[..., Array], texts: int, tokens: int, heads: int, compute: str, *more: Any, channels: int = HEAD
) -> Callable[[], tuple[Array, Array, Array]]:
    """Computes, in one program, the gradients by the queries, keys and values [B, T, N, H] of `attend`."""
    *qkv, weight = (jnp.asarray(x, jnp.dtype(compute)) for x in arrays(texts, tokens, heads, channels=channels))

    def loss(qkv: list[Array], *more: Any) -> Array:
        return jnp.sum((weight * attend(*qkv, *more)).astype(jnp.float32))

    program = jax.jit(jax.grad(loss)).lower(qkv, *more).compile()
    return lambda: jax.block_until_ready(tuple(program(qkv, *more)))


def _gradient(texts: int, tokens: int, heads: int, compute: str, where: Where) -> Case:
    work: dict[str, Any] = {"texts": texts, "tokens": tokens, "heads": heads, "compute": compute}
    peers = [
        peer("jax.nn", "jax_attention:prepare", work),
        peer("torch", "torch_attention:prepare", work),
        peer("tokamax", "jax_attention:prepare_tokamax", work),
    ]
    if where == "accelerator":  # by matrix products and a softmax, were the variable not set
        peers.append(peer("TransformerEngine", "jax_attention:prepare_transformer_engine", work, NVTE_FUSED_ATTN="1"))
    return Case(
        f"attention forward and backward, {heads} heads of {HEAD}, T{tokens} B{texts}, {compute}",
        (ours(prepare, work), *peers),
        targets=dict.fromkeys((contestant.name for contestant in peers), 1.0),
        flops=flops(texts, tokens, heads),
        ceiling=ceiling(compute),
        tokens=texts * tokens,
        tolerance=1e-4 if compute == "float32" else 1e-2,
        where=where,
    )


def _tiles(*, backward: bool) -> Case:
    texts, tokens, heads = SIZES["accelerator"][0]
    work: dict[str, Any] = {"texts": texts, "tokens": tokens, "heads": heads, "compute": "bfloat16", "backward": backward}
    others = [ours(tiled, {**work, "tile": tile}, f"{tile[0]} x {tile[1]}, {tile[2]} warps") for tile in TILES]
    what = "and its gradient" if backward else "forward"
    return Case(
        f"attention {what} by tile, {heads} heads of {HEAD}, T{tokens} B{texts}, bfloat16",
        (ours(tiled, {**work, "tile": None}), *others),
        flops=flops(texts, tokens, heads) * (1 if backward else 1 / 3),
        tokens=texts * tokens,
        where="accelerator",
    )


def _received(tokens: int, heads: int) -> Case:
    work = {"tokens": tokens, "heads": heads}
    contestants = [
        ours(received, work),
        ours(attention_floor, {**work, "passes": 2}, "floor, two passes"),
        ours(attention_floor, {**work, "passes": 1}, "floor, one pass"),
        peer("jax, materialising", "jax_attention:prepare_received", work),
    ]
    targets = {"floor, two passes": FLOOR, "jax, materialising": 1.0}
    if tokens <= LONGEST_IN_TORCH:
        contestants.append(peer("torch, materialising", "torch_attention:prepare_received", work))
        targets["torch, materialising"] = 1.0
    return Case(f"received attention, {tokens} tokens, {heads} heads", tuple(contestants), targets=targets, tolerance=1e-3)


ATTENTION = Benchmark(
    "attention",
    "How long do causal attention and its gradient take?",
    tuple(_gradient(*size, compute, where) for where in SIZES for compute in COMPUTE[where] for size in SIZES[where]),
    (
        "the gradient by queries, keys and values; in leadline window, initial tokens, slopes and sink logit are values "
        "that change nothing here, and no statistics are computed",
        "jax.nn: by cuDNN on a GPU; tokamax: the implementation that it chooses (Python 3.12 or later)",
        "FLOP: of two matrix products forward and four backward, over visible keys only",
    ),
)
KERNEL_TILES = Benchmark(
    "tiles",
    "Which tiles of the kernels are the fastest on a GPU?",
    (_tiles(backward=False), _tiles(backward=True)),
    (
        "queries x keys of a tile, whose scores exist at once; leadline: the tiles of model/attention/pallas_backend.py, one "
        "for the forward pass and one for the gradient; the others use theirs for both",
    ),
)
SINKS = Benchmark(
    "sinks",
    "How long does it take, and how much memory, to compute the attention that each key receives?",
    tuple(_received(tokens, heads) for tokens, heads in HEADS.items()),
    (
        "head dimension 64, float32; materialising: the softmax of all scores, summed over the queries by a product",
        "floor: the FLOPs of the causal scores as products of 1024 x 1024, and as many exponentials in cache, in the same "
        "run; two passes for an algorithm that computes the scores again after the sums of the rows, one pass for leadline",
    ),
)
