"""The ids that all retrieval tasks share, so that one model can learn a mixture of them.

    0 … 7   one id a task, which begins its rows
    8 … 12  NEEDLE, EQUALS, PLUS, ASK, END
    then    `fillers` ids that mean nothing, `keys` ids that name things, `values` ids that are looked up
    then    `own_values` ids for each key, which are looked up by this key alone

Keys and values have ids of their own, as RULER's keys are words and its values numbers (Hsieh et al. 2024, arXiv:2404.06654):
where one alphabet served both, a value could be mistaken for the key that is asked for.

With values that all keys share, a lookup takes two layers: one joins a value to the key before it, the next compares keys. A
small model may stay for thousands of steps where it guesses among the values of the context. Own values name their key, as the
values of experiments/data/recall.py do, and one head that compares contents over a distance is enough.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from experiments.errors import UserError

Task = Literal["passkey", "multi_key", "multi_query", "multi_value", "variable_tracking", "key_value", "copy", "addition"]
TASKS: tuple[Task, ...] = get_args(Task)
AT_A_DEPTH: tuple[Task, ...] = ("passkey", "multi_key", "key_value")  # one needle is asked for, and can be put anywhere
OF_A_SIZE: tuple[Task, ...] = ("copy", "addition")  # rows of one length hold problems of different sizes
NEEDLE, EQUALS, PLUS, ASK, END = range(len(TASKS), len(TASKS) + 5)
DIGITS = 10  # addition's digits are the first values


@dataclass(frozen=True)
class Vocabulary:
    """How many ids there are of each kind. UserError for fewer than one filler or key, or fewer values than digits."""

    keys: int
    values: int
    fillers: int
    own_values: int = 0  # of each key; 0: what is looked up by a key is one of the values that all share

    def __post_init__(self) -> None:
        for name, count, least in (("keys", self.keys, 1), ("fillers", self.fillers, 1), ("values", self.values, DIGITS)):
            if count < least:
                raise UserError(f"{count} {name}: retrieval needs {least} or more")

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
    def first_own_value(self) -> int:
        return self.first_value + self.values

    @property
    def size(self) -> int:
        return self.first_own_value + self.keys * self.own_values

    def need(self, kind: Literal["keys", "values"], count: int, task: Task) -> None:
        """UserError where a task needs more distinct ids than there are."""
        known = self.keys if kind == "keys" else self.values
        if count > known:
            raise UserError(f"{task} needs {count} different {kind}, and there are {known}: set data.{kind} = {count} or more")


def task_id(task: Task) -> int:
    return TASKS.index(task)


def check_length(task: Task, length: int, smallest: int) -> None:
    """UserError where a task does not fit, with the least length at which it does: nothing is shrunk or tried again."""
    if length < smallest:
        raise UserError(f"{task} does not fit into a length of {length}: the smallest is {smallest}")
