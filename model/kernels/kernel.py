"""The kernels by name."""

from collections.abc import Callable
from functools import partial
from typing import Literal

from jaxtyping import Array, Float

from model.kernels.clipped import clipped_terms
from model.kernels.rectified import rectified_terms
from model.kernels.sigmoid import sigmoid_terms
from model.kernels.softmax import softmax_terms
from model.kernels.softpick import softpick_terms
from model.kernels.terms import Terms

Kernel = Literal["softmax", "clipped", "softpick", "relu", "relu_by_keys", "relu_by_sum", "sigmoid", "sigmoid_by_sum"]
# Of scores [*B, S], -inf where a key is not visible, and the extra logit [*#B], which only softmax and clipped know.
Weigh = Callable[[Float[Array, "*B S"], Float[Array, "*#B"]], Terms]


def weigh(kernel: Kernel, clip: Float[Array, " 2"], sigmoid_bias: Float[Array, ""]) -> Weigh:
    """The kernel with its values, of which all but clipped and the sigmoids take none."""
    match kernel:
        case "softmax":
            return softmax_terms
        case "clipped":
            return partial(clipped_terms, low=clip[0], high=clip[1])
        case "softpick":
            return lambda scores, _: softpick_terms(scores)
        case "relu":
            return lambda scores, _: rectified_terms(scores, "one")
        case "relu_by_keys":
            return lambda scores, _: rectified_terms(scores, "keys")
        case "relu_by_sum":
            return lambda scores, _: rectified_terms(scores, "sum")
        case "sigmoid":
            return lambda scores, _: sigmoid_terms(scores, sigmoid_bias, normalised=False)
        case "sigmoid_by_sum":
            return lambda scores, _: sigmoid_terms(scores, sigmoid_bias, normalised=True)
