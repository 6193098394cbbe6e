"""What a source hands to a training step or a measurement, and how it keys what it draws."""

from dataclasses import dataclass
from typing import Any, no_type_check

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

from leadline.experiments.config.data import Data

# The key of every held-out draw, of text and of tasks. No training seed is as large.
HELD_OUT_SEED = 2**32 - 1


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays
@struct.dataclass
class Sample:
    """Rows of ids whose token t + 1 is the target of position t."""

    tokens: Int[Array, "*C B T+1"]
    weights: Float[Array, "*C B T"] | None = None  # of each target in the loss; None: all are equal
    # The position of the token from which a target can be known, -1 where there is none; None: nowhere. The distance of a
    # recall is t - evidence, its depth evidence / T.
    evidence: Int[Array, "*C B T"] | None = None


def step_inputs(seed: int, step: int) -> UInt32[np.ndarray, "2"]:
    """What the host hands to a step that draws its own rows."""
    return np.array([seed, step], np.uint32)


def held_out_key(number: int) -> PRNGKeyArray:
    """The key of a held-out draw of a task, which no step of training has; `number` tells the draws of one task apart."""
    return step_key(jnp.asarray(step_inputs(HELD_OUT_SEED, number)))


def step_key(inputs: UInt32[Array, "2"]) -> PRNGKeyArray:
    """The key of the rows of one step, from `step_inputs`."""
    return jax.random.fold_in(jax.random.key(inputs[0]), inputs[1])


@dataclass(frozen=True)
class DrawnSource:
    """A task of which every row is drawn from the configuration and the seed: the part that all such sources share."""

    data: Data
    shared: None = None
    tokenizer: None = None

    @property
    def described(self) -> dict[str, Any]:
        return {"name": self.data.kind, "digest": None}

    def inputs(self, seed: int, step: int, batch: int) -> UInt32[np.ndarray, "2"]:  # noqa: ARG002
        return step_inputs(seed, step)
