"""What a kernel returns."""

from typing import NamedTuple

from jaxtyping import Array, Float


class Terms(NamedTuple):
    """The weights p_j = numerators_j / total of the values, not divided out, as one division of the output is cheaper.

    Attributes:
        numerators: of every key, 0 for one that is not visible.
        total: what the output is divided by; 1 where a kernel does not normalise.
        extra: the extra logit's own numerator.
        mass: Σ_j |numerators_j| + extra, or 1 where that is 0. Statistics are shares of it, so that the weights of a kernel
            that does not normalise can be compared with the others (the proxy of Gu et al. 2024, arXiv:2410.10781).
        lse: of a softmax the logarithm of its denominator, or 0 where that is 0; the others have none.
    """

    numerators: Float[Array, "*B S"]
    total: Float[Array, "*B"]
    extra: Float[Array, "*B"]
    mass: Float[Array, "*B"]
    lse: Float[Array, "*B"] | None = None
