"""The batch of one training step, as `leadline.experiments.training.loop` makes it."""

from collections.abc import Mapping

import jax
import numpy as np

from leadline.experiments.bench.worker import Prepared, scratch
from leadline.experiments.bench.workloads.llama import LEARNING_RATE, Size
from leadline.experiments.config.data import TextData
from leadline.experiments.data.source import open_source
from leadline.experiments.runtime.cpu import cores
from leadline.experiments.runtime.ensemble import ensemble_mesh, stack


def prepare(size: Mapping[str, int]) -> Prepared:
    """Batches of the standard library's bytes, for one model."""
    jax.config.update("jax_num_cpu_devices", cores())
    shape = Size(**size)
    source = open_source(TextData(kind="text", corpus="stdlib", length=shape.length), scratch())
    mesh, step = ensemble_mesh(1, shape.batch, shape.width), 0
    rates = np.full((1, 1), LEARNING_RATE, np.float32)

    def work() -> None:
        nonlocal step
        with jax.set_mesh(mesh):
            inputs = stack([source.inputs(0, step, shape.batch)], mesh)
            jax.block_until_ready((inputs, stack(list(rates[:, 0]), mesh)))
        step += 1

    return Prepared(work)
