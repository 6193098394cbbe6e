"""Causal attention by itself, forward and backward, and the attention that each key receives, which shows sinks."""

from typing import Any

from leadline.experiments.bench.contest import Benchmark, Case, Where, ours, peer
from leadline.experiments.bench.contestants.limits import ceiling, floor
from leadline.experiments.bench.workloads.attention import HEAD, flops

# (texts, tokens, heads): as in the training steps, and one text as long as a peer that keeps all scores has memory for.
SIZES: dict[Where, tuple[tuple[int, int, int], ...]] = {
    "cpu": ((16, 256, 4), (1, 4096, 4)),
    "accelerator": ((32, 1024, 12), (8, 2048, 16), (1, 8192, 8)),
}
COMPUTE: dict[Where, tuple[str, ...]] = {"cpu": ("float32", "bfloat16"), "accelerator": ("bfloat16",)}

# Of received attention.
HEADS = {8192: 4, 16384: 1, 32768: 1}  # by tokens
LONGEST_IN_TORCH = 16384  # its scores, mask and softmax of 32k tokens exceed the memory beside the other processes
FLOOR = 1 / 1.1  # leadline may take 10 % longer than two passes of the floor
TARGETS = {"floor, two passes": FLOOR, "jax, materialising": 1.0, "torch, materialising": 1.0}


def benchmark() -> Benchmark:
    """In both types on a CPU, in bfloat16 on an accelerator."""
    return Benchmark(
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


def _gradient(texts: int, tokens: int, heads: int, compute: str, where: Where) -> Case:
    work: dict[str, Any] = {"texts": texts, "tokens": tokens, "heads": heads, "compute": compute}
    contestants = [
        ours("attention:prepare", work),
        peer("jax.nn", "jax_attention:prepare", work),
        peer("torch", "torch_attention:prepare", work),
        peer("tokamax", "jax_attention:prepare_tokamax", work),
    ]
    if where == "accelerator":  # by matrix products and a softmax, were the variable not set
        contestants.append(peer("TransformerEngine", "jax_attention:prepare_transformer_engine", work, NVTE_FUSED_ATTN="1"))
    return Case(
        f"attention forward and backward, {heads} heads of {HEAD}, T{tokens} B{texts}, {compute}",
        tuple(contestants),
        targets=dict.fromkeys((contestant.name for contestant in contestants[1:]), 1.0),
        flops=flops(texts, tokens, heads),
        ceiling=ceiling(compute),
        tokens=texts * tokens,
        tolerance=1e-4 if compute == "float32" else 1e-2,
        where=where,
    )


def sinks() -> Benchmark:
    """Received attention at three lengths."""
    return Benchmark(
        "sinks",
        "How long does it take, and how much memory, to compute the attention that each key receives?",
        tuple(_received(tokens, heads) for tokens, heads in HEADS.items()),
        (
            "head dimension 64, float32; materialising: the softmax of all scores, summed over the queries by a product",
            "floor: the FLOPs of the causal scores as products of 1024 x 1024, and as many exponentials in cache, in the same "
            "run; two passes for an algorithm that computes the scores again after the sums of the rows, one pass for leadline",
        ),
    )


def _received(tokens: int, heads: int) -> Case:
    work = {"tokens": tokens, "heads": heads}
    contestants = [
        ours("attention:received", work),
        floor("floor, two passes", **work, passes=2),
        floor("floor, one pass", **work, passes=1),
        peer("jax, materialising", "jax_attention:prepare_received", work),
    ]
    if tokens <= LONGEST_IN_TORCH:
        contestants.append(peer("torch, materialising", "torch_attention:prepare_received", work))
    return Case(
        f"received attention, {tokens} tokens, {heads} heads",
        tuple(contestants),
        targets={name: ratio for name, ratio in TARGETS.items() if name in {contestant.name for contestant in contestants}},
        tolerance=1e-3,
    )
