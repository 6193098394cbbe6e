"""What attention has besides queries, keys and values: sinks, normalizers and gates.

To add a normalizer, write its function in model/attention/normalizers.py and its class here.
"""

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from leadline.experiments.config.base import Frozen, Positive

# The sink logit (leadline.model.attention.normalizers).


class NoSink(Frozen):
    """The plain softmax."""

    kind: Literal["none"] = "none"


class FixedSink(Frozen):
    """A constant extra logit in the denominator of the softmax."""

    kind: Literal["fixed"] = "fixed"
    logit: float = Field(lt=math.inf, allow_inf_nan=True, strict=False)  # 0 is the softmax off by one, -inf the plain softmax


class LearnedSink(Frozen):
    """A trained extra logit for each head."""

    kind: Literal["learned"] = "learned"
    logit: float = 0.0  # where training starts
    rate: float = Field(default=1.0, gt=0)  # times the learning rate of the other weights


class KeyBias(Frozen):
    """A learned key for each head before the first token, with a learned value or with value 0 (Gu et al. 2025)."""

    kind: Literal["key_bias", "key_value_bias"]
    dims: Positive | None = None  # the first channels of the key that are learned, the others being 0; absent: all


Sink = Annotated[NoSink | FixedSink | LearnedSink | KeyBias, Field(discriminator="kind")]
SinkLogit = Annotated[NoSink | FixedSink | LearnedSink, Field(discriminator="kind")]

# The normalizers (leadline.model.attention.normalizers).


class Softmax(Frozen):
    """exp(s_j) over the sum of all exp(s_k) and of the exponential of the sink logit."""

    kind: Literal["softmax"] = "softmax"


class Clipped(Frozen):
    """The softmax stretched to [low, high] and clipped to [0, 1] (Bondarenko et al. 2023)."""

    kind: Literal["clipped"] = "clipped"
    low: float = Field(default=-0.03, le=0)  # where the stretched softmax begins
    high: float = Field(default=1.0, ge=1)  # where it ends


class Softpick(Frozen):
    """relu(exp(s_j) - 1) over a sum over all keys (Zuhri et al. 2025)."""

    kind: Literal["softpick"] = "softpick"
    by: Literal["absolute", "sum"] = "absolute"  # the divisor: the sum of all |exp(s_k) - 1|, or of all relu(exp(s_k) - 1)


class Relu(Frozen):
    """relu(s_j), divided by nothing, by the number of visible keys, or by the sum of all."""

    kind: Literal["relu"] = "relu"
    by: Literal["one", "keys", "sum"] = "keys"  # the divisor: 1, the number of visible keys, or the sum


class Sigmoid(Frozen):
    """sigmoid(s_j + bias), each key by itself."""

    kind: Literal["sigmoid"] = "sigmoid"
    bias: float | None = None  # added to every score; absent: minus the logarithm of the training length
    normalised: bool = False  # divide by the sum over all keys


Normalizer = Annotated[Softmax | Clipped | Softpick | Relu | Sigmoid, Field(discriminator="kind")]


# The gates (leadline.model.attention.gate).


class NoGate(Frozen):
    """No gate."""

    kind: Literal["none"] = "none"


class Gate(Frozen):
    """Multiplies what `kind` says by low + (high - low) · activation(x W), x being the input of the layer (Qiu et al. 2025)."""

    kind: Literal["output", "value", "key", "query", "projection"]
    per: Literal["head", "channel", "shared"]  # a value for each head, each channel of each head, or each channel of all heads
    activation: Literal["sigmoid", "silu", "tanh"] = "sigmoid"  # of the gate
    dims: Positive | None = None  # the first channels of x that the gate sees; absent: all
    static: bool = False  # the gate sees no input: its values are weights
    zero: bool = False  # the weights start at 0; with high = 2 the gate starts as no gate
    low: float = 0.0  # value of a closed gate
    high: float = 1.0  # value of an open gate

    def problems(self) -> Iterator[str]:
        if self.kind == "projection" and self.per != "channel":
            yield f'a gate on the projection has per = "channel", not {self.per!r}: there are no heads after it'
        if self.static and self.dims is not None:
            yield f"a static gate sees no input, so it cannot see the first {self.dims} channels: leave dims out"


AnyGate = Annotated[NoGate | Gate, Field(discriminator="kind")]
