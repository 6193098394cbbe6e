"""One task by name with the sizes of a study, and a mixture in which every row draws its task."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from leadline.experiments.config.data import Task
from leadline.experiments.data.retrieval.addition import addition, longest_addition
from leadline.experiments.data.retrieval.copying import copying, longest_copy
from leadline.experiments.data.retrieval.multi_key import key_value, multi_key, multi_query
from leadline.experiments.data.retrieval.multi_value import multi_value
from leadline.experiments.data.retrieval.passkey import passkey
from leadline.experiments.data.retrieval.variable_tracking import variable_tracking
from leadline.experiments.data.retrieval.vocabulary import Vocabulary
from leadline.experiments.data.sample import Sample


@dataclass(frozen=True)
class Tasks:
    """The ids that all tasks share, and the sizes of single tasks."""

    vocabulary: Vocabulary
    symbols: int = 1  # of a passkey or a value
    needles: int = 4  # of multi_key
    queries: int = 8  # of multi_query
    answers: int = 4  # of multi_value
    chains: int = 2  # of variable_tracking
    hops: int = 2


def largest_size(task: Task, length: int) -> int | None:
    """Symbols or digits of the largest problem that fits, for the tasks that come in sizes."""
    match task:
        case "copy":
            return longest_copy(length)
        case "addition":
            return longest_addition(length)
        case _:
            return None


def task_sample(
    key: PRNGKeyArray,
    tasks: Tasks,
    task: Task,
    batch: int,
    length: int,
    *,
    smallest: int = 1,
    at: Float[Array, "B"] | None = None,
) -> Sample:
    """A batch of one task.

    Args:
        key: of the draw.
        tasks: the ids and the sizes.
        task: its name.
        batch: rows B.
        length: targets T of a row, which has T + 1 ids.
        smallest: the smallest size of copy and addition.
        at: for each row, the depth of the needle asked for, or for copy and addition the size within the range of sizes; from
            0 to 1. Tasks that ask for several needles (multi_query, multi_value, variable_tracking) ignore it.

    Raises:
        UserError: where the task does not fit into the length, with the smallest that it fits into.
    """
    vocabulary = tasks.vocabulary
    match task:
        case "passkey":
            return passkey(key, vocabulary, batch, length, symbols=tasks.symbols, at=at)
        case "multi_key":
            return multi_key(key, vocabulary, batch, length, needles=tasks.needles, symbols=tasks.symbols, at=at)
        case "multi_query":
            return multi_query(key, vocabulary, batch, length, needles=tasks.queries)
        case "multi_value":
            return multi_value(key, vocabulary, batch, length, answers=tasks.answers)
        case "variable_tracking":
            return variable_tracking(key, vocabulary, batch, length, chains=tasks.chains, hops=tasks.hops)
        case "key_value":
            return key_value(key, vocabulary, batch, length, symbols=tasks.symbols, at=at)
        case "copy":
            return copying(key, vocabulary, batch, length, smallest=smallest, at=at)
        case "addition":
            return addition(key, vocabulary, batch, length, smallest=smallest, at=at)


def mixture(key: PRNGKeyArray, tasks: Tasks, names: Sequence[Task], shares: Sequence[float], batch: int, length: int) -> Sample:
    """Rows whose task is drawn with probability shares[i] / sum(shares).

    All tasks are drawn for all rows and one is kept. A switch under `vmap` would do the same, and a step of training costs far
    more than these integers.

    Raises:
        UserError: where a task does not fit into the length.
    """
    which, *keys = jax.random.split(key, 1 + len(names))
    drawn = [task_sample(task_key, tasks, name, batch, length) for task_key, name in zip(keys, names, strict=True)]
    stacked = jax.tree.map(lambda *arrays: jnp.stack(arrays), *drawn)
    odds = jnp.log(jnp.asarray(shares, jnp.float32))
    chosen = jax.random.categorical(which, odds, shape=(batch,))
    rows = jnp.arange(batch)
    return jax.tree.map(lambda arrays: arrays[chosen, rows], stacked)
