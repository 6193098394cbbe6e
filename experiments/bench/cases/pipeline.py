"""The batches of the host beside the training step that they feed."""

from leadline.experiments.bench.cases.step import SMALL
from leadline.experiments.bench.contest import Benchmark, Case, Contestant

STEP = "the training step"
SHARE = 0.02


def benchmark() -> Benchmark:
    """At the size SMALL of the training step."""
    settings = {"size": SMALL.as_json()}
    contestants = (
        Contestant("leadline", "leadline.experiments.bench.contestants.ours.pipeline:prepare", settings),
        Contestant(STEP, "leadline.experiments.bench.contestants.ours.step:prepare", {**settings, "compute": "float32"}),
    )
    return Benchmark(
        "pipeline",
        "What part of a training step does its batch take?",
        (Case(f"a batch, {SMALL.title}", contestants, targets={STEP: 1 / SHARE}, tokens=SMALL.tokens),),
        (
            "a batch: windows of a memory-mapped corpus by (seed, step), in a new order each epoch, and the learning rate, "
            "moved to the devices; the aim is a step that takes at least 50 times as long",
        ),
    )
