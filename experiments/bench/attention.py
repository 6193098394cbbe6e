"""Causal attention by itself, forward and backward, beside the functions that others call for it."""

from typing import Any

from experiments.bench.ceiling import ceiling
from experiments.bench.contest import Benchmark, Case, Contestant, Where
from experiments.bench.heads import HEAD, flops

PEERS = "experiments.bench.peers"
# Texts, tokens and heads: those of the training steps, and of a text as long as a peer that keeps all scores has memory for.
SIZES: dict[Where, tuple[tuple[int, int, int], ...]] = {
    "cpu": ((16, 256, 4), (1, 4096, 4)),
    "accelerator": ((32, 1024, 12), (8, 2048, 16), (1, 8192, 8)),
}
COMPUTE: dict[Where, tuple[str, ...]] = {"cpu": ("float32", "bfloat16"), "accelerator": ("bfloat16",)}


def benchmark() -> Benchmark:
    """On a CPU in both types, on an accelerator in bfloat16."""
    return Benchmark(
        "attention",
        "How long do causal attention and its gradient take?",
        tuple(_case(*size, compute, where) for where in SIZES for compute in COMPUTE[where] for size in SIZES[where]),
        (
            "the gradient of queries, keys and values; leadline's window, kept tokens, slopes and extra logit are there, as "
            "values that change nothing, and it computes no statistics",
            "jax.nn: by cuDNN on a GPU; tokamax: what it chooses itself (Python 3.12 or later)",
            "FLOP: of two matrix products forward and four backward, over visible keys only",
        ),
    )


def _case(texts: int, tokens: int, heads: int, compute: str, where: Where) -> Case:
    work: dict[str, Any] = {"texts": texts, "tokens": tokens, "heads": heads, "compute": compute}
    contestants = [
        Contestant("leadline", "experiments.bench.ours_attention:prepare", work),
        Contestant("jax.nn", f"{PEERS}.jax_attention:prepare", work),
        Contestant("torch", f"{PEERS}.torch_attention:prepare", work),
        Contestant("tokamax", f"{PEERS}.tokamax_attention:prepare", work),
    ]
    if where == "accelerator":
        fused = {"NVTE_FUSED_ATTN": "1"}  # else it takes products and a softmax
        peer = f"{PEERS}.transformer_engine_attention:prepare"
        contestants.append(Contestant("TransformerEngine", peer, work, environment=fused))
    return Case(
        f"attention forward and backward, {heads} heads of {HEAD}, T{tokens} B{texts}, {compute}",
        tuple(contestants),
        targets=dict.fromkeys((one.name for one in contestants[1:]), 1.0),
        flops=flops(texts, tokens, heads),
        ceiling=ceiling(compute),
        tokens=texts * tokens,
        tolerance=1e-4 if compute == "float32" else 1e-2,
        where=where,
    )
