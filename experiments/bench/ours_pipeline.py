"""A batch as `experiments.loop` makes it for each step."""

from collections.abc import Mapping

import jax
import numpy as np

from experiments.bench.llama import LEARNING_RATE, Size
from experiments.bench.worker import Prepared, scratch
from experiments.config.data import TextData
from experiments.cores import cores
from experiments.data.source import open_source
from experiments.population import population_mesh, stack


def prepare(size: Mapping[str, int]) -> Prepared:
    """The standard library's bytes, for one model."""
    jax.config.update("jax_num_cpu_devices", cores())
    own = Size(**size)
    source = open_source(TextData(kind="text", corpus="stdlib", length=own.length), scratch())
    mesh, step = population_mesh(1, own.batch, own.width), 0
    rates = np.full((1, 1), LEARNING_RATE, np.float32)

    def work() -> None:
        nonlocal step
        with jax.set_mesh(mesh):
            inputs = stack([source.inputs(0, step, own.batch)], mesh)
            jax.block_until_ready((inputs, stack(list(rates[:, 0]), mesh)))
        step += 1

    return Prepared(work)
