"""Causal attention by itself, forward and backward, beside the functions of other libraries."""

from typing import Any

from leadline.experiments.bench.contest import Benchmark, Case, Contestant, Where
from leadline.experiments.bench.contestants.limits import ceiling
from leadline.experiments.bench.workloads.attention import HEAD, flops

PEERS = "leadline.experiments.bench.contestants.peers"
# (texts, tokens, heads): as in the training steps, and one text as long as a peer that keeps all scores has memory for.
SIZES: dict[Where, tuple[tuple[int, int, int], ...]] = {
    "cpu": ((16, 256, 4), (1, 4096, 4)),
    "accelerator": ((32, 1024, 12), (8, 2048, 16), (1, 8192, 8)),
}
COMPUTE: dict[Where, tuple[str, ...]] = {"cpu": ("float32", "bfloat16"), "accelerator": ("bfloat16",)}


def benchmark() -> Benchmark:
    """In both types on a CPU, in bfloat16 on an accelerator."""
    return Benchmark(
        "attention",
        "How long do causal attention and its gradient take?",
        tuple(_case(*size, compute, where) for where in SIZES for compute in COMPUTE[where] for size in SIZES[where]),
        (
            "the gradient by queries, keys and values; in leadline window, initial tokens, slopes and sink logit are values "
            "that change nothing here, and no statistics are computed",
            "jax.nn: by cuDNN on a GPU; tokamax: the implementation that it chooses (Python 3.12 or later)",
            "FLOP: of two matrix products forward and four backward, over visible keys only",
        ),
    )


def _case(texts: int, tokens: int, heads: int, compute: str, where: Where) -> Case:
    work: dict[str, Any] = {"texts": texts, "tokens": tokens, "heads": heads, "compute": compute}
    contestants = [
        Contestant("leadline", "leadline.experiments.bench.contestants.ours.attention:prepare", work),
        Contestant("jax.nn", f"{PEERS}.jax_attention:prepare", work),
        Contestant("torch", f"{PEERS}.torch_attention:prepare", work),
        Contestant("tokamax", f"{PEERS}.tokamax_attention:prepare", work),
    ]
    if where == "accelerator":
        fused = {"NVTE_FUSED_ATTN": "1"}  # otherwise it uses matrix products and a softmax
        peer = f"{PEERS}.transformer_engine_attention:prepare"
        contestants.append(Contestant("TransformerEngine", peer, work, environment=fused))
    return Case(
        f"attention forward and backward, {heads} heads of {HEAD}, T{tokens} B{texts}, {compute}",
        tuple(contestants),
        targets=dict.fromkeys((peer.name for peer in contestants[1:]), 1.0),
        flops=flops(texts, tokens, heads),
        ceiling=ceiling(compute),
        tokens=texts * tokens,
        tolerance=1e-4 if compute == "float32" else 1e-2,
        where=where,
    )
