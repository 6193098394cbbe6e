"""A training step: forward, backward, clip and AdamW."""

from dataclasses import replace

from leadline.experiments.bench.contest import Benchmark, Case, Contestant
from leadline.experiments.bench.contestants.limits import ceiling
from leadline.experiments.bench.workloads.llama import Size, step_flops

TINY = Size(layers=2, width=64, heads=2, hidden=176, vocabulary=64, length=256, batch=8)
SMALL = Size(layers=4, width=256, heads=4, hidden=704, vocabulary=1024, length=256, batch=16)
WIDE = Size(layers=6, width=384, heads=6, hidden=1024, vocabulary=8192, length=256, batch=8)
LONG = Size(layers=4, width=256, heads=4, hidden=704, vocabulary=1024, length=4096, batch=1)

# For accelerators: 60, 124 and 360 million parameters, and the utilisation that is aimed at.
LITTLE = Size(layers=10, width=512, heads=8, hidden=1536, vocabulary=50304, length=1024, batch=32)
MIDDLE = Size(layers=12, width=768, heads=12, hidden=2048, vocabulary=50304, length=1024, batch=32)
LARGE = Size(layers=24, width=1024, heads=16, hidden=2816, vocabulary=50304, length=2048, batch=8)
UTILISATION = {LITTLE: 0.30, MIDDLE: 0.42, LARGE: 0.48}

PEERS = "leadline.experiments.bench.contestants.peers"
# The ratios that are aimed at, by size and compute type.
TARGETS = {
    (SMALL, "float32"): {"torch": 1.9, "torch.compile": 1.7, "transformers": 1.9, "flax.nnx": 2.0},
    (LONG, "float32"): {"torch": 1.6, "torch.compile": 1.0, "transformers": 1.6, "flax.nnx": 5.0},
    (SMALL, "bfloat16"): {"torch": 1.1, "torch.compile": 1.0, "transformers": 1.0, "flax.nnx": 1.0},
}
NEVER_SLOWER = {"torch": 1.0, "torch.compile": 1.0, "transformers": 1.0, "flax.nnx": 1.0}
SHARE = 0.68  # of the matmul ceiling


def benchmark() -> Benchmark:
    """Four sizes in two types, and three sizes for accelerators."""
    cases = [_case(size, compute) for compute in ("float32", "bfloat16") for size in (TINY, SMALL, WIDE, LONG)]
    cases += [replace(_case(size, "bfloat16"), where="accelerator", utilisation=aim) for size, aim in UTILISATION.items()]
    return Benchmark(
        "step",
        "How long does a training step take?",
        tuple(cases),
        (
            "a step: forward, backward, clipping of the global norm, AdamW; the same weights and ids, and an equal third loss",
            "FLOP: 6 for each parameter of a matrix product (the tied head counts, the embedding look-up does not) and token, "
            "plus attention over visible keys only; the ceiling is JAX's matrix product of 2048 x 2048 in the same run",
        ),
    )


def _case(size: Size, compute: str) -> Case:
    common = {"size": size.as_json(), "compute": compute}
    return Case(
        f"training step, {size.title}, {compute}",
        (
            Contestant("leadline", "leadline.experiments.bench.contestants.ours.step:prepare", common),
            Contestant("torch", f"{PEERS}.torch_llama:prepare", common),
            Contestant("torch.compile", f"{PEERS}.torch_llama:prepare", {**common, "compiled": True}),
            Contestant("transformers", f"{PEERS}.transformers_llama:prepare", common),
            Contestant("flax.nnx", f"{PEERS}.nnx_llama:prepare", common),
        ),
        targets=TARGETS.get((size, compute), NEVER_SLOWER),
        flops=step_flops(size),
        ceiling=ceiling(compute),
        share=SHARE if (size, compute) == (SMALL, "float32") else None,
        tokens=size.tokens,
        tolerance=1e-4 if compute == "float32" else 1e-2,
    )
