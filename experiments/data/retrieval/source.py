"""The mixture of retrieval tasks as a source of training steps, and the questions that its models are measured on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64, PRNGKeyArray, UInt32

from leadline.experiments.config.data import TASKS, RetrievalData, Task
from leadline.experiments.data.retrieval import needles
from leadline.experiments.data.retrieval.sized import addition, copying, largest_size
from leadline.experiments.data.retrieval.vocabulary import Batch, vocabulary_of
from leadline.experiments.data.sample import HELD_OUT_SEED, DrawnSource, Sample, held_out_key, step_inputs, step_key

# Each raises UserError where it does not fit into the length, with the smallest that it fits into.
SAMPLES: Mapping[Task, Callable[[PRNGKeyArray, Batch], Sample]] = {
    "passkey": needles.passkey,
    "multi_key": needles.multi_key,
    "multi_query": needles.multi_query,
    "multi_value": needles.multi_value,
    "variable_tracking": needles.variable_tracking,
    "key_value": needles.key_value,
    "copy": copying,
    "addition": addition,
}


def mixture(key: PRNGKeyArray, names: Sequence[Task], shares: Sequence[float], batch: Batch) -> Sample:
    """Rows whose task is drawn with probability shares[i] / sum(shares).

    All tasks are drawn for all rows and one is kept. A switch under `vmap` would do the same, and a step of training costs far
    more than these integers.

    Raises:
        UserError: where a task does not fit into the length.
    """
    which, *keys = jax.random.split(key, 1 + len(names))
    drawn = [SAMPLES[name](task_key, batch) for task_key, name in zip(keys, names, strict=True)]
    stacked = jax.tree.map(lambda *arrays: jnp.stack(arrays), *drawn)
    odds = jnp.log(jnp.asarray(shares, jnp.float32))
    chosen = jax.random.categorical(which, odds, shape=(batch.rows,))
    rows = jnp.arange(batch.rows)
    return jax.tree.map(lambda arrays: arrays[chosen, rows], stacked)


def grid(depths: int, rows: int) -> Float64[np.ndarray, "R"]:
    """Depths (or sizes) from 0 to 1 at equal steps, `rows` of each in turn: R = depths · rows."""
    return np.repeat(np.linspace(0.0, 1.0, depths), rows)


def smallest_asked(task: Task, trained: int, length: int) -> int:
    """The smallest size of copy or addition: beyond the training length, one more than any size in training; else 1."""
    largest = largest_size(task, trained)
    return 1 if largest is None or length <= trained else largest + 1


def sizes_asked(task: Task, trained: int, length: int, depths: int) -> Float64[np.ndarray, "depths"]:
    """The sizes of copy or addition at the points of the grid, as the tasks round them.

    Raises:
        ValueError: for a task without sizes.
    """
    largest = largest_size(task, length)
    if largest is None:
        raise ValueError(f"{task} has no sizes")
    smallest = smallest_asked(task, trained, length)
    return smallest + np.round(np.linspace(0.0, 1.0, depths) * (largest - smallest))


@dataclass(frozen=True)
class RetrievalSource(DrawnSource):
    """A mixture of retrieval tasks."""

    data: RetrievalData

    @property
    def vocabulary(self) -> int:
        return vocabulary_of(self.data).size

    def sample(self, inputs: UInt32[Array, "2"], shared: None, batch: int) -> Sample:  # noqa: ARG002
        """Rows of the mixture. Every target has the same weight, whichever task it is of.

        Raises:
            UserError: where a task does not fit into the length.
        """
        data = self.data
        shares = data.shares or (1.0,) * len(data.tasks)
        return mixture(step_key(inputs), data.tasks, shares, Batch(data, batch, data.length))

    def held_out(self, sequences: int) -> Sample:
        """Rows of the mixture, drawn with a key of their own, the same for every arm and seed."""
        inputs = step_inputs(HELD_OUT_SEED, 0)
        return jax.jit(self.sample, static_argnums=(1, 2))(inputs, None, sequences)

    def questions(self, task: Task, length: int, depths: int, rows: int) -> Sample:
        """`rows` rows of one task at each of `depths` depths, the same for every arm and seed.

        Copy and addition have sizes instead of depths (`smallest_asked`).

        Raises:
            UserError: where the task does not fit into the length.
        """
        smallest = smallest_asked(task, self.data.length, length)

        def draw(key: Array) -> Sample:
            at = jnp.asarray(grid(depths, rows), jnp.float32)
            return SAMPLES[task](key, Batch(self.data, depths * rows, length, smallest, at))

        key = held_out_key(1 + TASKS.index(task))  # step 0 is the mixture's
        return jax.jit(draw)(jax.random.fold_in(key, length))
