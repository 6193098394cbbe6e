"""Received attention at long contexts: the statistic behind attention sinks."""

from leadline.experiments.bench.contest import Benchmark, Case, Contestant

CONTESTANTS = "leadline.experiments.bench.contestants"
HEADS = {8192: 4, 16384: 1, 32768: 1}  # by tokens
LONGEST_IN_TORCH = 16384  # its scores, mask and softmax of 32k tokens exceed the memory beside the other processes
FLOOR = 1 / 1.1  # leadline may take 10 % longer than two passes of the floor
TARGETS = {"floor, two passes": FLOOR, "jax, materialising": 1.0, "torch, materialising": 1.0}


def benchmark() -> Benchmark:
    """Three lengths."""
    return Benchmark(
        "sinks",
        "How long does it take, and how much memory, to compute the attention that each key receives?",
        tuple(_case(tokens, heads) for tokens, heads in HEADS.items()),
        (
            "head dimension 64, float32; materialising: the softmax of all scores, summed over the queries by a product",
            "floor: the FLOPs of the causal scores as products of 1024 x 1024, and as many exponentials in cache, in the same "
            "run; two passes for an algorithm that computes the scores again after the sums of the rows, one pass for leadline",
        ),
    )


def _case(tokens: int, heads: int) -> Case:
    work = {"tokens": tokens, "heads": heads}
    contestants = [
        Contestant("leadline", f"{CONTESTANTS}.ours.received_attention:prepare", work),
        Contestant("floor, two passes", f"{CONTESTANTS}.limits:attention_floor", {**work, "passes": 2}),
        Contestant("floor, one pass", f"{CONTESTANTS}.limits:attention_floor", {**work, "passes": 1}),
        Contestant("jax, materialising", f"{CONTESTANTS}.peers.jax_received_attention:prepare", work),
    ]
    if tokens <= LONGEST_IN_TORCH:
        contestants.append(Contestant("torch, materialising", f"{CONTESTANTS}.peers.torch_received_attention:prepare", work))
    return Case(
        f"received attention, {tokens} tokens, {heads} heads",
        tuple(contestants),
        targets={name: ratio for name, ratio in TARGETS.items() if name in {contestant.name for contestant in contestants}},
        tolerance=1e-3,
    )
