"""Chains of assignments: which variables have this value?"""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from leadline.experiments.data.retrieval.haystack import answered, column, distinct, fillers, haystack, place
from leadline.experiments.data.retrieval.vocabulary import ASK, EQUALS, Vocabulary, check_length, task_id
from leadline.experiments.data.sample import Sample


def variable_tracking(
    key: PRNGKeyArray, vocabulary: Vocabulary, batch: int, length: int, *, chains: int = 2, hops: int = 2
) -> Sample:
    """Fillers with statements [x_1, =, v], [x_2, =, x_1], … among them, then [ASK, v, x_1, x_2 …] for one chain.

    RULER's variable tracking (Hsieh et al. 2024, arXiv:2404.06654): `chains` chains of 1 + hops statements each, interleaved
    but in order within a chain; all variables of one value are asked for. RULER has one chain of four hops and scores the share
    of variables that are named in any order; here they follow the order of the chain, and all have to be right. Each token of
    the answer takes one step of the chain. Asking for the last variable alone would take all steps in one token, which measures
    the depth of the model rather than its reach.

    Raises:
        UserError: where the statements do not fit into `length`, or there are too few keys or values.
    """
    links, count = 1 + hops, chains * (1 + hops)
    check_length("variable_tracking", length, 3 * count + links + 2)
    vocabulary.need("keys", count, "variable_tracking")
    vocabulary.need("values", chains, "variable_tracking")
    noise, names, draw, where, mixed = jax.random.split(key, 5)
    variables = distinct(names, batch, vocabulary.first_key, vocabulary.keys, count).reshape(batch, chains, links)
    values = distinct(draw, batch, vocabulary.first_value, vocabulary.values, chains)
    sources = jnp.concatenate([values[:, :, None], variables[:, :, :-1]], axis=2)
    statements = jnp.stack([variables, jnp.full_like(variables, EQUALS), sources], axis=3).reshape(batch, count, 3)
    size = length - 2 - links
    free = jnp.sort(place(where, batch, size - 2 * count, count), axis=1)
    # Which of the sorted slots are each chain's: a random share, ascending within the chain.
    ranks = jnp.sort(place(mixed, batch, count, count).reshape(batch, chains, links), axis=2).reshape(batch, count)
    slots = jnp.take_along_axis(free, ranks, axis=1)
    hidden = haystack(fillers(noise, vocabulary, batch, size), statements, slots)
    question = jnp.concatenate([column(ASK, batch), values[:, :1]], axis=1)
    return answered(task_id("variable_tracking"), hidden.context, question, variables[:, 0], hidden.starts[:, :links])
