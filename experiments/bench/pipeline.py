"""The host's batches beside the step that they feed."""

from experiments.bench.contest import Benchmark, Case, Contestant
from experiments.bench.step import SMALL

STEP = "the training step"
SHARE = 0.02


def benchmark() -> Benchmark:
    """At the size of the training step's second case."""
    settings = {"size": SMALL.as_json()}
    contestants = (
        Contestant("leadline", "experiments.bench.ours_pipeline:prepare", settings),
        Contestant(STEP, "experiments.bench.ours_step:prepare", {**settings, "compute": "float32"}),
    )
    return Benchmark(
        "pipeline",
        "What part of a training step does its batch take?",
        (Case(f"a batch, {SMALL.title}", contestants, targets={STEP: 1 / SHARE}, tokens=SMALL.tokens),),
        (
            "a batch: windows of a memory-mapped corpus by (seed, step), in a new order each epoch, and the learning rate, on "
            "the devices; two per cent of the step at most are a step of 50 times as long at least",
        ),
    )
