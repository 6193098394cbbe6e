"""What a source hands to a training step or a measurement."""

from typing import no_type_check

from flax import struct
from jaxtyping import Array, Float, Int

# Keeps what a task is measured on apart from what it is trained on: no training seed reaches it.
HELD_OUT_SEED = 2**32 - 1


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays
@struct.dataclass
class Sample:
    """Rows of ids whose token t + 1 is the target of position t; what is None is the same for every target.

    `weights` are those of the targets in the loss. `evidence` is the position of the token that a target can be known from,
    -1 where there is none: the distance of a recall is t - evidence, its depth evidence / T.
    """

    tokens: Int[Array, "*C B T+1"]
    weights: Float[Array, "*C B T"] | None = None
    evidence: Int[Array, "*C B T"] | None = None
