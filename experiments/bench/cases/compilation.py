"""Compiling a training step at several depths, with and without programs on disk."""

from leadline.experiments.bench.contest import Benchmark, Case, Contestant
from leadline.experiments.bench.workloads.llama import Size

OURS, PEERS = "leadline.experiments.bench.contestants.ours.compilation", "leadline.experiments.bench.contestants.peers"
LAYERS = (4, 16, 48)
SECONDS = 1.2


def benchmark() -> Benchmark:
    """The same model at three depths."""
    return Benchmark(
        "compile",
        "How long does it take to compile a training step, and does that grow with depth?",
        tuple(_case(layers) for layers in LAYERS),
        (
            "tracing, lowering and XLA, of the whole step with AdamW; from disk: no programs in the process, but in the "
            "persistent cache",
            "flax.nnx as its guide writes a model: layers in a list, so that the program grows with their number",
        ),
    )


def _case(layers: int) -> Case:
    size = Size(layers=layers, width=128, heads=2, hidden=352, vocabulary=256, length=128, batch=8)
    common = {"size": size.as_json()}
    contestants = (
        Contestant("leadline", f"{OURS}:prepare", {**common, "on_disk": False}),
        Contestant("leadline, from disk", f"{OURS}:prepare", {**common, "on_disk": True}),
        Contestant("flax.nnx", f"{PEERS}.nnx_llama:prepare_compilation", common),
    )
    title = f"compiling a training step, {size.title}"
    return Case(title, contestants, targets={"flax.nnx": 1.0}, seconds=SECONDS)
