"""Bigram-Backcopy: the smallest task on which attention sinks form. The least possible loss is known (`oracle_loss`).

Guo, Pai, Bai, Jiao, Jordan and Mei, "Active-Dormant Attention Heads" (2024), arXiv:2410.13835.

    x_0 = BOS,   x_1 ~ unigram without triggers,   x_{t+1} = x_{t-1} if x_t is a trigger, else x_{t+1} ~ P(. | x_t)

x_1 is no trigger. So a trigger always repeats a token that is neither a trigger nor BOS, and no trigger follows a trigger.
"""

from dataclasses import dataclass
from typing import Any, no_type_check

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array
from jaxtyping import Bool, Float, Float64, Int, Int32, PRNGKeyArray, UInt32
from scipy.special import ndtri

from leadline.experiments.config.data import BackcopyData
from leadline.experiments.data.sample import HELD_OUT_SEED, Sample, step_inputs, step_key
from leadline.experiments.runtime.errors import UserError


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves
@struct.dataclass
class Backcopy:
    """One task over V tokens. BOS is id V, so a model of it has V + 1 ids. `*S` is empty, or an axis of tasks."""

    log_bigram: Float[Array, "*S V V"]  # log P(column | row), in nats
    cumulative_bigram: Float[Array, "*S V V"]  # each row ends in 1
    unigram: Float[Array, "*S V"]  # stationary under P
    cumulative_first: Float[Array, "*S V"]  # of the unigram without triggers
    trigger: Bool[Array, "*S V"]


def make_task(vocabulary: int, triggers: int, task_seed: int, zipf: float = 0.0) -> Backcopy:
    """A random task.

    Each row of P is the softmax of logits N(0, 1) - zipf · ln(id + 1). The unigram is the stationary distribution of P, and the
    triggers are its most frequent tokens. All is computed on the host in float64 and kept in float32.

    The paper takes P from Tiny Shakespeare. A random P needs no download; `zipf` gives it the uneven frequencies of text, where
    the paper's three triggers are 30 % of the tokens (0.152, 0.085, 0.060).

    Args:
        vocabulary: V, ids besides BOS.
        triggers: how many tokens are triggers; of two equally frequent ones the lower id comes first.
        task_seed: of the logits.
        zipf: exponent of the decay of frequencies.

    Raises:
        UserError: unless 0 <= triggers < vocabulary.
    """
    if not 0 <= triggers < vocabulary:
        raise UserError(f"{triggers} triggers among {vocabulary} tokens; from 0 to {vocabulary - 1} are possible")
    logits = _normal(task_seed, (vocabulary, vocabulary)) - zipf * np.log(np.arange(1, vocabulary + 1))
    weights = np.exp(logits)
    bigram = weights / weights.sum(axis=1, keepdims=True)
    unigram = _stationary(bigram)
    trigger = np.zeros(vocabulary, bool)
    trigger[np.argsort(-unigram, kind="stable")[:triggers]] = True
    return Backcopy(
        log_bigram=jnp.asarray(np.log(bigram), jnp.float32),
        cumulative_bigram=jnp.asarray(_cumulative(bigram), jnp.float32),
        unigram=jnp.asarray(unigram, jnp.float32),
        cumulative_first=jnp.asarray(_cumulative(np.where(trigger, 0.0, unigram)), jnp.float32),
        trigger=jnp.asarray(trigger),
    )


def sample(key: PRNGKeyArray, task: Backcopy, batch: int, length: int) -> Int32[Array, "{batch} {length}"]:
    """Sequences of the task, `length` ids each with BOS, drawn on the device from one uniform number u per token.

    A token is the number of entries of its cumulative row that do not exceed u, so a token of probability 0 is never drawn.

    Raises:
        ValueError: for a length below 2, which leaves no token to predict.
    """
    if length < 2:
        raise ValueError(f"a sequence of length {length} has no token after BOS; 2 or more are needed")
    uniform = jax.random.uniform(key, (length - 1, batch))
    bos = jnp.full(batch, task.trigger.shape[-1], jnp.int32)
    first = _draw(task.cumulative_first[None, :], uniform[0])

    def step(state: tuple[Array, Array], u: Array) -> tuple[tuple[Array, Array], Array]:
        before, current = state
        after = jnp.where(task.trigger[current], before, _draw(task.cumulative_bigram[current], u))
        return (current, after), after

    _, rest = jax.lax.scan(step, (bos, first), uniform[1:])
    return jnp.concatenate([bos[None, :], first[None, :], rest]).T


def trigger_queries(tokens: Int32[Array, "B T"], task: Backcopy) -> Bool[Array, "B T"]:
    """Where the token is a trigger, so that the next one is a copy. BOS is no trigger."""
    return jnp.append(task.trigger, False)[tokens]


def bigram_queries(tokens: Int32[Array, "B T"], task: Backcopy) -> Bool[Array, "B T"]:
    """Where the next token is drawn from the bigram: neither a trigger nor BOS."""
    return ~trigger_queries(tokens, task) & (tokens != task.trigger.shape[-1])


def oracle_loss(tokens: Int32[Array, "B T"], task: Backcopy) -> Float[Array, "B T-1"]:
    """-log p(x_{t+1} | x_0 .. x_t) of the process itself, in nats.

    A model's loss minus this, on the same tokens, is its excess risk without the noise of the draw. It is infinite where the
    token after a trigger is not the copy.
    """
    query, following = tokens[:, :-1], tokens[:, 1:]
    before = jnp.concatenate([tokens[:, :1], tokens[:, :-2]], axis=1)
    first = jnp.where(task.trigger, 0.0, task.unigram)
    # Log-probabilities of the token after each id, by bigram; the last row is that after BOS.
    log_next = jnp.concatenate([task.log_bigram, jnp.log(first / first.sum())[None, :]])
    drawn = -log_next[query, following]
    copied = jnp.where(following == before, 0.0, jnp.inf)
    return jnp.where(trigger_queries(query, task), copied, drawn)


def _normal(seed: int, shape: tuple[int, ...]) -> Float64[np.ndarray, "..."]:
    """N(0, 1) by inverse CDF from Philox's bits, which NumPy keeps unchanged, unlike what its distributions draw."""
    bits = np.random.Philox(key=seed).random_raw(shape)
    return ndtri(((bits >> np.uint64(11)) + 0.5) * 2.0**-53)


def _stationary(bigram: Float64[np.ndarray, "V V"]) -> Float64[np.ndarray, "V"]:
    """The pi with pi P = pi and sum 1. The last of the V dependent equations pi P = pi is replaced by the sum."""
    equations = bigram.T - np.eye(len(bigram))
    equations[-1] = 1.0
    return np.linalg.solve(equations, np.eye(len(bigram))[-1])


def _cumulative(weights: Float64[np.ndarray, "*rows V"]) -> Float64[np.ndarray, "*rows V"]:
    """Cumulative probabilities; the division makes the last entry exactly 1, above every uniform number."""
    sums = np.cumsum(weights, axis=-1)
    return sums / sums[..., -1:]


def _draw(cumulative: Float[Array, "rows V"], uniform: Float[Array, "B"]) -> Int32[Array, "B"]:
    return (cumulative <= uniform[:, None]).sum(axis=-1, dtype=jnp.int32)


@dataclass(frozen=True)
class BackcopySource:
    """The task as a source of training steps, and the sequences that its models are measured on."""

    data: BackcopyData
    vocabulary: int
    shared: Backcopy
    tokenizer: None = None

    @property
    def described(self) -> dict[str, Any]:
        return {"name": "backcopy", "digest": None}  # wholly drawn from the configuration and the seed

    def inputs(self, seed: int, step: int, batch: int) -> UInt32[np.ndarray, "3"]:  # noqa: ARG002
        """Seed, step, and how many ids are cut off the front: 1 where BOS is absent, else 0."""
        return np.append(step_inputs(seed, step), np.uint32(self.data.bos == "absent"))

    def sample(self, inputs: UInt32[Array, "3"], shared: Backcopy, batch: int) -> Sample:
        ids = sample(step_key(inputs[:2]), shared, batch, self.data.length + 2)
        return Sample(jax.lax.dynamic_slice_in_dim(ids, inputs[2], self.data.length + 1, axis=1))

    def held_out(self, sequences: int) -> Int[Array, "B T"]:
        """Sequences [sequences, length + 1] drawn with a key of their own, the same for every arm and seed."""
        inputs = self.inputs(HELD_OUT_SEED, 0, sequences)
        return jax.jit(self.sample, static_argnums=2)(inputs, self.shared, sequences).tokens
