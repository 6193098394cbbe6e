"""The ids that all retrieval tasks share, so that one model can learn a mixture of tasks.

    0 … 7   one id per task, which begins its rows
    8 … 12  NEEDLE, EQUALS, PLUS, ASK, END
    then    `fillers` ids that mean nothing, `keys` ids that name things, `values` ids that are looked up
    then    `values_per_key` ids for each key, which only this key has as values

Keys and values have different ids, as RULER's keys are words and its values numbers (Hsieh et al. 2024, arXiv:2404.06654):
with one alphabet for both, a value could be mistaken for the key that is asked for.

With values that all keys share, a lookup takes two layers: one joins a value to the key before it, the next compares keys. A
small model may guess among the values of the context for thousands of steps. With values per key, as in
experiments/data/recall.py, a value identifies its key, and one head that compares contents over a distance is enough.
"""

from itertools import accumulate
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, PRNGKeyArray

from leadline.experiments.config.data import TASKS, RetrievalData, Task
from leadline.experiments.runtime.errors import UserError

AT_A_DEPTH: tuple[Task, ...] = ("passkey", "multi_key", "key_value")  # one needle is asked for, and can be put anywhere
OF_A_SIZE: tuple[Task, ...] = ("copy", "addition")  # rows of one length hold problems of different sizes
NEEDLE, EQUALS, PLUS, ASK, END = range(len(TASKS), len(TASKS) + 5)


class Vocabulary(NamedTuple):
    """The first id of each kind, and the number of all ids."""

    first_filler: int
    first_key: int
    first_value: int
    first_keyed_value: int
    size: int


class Batch(NamedTuple):
    """What a batch of one task is to be."""

    data: RetrievalData  # the ids and the sizes of single tasks
    rows: int  # B
    length: int  # targets T of a row, which has T + 1 ids
    smallest: int = 1  # the smallest size of copy and addition
    # For each row, the depth of the needle asked for, or for copy and addition the size within the range of sizes; from 0 to 1;
    # uniform if absent. Tasks that ask for several needles ignore it.
    at: Float[Array, "B"] | None = None

    @property
    def vocabulary(self) -> Vocabulary:
        return vocabulary_of(self.data)

    def check(self, task: Task, shortest: int, *, keys: int = 0, values: int = 0) -> None:
        """Raises UserError where a task needs a longer row, with the shortest that it fits into, or more distinct ids."""
        if self.length < shortest:
            raise UserError(f"{task} does not fit into a length of {self.length}: the smallest is {shortest}")
        for kind, count, known in (("keys", keys, self.data.keys), ("values", values, self.data.values)):
            if count > known:
                raise UserError(
                    f"{task} needs {count} different {kind}, and there are {known}: set data.{kind} = {count} or more"
                )


def vocabulary_of(data: RetrievalData) -> Vocabulary:
    """The ids of a configuration."""
    counts = (END + 1, data.fillers, data.keys, data.values, data.keys * data.values_per_key)
    return Vocabulary(*accumulate(counts))


def shared_values(key: PRNGKeyArray, vocabulary: Vocabulary, shape: tuple[int, ...]) -> Int32[Array, "..."]:
    """Values that belong to no key, uniform and independent."""
    return jax.random.randint(key, shape, vocabulary.first_value, vocabulary.first_keyed_value, jnp.int32)


def task_id(task: Task) -> int:
    """The id that begins the rows of a task."""
    return TASKS.index(task)
