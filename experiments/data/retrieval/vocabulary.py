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

from dataclasses import dataclass
from typing import Literal, NamedTuple

from jaxtyping import Array, Float

from leadline.experiments.config.data import TASKS, RetrievalData, Task
from leadline.experiments.runtime.errors import UserError

AT_A_DEPTH: tuple[Task, ...] = ("passkey", "multi_key", "key_value")  # one needle is asked for, and can be put anywhere
OF_A_SIZE: tuple[Task, ...] = ("copy", "addition")  # rows of one length hold problems of different sizes
NEEDLE, EQUALS, PLUS, ASK, END = range(len(TASKS), len(TASKS) + 5)


@dataclass(frozen=True)
class Vocabulary:
    """How many ids there are of each kind."""

    keys: int
    values: int
    fillers: int
    values_per_key: int = 0  # 0: all keys share the values

    @property
    def first_filler(self) -> int:
        return END + 1

    @property
    def first_key(self) -> int:
        return self.first_filler + self.fillers

    @property
    def first_value(self) -> int:
        return self.first_key + self.keys

    @property
    def first_keyed_value(self) -> int:
        return self.first_value + self.values

    @property
    def size(self) -> int:
        return self.first_keyed_value + self.keys * self.values_per_key

    def need(self, kind: Literal["keys", "values"], count: int, task: Task) -> None:
        """Raises UserError where a task needs more distinct ids than there are."""
        known = self.keys if kind == "keys" else self.values
        if count > known:
            raise UserError(f"{task} needs {count} different {kind}, and there are {known}: set data.{kind} = {count} or more")


class Batch(NamedTuple):
    """What a batch of one task is to be.

    Attributes:
        data: the ids and the sizes of single tasks.
        rows: B.
        length: targets T of a row, which has T + 1 ids.
        smallest: the smallest size of copy and addition.
        at: for each row, the depth of the needle asked for, or for copy and addition the size within the range of sizes; from
            0 to 1; uniform if absent. Tasks that ask for several needles ignore it.
    """

    data: RetrievalData
    rows: int
    length: int
    smallest: int = 1
    at: Float[Array, "B"] | None = None

    @property
    def vocabulary(self) -> Vocabulary:
        return vocabulary_of(self.data)


def vocabulary_of(data: RetrievalData) -> Vocabulary:
    """The ids of a configuration."""
    return Vocabulary(data.keys, data.values, data.fillers, data.values_per_key)


def task_id(task: Task) -> int:
    """The id that begins the rows of a task."""
    return TASKS.index(task)


def check_length(task: Task, length: int, smallest: int) -> None:
    """Raises UserError where a task does not fit into the length, with the smallest length that it fits into."""
    if length < smallest:
        raise UserError(f"{task} does not fit into a length of {length}: the smallest is {smallest}")
