"""A training step, forward, backward, clip and AdamW; its compilation, and the batches that it is fed."""

import jax
import numpy as np

from leadline.experiments.bench.compilations import compiling
from leadline.experiments.bench.contest import Benchmark, Case, Where, ours, peer
from leadline.experiments.bench.limits import ceiling
from leadline.experiments.bench.worker import Prepared, scratch
from leadline.experiments.bench.workloads.arms import Arm, arms_together, loaded, trained_together
from leadline.experiments.bench.workloads.llama import LEARNING_RATE, Size, config, step_flops, stepping
from leadline.experiments.config.data import TextData
from leadline.experiments.data.source import open_source
from leadline.experiments.runtime.cpu import cores
from leadline.experiments.runtime.ensemble import ensemble_mesh, over_arms, stack

TINY = Size(layers=2, width=64, heads=2, hidden=176, vocabulary=64, length=256, batch=8)
SMALL = Size(layers=4, width=256, heads=4, hidden=704, vocabulary=1024, length=256, batch=16)
WIDE = Size(layers=6, width=384, heads=6, hidden=1024, vocabulary=8192, length=256, batch=8)
MANY_IDS = Size(layers=4, width=256, heads=4, hidden=704, vocabulary=50304, length=256, batch=8)
LONG = Size(layers=4, width=256, heads=4, hidden=704, vocabulary=1024, length=4096, batch=1)

# For accelerators: 60, 124 and 360 million parameters, and the utilisation that is aimed at.
LITTLE = Size(layers=10, width=512, heads=8, hidden=1536, vocabulary=50304, length=1024, batch=32)
MIDDLE = Size(layers=12, width=768, heads=12, hidden=2048, vocabulary=50304, length=1024, batch=32)
LARGE = Size(layers=24, width=1024, heads=16, hidden=2816, vocabulary=50304, length=2048, batch=8)
UTILISATION = {LITTLE: 0.30, MIDDLE: 0.42, LARGE: 0.48}

NEVER_SLOWER = {"torch": 1.0, "torch.compile": 1.0, "transformers": 1.0, "flax.nnx": 1.0}  # the ratios that are aimed at
SHARE = 0.68  # of the matmul ceiling
# The depths at which the step is compiled, and the time that is aimed at.
LAYERS, SECONDS = (4, 16, 48), 3.0
# What is fed, and the part of its time that a batch may take.
STEP, BATCH_SHARE = "the training step", 0.02


def prepare(size: Size, compute: str) -> Prepared:
    """One model on all devices."""
    work, seconds = trained_together(size, [Arm(config(size, compute))], loaded(size))
    return stepping(work, compile_seconds=seconds)


def compilation(size: Size, on_disk: bool) -> Prepared:
    """Compiles the step without programs in the process. With `on_disk` they are loaded from the persistent cache."""
    mesh, step, state, inputs = arms_together(size, [Arm(config(size, "float32"))], loaded(size))
    if on_disk:
        jax.config.update("jax_compilation_cache_dir", str(scratch() / "programs"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)

    def work() -> None:
        with jax.set_mesh(mesh):
            over_arms(step, donate=True).lower(state, inputs, None).compile()  # pyright: ignore[reportFunctionMemberAccess]

    if on_disk:
        work()  # fills the cache
    return compiling(work)


def batch(size: Size) -> Prepared:
    """The batch of a step as `leadline.experiments.training.loop` makes it, of the standard library's bytes."""
    jax.config.update("jax_num_cpu_devices", cores())
    source = open_source(TextData(kind="text", corpus="stdlib", length=size.length), scratch())
    mesh, step = ensemble_mesh(1, size.batch, size.width), 0

    def work() -> None:
        nonlocal step
        with jax.set_mesh(mesh):
            inputs = stack([source.inputs(0, step, size.batch)], mesh)
            jax.block_until_ready((inputs, stack([np.float32(LEARNING_RATE)], mesh)))
        step += 1

    return Prepared(work)


def _step(size: Size, compute: str, where: Where) -> Case:
    common = {"size": size, "compute": compute}
    return Case(
        f"training step, {size.title}, {compute}",
        (
            ours(prepare, common),
            peer("torch", "torch_llama:prepare", common),
            peer("torch.compile", "torch_llama:prepare", {**common, "compiled": True}),
            peer("transformers", "transformers_llama:prepare", common),
            peer("flax.nnx", "nnx_llama:prepare", common),
        ),
        targets=NEVER_SLOWER,
        flops=step_flops(size),
        ceiling=ceiling(compute),
        share=SHARE if (size, compute) == (SMALL, "float32") else None,
        tokens=size.tokens,
        tolerance=1e-4 if compute == "float32" else 1e-2,
        utilisation=UTILISATION.get(size),
        where=where,
    )


TRAINING = Benchmark(
    "step",
    "How long does a training step take?",
    (
        *(_step(size, compute, "cpu") for compute in ("float32", "bfloat16") for size in (TINY, SMALL, WIDE, MANY_IDS, LONG)),
        *(_step(size, "bfloat16", "accelerator") for size in UTILISATION),
    ),
    (
        "a step: forward, backward, clipping of the global norm, AdamW; the same weights and ids, and an equal third loss",
        "FLOP: 6 for each parameter of a matrix product (the tied head counts, the embedding look-up does not) and token, "
        "plus attention over visible keys only; the ceiling is JAX's matrix product of 2048 x 2048 in the same run",
    ),
)


def _compilation(layers: int) -> Case:
    size = Size(layers=layers, width=128, heads=2, hidden=352, vocabulary=256, length=128, batch=8)
    contestants = (
        ours(compilation, {"size": size, "on_disk": False}),
        ours(compilation, {"size": size, "on_disk": True}, "leadline, from disk"),
        peer("flax.nnx", "nnx_llama:prepare_compilation", {"size": size}),
    )
    return Case(f"compiling a training step, {size.title}", contestants, targets={"flax.nnx": 1.0}, seconds=SECONDS)


COMPILATION = Benchmark(
    "compile",
    "How long does it take to compile a training step, and does that grow with depth?",
    tuple(_compilation(layers) for layers in LAYERS),
    (
        "tracing, lowering and XLA, of the whole step with AdamW; from disk: no programs in the process, but in the "
        "persistent cache",
        "flax.nnx as its guide writes a model: layers in a list, so that the program grows with their number",
    ),
)
FED = ours(batch, {"size": SMALL}), ours(prepare, {"size": SMALL, "compute": "float32"}, STEP)
PIPELINE = Benchmark(
    "pipeline",
    "What part of a training step does its batch take?",
    (Case(f"a batch, {SMALL.title}", FED, targets={STEP: 1 / BATCH_SHARE}, tokens=SMALL.tokens),),
    (
        "a batch: windows of a memory-mapped corpus by (seed, step), in a new order each epoch, and the learning rate, "
        "moved to the devices; the aim is a step that takes at least 50 times as long",
    ),
)
