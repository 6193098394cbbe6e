"""What the training loop does on the host for each step, beside the step itself."""

from typing import Any

import jax
import jax.numpy as jnp
from rich.console import Console

from leadline.experiments.bench.cases.step import SMALL, STEP, TINY
from leadline.experiments.bench.contest import Benchmark, Case, ours
from leadline.experiments.bench.worker import Prepared, scratch
from leadline.experiments.bench.workloads.llama import LEARNING_RATE, Size, config
from leadline.experiments.config.data import BackcopyData
from leadline.experiments.config.measure import Measure, SinkRate
from leadline.experiments.config.study import Arm
from leadline.experiments.config.train import TrainConfig
from leadline.experiments.data.source import CACHE
from leadline.experiments.runtime.cpu import cores
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.training.group import RunGroup, run_group
from leadline.experiments.training.loop import Ensemble, note_metrics
from leadline.experiments.training.plan import members_of
from leadline.experiments.training.reporting import work_of

HOST_SHARE = 0.01  # of a step, that metrics and progress may take
STEPS = 1_000_000  # more than are made


def _group(size: Size) -> RunGroup:
    jax.config.update("jax_num_cpu_devices", cores())
    arm = Arm(
        name="model",
        model=config(size, "float32"),
        data=BackcopyData(vocabulary=size.vocabulary, triggers=size.vocabulary // 4, length=size.length),
        train=TrainConfig(steps=STEPS, batch=size.batch, learning_rate=LEARNING_RATE),
        measure=Measure(every=STEPS, windows=2, sink=SinkRate(length=size.length)),
    )
    results, quiet = scratch(), Progress(Console(quiet=True))
    return run_group("bench", members_of("bench", [arm], [0], results, results / CACHE, quiet))


def metrics(size: Size) -> Prepared:
    """The metrics of a step are read, checked for divergence and told to the progress, whose lines go to a file."""
    group, lines = _group(size), (scratch() / "progress").open("w", encoding="utf-8")
    progress = Progress(Console(file=lines)).__enter__()
    progress.start(work_of(group, ""))
    with jax.set_mesh(group.mesh):
        ensemble, step = Ensemble(group, []), 0
        arrays = jax.block_until_ready(ensemble.step(0))
        arrays.pop("stop")

    def work() -> None:
        nonlocal step
        step += 1
        with jax.set_mesh(group.mesh):
            fresh = jax.tree.map(jnp.copy, arrays)  # an array that has been read keeps its copy on the host
        note_metrics(group, step, fresh, ensemble.history, progress)

    return Prepared(work)


def whole_step(size: Size) -> Prepared:
    """The training step of the same group, with its data and its learning rate."""
    group = _group(size)
    with jax.set_mesh(group.mesh):
        ensemble, step = Ensemble(group, []), 0

    def work() -> None:
        nonlocal step
        with jax.set_mesh(group.mesh):
            jax.block_until_ready(ensemble.step(step))
        step += 1

    return Prepared(work)


def _case(size: Size) -> Case:
    settings: dict[str, Any] = {"size": size}
    return Case(
        f"metrics and progress of a step, {size.title}",
        (ours(metrics, settings), ours(whole_step, settings, STEP)),
        targets={STEP: 1 / HOST_SHARE},
    )


LOOP = Benchmark(
    "loop",
    "What part of a training step do its metrics and progress take on the host?",
    (_case(TINY), _case(SMALL)),
    ("the metrics are copied on the device before they are read, which counts; the aim is a step of 100 times as long",),
)
