"""What each key receives of attention, at long contexts: the statistics of sinks."""

from experiments.bench.contest import Benchmark, Case, Contestant

HERE, PEERS = "experiments.bench.columns", "experiments.bench.peers"
HEADS = {8192: 4, 16384: 1, 32768: 1}  # by tokens
LONGEST_IN_TORCH = 16384  # its scores, mask and softmax of 32k tokens do not fit beside what else runs
FLOOR = 1 / 1.1  # how many times as long as ours two passes of what cannot be saved take at least


TARGETS = {"floor, two passes": FLOOR, "jax, materialising": 1.0, "torch, materialising": 1.0}


def benchmark() -> Benchmark:
    """Three lengths."""
    return Benchmark(
        "sinks",
        "How long does it take to find what each key receives of causal attention, and in what memory?",
        tuple(_case(tokens, heads) for tokens, heads in HEADS.items()),
        (
            "head dimension 64, float32; materialising: softmax of all scores, summed over the queries by a product",
            "floor: as many FLOPs of 1024 x 1024 products as the causal scores have, and as many exponentials in cache, in the "
            "same run; twice for an algorithm that computes the scores again once it has the sums of the rows, once for ours",
        ),
    )


def _case(tokens: int, heads: int) -> Case:
    work = {"tokens": tokens, "heads": heads}
    contestants = [
        Contestant("leadline", f"{HERE}:prepare", work),
        Contestant("floor, two passes", f"{HERE}:floor", {**work, "passes": 2}),
        Contestant("floor, one pass", f"{HERE}:floor", {**work, "passes": 1}),
        Contestant("jax, materialising", f"{HERE}:materialised", work),
    ]
    if tokens <= LONGEST_IN_TORCH:
        contestants.append(Contestant("torch, materialising", f"{PEERS}.torch_columns:prepare", work))
    return Case(
        f"column sums of attention, {tokens} tokens, {heads} heads",
        tuple(contestants),
        targets={name: ratio for name, ratio in TARGETS.items() if name in {one.name for one in contestants}},
        tolerance=1e-3,
    )
