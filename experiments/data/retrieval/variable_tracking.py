"""Chains of assignments: which variables have this value?"""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from experiments.data.retrieval.haystack import answered, distinct, fillers, haystack, place
from experiments.data.retrieval.vocabulary import ASK, EQUALS, Vocabulary, check_length, task_id
from experiments.data.sample import Sample


def variable_tracking(
    key: PRNGKeyArray, vocabulary: Vocabulary, batch: int, length: int, *, chains: int = 2, hops: int = 2
) -> Sample:
    """Fillers with statements [x_1, =, v], [x_2, =, x_1], … among them, then [ASK, v, x_1, x_2 …] for one chain.

    RULER's variable tracking (Hsieh et al. 2024, arXiv:2404.06654): `chains` chains of 1 + hops statements each, whose
    statements mix but keep their order within a chain, and all variables of one value are asked for. It has one chain of
    four hops and counts the share of the variables that are named in any order; here they come in the order of the chain,
    and all have to be right. To ask for all is one step of the chain a token; to ask for the last value alone would be all
    steps in one token, which measures depth of the model rather than reach.

    Raises UserError where the statements do not fit into `length`, or keys or values do not suffice.
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
    question = jnp.concatenate([jnp.full((batch, 1), ASK, jnp.int32), values[:, :1]], axis=1)
    return answered(task_id("variable_tracking"), hidden.context, question, variables[:, 0], hidden.starts[:, :links])
