"""One key with several values, all of them asked for."""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from leadline.experiments.data.retrieval.haystack import answered, column, distinct, fillers, haystack, place
from leadline.experiments.data.retrieval.vocabulary import ASK, Vocabulary, check_length, task_id
from leadline.experiments.data.sample import Sample


def multi_value(key: PRNGKeyArray, vocabulary: Vocabulary, batch: int, length: int, *, answers: int = 4) -> Sample:
    """Fillers with pairs [k, v_1], …, [k, v_n] of one key among them, then [ASK, k, v_1 … v_n] in the order of the text.

    RULER's niah_multivalue (Hsieh et al. 2024, arXiv:2404.06654) accepts the values in any order and scores the share that is
    named. Here the answer has one order, and all values have to be right. They are all different, so that each determines the
    next.

    Raises:
        UserError: where the pairs do not fit into `length`, or there are too few values.
    """
    check_length("multi_value", length, 3 * answers + 2)
    vocabulary.need("values", answers, "multi_value")
    noise, name, draw, where = jax.random.split(key, 4)
    named = jax.random.randint(name, (batch, 1), vocabulary.first_key, vocabulary.first_value, jnp.int32)
    values = distinct(draw, batch, vocabulary.first_value, vocabulary.values, answers)
    size = length - 2 - answers
    slots = jnp.sort(place(where, batch, size - answers, answers), axis=1)
    pairs = jnp.stack([jnp.broadcast_to(named, values.shape), values], axis=2)
    hidden = haystack(fillers(noise, vocabulary, batch, size), pairs, slots)
    question = jnp.concatenate([column(ASK, batch), named], axis=1)
    return answered(task_id("multi_value"), hidden.context, question, values, hidden.starts + 1)
